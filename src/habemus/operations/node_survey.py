"""Asks every node of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from habemus.client.address import Place, Whereabouts, whereabouts
from habemus.client.connection import Wire, no_node
from habemus.client.credentials import Credentials
from habemus.client.errors import HabemusError, RefusedByNode, Unreachable
from habemus.client.session import own_label
from habemus.operations.cluster_view import Picture, Told, picture

ANSWER_SECONDS = 2.0
MOST_AT_ONCE = 32


class Onlooker:
    """Talks to one node, over a connection that is kept."""

    def __init__(
        self, place: Place, credentials: Credentials, address: str, wire: Wire | None = None
    ) -> None:
        self.address = address
        self._place = place
        self._credentials = credentials
        self._wire = wire
        self._asked = 0

    def ask(self, word: str, *rest: str) -> dict[str, Any]:
        """`Unreachable` if it does not answer, `RefusedByNode` if it does not want to."""
        if self._wire is None:
            self._wire = Wire(self._place, self._credentials, own_label())
        self._asked += 1
        try:
            self._wire.say(word, self._asked, *rest)
            line = self._wire.hear(ANSWER_SECONDS)
            while line[1] != self._asked:
                line = self._wire.hear(ANSWER_SECONDS)
        except (OSError, ValueError) as reason:
            self.close()
            raise Unreachable(
                "it does not answer" if isinstance(reason, TimeoutError) else str(reason)
            ) from None
        if line[0] == "refused":
            raise RefusedByNode(line[3])
        answer: dict[str, Any] = line[2]
        return answer

    def status(self) -> Told:
        try:
            return Told(self.address, self.ask("status"))
        except (Unreachable, RefusedByNode) as reason:
            return Told(self.address, why=str(reason).removeprefix(f"{self._place}: "))

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None


class Survey:
    """Of all nodes of a cluster, as often as wanted."""

    def __init__(self, onlookers: Mapping[int, Onlooker]) -> None:
        self.onlookers = onlookers
        self._threads = ThreadPoolExecutor(min(MOST_AT_ONCE, len(onlookers)))

    def look(self) -> Picture:
        asked = {node: self._threads.submit(each.status) for node, each in self.onlookers.items()}
        return picture({node: each.result() for node, each in asked.items()})

    def close(self) -> None:
        self._threads.shutdown()
        for each in self.onlookers.values():
            each.close()


def survey_of(named: str | None, **papers: str | None) -> Survey:
    """Of the cluster that is meant; `Unreachable` if no node of it answers."""
    where = whereabouts(named)
    credentials = Credentials.of_files(**papers).at(where)
    found = _connected(where, credentials)
    welcome = next(iter(found.values())).welcome
    onlookers = {}
    for number, address in welcome["nodes"].items():
        node = int(number)
        wire = found.get(node)
        place = wire.place if wire is not None else whereabouts(address).places[0]
        onlookers[node] = Onlooker(place, credentials, address, wire)
    return Survey(onlookers)


def _connected(where: Whereabouts, credentials: Credentials) -> dict[int, Wire]:
    """To every node that answers, by the first way to it."""
    found: dict[int, Wire] = {}
    reasons: list[HabemusError] = []
    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(where.places) or 1)) as threads:
        tried = [threads.submit(Wire, place, credentials, own_label()) for place in where.places]
        for each in tried:
            try:
                wire = each.result()
            except (Unreachable, RefusedByNode) as reason:
                reasons.append(reason)
                continue
            if found.setdefault(wire.welcome["node"], wire) is not wire:
                wire.close()
    if not found:
        raise Unreachable(str(no_node(where, reasons)))
    return found
