"""Lettering: widths of texts, line breaks, and shortened texts.

The font of the viewer is unknown, so widths are those of a wide font (DejaVu Sans); texts that fit
with it fit with the narrower fonts that most readers have.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_CLASSES = {  # widths in ems, rounded up to the class
    0.32: " ,.IJijl'",
    0.37: "-/:;\\f|",
    0.42: "!()[]rt",
    0.52: '"*_`sz',
    0.57: "?Lc",
    0.62: "FPTYaekovxy",
    0.65: "$0123456789EKSbdghnpqu{}",
    0.70: "ABCRVXZ",
    0.77: "DGHNU",
    0.82: "&OQw",
    0.86: "#+<=>M^~",
    1.00: "%m@W",
}
_WIDTHS = {character: width for width, characters in _CLASSES.items() for character in characters}
_WIDE = ("W", "F")
BOLD = 1.15
"""Ratio of the widths of bold and regular letters."""


@lru_cache(maxsize=4096)
def width(text: str, size: float) -> float:
    """Return an upper bound of the width of a line of text in pixels."""
    ems = 0.0
    for character in text:
        known = _WIDTHS.get(character)
        if known is None:
            known = 1.05 if unicodedata.east_asian_width(character) in _WIDE else 0.72
        ems += known
    return ems * size


def clipped(text: str, size: float, room: float) -> str:
    """Return the text, or as much of it as there is room for and three dots."""
    if width(text, size) <= room:
        return text
    length = len(text)
    while length > 1 and width(text[:length] + "…", size) > room:
        length -= 1
    return text[:length].rstrip(" ,(") + "…"


def wrapped(text: str, size: float, room: float, most: int = 6) -> list[str]:
    """Break the text into lines that fit; cut it off with three dots after the last one."""
    found: list[str] = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}" if line else word
        if width(longer, size) <= room:
            line = longer
            continue
        if line:
            found.append(line)
        line = clipped(word, size, room)
    found.append(line)
    if len(found) > most:
        found = [*found[: most - 1], clipped(" ".join(found[most - 1 :]), size, room)]
    return [each for each in found if each]


def variants(described: str, name: str) -> list[str]:
    """Return a message from its full form to its name: `Grant(term=2, token=2.1)`,
    `Grant(2, 2.1)`, `Grant`.
    """
    forms = [described]
    opening = described.find("(")
    if opening >= 0:
        inner = described[opening + 1 :]
        while (shorter := re.sub(r"\([^()]*\)", "", inner)) != inner:
            inner = shorter
        shorter = described[: opening + 1] + inner
        forms += [shorter, re.sub(r"\w+=", "", shorter)]
    forms.append(name)
    return list(dict.fromkeys(form for form in forms if form))
