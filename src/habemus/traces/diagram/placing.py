"""Placing of labels, so that none covers another one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

BUCKET = 48.0, 144.0
"""Boxes and strokes are looked up by fields of this height and width."""


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
        self._boxes: defaultdict[tuple[int, int], list[LabelBox]] = defaultdict(list)
        self._strokes: defaultdict[tuple[int, int], list[Stroke]] = defaultdict(list)

    def add(self, box: LabelBox) -> None:
        for bucket in _around(box):
            self._boxes[bucket].append(box)

    def add_stroke(self, stroke: Stroke) -> None:
        left, right = sorted((stroke.x1, stroke.x2))
        top, bottom = sorted((stroke.y1, stroke.y2))
        for bucket in _buckets(top, bottom, left, right):
            self._strokes[bucket].append(stroke)

    def is_free(self, box: LabelBox) -> bool:
        return not any(
            _overlap(box, other) for bucket in _around(box) for other in self._boxes.get(bucket, ())
        )

    def crossings(self, box: LabelBox, own: Stroke | None = None) -> int:
        """Count the strokes through the box, other than its own."""
        near = {
            stroke
            for bucket in _around(box)
            for stroke in self._strokes.get(bucket, ())
            if stroke != own
        }
        return sum(1 for stroke in near if _crosses(box, stroke))


def _around(box: LabelBox) -> Iterator[tuple[int, int]]:
    return _buckets(box.y - box.reach, box.y + box.reach, box.x - box.breadth, box.x + box.breadth)


def _buckets(top: float, bottom: float, left: float, right: float) -> Iterator[tuple[int, int]]:
    height, width = BUCKET
    columns = range(int(left // width), int(right // width) + 1)
    for row in range(int(top // height), int(bottom // height) + 1):
        for column in columns:
            yield row, column


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
