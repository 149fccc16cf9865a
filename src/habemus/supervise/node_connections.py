"""Connections to nodes, for commands that talk to them: by whatever way `habemus.client` knows."""

from __future__ import annotations

from collections.abc import Mapping

from habemus.client.address import NodeAddress, cluster_address
from habemus.client.connection import NodeConnection, first_of
from habemus.client.credentials import Credentials
from habemus.client.errors import HabemusError, Unreachable
from habemus.client.protocol import encode
from habemus.client.session import own_label
from habemus.supervise.locked_command import BAD_USE, UNREACHABLE, CommandExit, NoNodeReached
from habemus.supervise.process_tree import now_us


class NodeFinder:
    """Finds one node after the other for a command, to which the papers show who this is; those
    that it gave before come last.
    """

    def __init__(self, named: str | None, papers: Mapping[str, str | None], left: str = "") -> None:
        self._named = named
        self._papers = papers
        self._given: dict[NodeAddress, float] = {NodeAddress(left): 1.0} if left else {}

    def __call__(self, deadline_us: int | None) -> NodeConnection:
        """`NoNodeReached` if no node answers, `CommandExit` if it makes no sense to try again."""
        within = None if deadline_us is None else max(0.0, (deadline_us - now_us()) / 1_000_000)
        try:
            where = cluster_address(self._named)
            credentials = Credentials.of_files(**self._papers).at(where)
        except Unreachable as reason:
            raise CommandExit(UNREACHABLE, str(reason)) from None
        except ValueError as reason:
            raise CommandExit(BAD_USE, str(reason)) from None
        try:
            connection = first_of(where, credentials, own_label(), self._given, within)
        except Unreachable as reason:
            raise NoNodeReached(str(reason)) from None
        except HabemusError as reason:
            raise CommandExit(UNREACHABLE, str(reason)) from None
        self._given[connection.place] = now_us()
        return connection


def quoted(text: str) -> str:
    made: str = encode(text)
    return made
