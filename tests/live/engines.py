"""The systems that grant locks, each with a real server, as the conformance tests of backends use
them.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.live.conftest import PATIENCE, until
from tests.live.nodes import Nodes
from tests.ports import reserved_ports
from tests.requirements import program
from tests.unit.fencing.conftest import as_another

import habemus
from habemus.client.blocking import Cluster
from habemus.torture.links import ProxyLink

FORKING = """
import habemus, os, sys, time
with habemus.connect(sys.argv[1]) as cluster, cluster.lock(sys.argv[2], lease=3) as lease:
    child = os.fork()
    if child:
        print(child, flush=True)
    time.sleep(1000)
"""
CLIENT = """
import habemus, sys, time
with habemus.connect(sys.argv[1]) as cluster:
    with cluster.lock(sys.argv[2], lease=3) as lease:
        print(lease.token, flush=True)
        time.sleep(1000)
"""


def client(url: str, name: str, program: str = CLIENT) -> subprocess.Popen[str]:
    """Start a process that acquires a lock, prints its token, and keeps the lock."""
    return subprocess.Popen(
        [sys.executable, "-c", program, url, name], stdout=subprocess.PIPE, text=True
    )


@cache
def proxies() -> asyncio.AbstractEventLoop:
    """Return the event loop of all proxies; it runs in a thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def listening(link: ProxyLink) -> int:
    """Start a proxy; return its port."""
    return asyncio.run_coroutine_threadsafe(link.listen(), proxies()).result(PATIENCE)


class System(ABC):
    """A system that grants locks."""

    keeps_places = False
    """Whether a request keeps its place when the connection of its client breaks."""
    commands_notice = True
    """Whether a command under `habemus lock` is ended when its lock is taken away."""
    is_local = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""

    @abstractmethod
    def stop(self) -> None:
        """Kill the server."""

    @abstractmethod
    def start(self) -> None:
        """Start the server, again if it was stopped; return when it answers."""

    @abstractmethod
    def refused(self) -> Cluster:
        """Return a client with wrong credentials."""

    @abstractmethod
    def unreachable(self) -> str:
        """Return a URL at which there is no server."""

    @abstractmethod
    def through(self, link: ProxyLink, name: str) -> Cluster:
        """Return a client behind a proxy."""

    def take_away(self, cluster: Cluster, name: str) -> None:
        """Have the holder of a lock lose it."""
        cluster.force(name)


class Own(System):
    """A node of a cluster."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "secret").write_text("a secret of 32 bytes, or of more")
        (folder / "secret").chmod(0o600)
        self._nodes = Nodes(folder, size=1, head='secret_file = "secret"\n')
        self.url = str(self._nodes.file)

    def stop(self) -> None:
        self._nodes.kill(1)

    def start(self) -> None:
        self._nodes.start(1)

    def refused(self) -> Cluster:
        return habemus.connect(self._nodes.address(1), secret=b"another secret of 32 bytes or so")

    def unreachable(self) -> str:
        return f"127.0.0.1:{reserved_ports(1)[0]}"

    def through(self, link: ProxyLink, name: str) -> Cluster:
        address = self._nodes.address(1)
        link.port = int(address.rpartition(":")[2])
        secret = (self.folder / "secret").read_bytes()
        return habemus.connect(f"127.0.0.1:{listening(link)}", secret=secret, name=name)


class Local(System):
    """The kernel."""

    commands_notice = False  # the file of a lock is in the hands of its user
    is_local = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = f"local://{folder}/locks"

    def stop(self) -> None:
        shutil.rmtree(self.folder / "locks", ignore_errors=True)

    def start(self) -> None:
        pass

    def refused(self) -> Cluster:
        open_to_all = self.folder / "open"
        open_to_all.mkdir(exist_ok=True)
        open_to_all.chmod(0o777)
        return habemus.connect(f"local://{open_to_all}")

    def unreachable(self) -> str:
        (self.folder / "file").touch()
        return f"local://{self.folder}/file/locks"

    def through(self, link: ProxyLink, name: str) -> Cluster:
        pytest.skip("a local lock has no connection that could break")

    def take_away(self, cluster: Cluster, name: str) -> None:
        (self.folder / "locks" / f"locks%2F{name}.lock").unlink()


class Server(System):
    """A server that is a process."""

    end = signal.SIGKILL

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.port,) = reserved_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that starts the server."""

    def user(self) -> dict[str, Any]:
        """Return the arguments of `Popen` for the user that runs the server."""
        return {}

    def ready(self) -> bool:
        with socket.socket() as made:
            return made.connect_ex(("127.0.0.1", self.port)) == 0

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), cwd=self.folder, stdout=log, stderr=log, **self.user()
            )
        until(self.ready)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(self.end)
            self._process.wait(PATIENCE)
            self._process = None

    def unreachable(self) -> str:
        return self.url.replace(f":{self.port}", f":{reserved_ports(1)[0]}")

    def through(self, link: ProxyLink, name: str) -> Cluster:
        link.port = self.port
        return habemus.connect(self.url.replace(f":{self.port}", f":{listening(link)}"), name=name)


class PostgreSQL(Server):
    """A PostgreSQL server, with passwords."""

    end = signal.SIGQUIT  # ends its processes as well, without a checkpoint

    def __init__(self, folder: Path) -> None:
        user, group = as_another()
        os.chown(folder, user, group)
        (folder / "password").write_text("correct")
        (folder / "password").chmod(0o644)
        self._data = folder / "data"
        options = ["-U", "habemus", "-A", "scram-sha-256", "--pwfile", str(folder / "password")]
        initdb = program("PostgreSQL", "initdb")
        subprocess.run(
            [initdb, "-D", str(self._data), *options, "--no-locale", "--no-sync"],
            check=True,
            cwd=folder,
            capture_output=True,
            **self.user(),
        )
        super().__init__(folder)
        self.url = f"postgresql://habemus:correct@127.0.0.1:{self.port}/postgres"

    def user(self) -> dict[str, Any]:
        user, group = as_another()
        return {} if os.geteuid() else {"user": user, "group": group, "extra_groups": []}

    def command(self) -> list[str]:
        settings = [f"port={self.port}", "listen_addresses=127.0.0.1", "fsync=off"]
        settings.append("unix_socket_directories=")
        command = [program("PostgreSQL", "postgres"), "-D", str(self._data)]
        return command + [word for setting in settings for word in ("-c", setting)]

    def ready(self) -> bool:
        log = (self.folder / "log").read_text()
        return super().ready() and "ready to accept" in log.rpartition("starting PostgreSQL")[2]

    def refused(self) -> Cluster:
        return habemus.connect(self.url.replace("correct", "wrong"))


class Redis(Server):
    """A Redis server, with a password, that stores nothing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = f"redis://:correct@127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        settings = ["--port", str(self.port), "--bind", "127.0.0.1", "--requirepass", "correct"]
        return [program("Redis", "redis-server"), *settings, "--save", ""]

    def refused(self) -> Cluster:
        return habemus.connect(self.url.replace("correct", "wrong"))


class Etcd(Server):
    """An etcd server, with a password."""

    keeps_places = True

    def __init__(self, folder: Path) -> None:
        (self._peers,) = reserved_ports(1)
        super().__init__(folder)
        root = {"name": "root", "password": "correct"}
        for path, body in (
            ("auth/user/add", root),
            ("auth/role/add", {"name": "root"}),
            ("auth/user/grant", {"user": "root", "role": "root"}),
            ("auth/enable", {}),
        ):
            self._post(path, body)
        self.url = f"etcd://root:correct@127.0.0.1:{self.port}"

    def _post(self, path: str, body: dict[str, str]) -> int:
        try:
            connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            connection.request("POST", f"/v3/{path}", json.dumps(body))
            status = connection.getresponse().status
            connection.close()
        except OSError:
            return 0
        return status

    def ready(self) -> bool:
        return self._post("maintenance/status", {}) == 200

    def command(self) -> list[str]:
        here, peers = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self._peers}"
        return [
            program("etcd", "etcd"),
            *("--data-dir", str(self.folder / "data"), "--name", "one", "--log-level", "error"),
            *("--listen-client-urls", here, "--advertise-client-urls", here),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"one={peers}", "--unsafe-no-fsync"),
        ]

    def refused(self) -> Cluster:
        return habemus.connect(self.url.replace("correct", "wrong"))


class ZooKeeper(Server):
    """A ZooKeeper server; the first client protects its nodes by a password."""

    keeps_places = True

    jars = ("zookeeper.jar", "netty-codec.jar", "netty-resolver.jar")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = f"zookeeper://habemus:correct@127.0.0.1:{self.port}"
        with habemus.connect(self.url):
            pass

    def ready(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as asking:
            asking.sendall(b"srvr")
            return b"Mode" in asking.recv(1 << 16)
        return False

    def settings(self) -> list[str]:
        return [f"clientPort={self.port}", "clientPortAddress=127.0.0.1"]

    def command(self) -> list[str]:
        settings = self.folder / "zoo.cfg"
        lines = [f"dataDir={self.folder}/data", "tickTime=500", *self.settings()]
        settings.write_text("\n".join(lines))
        # Debian's zookeeper.jar does not name the jar of netty's codecs, which TLS needs.
        jar = Path(program("ZooKeeper", "zookeeper.jar"))
        jars = os.pathsep.join(str(jar.with_name(name)) for name in self.jars)
        java = [program("ZooKeeper", "java"), "-Xmx256m", "-cp", jars]
        flags = ["-Dzookeeper.admin.enableServer=false", "-Dzookeeper.forceSync=no"]
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        return [*java, *flags, main, str(settings)]

    def refused(self) -> Cluster:
        return habemus.connect(self.url.replace("correct", "wrong"))


SYSTEMS: dict[str, type[System]] = {
    "own": Own,
    "local": Local,
    "postgresql": PostgreSQL,
    "redis": Redis,
    "etcd": Etcd,
    "zookeeper": ZooKeeper,
}
