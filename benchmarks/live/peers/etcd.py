"""etcd's own lock service, called by gRPC.

Of the clients on PyPI that install today, etcetra is the fastest: it calls the server's lock
service, one call to acquire and one to release, where others (etcd3, aetcd, etcd3-py) make a lease
and a transaction of their own for each lock.  Its own calls are asynchronous; here its stubs are
called blocking, which is faster still, with one lease for the client's lifetime.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.live.rival import Service, answers, free_port, program

LEASE_SECONDS = 10


class Etcd(Service):
    def __init__(self) -> None:
        super().__init__("etcd")

    def start(self, folder: Path) -> None:
        import_module("etcetra")
        self._port, peers = free_port(), f"http://127.0.0.1:{free_port()}"
        clients = f"http://127.0.0.1:{self._port}"
        command = [
            program("etcd", "etcd-server"),
            "--data-dir",
            f"{folder}/data",
            "--listen-client-urls",
            clients,
        ]
        command += [
            "--advertise-client-urls",
            clients,
            "--listen-peer-urls",
            peers,
            "--initial-advertise-peer-urls",
            peers,
        ]
        self.spawn([*command, "--initial-cluster", f"default={peers}"], folder, answers(self._port))

    def door(self) -> Door:
        return Door(self._port)


@dataclass(frozen=True)
class Door:
    port: int

    def open(self) -> _Client:
        return _Client(import_module("grpc").insecure_channel(f"127.0.0.1:{self.port}"))


class _Client:
    def __init__(self, channel: Any) -> None:
        self._messages = import_module("etcetra.grpc_api.rpc_pb2")
        self._leases = import_module("etcetra.grpc_api.rpc_pb2_grpc").LeaseStub(channel)
        self._locks = import_module("etcetra.grpc_api.v3lock_pb2_grpc").LockStub(channel)
        self.lease: int = self._leases.LeaseGrant(
            self._messages.LeaseGrantRequest(TTL=LEASE_SECONDS), wait_for_ready=True
        ).ID
        threading.Thread(target=self._keep, daemon=True).start()

    def _keep(self) -> None:
        """Signs of life, three in the time of a lease."""
        pause = threading.Event()

        def beats() -> Any:
            while True:
                yield self._messages.LeaseKeepAliveRequest(ID=self.lease)
                pause.wait(LEASE_SECONDS / 3)

        for _ in self._leases.LeaseKeepAlive(beats()):
            pass

    def lock(self, name: str) -> _Lock:
        return _Lock(self._locks, name.encode(), self.lease)


class _Lock:
    def __init__(self, stub: Any, name: bytes, lease: int) -> None:
        messages = import_module("etcetra.grpc_api.v3lock_pb2")
        self._stub = stub
        self._wish = messages.LockRequest(name=name, lease=lease)
        self._unlocking = messages.UnlockRequest
        self._key = b""

    def acquire(self) -> None:
        self._key = self._stub.Lock(self._wish).key

    def release(self) -> None:
        self._stub.Unlock(self._unlocking(key=self._key))
