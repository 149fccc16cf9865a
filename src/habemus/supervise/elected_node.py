"""Leading by an election of the nodes: the client leads while the node that it uses does.

A service of elections (`habemus up --algorithm bully`) elects nodes, not clients.  `ElectedNode` is
a connection to one node in the words of a lock: the lock is granted when the node is elected, and
lost when another one is.  There are no leases: what two nodes may believe at once is what the
election's card says.

Elections such as the bully are called by their application when the leader is gone.  A client that
waits does that: it calls an election if its node knows no leader, or has lost the connection to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from habemus.client.connection import NodeConnection
from habemus.client.protocol import encode_line
from habemus.supervise.locked_command import BAD_USE, CommandExit, LockRequest, NoNodeReached
from habemus.supervise.node_connections import NodeFinder

if TYPE_CHECKING:
    from habemus.supervise.locked_command import LockConnection

WATCH, LOOK, CALL = 1, 2, 3
"""Ids of the lines of this client."""


class ElectedNode:
    """A connection whose node is elected, or not."""

    def __init__(self, connection: NodeConnection, service: str, name: str) -> None:
        self._connection = connection
        self._service = service
        self._name = name
        self._me: int = connection.welcome["node"]
        self._request = 0  # id of the request to lead
        self._at = 0
        self._leads = False

    def fileno(self) -> int:
        return self._connection.fileno()

    def close(self) -> None:
        self._connection.close()

    def lease_ms(self, service: str) -> int | None:
        return None

    def moves(self, service: str) -> bool:
        """Return False: the node itself leads."""
        return False

    def send(self, line: bytes) -> None:
        """Send what a line of the lock protocol means here."""
        word, *rest = json.loads(line)
        if word == "lead":
            self._request, self._at = rest[0], rest[-1]
            self._connection.say("watch", WATCH, self._service, self._name)
            self._connection.say("status", LOOK)
        elif word == "alive" and not self._leads:
            self._connection.say("status", LOOK)

    def heard(self) -> list[list[Any]]:
        """Return what has arrived, as lines of the lock protocol."""
        return [said for line in self._connection.heard() for said in self._understood(line)]

    def _understood(self, line: list[Any]) -> list[list[Any]]:
        word, id = line[0], line[1]
        if word == "news" and id == WATCH:
            return self._elected(line[2]["leader"], line[2]["term"])
        if word == "status" and id == LOOK:
            self._call_if_needed(line[2])
        elif word == "refused" and id in (WATCH, CALL, None):
            return [["refused", self._request, *line[2:]]]
        return []

    def _elected(self, leader: int | None, term: int) -> list[list[Any]]:
        if leader == self._me and not self._leads:
            self._leads = True
            return [["granted", self._request, term or None, None, self._at, self._name]]
        if leader != self._me and self._leads:
            who = "no node leads" if leader is None else f"node {leader} leads"
            return [["lost", self._request, f"{who} now"]]
        return []

    def _call_if_needed(self, status: dict[str, Any]) -> None:
        leaders = {(each["service"], each["name"]): each["leader"] for each in status["leaders"]}
        leader = leaders.get((self._service, self._name))
        if leader is None or leader not in (self._me, *status["reaches"]):
            self._connection.send(encode_line("elect", CALL, self._service, self._name))


def election_service(services: Mapping[str, Any], named: str) -> str | None:
    """Return the service whose nodes are elected: the named one, or the only one there is if no
    service has that name; None if the named one has locks.
    """
    problems = {name: each["problem"] for name, each in services.items()}
    if problems.get(named) == "election":
        return named
    elections = [
        name
        for name, problem in problems.items()
        # not the election that a service of locks has for itself
        if problem == "election" and not _is_inner(name, problems)
    ]
    return elections[0] if named not in problems and len(elections) == 1 else None


def _is_inner(name: str, problems: Mapping[str, Any]) -> bool:
    return name.endswith("-election") and name.removesuffix("-election") in problems


class LeaderFinder:
    """Connects a command that leads to a node: the elected one, if the service elects nodes.

    left: the path of a socket that comes last.
    """

    def __init__(self, request: LockRequest, node: int | None = None, left: str = "") -> None:
        self._request = request
        self._node = node
        self._find = NodeFinder(request.cluster, request.credential_files, left)

    def __call__(self, deadline_us: int | None) -> LockConnection:
        """Connect to a node; `NoNodeReached` if none answers, `CommandExit` if it never will."""
        connection = self._find(deadline_us)
        service = election_service(connection.welcome["services"], self._request.service)
        if service is not None:
            return ElectedNode(self._at(connection, deadline_us), service, self._request.shown)
        if self._node is not None:
            raise CommandExit(
                BAD_USE, "--node: clients lead in this cluster, not nodes; leave it out"
            )
        return connection

    def _at(self, connection: NodeConnection, deadline_us: int | None) -> NodeConnection:
        """Return a connection to the node that was asked for; the finder tries each in turn."""
        nodes = connection.welcome["nodes"]
        if self._node is None:
            return connection
        if str(self._node) not in nodes:
            raise CommandExit(BAD_USE, f"no node {self._node}; nodes are {', '.join(nodes)}")
        for _ in nodes:
            if connection.welcome["node"] == self._node:
                return connection
            connection.close()
            connection = self._find(deadline_us)
        connection.close()
        raise NoNodeReached(f"node {self._node} does not answer")
