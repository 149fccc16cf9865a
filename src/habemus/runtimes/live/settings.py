"""The settings of a node, besides its services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.peers.tls import TlsContexts
from habemus.runtimes.live.rules import AccessRule

MOST_INSTANCES = 100_000
IDLE_US = 10_000_000
"""Time after which an unused instance is dropped, if it is in its initial state."""


@dataclass(frozen=True)
class Settings:
    """The settings of one node."""

    cluster: str
    node: int
    peers: Mapping[int, Address]  # without the node itself
    bind: Address
    address: Address | None = None  # at which the peers reach it; None: where it listens
    socket: Path | None = None  # for clients on this machine
    folder: Path | None = None  # stable memory; None: durable variables last as long as the node
    written_version: int | None = None  # of the configuration from which the file has the peers
    joins: bool = False  # the node is new in a cluster, which `habemus member add` tells it
    replace: bool = False  # the node replaces one whose stable memory is lost
    secret: bytes | None = None
    tls: TlsContexts | None = None
    record: Path | None = None  # folder of records
    metrics: Address | None = None  # of metrics and probes; None: neither
    seed: int | None = None  # of random numbers, for tests
    semaphores: Mapping[str, int] = field(default_factory=dict)  # their sizes
    secrets: Mapping[str, bytes] = field(default_factory=dict)  # of clients, by name
    rules: Sequence[AccessRule] = ()  # who may do what; none: every client may do everything
    # whether the end of a client's connection releases its locks
    release_on_disconnect: bool = False
    insecure: bool = False  # allow remote access without certificates and secret
    most_instances: int = MOST_INSTANCES
    idle_us: int = IDLE_US
