"""The past of a run that goes on in the simulator: a recorded trace up to one of its events.

The trace has no states.  Its events are fed to the pure processes, whose states, messages and
timers at that event are those of the recorded run.  What the trace cannot tell is assumed:

- a message that was sent and neither received nor lost is under way, with the delay of the run;
- a timer that was set expires within the span it was set to, counted from then;
- an application that is inside leaves after the holding time of the run, one that waits does so
  after its grant, and none makes another request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from habemus.core.application import Drive
from habemus.core.events import Event
from habemus.core.mutex_events import mutex_change
from habemus.core.node import CancelTimer, SetTimer
from habemus.core.process import ProcessId, Span
from habemus.core.system import System
from habemus.core.values import Indication, Message, Timer
from habemus.problems.mutex import Granted
from habemus.runtimes.replay import Replay
from habemus.runtimes.sim.situation import MessageUnderWay, Situation, TimerSet

HOLD = 1_000
"""Time that an application stays inside."""


@dataclass(frozen=True)
class Past:
    """The recorded part of a run."""

    run: Mapping[str, Any]  # the header of the trace
    system: System
    events: tuple[Event, ...]

    def up_to(self, index: int) -> Past:
        """Return the past up to an event, with the whole step that it belongs to."""
        events = self.events
        end = index + 1
        own = events[index].process
        while end < len(events) and (
            events[end].process == own and events[end].kind in ("send", "indicate", "choose")
        ):
            end += 1
        return Past(self.run, self.system, events[:end])

    def situation(self) -> Situation:
        """Return the situation after the last event."""
        reader = _SituationReader(self)
        reader.read()
        return reader.situation()

    def workload(self) -> ContinuedClients:
        """Return the applications as they are after the last event."""
        inside: dict[ProcessId, None] = {}
        waiting: dict[ProcessId, None] = {}
        for event in self.events:
            match mutex_change(event):
                case "request":
                    waiting[event.process] = None
                case "entry" | "resume":
                    waiting.pop(event.process, None)
                    inside[event.process] = None
                case "exit" | "loss" | "move" | "break_off" | "crash":
                    waiting.pop(event.process, None)
                    inside.pop(event.process, None)
        return ContinuedClients(tuple(inside), tuple(waiting))


class _SituationReader:
    """Reads a trace and knows what is under way after it."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._replay = Replay(past.system)
        self._timers: dict[tuple[ProcessId, int, Timer], tuple[int, Span]] = {}
        self._sent: dict[int, MessageUnderWay] = {}
        self._clocks: dict[ProcessId, tuple[int, ...]] = {}
        self._down: dict[ProcessId, None] = {}
        self._last_number = 0

    def read(self) -> None:
        replay, events = self._replay, self._past.events
        replay.observer = self._stepped
        for _ in replay.states(events):
            pass
        for event in events:
            self._note(event)
        for process in self._down:
            node = replay.nodes[process]
            node.restore(node.stack.forget(node.capture()))

    def _stepped(self, event: Event, effects: Sequence[Any]) -> None:
        me = event.process
        if event.kind in ("start", "recover"):
            for key in [key for key in self._timers if key[0] == me]:
                del self._timers[key]
        if event.kind == "timer":
            value = self._replay.value(me, event)
            assert isinstance(value, Timer)
            self._timers.pop((me, self._replay.port(event.part), value), None)
        for effect in effects:
            if isinstance(effect, SetTimer):
                self._timers[me, effect.port, effect.timer] = (event.time, effect.after)
            elif isinstance(effect, CancelTimer):
                self._timers.pop((me, effect.port, effect.timer), None)

    def _note(self, event: Event) -> None:
        if event.clock is not None:
            self._clocks[event.process] = event.clock
        if event.kind == "crash":
            self._down[event.process] = None
            for key in [key for key in self._timers if key[0] == event.process]:
                if self._timers[key][0] <= event.time:
                    del self._timers[key]
        elif event.kind == "recover":
            self._down.pop(event.process, None)
        elif event.kind == "send" and event.number is not None and event.peer is not None:
            self._last_number = max(self._last_number, event.number)
            message = self._replay.value(event.peer, event)
            assert isinstance(message, Message)
            port = self._replay.port(event.part)
            self._sent[event.number] = MessageUnderWay(
                event.number, event.process, event.peer, port, message, event.clock
            )
        elif event.kind in ("receive", "lost") and event.number is not None:
            self._sent.pop(event.number, None)

    def situation(self) -> Situation:
        events = self._past.events
        now = max((event.time for event in events), default=0)
        begun = {event.process for event in events if event.kind in ("start", "recover")}
        return Situation(
            now,
            {me: node.capture() for me, node in self._replay.nodes.items()},
            tuple(self._down),
            tuple(me for me in self._replay.nodes if me not in begun),
            tuple(self._sent.values()),
            tuple(
                TimerSet(me, port, timer, _left(since, after, now))
                for (me, port, timer), (since, after) in self._timers.items()
                if me not in self._down
            ),
            self._clocks,
            self._last_number,
        )


def _left(since: int, after: Span, now: int) -> Span:
    """Return the time that a timer has left."""
    low, high = after if isinstance(after, tuple) else (after, after)
    return max(1, since + low - now), max(1, since + high - now)


@dataclass
class ContinuedClients:
    """Workload of applications that finish what they have begun, and begin nothing."""

    inside: tuple[ProcessId, ...]
    waiting: tuple[ProcessId, ...]

    _busy: set[ProcessId] = field(default_factory=set, init=False, repr=False)

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None:
        self._busy = {*self.inside, *self.waiting}
        for process in self.inside:
            drive.ask(process, "release", after=HOLD)

    def asked(self, process: ProcessId, request: str, drive: Drive) -> None:
        if request == "release":
            self._busy.discard(process)

    def indicated(self, process: ProcessId, indication: Indication, drive: Drive) -> None:
        if isinstance(indication, Granted):
            drive.ask(process, "release", after=HOLD)

    def crashed(self, process: ProcessId) -> None:
        self._busy.discard(process)

    def recovered(self, process: ProcessId, drive: Drive) -> None:
        pass

    def is_done(self) -> bool:
        return not self._busy


__all__ = ["ContinuedClients", "Past"]
