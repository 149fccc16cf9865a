"""Voting sets in words and as a picture: who needs whose votes, and why any two of them meet."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from math import cos, isqrt, pi, sin, sqrt
from pathlib import Path
from typing import Any

from habemus.algorithms.mutex.maekawa import PLANE_OR_GRID, voting_sets
from habemus.catalog.entries import Entry, entries
from habemus.catalog.setup import BadSetup
from habemus.core.process import ProcessId
from habemus.core.quorums import VotingSets, sizes_with_plane
from habemus.traces.diagram.ink import FAINT, FONT, INSIDE, LINE, MESSAGES, MUTED, PAPER, TEXT, circle, element, line, rectangle, text, tooltip
from habemus.traces.png import png

LARGEST = 400
"""Participants of a picture, or of a list."""
MATRIX_UP_TO = 31
"""The table of the text form has at most so many columns."""
HOW = ("grid", "plane", "majority")
_BY = {"grid": "a grid", "plane": "a projective plane", "majority": "majorities"}
ENDINGS = (".svg", ".png")


@dataclass(frozen=True)
class Voting:
    """The voting sets of so many participants, and how they were formed."""

    how: str
    sets: VotingSets

    @property
    def messages(self) -> float:
        """3(K-1) per entry, on average over the sets."""
        voters = sum(map(len, self.sets.values()))
        return 3 * (voters - len(self.sets)) / len(self.sets)

    @property
    def votes(self) -> dict[ProcessId, int]:
        """In how many sets each process votes."""
        counted = Counter(voter for voters in self.sets.values() for voter in voters)
        return {process: counted[process] for process in self.sets}

    @property
    def meetings(self) -> tuple[int, int]:
        """How many any two sets have in common: at least and at most."""
        as_sets = [frozenset(voters) for voters in self.sets.values()]
        shared = [len(one & other) for one, other in combinations(as_sets, 2)]
        return min(shared), max(shared)

    def title(self) -> str:
        size = f"K = {self.sets.size}" + ("" if self.sets.is_regular else " at most")
        return f"Voting sets of {len(self.sets)} by {_BY[self.how]}: {size}"

    def remarks(self) -> list[str]:
        """What there is to say of them all."""
        least, most = self.meetings
        work = sorted(set(self.votes.values()))
        return [
            f"any two sets have {least if least == most else f'{least} to {most}'} in common",
            f"everybody votes in {work[0] if len(work) == 1 else f'{work[0]} to {work[-1]}'} sets",
            f"an entry costs 3(K-1) = {self.messages:.4g} messages{'' if self.sets.is_regular else ' on average'}, "
            f"asking everybody 2(N-1) = {2 * (len(self.sets) - 1)}",
        ]

    def plain(self) -> dict[str, Any]:
        return {
            "n": len(self.sets),
            "how": self.how,
            "k": self.sets.size,
            "regular": self.sets.is_regular,
            "sets": {str(process): list(voters) for process, voters in self.sets.items()},
            "votes": {str(process): count for process, count in self.votes.items()},
            "in_common": list(self.meetings),
            "messages_per_entry": self.messages,
        }


def voting_of(entry: Entry, size: int, how: str | None) -> Voting:
    """The sets that the algorithm would use for so many participants, formed in the given way or in its usual one."""
    if "sets" not in entry.options:
        having = [each.name for each in entries().values() if "sets" in each.options]
        raise BadSetup(f"{entry.name} has no voting sets; {' and '.join(having)} have")
    if not 2 <= size <= LARGEST:
        raise BadSetup(f"voting sets are shown for 2 to {LARGEST} participants, not for {size}")
    sets = voting_sets(size, how or PLANE_OR_GRID)
    return Voting(how or ("plane" if size in sizes_with_plane(size) else "grid"), sets)


def in_words(voting: Voting) -> str:
    """The sets, one on a line, for few with a table of who votes for whom."""
    sets = voting.sets
    width = len(str(max(sets)))
    lines = [voting.title(), *(f"  {remark}" for remark in voting.remarks()), ""]
    if voting.how == "grid":
        lines += ["  " + " ".join(f"{process:>{width}}" for process in row) for row in _grid(sets)] + [""]
    with_table = len(sets) <= MATRIX_UP_TO
    if with_table:
        lines.append(" " * (width + 2) + " ".join(f"{voter:>{width}}" for voter in sets))
    for process, voters in sets.items():
        table = " ".join(("●" if voter in voters else "·").rjust(width) for voter in sets) + "   " if with_table else ""
        lines.append(f"{process:>{width}}  {table}{{{', '.join(map(str, voters))}}}")
    return "\n".join(lines)


def _grid(sets: VotingSets) -> list[list[ProcessId]]:
    """The square into which the processes are written."""
    everybody = list(sets)
    width = isqrt(len(everybody) - 1) + 1
    return [everybody[start : start + width] for start in range(0, len(everybody), width)]


# The picture: on the left who votes for whom, on the right why two sets meet.

_ONE, _OTHER, _BOTH = MESSAGES[0], "#d55e00", INSIDE
_MARGIN, _HEAD = 24.0, 64.0
_SIDE = 430.0
_CAPTION = 240.0


def save(voting: Voting, path: Path) -> None:
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"cannot tell what to write into {str(path)!r}: the name must end in {' or '.join(ENDINGS)}")
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
        element("rect", x=0, y=0, width=width, height=height, fill=PAPER),
        text(_MARGIN, 26, voting.title(), size=15, weight="bold"),
        text(_MARGIN, 45, "; ".join(voting.remarks()), fill=MUTED),
        *_matrix(voting.sets, left, top, cell, one, other),
        *figure,
        *_legend(voting, right, below, one, other),
        text(left, top + matrix_side + 20, "row: who asks; filled: whose vote it needs", fill=MUTED),
    ]
    size = {"viewBox": f"0 0 {width:.0f} {height:.0f}", "width": round(width), "height": round(height)}
    return element("svg", "\n".join(["", *parts, ""]), xmlns="http://www.w3.org/2000/svg", font_family=FONT, font_size=11, fill=TEXT, **size) + "\n"


def _example(voting: Voting) -> tuple[ProcessId, ProcessId]:
    """Two whose sets are shown: far from each other, where that means anything."""
    everybody = list(voting.sets)
    if voting.how == "grid":
        rows = _grid(voting.sets)
        return rows[0][min(1, len(rows[0]) - 1)], rows[-1][-1] if len(rows) < 3 else rows[len(rows) // 2][-1]
    return everybody[0], everybody[len(everybody) // 2]


def _colour(process: ProcessId, first: tuple[ProcessId, ...], second: tuple[ProcessId, ...]) -> str | None:
    if process in first and process in second:
        return _BOTH
    return _ONE if process in first else _OTHER if process in second else None


def _matrix(sets: VotingSets, left: float, top: float, cell: float, one: ProcessId, other: ProcessId) -> list[str]:
    parts = []
    with_numbers = cell >= 11
    gap = 1.0 if cell >= 6 else 0.0
    for row, (process, voters) in enumerate(sets.items()):
        y = top + row * cell
        colour = _ONE if process == one else _OTHER if process == other else TEXT
        if with_numbers:
            bold = "bold" if process in (one, other) else None
            parts.append(text(left - 6, y + cell / 2 + 4, str(process), anchor="end", fill=colour, weight=bold))
            parts.append(text(left + row * cell + cell / 2, top - 6, str(process), anchor="middle", fill=MUTED))
        for column, voter in enumerate(sets):
            x = left + column * cell
            if voter in voters:
                filled = (_colour(voter, sets[one], sets[other]) or LINE) if process in (one, other) else LINE
                box = {"x": x, "y": y, "width": cell - gap, "height": cell - gap}
                parts.append(element("rect", tooltip(f"{process} needs the vote of {voter}"), **box, fill=filled))
            elif gap:
                parts.append(rectangle(x, y, cell - gap, cell - gap, FAINT))
    return parts


def _figure(voting: Voting, left: float, top: float, one: ProcessId, other: ProcessId) -> tuple[list[str], float]:
    """What fits the way in which the sets were formed, and how tall it is."""
    if voting.how == "grid":
        return _drawn_grid(voting.sets, left, top, one, other)
    if voting.how == "plane" and len(voting.sets) == 7:
        return _drawn_fano(voting.sets, left, top, one, other)
    return _drawn_circle(voting, left, top, one, other), _SIDE


def _drawn_grid(sets: VotingSets, left: float, top: float, one: ProcessId, other: ProcessId) -> tuple[list[str], float]:
    rows = _grid(sets)
    cell = min(64.0, _SIDE / len(rows[0]))
    parts = []
    for y, row in enumerate(rows):
        for x, process in enumerate(row):
            colour = _colour(process, sets[one], sets[other])
            parts.append(rectangle(left + x * cell, top + y * cell, cell - 3, cell - 3, colour or FAINT, corner=3))
            if cell >= 16:
                middle = (left + x * cell + (cell - 3) / 2, top + y * cell + cell / 2 + 3)
                weight = "bold" if process in (one, other) else None
                parts.append(text(*middle, str(process), anchor="middle", fill=PAPER if colour else TEXT, weight=weight, size=min(14, cell / 2)))
    return parts, cell * len(rows)


def _drawn_circle(voting: Voting, left: float, top: float, one: ProcessId, other: ProcessId) -> list[str]:
    """Both planes and majorities are cyclic: each set is the one before, turned by one place."""
    sets = voting.sets
    radius, middle = _SIDE / 2 - 22, (left + _SIDE / 2, top + _SIDE / 2)
    places = {}
    for position, process in enumerate(sets):
        angle = 2 * pi * position / len(sets) - pi / 2
        places[process] = (middle[0] + radius * cos(angle), middle[1] + radius * sin(angle))
    parts = []
    if len(sets) <= MATRIX_UP_TO and voting.how == "plane":
        for process in sets:
            if process not in (one, other):
                parts.append(_outline([places[voter] for voter in sets[process]], "#d5dae0", 0.8))
    parts += [_outline([places[voter] for voter in sets[process]], colour, 2.2) for process, colour in ((one, _ONE), (other, _OTHER))]
    dot = min(13.0, max(2.5, 2.2 * radius / len(sets)))
    return parts + [_point(process, place, dot, sets, one, other) for process, place in places.items()]


def _outline(points: list[tuple[float, float]], stroke: str, width: float) -> str:
    shape = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element("polygon", points=shape, fill="none", stroke=stroke, stroke_width=width, stroke_linejoin="round")


def _point(process: ProcessId, place: tuple[float, float], dot: float, sets: VotingSets, one: ProcessId, other: ProcessId) -> str:
    colour = _colour(process, sets[one], sets[other])
    drawn = circle(*place, dot, colour or PAPER, stroke=colour or LINE, width=1.2)
    if dot < 7:
        return drawn
    weight = "bold" if process in (one, other) else None
    return drawn + text(place[0], place[1] + 4, str(process), anchor="middle", fill=PAPER if colour else TEXT, weight=weight)


def _drawn_fano(sets: VotingSets, left: float, top: float, one: ProcessId, other: ProcessId) -> tuple[list[str], float]:
    """The plane of seven points as it is always drawn: a triangle, its heights, and the circle through their feet."""
    lines = [frozenset(voters) for voters in sets.values()]
    corners = list(sets)[:2]
    corners.append(next(each for each in sets if not any({*corners, each} <= points for points in lines)))
    base, dot = _SIDE - 48, 14.0
    tall = base * sqrt(3) / 2
    peak, foot_line = (left + _SIDE / 2, top + dot), top + dot + tall
    places = dict(zip(corners, (peak, (peak[0] - base / 2, foot_line), (peak[0] + base / 2, foot_line)), strict=True))
    for start, end in combinations(corners, 2):
        foot = next(each for points in lines if {start, end} <= points for each in points - {start, end})
        places[foot] = ((places[start][0] + places[end][0]) / 2, (places[start][1] + places[end][1]) / 2)
    heart = next(each for each in sets if each not in places)
    places[heart] = (peak[0], foot_line - tall / 3)
    parts = []
    for process in sorted(sets, key=lambda each: each in (one, other)):
        colour = _ONE if process == one else _OTHER if process == other else "#c3cad2"
        width = 2.6 if process in (one, other) else 1.2
        points = [places[voter] for voter in sets[process]]
        if set(sets[process]) & set(corners):
            start, end = max(combinations(points, 2), key=lambda ends: (ends[0][0] - ends[1][0]) ** 2 + (ends[0][1] - ends[1][1]) ** 2)
            parts.append(line(*start, *end, colour, width))
        else:  # the one line that is drawn round
            parts.append(circle(*places[heart], tall / 3, "none", stroke=colour, width=width))
    return parts + [_point(process, places[process], dot, sets, one, other) for process in sets], tall + 2 * dot


def _legend(voting: Voting, left: float, y: float, one: ProcessId, other: ProcessId) -> list[str]:
    sets = voting.sets
    both = sorted({*sets[one]} & {*sets[other]})
    told = [(_ONE, f"the set of {one}: {_listed(sets[one])}"), (_OTHER, f"the set of {other}: {_listed(sets[other])}")]
    told.append((_BOTH, f"in both: {_listed(both)}, so not both can have all their votes"))
    parts = []
    for row, (colour, words) in enumerate(told):
        parts.append(rectangle(left, y + row * 17 - 9, 10, 10, colour, corner=2))
        parts.append(text(left + 16, y + row * 17, words))
    return parts


def _listed(processes: list[ProcessId] | tuple[ProcessId, ...]) -> str:
    shown = ", ".join(map(str, processes[:12]))
    return f"{shown} and {len(processes) - 12} more" if len(processes) > 12 else shown
