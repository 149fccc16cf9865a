"""What a node needs to know besides its services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from habemus.runtimes.live.peers.tls import TlsContexts
from habemus.runtimes.live.sockets import Address

MOST_INSTANCES = 100_000
IDLE_US = 10_000_000
"""An instance in which nothing has happened for so long is looked at, and forgotten if it can be."""


@dataclass(frozen=True)
class Settings:
    cluster: str
    node: int
    peers: Mapping[int, Address]  # without the node itself
    bind: Address
    socket: Path | None = None  # for clients on this machine
    folder: Path | None = (
        None  # for stable memory; None: what is durable lasts as long as the process
    )
    replace: bool = False  # the node takes the place of one whose stable memory is lost
    secret: bytes | None = None
    tls: TlsContexts | None = None
    record: Path | None = None  # a folder
    seed: int | None = None  # of all draws, for tests; None: the system's
    insecure: bool = False  # other machines may reach it without certificates and secret
    most_instances: int = MOST_INSTANCES
    idle_us: int = IDLE_US
