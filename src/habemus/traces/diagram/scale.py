"""The scale: the positions of the moments of a trace in a picture.

Runs are bursts of events between long waits, so time cannot be drawn to scale.  Every distinct
moment gets at least enough room to be distinguished from the last one, and no wait gets more than
is needed to see it; in between, distances are proportional.  Successive steps of a process at one
moment are drawn below each other as well, so that a cause is always above its effect.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

from habemus.core.events import Event
from habemus.core.process import ProcessId
from habemus.traces.flights import Flight
from habemus.traces.network import KINDS_OF_CHANGE

MESSAGE_HEIGHT = 54.0
"""Vertical distance that a typical message travels."""
STEP = 17.0
"""Smallest distance between two steps of one process."""
LEAST = 12.0
MOST = 80.0
"""Smallest and largest distance between two moments."""


class Spacing(NamedTuple):
    """The distances of a picture, in pixels."""

    message: float = MESSAGE_HEIGHT
    step: float = STEP
    least: float = LEAST
    most: float = MOST


NOTE_HEIGHT = 44.0
"""Room for the note that events are left out."""
WIDE, NARROW, TIGHT = Spacing(), Spacing(40.0, 14.0, 8.0, 40.0), Spacing(32.0, 11.0, 7.0, 26.0)
WIDE_WITH_NOTES, NARROW_WITH_NOTES = (
    Spacing(60.0, 28.0, 15.0, 80.0),
    Spacing(46.0, 20.0, 10.0, 46.0),
)

BREAK = 1.6
"""A gap that is squeezed by more than this factor is marked as a break."""

TICK_DISTANCE = 34.0
MOST_TICKS = 4_000

OPENING = frozenset({"start", "recover", "crash", "pause", "resume", "request", "receive", "timer"})
"""Kinds of events that begin a step; sends and indications belong to the step before them."""

SIGNED = frozenset({"crash", "recover", "request", "timer", "indicate", "choose"})
"""Kinds of events that are drawn as signs on the line of the process."""


class Gap(NamedTuple):
    """A long wait of which most is left out."""

    top: float
    bottom: float
    begin: int
    duration: int


class Tick(NamedTuple):
    y: float
    time: int


class Scale:
    def __init__(
        self,
        events: Sequence[Event],
        flights: Sequence[Flight],
        shown: Collection[int] | None = None,
        spacing: Spacing = WIDE,
        left_out: Collection[tuple[int, int]] = (),
    ) -> None:
        """Place the events of which the indices are `shown`; the others lie between them.

        `left_out` are stretches of events between which and the next one there is room for a note.
        """
        self.spacing = spacing
        keys = _keys(events, flights)
        rows = sorted(set(keys) if shown is None else {keys[index] for index in shown})
        acting: defaultdict[tuple[int, int], set[ProcessId]] = defaultdict(set)
        changing: set[tuple[int, int]] = set()
        resuming = {keys[last + 1] for _, last in left_out if last + 1 < len(keys)}
        for index, (key, event) in enumerate(zip(keys, events, strict=True)):
            if shown is not None and index not in shown:
                continue
            acting[key].add(event.process)
            if event.kind in KINDS_OF_CHANGE:
                changing.add(key)
        moments = sorted({moment for moment, _ in rows})
        self.message_time = _usual(events, flights, moments)
        self.gaps: list[Gap] = []
        positions: dict[tuple[int, int], float] = {}
        self._moments: list[int] = moments
        self._tops: list[float] = []  # of the first row of each moment
        self._bottoms: list[float] = []  # of the last row of each moment
        lowest: dict[ProcessId, float] = {}  # where each process did something last
        y = 0.0
        for index, (moment, depth) in enumerate(rows):
            before = rows[index - 1][0] if index else moment
            distance = spacing.least
            if (moment, depth) in changing:  # it has its name beside it
                distance = spacing.step
            if (moment, depth) in resuming:
                distance = NOTE_HEIGHT
            wanted = (moment - before) * spacing.message / self.message_time
            least = max(
                [
                    y + (distance if index else 0.0),
                    *(
                        lowest[each] + spacing.step
                        for each in acting[moment, depth]
                        if each in lowest
                    ),
                ]
            )
            given = max(least, y + min(wanted, spacing.most))
            if wanted > BREAK * (given - y) and wanted > BREAK * spacing.most:
                self.gaps.append(Gap(y, given, before, moment - before))
            y = given
            lowest |= dict.fromkeys(acting[moment, depth], y)
            positions[moment, depth] = y
            if not index or before != moment:
                self._tops.append(y)
                self._bottoms.append(y)
            self._bottoms[-1] = y
        self.height = y
        self._rows = [positions[key] if key in positions else self.at(key[0]) for key in keys]

    def y(self, index: int) -> float:
        """Return the position of the event with this index."""
        return self._rows[index]

    def at(self, time: int) -> float:
        """Return the position of a moment, with or without an event."""
        if not self._moments:
            return 0.0
        index = bisect_right(self._moments, time) - 1
        if index < 0:
            return self._tops[0]
        if self._moments[index] == time:
            return self._tops[index]
        if index + 1 == len(self._moments):
            return self._bottoms[-1]
        share = (time - self._moments[index]) / (self._moments[index + 1] - self._moments[index])
        return self._bottoms[index] + share * (self._tops[index + 1] - self._bottoms[index])

    @property
    def first(self) -> int:
        return self._moments[0] if self._moments else 0

    @property
    def last(self) -> int:
        return self._moments[-1] if self._moments else 0

    def ticks(self) -> list[Tick]:
        """Return round times that are far enough apart, the roundest first: 0, 10, 20, then 5, 15,
        then the rest.
        """
        origin = self.origin()
        chosen: list[Tick] = []
        span = max(1, self.last - self.first)
        power = 10 ** len(str(span))
        while power >= 1:
            for step in (power, power // 2, power // 5):
                if step < 1 or 4 * step < self.message_time or span // step > MOST_TICKS:
                    continue
                begin = -(-(self.first - origin) // step) * step + origin
                for time in range(begin, self.last + 1, step):
                    tick = Tick(self.at(time), time)
                    place = bisect_left(chosen, tick)
                    if all(
                        abs(tick.y - near.y) >= TICK_DISTANCE
                        for near in chosen[max(0, place - 1) : place + 1]
                    ):
                        chosen.insert(place, tick)
            power //= 10
        return chosen

    def origin(self) -> int:
        """Zero of the axis: the first moment, if the clock had been running long before."""
        return self.first if self.first > 10 * (self.last - self.first) else 0


def _keys(events: Sequence[Event], flights: Sequence[Flight]) -> list[tuple[int, int]]:
    """Return the moment of each event, and its depth among the events of that moment.

    Clocks of machines may differ, and then an effect seems to precede its cause.  The order of the
    events is correct, so a time that runs backwards is replaced by the time before it.
    """
    sent = {flight.ended: flight.sent for flight in flights if flight.ended is not None}
    swallowed = {flight.ended for flight in flights if flight.is_swallowed}
    keys: list[tuple[int, int]] = []
    moment = None
    depths: dict[ProcessId, int] = {}
    signs: dict[
        ProcessId, int
    ] = {}  # depth of the last sign of each process, on which no other one may lie
    floor = 0
    for index, event in enumerate(events):
        if moment is None or event.time > moment:
            moment, depths, signs, floor = event.time, {}, {}, 0
        if event.kind in KINDS_OF_CHANGE:
            before = events[index - 1] if index else None
            if before is not None and before.kind == event.kind and before.time == event.time:
                keys.append(keys[-1])
                continue
            depth = max([floor - 1, *depths.values()]) + 1
            floor = depth + 1
        else:
            depth = max(depths.get(event.process, floor), floor)
            opens = event.kind in OPENING or (event.kind == "lost" and index not in swallowed)
            if opens and event.process in depths:
                depth = max(depth, depths[event.process] + 1)
            cause = sent.get(index)
            if cause is not None and index not in swallowed and keys[cause][0] == moment:
                depth = max(depth, keys[cause][1] + 1)
            if event.kind in SIGNED:
                if signs.get(event.process) == depth:
                    depth += 1
                signs[event.process] = depth
            depths[event.process] = depth
        keys.append((moment, depth))
    return keys


def _usual(events: Sequence[Event], flights: Sequence[Flight], moments: Sequence[int]) -> int:
    """Return the typical travel time of a message, or the typical time between two moments if there
    are no messages.
    """
    delays = [
        events[flight.ended].time - events[flight.sent].time
        for flight in flights
        if flight.sent is not None
        and flight.ended is not None
        and not flight.is_swallowed
        and flight.sender != flight.receiver
    ]
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    known = sorted(delays or gaps)
    return max(1, known[len(known) // 2]) if known else 1
