"""A group of clients: their ids, their addresses, and the system of the catalog that they form.

Processes of the catalog are numbered from 1 without gaps, and clients may have any ids.  So the
client with the k-th smallest id is process k: the order of the processes is that of the ids, and
that is all that the algorithm asks of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from habemus.core.process import ProcessId
from habemus.deployment.services import live_system
from habemus.printing.serving import address
from habemus.runs.setup import Setup
from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.hosting.service import Service

SERVICE = "printing"
LARGEST_ID = (1 << 31) - 1
MOST_CLIENTS = 100


class BadGroup(ValueError):
    """Invalid group of clients."""


def client_id(text: str) -> int:
    if not (text.strip().isascii() and text.strip().isdigit() and int(text) <= LARGEST_ID):
        raise BadGroup(
            f"{text.strip()!r} is not the id of a client; ids are whole numbers from 0 to"
            f" {LARGEST_ID}"
        )
    return int(text)


def peers_of(text: str) -> dict[int, Address]:
    """Parse `2=host:50053,3=host:50054`."""
    found: dict[int, Address] = {}
    for each in text.split(","):
        who, equals, where = each.partition("=")
        if not equals:
            raise BadGroup(
                f"{each.strip()!r} is not a peer; use ID=HOST:PORT, for example 2=127.0.0.1:50053"
            )
        peer = client_id(who)
        if peer in found:
            raise BadGroup(f"peer {peer} is given twice; give each peer once")
        place = address(where)
        if place in found.values():
            raise BadGroup(f"two peers have the address {place}; each peer needs its own")
        found[peer] = place
    return found


@dataclass(frozen=True)
class Group:
    me: int
    peers: Mapping[int, Address]  # by id, without this client
    give_up_us: int | None = None  # silence for so long counts as a reply; None: never
    setup: Setup | None = None  # if it is not that of `usual_setup`
    notices: bool = True  # whether to call ReleaseAccess of all others after each job

    def __post_init__(self) -> None:
        if self.me in self.peers:
            raise BadGroup(
                f"client {self.me} (--id) is in --peers as well; each client needs its own id"
            )
        if len(self.peers) >= MOST_CLIENTS:
            raise BadGroup(
                f"the group has {len(self.peers) + 1} clients; at most {MOST_CLIENTS} are supported"
            )

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """All client ids, in order; process k has the k-th."""
        return tuple(sorted((self.me, *self.peers)))

    def process(self, client: int) -> ProcessId:
        return self.ids.index(client) + 1

    def client(self, process: ProcessId) -> int:
        return self.ids[process - 1]

    def usual_setup(self) -> Setup:
        # The algorithm needs no release notices.  Programs of others send them and may show them,
        # so they are the default.
        labels = tuple(
            f"{process}=client {client}" for process, client in enumerate(self.ids, start=1)
        )
        options = ("notices",) if self.notices else ()
        if self.give_up_us is None:
            return Setup("ricart-agrawala", len(self.ids), options=options, labels=labels)
        return Setup(
            "ra-timeout",
            len(self.ids),
            options=(*options, f"timeout={self.give_up_us}us"),
            labels=labels,
        )

    def service(self) -> Service:
        setup = self.setup or self.usual_setup()
        return Service(
            SERVICE,
            live_system(setup),
            range(1, len(self.ids) + 1),
            {"live": True, **setup.plain()},
        )
