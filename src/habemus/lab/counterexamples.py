"""Counterexamples of checks as branches: played step by step, and continued by hand.

A check has no time, so a step takes a millisecond and any possible step can be the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from habemus.catalog.entries import Entry, find
from habemus.core.events import Event
from habemus.core.properties import Finding, Verdict
from habemus.core.words import counted
from habemus.lab.branches import LabError, PossibleEvent, first_event_of
from habemus.runs.author_errors import attribute_to_algorithm
from habemus.runs.check import Check, perform
from habemus.runtimes.checker.counterexample import STEP_US
from habemus.runtimes.sim.network import Network
from habemus.schedules.play import Diverged, Stage
from habemus.schedules.regression import schedule_test
from habemus.schedules.schedule import Step, parsed, schedule, schedule_of
from habemus.traces import Trace, digest

MOST_STEPS = 1_000
"""Steps that a branch makes by itself after those of its schedule."""

_KINDS = {"receive": "message", "vanish": "message", "timer": "timer", "request": "request"}


class PlayedBranch:
    """A schedule that is played by the bare processes."""

    playable = True
    faults: tuple[str, ...] = ()

    def __init__(
        self,
        check: Check,
        planned: Sequence[Step],
        *,
        found: Finding | None = None,
        loop: int | None = None,
        by_hand: int | None = None,
    ) -> None:
        """Make a branch of planned steps.

        found: what the check found, at the end of the planned steps.
        by_hand: how many of the planned steps are those of the counterexample; None: all.
        """
        self.check = check
        self.entry: Entry = check.judged(find(check.algorithm))
        self._stage = Stage(check, self.entry)
        self.system = self._stage.system
        self.title = f"{check.algorithm}, {counted(check.n, 'participant')}: counterexample"
        self.made: list[Step] = [step for step in planned if step.kind == "start"]
        self._planned = [step for step in planned if step.kind != "start"]
        self._starts = len(self.made)
        self._found = found
        self._loop = loop
        self._by_hand = by_hand
        with attribute_to_algorithm():
            self._stage.start(self.made)

    @property
    def events(self) -> Sequence[Event]:
        return self._stage.events

    @property
    def deliveries(self) -> Sequence[int]:
        return [event.time // STEP_US for event in self.events]

    @property
    def ended(self) -> str | None:
        is_over = not self._planned and self._stage.is_at_rest() and not self._stage.possible()
        return "quiescent" if is_over else None

    @property
    def run(self) -> Mapping[str, Any]:
        violated = [each.name for each in self.findings() if each.verdict is Verdict.VIOLATED]
        name = self._found.name if self._found is not None else violated[0] if violated else ""
        run = {"check": self.check.plain(), "property": name, "steps": self._count}
        return run if self._loop is None else {**run, "loop": self._loop}

    @property
    def _count(self) -> int:
        """Number of steps made."""
        return len(self.made) - self._starts

    @property
    def command(self) -> str:
        return self.check.command()

    @property
    def continuation(self) -> str:
        """The steps of the branch, for a link."""
        return "\n".join(map(str, self.made))

    @property
    def interventions(self) -> tuple[str, ...]:
        if self._by_hand is None:
            return ()
        steps = self.made[self._starts :][self._by_hand :]
        return tuple(f"{number}: {step}" for number, step in enumerate(steps, start=self._by_hand))

    @property
    def digest(self) -> str:
        return digest(self.events)

    def advance(self, is_there: Callable[[int], bool] | None) -> None:
        """Make the planned steps; after these the oldest message, else a request, else a timer."""
        for _ in range(len(self._planned) + MOST_STEPS):
            if is_there is None and not self._planned:
                return
            if self.ended is not None:
                return
            before = len(self.events)
            self._make(self._planned.pop(0) if self._planned else self._next())
            if is_there is not None and is_there(before):
                return

    def _next(self) -> Step:
        possible = self._stage.possible()
        if not possible:
            raise LabError("no step is possible; a crashed process may recover")
        order = ("receive", "vanish", "request", "timer")
        return min(possible, key=lambda step: order.index(step.kind))

    def _make(self, step: Step) -> None:
        with attribute_to_algorithm():
            try:
                self._stage.make(step)
            except Diverged as reason:
                raise LabError(f"{step}: {reason}") from None
        self.made.append(step)

    def findings(self) -> list[Finding]:
        found = list(self._stage.judged("quiescent" if self._stage.is_at_rest() else "events"))
        if self._found is None or self._planned or self._by_hand is not None:
            return found
        others = [each for each in found if each.name != self._found.name]
        return [self._found, *others]

    def costs(self) -> dict[str, Any]:
        return {}

    def first_event(self, finding: Finding) -> int | None:
        judge = self.entry.problem.judge(self.check.setup(), self.system, Network())
        return first_event_of(self.events, finding, self.entry, judge)

    def pending(self, at: int | None) -> list[PossibleEvent]:
        branch = self._up_to(at)
        made = self.made[self._starts + branch._count :] or self._planned
        possible = branch._stage.possible()
        natural = str(made[0] if made else branch._next()) if made or possible else ""
        return [
            PossibleEvent(
                str(step),
                _KINDS[step.kind],
                step.process,
                step.peer if step.peer >= 0 else None,
                f"{step.what}{f', choosing {chr(32).join(step.choices)}' if step.choices else ''}",
                step.part,
                None,
                is_next=str(step) == natural,
            )
            for step in possible
        ]

    def _up_to(self, at: int | None) -> PlayedBranch:
        """Return a branch with the steps up to an event, or all that were made."""
        count = self._count if at is None else self.events[at].time // STEP_US
        original = count if self._by_hand is None else min(count, self._by_hand)
        branch = PlayedBranch(self.check, self.made[: self._starts + count], by_hand=original)
        branch.advance(None)
        return branch

    def fork(self, at: int | None, what: str) -> tuple[PlayedBranch, int]:
        branch = self._up_to(at)
        shared = len(branch.events)
        branch._make(parsed(what))
        return branch, shared

    def as_test(self) -> str:
        """Return a test that fails as long as the steps violate a property."""
        wrong = [each for each in self.findings() if each.verdict is Verdict.VIOLATED]
        if not wrong:
            raise LabError("no property is violated, so there is nothing to test")
        loop = None if self._loop is None or self._by_hand is not None else self._loop
        return schedule_test(
            self.check,
            self.made,
            wrong[0].name,
            wrong[0].why,
            found_by=self.check.command(),
            loop=None if loop is None else loop // STEP_US - 1,
        )


def of_check(check: Check) -> PlayedBranch:
    """Search, and return the counterexample."""
    report = perform(check)
    if report.trace is None:
        raise LabError(
            f"{report.verdict.value}: no counterexample in {report.extent.states:,} states within"
            f" {counted(check.n, 'participant')}, {check.description(report.entry)}"
        )
    return of_trace(report.trace)


def of_trace(trace: Trace) -> PlayedBranch:
    """Return the counterexample that a trace contains."""
    check = Check.from_plain(trace.run["check"])
    steps, loop = trace.run.get("steps"), trace.run.get("loop")
    if type(steps) is not int or not 0 <= steps <= 100_000:
        raise LabError("the counterexample does not tell how many steps it has")
    found = trace.findings[0] if trace.findings else None
    return PlayedBranch(
        check,
        schedule_of(trace.events, steps),
        found=found,
        loop=loop if type(loop) is int else None,
    )


def of_steps(check: Check, steps: str) -> PlayedBranch:
    """Return the branch that makes these steps."""
    return PlayedBranch(check, schedule(steps), by_hand=None)
