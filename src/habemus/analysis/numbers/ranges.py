"""Ranges as they are written on the command line: `5`, `2..20`, `0.1..10`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple


class BadRange(ValueError):
    """A text that is no range; the message says what was expected, with an example."""


class SizeRange(NamedTuple):
    """Numbers of participants, from one to another."""

    low: int
    high: int

    def spread(self, points: int) -> list[int]:
        """Return all sizes, or that many of them evenly spread, with both ends."""
        if self.high - self.low < points:
            return list(range(self.low, self.high + 1))
        steps = points - 1
        return [
            self.low + (step * (self.high - self.low) + steps // 2) // steps
            for step in range(points)
        ]


class Loads(NamedTuple):
    """Loads, from one to another."""

    low: Decimal
    high: Decimal

    def spread(self, points: int) -> list[Decimal]:
        """Return that many loads with a constant ratio, to three digits, with both ends."""
        if self.low == self.high:
            return [self.low]
        ratio = float(self.high / self.low)
        inner = [
            Decimal(f"{float(self.low) * ratio ** (step / (points - 1)):.3g}")
            for step in range(1, points - 1)
        ]
        return list(dict.fromkeys([self.low, *inner, self.high]))


LARGEST_SIZE = 1_000_000
LEAST_LOAD, LARGEST_LOAD = Decimal("0.001"), Decimal(1000)


def sizes(text: str) -> SizeRange:
    low, high = _ends(text, r"\d{1,9}", "a number of participants", "5 or 2..20")
    found = SizeRange(int(low), int(high))
    if found.low > found.high:
        raise BadRange(f"{text!r} goes from more to less; write {found.high}..{found.low}")
    if not 1 <= found.low <= found.high <= LARGEST_SIZE:
        raise BadRange(f"{text!r}: there are 1 to {LARGEST_SIZE} participants")
    return found


def loads(text: str) -> Loads:
    low, high = _ends(text, r"\d{1,9}(?:\.\d{1,9})?", "a load", "0.5 or 0.1..10")
    found = Loads(Decimal(low), Decimal(high))
    if found.low > found.high:
        raise BadRange(f"{text!r} goes from more to less; write {found.high}..{found.low}")
    if not LEAST_LOAD <= found.low <= found.high <= LARGEST_LOAD:
        raise BadRange(f"{text!r}: a load is {LEAST_LOAD} to {LARGEST_LOAD}")
    return found


def _ends(text: str, number: str, what: str, example: str) -> tuple[str, str]:
    matched = re.fullmatch(rf"({number})(?:\.\.({number}))?", text.strip())
    if not matched:
        raise BadRange(f"{text!r} is not {what} or a range of them; write for example {example}")
    return matched[1], matched[2] or matched[1]
