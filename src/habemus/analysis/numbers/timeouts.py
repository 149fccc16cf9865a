"""The timeout with the least expected cost, for delays that were measured.

Waiting costs E for each millisecond, and a mistake, a slow process taken for dead, costs C.
With a timeout T, p(T) is the share of the delays that are longer than T, and

    cost(T) = E * T + C * p(T)

T is paid in full: all processes wait that long when the other one is down.  (If it always answered
in the end, there would be no reason to give up at all.)  The notes ask whether C * p < E; this is
the same question asked of every millisecond in turn: waiting a little longer pays as long as the
mistakes that it avoids cost more than the waiting.

Between two delays of the sample p does not change and waiting only costs, so the best timeout is
one of the delays, or 0.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from habemus.analysis.numbers.detectors import (
    FAMILIES,
    PATIENCE,
    PERIOD,
    DetectorQuality,
    OfLink,
    Trial,
    cells,
    measure,
)
from habemus.analysis.sweeps.intervals import clopper_pearson
from habemus.runs import notation
from habemus.runtimes.sim.network import Bits, Network, Sampler

LARGEST_SAMPLE = 1_000_000
LEAST_SAMPLE = 2
MS = 1_000


class BadSample(ValueError):
    """Delays or costs that cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Sample:
    """Delays in microseconds, in the order in which they were measured, and where they are from.

    `of_file` and `of_law` make one; whatever else can measure delays makes one too.
    """

    delays: tuple[int, ...]
    origin: str

    def __post_init__(self) -> None:
        if len(self.delays) < LEAST_SAMPLE:
            raise BadSample(
                f"{self.origin}: a sample has at least {LEAST_SAMPLE} delays, not"
                f" {len(self.delays)}"
            )
        if len(self.delays) > LARGEST_SAMPLE:
            raise BadSample(
                f"{self.origin}: a sample has at most {LARGEST_SAMPLE:,} delays, not"
                f" {len(self.delays):,}"
            )

    @cached_property
    def ordered(self) -> tuple[int, ...]:
        return tuple(sorted(self.delays))

    def longer_than(self, timeout: int) -> int:
        """Return the number of delays that are longer."""
        return len(self.delays) - bisect_right(self.ordered, timeout)

    def quantile(self, share: float) -> int:
        return self.ordered[min(len(self.delays) - 1, int(share * len(self.delays)))]

    def half(self, which: int) -> Sample:
        """Return every other delay, so that a trend over time is in both halves alike."""
        return Sample(self.delays[which::2], self.origin)


def of_file(path: Path) -> Sample:
    """Read one delay from each line, in the notation of times (1500, 1500us, 1.5ms, 2s); `#` begins
    a comment.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadSample(f"{path} is not a text with one delay on each line") from None
    return Sample(tuple(_lines(path.name, text)), path.name)


def _lines(name: str, text: str) -> Iterator[int]:
    for number, line in enumerate(text.splitlines(), 1):
        said = line.partition("#")[0].strip()
        if not said:
            continue
        if said.startswith("-"):
            raise BadSample(
                f"{name}, line {number}: a delay cannot be negative, as {said[:40]!r} is"
            )
        try:
            yield notation.time(said)
        except notation.BadNotation as reason:
            raise BadSample(
                f"{name}, line {number}: {' '.join(str(reason).split())[:200]}"
            ) from None


def of_law(text: str, size: int, seed: int = 0) -> Sample:
    """Draw from a distribution in the notation of `--delay`, as the simulator does."""
    law = notation.delay(text)
    if hasattr(law, "gst"):
        raise BadSample(
            f"{text!r} depends on the moment, so it is not a distribution; name one, such as"
            " heavy:1ms"
        )
    draw = law.sampler(random.Random(f"delays {seed}").getrandbits)
    return Sample(tuple(draw(0) for _ in range(size)), text)


@dataclass(frozen=True)
class TimeoutCosts:
    mistake: Fraction  # C
    waiting: Fraction  # E, of a millisecond

    def of(self, timeout: float | Fraction, mistakes: float | Fraction) -> float:
        """Return the expected cost of a timeout in microseconds with this share of mistakes."""
        return float(self.waiting * Fraction(timeout) / MS + self.mistake * Fraction(mistakes))


def costs(mistake: str, waiting: str) -> TimeoutCosts:
    found = TimeoutCosts(
        _cost(mistake, "the cost C of a mistake"), _cost(waiting, "the cost E of waiting")
    )
    if not found.waiting:
        raise BadSample(
            "if waiting costs nothing, wait for ever: the cost E of waiting is more than 0"
        )
    return found


def _cost(text: str, what: str) -> Fraction:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        raise BadSample(f"{what} is a number, not {text[:40]!r}") from None
    if not value.is_finite() or value < 0 or (value and not -30 <= value.adjusted() <= 30):
        raise BadSample(f"{what} is 0 or a number from 1e-30 to 1e30, not {text[:40]}")
    return Fraction(value)


@dataclass(frozen=True)
class Choice:
    """A timeout and its cost on the sample."""

    timeout: int  # microseconds; 0: do not wait at all
    mistakes: int  # delays of the sample that are longer
    size: int  # of the sample
    cost: float

    @property
    def share(self) -> float:
        return self.mistakes / self.size

    @property
    def share_at_most(self) -> float:
        """Upper bound on the chance of a mistake (95 %, Clopper-Pearson); a sample cannot show less
        than it has seen.
        """
        return clopper_pearson(self.mistakes, self.size)[1]

    def plain(self) -> dict[str, Any]:
        return {
            "timeout": self.timeout,
            "mistakes": self.mistakes,
            "p": self.share,
            "p_at_most": round(self.share_at_most, 9),
            "cost": self.cost,
        }


def priced(sample: Sample, timeout: int, costs: TimeoutCosts) -> Choice:
    mistakes, size = sample.longer_than(timeout), len(sample.delays)
    return Choice(timeout, mistakes, size, costs.of(timeout, Fraction(mistakes, size)))


def cheapest(sample: Sample, costs: TimeoutCosts) -> Choice:
    """Return the best timeout; of several, the shortest."""
    size = len(sample.delays)
    # In whole numbers: both costs times the same factor.
    each_us = costs.waiting.numerator * costs.mistake.denominator * size
    each_mistake = costs.mistake.numerator * costs.waiting.denominator * MS
    best, least = 0, each_mistake * sample.longer_than(0)
    for rank, delay in enumerate(sample.ordered, 1):
        if rank < size and sample.ordered[rank] == delay:
            continue
        cost = each_us * delay + each_mistake * (size - rank)
        if cost < least:
            best, least = delay, cost
    return priced(sample, best, costs)


@dataclass(frozen=True)
class CrossValidation:
    """Cost on one half of the sample of a timeout that was chosen by the other half."""

    chosen: Choice  # by the first half, priced on the second
    best: Choice  # of the second half

    @property
    def regret(self) -> float:
        """Additional cost compared with the best choice, as a share."""
        return self.chosen.cost / self.best.cost - 1 if self.best.cost else 0.0

    def plain(self) -> dict[str, Any]:
        return {
            "timeout": self.chosen.timeout,
            "cost": self.chosen.cost,
            "best_cost": self.best.cost,
            "regret": round(self.regret, 6),
        }


def check(sample: Sample, costs: TimeoutCosts) -> CrossValidation | None:
    """Return the validation, or None if the sample is too small to be halved."""
    if len(sample.delays) < 2 * LEAST_SAMPLE:
        return None
    other = sample.half(1)
    return CrossValidation(
        priced(other, cheapest(sample.half(0), costs).timeout, costs), cheapest(other, costs)
    )


def curve(sample: Sample, costs: TimeoutCosts, points: int = 40) -> list[Choice]:
    """Return the cost of timeouts from 0 to the longest delay, close together where the
    delays are.
    """
    size = len(sample.delays)
    ranks = {(size - 1) * step // (points // 2) for step in range(points // 2 + 1)}
    even = {sample.ordered[-1] * step // (points // 2) for step in range(points // 2 + 1)}
    places = {sample.ordered[rank] for rank in ranks} | even | {cheapest(sample, costs).timeout}
    return [priced(sample, place, costs) for place in sorted(places)]


# What the failure detectors would have done.


@dataclass(frozen=True)
class Replayed:
    """The delays of a sample one after the other, from a place that is drawn; after the last comes
    the first.
    """

    delays: tuple[int, ...]

    @property
    def mean(self) -> int:
        return max(1, sum(self.delays) // len(self.delays))

    @property
    def longest(self) -> int:
        return max(1, *self.delays)

    def sampler(self, bits: Bits) -> Sampler:
        delays, size = self.delays, len(self.delays)
        place = bits(32) * size >> 32

        def following(_now: int) -> int:
            nonlocal place
            place = (place + 1) % size
            return max(1, delays[place])

        return following


@dataclass(frozen=True)
class SampleTrial(Trial):
    """A trial of detectors in which every link has the delays of the sample, each from another
    place on.
    """

    delays: tuple[int, ...] = ()

    def crash(self, seed: int) -> int:
        """Return moments evenly spread between two heartbeats, so that a few runs give the mean
        detection time.
        """
        return notation.time(self.crash_at) + (2 * seed + 1) * PERIOD // (2 * self.seeds)

    def network(self, seed: int) -> Network:
        law = Replayed(self.delays)
        never = notation.time(self.crash_at) + PERIOD + PATIENCE + 1
        everybody = range(1, self.n + 1)
        return Network(
            law,
            links={
                (a, b): OfLink(law, 0, f"{seed} {a}>{b}", never)
                for a in everybody
                for b in everybody
                if a != b
            },
        )


@dataclass(frozen=True)
class DetectorCost:
    """Cost of a detector with one of its settings."""

    point: DetectorQuality
    cost: float | None  # None: it did not see the crash

    @property
    def mistakes(self) -> float:
        """Number of mistakes in the time of one heartbeat, as p is for one question."""
        return self.point.mistakes * PERIOD / self.point.watched

    def plain(self) -> dict[str, Any]:
        return {
            **self.point.plain(),
            "mistakes_per_heartbeat": round(self.mistakes, 9),
            "cost": self.cost,
        }


def outcomes(
    sample: Sample,
    costs: TimeoutCosts,
    jobs: int,
    seeds: int = 2,
    progress: Callable[[int, str], None] | None = None,
) -> dict[str, list[DetectorCost]]:
    """Return all settings of each detector of the catalog, the cheapest first."""
    every = cells(trial_of(sample, seeds), tuple(FAMILIES))
    points = measure(every, jobs, progress or (lambda _done, _beside: None))
    found: dict[str, list[DetectorCost]] = {name: [] for name in FAMILIES}
    for point in points:
        found[point.detector].append(_outcome(point, costs))
    return {
        name: sorted(each, key=lambda outcome: (outcome.cost is None, outcome.cost))
        for name, each in found.items()
    }


SETTINGS = sum(len(values) for _, values, _ in FAMILIES.values())


def trial_of(sample: Sample, seeds: int) -> SampleTrial:
    """Return a trial of three processes that watch each other for 4 s, until one of them
    crashes.
    """
    return SampleTrial(sample.origin, "0", 3, seeds, "4s", sample.delays)


def _outcome(point: DetectorQuality, costs: TimeoutCosts) -> DetectorCost:
    time = point.detection_time
    unseen = time is None or point.undetected
    return DetectorCost(
        point,
        (
            None
            if unseen or time is None
            else costs.of(time, Fraction(point.mistakes * PERIOD, point.watched))
        ),
    )


def best_of(found: dict[str, list[DetectorCost]]) -> Sequence[DetectorCost]:
    """Return the cheapest setting of each detector."""
    return [each[0] for each in found.values()]
