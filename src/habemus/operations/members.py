"""Changes of the members of a running cluster, step by step, through its leader.

Each step is one configuration (`runtimes.live.hosting.members`).  The next one is derived from what
the leader shows, not from what was asked for before: so a change goes on where it was interrupted,
under whichever node leads, and asking twice does no harm.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from habemus.client.address import NodeAddress
from habemus.client.errors import HabemusError, RefusedByNode, Unreachable
from habemus.operations.cluster_view import NodeStatus
from habemus.operations.node_survey import ClusterSurvey, NodeClient
from habemus.runtimes.live.cluster_file import Address, nodes_digest, parsed_address

PAUSE_SECONDS = 0.05
NOTICE_SECONDS = 5.0
"""How long a node that is removed has time to hear of it before it is forgotten."""
START_SECONDS = 10.0
"""How long to wait for a node that is being started."""


class NotChanged(HabemusError):
    """The members could not be changed as asked."""


class MembersView(NamedTuple):
    """The members, as the leader knows them."""

    leader: int
    version: int
    members: tuple[int, ...]
    nodes: Mapping[int, str]  # the addresses of all nodes
    memories: Mapping[int, str]  # identities of their memories
    may_change: bool  # the present configuration is stored by a majority and confirmed

    @property
    def learners(self) -> tuple[int, ...]:
        return tuple(node for node in self.nodes if node not in self.members)

    def plain(self) -> dict[str, Any]:
        """Return the view as `habemus member --json` prints it."""
        return {
            "leader": self.leader,
            "version": self.version,
            "members": list(self.members),
            "learners": list(self.learners),
            "nodes": {str(node): address for node, address in self.nodes.items()},
        }


MemberStep = tuple[str, int, str, str]
"""The name of a step, the node, its address and the identity of its memory."""


class MemberChanges:
    """Changes of members of one cluster.

    seconds: after which a change is given up.
    """

    def __init__(self, survey: ClusterSurvey, seconds: float) -> None:
        self._survey = survey
        self._clients = dict(survey.clients)
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds

    # What can be asked for.

    def view(self) -> MembersView:
        """Return the members, as the leader knows them."""
        return self._until(lambda _: None, "there is no leader", is_done=lambda _: True)

    def add(self, number: int, address: Address) -> MembersView:
        """Make a node that waits at an address a member."""
        view = self.view()
        if number in view.members and view.nodes[number] != str(address):
            raise NotChanged(
                f"node {number} is a member at {view.nodes[number]} already; choose another number"
            )
        memory = self._memory_at(number, address, view)
        if number in view.members and view.memories[number] != memory:
            raise NotChanged(
                f"node {number} is a member with another memory; if that is lost for good, run"
                f" `habemus member replace {number}`"
            )
        return self._become(number, str(address), memory)

    def replace(self, number: int, address: Address | None) -> MembersView:
        """Put a node with another memory, or at another address, in the place of one of the same
        number.
        """
        view = self.view()
        if number not in view.nodes:
            raise NotChanged(f"no node {number}; the cluster has nodes {listed(view.nodes)}")
        at = address or _parsed(view.nodes[number])
        memory = self._memory_at(number, at, view)
        if memory == view.memories[number] and view.nodes[number] == str(at):
            if number in view.members:
                raise NotChanged(
                    f"node {number} at {at} has the memory that the cluster knows; nothing is to be"
                    " replaced"
                )
        elif memory != view.memories[number]:
            self._until(
                lambda now: ("remove", number, "", "") if number in now.members else None,
                f"node {number} is still a member",
            )
        return self._become(number, str(at), memory)

    def remove(self, number: int) -> MembersView:
        """Remove a node, and forget it when it knows, if it is up: then it stops by itself."""
        view = self.view()
        if number not in view.nodes:
            raise NotChanged(f"no node {number}; the cluster has nodes {listed(view.nodes)}")
        waits_for = f"node {number} is not removed yet"
        self._until(
            lambda now: ("remove", number, "", "") if number in now.members else None, waits_for
        )
        until = min(self._deadline, time.monotonic() + NOTICE_SECONDS)
        while time.monotonic() < until and self._is_unaware(number):
            time.sleep(PAUSE_SECONDS)
        return self._until(
            lambda now: ("forget", number, "", "") if number in now.nodes else None, waits_for
        )

    def _is_unaware(self, number: int) -> bool:
        """Return whether a node is up, and takes itself for a member."""
        status = _status_of(self._clients[number]).status
        return status is not None and number in (status.get("members") or {}).get("members", ())

    def _become(self, number: int, address: str, memory: str) -> MembersView:
        """Introduce a node, and add it to the members."""

        def step(now: MembersView) -> MemberStep | None:
            if (now.nodes.get(number), now.memories.get(number)) != (address, memory):
                return "introduce", number, address, memory
            return None if number in now.members else ("add", number, "", "")

        return self._until(
            step,
            f"node {number} at {address} is not a member yet; is it up, with the secret and"
            " certificates of the cluster?",
        )

    def _memory_at(self, number: int, address: Address, view: MembersView) -> str:
        """Return the identity of the memory of the node that waits at an address."""
        status = self._status_at(number, address)
        found, members = status["node"], status.get("members")
        if found != number:
            raise NotChanged(f"node {found} answers at {address}, not node {number}")
        if not members or not members["memory"]:
            raise NotChanged(f"node {number} at {address} has fixed members; start it with --join")
        if members["members"] and number not in view.nodes:
            raise NotChanged(
                f"node {number} at {address} belongs to a cluster already; start it with --join and"
                " an empty data folder"
            )
        memory: str = members["memory"]
        return memory

    def _status_at(self, number: int, address: Address) -> dict[str, Any]:
        client = self._client_at(address)
        deadline = min(self._deadline, time.monotonic() + START_SECONDS)
        answer = _status_of(client)
        while answer.status is None and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
            answer = _status_of(client)
        client.close()
        if answer.status is None:
            raise NotChanged(
                f"no node answers at {address} ({answer.why}); start it first: habemus node"
                f" --config cluster.toml --id {number} --join --bind {address}"
            )
        return answer.status

    # Steps.

    def _until(
        self,
        step: Callable[[MembersView], MemberStep | None],
        waits_for: str,
        is_done: Callable[[MembersView], bool] = lambda view: view.may_change,
    ) -> MembersView:
        """Ask the leader for the next step until there is none, and the last one is settled."""
        while True:
            view = self._leader_view()
            wanted = None if view is None else step(view)
            if view is not None and wanted is None and is_done(view):
                return view
            if view is not None and wanted is not None and view.may_change:
                self._ask(view, wanted)
            if time.monotonic() > self._deadline:
                raise NotChanged(f"timed out after {self._seconds:g} s: {waits_for}")
            time.sleep(PAUSE_SECONDS)

    def _ask(self, view: MembersView, step: MemberStep) -> None:
        try:
            self._clients[view.leader].ask("member", *step)
        except Unreachable:
            return
        except RefusedByNode:
            now = self._leader_view()
            if now is not None and (now.leader, now.version) == (view.leader, view.version):
                raise  # not because another node leads now

    def _leader_view(self) -> MembersView | None:
        """Return what the leader of the latest term shows; None if no node leads."""
        best: tuple[int, MembersView] | None = None
        for number, client in sorted(self._clients.items()):
            status = _status_of(client).status
            if status is None:
                continue
            found = status.get("members")
            if found is None:
                raise NotChanged(fixed_reason(status))
            if found["leader"] == number and (best is None or found["term"] > best[0]):
                best = found["term"], _view_of(number, found)
        if best is not None:
            self._know(best[1].nodes)
        return None if best is None else best[1]

    def _know(self, nodes: Mapping[int, str]) -> None:
        """Ask the nodes of the book, too: one that was added may lead."""
        for number, address in nodes.items():
            if number not in self._clients or self._clients[number].address != address:
                self._clients[number] = self._client_at(_parsed(address))

    def _client_at(self, address: Address) -> NodeClient:
        node = NodeAddress("", address.host, address.port)
        return NodeClient(node, self._survey.credentials, str(address))

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()
        self._survey.close()


def _status_of(client: NodeClient) -> NodeStatus:
    """Return the status of a node; raise `NotChanged` if it refuses to show it."""
    answer = client.status()
    if answer.is_refused:
        raise NotChanged(
            f'{client.address}: {answer.why}; changes of members need the permission "members"'
        )
    return answer


def _view_of(leader: int, found: Mapping[str, Any]) -> MembersView:
    nodes = {int(number): each for number, each in found["nodes"].items()}
    return MembersView(
        leader,
        found["version"],
        tuple(found["members"]),
        {number: each["address"] for number, each in nodes.items()},
        {number: each["memory"] for number, each in nodes.items()},
        found["may_change"],
    )


def _parsed(address: str) -> Address:
    found = parsed_address(address)
    assert found is not None, address
    return found


def fixed_reason(status: Mapping[str, Any]) -> str:
    """Return why the members of a cluster cannot change, from the status of a node."""
    return f"the members of this cluster are fixed: {status['fixed_members']}"


def listed(numbers: Mapping[int, Any] | tuple[int, ...]) -> str:
    return ", ".join(map(str, sorted(numbers)))


# The file.

_KEY = re.compile(r"""(\s*)(["']?)(\d+)\2(\s*=\s*)(["'])([^"']*)\5(.*)""")


def with_nodes(text: str, nodes: Mapping[int, str], version: int) -> str | None:
    """Return the text of a cluster.toml with the nodes of a configuration; only the table [nodes]
    changes, and its comments stay.  Its first line gets a mark, by which nodes notice edits by
    hand.  None if the table is written in a way that this does not understand.
    """
    lines = text.splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if re.match(r"\s*\[nodes\]", line)]
    if len(starts) != 1:
        return None
    start = starts[0] + 1
    lines[start - 1] = f"[nodes]  # configuration {version} {nodes_digest(version, nodes)}\n"
    end = next((at for at in range(start, len(lines)) if re.match(r"\s*\[", lines[at])), len(lines))
    left, kept, last = dict(sorted(nodes.items())), [], 0
    for line in lines[start:end]:
        found = _KEY.fullmatch(line.rstrip("\r\n"))
        if found is not None:
            address = left.pop(int(found[3]), None)
            if address is None:
                continue
            key = f"{found[1]}{found[2]}{found[3]}{found[2]}{found[4]}"
            line = f"{key}{found[5]}{address}{found[5]}{found[7]}\n"
        elif line.strip() and not line.lstrip().startswith("#"):
            return None
        kept.append(line)
        last = len(kept) if found is not None else last
    new = [f'{number} = "{address}"\n' for number, address in left.items()]
    if kept and last and not kept[last - 1].endswith("\n"):
        kept[last - 1] += "\n"
    return "".join((*lines[:start], *kept[:last], *new, *kept[last:], *lines[end:]))
