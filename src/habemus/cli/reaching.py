"""Connections to nodes, for commands that talk to them: by whatever way `habemus.api` knows."""

from __future__ import annotations

from habemus.api.address import whereabouts
from habemus.api.credentials import Credentials
from habemus.api.errors import RefusedByNode, Unreachable
from habemus.api.protocol import encode
from habemus.api.session import own_label
from habemus.api.wire import Wire, first_of
from habemus.cli.holding import BAD_USE, UNREACHABLE, Leaving


class Reached:
    """A connection as `habemus.cli.holding` wants it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.fileno = wire.fileno
        self.send = wire.send
        self.heard = wire.heard
        self.close = wire.close

    def lease_ms(self, service: str) -> int | None:
        lease_ms: int | None = self._wire.welcome["services"].get(service, {}).get("lease_ms")
        return lease_ms


def reach(named: str | None, **papers: str | None) -> Reached:
    """The first node that answers, to which the papers show who this is."""
    try:
        where = whereabouts(named)
        return Reached(first_of(where, Credentials.of_files(**papers).at(where), own_label()))
    except (Unreachable, RefusedByNode) as reason:
        raise Leaving(UNREACHABLE, str(reason)) from None
    except ValueError as reason:
        raise Leaving(BAD_USE, str(reason)) from None


def quoted(text: str) -> str:
    made: str = encode(text)
    return made
