"""Repetition of a saved counterexample, by the bare processes and in the simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from habemus.catalog.entries import find
from habemus.core.system import System
from habemus.runs.check import Check
from habemus.runs.setup import BadSetup
from habemus.runs.systems import system_of
from habemus.runtimes.checker.counterexample import STEP_US
from habemus.schedules.perform import CannotPerform, performed, same_behaviour
from habemus.schedules.play import Played, played
from habemus.schedules.schedule import schedule_of
from habemus.traces import Trace, digest


@dataclass(frozen=True)
class RepeatedCounterexample:
    """The result of repeating a counterexample."""

    name: str  # of the property
    played: Played
    saved: str  # the digest of the file
    digest: str
    different: str  # the first event that differs; empty: none does
    simulated: str  # the result of the simulator for the same schedule
    agrees: bool  # the simulator does not contradict it

    @property
    def same(self) -> bool:
        return not self.different and self.name in self.played.violated and self.agrees


def again(trace: Trace) -> RepeatedCounterexample:
    """Play the schedule of a saved counterexample; raise `BadSetup` if its description is
    incomplete.
    """
    run = trace.run
    name, steps, loop = run.get("property"), run.get("steps"), run.get("loop")
    if not (
        isinstance(name, str)
        and type(steps) is int
        and 0 <= steps <= 1_000_000
        and (loop is None or type(loop) is int)
    ):
        raise BadSetup(
            "the description of the counterexample names no property, or not how many steps lead"
            " to it"
        )
    check = _check_of(run["check"])
    entry = find(check.algorithm)
    schedule = schedule_of(trace.events, steps)
    result = played(
        check, schedule, loop=None if loop is None else loop // STEP_US - 1, entry=entry
    )
    simulated, agrees = "", True
    try:
        simulation = performed(check, result.events, schedule, entry, to_rest=result.at_rest)
        if name in simulation.violated:
            simulated = f"{name} is violated"
            simulated += (
                " too"
                if simulation.violated[name] == result.violated.get(name)
                else f": {simulation.violated[name]}"
            )
        elif same_behaviour(simulation.events, result.events):
            simulated = "the same events"
        else:
            simulated, agrees = "other events", False
    except CannotPerform as reason:
        simulated = f"not performed, {reason}"
    return RepeatedCounterexample(
        name,
        result,
        digest(trace.events),
        digest(result.events),
        _difference(trace, result),
        simulated,
        agrees,
    )


def system_of_counterexample(trace: Trace) -> System:
    """Return the system whose processes a counterexample is about."""
    check = _check_of(trace.run["check"])
    return system_of(check.setup(), find(check.algorithm))


def _check_of(plain: Any) -> Check:
    """Return the check of a header, which is untrusted."""
    if not isinstance(plain, dict):
        raise BadSetup("the description of the counterexample has no check")
    return Check.from_plain(plain)


def _difference(trace: Trace, result: Played) -> str:
    if result.diverged:
        return result.diverged
    for position, (saved, now) in enumerate(
        zip(trace.events, result.events, strict=False), start=1
    ):
        if (saved.line(), saved.clock) != (now.line(), now.clock):
            return f"event {position} is {now.line()}, the file has {saved.line()}"
    if len(trace.events) != len(result.events):
        return f"{len(result.events)} events, the file has {len(trace.events)}"
    return ""


__all__ = ["RepeatedCounterexample", "again", "system_of_counterexample"]
