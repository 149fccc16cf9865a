"""The status of every node of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from habemus.client.address import ClusterAddress, NodeAddress, cluster_address
from habemus.client.connection import NodeConnection, no_node
from habemus.client.credentials import Credentials
from habemus.client.errors import HabemusError, RefusedByNode, Unreachable
from habemus.client.session import own_label
from habemus.operations.cluster_view import ClusterView, NodeStatus, cluster_view

ANSWER_SECONDS = 2.0
MOST_AT_ONCE = 32


class NodeClient:
    """Asks one node, over a connection that stays open."""

    def __init__(
        self,
        node: NodeAddress,
        credentials: Credentials,
        address: str,
        connection: NodeConnection | None = None,
    ) -> None:
        self.address = address
        self._node = node
        self._credentials = credentials
        self._connection = connection
        self._asked = 0

    @property
    def welcome(self) -> dict[str, Any]:
        """The welcome of the node, kept up to date; empty while there is no connection."""
        return {} if self._connection is None else self._connection.welcome

    def ask(self, word: str, *rest: object) -> dict[str, Any]:
        """Return the answer of the node; `Unreachable` if there is none, or `RefusedByNode`."""
        if self._connection is None:
            self._connection = NodeConnection(self._node, self._credentials, own_label())
        self._asked += 1
        try:
            self._connection.say(word, self._asked, *rest)
            line = self._connection.hear(ANSWER_SECONDS)
            while line[1] != self._asked:
                line = self._connection.hear(ANSWER_SECONDS)
        except (OSError, ValueError) as reason:
            self.close()
            raise Unreachable(
                "timed out waiting for an answer"
                if isinstance(reason, TimeoutError)
                else str(reason)
            ) from None
        if line[0] == "refused":
            raise RefusedByNode(line[3])
        answer: dict[str, Any] = line[2]
        return answer

    def status(self) -> NodeStatus:
        """Return the status of the node."""
        try:
            return NodeStatus(self.address, self.ask("status"))
        except (Unreachable, RefusedByNode) as reason:
            why = str(reason).removeprefix(f"{self._node}: ")
            return NodeStatus(self.address, None, why, isinstance(reason, RefusedByNode))

    def close(self) -> None:
        """Close the connection; the next question opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class ClusterSurvey:
    """Asks all nodes of a cluster for their statuses, again and again."""

    def __init__(
        self, clients: Mapping[int, NodeClient], credentials: Credentials | None = None
    ) -> None:
        self.clients = dict(sorted(clients.items()))
        self.credentials = credentials or Credentials()
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE)

    def look(self) -> ClusterView:
        """Ask all nodes at once, and join their answers."""
        self._follow_members()
        asked = {node: self._threads.submit(each.status) for node, each in self.clients.items()}
        return cluster_view({node: each.result() for node, each in asked.items()})

    def _follow_members(self) -> None:
        """Ask the nodes that are added to the cluster, and no longer those that are removed."""
        welcomes = [each.welcome for each in self.clients.values()]
        newest = max(welcomes, key=lambda each: each.get("configuration", 0), default={})
        if "configuration" not in newest:
            return
        nodes = {int(number): address for number, address in newest["nodes"].items()}
        for number in [each for each in self.clients if each not in nodes]:
            self.clients.pop(number).close()
        for number, address in nodes.items():
            known = self.clients.get(number)
            if known is None or known.address != address:
                if known is not None:
                    known.close()
                at = cluster_address(address).nodes[0]
                self.clients[number] = NodeClient(at, self.credentials, address)

    def close(self) -> None:
        """Close all connections."""
        self._threads.shutdown()
        for each in self.clients.values():
            each.close()


def survey_cluster(named: str | None, **credential_files: str | None) -> ClusterSurvey:
    """Return the survey of the named cluster; `Unreachable` if no node answers."""
    cluster = cluster_address(named)
    credentials = Credentials.of_files(**credential_files).at(cluster)
    found = _connected(cluster, credentials)
    # a node that is about to join knows no other one
    welcome = max((each.welcome for each in found.values()), key=lambda each: len(each["nodes"]))
    clients = {}
    for number, address in welcome["nodes"].items():
        node = int(number)
        connection = found.get(node)
        at = connection.address if connection is not None else cluster_address(address).nodes[0]
        clients[node] = NodeClient(at, credentials, address, connection)
    return ClusterSurvey(clients, credentials)


def _connected(cluster: ClusterAddress, credentials: Credentials) -> dict[int, NodeConnection]:
    """Connect to every node that answers, by the first address that leads to it."""
    found: dict[int, NodeConnection] = {}
    reasons: list[HabemusError] = []
    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(cluster.nodes) or 1)) as threads:
        tried = [
            threads.submit(NodeConnection, node, credentials, own_label()) for node in cluster.nodes
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
        raise Unreachable(str(no_node(cluster, reasons)))
    return found
