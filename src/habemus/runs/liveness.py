"""Liveness under eventual synchrony, as part of a check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from habemus.catalog.entries import Entry
from habemus.core.model import ClientModel, Observer
from habemus.core.process import ProcessId
from habemus.core.properties import Kind, Verdict
from habemus.problems.election_judgement import E3, E4
from habemus.runs import abstraction
from habemus.runtimes.checker.inevitability import BADNESS, Inevitable, judge
from habemus.runtimes.checker.search import INTERRUPTED, Search
from habemus.runtimes.checker.second_phase import DRAWS_GO_ON, SecondPhase

if TYPE_CHECKING:
    from habemus.runs.check import Check

EARLY = 10_000
"""States after which a violation is looked for, before the others are followed: where numbers grow
without end, that is all there is to find.
"""

Model = tuple[Mapping[ProcessId, ClientModel], Observer]


@dataclass
class Liveness:
    """The verdicts of the second phase, each with the graph that it rests on."""

    judged: dict[str, tuple[Inevitable, SecondPhase]] = field(default_factory=dict)
    states: int = 0
    complete: bool = True
    cut_off: str = ""  # why states of the second phase were left out
    shown: set[str] = field(default_factory=set)  # properties about events that have happened

    def add(self, phase: SecondPhase, found: dict[str, Inevitable]) -> None:
        """Add the verdicts of a phase; of two on one property the worse one counts."""
        self.states += len(phase.states)
        self.complete = self.complete and phase.complete
        if phase.stopped != DRAWS_GO_ON:  # a bound on draws leaves out what it says
            self.cut_off = self.cut_off or phase.stopped
        self.shown |= phase.shown()
        for name, each in found.items():
            if name not in self.judged or (
                BADNESS[each.verdict] > BADNESS[self.judged[name][0].verdict]
            ):
                self.judged[name] = (each, phase)


def liveness(
    check: Check,
    entry: Entry,
    search: Search,
    model: Model,
    progress: Callable[[int, int], None] | None,
) -> Liveness:
    """Judge the properties that the search has not decided, by a second phase after it."""
    uses, observer = model
    ends = [name for name in observer.about_the_end() if name not in search.wrong]
    eventually = [
        each.name
        for each in entry.problem.properties
        if each.kind is Kind.EVENTUALLY and each.name not in search.wrong and each.name not in ends
    ]
    result = Liveness()
    for phase in _phases(check, search, uses, observer, bool(ends)):
        phase.begin_at(search.visited())
        for limit in (min(EARLY, check.limit), check.limit):
            phase.run(max(limit, 2 * len(phase.origins)), progress)
            found = judge(phase, eventually, [name for name in ends if name != E4.name])
            if phase.complete or phase.stopped in (INTERRUPTED, DRAWS_GO_ON) or _is_violated(found):
                break
        if E4.name in ends:
            found[E4.name] = _without_changes(found.get(E3.name))
        result.add(phase, found)
    return result


def _phases(
    check: Check,
    search: Search,
    uses: Mapping[ProcessId, ClientModel],
    observer: Observer,
    everything: bool,
) -> list[SecondPhase]:
    """Return the second phases: one, or one for each leader on which an abstract component can
    settle.
    """
    asking = check.entries is None
    if not check.abstract:
        return [
            SecondPhase(
                search,
                search.system,
                uses,
                observer,
                everything=everything,
                asking=asking,
                draws=check.draws,
            )
        ]
    phases = []
    for leader in search.system.plans:
        system, replant = abstraction.settled(search.system, check.abstract, leader)
        phases.append(
            SecondPhase(
                search,
                system,
                uses,
                observer,
                everything=everything,
                asking=asking,
                replant=replant,
                up=leader,
                draws=check.draws,
            )
        )
    return phases


def _is_violated(found: Mapping[str, Inevitable]) -> bool:
    return any(each.verdict is Verdict.VIOLATED for each in found.values())


def _without_changes(agreement: Inevitable | None) -> Inevitable:
    """Judge an eventual E4 by E3: between two leaders processes disagree, so there are no new
    leaders from the moment on at which they agree for ever.
    """
    if agreement is not None and agreement.verdict in (Verdict.HOLDS, Verdict.ALMOST_SURELY):
        return agreement
    return Inevitable(Verdict.UNDECIDED, "it follows from E3, which was not shown")


__all__ = ["Liveness", "liveness"]
