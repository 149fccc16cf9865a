"""Voting sets as a picture: the votes on the left, and the reason why two sets meet on
the right.
"""

from __future__ import annotations

from itertools import combinations
from math import cos, dist, pi, sin, sqrt
from pathlib import Path

from habemus.analysis.pictures.voting import MATRIX_UP_TO, Voting, rows_of
from habemus.core.process import ProcessId
from habemus.core.quorums import VotingSets
from habemus.traces.diagram import ink
from habemus.traces.diagram.ink import FAINT, FONT, INSIDE, LINE, MESSAGES, MUTED, PAPER, TEXT
from habemus.traces.png import png

ENDINGS = (".svg", ".png")

_ONE, _OTHER, _BOTH = MESSAGES[0], "#d55e00", INSIDE
_MARGIN, _HEAD = 24.0, 64.0
_SIDE = 430.0
_CAPTION = 240.0


def save(voting: Voting, path: Path) -> None:
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(
            f"cannot tell what to write into {str(path)!r}: the name must end in"
            f" {' or '.join(ENDINGS)}"
        )
    drawn = picture(voting)
    if ending == ".svg":
        path.write_text(drawn, encoding="utf-8", newline="\n")
    else:
        path.write_bytes(png(drawn))


def picture(voting: Voting) -> str:
    one, other = _example(voting)
    cell = min(26.0, max(2.0, _SIDE / len(voting.sets)))
    matrix_side = cell * len(voting.sets)
    label_room = 26.0
    left = _MARGIN + label_room
    top = _HEAD + label_room
    right = left + max(matrix_side, _CAPTION) + 56
    figure, figure_height = _figure(voting, right, top, one, other)
    below = top + max(matrix_side, figure_height) + 26
    height = below + 48
    width = right + _SIDE + _MARGIN
    parts = [
        ink.element("rect", x=0, y=0, width=width, height=height, fill=PAPER),
        ink.text(_MARGIN, 26, voting.title(), size=15, weight="bold"),
        ink.text(_MARGIN, 45, "; ".join(voting.remarks()), fill=MUTED),
        *_matrix(voting.sets, left, top, cell, one, other),
        *figure,
        *_legend(voting, right, below, one, other),
        ink.text(
            left, top + matrix_side + 20, "row: who asks; filled: whose vote it needs", fill=MUTED
        ),
    ]
    shape = {
        "viewBox": f"0 0 {width:.0f} {height:.0f}",
        "width": f"{width:.0f}",
        "height": f"{height:.0f}",
    }
    letters = {"font_family": FONT, "font_size": "11", "fill": TEXT}
    return (
        ink.element(
            "svg",
            "\n".join(["", *parts, ""]),
            xmlns="http://www.w3.org/2000/svg",
            **shape,
            **letters,
        )
        + "\n"
    )


def _example(voting: Voting) -> tuple[ProcessId, ProcessId]:
    """Return two processes whose sets are shown: far from each other, where that means anything."""
    everybody = list(voting.sets)
    if voting.how == "grid":
        rows = rows_of(voting.sets)
        return (
            (rows[0][1], rows[len(rows) // 2][-1])
            if len(rows) > 2
            else (everybody[0], everybody[-1])
        )
    return everybody[0], everybody[len(everybody) // 2]


def _colour(
    process: ProcessId, first: tuple[ProcessId, ...], second: tuple[ProcessId, ...]
) -> str | None:
    if process in first and process in second:
        return _BOTH
    return _ONE if process in first else _OTHER if process in second else None


def _matrix(
    sets: VotingSets, left: float, top: float, cell: float, one: ProcessId, other: ProcessId
) -> list[str]:
    parts = []
    with_numbers = cell >= 11
    gap = 1.0 if cell >= 6 else 0.0
    for row, (process, voters) in enumerate(sets.items()):
        y = top + row * cell
        colour = _ONE if process == one else _OTHER if process == other else TEXT
        if with_numbers:
            bold = "bold" if process in (one, other) else None
            parts.append(
                ink.text(
                    left - 6, y + cell / 2 + 4, str(process), anchor="end", fill=colour, weight=bold
                )
            )
            parts.append(
                ink.text(
                    left + row * cell + cell / 2, top - 6, str(process), anchor="middle", fill=MUTED
                )
            )
        for column, voter in enumerate(sets):
            x = left + column * cell
            if voter in voters:
                filled = (
                    (_colour(voter, sets[one], sets[other]) or LINE)
                    if process in (one, other)
                    else LINE
                )
                box = {"x": x, "y": y, "width": cell - gap, "height": cell - gap}
                parts.append(
                    ink.element(
                        "rect",
                        ink.tooltip(f"{process} needs the vote of {voter}"),
                        **box,
                        fill=filled,
                    )
                )
            elif gap:
                parts.append(ink.rectangle(x, y, cell - gap, cell - gap, FAINT))
    return parts


def _figure(
    voting: Voting, left: float, top: float, one: ProcessId, other: ProcessId
) -> tuple[list[str], float]:
    """Return the figure that fits the construction of the sets, and its height."""
    if voting.how == "grid":
        return _drawn_grid(voting.sets, left, top, one, other)
    if voting.how == "plane" and len(voting.sets) == 7:
        return _drawn_fano(voting.sets, left, top, one, other)
    return _drawn_circle(voting, left, top, one, other), _SIDE


def _drawn_grid(
    sets: VotingSets, left: float, top: float, one: ProcessId, other: ProcessId
) -> tuple[list[str], float]:
    rows = rows_of(sets)
    cell = min(64.0, _SIDE / len(rows[0]))
    parts = []
    for y, row in enumerate(rows):
        for x, process in enumerate(row):
            colour = _colour(process, sets[one], sets[other])
            parts.append(
                ink.rectangle(
                    left + x * cell, top + y * cell, cell - 3, cell - 3, colour or FAINT, corner=3
                )
            )
            if cell >= 16:
                middle = (left + x * cell + (cell - 3) / 2, top + y * cell + cell / 2 + 3)
                weight = "bold" if process in (one, other) else None
                parts.append(
                    ink.text(
                        *middle,
                        str(process),
                        anchor="middle",
                        fill=PAPER if colour else TEXT,
                        weight=weight,
                        size=min(14, cell / 2),
                    )
                )
    return parts, cell * len(rows)


def _drawn_circle(
    voting: Voting, left: float, top: float, one: ProcessId, other: ProcessId
) -> list[str]:
    """Draw the sets on a circle. Planes and majorities are cyclic: each set is the one before,
    rotated by one place.
    """
    sets = voting.sets
    radius, middle = _SIDE / 2 - 22, (left + _SIDE / 2, top + _SIDE / 2)
    places = {}
    for position, process in enumerate(sets):
        angle = 2 * pi * position / len(sets) - pi / 2
        places[process] = (middle[0] + radius * cos(angle), middle[1] + radius * sin(angle))
    parts: list[str] = []
    if len(sets) <= MATRIX_UP_TO and voting.how == "plane":
        others = [process for process in sets if process not in (one, other)]
        parts += [
            _outline([places[voter] for voter in sets[process]], "#d5dae0", 0.8)
            for process in others
        ]
    parts += [
        _outline([places[voter] for voter in sets[process]], colour, 2.2)
        for process, colour in ((one, _ONE), (other, _OTHER))
    ]
    dot = min(13.0, max(2.5, 2.2 * radius / len(sets)))
    return parts + [
        _point(process, place, dot, sets, one, other) for process, place in places.items()
    ]


def _outline(points: list[tuple[float, float]], stroke: str, width: float) -> str:
    shape = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return ink.element(
        "polygon",
        points=shape,
        fill="none",
        stroke=stroke,
        stroke_width=width,
        stroke_linejoin="round",
    )


def _point(
    process: ProcessId,
    place: tuple[float, float],
    dot: float,
    sets: VotingSets,
    one: ProcessId,
    other: ProcessId,
) -> str:
    colour = _colour(process, sets[one], sets[other])
    drawn = ink.circle(*place, dot, colour or PAPER, stroke=colour or LINE, width=1.2)
    if dot < 7:
        return drawn
    weight = "bold" if process in (one, other) else None
    return drawn + ink.text(
        place[0],
        place[1] + 4,
        str(process),
        anchor="middle",
        fill=PAPER if colour else TEXT,
        weight=weight,
    )


def _drawn_fano(
    sets: VotingSets, left: float, top: float, one: ProcessId, other: ProcessId
) -> tuple[list[str], float]:
    """Draw the plane of seven points as usual: a triangle, its heights, and the circle through
    their feet.
    """
    lines = [frozenset(voters) for voters in sets.values()]
    corners = list(sets)[:2]
    corners.append(
        next(each for each in sets if not any({*corners, each} <= points for points in lines))
    )
    base, dot = _SIDE - 48, 14.0
    tall = base * sqrt(3) / 2
    peak, foot_line = (left + _SIDE / 2, top + dot), top + dot + tall
    places = dict(
        zip(
            corners,
            (peak, (peak[0] - base / 2, foot_line), (peak[0] + base / 2, foot_line)),
            strict=True,
        )
    )
    for start, end in combinations(corners, 2):
        foot = next(
            each for points in lines if {start, end} <= points for each in points - {start, end}
        )
        places[foot] = (
            (places[start][0] + places[end][0]) / 2,
            (places[start][1] + places[end][1]) / 2,
        )
    heart = next(each for each in sets if each not in places)
    places[heart] = (peak[0], foot_line - tall / 3)
    parts = []
    for process in sorted(sets, key=lambda each: each in (one, other)):
        colour = _ONE if process == one else _OTHER if process == other else "#c3cad2"
        width = 2.6 if process in (one, other) else 1.2
        points = [places[voter] for voter in sets[process]]
        if set(sets[process]) & set(corners):
            ends = max(combinations(points, 2), key=lambda pair: dist(*pair))
            parts.append(ink.line(*ends[0], *ends[1], colour, width))
        else:  # the one line that is drawn round
            parts.append(ink.circle(*places[heart], tall / 3, "none", stroke=colour, width=width))
    return (
        parts + [_point(process, places[process], dot, sets, one, other) for process in sets],
        tall + 2 * dot,
    )


def _legend(voting: Voting, left: float, y: float, one: ProcessId, other: ProcessId) -> list[str]:
    sets = voting.sets
    both = sorted({*sets[one]} & {*sets[other]})
    told = [
        (_ONE, f"the set of {one}: {_listed(sets[one])}"),
        (_OTHER, f"the set of {other}: {_listed(sets[other])}"),
    ]
    told.append((_BOTH, f"in both: {_listed(both)}, so not both can have all their votes"))
    parts = []
    for row, (colour, words) in enumerate(told):
        parts.append(ink.rectangle(left, y + row * 17 - 9, 10, 10, colour, corner=2))
        parts.append(ink.text(left + 16, y + row * 17, words))
    return parts


def _listed(processes: list[ProcessId] | tuple[ProcessId, ...]) -> str:
    shown = ", ".join(map(str, processes[:12]))
    return f"{shown} and {len(processes) - 12} more" if len(processes) > 12 else shown
