"""The judgement whether an election does only what the abstract election may do: T1 to T3.

An election that keeps them *refines* the abstract one: what holds over the abstract election holds
over it.  Searches and replays share the fold `LeaderNames`; its state is a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from habemus.core.events import Event
from habemus.core.model import ExternalEvent, Knowledge
from habemus.core.process import ProcessId
from habemus.core.properties import Finding, Verdict
from habemus.problems.abstract_election import PROPERTIES, T1, T2, T3
from habemus.problems.election import Leader


class LeaderNames(NamedTuple):
    """All that processes have named so far.  The tuples are sorted."""

    leaders: tuple[tuple[int, ProcessId], ...] = ()  # of each term, the first that was named
    led: tuple[tuple[int, ProcessId], ...] = ()  # the terms that began, and the leader of each
    leading: tuple[ProcessId, ...] = ()  # processes that lead now
    newest: tuple[tuple[ProcessId, int], ...] = ()  # of each process, the newest term it named

    def after(self, process: ProcessId, named: Leader) -> tuple[LeaderNames, dict[str, str]]:
        """Return the names after an indication, and the properties that it breaks, with reasons."""
        broken: dict[str, str] = {}
        term, leader = named.term, named.process
        leaders, led, newest = dict(self.leaders), set(self.led), dict(self.newest)
        begins = leader == process and not (process in self.leading and newest[process] == term)
        if leader is not None and leaders.setdefault(term, leader) != leader:
            broken[T1.name] = (
                f"{process} names {leader} as the leader of term {term}, which was {leaders[term]}"
            )
        if begins and (term, process) in led:
            broken[T2.name] = f"{process} begins to lead term {term} for the second time"
        if term < newest.get(process, 0):
            broken[T3.name] = f"{process} names term {term} after term {newest[process]}"
        if begins:
            led.add((term, process))
        newest[process] = term
        leading = set(self.leading) - {process} | ({process} if leader == process else set())
        names = LeaderNames(
            tuple(sorted(leaders.items())),
            tuple(sorted(led)),
            tuple(sorted(leading)),
            tuple(sorted(newest.items())),
        )
        return names, broken

    def without(self, process: ProcessId) -> LeaderNames:
        """Return the names after a crash of a process."""
        return self._replace(leading=tuple(each for each in self.leading if each != process))


class RefinementObserver:
    """Observer of T1 to T3 in a search."""

    def first(self) -> Knowledge:
        return LeaderNames()

    def sees(self, knowledge: Knowledge, seen: ExternalEvent) -> tuple[Knowledge, Sequence[str]]:
        assert isinstance(knowledge, LeaderNames)
        if seen.kind == "crash":
            return knowledge.without(seen.process), ()
        if not isinstance(seen.value, Leader):
            return knowledge, ()
        names, broken = knowledge.after(seen.process, seen.value)
        return names, tuple(broken)

    def at_rest(self, knowledge: Knowledge) -> Sequence[str]:
        return ()

    def unfulfilled(self, knowledge: Knowledge) -> Sequence[tuple[str, ProcessId]]:
        return ()

    def pending(self, knowledge: Knowledge) -> Knowledge:
        return ()

    def progress(self, seen: ExternalEvent) -> Sequence[str]:
        return ()

    def shown(self, seen: ExternalEvent) -> Sequence[str]:
        return [each.name for each in PROPERTIES] if isinstance(seen.value, Leader) else []

    def about_the_end(self) -> Sequence[str]:
        return ()


class RefinementJudge:
    """Judge of T1 to T3 over the events of a run."""

    def __init__(self) -> None:
        self.names = LeaderNames()
        self.broken: dict[str, Finding] = {}

    def observe(self, event: Event) -> None:
        if event.kind == "crash":
            self.names = self.names.without(event.process)
        elif isinstance(event.value, Leader):
            self.names, broken = self.names.after(event.process, event.value)
            for name, why in broken.items():
                self.broken.setdefault(
                    name, Finding(name, Verdict.VIOLATED, why, event.time, (event.process,))
                )

    def findings(
        self, ending: str, awaits: Mapping[ProcessId, Sequence[ProcessId]]
    ) -> list[Finding]:
        return [
            self.broken.get(each.name, Finding(each.name, Verdict.HOLDS, "in this run"))
            for each in PROPERTIES
        ]

    def costs(self, ending: Any) -> dict[str, Any]:
        return {}
