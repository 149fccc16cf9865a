"""Connections of commands to nodes, over sockets of every kind."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from habemus.argument_names import FLAGS
from habemus.client.address import NodeAddress, cluster_address, told_nodes
from habemus.client.connection import NodeConnection, first_of
from habemus.client.credentials import Credentials
from habemus.client.engines import is_engine
from habemus.client.errors import HabemusError, Unreachable
from habemus.client.session import own_label
from habemus.supervise.locked_command import (
    BAD_USE,
    UNREACHABLE,
    CommandExit,
    LockRequest,
    NoNodeReached,
)
from habemus.supervise.process_tree import now_us

if TYPE_CHECKING:
    from habemus.supervise.locked_command import LockConnection


def finder(request: LockRequest, node: int | None = None) -> Callable[[int | None], LockConnection]:
    """Return the function that connects to the cluster or the engine of a command.

    node: the node that has to lead, for a command that leads.
    """
    made: list[Callable[[int | None], LockConnection]] = []

    def connect(deadline_us: int | None) -> LockConnection:
        if not made:
            made.append(_finder(request, node))
        return made[0](deadline_us)

    return connect


def _finder(request: LockRequest, node: int | None) -> Callable[[int | None], LockConnection]:
    named = os.environ.get("HABEMUS_CLUSTER") if request.cluster is None else request.cluster
    try:
        is_at_engine = is_engine(named)
    except ValueError as reason:
        raise CommandExit(BAD_USE, str(reason)) from None
    if is_at_engine:
        from habemus.supervise.engine_connections import EngineFinder

        return EngineFinder(named or "", request.credential_files, request.lease)
    if request.leads:
        from habemus.supervise.elected_node import LeaderFinder

        return LeaderFinder(request, node)
    return NodeFinder(request.cluster, request.credential_files)


class NodeFinder:
    """Connects to one node after the other for a command; nodes that it tried before come last.

    credential_files: files with the credentials, by the names of `Credentials.of_files`.
    """

    def __init__(
        self, named: str | None, credential_files: Mapping[str, str | None], left: str = ""
    ) -> None:
        self._named = named
        self._credential_files = credential_files
        self._last: NodeConnection | None = None
        self._given: dict[NodeAddress, float] = {NodeAddress(left): 1.0} if left else {}

    def __call__(self, deadline_us: int | None) -> NodeConnection:
        """Connect to a node; `NoNodeReached` if none answers, `CommandExit` if it never will."""
        within = None if deadline_us is None else max(0.0, (deadline_us - now_us()) / 1_000_000)
        try:
            last = self._last
            told = () if last is None or last.is_only else told_nodes(last.welcome)
            cluster = cluster_address(self._named)._replace(told=told)
            credentials = Credentials.of_files(**self._credential_files).at(cluster)
        except Unreachable as reason:
            raise CommandExit(UNREACHABLE, str(reason)) from None
        except ValueError as reason:
            raise CommandExit(BAD_USE, str(reason)) from None
        try:
            with FLAGS:
                connection = first_of(cluster, credentials, own_label(), self._given, within)
        except Unreachable as reason:
            raise NoNodeReached(str(reason)) from None
        except HabemusError as reason:
            raise CommandExit(UNREACHABLE, str(reason)) from None
        self._given[connection.address] = now_us()
        has_changed = bool(connection.welcome.get("configuration"))
        connection.is_only = cluster.is_one_socket and not has_changed
        self._last = connection
        return connection
