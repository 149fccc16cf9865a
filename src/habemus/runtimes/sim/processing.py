"""Processing time: a process handles one message at a time, and each takes a while.

Without it a handler takes no time, so that a process that gets many messages is as fast as any
other.  With it a message that arrives waits until those before it have been handled: this is how a
coordinator becomes a bottleneck.  Messages of a process to itself, timers and requests of the
application take no time.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from habemus.core.process import ProcessId
from habemus.runtimes.sim.calendar import CONTROL, TIE, Calendar, Queued
from habemus.runtimes.sim.recorder import Waited
from habemus.runtimes.sim.stepping import Stepper


class Arrive(NamedTuple):
    """Control: a message arrives at a process that needs time for it."""

    event: Queued


class Handled(NamedTuple):
    """Control: a process has handled the first message of its queue."""

    process: ProcessId
    life: int


class ProcessingQueues:
    """The messages that have arrived at each process and wait until it has time for them."""

    stepper: Stepper  # set when there is one, which is after the senders have been made

    def __init__(self, calendar: Calendar, ports: int, duration: int, *, records: bool) -> None:
        self._calendar = calendar
        self._ports = ports
        self._duration = duration
        self._records = records
        self._waiting: dict[ProcessId, deque[Queued]] = {}
        self._lives: dict[ProcessId, int] = {}  # how often each process has crashed

    def enter(self, arrival: int, event: Queued) -> None:
        """Add a message that arrives at that time."""
        calendar = self._calendar
        calendar.sequence += 1
        calendar.enter(arrival, (calendar.bits(TIE), CONTROL, calendar.sequence, Arrive(event)))

    def arrive(self, _: None, __: int, control: Arrive) -> None:
        """Queue a message that has arrived; a crashed process loses it."""
        event = control.event
        process = event[1] // self._ports
        if process in self.stepper.down:
            self._deliver(event)
            return
        queue = self._waiting.setdefault(process, deque())
        queue.append(event)
        if len(queue) == 1:
            self._begin(process)

    def _begin(self, process: ProcessId) -> None:
        self._calendar.schedule(self._duration, Handled(process, self._lives.get(process, 0)))

    def finish(self, _: None, __: int, control: Handled) -> None:
        """Step a process with its first message, and begin with the next one."""
        process, life = control
        if life != self._lives.get(process, 0):
            return
        queue = self._waiting[process]
        self._deliver(queue.popleft())
        if queue:
            self._begin(process)

    def _deliver(self, event: Queued) -> None:
        if self._records:
            self.stepper.log.append(Waited())
            self.stepper.log.append(event)
        _, address, sender, message = event
        table, part = self.stepper.targets[address]
        table[type(message)](part, sender, message)

    def crashed(self, process: ProcessId) -> list[Queued]:
        """Remove and return the messages that wait for a process."""
        self._lives[process] = self._lives.get(process, 0) + 1
        queue = self._waiting.get(process, deque())
        waiting = list(queue)
        queue.clear()
        return waiting

    def clear(self) -> None:
        self._waiting.clear()
        self._lives.clear()


def message_in(event: Queued) -> Queued | None:
    """Return the message of a pending event: in flight, or in flight to a queue."""
    if event[1] != CONTROL:
        return event
    return event[3].event if type(event[3]) is Arrive else None
