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

Where every draw leads to new states, as rounds with ever larger numbers do, the graph has no end.
Then it is followed for a number of draws.  If from every state in which the phase begins, whatever
the order of messages, these draws can fulfil the obligation, then each try succeeds with a chance
that is not zero, and by that it is fulfilled with probability one.

Where the graph was not followed to its end, a run that repeats with ever larger numbers is a
violation too: the steps between two states of the same shape (see `growth`) form an end component,
and the graph contains them twice in a row, with the same growth.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from habemus.core.process import ProcessId
from habemus.core.properties import Verdict
from habemus.runtimes.checker.graphs import endless, strong_components, walk
from habemus.runtimes.checker.growth import Shapes
from habemus.runtimes.checker.search import GlobalStep
from habemus.runtimes.checker.second_phase import DRAWS_GO_ON, SecondPhase, step_key

BADNESS = {
    Verdict.HOLDS: 0,
    Verdict.ALMOST_SURELY: 1,
    Verdict.UNDECIDED: 2,
    Verdict.VIOLATED: 3,
}
MOST_SHAPES = 100_000
"""Largest number of states whose shapes are compared."""
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
        self.positions = [each for each, is_marked in enumerate(marked) if is_marked]

    @cached_property
    def _shapes(self) -> Shapes:
        return Shapes(self.phase)

    @cached_property
    def _draws(self) -> _Draws:
        return _Draws(self.phase)

    def obligations(self, name: str) -> Inevitable:
        phase = self.phase
        worst = Inevitable(Verdict.HOLDS)
        if not self.positions:
            return worst
        for process in phase.system.topology.processes:
            inside = bytearray(len(phase.states))
            for each in self.positions:
                inside[each] = (name, process) in phase.unfulfilled(each)
            goals = [each for each, is_inside in enumerate(inside) if not is_inside]
            found = self._stays(inside, name, lambda part: part.members)
            if found.verdict is Verdict.UNDECIDED and phase.draws is not None:
                found = self._by_draws(goals, found)
            if found.verdict is Verdict.VIOLATED:
                return found._replace(process=process)
            worst = max(worst, found, key=lambda each: BADNESS[each.verdict])
        return worst

    def ends(self, name: str) -> Inevitable:
        phase = self.phase

        def bad(part: _Part) -> list[int]:
            return [each for each in part.members if name in phase.at_rest(each)]

        found = self._stays(bytearray(b"\x01") * len(phase.states), name, bad)
        if found.verdict is Verdict.UNDECIDED and phase.draws is not None:
            ends = [
                each
                for each in range(len(phase.states))
                if phase.is_expanded(each) and not phase.following(each)
            ]
            found = self._by_draws(ends, found)
        return found

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
        if phase.complete or all(phase.is_expanded(each) for each in starts):
            return worst
        return self._grows(inside, starts, name, bad) or Inevitable(
            Verdict.UNDECIDED, phase.stopped
        )

    def _grows(
        self,
        inside: bytearray,
        starts: Sequence[int],
        name: str,
        bad: Callable[[_Part], list[int]],
    ) -> Inevitable | None:
        """Find a run that stays inside for ever with ever larger numbers."""
        phase = self.phase
        if len(starts) > MOST_SHAPES:
            return None
        of: dict[Hashable, int] = {}
        alike = {each: of.setdefault(self._shapes.of(each)[0], each) for each in starts}
        steps = {}
        for each in of.values():
            if phase.is_expanded(each):
                found = _steps(phase, each)
                leaving = {
                    step_key(step)
                    for step, target in found
                    if not inside[target]
                    or not phase.is_expanded(alike[target])
                    or _is_progress(phase, step, name)
                }
                steps[each] = [
                    (step, alike[target]) for step, target in found if step_key(step) not in leaving
                ]
        for part in _closed_parts(steps):
            if bad(part):
                run = self._repeated(part, alike, min(bad(part)))
                if run is not None:
                    return Inevitable(
                        Verdict.VIOLATED, "with ever larger numbers", position=run[0], loop=run
                    )
        return None

    def _repeated(
        self, part: _Part, alike: Mapping[int, int], first: int
    ) -> tuple[int, ...] | None:
        """Return the steps from a state to the next one of its shape, if they are fair and the
        graph contains them again after that.
        """
        members = set(part.members)
        following = {
            each: [target for target in self.phase.following(each) if alike.get(target) in members]
            for each in alike
            if alike[each] in members and self.phase.is_expanded(each)
        }
        way = self._next_alike(first, alike, following)
        again = self._next_alike(way[-1], alike, following) if way else []
        if not again or self._growth(first, way[-1]) != self._growth(way[-1], again[-1]):
            return None
        return (first, *way) if self._is_fair_run((first, *way)) else None

    def _next_alike(
        self, start: int, alike: Mapping[int, int], following: Mapping[int, Sequence[int]]
    ) -> list[int]:
        goals = {
            each
            for each, like in alike.items()
            if like == alike[start] and any(self._growth(start, each).values())
        }
        try:
            return walk(start, goals, following)
        except LookupError:
            return []

    def _growth(self, before: int, after: int) -> dict[str, int]:
        least, later = self._shapes.of(before)[1], self._shapes.of(after)[1]
        return {name: later[name] - value for name, value in least.items() if name in later}

    def _is_fair_run(self, run: Sequence[int]) -> bool:
        """Return whether no message stays in flight all along, without being received."""
        taken = set()
        possible = []
        for each, target in pairwise(run):
            steps = _steps(self.phase, each)
            taken |= {_class(self.phase, step) for step, after in steps if after == target}
            possible.append({_class(self.phase, step) for step, _ in steps if not step.voluntary})
        return set.intersection(*possible) <= taken

    def _by_draws(self, goals: Sequence[int], undecided: Inevitable) -> Inevitable:
        """Judge whether the draws that were followed lead to a goal from every beginning."""
        phase = self.phase
        if phase.stopped != DRAWS_GO_ON:
            return undecided
        certain = self._draws.reaching(goals)
        if all(certain[each] for each in phase.beginnings):
            return Inevitable(Verdict.ALMOST_SURELY)
        return undecided

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


class _Draws:
    """The events of each state with their outcomes, and the states before each state."""

    def __init__(self, phase: SecondPhase) -> None:
        self.size = len(phase.states)
        self.outcomes: dict[int, list[list[int]]] = {}
        self.before: dict[int, list[int]] = {}
        for each in range(self.size):
            if phase.is_expanded(each):
                events: dict[object, list[int]] = {}
                for step, target in _steps(phase, each):
                    if not step.voluntary:
                        events.setdefault(step_key(step), []).append(target)
                        self.before.setdefault(target, []).append(each)
                self.outcomes[each] = list(events.values())

    def reaching(self, goals: Sequence[int]) -> bytearray:
        """Mark the states from which draws can lead to a goal, whatever the order of steps is."""
        marked = bytearray(self.size)
        queue = list(goals)
        for each in queue:
            marked[each] = 1
        for each in queue:
            for earlier in self.before.get(each, ()):
                if not marked[earlier] and all(
                    any(marked[target] for target in targets) for targets in self.outcomes[earlier]
                ):
                    marked[earlier] = 1
                    queue.append(earlier)
        return marked


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
    within = set(part.members)
    steps = {}
    for each in part.members:
        leaving = {
            step_key(step)
            for step, target in _steps(phase, each)
            if target not in within or _is_progress(phase, step, name)
        }
        steps[each] = [pair for pair in part.steps[each] if step_key(pair[0]) not in leaving]
    yield from _closed_parts(steps)


def _closed_parts(steps: dict[int, list[tuple[GlobalStep, int]]]) -> Iterator[_Part]:
    """Yield the largest connected parts of which no event has an outcome outside."""
    waiting = list(_parts_of(steps))
    while waiting:
        part = waiting.pop()
        closed = {}
        for each in part.members:
            inner = {id(step) for step, _ in part.steps[each]}
            leaving = {step_key(step) for step, _ in steps[each] if id(step) not in inner}
            closed[each] = [pair for pair in part.steps[each] if step_key(pair[0]) not in leaving]
        if sum(map(len, closed.values())) < sum(map(len, part.steps.values())):
            steps = steps | closed
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
