"""Servers of the engines that grant locks, started on this machine for torture and benchmarks.

A server reaches another one at the ports that `Servers.seen` names for the pair, so that a proxy
can be put in between.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

POSTGRESQL = Path("/usr/lib/postgresql")
ZOOKEEPER_JAR = "/usr/share/java/zookeeper.jar"
PEER_PORTS = {"etcd": 1, "zookeeper": 2}
"""Ports that a server has for the other servers, beside the one for clients."""


_PR_SET_PDEATHSIG = 1
# loaded here, because little is safe between fork and exec
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, even if it is stopped."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class NotInstalled(ValueError):
    """A program that is needed is not installed."""


class Servers(NamedTuple):
    """Servers of one engine."""

    engine: str
    folder: Path
    """Each server has a folder for its data in this one."""
    ports: Mapping[int, int]
    """Port for clients of each server."""
    peers: Mapping[int, Sequence[int]]
    """Ports for other servers."""
    seen: Callable[[int, int], Sequence[int]]
    """The ports at which a server reaches another one; with twice the same number, those that an
    etcd server advertises."""
    is_synced: bool = True
    """Whether writes are synced to the disk."""

    def data(self, number: int) -> Path:
        return self.folder / f"node-{number}"

    def command(self, number: int) -> list[str]:
        """Return the command that starts a server; prepare its folder."""
        self.data(number).mkdir(parents=True, exist_ok=True)
        return _COMMANDS[self.engine](self, number)

    def url(self, ports: Mapping[int, int]) -> str:
        """Return the URL of the servers for clients, at these ports."""
        hosts = ",".join(f"127.0.0.1:{port}" for _, port in sorted(ports.items()))
        return {
            "local": f"local://{self.folder}",
            "postgresql": f"postgresql://habemus@{hosts}/postgres",
            "redis": f"redis://{hosts}/0",
            "redis-volatile": f"redis://{hosts}/0",
            "etcd": f"etcd://{hosts}",
            "zookeeper": f"zookeeper://{hosts}",
        }[self.engine]


def program(name: str, package: str) -> str:
    """Return the path of a program; `NotInstalled` if there is none."""
    places = [str(folder) for folder in sorted(POSTGRESQL.glob("*/bin"), reverse=True)]
    path = os.pathsep.join([*places, os.environ.get("PATH", ""), "/usr/sbin"])
    found = shutil.which(name, path=path)
    if found is None:
        raise NotInstalled(f"{name} is not installed; on Debian: apt-get install {package}")
    return found


def _redis(servers: Servers, number: int) -> list[str]:
    kept = ["no"] if servers.engine == "redis-volatile" else ["yes", "--appendfsync", "always"]
    settings = ["--port", str(servers.ports[number]), "--bind", "127.0.0.1"]
    return [
        program("redis-server", "redis-server"),
        *settings,
        *("--dir", str(servers.data(number)), "--repl-diskless-sync-delay", "0"),
        *("--save", "", "--appendonly", *kept),
    ]


def as_postgres() -> list[str]:
    """Return the words before a command of PostgreSQL, which must not be run by root."""
    if os.geteuid():
        return []
    user = _user()
    change = [program("setpriv", "util-linux"), f"--reuid={user.pw_uid}"]
    return [*change, f"--regid={user.pw_gid}", "--clear-groups"]


def _user() -> pwd.struct_passwd:
    names = {user.pw_name: user for user in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def give_to_postgres(*folders: Path) -> None:
    """Let the user that runs PostgreSQL own these folders."""
    if not os.geteuid():
        user = _user()
        for folder in folders:
            os.chown(folder, user.pw_uid, user.pw_gid)


def _postgresql(servers: Servers, number: int) -> list[str]:
    data = servers.data(number)
    give_to_postgres(servers.folder, data)
    change = as_postgres()
    if not (data / "PG_VERSION").exists():
        initdb = [*change, program("initdb", "postgresql"), "-D", str(data), "-U", "habemus"]
        subprocess.run([*initdb, "-A", "trust", "--no-locale"], check=True, capture_output=True)
    settings = [f"port={servers.ports[number]}", "listen_addresses=127.0.0.1"]
    settings += ["unix_socket_directories=", f"fsync={'on' if servers.is_synced else 'off'}"]
    options = [word for setting in settings for word in ("-c", setting)]
    return [*change, program("postgres", "postgresql"), "-D", str(data), *options]


def _etcd(servers: Servers, number: int) -> list[str]:
    here = f"http://127.0.0.1:{servers.ports[number]}"
    seen = {each: f"http://127.0.0.1:{servers.seen(each, each)[0]}" for each in servers.ports}
    members = ",".join(f"n{each}={url}" for each, url in sorted(seen.items()))
    data = servers.data(number) / "data"
    return [
        program("etcd", "etcd-server"),
        *("--name", f"n{number}", "--data-dir", str(data), "--log-level", "error"),
        *("--listen-client-urls", here, "--advertise-client-urls", here),
        *("--listen-peer-urls", f"http://127.0.0.1:{servers.peers[number][0]}"),
        *("--initial-advertise-peer-urls", seen[number], "--initial-cluster", members),
        *([] if servers.is_synced else ["--unsafe-no-fsync"]),
    ]


def _zookeeper(servers: Servers, number: int) -> list[str]:
    if not Path(ZOOKEEPER_JAR).exists():
        raise NotInstalled(f"there is no {ZOOKEEPER_JAR}; on Debian: apt-get install zookeeper")
    data = servers.data(number)
    lines = [f"dataDir={data}", "tickTime=500", "initLimit=20", "syncLimit=10"]
    lines += [f"clientPort={servers.ports[number]}", "clientPortAddress=127.0.0.1"]
    is_alone = len(servers.ports) == 1
    if not is_alone:
        for each in sorted(servers.ports):
            own = each == number
            ports = servers.peers[each] if own else servers.seen(number, each)
            lines.append(f"server.{each}=127.0.0.1:{ports[0]}:{ports[1]}")
        (data / "myid").write_text(f"{number}\n", encoding="ascii")
    settings = data / "zoo.cfg"
    settings.write_text("\n".join(lines) + "\n", encoding="utf-8")
    main = "ZooKeeperServerMain" if is_alone else "quorum.QuorumPeerMain"
    return [
        *(program("java", "default-jre-headless"), "-Xmx256m", "-cp", ZOOKEEPER_JAR),
        "-Dzookeeper.admin.enableServer=false",
        *([] if servers.is_synced else ["-Dzookeeper.forceSync=no"]),
        f"org.apache.zookeeper.server.{main}",
        str(settings),
    ]


_COMMANDS: dict[str, Callable[[Servers, int], list[str]]] = {
    "postgresql": _postgresql,
    "redis": _redis,
    "redis-volatile": _redis,
    "etcd": _etcd,
    "zookeeper": _zookeeper,
}
