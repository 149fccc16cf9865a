"""Ink: SVG elements as text, and the colours.

No element has an id, so that a page can contain several pictures; arrow heads and crosses are
therefore drawn, not referenced.
"""

from __future__ import annotations

import re
from html import escape

FONT = "'Open Sans','Segoe UI','Helvetica Neue',Arial,'DejaVu Sans',sans-serif"

# The palette of Okabe and Ito, which colour-blind people can distinguish; darker for text.
PAPER = "#ffffff"
TEXT = "#1f2430"
MUTED = "#5b6472"
FAINT = "#e9ecf0"
LINE = "#6b7480"
INSIDE, INSIDE_EDGE = "#009e73", "#00664a"
WAITING, WAITING_EDGE = "#fdf0cf", "#c98600"
PAUSED, PAUSED_EDGE = "#dfe3e8", "#8d96a3"
VIOLATION, VIOLATION_TINT = "#c4161c", "#fde3e1"
INDICATION = "#0b5a8a"
NETWORK = "#7a4a00"
STATE, STATE_EDGE, STATE_TINT = "#4a3a78", "#c9bfe8", "#f4f1fc"
MESSAGES = ("#0072b2", "#a03a78", "#8a5f00", "#2f6f3e")
OTHER_MESSAGES = "#4d5563"
COMPONENT = "#7d8896"

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escaped(text: str) -> str:
    """Escape text for XML; characters that XML cannot contain become replacement characters."""
    return escape(_NOT_XML.sub("\ufffd", text))


def number(value: float) -> str:
    """Format a coordinate to a tenth of a pixel, the same on every platform."""
    shown = f"{value:.1f}".removesuffix(".0")
    return "0" if shown == "-0" else shown


def _attribute(value: str | float) -> str:
    return escaped(value) if isinstance(value, str) else number(value)


def element(tag: str, inner: str = "", /, **attributes: str | float | None) -> str:
    """Return one element.

    `stroke_width` is written stroke-width; attributes that are None are left out.
    """
    shown = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{shown}>{inner}</{tag}>" if inner else f"<{tag}{shown}/>"


def tooltip(text: str) -> str:
    return f"<title>{escaped(text)}</title>"


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: float = 11,
    fill: str = TEXT,
    anchor: str | None = None,
    weight: str | None = None,
    style: str | None = None,
    halo: bool = False,
    angle: float = 0.0,
) -> str:
    """Return a line of text with its baseline at y; a halo keeps it legible over lines."""
    return element(
        "text",
        escaped(words),
        x=x,
        y=y,
        font_size=None if size == 11 else size,
        fill=None if fill == TEXT else fill,
        text_anchor=anchor,
        font_weight=weight,
        font_style=style,
        stroke=PAPER if halo else None,
        stroke_width=2.8 if halo else None,
        stroke_linejoin="round" if halo else None,
        paint_order="stroke" if halo else None,
        transform=(
            f"rotate({number(angle)} {number(x)} {number(y)})" if abs(angle) >= 0.05 else None
        ),
    )


def line(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    stroke: str,
    width: float = 1.4,
    dashes: str | None = None,
) -> str:
    return element(
        "line",
        x1=x1,
        y1=y1,
        x2=x2,
        y2=y2,
        stroke=stroke,
        stroke_width=width,
        stroke_dasharray=dashes,
    )


def cross(x: float, y: float, size: float, stroke: str, width: float = 2.2) -> str:
    shape = f"M{number(x - size)} {number(y - size)}L{number(x + size)} {number(y + size)}"
    shape += f"M{number(x + size)} {number(y - size)}L{number(x - size)} {number(y + size)}"
    return element(
        "path", d=shape, stroke=stroke, stroke_width=width, stroke_linecap="round", fill="none"
    )


def polygon(points: list[tuple[float, float]], fill: str, stroke: str | None = None) -> str:
    return element(
        "polygon",
        points=" ".join(f"{number(x)},{number(y)}" for x, y in points),
        fill=fill,
        stroke=stroke,
    )


def rectangle(
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str,
    stroke: str | None = None,
    *,
    corner: float = 0,
    dashes: str | None = None,
) -> str:
    return element(
        "rect",
        x=x,
        y=y,
        width=width,
        height=height,
        rx=corner or None,
        fill=fill,
        stroke=stroke,
        stroke_dasharray=dashes,
    )


def circle(
    x: float,
    y: float,
    radius: float,
    fill: str,
    stroke: str | None = None,
    width: float | None = None,
) -> str:
    return element("circle", cx=x, cy=y, r=radius, fill=fill, stroke=stroke, stroke_width=width)


def frame(x: float, y: float, width: float, height: float, stroke: str, fill: str = "none") -> str:
    """Return a strong edge around a rectangle."""
    return element(
        "rect",
        x=x,
        y=y,
        width=width,
        height=height,
        rx=3,
        fill=fill,
        stroke=stroke,
        stroke_width=2.2,
    )


def zigzag(x: float, y: float) -> str:
    """Return the sign for an omitted part of an axis."""
    return element(
        "path",
        d=f"M{number(x)} {number(y - 7)}l5 3.5l-10 3.5l10 3.5l-5 3.5",
        fill="none",
        stroke=PAUSED_EDGE,
        stroke_width=1.3,
    )
