"""The head of a picture: its title, the findings, and the legend."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from habemus.argument_names import FLAGS
from habemus.core.properties import Verdict
from habemus.traces.diagram import ink
from habemus.traces.diagram.arrows import Arrow, head_of
from habemus.traces.diagram.lettering import BOLD, clipped, width, wrapped
from habemus.traces.diagram.marks import sign_of
from habemus.traces.diagram.placing import Stroke
from habemus.traces.diagram.sheet import Sheet
from habemus.traces.trace import Trace
from habemus.traces.view import times
from habemus.traces.words import Words

MARGIN = 16.0
TITLE_SIZE = 16.0
SIZE = 11.5
SMALL = 10.5
LEADING = 17.0
MOST_NAMES = 5

_Icon = Callable[[float, float], str]


def head(sheet: Sheet, all_arrows: list[Arrow]) -> tuple[list[str], float]:
    """Return the shapes of the head and its height."""
    room = sheet.columns.width - 2 * MARGIN
    shapes: list[str] = []
    y = 26.0
    title = sheet.trace.title or sheet.words["untitled"]
    for line in wrapped(title, TITLE_SIZE * BOLD, room, most=2):
        shapes.append(ink.text(MARGIN, y, line, size=TITLE_SIZE, weight="bold"))
        y += 21
    if sheet.trace.violations:
        drawn, height = _violations(sheet, room, y - 9)
        shapes += drawn
        y += height + 11
    for line in wrapped(_others(sheet.trace, sheet.words), SIZE, room, most=3):
        shapes.append(ink.text(MARGIN, y, line, size=SIZE, fill=ink.MUTED))
        y += LEADING
    for line in wrapped(_remark(sheet), SIZE, room, most=2):
        shapes.append(ink.text(MARGIN, y, line, size=SIZE, fill=ink.MUTED))
        y += LEADING
    legend, y = _legend(sheet, all_arrows, y + 2)
    return [*shapes, *legend], y


def _remark(sheet: Sheet) -> str:
    """Say how many events are shown, if not all are."""
    view, words = sheet.view, sheet.words
    if len(view.shown) == len(view.trace.events):
        return ""
    parts = [
        words["shown"].format(shown=f"{len(view.shown):,}", events=f"{len(view.trace.events):,}")
    ]
    if view.repeats:
        parts.append(words["shown folded"].format(folded=f"{view.folded_events:,}"))
    if view.left_out and FLAGS.are_named:
        parts.append(words["shown part"])
    return "; ".join(parts)


def _violations(sheet: Sheet, room: float, top: float) -> tuple[list[str], float]:
    """Draw the violated properties and the reasons, on red."""
    lines: list[str] = []
    for finding in sheet.trace.violations:
        for order, line in enumerate(wrapped(sheet.description(finding), SIZE, room - 30)):
            name, rest = (
                (finding.name, line.removeprefix(finding.name)) if order == 0 else ("", line)
            )
            inner = (
                ink.element("tspan", ink.escaped(name), font_weight="bold") if name else ""
            ) + ink.escaped(rest)
            x, y = MARGIN + 13 + (10 if order else 0), top + 18 + len(lines) * LEADING
            lines.append(ink.element("text", inner, x=x, y=y, font_size=SIZE, fill=ink.VIOLATION))
    height = len(lines) * LEADING + 10
    ground = ink.rectangle(MARGIN, top, room, height, ink.VIOLATION_TINT, corner=4) + ink.rectangle(
        MARGIN, top, 4, height, ink.VIOLATION
    )
    return [ground, *lines], height


def _others(trace: Trace, words: Words) -> str:
    """List the properties that were not violated, by verdict."""
    parts = []
    for verdict in (Verdict.HOLDS, Verdict.ALMOST_SURELY, Verdict.UNDECIDED):
        names = [finding.name for finding in trace.findings if finding.verdict is verdict]
        if names:
            parts.append(f"{words[f'verdict {verdict.value}']}: {', '.join(names)}")
    broken = [finding.name for finding in trace.findings if finding.verdict is Verdict.VIOLATED]
    unclaimed = [name for name in broken if name in trace.not_claimed]
    if unclaimed:
        parts.append(f"{words['verdict not claimed']}: {', '.join(unclaimed)}")
    return " · ".join(parts)


def _legend(sheet: Sheet, all_arrows: list[Arrow], y: float) -> tuple[list[str], float]:
    """Draw the signs in use and their meanings, in as many lines as needed."""
    shapes = []
    x = MARGIN
    room = sheet.columns.width - MARGIN
    for sign, icon, label in _entries(sheet, all_arrows):
        text = clipped(label, SMALL, room - MARGIN - 40)
        wide = sign + 7 + width(text, SMALL)
        if x > MARGIN and x + wide > room:
            x, y = MARGIN, y + 19
        shapes.append(icon(x, y - 4) + ink.text(x + sign + 7, y, text, size=SMALL, fill=ink.MUTED))
        x += wide + 10
    return shapes, y + (14 if shapes else 0)


def _entries(sheet: Sheet, all_arrows: list[Arrow]) -> list[tuple[float, _Icon, str]]:
    """Return the width, the shape and the meaning of each sign."""
    seen, words = sheet.seen, sheet.words
    entries: list[tuple[float, _Icon, str]] = []

    def add(sign: str, wide: float, icon: _Icon) -> None:
        if sign in seen:
            entries.append((wide, icon, words[f"legend {sign}"]))

    add("waiting", 10, lambda x, y: ink.rectangle(x, y - 6, 10, 12, ink.WAITING, ink.WAITING_EDGE))
    add(
        "inside",
        12,
        lambda x, y: ink.rectangle(x, y - 6, 12, 12, ink.INSIDE, ink.INSIDE_EDGE, corner=2),
    )
    add(
        "violation", 16, lambda x, y: ink.frame(x, y - 6, 16, 12, ink.VIOLATION, ink.VIOLATION_TINT)
    )
    names: dict[str, list[str]] = {}
    for arrow in all_arrows:
        if arrow.event.name not in names.setdefault(arrow.colour, []):
            names[arrow.colour].append(arrow.event.name)
    for colour, kinds in names.items():
        shown = ", ".join(kinds[:MOST_NAMES]) + (", …" if len(kinds) > MOST_NAMES else "")
        entries.append((26, partial(_sample, colour), shown))
    add(
        "lost",
        25,
        lambda x, y: ink.line(x, y, x + 20, y, ink.MUTED, 1.5) + ink.cross(x + 21, y, 4, ink.MUTED),
    )
    add("copy", 26, partial(_sample, ink.MUTED, dashes="6 3"))
    add(
        "under way",
        25,
        lambda x, y: (
            ink.line(x, y, x + 22, y, ink.MUTED, 1.5, "2 3")
            + ink.circle(x + 22, y, 2.6, ink.PAPER, ink.MUTED, 1.4)
        ),
    )
    add(
        "later",
        25,
        lambda x, y: (
            ink.line(x, y, x + 22, y, ink.MUTED, 1.5, "2 3")
            + ink.circle(x + 22, y, 2.6, ink.PAPER, ink.MUTED, 1.4)
        ),
    )
    add(
        "state",
        14,
        lambda x, y: ink.rectangle(x, y - 5, 14, 10, ink.STATE_TINT, ink.STATE_EDGE, corner=3),
    )
    add(
        "repeats", 20, lambda x, y: ink.text(x, y + 4, times(14).strip(), size=SMALL, fill=ink.TEXT)
    )
    for sign in ("indication", "request", "timer"):
        add(sign, 12, partial(_centred, sign))
    add(
        "down",
        26,
        lambda x, y: (
            ink.cross(x + 5, y, 4.5, ink.TEXT, 2.6)
            + ink.line(x + 13, y, x + 27, y, ink.LINE, 1.4, "1.5 4.5")
        ),
    )
    add(
        "paused",
        16,
        lambda x, y: ink.rectangle(x, y - 6, 16, 12, ink.PAUSED, ink.PAUSED_EDGE, dashes="3 2"),
    )
    add("network", 25, lambda x, y: ink.line(x, y, x + 25, y, ink.NETWORK, 1.2, "7 4"))
    add("break", 10, lambda x, y: ink.zigzag(x + 5, y))
    return entries


def _centred(sign: str, x: float, y: float) -> str:
    return sign_of(sign, x + 6, y)


def _sample(colour: str, x: float, y: float, dashes: str | None = None) -> str:
    return ink.line(x, y, x + 20, y, colour, 1.5, dashes) + head_of(
        Stroke(x, y, x + 26, y), colour, 9
    )
