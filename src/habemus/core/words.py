"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with what it counts: "1 entry", "2 entries".

    many: the plural; without it, an "s" is added.
    """
    return f"{number} {one if number == 1 else many or one + 's'}"
