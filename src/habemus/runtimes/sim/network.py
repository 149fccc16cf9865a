"""The simulated network: how long a message takes, whether it arrives, and in which order.

Time is an integer number of microseconds and every draw is made of random bits by integer
arithmetic, so a seed means the same run on every platform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Protocol, TypeAlias

from habemus.core.process import ProcessId

MESSAGE_TIME = 1_000
"""The usual delay of a message, and so the unit in which delays are reported."""

Bits: TypeAlias = Callable[[int], int]
"""Draw that many random bits."""
Sampler: TypeAlias = Callable[[int], int]
"""Draw the delay of a message that is sent at that time."""


class Delay(Protocol):
    """A distribution of delays: `Uniform`, `Exponential` or `HeavyTail`."""

    @property
    def mean(self) -> int:
        """The mean delay in microseconds."""

    @property
    def longest(self) -> int:
        """The longest delay in microseconds."""

    def sampler(self, bits: Bits) -> Sampler:
        """Return a function that draws the delay of a message from its time of sending.

        bits: draws that many random bits.
        """


@dataclass(frozen=True)
class Uniform:
    """Delays from `low` to `high`, all equally likely; constant if both are equal.

    low, high: microseconds.
    """

    low: int = MESSAGE_TIME
    high: int = MESSAGE_TIME

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise ValueError(
                "a delay is at least 1, and its range does not end before it begins: got"
                f" {self.low} to {self.high}"
            )

    @property
    def mean(self) -> int:
        """The mean delay in microseconds."""
        return (self.low + self.high) // 2

    @property
    def longest(self) -> int:
        """The longest delay in microseconds."""
        return self.high

    def sampler(self, bits: Bits) -> Sampler:
        """Return a function that draws the delay of a message from its time of sending.

        bits: draws that many random bits.
        """
        low, span = self.low, self.high - self.low + 1
        return lambda _now: low + (bits(32) * span >> 32)


@lru_cache(maxsize=1)
def _exponential_table() -> tuple[int, ...]:
    """Tabulate -ln(1-u) in units of 2**-16 for 4096 values of u.

    Decimal's logarithm is the same on every platform; math.log's is not.
    """
    return tuple(int(-((Decimal(2 * step + 1) / 8192).ln()) * 65536) for step in range(4096))


@dataclass(frozen=True)
class Exponential:
    """Memoryless delays around a mean, cut at about nine times the mean.

    mean: the mean delay in microseconds.
    """

    mean: int = MESSAGE_TIME

    def __post_init__(self) -> None:
        if self.mean < 1:
            raise ValueError(f"the mean delay is at least 1, not {self.mean}")

    @property
    def longest(self) -> int:
        """The longest delay in microseconds."""
        return 1 + (self.mean * _exponential_table()[0] >> 16)

    def sampler(self, bits: Bits) -> Sampler:
        """Return a function that draws the delay of a message from its time of sending.

        bits: draws that many random bits.
        """
        table, mean = _exponential_table(), self.mean
        return lambda _now: 1 + (mean * table[bits(12)] >> 16)


@dataclass(frozen=True)
class HeavyTail:
    """Delays of which a few are very long.

    Half of the messages take up to twice the base, a quarter up to four times, and so on.

    base: the shortest delay, in microseconds.
    doublings: how often the delay can double; the longest is about 2,000 times the base by default.
    """

    base: int = MESSAGE_TIME
    doublings: int = 10

    def __post_init__(self) -> None:
        if self.base < 1 or not 1 <= self.doublings <= 30:
            raise ValueError("a heavy tail has a base of at least 1 and 1 to 30 doublings")

    @property
    def mean(self) -> int:
        """The mean delay in microseconds."""
        return self.base * 3 * (self.doublings + 2) // 4

    @property
    def longest(self) -> int:
        """The longest delay in microseconds."""
        return self.base << (self.doublings + 1)

    def sampler(self, bits: Bits) -> Sampler:
        """Return a function that draws the delay of a message from its time of sending.

        bits: draws that many random bits.
        """
        base, doublings = self.base, self.doublings

        def draw(_now: int) -> int:
            coin = bits(doublings)
            octave = base << (doublings - coin.bit_length())
            return octave + (bits(32) * octave >> 32)

        return draw


@dataclass(frozen=True)
class UntilGst:
    """The partially synchronous model: delays are bounded after the global stabilisation time.

    No process knows that time.  A message in flight at that time arrives within the bound, counted
    from then.
    """

    before: Delay = HeavyTail()
    after: Delay = Uniform(MESSAGE_TIME // 2, 3 * MESSAGE_TIME // 2)
    gst: int = 50 * MESSAGE_TIME

    def __post_init__(self) -> None:
        if self.gst < 0:
            raise ValueError(f"the stabilisation time is 0 or later, not {self.gst}")

    @property
    def mean(self) -> int:
        """Mean delay after the stabilisation, which is the unit in which delays are reported."""
        return self.after.mean

    @property
    def longest(self) -> int:
        return min(self.before.longest, self.gst + self.after.longest)

    def sampler(self, bits: Bits) -> Sampler:
        before, after = self.before.sampler(bits), self.after.sampler(bits)
        gst, latest = self.gst, self.gst + self.after.longest
        return lambda now: after(now) if now >= gst else min(before(now), latest - now)


MILLION = 1_000_000


@dataclass(frozen=True)
class Network:
    """The behaviour of the links.  Chances are integers, in parts per million."""

    delay: Delay = Uniform()
    fifo: bool = False
    loss: int = 0
    duplication: int = 0
    links: Mapping[tuple[ProcessId, ProcessId], Delay] = field(default_factory=dict)
    """Delays of single links that differ from `delay`."""

    def __post_init__(self) -> None:
        for name, chance in (("loss", self.loss), ("duplication", self.duplication)):
            if not 0 <= chance <= MILLION:
                raise ValueError(f"{name} is a chance from 0 to 1, not {chance / MILLION}")

    @property
    def is_steady(self) -> bool:
        """Whether every message arrives once, with delays drawn alike on all links."""
        return not (self.loss or self.duplication or self.links)
