"""Judgement of liveness in the second phase: is every obligation fulfilled in the end?

A run of the second phase violates an obligation if it ends while the obligation is pending, or goes
on for ever while it is.  A run that goes on for ever is fair if time passes again and again: then
every message was received, and every timer that stayed set has expired.  If time does not pass,
because messages are in flight without end, each of them must be received eventually.

Random choices, and the lengths of timers that are drawn from a range, are not made by an adversary.
A run that goes on for ever has made every choice that it made infinitely often with each of its
outcomes.  So the steps that it takes without end form an *end component*: a strongly connected part
of the graph that no outcome of its own choices leaves.  If obligations can stay pending for ever,
but in no end component, they are fulfilled with probability one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from habemus.core.process import ProcessId
from habemus.core.properties import Verdict
from habemus.runtimes.checker.graphs import endless, strong_components, walk
from habemus.runtimes.checker.search import GlobalStep
from habemus.runtimes.checker.second_phase import SecondPhase, step_key

BADNESS = {
    Verdict.HOLDS: 0,
    Verdict.ALMOST_SURELY: 1,
    Verdict.UNDECIDED: 2,
    Verdict.VIOLATED: 3,
}
WITHOUT_TIME = "messages are in flight without end, so that no timer expires any more"


class Inevitable(NamedTuple):
    """The verdict on one property, with the run that violates it."""

    verdict: Verdict
    why: str = ""
    process: ProcessId | None = None
    position: int = -1  # the end of the path, where the loop begins, if there is one
    loop: tuple[int, ...] = ()  # positions from there round to it again


class _Part(NamedTuple):
    """A part of the graph in which a run can stay."""

    members: list[int]
    steps: dict[int, list[tuple[GlobalStep, int]]]  # within it, with the positions of targets

    def following(self) -> dict[int, list[int]]:
        return {each: [target for _, target in steps] for each, steps in self.steps.items()}

    def time_passes(self) -> list[tuple[int, int]]:
        """Return the steps in which time passes."""
        return [
            (each, target)
            for each, steps in self.steps.items()
            for step, target in steps
            if step.place < 0
        ]


def judge(
    phase: SecondPhase, eventually: Sequence[str], about_the_end: Sequence[str] = ()
) -> dict[str, Inevitable]:
    """Judge properties in the second phase.

    eventually: properties that are violated if an obligation stays pending.  about_the_end: those
    that are violated if the end of a run is, which needs a phase that has followed everything.
    """
    size = len(phase.states)
    if phase.everything:
        marked = bytearray(b"\x01") * size
    else:
        marked = endless(
            size,
            lambda each: phase.following(each) if phase.is_expanded(each) else (),
            lambda each: phase.is_expanded(each) and not phase.unfulfilled(each),
        )
    judgement = _Judgement(phase, marked)
    found = {name: judgement.obligations(name) for name in eventually}
    return found | {name: judgement.ends(name) for name in about_the_end}


class _Judgement:
    def __init__(self, phase: SecondPhase, marked: bytearray) -> None:
        self.phase = phase
        self.marked = marked
        self.positions = [each for each, is_marked in enumerate(marked) if is_marked]

    def obligations(self, name: str) -> Inevitable:
        phase = self.phase
        worst = Inevitable(Verdict.HOLDS)
        if not self.positions:
            return worst
        for process in phase.system.topology.processes:
            inside = bytearray(len(phase.states))
            for each in self.positions:
                inside[each] = (name, process) in phase.unfulfilled(each)
            found = self._stays(inside, name, lambda part: part.members)
            if found.verdict is Verdict.VIOLATED:
                return found._replace(process=process)
            worst = max(worst, found, key=lambda each: BADNESS[each.verdict])
        return worst

    def ends(self, name: str) -> Inevitable:
        phase = self.phase

        def bad(part: _Part) -> list[int]:
            return [each for each in part.members if name in phase.at_rest(each)]

        return self._stays(bytearray(b"\x01") * len(phase.states), name, bad)

    def _stays(self, inside: bytearray, name: str, bad: Callable[[_Part], list[int]]) -> Inevitable:
        """Judge whether a run can stay inside for ever, and pass a bad state again and again."""
        phase = self.phase
        starts = [each for each in self.positions if inside[each]]
        for each in starts:
            if phase.is_expanded(each) and not phase.following(each):
                end = _Part([each], {each: []})
                if bad(end):
                    return Inevitable(Verdict.VIOLATED, "nothing happens any more", position=each)
        worst = Inevitable(Verdict.HOLDS)
        for part in self._parts(inside, starts, name):
            if not bad(part) or not _is_fair(phase, part):
                continue
            worst = Inevitable(Verdict.ALMOST_SURELY)
            for kept in _end_components(phase, part, name):
                wrong = bad(kept)
                if wrong and _is_fair(phase, kept):
                    if not kept.time_passes() and any(map(phase.has_timers, kept.members)):
                        return Inevitable(Verdict.UNDECIDED, WITHOUT_TIME)
                    return self._lasso(kept, wrong)
        if not phase.complete and any(not phase.is_expanded(each) for each in starts):
            return Inevitable(Verdict.UNDECIDED, phase.stopped)
        return worst

    def _parts(self, inside: bytearray, starts: Sequence[int], name: str) -> Iterator[_Part]:
        phase = self.phase

        def following(each: int) -> list[int]:
            if not phase.is_expanded(each):
                return []
            return [target for target in phase.following(each) if inside[target]]

        for members in strong_components(len(phase.states), following, starts):
            if len(members) == 1 and members[0] not in following(members[0]):
                continue
            yield from _connected(phase, members, name)

    def _lasso(self, part: _Part, wrong: Sequence[int]) -> Inevitable:
        first = min(wrong)
        following = part.following()
        way = [first]
        passing = part.time_passes()
        if passing:
            sources = dict(passing)
            way += walk(first, sources, following)
            way.append(sources[way[-1]])
        else:
            for each in sorted(part.members):
                way += walk(way[-1], {each}, following) if each not in way else []
        if len(way) == 1:
            way.append(following[first][0])
        way += walk(way[-1], {first}, following)
        return Inevitable(Verdict.VIOLATED, position=first, loop=tuple(way))


def _steps(phase: SecondPhase, each: int) -> list[tuple[GlobalStep, int]]:
    return [(step, phase.position_of(step.target)) for step in phase.steps(phase.states[each])]


def _is_progress(phase: SecondPhase, step: GlobalStep, name: str) -> bool:
    return any(name in phase.observer.progress(seen) for seen in step.seen)


def _connected(phase: SecondPhase, members: Sequence[int], name: str) -> Iterator[_Part]:
    """Yield the parts of these states that stay connected without steps of progress."""
    within = set(members)
    steps = {
        each: [
            (step, target)
            for step, target in _steps(phase, each)
            if target in within and not _is_progress(phase, step, name)
        ]
        for each in members
    }
    yield from _parts_of(steps)


def _parts_of(steps: dict[int, list[tuple[GlobalStep, int]]]) -> Iterator[_Part]:
    nodes = list(steps)
    index = {each: number for number, each in enumerate(nodes)}
    for numbers in strong_components(
        len(nodes), lambda number: [index[target] for _, target in steps[nodes[number]]]
    ):
        members = [nodes[number] for number in numbers]
        within = set(members)
        inner = {each: [pair for pair in steps[each] if pair[1] in within] for each in members}
        if any(inner.values()):
            yield _Part(members, inner)


def _end_components(phase: SecondPhase, part: _Part, name: str) -> Iterator[_Part]:
    """Yield the largest parts that no outcome of their own choices leaves."""
    waiting = [part]
    while waiting:
        part = waiting.pop()
        within = set(part.members)
        closed = {}
        removed = False
        for each in part.members:
            leaving = {
                step_key(step)
                for step, target in _steps(phase, each)
                if target not in within or _is_progress(phase, step, name)
            }
            kept = [pair for pair in part.steps[each] if step_key(pair[0]) not in leaving]
            removed = removed or len(kept) < len(part.steps[each])
            closed[each] = kept
        if removed:
            waiting += _parts_of(closed)
        else:
            yield part


def _is_fair(phase: SecondPhase, part: _Part) -> bool:
    """Return whether a run can stay in a part for ever and leave out no step that must be taken."""
    if part.time_passes():
        return True
    taken = {_class(phase, step) for steps in part.steps.values() for step, _ in steps}
    possible = [
        {
            _class(phase, step)
            for step, _ in _steps(phase, each)
            if not step.voluntary and step.place >= 0
        }
        for each in part.members
    ]
    return set.intersection(*possible) <= taken


def _class(phase: SecondPhase, step: GlobalStep) -> tuple[object, ...]:
    what = step.label.what
    if step.label.kind == "receive" and phase.bound.fifo:
        return (step.place, "receive", what.sender)
    return (step.place, step.label.kind, what)


__all__ = ["BADNESS", "Inevitable", "judge"]
