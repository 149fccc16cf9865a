"""Turn the simulator's raw log into events.

While it runs, the simulator only appends to a log: the time when it advances, the queued tuple of a
message when it is sent and again when it is taken from the queue, and a finished event for
everything else, which is rare.  The recorder reads that log later, in order: it numbers the
messages, decides whether each was received or lost, and computes the vector clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from habemus.core.events import Event
from habemus.core.process import ProcessId
from habemus.core.values import Message
from habemus.runtimes.sim.calendar import CONTROL, Queued


class Lost(NamedTuple):
    """Log entry: a message that the network lost when it was sent."""

    time: int
    sender: ProcessId
    address: int
    message: Message


class Twice(NamedTuple):
    """Log entry: the second copy of a message that has just been sent."""

    first: Queued
    second: Queued


class Requeued(NamedTuple):
    """Log entry: a message that waited for a paused process and is queued again."""

    event: Queued


class Dropped(NamedTuple):
    """A message in flight that will not arrive."""

    event: Queued


class Waited(NamedTuple):
    """Log entry: the next message waited for a busy process, and its arrival was counted."""


class RunRecorder:
    def __init__(self, processes: tuple[ProcessId, ...], paths: list[str], clocks: bool) -> None:
        self.delivered = 0  # events of the calendar that were taken, up to the last event returned
        self._paths = paths
        self._ports = len(paths)
        self._number = 0
        self._now = 0
        self._under_way: dict[int, int] = {}  # id of the queued tuple -> number of the message
        self._down: set[ProcessId] = set()
        self._paused: set[ProcessId] = set()
        self._held: dict[ProcessId, list[int]] = {}  # messages that wait for a paused process
        self._copied: set[int] = set()  # messages of which two copies are under way
        self._position = (
            {process: index for index, process in enumerate(processes)} if clocks else None
        )
        self._clocks = {process: [0] * len(processes) for process in processes} if clocks else {}
        self._stamps: dict[int, tuple[int, ...]] = {}  # vector clock at the sending of each message

    def adopt(self, entry: Queued, number: int, stamp: tuple[int, ...] | None) -> None:
        """Know a message that was sent before the record begins."""
        self._under_way[id(entry)] = number
        if self._position is not None:
            self._stamps[number] = stamp or (0,) * len(self._position)

    def continue_from(
        self,
        number: int,
        down: Iterable[ProcessId],
        clocks: Mapping[ProcessId, tuple[int, ...]],
    ) -> None:
        """Continue a record after the message of that number."""
        self._number = number
        self._down.update(down)
        for process, clock in clocks.items():
            if self._position is not None:
                self._clocks[process] = list(clock)

    def events(self, log: Iterable[Any]) -> Iterator[Event]:
        for entry in log:
            kind = entry.__class__
            if kind is tuple:
                if entry[1] == CONTROL:
                    self.delivered += 1
                    continue
                if id(entry) in self._under_way:
                    self.delivered += 1
                    yield from self._taken(entry)
                else:
                    yield self._sent(entry)
            elif kind is int:
                self._now = entry
            elif kind is Event:
                yield self._local(entry)
            elif kind is Lost:
                yield from self._swallowed(entry)
            elif kind is Dropped:
                yield from self._taken(entry.event, is_dropped=True)
            elif kind is Waited:
                self.delivered -= 1
            elif kind is Twice:
                number = self._under_way[id(entry.first)]
                self._under_way[id(entry.second)] = number
                self._copied.add(number)
                process, port = divmod(entry.first[1], self._ports)
                _, _, sender, message = entry.first
                yield Event(
                    self._now,
                    sender,
                    "duplicate",
                    type(message).__name__,
                    message,
                    process,
                    number,
                    self._paths[port],
                )
            else:
                self.delivered -= 1  # it was counted when it arrived at the paused process
                self._under_way[id(entry.event)] = self._held[entry.event[1] // self._ports].pop(0)

    def _sent(self, entry: Queued) -> Event:
        _, address, sender, message = entry
        process, port = divmod(address, self._ports)
        self._number += 1
        self._under_way[id(entry)] = self._number
        clock = None
        if self._position is not None:
            clock = self._stamps[self._number] = self._tick(sender)
        return Event(
            self._now,
            sender,
            "send",
            type(message).__name__,
            message,
            process,
            self._number,
            self._paths[port],
            clock,
        )

    def _taken(self, entry: Queued, is_dropped: bool = False) -> Iterator[Event]:
        _, address, sender, message = entry
        process, port = divmod(address, self._ports)
        number = self._under_way.pop(id(entry))
        if process in self._paused and not is_dropped:
            self._held[process].append(number)
            return
        is_lost = is_dropped or process in self._down
        yield Event(
            self._now,
            process,
            "lost" if is_lost else "receive",
            type(message).__name__,
            message,
            sender,
            number,
            self._paths[port],
            None if is_lost or self._position is None else self._tick(process, number),
        )

    def _swallowed(self, entry: Lost) -> Iterator[Event]:
        process, port = divmod(entry.address, self._ports)
        self._number += 1
        event = Event(
            entry.time,
            entry.sender,
            "send",
            type(entry.message).__name__,
            entry.message,
            process,
            self._number,
            self._paths[port],
        )
        yield self._clocked(event)
        yield event._replace(kind="lost")

    def _local(self, event: Event) -> Event:
        self._now = event.time
        if event.kind == "crash":
            self._down.add(event.process)
            self._paused.discard(event.process)
        elif event.kind == "recover":
            self._down.discard(event.process)
        elif event.kind == "pause":
            self._paused.add(event.process)
            self._held.setdefault(event.process, [])
        elif event.kind == "resume":
            self._paused.discard(event.process)
        return self._clocked(event) if event.kind not in ("cut", "heal", "slow") else event

    def _clocked(self, event: Event) -> Event:
        if self._position is None:
            return event
        return event._replace(clock=self._tick(event.process))

    def _tick(self, process: ProcessId, received: int | None = None) -> tuple[int, ...]:
        """Return the vector clock of the next event of a process, which may receive a message."""
        assert self._position is not None
        clock = self._clocks[process]
        if received is not None:
            stamps = self._stamps
            stamp = stamps[received] if received in self._copied else stamps.pop(received)
            clock[:] = map(max, clock, stamp)
        clock[self._position[process]] += 1
        return tuple(clock)
