"""Connections to nodes, for commands that talk to them: by whatever way `habemus.client` knows."""

from __future__ import annotations

from collections.abc import Mapping

from habemus.client.address import Place, whereabouts
from habemus.client.connection import Wire, first_of
from habemus.client.credentials import Credentials
from habemus.client.errors import HabemusError, Unreachable
from habemus.client.protocol import encode
from habemus.client.session import own_label
from habemus.supervise.locked_command import BAD_USE, UNREACHABLE, Leaving, NotReached
from habemus.supervise.process_tree import now_us


class Reached:
    """A connection as `habemus.supervise.locked_command` wants it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.fileno = wire.fileno
        self.send = wire.send
        self.heard = wire.heard
        self.close = wire.close

    def lease_ms(self, service: str) -> int | None:
        lease_ms: int | None = self._wire.welcome["services"].get(service, {}).get("lease_ms")
        return lease_ms


class Reaching:
    """Finds one node after the other for a command, to which the papers show who this is; those
    that it gave before come last.
    """

    def __init__(self, named: str | None, papers: Mapping[str, str | None], left: str = "") -> None:
        self._named = named
        self._papers = papers
        self._given: dict[Place, float] = {Place(left): 1.0} if left else {}

    def __call__(self, deadline_us: int | None) -> Reached:
        """`NotReached` if no node answers, `Leaving` if it makes no sense to try again."""
        within = None if deadline_us is None else max(0.0, (deadline_us - now_us()) / 1_000_000)
        try:
            where = whereabouts(self._named)
            credentials = Credentials.of_files(**self._papers).at(where)
        except Unreachable as reason:
            raise Leaving(UNREACHABLE, str(reason)) from None
        except ValueError as reason:
            raise Leaving(BAD_USE, str(reason)) from None
        try:
            wire = first_of(where, credentials, own_label(), self._given, within)
        except Unreachable as reason:
            raise NotReached(str(reason)) from None
        except HabemusError as reason:
            raise Leaving(UNREACHABLE, str(reason)) from None
        self._given[wire.place] = now_us()
        return Reached(wire)


def quoted(text: str) -> str:
    made: str = encode(text)
    return made
