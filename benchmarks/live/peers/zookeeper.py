"""kazoo's Lock on a ZooKeeper server."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.live.rival import Absent, Service, answers, free_port, program

JAR = Path("/usr/share/java/zookeeper.jar")


class ZooKeeper(Service):
    def __init__(self) -> None:
        super().__init__("ZooKeeper")

    def start(self, folder: Path) -> None:
        import_module("kazoo")
        if not JAR.exists():
            raise Absent(f"there is no {JAR}; on Debian: apt-get install zookeeper")
        self._port = free_port()
        settings = folder / "zoo.cfg"
        lines = (
            f"dataDir={folder}/data",
            "tickTime=2000",
            "clientPortAddress=127.0.0.1",
            f"clientPort={self._port}",
            "admin.enableServer=false",
        )
        settings.write_text("\n".join(lines) + "\n")
        command = [
            program("java", "default-jre-headless"),
            "-Xmx512m",
            "-Dzookeeper.admin.enableServer=false",
            "-cp",
            str(JAR),
        ]
        self.spawn(
            [*command, "org.apache.zookeeper.server.ZooKeeperServerMain", str(settings)],
            folder,
            answers(self._port),
        )

    def door(self) -> Door:
        return Door(self._port)


@dataclass(frozen=True)
class Door:
    port: int

    def open(self) -> _Client:
        logging.getLogger("kazoo").addHandler(logging.NullHandler())
        client = import_module("kazoo.client").KazooClient(f"127.0.0.1:{self.port}")
        client.start()
        return _Client(client)


class _Client:
    def __init__(self, client: Any) -> None:
        self._client = client

    def lock(self, name: str) -> Any:
        return self._client.Lock(f"/{name}")
