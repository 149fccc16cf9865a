"""Pictures of a network, stage by stage, as SVG.

An election on a graph is easier to follow on the graph itself than on a space-time diagram: the
remaining candidates, the directions of the links, and their changes.  A stage describes these in
words; the positions of the processes are computed here, once for all stages.

The layout uses integers only, so the same network looks the same on every platform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from math import isqrt
from typing import NamedTuple, TypeAlias

from habemus.core.process import ProcessId
from habemus.traces.diagram import ink
from habemus.traces.diagram.lettering import clipped, width, wrapped
from habemus.traces.trace import TooLargeToDraw


class DrawnLink(NamedTuple):
    """A link between two processes, directed from the first to the second if it has a direction."""

    one: ProcessId
    other: ProcessId
    sign: str  # one of LINKS


class GraphStage(NamedTuple):
    """The network at one moment, or over one round."""

    title: str
    description: str  # what happens, in a sentence or two
    roles: Mapping[ProcessId, str]  # of every process: one of ROLES
    links: Sequence[DrawnLink]
    tags: Mapping[ProcessId, str] = {}  # what to write beside a process


class _RoleStyle(NamedTuple):
    fill: str
    edge: str
    letters: str
    means: str


class _LinkStyle(NamedTuple):
    colour: str
    wide: float
    dashes: str | None
    directed: bool
    means: str


ROLES = {
    "leader": _RoleStyle("#009e73", "#00664a", "#ffffff", "leader"),
    "source": _RoleStyle("#f0b429", "#b07d00", ink.TEXT, "source"),
    "inner": _RoleStyle("#ffffff", "#4d5563", ink.TEXT, "neither source nor sink"),
    "sink": _RoleStyle("#cfe5f5", "#0072b2", ink.TEXT, "sink"),
    "active": _RoleStyle("#f0b429", "#b07d00", ink.TEXT, "active"),
    "passive": _RoleStyle("#f1f3f6", "#aab2bd", "#8d96a3", "passive"),
    "out": _RoleStyle("#f4f5f7", "#c3c9d1", "#a0a8b3", "out of the game"),
    "follower": _RoleStyle("#ffffff", "#00664a", ink.TEXT, "follower"),
}

LINKS = {
    "yes": _LinkStyle("#00805d", 2.2, None, True, "yes"),
    "no": _LinkStyle("#c4161c", 2.0, None, True, "no: turns round"),
    "prune": _LinkStyle("#7d8896", 1.8, "5 4", True, "pruned"),
    "leave": _LinkStyle("#7a4a00", 2.2, "5 4", True, "its lower end leaves the game"),
    "open": _LinkStyle("#4d5563", 1.6, None, True, "no answer"),
    "tree": _LinkStyle("#00664a", 2.4, None, True, "announcement"),
    "plain": _LinkStyle("#8d96a3", 1.4, None, False, "link"),
    "gone": _LinkStyle("#d8dde3", 1.2, None, False, "no longer used"),
    "cut": _LinkStyle("#c4161c", 1.2, "2 4", False, "cut"),
}

MOST_PROCESSES = 40
RADIUS = 15.0
MARGIN = 20.0
GAP = 26.0
TITLE_SIZE = 16.0
HEADING_SIZE = 13.0
SIZE = 11.0
LEADING = 15.0
WIDEST = 1_260.0
NEAREST = 46.0
"""Distance between the centres of two processes."""

Place: TypeAlias = tuple[int, int]
Point: TypeAlias = tuple[float, float]


def graph(
    stages: Sequence[GraphStage], *, title: str = "", label: Callable[[ProcessId], str] = str
) -> str:
    """Draw all stages in one picture, side by side in as many rows as needed."""
    processes = sorted(stages[0].roles) if stages else []
    if not processes:
        raise ValueError("there is no stage to draw")
    if len(processes) > MOST_PROCESSES:
        raise TooLargeToDraw(
            f"a network of {len(processes)} processes is too large for a picture, which shows"
            f" {MOST_PROCESSES} at most"
        )
    pairs = [(link.one, link.other) for link in stages[0].links]
    points, wide, high = _on_paper(places(processes, pairs), len(pairs))
    panel = max(wide + 2 * RADIUS + 36, 230.0)
    columns = max(1, min(len(stages), int((WIDEST - 2 * MARGIN + GAP) // (panel + GAP))))
    rows = [stages[first : first + columns] for first in range(0, len(stages), columns)]
    total = 2 * MARGIN + columns * panel + (columns - 1) * GAP
    shapes: list[str] = []
    y = MARGIN
    for line in wrapped(title, TITLE_SIZE * 1.15, total - 2 * MARGIN, most=2) if title else []:
        y += 20
        shapes.append(ink.text(MARGIN, y, line, size=TITLE_SIZE, weight="bold"))
    legend, y = _legend(stages, y + (24 if title else 10), total)
    shapes += legend
    for row in rows:
        captions = [wrapped(stage.description, SIZE, panel - 20, most=5) for stage in row]
        height = 34 + LEADING * max(map(len, captions)) + 14 + high + 2 * RADIUS + 26
        for column, (stage, caption) in enumerate(zip(row, captions, strict=True)):
            left = MARGIN + column * (panel + GAP)
            shapes.append(ink.rectangle(left, y, panel, height, "#fbfcfd", ink.FAINT, corner=8))
            shapes.append(
                ink.text(
                    left + 12,
                    y + 22,
                    clipped(stage.title, HEADING_SIZE * 1.15, panel - 24),
                    size=HEADING_SIZE,
                    weight="bold",
                )
            )
            for order, line in enumerate(caption):
                shapes.append(
                    ink.text(left + 12, y + 40 + order * LEADING, line, size=SIZE, fill=ink.MUTED)
                )
            drop = y + height - high - RADIUS - 20
            moved = {
                process: (left + (panel - wide) / 2 + x, drop + down)
                for process, (x, down) in points.items()
            }
            shapes += _drawn(stage, moved, label)
        y += height + GAP
    return _assembled(shapes, total, y - GAP + MARGIN, title or stages[0].title)


def _drawn(
    stage: GraphStage, points: Mapping[ProcessId, Point], label: Callable[[ProcessId], str]
) -> list[str]:
    ranks = list(LINKS)
    links = sorted(
        stage.links, key=lambda link: -ranks.index(link.sign)
    )  # what matters most lies on top
    shapes = [_link(link, points) for link in links]
    for process, role in sorted(stage.roles.items()):
        x, y = points[process]
        ink_of = ROLES[role]
        shape = (
            ink.circle(x, y, RADIUS + 4, ink.PAPER, ink_of.edge, 1.6) if role == "leader" else ""
        )
        shape += ink.circle(
            x,
            y,
            RADIUS,
            ink_of.fill,
            ink_of.edge,
            2.6 if role in ("source", "leader", "active") else 1.6,
        )
        name = clipped(label(process), 12, 2 * RADIUS + 14)
        weight = "bold" if role in ("source", "leader", "active") else None
        shape += ink.text(
            x, y + 4.3, name, size=12, fill=ink_of.letters, anchor="middle", weight=weight
        )
        shapes.append(ink.element("g", ink.tooltip(f"{label(process)}: {ink_of.means}") + shape))
    for process, tag in sorted(stage.tags.items()):
        shapes.append(_tag(process, tag, stage, points))
    return shapes


def _link(link: DrawnLink, points: Mapping[ProcessId, Point]) -> str:
    line = LINKS[link.sign]
    (x1, y1), (x2, y2) = points[link.one], points[link.other]
    length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 1.0)
    along, across = (x2 - x1) / length, (y2 - y1) / length
    start, end = RADIUS + 2, length - RADIUS - (3 if line.directed else 2)
    if not line.directed:
        shape = ink.line(
            x1 + along * start,
            y1 + across * start,
            x1 + along * end,
            y1 + across * end,
            line.colour,
            line.wide,
            line.dashes,
        )
        if link.sign == "cut":
            shape += ink.cross((x1 + x2) / 2, (y1 + y2) / 2, 6, line.colour, 2.6)
        return shape
    neck = end - 9
    shape = ink.line(
        x1 + along * start,
        y1 + across * start,
        x1 + along * neck,
        y1 + across * neck,
        line.colour,
        line.wide,
        line.dashes,
    )
    return shape + _head(x1 + along * end, y1 + across * end, along, across, line.colour)


def _head(x: float, y: float, along: float, across: float, colour: str) -> str:
    back_x, back_y = x - 10 * along, y - 10 * across
    return ink.polygon(
        [
            (x, y),
            (back_x - 4.6 * across, back_y + 4.6 * along),
            (back_x + 4.6 * across, back_y - 4.6 * along),
        ],
        colour,
    )


def _tag(process: ProcessId, tag: str, stage: GraphStage, points: Mapping[ProcessId, Point]) -> str:
    """Draw a few letters beside a process, on the side with the fewest links."""
    x, y = points[process]
    near = [
        points[other]
        for link in stage.links
        if process in link[:2]
        for other in link[:2]
        if other != process
    ]
    away = width(tag, 10) / 2 + RADIUS + 4
    spots = [
        (x + away, y - 12),
        (x - away, y - 12),
        (x + away, y + 12),
        (x - away, y + 12),
        (x, y - RADIUS - 8),
        (x, y + RADIUS + 8),
    ]

    def crowded(spot: Point) -> float:
        way = (spot[0] - x, spot[1] - y)
        closeness = 0.0
        for other_x, other_y in near:
            off = (other_x - x, other_y - y)
            lengths = ((way[0] ** 2 + way[1] ** 2) * (off[0] ** 2 + off[1] ** 2)) ** 0.5
            closeness = max(closeness, (way[0] * off[0] + way[1] * off[1]) / max(lengths, 1.0))
        return closeness

    tag_x, tag_y = min(spots, key=crowded)
    return ink.text(
        tag_x, tag_y + 3.5, tag, size=10, fill=ink.INDICATION, anchor="middle", halo=True
    )


def _legend(stages: Sequence[GraphStage], y: float, total: float) -> tuple[list[str], float]:
    """Draw the signs in use and their meanings."""
    roles = {role for stage in stages for role in stage.roles.values()}
    signs = {link.sign for stage in stages for link in stage.links}
    tagged = next((tag for stage in stages for tag in stage.tags.values()), None)
    entries: list[tuple[float, Callable[[float, float], str], str]] = []
    for name, role in ROLES.items():
        if name in roles:
            entries.append((12, partial(_spot, role), role.means))
    for name, line in LINKS.items():
        if name in signs:
            entries.append((28, partial(_sample, line), line.means))
    if tagged is not None:
        entries.append(
            (
                width(tagged, 10),
                lambda x, at: ink.text(x, at, tagged, size=10, fill=ink.INDICATION),
                "smallest id that came down",
            )
        )
    shapes = []
    x = MARGIN
    for sign, icon, means in entries:
        wide = sign + 7 + width(means, SIZE)
        if x > MARGIN and x + wide > total - MARGIN:
            x, y = MARGIN, y + 19
        shapes.append(icon(x, y) + ink.text(x + sign + 7, y, means, size=SIZE, fill=ink.MUTED))
        x += wide + 14
    return shapes, y + 18


def _spot(role: _RoleStyle, x: float, y: float) -> str:
    return ink.circle(x + 6, y - 4, 6, role.fill, role.edge, 1.6)


def _sample(line: _LinkStyle, x: float, baseline: float) -> str:
    y = baseline - 4
    if line.directed:
        return ink.line(x, y, x + 20, y, line.colour, line.wide, line.dashes) + _head(
            x + 28, y, 1, 0, line.colour
        )
    crossed = ink.cross(x + 14, y, 4, line.colour, 2.2) if line.means == "cut" else ""
    return ink.line(x, y, x + 28, y, line.colour, line.wide, line.dashes) + crossed


def _assembled(shapes: Iterable[str], wide: float, high: float, title: str) -> str:
    inner = "\n".join(
        [
            "",
            ink.tooltip(title),
            ink.element("rect", width="100%", height="100%", fill=ink.PAPER),
            *shapes,
            "",
        ]
    )
    view = f"0 0 {ink.number(wide)} {ink.number(high)}"
    frame: dict[str, str | float | None] = {
        "xmlns": "http://www.w3.org/2000/svg",
        "width": wide,
        "height": high,
        "viewBox": view,
    }
    frame |= {
        "role": "img",
        "aria_label": title,
        "font_family": ink.FONT,
        "font_size": SIZE,
        "fill": ink.TEXT,
    }
    return ink.element("svg", inner, **frame) + "\n"


# Layout: distances on paper are like those in the network (Kamada and Kawai).  Several initial
# layouts are tried, and the result with the fewest crossings is used.

UNIT = 1_000
"""The length of a link, in the units of places."""

CLOSEST = 650
"""Smallest distance between two processes."""

ROUNDS = 60
BEGINNINGS = 8


def places(
    processes: Sequence[ProcessId], links: Sequence[tuple[ProcessId, ProcessId]]
) -> dict[ProcessId, Place]:
    """Compute a position for every process, near those it is linked with."""
    near: dict[ProcessId, list[ProcessId]] = {process: [] for process in processes}
    for one, other in links:
        near[one].append(other)
        near[other].append(one)
    distances = {process: _distances(process, near, len(processes)) for process in processes}
    found = []
    for beginning in range(min(BEGINNINGS, len(processes))):
        order = _order_from(
            processes[beginning * len(processes) // min(BEGINNINGS, len(processes))],
            near,
            processes,
            deep=beginning % 2 == 0,
        )
        settled = _apart(_settled(_circle(order), distances))
        found.append((_faults(settled, links), beginning, settled))
    return min(found, key=lambda each: each[:2])[2]


def _distances(
    start: ProcessId, near: Mapping[ProcessId, Sequence[ProcessId]], far: int
) -> dict[ProcessId, int]:
    """Count the links between a process and each other one.

    Unreachable processes get some large distance.
    """
    reached = {start: 0}
    frontier = [start]
    for process in frontier:
        for other in near[process]:
            if other not in reached:
                reached[other] = reached[process] + 1
                frontier.append(other)
    return {process: reached.get(process, max(2, isqrt(far))) for process in near}


def _order_from(
    start: ProcessId,
    near: Mapping[ProcessId, Sequence[ProcessId]],
    processes: Sequence[ProcessId],
    *,
    deep: bool,
) -> list[ProcessId]:
    """Return the processes in the order of a depth-first or breadth-first walk."""
    order: dict[ProcessId, None] = {}
    for first in (start, *processes):
        frontier = [first]
        while frontier:
            process = frontier.pop() if deep else frontier.pop(0)
            if process not in order:
                order[process] = None
                frontier += [
                    other for other in sorted(near[process], reverse=deep) if other not in order
                ]
    return list(order)


_SINES = (0, 195, 383, 556, 707, 831, 924, 981, 1000)
"""Sines of every eighth of a right angle, in thousandths: a table is the same on every platform."""
FULL = 3_200
"""A full turn, in the units of angles."""


def _sine(angle: int) -> int:
    """Return the sine in thousandths."""
    quarter, rest = divmod(angle % FULL, 800)
    rest = 800 - rest if quarter % 2 else rest
    step, part = divmod(rest, 100)
    value = _SINES[step] + ((_SINES[min(step + 1, 8)] - _SINES[step]) * part) // 100
    return -value if quarter > 1 else value


def _turned(place: Place, angle: int) -> Place:
    (x, y), sine, cosine = place, _sine(angle), _sine(angle + FULL // 4)
    return (x * cosine - y * sine) // 1_000, (x * sine + y * cosine) // 1_000


def _circle(order: Sequence[ProcessId]) -> dict[ProcessId, Place]:
    """Place the processes on a circle, in this order."""
    radius = UNIT * max(len(order), 3) // 6
    return {
        process: _turned((0, -radius), FULL * index // len(order))
        for index, process in enumerate(order)
    }


def _settled(
    begun: Mapping[ProcessId, Place], distances: Mapping[ProcessId, Mapping[ProcessId, int]]
) -> dict[ProcessId, Place]:
    """Move each process in turn towards its ideal distances, until little moves."""
    found = dict(begun)
    for _ in range(ROUNDS):
        moved = 0
        for process, wanted in distances.items():
            x, y = found[process]
            sum_x = sum_y = weights = 0
            for other, links in wanted.items():
                if other == process:
                    continue
                other_x, other_y = found[other]
                away = max(isqrt((x - other_x) ** 2 + (y - other_y) ** 2), 1)
                weight = 10_000 // links**2
                sum_x += weight * (other_x + UNIT * links * (x - other_x) // away)
                sum_y += weight * (other_y + UNIT * links * (y - other_y) // away)
                weights += weight
            if weights:
                found[process] = (sum_x // weights, sum_y // weights)
                moved = max(moved, abs(found[process][0] - x), abs(found[process][1] - y))
        if moved < UNIT // 200:
            break
    return found


def _apart(found: Mapping[ProcessId, Place]) -> dict[ProcessId, Place]:
    """Push processes apart that are too close to be distinguished."""
    places = dict(found)
    for _ in range(ROUNDS):
        calm = True
        for one, other in combinations(places, 2):
            (x1, y1), (x2, y2) = places[one], places[other]
            away = isqrt((x1 - x2) ** 2 + (y1 - y2) ** 2)
            if away < CLOSEST:
                calm = False
                step_x, step_y = (
                    (x2 - x1, y2 - y1) if away else (one, other)
                )  # from the same place, in some direction
                length = max(isqrt(step_x**2 + step_y**2), 1)
                push_x, push_y = (
                    step_x * (CLOSEST - away) // (2 * length),
                    step_y * (CLOSEST - away) // (2 * length),
                )
                places[one], places[other] = (
                    (x1 - push_x - 1, y1 - push_y),
                    (x2 + push_x + 1, y2 + push_y),
                )
        if calm:
            break
    return places


def _faults(found: Mapping[ProcessId, Place], links: Sequence[tuple[ProcessId, ProcessId]]) -> int:
    """Count what makes a layout hard to read: crossing links, and links through a process."""
    crossings = 0
    for (a, b), (c, d) in combinations(links, 2):
        if len({a, b, c, d}) == 4 and _cross(found[a], found[b], found[c], found[d]):
            crossings += 1
    for one, other in links:
        (x1, y1), (x2, y2) = found[one], found[other]
        length = max(isqrt((x2 - x1) ** 2 + (y2 - y1) ** 2), 1)
        for process, (x, y) in found.items():
            if (
                process not in (one, other)
                and 0 < (x - x1) * (x2 - x1) + (y - y1) * (y2 - y1) < length**2
            ):
                crossings += 3 * (
                    abs((x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)) < length * UNIT // 4
                )
    return crossings


def _cross(a: Place, b: Place, c: Place, d: Place) -> bool:
    def side(p: Place, q: Place, r: Place) -> bool:
        return (q[0] - p[0]) * (r[1] - p[1]) > (q[1] - p[1]) * (r[0] - p[0])

    return side(a, b, c) != side(a, b, d) and side(c, d, a) != side(c, d, b)


def _on_paper(
    found: Mapping[ProcessId, Place], links: int
) -> tuple[dict[ProcessId, Point], float, float]:
    """Return the positions in pixels, turned so that they need little paper.

    More links make the picture larger.
    """
    turned = min(
        (_all_turned(found, angle) for angle in range(0, FULL // 2, FULL // 128)), key=_paper
    )
    xs, ys = [x for x, _ in turned.values()], [y for _, y in turned.values()]
    nearest = min(
        (
            isqrt((x1 - x2) ** 2 + (y1 - y2) ** 2)
            for (x1, y1), (x2, y2) in combinations(turned.values(), 2)
        ),
        default=UNIT,
    )
    wanted = NEAREST + 14 * max(0.0, min(links / len(found) - 1.3, 4.0))
    scale = max(74 / UNIT, min(wanted / max(nearest, 1), 130 / UNIT))
    points = {
        process: ((x - min(xs)) * scale, (y - min(ys)) * scale)
        for process, (x, y) in turned.items()
    }
    return points, (max(xs) - min(xs)) * scale, (max(ys) - min(ys)) * scale


def _all_turned(found: Mapping[ProcessId, Place], angle: int) -> dict[ProcessId, Place]:
    return {process: _turned(place, angle) for process, place in found.items()}


def _paper(found: Mapping[ProcessId, Place]) -> tuple[int, int]:
    """Return the cost of a picture: first its area, then its height."""
    xs, ys = [x for x, _ in found.values()], [y for _, y in found.values()]
    wide, high = max(xs) - min(xs) + UNIT // 2, max(ys) - min(ys) + UNIT // 2
    return wide * high * (2 if high > wide else 1), high
