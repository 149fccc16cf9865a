"""Performance of a counterexample in the simulator, with scripted delays, timers, requests and
faults.

The simulator is unchanged.  Each link has a sampler that returns the scripted delay of its next
message, each timer is set to its scripted expiry, and random choices are the scripted ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from habemus.catalog.entries import Entry
from habemus.core.application import Drive
from habemus.core.events import Event, notation_of
from habemus.core.mistakes import awaited_by
from habemus.core.node import Stack
from habemus.core.process import Process, ProcessId, Span, T
from habemus.core.properties import Verdict
from habemus.core.shapes import plain_of
from habemus.core.values import Timer
from habemus.problems.election import Calls
from habemus.runs.check import Check
from habemus.runtimes.checker.counterexample import STEP_US
from habemus.runtimes.sim.faults import Crash, Cut, Fault, Heal, Nth, Recover
from habemus.runtimes.sim.network import Bits, Network, Sampler
from habemus.runtimes.sim.simulation import Record, Simulation
from habemus.schedules.schedule import Step, drawn

NEVER = 10**12
"""Delay of messages and timers that the schedule does not have: long after its end."""


class CannotPerform(ValueError):
    """The schedule has a fault that the simulator does not have."""


@dataclass(frozen=True)
class Performed:
    events: tuple[Event, ...]
    violated: Mapping[str, str]


@dataclass(frozen=True)
class ScriptedDelay:
    """The delay of a link, given for each message."""

    delays: tuple[int, ...]
    mean: int = STEP_US
    longest: int = STEP_US

    def sampler(self, bits: Bits) -> Sampler:
        left = iter(self.delays)
        return lambda _now: next(left, NEVER)


class ScriptedRun(Calls):
    """Workload of scripted requests, which never reacts; also the script of timers and choices."""

    def __init__(self, events: Sequence[Event], late: int) -> None:
        self.events = events
        self.late = late
        self._drive: Drive | None = None

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None:
        self._drive = drive
        for event in self.events:
            if event.kind == "request":
                drive.ask(
                    event.process,
                    event.name,
                    *event.fields().get("value", ()),
                    after=event.time,
                    lasting=True,
                )

    def dictate(self, me: ProcessId, parts: Sequence[tuple[str, Process]]) -> None:
        """Replace the timers and random choices of a process by the scripted ones."""
        draws = [
            drawn(event.fields()["value"])
            for event in self.events
            if event.process == me and event.kind == "choose"
        ]
        for path, part in parts:
            moments: dict[str, list[int]] = defaultdict(list)
            for event in self.events:
                if event.process == me and event.kind == "timer" and event.part == path:
                    moments[event.notation()].append(event.time)
            self._dictate(part, moments, draws)

    def _dictate(self, part: Process, moments: Mapping[str, list[int]], draws: list[str]) -> None:
        set_timer, choose = part.set_timer, part.choose

        def set_as_written(timer: Timer, *, after: Span) -> None:
            now = 0 if self._drive is None else self._drive.now
            coming = [
                moment
                for moment in moments.get(notation_of(type(timer).__name__, timer), [])
                if moment > now
            ]
            set_timer(timer, after=coming[0] - now if coming else self.late - now)

        def choose_as_written(options: Sequence[T]) -> T:
            wanted = draws.pop(0) if draws else None
            return choose(
                [option for option in options if drawn(plain_of(option)) == wanted] or options
            )

        part.set_timer, part.choose = set_as_written, choose_as_written


def performed(
    check: Check, events: Sequence[Event], steps: Sequence[Step], entry: Entry, *, to_rest: bool
) -> Performed:
    """Run the schedule in the simulator and judge it; raise `CannotPerform` if the simulator lacks
    one of its faults.

    With `to_rest`, no process acts after the last step, so remaining messages and timers come right
    after it.
    """
    entry = check.judged(entry)
    system = check.system(entry)
    last = max((event.time for event in events), default=0)
    late = last + STEP_US // 4 if to_rest else NEVER
    script = ScriptedRun(events, late)
    network = Network(links=_links(events, late))
    simulation = Simulation(
        system,
        workload=script,
        network=network,
        faults=_faults(events, steps),
        record=Record.CLOCKS,
    )
    for me, parts in simulation.processes.items():
        paths = [part.path for part in Stack(system.plans[me]).parts]
        script.dictate(me, list(zip(paths, parts, strict=True)))
    judge = entry.problem.judge(check.setup(), system, Network())
    seen: list[Event] = []
    simulation.observers += [seen.append, judge.observe]
    ending = simulation.run(until=last + STEP_US // 2)
    awaits = {
        me: awaited_by(parts[0])
        for me, parts in simulation.processes.items()
        if simulation.is_up(me)
    }
    found = judge.findings(ending.reason, awaits)
    return Performed(
        tuple(seen), {each.name: each.why for each in found if each.verdict is Verdict.VIOLATED}
    )


def same_behaviour(one: Sequence[Event], other: Sequence[Event]) -> bool:
    """Return whether processes did the same at the same moments, whenever the network lost
    messages.
    """

    def actions(events: Sequence[Event]) -> list[str]:
        return [event.line() for event in events if event.kind not in ("lost", "cut", "heal")]

    return actions(one) == actions(other)


def _links(events: Sequence[Event], late: int) -> dict[tuple[ProcessId, ProcessId], ScriptedDelay]:
    """Return the delays of each link in the order of sending, without those of lost messages."""
    ends = {event.number: event for event in events if event.kind in ("receive", "lost")}
    delays: dict[tuple[ProcessId, ProcessId], list[int]] = defaultdict(list)
    for event in events:
        if event.kind == "duplicate":
            raise CannotPerform("the simulator cannot duplicate a given message")
        if event.kind == "send" and event.peer is not None:
            end = ends.get(event.number)
            if end is None:
                delays[event.process, event.peer].append(late - event.time)
            elif not _swallowed(event, end):
                delays[event.process, event.peer].append(end.time - event.time)
    return {link: ScriptedDelay(tuple(each)) for link, each in delays.items()}


def _swallowed(sent: Event, end: Event) -> bool:
    return end.kind == "lost" and end.process == sent.process and sent.process != sent.peer


def _faults(events: Sequence[Event], steps: Sequence[Step]) -> list[Fault]:
    faults: list[Fault] = []
    following = [step for step in steps if step.kind != "start"]
    if any(step.kind == "lose" and step.process == step.peer for step in following):
        raise CannotPerform("the simulator does not lose what a process sends to itself")
    torn = {
        number * STEP_US for number, step in enumerate(following, start=1) if step.torn is not None
    }
    sends: Counter[ProcessId] = Counter()
    lost = [event for event in events if event.kind == "lost"]
    by_number = {event.number: event for event in events if event.kind == "send"}
    for event in events:
        if event.kind == "send" and event.peer != event.process:
            sends[event.process] += 1
        elif event.kind == "crash" and event.time in torn:
            faults.append(Crash(event.process, Nth("send", sends[event.process] + 1)))
        elif event.kind == "crash":
            faults.append(Crash(event.process, event.time))
        elif event.kind == "recover":
            faults.append(
                Recover(event.process, event.time, event.fields().get("value") == "amnesia")
            )
    for end in lost:
        sent = by_number[end.number]
        if _swallowed(sent, end) and sent.peer is not None:
            others = [
                each
                for each in by_number.values()
                if each[:2] == sent[:2] and each.peer == sent.peer and each is not sent
            ]
            if sent.time == 0 or any(
                each.number not in {one.number for one in lost} for each in others
            ):
                raise CannotPerform(
                    "the simulator loses a message with all that is sent on its link at that moment"
                )
            link = ((sent.process, sent.peer),)
            faults += [Cut(link, sent.time - 1), Heal(link, sent.time + 1)]
    return faults


__all__ = ["CannotPerform", "Performed", "performed", "same_behaviour"]
