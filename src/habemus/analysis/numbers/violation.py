"""The probability that coordinators without stable memory let two into the critical section.

Of n coordinators, each restarts with chance P in a window of time and then no longer knows whom it
has granted; m of them are a quorum.  Participant A is inside by a quorum.  What must happen so that
B enters too?  That depends on how the requests arrived, and there are three cases:

    worst   A was first at m coordinators only; its other requests are still under way.  The n-m
            others are free for B, which therefore needs 2m-n of A's m, whichever they are:

                sum over k from 2m-n to m of C(m,k) P^k (1-P)^(m-k)

            This is the formula of the notes, which sum up to n; beyond m all terms are 0.
    given   The same, but B enters by one given quorum, because its requests to the other
            coordinators of A are late.  Then all 2m-n that the two quorums share must have
            restarted: P^(2m-n).
    first   A was first everywhere.  B needs m of the n:

                sum over k from m to n of C(n,k) P^k (1-P)^(n-k)

If A was first at g coordinators, B needs m+g-n of those g.  One more for A means one more that must
restart, so g = m is the worst.

A coordinator must restart after its grant to A and before B's request comes.  If it restarts later,
it forgets B's request as well, and B does not ask again.

All numbers are rational, so that no probability is too small to be represented.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation, localcontext
from fractions import Fraction
from functools import cache, lru_cache
from math import comb
from typing import Any, NamedTuple

from habemus.analysis.sweeps.intervals import LEVEL, clopper_pearson, deviations
from habemus.analysis.sweeps.workers import results
from habemus.catalog.entries import find
from habemus.core.process import ProcessId
from habemus.core.properties import Verdict
from habemus.core.quorums import more_than_half
from habemus.core.system import System
from habemus.problems.mutex_monitor import MutexMonitor
from habemus.runs import notation
from habemus.runs.mutex import workload
from habemus.runs.setup import Setup
from habemus.runs.simulate import system_of
from habemus.runtimes.sim.faults import Fault
from habemus.runtimes.sim.network import Network
from habemus.runtimes.sim.simulation import Record, Simulation

CASES = {
    "worst": (
        "A was first at m coordinators only, and any 2m-n of them must restart: the formula of the"
        " notes"
    ),
    "given": "B can only enter by one given quorum, and all of the intersection must restart",
    "first": "A was first at every coordinator, and any m of the n must restart",
}
LARGEST = 500
"""Largest number of coordinators. The exact numbers have as many digits as n times those of P."""
LEAST_CHANCE = Decimal("1e-30")
DIGITS = 30
"""Digits of a chance in the output."""


class NoQuorum(ValueError):
    """Invalid sizes or chances."""


def check_sizes(n: int, m: int) -> None:
    if not 1 <= n <= LARGEST:
        raise NoQuorum(f"there are 1 to {LARGEST} coordinators, not n = {n}")
    if m > n:
        raise NoQuorum(
            f"m = {m} is more than the n = {n} coordinators; use {more_than_half(n)} to {n}"
        )
    if 2 * m <= n:
        raise NoQuorum(
            f"m = {m} of n = {n} coordinators are not a quorum: two such groups need not overlap;"
            f" use {more_than_half(n)} to {n}"
        )


def quorums(n: int) -> range:
    """Return all sizes that a quorum of n can have."""
    check_sizes(n, n)
    return range(more_than_half(n), n + 1)


def chance(text: str, what: str = "P") -> Fraction:
    """Return the exact value of a chance as written."""
    stripped = text.strip()
    try:
        value = Decimal(stripped.removesuffix("%"))
    except InvalidOperation:
        raise NoQuorum(
            f"{what} = {text} is not a probability; write for example 1e-4 or 0.01%"
        ) from None
    if not value.is_finite() or not 0 <= value <= (100 if stripped.endswith("%") else 1):
        raise NoQuorum(f"{what} = {text} is not a probability between 0 and 1")
    if 0 < value < LEAST_CHANCE or len(value.as_tuple().digits) > DIGITS:
        raise NoQuorum(
            f"{what} = {text[:60]} is too small or too exact: at least {LEAST_CHANCE}, and {DIGITS}"
            " digits at most"
        )
    return Fraction(value) / (100 if stripped.endswith("%") else 1)


def at_least(needed: int, of: int, each: Fraction) -> Fraction:
    """Return the chance that at least so many of them restart, when each does with the
    same chance.
    """
    hit, miss = each.numerator, each.denominator - each.numerator
    if not miss:
        return Fraction(1)
    # C(of, k) * hit^k * miss^(of-k), each made of the one before; the division leaves no rest.
    total = term = comb(of, needed) * hit**needed * miss ** (of - needed)
    for k in range(needed, of):
        term = term * ((of - k) * hit) // ((k + 1) * miss)
        total += term
    return Fraction(total, each.denominator**of)


@dataclass(frozen=True)
class ViolationQuery:
    """One question: how likely is a violation with these numbers?"""

    n: int
    m: int
    p: Fraction
    case: str = "worst"

    @property
    def shared(self) -> int:
        """Least number of coordinators that two quorums share."""
        return 2 * self.m - self.n

    @property
    def telling(self) -> int:
        """Number of coordinators whose restarts decide."""
        return {"worst": self.m, "given": self.shared, "first": self.n}[self.case]

    @property
    def needed(self) -> int:
        """Number of deciding coordinators that must restart."""
        return self.m if self.case == "first" else self.shared

    @property
    def probability(self) -> Fraction:
        return at_least(self.needed, self.telling, self.p)

    def plain(self) -> dict[str, Any]:
        by_case = {case: ViolationQuery(self.n, self.m, self.p, case).probability for case in CASES}
        return {
            "n": self.n,
            "m": self.m,
            "p": _float(self.p),
            "shared": self.shared,
            "may_be_down": self.n - self.m,
            **_named("pv", by_case["worst"]),
            **_named("whole_intersection", by_case["given"]),
            **_named("first_everywhere", by_case["first"]),
        }


def _named(name: str, value: Fraction) -> dict[str, Any]:
    return {
        name: _float(value),
        f"{name}_digits": scientific(value, 20),
        f"{name}_log10": log10(value),
    }


def _float(value: Fraction) -> float:
    return (
        value.numerator / value.denominator
    )  # integers of any length; 0.0 if it is less than any float


def _decimal(value: Fraction, digits: int) -> Decimal:
    with localcontext() as context:
        context.prec = digits
        return Decimal(value.numerator) / Decimal(value.denominator)


def scientific(value: Fraction, digits: int = 3) -> str:
    """Return a number as text such as `7.35e-59`, however small; from a thousandth on as
    `0.344`.
    """
    if not value:
        return "0"
    exact = _decimal(value, digits + 10)
    return f"{exact:.{digits - 1}e}" if value < Fraction(1, 1_000) else f"{exact:.{digits}g}"


def log10(value: Fraction) -> float | None:
    """Return the logarithm to base 10, or None for 0."""
    return float(_decimal(value, 30).log10()) if value else None


def smallest_quorum(n: int, p: Fraction, target: Fraction, case: str = "worst") -> int | None:
    """Return the smallest m with which a violation is no more likely than that; None if even m = n
    is not enough.

    A larger quorum is always safer, so bisection finds it.
    """
    sizes = quorums(n)
    low, high = 0, len(sizes)
    while low < high:
        middle = (low + high) // 2
        if ViolationQuery(n, sizes[middle], p, case).probability <= target:
            high = middle
        else:
            low = middle + 1
    return sizes[low] if low < len(sizes) else None


# The same by experiment: runs of the algorithm `quorum`, judged by the monitor of mutual exclusion.

A, B = 1, 2
HOLD, NEVER = "30ms", "100ms"
"""A stays inside beyond the end of the run, and a late request comes after it."""
ASKS = (f"{A}@1ms+{HOLD}", f"{B}@12ms+1ms")
WINDOW = range(5_000, 10_000)
"""Moments when coordinators crash: A has entered by then, and B has not yet asked when they are
back.
"""
BACK = 1_000
END = "18ms"
"""B has all the grants that it can get, and A is still inside."""


class Arrival(NamedTuple):
    """Order of arrival: the coordinators at which A was first, and those of them that B reaches
    only after the end.
    """

    first: list[ProcessId]
    late: list[ProcessId]

    @property
    def telling(self) -> list[ProcessId]:
        """The coordinators whose restarts decide."""
        return [each for each in self.first if each not in self.late]


@dataclass(frozen=True)
class SampledRun:
    """The run of one seed."""

    cell: ViolationQuery
    restarts: int  # among those that decide
    setup: Setup


def draw(cell: ViolationQuery, seed: int, bias: Fraction) -> SampledRun:
    """Draw the run of a seed. Coordinators restart with chance P, except the deciding ones, which
    restart with the chance `bias`.
    """
    chosen = random.Random(f"pv {cell.n} {cell.m} {cell.p} {cell.case} {bias} {seed}")
    coordinators = coordinators_of(cell.n, cell.m)
    first = sorted(chosen.sample(coordinators, cell.n if cell.case == "first" else cell.m))
    late = sorted(chosen.sample(first, cell.n - cell.m)) if cell.case == "given" else []
    arrival = Arrival(first, late)
    telling = arrival.telling
    crashes: dict[ProcessId, int] = {}
    for each in coordinators:
        law = bias if each in telling else cell.p
        if chosen.randrange(law.denominator) < law.numerator:
            crashes[each] = chosen.choice(WINDOW)
    return SampledRun(
        cell, sum(each in telling for each in crashes), described(cell, seed, arrival, crashes)
    )


def described(
    cell: ViolationQuery, seed: int, arrival: Arrival, crashes: Mapping[ProcessId, int]
) -> Setup:
    """Return the run with this order of arrival and these crashes."""
    faults = [("crash", f"{each}@{crash}") for each, crash in crashes.items()]
    faults += [("amnesia", f"{each}@{crash + BACK}") for each, crash in crashes.items()]
    faults += [
        ("slow", f"{A}>{each}@0={NEVER}")
        for each in coordinators_of(cell.n, cell.m)
        if each not in arrival.first
    ]
    faults += [("slow", f"{B}>{each}@0={NEVER}") for each in arrival.late]
    options = (f"coordinators={cell.n}", f"quorum={cell.m}")
    return Setup(
        "quorum", 2, seed, options, asks=ASKS, delay="500..1500", faults=tuple(faults), until=END
    )


@cache
def _system(n: int, m: int) -> System:
    return system_of(
        Setup("quorum", 2, options=(f"coordinators={n}", f"quorum={m}")), find("quorum")
    )


def coordinators_of(n: int, m: int) -> list[ProcessId]:
    return [process for process in _system(n, m).topology.processes if process not in (A, B)]


@lru_cache(maxsize=4_096)
def _fault(kind: str, text: str) -> Fault:
    return notation.FAULT_PARSERS[kind](text)


def is_violated(cell: ViolationQuery, setup: Setup) -> bool:
    """Run a sample and return whether ME1 was violated."""
    system = _system(cell.n, cell.m)
    simulation = Simulation(
        system,
        workload=workload(setup, system),
        network=Network(notation.delay(setup.delay)),
        faults=[_fault(kind, text) for kind, text in setup.faults],
        seed=setup.seed,
        record=Record.REQUESTS,
    )
    monitor = MutexMonitor(system.topology.processes)
    simulation.observers.append(monitor.observe)
    ending = simulation.run(notation.time(END))
    if A not in monitor.inside:
        raise AssertionError(f"A was not inside at the end of the run: {setup.command()}")
    return any(
        finding.name == "ME1" and finding.verdict is Verdict.VIOLATED
        for finding in monitor.findings(ending.reason)
    )


def bias_of(cell: ViolationQuery) -> Fraction:
    """Return the chance of a restart under which violations are frequent and runs have similar
    weights.

    With it, as many restart on average as are needed; if all must restart, they do in half of the
    runs.
    """
    if cell.needed < cell.telling:
        usual = Fraction(cell.needed, cell.telling)
    else:
        usual = Fraction(round(2 ** (-1 / cell.needed) * 10**6), 10**6)
    return max(usual, cell.p)


@dataclass
class Experiment:
    """Runs of one query, and their estimate."""

    cell: ViolationQuery
    bias: Fraction  # P itself: plain Monte Carlo; else importance sampling
    counts: Counter[int] = field(
        default_factory=Counter
    )  # violations by the number of restarts that decided
    runs: int = 0
    example: str = ""  # a run with a violation, as a command
    _first: int | None = None  # the seed of that run

    @property
    def is_plain(self) -> bool:
        return self.bias == self.cell.p

    @property
    def violations(self) -> int:
        return self.counts.total()

    def weight(self, restarts: int) -> Fraction:
        """Return the ratio of the true chance of such a run to the chance with which it
        was drawn.
        """
        if self.is_plain:
            return Fraction(1)
        p, q = self.cell.p, self.bias
        return (p / q) ** restarts * ((1 - p) / (1 - q)) ** (self.cell.telling - restarts)

    @property
    def estimate(self) -> Fraction:
        return (
            sum(
                (count * self.weight(restarts) for restarts, count in self.counts.items()),
                Fraction(0),
            )
            / self.runs
        )

    @property
    def variance(self) -> Fraction:
        """Variance of the estimate."""
        squares = (
            sum(
                (count * self.weight(restarts) ** 2 for restarts, count in self.counts.items()),
                Fraction(0),
            )
            / self.runs
        )
        return (squares - self.estimate**2) / max(1, self.runs - 1)

    def interval(self, level: float = LEVEL) -> tuple[Fraction, Fraction]:
        """Interval by Clopper and Pearson for plain runs; for weighted ones, the mean and as many
        standard deviations as needed.
        """
        if self.is_plain:
            low, high = clopper_pearson(self.violations, self.runs, level)
            return Fraction(low), Fraction(high)
        with localcontext() as context:
            context.prec = 30
            deviation = Fraction(_decimal(self.variance, 30).sqrt())
        reach = Fraction(deviations(level)) * deviation
        return max(Fraction(0), self.estimate - reach), self.estimate + reach

    def agrees(self, level: float = LEVEL) -> bool:
        """Return whether the theory lies in the interval."""
        low, high = self.interval(level)
        return low <= self.cell.probability <= high

    def add(self, other: Experiment) -> None:
        self.counts += other.counts
        self.runs += other.runs
        if other._first is not None and (self._first is None or other._first < self._first):
            self._first, self.example = other._first, other.example

    def plain(self) -> dict[str, Any]:
        low, high = self.interval()
        return {
            "case": self.cell.case,
            "theory": _float(self.cell.probability),
            "how": "plain" if self.is_plain else "weighted",
            "runs": self.runs,
            "violations": self.violations,
            "restart_chance_used": _float(self.bias),
            "estimate": _float(self.estimate),
            "variance_of_estimate": _float(self.variance),
            "low": _float(low),
            "high": _float(high),
            "interval": f"{LEVEL:.0%} {'Clopper-Pearson' if self.is_plain else 'normal'}",
            "theory_inside": self.agrees(),
            "example": self.example or None,
        }


HOW = ("auto", "plain", "weighted")
VISIBLE = 10
"""Number of violations that must be expected for plain runs to say anything."""
AT_ONCE = 50


class ViolationBatch(NamedTuple):
    cell: ViolationQuery
    bias: Fraction
    first: int
    size: int


def runs_of(batch: ViolationBatch) -> Experiment:
    """Run a batch."""
    made = Experiment(batch.cell, batch.bias)
    for seed in range(batch.first, batch.first + batch.size):
        run = draw(batch.cell, seed, batch.bias)
        made.runs += 1
        if is_violated(run.cell, run.setup):
            made.counts[run.restarts] += 1
            if made._first is None:
                made._first, made.example = seed, run.setup.command()
    return made


def batches(
    cells: Sequence[ViolationQuery], runs: int, how: str = "auto", seed: int = 0
) -> list[ViolationBatch]:
    """Return the work in batches; the runs of a query have the seeds from `seed` on."""
    found = []
    for cell in cells:
        plain = how == "plain" or (how == "auto" and cell.probability * runs >= VISIBLE)
        bias = cell.p if plain or cell.p in (0, 1) else bias_of(cell)
        starts = range(seed, seed + runs, AT_ONCE)
        found += [
            ViolationBatch(cell, bias, start, min(AT_ONCE, seed + runs - start)) for start in starts
        ]
    return found


def experiments(
    work: Sequence[ViolationBatch], jobs: int, progress: Callable[[int, str], None] | None = None
) -> list[Experiment]:
    """Return the results, one query after the other. The number of workers does not change them."""
    made: dict[ViolationQuery, Experiment] = {
        batch.cell: Experiment(batch.cell, batch.bias) for batch in work
    }
    done = 0
    for batch, part in results(runs_of, work, jobs):
        made[batch.cell].add(part)
        done += part.runs
        if progress is not None:
            progress(done, f"n = {batch.cell.n}, m = {batch.cell.m}, P = {_float(batch.cell.p):g}")
    return list(made.values())


def contradicted(made: Sequence[Experiment]) -> list[Experiment]:
    """Return the experiments that contradict the theory: by chance alone, at most one such table in
    a thousand would have one.

    One of twenty lies outside its 95 % interval by chance, so that alone is no contradiction.
    """
    return [each for each in made if not each.agrees(1 - 0.001 / len(made))]
