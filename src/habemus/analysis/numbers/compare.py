"""Algorithms side by side under one workload: what an entry, or an election, costs, with the
formula beside the measurement.

**Load** is the demand for the critical section: 1 is what it can serve.  Each of the N
participants thinks, asks, waits, stays inside for the time `hold`, leaves, and thinks again; a
think time is drawn evenly from 0 to twice its mean, and

    mean think time = hold * N / load.

So if no participant ever had to wait, load would be the number of participants inside at a moment,
on average: at 0.1 the critical section is wanted a tenth of the time and two seldom meet; at 1 as
much is asked for as one section can serve; at 10 there is always a queue.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, NamedTuple

from habemus.algorithms.mutex.maekawa import PLANE_OR_GRID, voting_sets
from habemus.analysis.numbers.ranges import BadRange, Loads, SizeRange
from habemus.analysis.sweeps.workers import results
from habemus.argument_names import argument
from habemus.catalog.election import ELECTION
from habemus.catalog.entries import USER_MODULES, Entry, entries, entry_of, find
from habemus.catalog.mutex import MUTEX
from habemus.catalog.problems import exact
from habemus.core.events import Event
from habemus.core.mutex_events import mutex_change
from habemus.core.process import Process, ProcessId
from habemus.core.system import System
from habemus.problems import election, mutex
from habemus.runs import notation
from habemus.runs.mutex import MutexJudge
from habemus.runs.options import check_options, options_for
from habemus.runs.setup import BadSetup, Setup
from habemus.runs.simulate import execute, system_of
from habemus.runtimes.sim.network import Network
from habemus.runtimes.sim.simulation import Ending


class Quantity(NamedTuple):
    """A measured cost, and the formula that it is compared with."""

    name: str
    title: str
    formula: str | None = None


MUTEX_QUANTITIES = (
    Quantity("messages_per_entry", "messages per entry", "messages"),
    Quantity("bytes_per_entry", "bytes per entry"),
    Quantity("client_delay", "client delay", "client_delay"),
    Quantity("sync_delay", "sync delay", "sync_delay"),
    Quantity("wait", "wait"),
    Quantity("throughput", "throughput"),
    Quantity("fairness", "fairness"),
    Quantity("largest_overtaking", "largest overtaking"),
    Quantity("busiest_share", "busiest share"),
    Quantity("busiest_receives", "busiest receives"),
    Quantity("busiest_load", "busiest load"),
)
ELECTION_QUANTITIES = (
    Quantity("messages", "messages", "messages"),
    Quantity("bytes", "bytes"),
    Quantity("turnaround", "turnaround", "turnaround"),
)


@dataclass(frozen=True)
class ComparisonRow:
    """One algorithm at one size and load."""

    algorithm: str
    n: int
    load: Decimal | None  # None: the problem knows no load
    command: str
    measured: Mapping[str, float | None]
    formula: Mapping[str, float | None]
    entries: int | None
    violated: tuple[str, ...]  # claimed or not: a run without progress has not done the work
    broken_claims: tuple[str, ...]
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Smallest and largest value of each quantity, if the row is the mean of several runs."""

    def plain(self, quantities: Sequence[Quantity]) -> dict[str, Any]:
        by_formula = {
            f"{each.name}_by_formula": self.formula.get(each.formula)
            for each in quantities
            if each.formula
        }
        return {
            "algorithm": self.algorithm,
            "n": self.n,
            "load": None if self.load is None else float(self.load),
            **{each.name: self.measured[each.name] for each in quantities},
            **by_formula,
            "entries": self.entries,
            "violated": list(self.violated),
            "command": self.command,
            **(
                {"ranges": {name: list(ends) for name, ends in self.ranges.items()}}
                if self.ranges
                else {}
            ),
        }


@dataclass(frozen=True)
class Comparison:
    """Algorithms to compare, and the conditions."""

    algorithms: tuple[str, ...]
    sizes: SizeRange
    loads: Loads | None = None
    points: int = 8
    requests: int = 20
    seed: int = 0
    hold: str = Setup.hold
    delay: str = Setup.delay
    options: tuple[str, ...] = ()  # each algorithm gets those that it has
    processing: str = Setup.processing
    repeats: int = 1
    """Runs of each row: with other seeds and, where ids are arranged at random on a ring or a
    graph, with other arrangements.  The row is their mean, of the formula too.
    """
    classes: tuple[Entry, ...] = ()
    """The algorithms that were given as classes; the others are found by their names."""

    def entry(self, name: str) -> Entry:
        """Return one of the algorithms.  The file of a class is not imported again."""
        return next((each for each in self.classes if each.name == name), None) or find(name)

    @property
    def is_election(self) -> bool:
        return self.entry(self.algorithms[0]).problem is ELECTION

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        return ELECTION_QUANTITIES if self.is_election else MUTEX_QUANTITIES

    @property
    def axis(self) -> str | None:
        """The axis that varies: `n`, `load`, or none."""
        if self.sizes.low < self.sizes.high:
            return "n"
        return "load" if self.loads is not None and self.loads.low < self.loads.high else None

    def check(self) -> None:
        """Raise an exception if the comparison is impossible, before any run is made."""
        problems = {self.entry(name).problem.name for name in self.algorithms}
        if "detector" in problems:
            raise BadSetup(
                "failure detectors cannot be compared yet, only mutual exclusion and elections"
            )
        if len(problems) > 1:
            named = " and ".join(
                f"{self.entry(name).problem.title} ({name})" for name in self._one_of_each()
            )
            raise BadSetup(f"only algorithms of one problem can be compared, not {named}")
        if self.is_election and self.loads is not None:
            raise BadSetup(f"an election has no load; leave {argument('load')} out")
        if (
            self.sizes.low < self.sizes.high
            and self.loads is not None
            and self.loads.low < self.loads.high
        ):
            raise BadRange(
                f"only one thing can vary: give a range to {argument('n')} or to"
                f" {argument('load')}, not to both"
            )
        if self.is_election and self.processing != Setup.processing:
            raise BadSetup(
                f"a processing time is for mutual exclusion; leave {argument('processing')} out"
            )
        if self.requests < 1:
            raise BadSetup(f"each participant asks at least once, not {self.requests} times")
        if self.points < 1 or self.repeats < 1:
            raise BadSetup(
                f"a comparison has at least one point and one run, not {self.points} points and"
                f" {self.repeats} runs at each"
            )
        if self.axis is not None and self.points < 2:
            raise BadSetup(
                f"a range has at least two points, its ends; give {argument('points')} 2 or more"
            )
        hold = notation.span(self.hold)
        if hold == 0 or not isinstance(hold, int):
            raise BadSetup(
                f"the time inside is one time, at least 1us, not {self.hold}: the load is counted"
                " by it"
            )
        notation.delay(self.delay)
        notation.time(self.processing)
        for name in self.algorithms:
            for size in {self.sizes.low, self.sizes.high}:
                system_of(Setup(name, size, options=self._options(name)), self.entry(name))
        check_options(map(self.entry, self.algorithms), self.options)

    def _options(self, name: str) -> tuple[str, ...]:
        return options_for(self.entry(name), self.options)

    def _one_of_each(self) -> list[str]:
        last_first = reversed(self.algorithms)
        found = {self.entry(name).problem.name: name for name in last_first}
        return list(found.values())[::-1]

    def tasks(self) -> list[ComparisonTask]:
        sizes = self.sizes.spread(self.points)
        loads: list[Decimal | None] = (
            [None] if self.is_election else [*(self.loads or DEFAULT_LOAD).spread(self.points)]
        )
        return [
            self._task(self._setup(name, size, load), repeat, load)
            for size in sizes
            for load in loads
            for name in self.algorithms
            for repeat in range(self.repeats)
        ]

    def _task(self, setup: Setup, repeat: int, load: Decimal | None) -> ComparisonTask:
        entry = self.entry(setup.algorithm)
        algorithm = entry.algorithm if entry in self.classes else None
        return ComparisonTask(arranged(setup, repeat, entry), load, algorithm)

    def _setup(self, name: str, size: int, load: Decimal | None) -> Setup:
        if load is None:
            setup = Setup(name, size, seed=self.seed, workload="in-turn", delay=self.delay)
            return replace(setup, options=self._options(name))
        setup = Setup(
            name,
            size,
            seed=self.seed,
            requests=self.requests,
            hold=self.hold,
            delay=self.delay,
            processing=self.processing,
        )
        setup = replace(setup, options=self._options(name))
        return replace(setup, think=think(notation.time(self.hold), size, load))

    def measure(
        self, jobs: int, progress: Callable[[int, str], None] | None = None
    ) -> list[ComparisonRow]:
        """Return one row for each algorithm at each point, by size and load and then in the order
        of the algorithms: the mean of its runs.

        If a class cannot be sent to another process, all runs are made in this one.
        """
        tasks = self.tasks()
        jobs = jobs if all(_can_be_sent(each.algorithm) for each in self.classes) else 1
        rows: dict[ComparisonTask, ComparisonRow] = {}
        for task, row in results(row_of, tasks, jobs):
            rows[task] = row
            if progress is not None:
                progress(len(rows), f"{task.setup.algorithm}, {task.setup.n} participants")
        made = [rows[task] for task in tasks]
        return [
            _mean(made[first : first + self.repeats]) for first in range(0, len(made), self.repeats)
        ]


def measured_quantities(comparison: Comparison) -> list[Quantity]:
    """Return the quantities that a run could show: without a processing time there is no load."""
    return [
        each
        for each in comparison.quantities
        if each.name != "busiest_load" or comparison.processing != Setup.processing
    ]


DEFAULT_LOAD = Loads(Decimal("0.5"), Decimal("0.5"))
"""Load at which some requests meet and some do not, so that both delays are measured."""


def think(hold_us: int, size: int, load: Decimal) -> str:
    """Return the span of think times whose mean is hold * N / load, in the notation of runs."""
    longest = int((Decimal(2 * hold_us * size) / load).to_integral_value(ROUND_HALF_EVEN))
    return f"0..{longest}"


def _can_be_sent(algorithm: type[Process]) -> bool:
    """Return whether another process can import the class.  It would execute a script again."""
    if algorithm.__module__.startswith(("__main__", "__mp_main__", USER_MODULES)):
        return False
    try:
        pickle.dumps(algorithm)
    except (pickle.PicklingError, AttributeError):  # a class of a function
        return False
    return True


def arranged(setup: Setup, repeat: int, entry: Entry) -> Setup:
    """Return the setup of one repeat: another seed and, where there is one, another arrangement."""
    arranges = repeat > 0 and "arrangement" in entry.options
    options = (*setup.options, f"arrangement={repeat}") if arranges else setup.options
    return replace(setup, seed=setup.seed + repeat, options=options)


def _mean(rows: Sequence[ComparisonRow]) -> ComparisonRow:
    """Return the first row with the means of all; values that one run could not show are left
    out.
    """
    if len(rows) == 1:
        return rows[0]

    def mean(values: list[float | None]) -> float | None:
        seen = [value for value in values if value is not None]
        return round(sum(seen) / len(seen), 6) if seen else None

    first = rows[0]
    of_each = {name: [row.measured[name] for row in rows] for name in first.measured}
    seen = {
        name: [value for value in values if value is not None] for name, values in of_each.items()
    }
    return replace(
        first,
        measured={name: mean(values) for name, values in of_each.items()},
        formula={name: mean([row.formula[name] for row in rows]) for name in first.formula},
        violated=tuple(dict.fromkeys(name for row in rows for name in row.violated)),
        broken_claims=tuple(dict.fromkeys(name for row in rows for name in row.broken_claims)),
        ranges={name: (min(values), max(values)) for name, values in seen.items() if values},
    )


class ComparisonTask(NamedTuple):
    setup: Setup
    load: Decimal | None
    algorithm: type[Process] | None = None  # None: it is found by its name

    @property
    def entry(self) -> Entry:
        if self.algorithm is None:
            return find(self.setup.algorithm)
        return replace(entry_of(self.algorithm), name=self.setup.algorithm)


def row_of(task: ComparisonTask) -> ComparisonRow:
    """Run one row."""
    setup, load, entry = task.setup, task.load, task.entry
    observed = (
        replace(entry, problem=replace(MUTEX, judge=CrowdJudge))
        if entry.problem is MUTEX
        else entry
    )
    report = execute(setup, keep=False, entry=observed)
    quantities = MUTEX_QUANTITIES if entry.problem is MUTEX else ELECTION_QUANTITIES
    measured = {each.name: report.costs[each.name] for each in quantities}
    formula = dict(report.costs["formula"])
    if formula["messages"] is None:
        formula["messages"] = mean_messages_of_voting(entry, setup.n)
    claimed = [name for name in report.violated if entry.claims(name)]
    return ComparisonRow(
        entry.name,
        setup.n,
        load,
        setup.command(),
        measured,
        formula,
        report.costs.get("entries"),
        tuple(report.violated),
        tuple(claimed),
    )


@dataclass
class _Crowd:
    """Measurements of a workload: waiting times, throughput, and whether all get the same share."""

    requests: int
    waits: list[int] = field(default_factory=list)
    entries: Counter[ProcessId] = field(default_factory=Counter)
    shares: dict[ProcessId, int] | None = (
        None  # the entries when the first had its last one: until then all keep asking
    )
    last_exit: int = 0
    _since: dict[ProcessId, int] = field(default_factory=dict)

    def observe(self, event: Event) -> None:
        change = mutex_change(event)
        if change == "request":
            self._since[event.process] = event.time
        elif change == "exit":
            self.last_exit = event.time
        elif change == "entry" and event.process in self._since:
            self.waits.append(event.time - self._since.pop(event.process))
            self.entries[event.process] += 1
            if self.shares is None and self.entries[event.process] == self.requests:
                self.shares = dict(self.entries)


class CrowdJudge(MutexJudge):
    """Judge of mutual exclusion that also measures the workload."""

    def __init__(self, setup: Setup, system: System, network: Network) -> None:
        super().__init__(setup, system, network)
        self._clients, self._unit = system.clients, network.delay.mean
        self._crowd = _Crowd(setup.requests)

    def observe(self, event: Event) -> None:
        super().observe(event)
        self._crowd.observe(event)

    def costs(self, ending: Ending) -> dict[str, Any]:
        crowd, unit = self._crowd, self._unit
        shares = crowd.shares or dict(crowd.entries)
        return super().costs(ending) | {
            "wait": exact(sum(crowd.waits), len(crowd.waits) * unit) if crowd.waits else None,
            "throughput": (
                round(len(crowd.waits) * unit / crowd.last_exit, 6) if crowd.last_exit else None
            ),
            "fairness": jain([shares.get(client, 0) for client in self._clients]),
        }


def jain(shares: Sequence[int]) -> float | None:
    """Return Jain's index: 1 if all have the same share, 1/N if one has everything."""
    squares = sum(share * share for share in shares)
    return round(sum(shares) ** 2 / (len(shares) * squares), 6) if squares else None


# Formulas, and where they cross.


def formula_of(entry: Entry, size: int) -> float | None:
    """Return the messages of an uncontended entry, or of an election that the first participant
    calls.
    """
    system = system_of(Setup(entry.name, size), entry)
    plan = system.plans[system.clients[0]]
    assert isinstance(plan, mutex.Mutex | election.Election)
    messages = plan.costs(size).messages
    return messages if messages is not None else mean_messages_of_voting(entry, size)


def mean_messages_of_voting(entry: Entry, size: int) -> float | None:
    """Return 3(K-1), averaged over voting sets of different sizes, where the algorithm has such
    sets.
    """
    if "sets" not in entry.options:
        return None
    sets = voting_sets(size, PLANE_OR_GRID)
    voters = sum(map(len, sets.values()))
    return exact(3 * (voters - size), size)


class Crossing(NamedTuple):
    """The size from which on one algorithm needs fewer messages than another, up to the end of the
    range.
    """

    cheaper: str
    than: str
    by_formula: int | None
    measured: int | None  # the first of the sizes measured

    def plain(self) -> dict[str, Any]:
        return self._asdict()


def crossings(comparison: Comparison, rows: Sequence[ComparisonRow]) -> list[Crossing]:
    """Return the sizes at which voting in small sets becomes cheaper than asking all, if both
    are compared over a range of sizes.
    """
    everybody = "ricart-agrawala"
    voting = [name for name in comparison.algorithms if name.startswith("maekawa")]
    if comparison.axis != "n" or everybody not in comparison.algorithms:
        return []
    return [
        Crossing(
            name,
            everybody,
            _crossing_by_formula(
                comparison.entry(name), comparison.entry(everybody), comparison.sizes
            ),
            _crossing_measured(name, everybody, rows),
        )
        for name in voting
    ]


LONGEST_FORMULA = 100
"""Largest size for which formulas are evaluated at every size; beyond it, the answer does not
change any more.
"""


def _crossing_by_formula(entry: Entry, other: Entry, sizes: SizeRange) -> int | None:
    high = min(sizes.high, LONGEST_FORMULA)
    costs = [
        (size, formula_of(entry, size), formula_of(other, size))
        for size in range(sizes.low, high + 1)
    ]
    return _last_change(costs)


def _crossing_measured(name: str, other: str, rows: Sequence[ComparisonRow]) -> int | None:
    by_place = {(row.algorithm, row.n): row.measured["messages_per_entry"] for row in rows}
    return _last_change(
        [
            (size, by_place[name, size], by_place[other, size])
            for size in sorted({row.n for row in rows})
        ]
    )


def _last_change(costs: Sequence[tuple[int, float | None, float | None]]) -> int | None:
    """Return the first size from which on the first is always less than the second."""
    since: int | None = None
    for size, first, second in costs:
        if first is None or second is None:
            continue
        since = (since or size) if first < second else None
    return since


def safe_mutexes() -> tuple[str, ...]:
    return tuple(
        entry.name for entry in entries().values() if entry.problem is MUTEX and not entry.unsafe
    )
