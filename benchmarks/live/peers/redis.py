"""redis-py's Lock on a Redis server."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.live.rival import Service, answers, free_port, program

LEASE_SECONDS = 10
"""By default it has none, and whoever dies inside keeps the lock for ever."""
SLEEP_SECONDS = 0.1
"""Between two tries, by default."""


class Redis(Service):
    def __init__(self, name: str = "Redis", *, durable: bool = False) -> None:
        super().__init__(name)
        self._durable = durable

    def start(self, folder: Path) -> None:
        import_module("redis")
        self._port, self._path = free_port(), f"{folder}/redis.sock"
        command = [
            program("redis-server", "redis-server"),
            "--bind",
            "127.0.0.1",
            "--port",
            f"{self._port}",
            "--unixsocket",
            self._path,
        ]
        command += [
            "--dir",
            str(folder),
            "--save",
            "",
            "--appendonly",
            "yes" if self._durable else "no",
            "--appendfsync",
            "always",
        ]
        self.spawn(command, folder, answers(self._port))

    def door(self, sleep: float = SLEEP_SECONDS) -> Door:
        return Door(self._port, None, sleep)

    def local_door(self, sleep: float = SLEEP_SECONDS) -> Door:
        return Door(None, self._path, sleep)


@dataclass(frozen=True)
class Door:
    port: int | None
    path: str | None
    sleep: float

    def open(self) -> _Client:
        redis = import_module("redis")
        made = (
            redis.Redis(unix_socket_path=self.path)
            if self.port is None
            else redis.Redis("127.0.0.1", self.port)
        )
        return _Client(made, self.sleep)


class _Client:
    def __init__(self, client: Any, sleep: float) -> None:
        self._client = client
        self._sleep = sleep

    def lock(self, name: str) -> Any:
        return self._client.lock(name, timeout=LEASE_SECONDS, sleep=self._sleep)
