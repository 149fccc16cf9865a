"""Arrows of messages, and their labels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from habemus.core.events import Event
from habemus.traces.diagram import ink
from habemus.traces.diagram.lettering import variants, width
from habemus.traces.diagram.placing import LabelBox, Stroke
from habemus.traces.diagram.sheet import Sheet
from habemus.traces.flights import Flight
from habemus.traces.view import key_of, times

SIZE = 11.0
STEEP = math.radians(52)
"""Angle from which a label is horizontal; below it, the label runs along its arrow."""
CLEAR = 9.0
"""Space between a label and a process line."""
NEAR = 3
"""Number of columns beside sender and receiver between which a label may stand."""
LOOP = 26.0
"""Width of the loop of a message of a process to itself."""


class Arrow(NamedTuple):
    flight: Flight
    event: Event
    stroke: Stroke
    colour: str
    is_component: bool


def colours(flights: list[Flight], events: tuple[Event, ...]) -> dict[tuple[str, str], str]:
    """Assign a colour to each name of a message, in the order of appearance.

    Messages of components are paler than those of the algorithm on top, unless it sends none itself
    because a link below it carries everything.
    """
    kinds = list(
        dict.fromkeys(
            (event.name, event.part) for event in (_event(flight, events) for flight in flights)
        )
    )
    on_top = [kind for kind in kinds if not kind[1]]
    shown = on_top or kinds
    chosen = {
        kind: ink.MESSAGES[index] if index < len(ink.MESSAGES) else ink.OTHER_MESSAGES
        for index, kind in enumerate(shown)
    }
    return {kind: chosen.get(kind, ink.COMPONENT) for kind in kinds}


def _event(flight: Flight, events: tuple[Event, ...]) -> Event:
    index = flight.sent if flight.sent is not None else flight.ended
    assert index is not None
    return events[index]


def arrows(sheet: Sheet) -> list[Arrow]:
    """Compute the start and end of the arrow of each message."""
    events = sheet.trace.events
    palette = colours(sheet.view.flights, events)
    found = []
    for flight in sheet.view.flights:
        event = _event(flight, events)
        colour = palette[event.name, event.part]
        found.append(Arrow(flight, event, _stroke(sheet, flight), colour, colour == ink.COMPONENT))
    return found


def _stroke(sheet: Sheet, flight: Flight) -> Stroke:
    scale, gap = sheet.scale, sheet.columns.gap
    x1, x2 = sheet.x(flight.sender), sheet.x(flight.receiver)
    way = math.copysign(1.0, x2 - x1)
    sent = flight.sent if flight.sent in sheet.shown else None
    ended = flight.ended if flight.ended in sheet.shown else None
    is_whole = sent is not None and ended is not None and not flight.is_swallowed
    if is_whole:
        assert sent is not None and ended is not None
        y1, y2 = scale.y(sent), scale.y(ended)
    elif sent is not None:  # swallowed, or under way at the end: it stops short of the receiver
        y1 = scale.y(sent)
        share = 1.0 if x1 == x2 else (abs(x2 - x1) - 0.45 * gap) / abs(x2 - x1)
        x2, y2 = (
            (x1 if x1 == x2 else x2 - way * 0.45 * gap),
            min(y1 + scale.spacing.message * share, sheet.bottom - 6),
        )
        return Stroke(_beside(sheet, flight.sender, x1, way, y1), y1, x2, y2)
    else:  # sent before what is shown begins
        assert ended is not None
        y2 = scale.y(ended)
        x1, y1 = x2 - way * 0.55 * gap, y2 - scale.spacing.message / 2
        return Stroke(x1, y1, _beside(sheet, flight.receiver, x2, -way, y2), y2)
    if x1 == x2:
        return Stroke(x1, y1, x2, y2)
    return Stroke(
        _beside(sheet, flight.sender, x1, way, y1),
        y1,
        _beside(sheet, flight.receiver, x2, -way, y2),
        y2,
    )


def _beside(sheet: Sheet, process: int, x: float, way: float, y: float) -> float:
    return x + way * sheet.half_width(process, y)


def draw(sheet: Sheet, all_arrows: list[Arrow]) -> None:
    for arrow in all_arrows:
        sheet.draw("arrows", _shape(sheet, arrow))


def _shape(sheet: Sheet, arrow: Arrow) -> str:
    flight, stroke = arrow.flight, arrow.stroke
    weight = 1.1 if arrow.is_component else 1.5
    is_under_way = flight.ended is None or (
        flight.ended not in sheet.shown and not flight.is_swallowed
    )
    dashes = "6 3" if flight.is_copy else "2 3" if is_under_way else None
    if flight.is_copy:
        sheet.seen.add("copy")
    if flight.sender == flight.receiver:
        return _loop(sheet, arrow, weight, dashes)
    if is_under_way:
        sheet.seen.add("under way" if flight.ended is None else "later")
        end = ink.circle(stroke.x2, stroke.y2, 2.6, ink.PAPER, arrow.colour, 1.4)
        body = ink.line(stroke.x1, stroke.y1, stroke.x2, stroke.y2, arrow.colour, weight, dashes)
    elif flight.is_lost:
        sheet.seen.add("lost")
        away = (
            0.0 if flight.is_swallowed else 7.0
        )  # beside the line of a process that is down, not on it
        x, y = _back(stroke, away)
        end = ink.cross(x, y, 4.2, arrow.colour)
        body = ink.line(stroke.x1, stroke.y1, x, y, arrow.colour, weight, dashes)
    else:
        x, y = _back(stroke, 6.0)
        end = head_of(stroke, arrow.colour, 7.5 if arrow.is_component else 9.0)
        body = ink.line(stroke.x1, stroke.y1, x, y, arrow.colour, weight, dashes)
    return ink.element("g", ink.tooltip(_description(sheet, arrow)) + body + end)


def _back(stroke: Stroke, distance: float) -> tuple[float, float]:
    """Return the point at some distance before the end."""
    length = math.hypot(stroke.x2 - stroke.x1, stroke.y2 - stroke.y1) or 1.0
    share = min(1.0, distance / length)
    return stroke.x2 + (stroke.x1 - stroke.x2) * share, stroke.y2 + (stroke.y1 - stroke.y2) * share


def head_of(stroke: Stroke, colour: str, size: float) -> str:
    angle = math.atan2(stroke.y2 - stroke.y1, stroke.x2 - stroke.x1)
    sides = [
        (stroke.x2 - size * math.cos(angle + turn), stroke.y2 - size * math.sin(angle + turn))
        for turn in (-0.36, 0.36)
    ]
    return ink.polygon([(stroke.x2, stroke.y2), *sides], colour)


def _loop(sheet: Sheet, arrow: Arrow, weight: float, dashes: str | None) -> str:
    """Draw a message of a process to itself as a loop on the right."""
    x, y1, y2 = arrow.stroke.x1, arrow.stroke.y1, arrow.stroke.y2
    half = sheet.half_width(arrow.flight.sender, y2)
    reach = x + half + LOOP
    shape = (
        f"M{ink.number(x)} {ink.number(y1)}C{ink.number(reach)} {ink.number(y1)}"
        f" {ink.number(reach)} {ink.number(y2)} "
    )
    shape += f"{ink.number(x + half + 4)} {ink.number(y2)}"
    body = ink.element(
        "path",
        d=shape,
        fill="none",
        stroke=arrow.colour,
        stroke_width=weight,
        stroke_dasharray=dashes,
    )
    if arrow.flight.is_lost:
        sheet.seen.add("lost")
        end = ink.cross(x + half + 6, y2, 4.2, arrow.colour)
    else:
        end = head_of(Stroke(x + half + 20, y2, x + half, y2), arrow.colour, 8.0)
    return ink.element("g", ink.tooltip(_description(sheet, arrow)) + body + end)


def _description(sheet: Sheet, arrow: Arrow) -> str:
    """Describe the message in full, for a tooltip."""
    trace, words, flight, event = sheet.trace, sheet.words, arrow.flight, arrow.event
    parts = [
        words["message"].format(
            what=event.described(),
            sender=trace.label(flight.sender),
            receiver=trace.label(flight.receiver),
        )
    ]
    if event.part:
        parts[0] += f" ({event.part})"
    if flight.is_copy:
        parts.append(words["legend copy"])
    if flight.sent is not None:
        parts.append(words["message sent"].format(time=sheet.when(trace.events[flight.sent].time)))
    if flight.ended is None:
        parts.append(words["legend under way"])
    elif flight.is_lost:
        parts.append(words["legend lost"])
    else:
        parts.append(
            words["message arrives"].format(time=sheet.when(trace.events[flight.ended].time))
        )
    return ", ".join(parts)


# Labels.


class _Label(NamedTuple):
    text: str
    box: LabelBox
    x: float
    y: float  # of the baseline
    angle: float


def label(sheet: Sheet, all_arrows: list[Arrow]) -> None:
    """Write on each arrow its message, as fully as there is room for, or not at all."""
    for arrow in all_arrows:
        chosen = _chosen(sheet, arrow, _forms(sheet, arrow))
        if chosen is not None:
            sheet.layout.add(chosen.box)
            shape = ink.text(
                chosen.x,
                chosen.y,
                chosen.text,
                fill=ink.MUTED if arrow.is_component else arrow.colour,
                anchor="middle",
                halo=True,
                angle=math.degrees(chosen.angle),
            )
            sheet.draw("labels", shape)


def _forms(sheet: Sheet, arrow: Arrow) -> list[str]:
    """Return the forms of a label, the fullest first; the number of repetitions is in each."""
    key = key_of(arrow.flight)
    whole = sheet.view.described(key, arrow.event)
    count = sheet.view.repeats.get(key)
    if count is None:
        return variants(whole, arrow.event.name)
    sheet.seen.add("repeats")
    described = whole.removesuffix(times(count))
    return [form + times(count) for form in variants(described, arrow.event.name)]


def _chosen(sheet: Sheet, arrow: Arrow, forms: list[str]) -> _Label | None:
    for form in forms:
        best: tuple[float, _Label] | None = None
        for dislike, candidate in _candidates(sheet, arrow, form):
            if best is not None and dislike >= best[0]:
                continue
            if not sheet.is_free(candidate.box):
                continue
            cost = dislike + 3.0 * sheet.layout.crossings(candidate.box, arrow.stroke)
            if best is None or cost < best[0]:
                best = cost, candidate
        if best is not None:
            return best[1]
    return None


def _candidates(sheet: Sheet, arrow: Arrow, form: str) -> Iterator[tuple[float, _Label]]:
    """Yield places for a label, each with a penalty."""
    stroke = arrow.stroke
    half = width(form, SIZE) / 2 + 1
    if arrow.flight.sender == arrow.flight.receiver:
        middle = (stroke.y1 + stroke.y2) / 2
        x = stroke.x1 + sheet.half_width(arrow.flight.sender, stroke.y2) + LOOP - 2 + half
        if any(stroke.x1 < other < x + half + CLEAR for other in sheet.columns.x.values()):
            return  # it would cover the line of the next process
        yield 0.0, _Label(form, LabelBox(x, middle, half, SIZE * 0.6), x, middle + SIZE * 0.35, 0.0)
        return
    left, right = (stroke.x1, stroke.y1), (stroke.x2, stroke.y2)
    if left[0] > right[0]:
        left, right = right, left
    slope = (right[1] - left[1]) / max(1.0, right[0] - left[0])
    angle = math.atan(slope)
    is_steep = abs(angle) > STEEP
    turn = 0.0 if is_steep else angle
    height = SIZE * 0.56
    breadth = half * math.cos(turn)
    spaces = sheet.columns.between(left[0], right[0])
    for order, (low, high) in enumerate(spaces):
        if NEAR <= order < len(spaces) - NEAR:
            continue
        begin, end = low + CLEAR + breadth, high - CLEAR - breadth
        if begin > end + 2 * CLEAR - 4:
            continue
        begin, end = min(begin, (low + high) / 2), max(end, (low + high) / 2)
        outside = min(
            order, len(spaces) - 1 - order
        )  # the spaces next to sender and receiver are clearest
        for share in (0.5, 0.35, 0.65, 0.2, 0.8, 0.0, 1.0):
            x = begin + (end - begin) * share
            y = left[1] + (x - left[0]) * slope
            dislike = 0.6 * outside + abs(share - 0.5)
            if is_steep:
                yield dislike, _Label(form, LabelBox(x, y, half, height), x, y + SIZE * 0.35, 0.0)
                continue
            for away, side in ((height + 2.2, 0.0), (-height - 2.2, 1.2)):
                cx, cy = x + away * math.sin(turn), y - away * math.cos(turn)
                drop = SIZE * 0.35  # from the middle of the letters to their baseline
                yield (
                    dislike + side,
                    _Label(
                        form,
                        LabelBox(cx, cy, half, height, turn),
                        cx - drop * math.sin(turn),
                        cy + drop * math.cos(turn),
                        turn,
                    ),
                )
