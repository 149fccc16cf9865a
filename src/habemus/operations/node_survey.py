"""Asks every node of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from habemus.client.address import ClusterAddress, NodeAddress, cluster_address
from habemus.client.connection import NodeConnection, no_node
from habemus.client.credentials import Credentials
from habemus.client.errors import HabemusError, RefusedByNode, Unreachable
from habemus.client.session import own_label
from habemus.operations.cluster_view import ClusterView, NodeStatus, picture

ANSWER_SECONDS = 2.0
MOST_AT_ONCE = 32


class NodeClient:
    """Talks to one node, over a connection that is kept."""

    def __init__(
        self,
        place: NodeAddress,
        credentials: Credentials,
        address: str,
        connection: NodeConnection | None = None,
    ) -> None:
        self.address = address
        self._place = place
        self._credentials = credentials
        self._connection = connection
        self._asked = 0

    def ask(self, word: str, *rest: str) -> dict[str, Any]:
        """`Unreachable` if it does not answer, `RefusedByNode` if it does not want to."""
        if self._connection is None:
            self._connection = NodeConnection(self._place, self._credentials, own_label())
        self._asked += 1
        try:
            self._connection.say(word, self._asked, *rest)
            line = self._connection.hear(ANSWER_SECONDS)
            while line[1] != self._asked:
                line = self._connection.hear(ANSWER_SECONDS)
        except (OSError, ValueError) as reason:
            self.close()
            raise Unreachable(
                "it does not answer" if isinstance(reason, TimeoutError) else str(reason)
            ) from None
        if line[0] == "refused":
            raise RefusedByNode(line[3])
        answer: dict[str, Any] = line[2]
        return answer

    def status(self) -> NodeStatus:
        try:
            return NodeStatus(self.address, self.ask("status"))
        except (Unreachable, RefusedByNode) as reason:
            return NodeStatus(self.address, why=str(reason).removeprefix(f"{self._place}: "))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class ClusterSurvey:
    """Of all nodes of a cluster, as often as wanted."""

    def __init__(self, onlookers: Mapping[int, NodeClient]) -> None:
        self.onlookers = onlookers
        self._threads = ThreadPoolExecutor(min(MOST_AT_ONCE, len(onlookers)))

    def look(self) -> ClusterView:
        asked = {node: self._threads.submit(each.status) for node, each in self.onlookers.items()}
        return picture({node: each.result() for node, each in asked.items()})

    def close(self) -> None:
        self._threads.shutdown()
        for each in self.onlookers.values():
            each.close()


def survey_cluster(named: str | None, **papers: str | None) -> ClusterSurvey:
    """Of the cluster that is meant; `Unreachable` if no node of it answers."""
    where = cluster_address(named)
    credentials = Credentials.of_files(**papers).at(where)
    found = _connected(where, credentials)
    welcome = next(iter(found.values())).welcome
    onlookers = {}
    for number, address in welcome["nodes"].items():
        node = int(number)
        connection = found.get(node)
        place = connection.place if connection is not None else cluster_address(address).nodes[0]
        onlookers[node] = NodeClient(place, credentials, address, connection)
    return ClusterSurvey(onlookers)


def _connected(where: ClusterAddress, credentials: Credentials) -> dict[int, NodeConnection]:
    """To every node that answers, by the first way to it."""
    found: dict[int, NodeConnection] = {}
    reasons: list[HabemusError] = []
    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(where.nodes) or 1)) as threads:
        tried = [
            threads.submit(NodeConnection, place, credentials, own_label()) for place in where.nodes
        ]
        for each in tried:
            try:
                connection = each.result()
            except (Unreachable, RefusedByNode) as reason:
                reasons.append(reason)
                continue
            if found.setdefault(connection.welcome["node"], connection) is not connection:
                connection.close()
    if not found:
        raise Unreachable(str(no_node(where, reasons)))
    return found
