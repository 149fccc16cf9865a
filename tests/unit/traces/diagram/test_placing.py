"""Rectangles that overlap, and strokes that run through them, against brute force."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hypothesis import assume, given
from hypothesis import strategies as st

from habemus.traces.diagram.placing import LabelBox, Layout, Stroke

coordinates = st.integers(-40, 40).map(float)
boxes = st.builds(
    LabelBox,
    coordinates,
    coordinates,
    st.integers(2, 30).map(float),
    st.integers(2, 12).map(float),
    st.sampled_from([0.0, 0.3, -0.7, 1.1]),
)


def points(box: LabelBox) -> Iterator[tuple[float, float]]:
    across, down = math.cos(box.angle), math.sin(box.angle)
    for i in range(-20, 21):
        for j in range(-20, 21):
            u, v = box.half_width * i / 20, box.half_height * j / 20
            yield box.x + u * across - v * down, box.y + u * down + v * across


def inside(box: LabelBox, x: float, y: float, margin: float = 0.0) -> bool:
    across, down = math.cos(box.angle), math.sin(box.angle)
    u = (x - box.x) * across + (y - box.y) * down
    v = (y - box.y) * across - (x - box.x) * down
    return abs(u) < box.half_width + margin and abs(v) < box.half_height + margin


@given(boxes, boxes)
def test_boxes_overlap_if_they_share_a_point(one: LabelBox, other: LabelBox) -> None:
    layout = Layout()
    layout.add(one)
    if any(inside(one, x, y) for x, y in points(other)):
        assert not layout.is_free(other)
    elif not any(inside(one, x, y, margin=2.0) for x, y in points(other)):
        assert layout.is_free(other)


@given(boxes, coordinates, coordinates, coordinates, coordinates)
def test_a_stroke_crosses_a_box_if_a_point_of_it_is_inside(
    box: LabelBox, x1: float, y1: float, x2: float, y2: float
) -> None:
    assume((x1, y1) != (x2, y2))
    layout = Layout()
    stroke = Stroke(x1, y1, x2, y2)
    layout.add_stroke(stroke)
    along = [(x1 + (x2 - x1) * step / 400, y1 + (y2 - y1) * step / 400) for step in range(401)]
    if any(inside(box, x, y) for x, y in along):
        assert layout.crossings(box) == 1
        assert layout.crossings(box, own=stroke) == 0
    elif not any(inside(box, x, y, margin=1.0) for x, y in along):
        assert layout.crossings(box) == 0


def test_a_slanted_box_may_reach_into_the_corner_of_another_ones_surroundings() -> None:
    """Only a line along the side of the slanted box runs between these two."""
    square, slanted = LabelBox(0, 0, 20, 20), LabelBox(30, 30, 40, 5, -math.pi / 4)
    for placed, wanted in ((square, slanted), (slanted, square)):
        layout = Layout()
        layout.add(placed)
        assert layout.is_free(wanted)
    layout = Layout()
    layout.add(square)
    assert not layout.is_free(slanted._replace(x=22, y=22))


def test_far_apart_is_free() -> None:
    layout = Layout()
    assert layout.is_free(LabelBox(0, 0, 10, 5))
    layout.add(LabelBox(0, 0, 10, 5))
    assert not layout.is_free(LabelBox(15, 0, 10, 5))
    assert layout.is_free(LabelBox(0, 500, 10, 5))
