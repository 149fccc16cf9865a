"""Connections of commands to nodes, over sockets of every kind."""

from __future__ import annotations

from collections.abc import Mapping

from habemus.client.address import NodeAddress, cluster_address
from habemus.client.connection import NodeConnection, first_of
from habemus.client.credentials import Credentials
from habemus.client.errors import HabemusError, Unreachable
from habemus.client.session import own_label
from habemus.supervise.locked_command import BAD_USE, UNREACHABLE, CommandExit, NoNodeReached
from habemus.supervise.process_tree import now_us


class NodeFinder:
    """Connects to one node after the other for a command; nodes that it tried before come last.

    papers: files with the credentials, by the names of `Credentials.of_files`.
    """

    def __init__(self, named: str | None, papers: Mapping[str, str | None], left: str = "") -> None:
        self._named = named
        self._papers = papers
        self._given: dict[NodeAddress, float] = {NodeAddress(left): 1.0} if left else {}

    def __call__(self, deadline_us: int | None) -> NodeConnection:
        """Connect to a node; `NoNodeReached` if none answers, `CommandExit` if it never will."""
        within = None if deadline_us is None else max(0.0, (deadline_us - now_us()) / 1_000_000)
        try:
            cluster = cluster_address(self._named)
            credentials = Credentials.of_files(**self._papers).at(cluster)
        except Unreachable as reason:
            raise CommandExit(UNREACHABLE, str(reason)) from None
        except ValueError as reason:
            raise CommandExit(BAD_USE, str(reason)) from None
        try:
            connection = first_of(cluster, credentials, own_label(), self._given, within)
        except Unreachable as reason:
            raise NoNodeReached(str(reason)) from None
        except HabemusError as reason:
            raise CommandExit(UNREACHABLE, str(reason)) from None
        self._given[connection.address] = now_us()
        return connection
