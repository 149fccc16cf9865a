"""Placing of labels, so that none covers another one."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import NamedTuple

BUCKET = 48.0
"""Boxes and strokes are looked up by slices of this height."""


class LabelBox(NamedTuple):
    """A rectangle around its centre, turned by an angle."""

    x: float
    y: float
    half_width: float
    half_height: float
    angle: float = 0.0

    @property
    def reach(self) -> float:
        """Vertical extent, from the centre."""
        return abs(self.half_width * math.sin(self.angle)) + abs(
            self.half_height * math.cos(self.angle)
        )

    @property
    def breadth(self) -> float:
        """Horizontal extent, from the centre."""
        return abs(self.half_width * math.cos(self.angle)) + abs(
            self.half_height * math.sin(self.angle)
        )


class Stroke(NamedTuple):
    x1: float
    y1: float
    x2: float
    y2: float


class Layout:
    """The boxes and strokes of a picture.

    Boxes must not be covered; strokes should not be.
    """

    def __init__(self) -> None:
        self._boxes: defaultdict[int, list[LabelBox]] = defaultdict(list)
        self._strokes: defaultdict[int, list[Stroke]] = defaultdict(list)

    def add(self, box: LabelBox) -> None:
        for bucket in _buckets(box.y - box.reach, box.y + box.reach):
            self._boxes[bucket].append(box)

    def add_stroke(self, stroke: Stroke) -> None:
        for bucket in _buckets(min(stroke.y1, stroke.y2), max(stroke.y1, stroke.y2)):
            self._strokes[bucket].append(stroke)

    def is_free(self, box: LabelBox) -> bool:
        buckets = _buckets(box.y - box.reach, box.y + box.reach)
        return not any(_overlap(box, other) for bucket in buckets for other in self._boxes[bucket])

    def crossings(self, box: LabelBox, own: Stroke | None = None) -> int:
        """Count the strokes through the box, other than its own."""
        buckets = _buckets(box.y - box.reach, box.y + box.reach)
        near = {stroke for bucket in buckets for stroke in self._strokes[bucket] if stroke != own}
        return sum(1 for stroke in near if _crosses(box, stroke))


def _buckets(top: float, bottom: float) -> range:
    return range(int(top // BUCKET), int(bottom // BUCKET) + 1)


def _overlap(one: LabelBox, other: LabelBox) -> bool:
    """Whether two rectangles overlap: no line along a side of one of them separates them."""
    dx, dy = other.x - one.x, other.y - one.y
    if abs(dx) > one.breadth + other.breadth or abs(dy) > one.reach + other.reach:
        return False
    if not one.angle and not other.angle:
        return True
    for angle in (one.angle, one.angle + math.pi / 2, other.angle, other.angle + math.pi / 2):
        across, down = math.cos(angle), math.sin(angle)
        extent = sum(
            abs(box.half_width * math.cos(box.angle - angle))
            + abs(box.half_height * math.sin(box.angle - angle))
            for box in (one, other)
        )
        if abs(dx * across + dy * down) >= extent:
            return False
    return True


def _crosses(box: LabelBox, stroke: Stroke) -> bool:
    """Whether a stroke crosses a box: clip the stroke, seen from the box, against its sides."""
    across, down = math.cos(box.angle), math.sin(box.angle)

    def seen(x: float, y: float) -> tuple[float, float]:
        return (x - box.x) * across + (y - box.y) * down, (y - box.y) * across - (x - box.x) * down

    (x1, y1), (x2, y2) = seen(stroke.x1, stroke.y1), seen(stroke.x2, stroke.y2)
    enter, leave = 0.0, 1.0
    for begin, end, half in ((x1, x2, box.half_width), (y1, y2, box.half_height)):
        if begin == end:
            if abs(begin) > half:
                return False
            continue
        first, second = sorted(((-half - begin) / (end - begin), (half - begin) / (end - begin)))
        enter, leave = max(enter, first), min(leave, second)
    return enter < leave
