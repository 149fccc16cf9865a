"""The head of a picture: its title, what was found out, and what the signs mean."""

from __future__ import annotations

from collections.abc import Callable

from habemus.core.properties import Verdict
from habemus.traces.diagram import ink
from habemus.traces.diagram.arrows import Arrow, head_of
from habemus.traces.diagram.lettering import BOLD, clipped, width, wrapped
from habemus.traces.diagram.marks import sign_of
from habemus.traces.diagram.placing import Stroke
from habemus.traces.diagram.sheet import Sheet
from habemus.traces.trace import Trace
from habemus.traces.words import Words, one_line

MARGIN = 16.0
TITLE_SIZE = 16.0
SIZE = 11.5
LEADING = 17.0

_Icon = Callable[[float, float], str]


def head(sheet: Sheet, all_arrows: list[Arrow]) -> tuple[list[str], float]:
    """The shapes of the head and its height."""
    room = sheet.columns.width - 2 * MARGIN
    shapes: list[str] = []
    y = 26.0
    title = sheet.trace.title or sheet.words["untitled"]
    for line in wrapped(title, TITLE_SIZE * BOLD, room, most=2):
        shapes.append(ink.text(MARGIN, y, line, size=TITLE_SIZE, weight="bold"))
        y += 21
    violated = sheet.trace.violations
    if violated:
        lines = [
            (line, order == 0)
            for finding in violated
            for order, line in enumerate(wrapped(one_line(finding, sheet.words), SIZE * BOLD, room - 26))
        ]
        height = len(lines) * LEADING + 10
        shapes.append(ink.rectangle(MARGIN, y - 9, room, height, ink.VIOLATION_TINT, corner=4))
        shapes.append(ink.rectangle(MARGIN, y - 9, 4, height, ink.VIOLATION))
        for line, is_first in lines:
            y += LEADING
            shapes.append(ink.text(MARGIN + 13 + (0 if is_first else 10), y - 8, line, size=SIZE, fill=ink.VIOLATION, weight="bold" if is_first else None))
        y += 20
    for line in wrapped(_others(sheet.trace, sheet.words), SIZE, room, most=3):
        shapes.append(ink.text(MARGIN, y, line, size=SIZE, fill=ink.MUTED))
        y += LEADING
    legend, y = _legend(sheet, all_arrows, y + 2)
    return [*shapes, *legend], y


def _others(trace: Trace, words: Words) -> str:
    """The properties that were not violated, by verdict."""
    parts = []
    for verdict in (Verdict.HOLDS, Verdict.UNDECIDED):
        names = [finding.name for finding in trace.findings if finding.verdict is verdict]
        if names:
            parts.append(f"{words[f'verdict {verdict.value}']}: {', '.join(names)}")
    return " · ".join(parts)


def _legend(sheet: Sheet, all_arrows: list[Arrow], y: float) -> tuple[list[str], float]:
    """The signs in use and their meanings, in as many lines as it takes."""
    shapes = []
    x = MARGIN
    room = sheet.columns.width - MARGIN
    for icon, label in _entries(sheet, all_arrows):
        text = clipped(label, 10.5, room - MARGIN - 40)
        wide = 34 + width(text, 10.5) + 14
        if x > MARGIN and x + wide - 14 > room:
            x, y = MARGIN, y + 19
        shapes.append(icon(x + 2, y - 4) + ink.text(x + 32, y, text, size=10.5, fill=ink.MUTED))
        x += wide
    return shapes, y + (14 if shapes else 0)


def _entries(sheet: Sheet, all_arrows: list[Arrow]) -> list[tuple[_Icon, str]]:
    seen, words = sheet.seen, sheet.words
    entries: list[tuple[_Icon, str]] = []

    def add(sign: str, icon: _Icon) -> None:
        if sign in seen:
            entries.append((icon, words[f"legend {sign}"]))

    add("waiting", lambda x, y: ink.rectangle(x + 8, y - 6, 10, 12, ink.WAITING, ink.WAITING_EDGE))
    add("inside", lambda x, y: ink.rectangle(x + 7, y - 6, 12, 12, ink.INSIDE, ink.INSIDE_EDGE, corner=2))
    add("violation", lambda x, y: ink.element("rect", x=x + 5, y=y - 6, width=16, height=12, rx=3, fill=ink.VIOLATION_TINT, stroke=ink.VIOLATION, stroke_width=2))
    names: dict[str, list[str]] = {}
    for arrow in all_arrows:
        if arrow.event.name not in names.setdefault(arrow.colour, []):
            names[arrow.colour].append(arrow.event.name)
    for colour, kinds in names.items():
        shown = ", ".join(kinds[:5]) + (", …" if len(kinds) > 5 else "")
        entries.append((lambda x, y, colour=colour: _sample(x, y, colour), shown))  # type: ignore[misc]
    add("lost", lambda x, y: ink.line(x, y, x + 20, y, ink.MUTED, 1.5) + ink.cross(x + 21, y, 4, ink.MUTED))
    add("copy", lambda x, y: _sample(x, y, ink.MUTED, "6 3"))
    add("under way", lambda x, y: ink.line(x, y, x + 22, y, ink.MUTED, 1.5, "2 3") + ink.circle(x + 22, y, 2.6, ink.PAPER, ink.MUTED, 1.4))
    add("indication", lambda x, y: sign_of("indication", x + 13, y))
    add("request", lambda x, y: sign_of("request", x + 13, y))
    add("timer", lambda x, y: sign_of("timer", x + 13, y))
    add("down", lambda x, y: ink.cross(x + 6, y, 4.5, ink.TEXT, 2.6) + ink.line(x + 14, y, x + 28, y, ink.LINE, 1.4, "1.5 4.5"))
    add("paused", lambda x, y: ink.rectangle(x + 5, y - 6, 16, 12, ink.PAUSED, ink.PAUSED_EDGE, dashes="3 2"))
    add("network", lambda x, y: ink.line(x, y, x + 26, y, ink.NETWORK, 1.2, "7 4"))
    return entries


def _sample(x: float, y: float, colour: str, dashes: str | None = None) -> str:
    return ink.line(x, y, x + 20, y, colour, 1.5, dashes) + head_of(Stroke(x, y, x + 26, y), colour, 9)
