"""One exhaustive check, from its description to its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from habemus.argument_names import argument
from habemus.catalog.entries import Entry, find
from habemus.catalog.names import command_line
from habemus.core.model import RESIGN, WITHDRAW, ClientModel, Observer
from habemus.core.node import Stack
from habemus.core.process import MistakeInAlgorithm, ProcessId
from habemus.core.properties import NO_EXCEPTION, Finding, Kind, Verdict, reasons, worst
from habemus.core.system import System
from habemus.core.values import Message, Timer, Value
from habemus.core.words import counted, did_you_mean
from habemus.problems.mutex import Mutex
from habemus.problems.mutex_observer import MutexObserver
from habemus.problems.mutex_properties import ME2_DEADLOCK, ME2_STARVATION, ME3
from habemus.runs.agreement import JudgementsDisagree, confirmed
from habemus.runs.author_errors import attribute_to_algorithm
from habemus.runs.setup import MESSAGES, OUTSIDE, BadSetup, Description, Setup
from habemus.runs.systems import system_of
from habemus.runtimes.checker.fairness import Lasso, has_loops, lassos
from habemus.runtimes.checker.process_model import (
    DRAW,
    FAILED,
    RECEIPT_OF,
    SEARCHED_FAULTS,
    TIMEOUT,
    TIMEOUT_OF,
    Bound,
    ProcessModel,
)
from habemus.runtimes.checker.search import (
    FOUND,
    INTERRUPTED,
    SOMEWHERE,
    Extent,
    FoundViolation,
    Search,
    TooNarrow,
)

# Modules that few checks need are imported by the functions that do: most checks take less time
# than these imports.
if TYPE_CHECKING:
    from habemus.runs.liveness import Liveness
    from habemus.runtimes.checker.counterexample import Story
    from habemus.runtimes.checker.inevitability import Inevitable
    from habemus.runtimes.checker.second_phase import SecondPhase
    from habemus.traces import Trace

SEARCHES = ("auto", "breadth", "numpy", "symbolic")
KEEPING = ("auto", "breadth", "numpy")
"""Searches that keep all states."""
NETWORKS = ("fifo", "unordered", "lossy", "duplicating")
EVENTUAL = "eventual"
TIMINGS = ("asynchronous", "synchronous", EVENTUAL)
STATE_LIMIT = 3_000_000
LOOP_LIMIT = 300_000
"""Largest number of states that are searched for loops, which takes longer than to find them."""
NOT_NEEDED = "not searched: no verdict depends on them"
NO_LOOPS = "no run goes on for ever"
NO_FAIR_LOOPS = "no fair run goes on for ever"
SMALL = 50_000
"""States that are visited before `auto` tries another search."""
SMALL_DIAGRAM = 400_000
"""Edges of decision diagrams after which `auto` gives up the search among sets of states.  It does
not suit every algorithm.
"""
GUIDED_LIMIT = 100_000
"""States that are visited to find a violation over the real component."""
LARGEST_ORDER = 8
"""Largest number of entries of each participant for which causality (ME3) is tracked."""


OF_RUNS = {"loss": "lose", "duplicate": "copy"}
"""Names that runs have for a fault of checks: there they are probabilities."""


@dataclass(frozen=True)
class Check(Description):
    """The description of a check, in the notation of the command line."""

    described_as = "check"

    algorithm: str
    n: int
    options: tuple[str, ...] = ()
    initial: tuple[str, ...] = ()
    over: str = ""
    abstract: str = ""  # the component below that an abstract one replaces: election, or with terms
    refines: str = ""  # judge whether the algorithm does what an abstract component may do
    entries: int | None = 1  # of each participant, or calls of an election; None: without end
    asking: tuple[int, ...] = ()  # participants that make requests; empty: all
    network: str = ""  # empty: as the algorithm needs
    faults: tuple[tuple[str, int], ...] = ()  # how many of each, at most
    timeouts: int | None = None  # how many timers may run out; None: as many as are set
    timers: tuple[tuple[str, int], ...] = ()  # how many of each name may run out
    receipts: tuple[tuple[str, int], ...] = ()  # how many messages of each name are received
    draws: int | None = None  # how many steps may draw at random; None: any number
    withdrawals: int = 0  # how often an application stops waiting
    resignations: int = 0  # how often a leader steps down in its own term
    timing: str = "asynchronous"
    merging: bool = False
    order: bool = False
    outside: bool = False  # for ME3, applications tell each other of their requests
    returning: bool = False  # a crashed process recovers: a run does not end while one is down
    every: bool = False  # continue after the first violation
    search: str = "auto"  # one of SEARCHES
    limit: int = STATE_LIMIT

    def __post_init__(self) -> None:
        if self.network not in ("", *NETWORKS):
            raise BadSetup(f"unknown network {self.network}; use one of {', '.join(NETWORKS)}")
        if self.timing not in TIMINGS:
            raise BadSetup(f"unknown timing {self.timing}; use one of {', '.join(TIMINGS)}")
        if self.has_second_phase and self.search not in KEEPING:
            raise BadSetup(
                "the second phase needs all states of the first, which the search"
                f" {self.search} does not keep; use one of {', '.join(KEEPING)}"
            )
        if self.search not in SEARCHES:
            raise BadSetup(f"unknown search {self.search}; use one of {', '.join(SEARCHES)}")
        for kind, count in self.faults:
            if kind not in SEARCHED_FAULTS:
                hint = did_you_mean(OF_RUNS.get(kind, kind), SEARCHED_FAULTS)
                raise BadSetup(f"a check has no fault {kind}; {hint}")
            if not 0 <= count <= 99:
                raise BadSetup(f"{kind}={count}: a check has from 0 to 99 of a fault")
        budgets = dict(self.faults)
        for kind in ("recover", "amnesia"):
            if budgets.get(kind) and not budgets.get("crash"):
                raise BadSetup(
                    f"{kind}={budgets[kind]}: only a crashed process recovers; add crash=1 to the"
                    " faults"
                )
        if self.tracks_order and (self.entries is None or self.entries > LARGEST_ORDER):
            raise BadSetup(
                f"the order of requests (ME3) is checked for up to {LARGEST_ORDER} entries of each"
                " participant"
            )
        if self.returning and not {"recover", "amnesia"} & {
            kind for kind, count in self.faults if count
        }:
            raise BadSetup("returning needs recoveries: add recover=1 or amnesia=1 to the faults")
        if self.entries is not None and self.entries < 0:
            raise BadSetup(f"the number of entries is 0 or more, not {self.entries}")
        if self.limit < 1:
            raise BadSetup(f"a search visits at least 1 state, not {self.limit}")

        if self.abstract:
            from habemus.runs import abstraction

            abstraction.component(self.abstract)
        if self.abstract and self.refines:
            raise BadSetup("abstract and refines are two checks; give one of them")
        for name, count in self.timers:
            if not 0 <= count <= 99:
                raise BadSetup(f"{name}={count}: a check has from 0 to 99 timeouts of a timer")
        for name, count in self.receipts:
            if not 0 <= count <= 99:
                raise BadSetup(f"{name}={count}: a check has from 0 to 99 receipts of a message")
        for name in ("withdrawals", "resignations"):
            if not 0 <= getattr(self, name) <= 99:
                raise BadSetup(f"a check has from 0 to 99 {name}, not {getattr(self, name)}")
        if self.draws is not None and not 0 <= self.draws <= 99:
            raise BadSetup(f"a check has from 0 to 99 random draws, not {self.draws}")

    def setup(self) -> Setup:
        return Setup(
            self.algorithm,
            self.n,
            options=self.options,
            initial=self.initial,
            over=self.over,
            order=OUTSIDE if self.outside else MESSAGES,
        )

    @property
    def tracks_order(self) -> bool:
        """Whether states contain which request happened before which."""
        return self.order and not self.outside

    def command(self) -> str:
        """Return the check as a command that can be pasted into a shell."""
        words = ["habemus", "check", self.algorithm, "-n", str(self.n)]
        words += [word for text in self.options for word in ("-o", text)]
        words += [word for text in self.initial for word in ("--set", text)]
        words += ["--over", self.over] if self.over else []
        words += ["--abstract", self.abstract] if self.abstract else []
        words += ["--refines", self.refines] if self.refines else []
        if self.entries != 1:
            words += ["--entries", "unbounded" if self.entries is None else str(self.entries)]
        words += ["--asking", ",".join(map(str, self.asking))] if self.asking else []
        words += ["--network", self.network] if self.network else []
        words += (
            ["--faults", ",".join(f"{kind}={count}" for kind, count in self.faults)]
            if self.faults
            else []
        )
        timeouts = [] if self.timeouts is None else [str(self.timeouts)]
        timeouts += [f"{name}={count}" for name, count in self.timers]
        words += ["--timeouts", ",".join(timeouts)] if timeouts else []
        receipts = ",".join(f"{name}={count}" for name, count in self.receipts)
        words += ["--receipts", receipts] if receipts else []
        words += ["--draws", str(self.draws)] if self.draws is not None else []
        for name in ("withdrawals", "resignations"):
            words += [f"--{name}", str(getattr(self, name))] if getattr(self, name) else []
        words += ["--timing", self.timing] if self.timing != "asynchronous" else []
        words += ["--merging"] if self.merging else []
        words += ["--order", *([OUTSIDE] if self.outside else [])] if self.order else []
        words += [f"--{name}" for name in ("returning", "every") if getattr(self, name)]
        words += ["--search", self.search] if self.search != "auto" else []
        words += ["--limit", str(self.limit)] if self.limit != STATE_LIMIT else []
        return command_line(self.algorithm, words)

    def bound(self, entry: Entry) -> Bound:
        network = self.network or ("fifo" if entry.assumes.fifo else "unordered")
        budgets = dict(self.faults)
        if network == "duplicating":
            budgets.setdefault("copy", 1)
        if self.timeouts is not None:
            budgets[TIMEOUT] = self.timeouts
        budgets |= {TIMEOUT_OF + name: count for name, count in self.timers}
        budgets |= {RECEIPT_OF + name: count for name, count in self.receipts}
        if self.draws is not None:
            budgets[DRAW] = self.draws
        budgets |= {kind: count for kind, count in self._requests() if count}
        return Bound(
            fifo=network == "fifo",
            lossy=network == "lossy",
            merging=self.merging,
            synchronous=self.timing == "synchronous",
            order=self.tracks_order,
            budgets=tuple(
                sorted(
                    (kind, count)
                    for kind, count in budgets.items()
                    if count or kind not in SEARCHED_FAULTS
                )
            ),
        )

    def _requests(self) -> tuple[tuple[str, int], ...]:
        """Return how many requests there are at most, by their budget."""
        return (WITHDRAW, self.withdrawals), (RESIGN, self.resignations)

    def description(self, entry: Entry) -> str:
        """Return the bound in words."""
        bound = self.bound(entry)
        what = ("call", "calls") if entry.problem.name == "election" else ("entry", "entries")
        many = f"any number of {what[1]}" if self.entries is None else counted(self.entries, *what)
        who = f"of {' and '.join(map(str, self.asking))} only" if self.asking else "of each"
        words = [
            f"{many} {who}",
            "links that keep the order" if bound.fifo else "messages in any order",
        ]
        words += ["any of them lost"] if bound.lossy else []
        words += [f"at most {counted(count, *_in_words(kind))}" for kind, count in bound.budgets]
        words += ["equal messages under way are one"] if bound.merging else []
        words += ["messages faster than timers"] if bound.synchronous else []
        words += ["then messages and applications faster than timers"] * (
            self.has_second_phase and has_timers(self.system(entry))
        )
        words += [f"and {counted(self.draws, 'more draw')}"] if self.draws is not None else []
        words += ["every crashed process recovers"] if self.returning else []
        words += ["applications tell each other of their requests"] if self.outside else []
        if self.abstract:
            from habemus.runs import abstraction

            words.append(f"over {abstraction.description(self.abstract)}")
        return ", ".join(words)

    @property
    def has_second_phase(self) -> bool:
        """Whether liveness is judged by a second phase, in which timers run on."""
        is_bounded = self.timeouts is not None or bool(self.timers) or bool(self.receipts)
        return (
            self.timing == EVENTUAL
            or (self.timing == "synchronous" and is_bounded)
            or self.draws is not None
        )

    def system(self, entry: Entry) -> System:
        """Return the system that is searched."""
        system = system_of(self.setup(), entry)
        if not self.abstract:
            return system
        from habemus.runs import abstraction

        return abstraction.abstracted(system, self.abstract)

    def judged(self, entry: Entry) -> Entry:
        """Return the entry with the properties that the check judges."""
        if not self.refines and not self.abstract:
            return entry
        from habemus.runs import abstraction

        if self.refines:
            return abstraction.refining(entry, self.refines)
        return entry if self.has_second_phase else abstraction.safety_only(entry)

    def model(
        self, entry: Entry, system: System
    ) -> tuple[Mapping[ProcessId, ClientModel], Observer]:
        """Return the clients, and the observer of the properties."""
        model = entry.problem.model
        if model is None:
            raise BadSetup(
                f"{entry.name}: {entry.problem.title} is about time, which a check does not have;"
                " use run or sweep"
            )
        for process in self.asking:
            if process not in system.clients:
                clients = ", ".join(map(str, system.clients))
                raise BadSetup(f"asking {process}: only {clients} can make requests")
        if self.outside and not issubclass(entry.algorithm, Mutex):
            raise BadSetup("the order outside is about the order of requests for a lock")
        uses, observer = model(self.entries, system)
        observer = MutexObserver(outside=True) if self.outside else observer
        if self.asking:
            silent, _ = model(0, system)
            uses = {me: (uses if me in self.asking else silent)[me] for me in system.plans}
        if not self.returning:
            return uses, observer
        from habemus.runtimes.checker.assume_recovery import AssumeRecovery

        return uses, AssumeRecovery(observer)

    def refuse_unknown_requests(self, uses: Mapping[ProcessId, ClientModel]) -> None:
        """Refuse a bound of requests that no client of the algorithm can make."""
        for name in ("withdrawals", "resignations"):
            if getattr(self, name) and not any(getattr(each, name, ()) for each in uses.values()):
                lacking = "cancel a request" if name == "withdrawals" else "resign"
                raise BadSetup(f"{argument(name)}: {self.algorithm} cannot {lacking}")

    def refuse_unknown_names(self, system: System) -> None:
        """Refuse a bound of timers or messages that the algorithm does not have."""
        for given, what, base, bounds in (
            ("timeouts", "timer", Timer, self.timers),
            ("receipts", "message", Message, self.receipts),
        ):
            known = handled(system, base)
            for name, _ in bounds:
                if name not in known:
                    hint = did_you_mean(name, sorted(known))
                    raise BadSetup(
                        f"{argument(given)} {name}: {self.algorithm} has no {what} {name}; {hint}"
                    )


def handled(system: System, base: type[Value]) -> set[str]:
    """Return the names of the timers, or messages, that processes handle."""
    return {
        kind.__name__
        for plan in system.plans.values()
        for part in Stack(plan).parts
        for kind, _ in type(part.plan).__behaviour__.upon
        if issubclass(kind, base)
    }


def has_timers(system: System) -> bool:
    return bool(handled(system, Timer))


_IN_WORDS = {
    "crash": ("crash", "crashes"),
    "recover": ("recovery", "recoveries"),
    "amnesia": ("recovery with amnesia", "recoveries with amnesia"),
    "lose": ("message lost", "messages lost"),
    "copy": ("message twice", "messages twice"),
    TIMEOUT: ("timeout", "timeouts"),
    DRAW: ("random draw", "random draws"),
    WITHDRAW: ("withdrawal", "withdrawals"),
    RESIGN: ("resignation", "resignations"),
}


def _in_words(kind: str) -> tuple[str, str]:
    """Return what a budget is for: one of them, and several."""
    if kind in _IN_WORDS:
        return _IN_WORDS[kind]
    what, prefix = (
        ("receipt", RECEIPT_OF) if kind.startswith(RECEIPT_OF) else ("timeout", TIMEOUT_OF)
    )
    name = kind.removeprefix(prefix)
    return f"{what} of {name}", f"{what}s of {name}"


@dataclass
class CheckReport:
    """The result of a check."""

    check: Check
    entry: Entry
    system: System
    search: Search
    loops: str  # what is known of runs that go on for ever
    loop_seconds: float = 0.0  # the time that the search for loops, or the second phase, took
    liveness: Liveness | None = None  # of the second phase
    findings: list[Finding] = field(default_factory=list)
    traces: dict[str, Trace] = field(
        default_factory=dict
    )  # of each violated property, the way to it
    stories: dict[str, Story] = field(default_factory=dict)
    over_abstraction: list[str] = field(
        default_factory=list
    )  # properties that are violated over the abstract component only

    @property
    def extent(self) -> Extent:
        return self.search.extent

    @property
    def counted(self) -> list[Finding]:
        return [
            finding
            for finding in self.findings
            if _is_counted(self.entry, finding.name, self.check)
        ]

    @property
    def verdict(self) -> Verdict:
        return worst(self.counted)

    @property
    def violated(self) -> list[str]:
        return [finding.name for finding in self.counted if finding.verdict is Verdict.VIOLATED]

    @property
    def why(self) -> str:
        """The reasons of the verdict, of the properties that count."""
        return "; ".join(reasons(self.counted, self.verdict))

    @property
    def trace(self) -> Trace | None:
        """Trace to the first violation that counts."""
        return next((self.traces[name] for name in self.explained), None)

    @property
    def explained(self) -> list[str]:
        """Properties that have a counterexample; violated ones before those that are violated over
        the abstract component only.
        """
        return [name for name in (*self.violated, *self.over_abstraction) if name in self.traces]

    def plain(self) -> dict[str, Any]:
        extent, trace = self.extent, self.trace
        return {
            "check": self.check.plain(),
            "command": self.check.command(),
            "bound": self.check.description(self.entry),
            "verdict": self.verdict.value,
            "property": self.violated[0] if self.violated else None,
            "violated": self.violated,
            "properties": {finding.name: finding.verdict.value for finding in self.findings},
            "reasons": {finding.name: finding.why for finding in self.findings},
            "states": extent.states,
            "transitions": extent.transitions,
            "depth": extent.depth,
            "exhaustive": extent.complete,
            "stopped": extent.stopped or None,
            "seconds": round(extent.seconds, 3),
            "handlers_run": self.search.handlers_run,
            "search": self.search.description,
            "loops": self.loops,
            "loop_seconds": round(self.loop_seconds, 3),
            "second_phase": None
            if self.liveness is None
            else {"states": self.liveness.states, "exhaustive": self.liveness.complete},
            "over_abstraction": self.over_abstraction,
            "steps": {name: story.steps for name, story in self.stories.items()},
            "trace": [] if trace is None else [event.line() for event in trace.events],
        }


def _is_counted(entry: Entry, name: str, check: Check) -> bool:
    """Return whether the property counts for the verdict.  `--order outside` asks for ME3."""
    is_asked = name == NO_EXCEPTION.name or (check.outside and name == ME3.name)
    return is_asked or name in entry.problem.always_counted or entry.claims(name)


@attribute_to_algorithm()
def perform(
    check: Check,
    *,
    entry: Entry | None = None,
    progress: Callable[[Extent], None] | None = None,
    loop_progress: Callable[[int, int], None] | None = None,
) -> CheckReport:
    """Search, and judge each property."""
    entry = check.judged(entry or find(check.algorithm))
    system = check.system(entry)
    uses, observer = check.model(entry, system)
    check.refuse_unknown_names(system)
    check.refuse_unknown_requests(uses)
    bound = check.bound(entry)
    watched = observer
    if check.abstract:
        from habemus.runtimes.checker.safety_only import SafetyOnly

        # An abstract component need not do anything in the first phase.
        watched = SafetyOnly(observer)

    def made(kind: type[Search], *filled: list[ProcessModel]) -> Search:
        search = kind(system, uses, watched, bound, *filled)
        search.decides = partial(_is_counted, entry, check=check)
        return search

    with attribute_to_algorithm():
        search = _searched(check, made, progress)
    began = perf_counter()
    live = None
    found: list[Lasso] = []
    loops = ""
    if check.has_second_phase and search.extent.complete:
        from habemus.runs.liveness import liveness

        with attribute_to_algorithm():
            live = liveness(check, entry, search, (uses, observer), loop_progress)
    elif not check.has_second_phase:
        found, loops = _loops(search, entry, loop_progress)
    report = CheckReport(check, entry, system, search, loops, perf_counter() - began, live)
    for each in entry.problem.properties:
        if each.name == "ME4" or (each.name == "ME3" and not check.order):
            continue
        finding = _judge_with_room(each.name, each.kind, search, found, report)
        if finding is not None:
            report.findings.append(finding)
    if NO_EXCEPTION.name in search.wrong:
        finding = _judge_with_room(NO_EXCEPTION.name, NO_EXCEPTION.kind, search, found, report)
        assert finding is not None
        report.findings.append(finding)
    return report


_MODULES = {
    "numpy": ("vectorised", "VectorisedSearch"),
    "symbolic": ("symbolic", "SymbolicSearch"),
}


class Maker(Protocol):
    """Makes a search of a kind, with the process models of another one to reuse their steps."""

    def __call__(self, kind: type[Search], /, *filled: list[ProcessModel]) -> Search: ...


def _kind(name: str) -> type[Search]:
    if name == "numpy" and find_spec("numpy") is None:
        raise BadSetup("the search numpy needs numpy: pip install '.[check]' in your clone")
    module, class_ = _MODULES.get(name, ("search", "Search"))
    kind: type[Search] = getattr(import_module(f"habemus.runtimes.checker.{module}"), class_)
    return kind


def _searched(check: Check, made: Maker, progress: Callable[[Extent], None] | None) -> Search:
    """Return the finished search."""
    if check.search == "symbolic" and check.timing == "synchronous":
        raise BadSetup(
            "the search symbolic knows steps of one process at a time, and time passes for all: use"
            " another search"
        )
    is_auto = check.search == "auto" and check.limit > SMALL and check.timing != "synchronous"
    search = made(_kind(check.search))
    if check.search == "numpy":
        return _enumerated(search.models, check, made, progress)
    search.run(SMALL if is_auto else check.limit, not check.every, progress)
    if check.search == "symbolic" and search.wrong:
        return _found_again(search, check, made, progress)
    if is_auto and search.extent.stopped.startswith("the limit"):
        return _searched_at_large(search, check, made, progress)
    return search


def _searched_at_large(
    begun: Search, check: Check, made: Maker, progress: Callable[[Extent], None] | None
) -> Search:
    """Continue a large search among sets of states, if that suits the algorithm and can decide all
    properties; else state by state.
    """
    if check.has_second_phase:
        return _enumerated(begun.models, check, made, progress)
    sets = made(_kind("symbolic"), begun.models)
    sets.run(min(check.limit, SMALL_DIAGRAM), not check.every, progress)
    if sets.wrong:
        return _found_again(sets, check, made, progress)
    if sets.extent.complete and (sets.extent.states > LOOP_LIMIT or not has_loops(sets)):
        return sets
    return (
        sets
        if sets.extent.stopped == INTERRUPTED
        else _enumerated(sets.models, check, made, progress)
    )


def _enumerated(
    filled: list[ProcessModel], check: Check, made: Maker, progress: Callable[[Extent], None] | None
) -> Search:
    """Search state by state, with numpy where it is installed and states fit into its words."""
    if find_spec("numpy") is not None:
        from habemus.runtimes.checker.vectorised import TooWide

        with suppress(TooWide):
            search = made(_kind("numpy"), filled)
            search.run(check.limit, not check.every, progress)
            return search
    search = made(Search, filled)
    search.run(check.limit, not check.every, progress)
    return search


def _found_again(
    sets: Search, check: Check, made: Maker, progress: Callable[[Extent], None] | None
) -> Search:
    """Find the path to a violation state by state, within the limit.  A search among sets of states
    knows only that there is one.
    """
    search = _enumerated(sets.models, check, made, progress)
    missed = [name for name in sets.wrong if name not in search.wrong]
    if search.extent.complete and missed:
        raise JudgementsDisagree(
            missed[0],
            "the search among sets of states finds it violated",
            "the search state by state does not",
        )
    search.wrong = {**sets.wrong, **search.wrong}
    return search


def _loops(
    search: Search, entry: Entry, progress: Callable[[int, int], None] | None
) -> tuple[list[Lasso], str]:
    """Return the fair loops that violate a property, and a remark about loops; empty: unknown."""
    names = [
        each.name
        for each in entry.problem.properties
        if each.kind is Kind.EVENTUALLY and not _is_decided(each.name, search)
    ]
    if not search.extent.complete:
        return [], ""
    if not names and all(_is_decided(each, search) for each in search.observer.about_the_end()):
        return [], NOT_NEEDED
    if not has_loops(search):
        return [], NO_LOOPS
    if search.extent.states > LOOP_LIMIT or not search.keeps_states:
        return [], ""
    found, goes_on = lassos(search, names, progress)
    return found, "every loop was looked at" if goes_on else NO_FAIR_LOOPS


def _is_decided(name: str, search: Search) -> bool:
    """Return whether a property has its verdict without a look at loops."""
    if name == ME2_STARVATION.name and ME2_DEADLOCK.name in search.wrong:
        return True
    return name in search.wrong


def _judge_with_room(
    name: str, kind: Kind, search: Search, found: list[Lasso], report: CheckReport
) -> Finding | None:
    """Judge a property.  The path to a violation may need states that the search has not numbered,
    and more bits for their numbers.
    """
    while True:
        try:
            return _judge(name, kind, search, found, report)
        except TooNarrow as narrow:
            search.make_room(narrow.place)


def _judge(
    name: str, kind: Kind, search: Search, found: list[Lasso], report: CheckReport
) -> Finding | None:
    wrong = search.wrong.get(name)
    lasso = next((each for each in found if each.name == name), None)
    if wrong is not None:
        return _violated_at(wrong, search, report)
    if name == ME2_STARVATION.name and ME2_DEADLOCK.name in report.traces:
        return Finding(name, Verdict.UNDECIDED, "no process enters any more, see ME2-deadlock")
    if lasso is not None:
        return _violated_for_ever(lasso, search, report)
    live = report.liveness
    judged = live.judged.get(name) if live is not None else None
    shown = bool(search.shown.get(name)) or (live is not None and name in live.shown)
    if judged is not None and (shown or judged[0].verdict is Verdict.VIOLATED):
        return _judged_in_second_phase(name, *judged, search, report)
    extent = search.extent
    if name in ("FENCE", "TOKEN") and not shown:
        return None  # no grant carries a token
    if not extent.complete:
        return Finding(
            name,
            Verdict.UNDECIDED,
            f"no violation in {extent.states:,} states{_up_to(extent.depth)}, but"
            f" {_why_it_ended(search)}",
        )
    if not shown:
        return Finding(
            name,
            Verdict.UNDECIDED,
            "no run has an event that this property is about, so nothing was shown",
        )
    if name in search.observer.about_the_end() and report.loops not in (NO_LOOPS, NO_FAIR_LOOPS):
        return Finding(
            name,
            Verdict.UNDECIDED,
            f"no dead end in {extent.states:,} states, but runs may go on for ever, and this"
            " property is about the end of a run",
        )
    if kind is Kind.EVENTUALLY and not report.loops:
        return Finding(
            name,
            Verdict.UNDECIDED,
            f"no dead end in {extent.states:,} states, but loops were not looked for",
        )
    early = _ends_early(search, report.system)
    if kind is Kind.EVENTUALLY and early:
        return Finding(
            name,
            Verdict.UNDECIDED,
            f"no dead end in {extent.states:,} states, but {early}; use"
            f" {argument('timing', EVENTUAL)}",
        )
    return Finding(name, Verdict.HOLDS, f"in all {extent.states:,} states")


def _ends_early(search: Search, system: System) -> str:
    """Return why runs end although the algorithm could go on; a bound of timeouts is none where
    there are no timers.
    """
    is_bounded = bool(search.bound.receipts_by_name) or has_timers(system)
    return search.bound.ends_early if is_bounded else ""


def _why_it_ended(search: Search) -> str:
    if search.extent.stopped != FOUND:
        return search.extent.stopped
    wrong = ", ".join(search.wrong)
    return f"the search ended at the violation of {wrong}; {argument('every', True)} goes on"


def _up_to(depth: int | None) -> str:
    return "" if depth is None else f" up to {depth} steps"


def _violated_at(wrong: FoundViolation, search: Search, report: CheckReport) -> Finding:
    if wrong.how == SOMEWHERE:
        return Finding(
            wrong.name,
            Verdict.UNDECIDED if report.check.abstract else Verdict.VIOLATED,
            f"violated in some state, but no path to it was found: {search.extent.stopped}",
        )
    from habemus.runtimes.checker.counterexample import story

    path = search.path_to(wrong.state)
    path = [*path, search.violating(path[-1], wrong.name)] if wrong.how == "step" else path
    if report.check.abstract:
        return _tried_over_component(wrong.name, path, search, report)
    found = story(search, path)
    if wrong.name == NO_EXCEPTION.name:
        return _explained(wrong.name, found, "", _exception_of(search, path), report)
    ending = "quiescent" if wrong.how == "rest" else "events"
    return _explained(
        wrong.name,
        found,
        ending,
        f"{wrong.name} is violated after {counted(found.steps, 'step')}",
        report,
    )


def _exception_of(search: Search, path: Sequence[int]) -> str:
    """Return the exception that the last step of a path raises, and its place.

    A path without steps ends at a start, which is what a process does first.
    """
    from habemus.runtimes.checker.counterexample import step_between

    if len(path) > 1:
        seen = step_between(search, *path[-2:]).seen
        said = next(each.name for each in seen if each.kind == FAILED)
    else:
        said = next(said for each in search.models for said in each.failures)
    error = next(each.failures[said] for each in search.models if said in each.failures)
    try:
        with attribute_to_algorithm():
            raise error
    except MistakeInAlgorithm as mistake:
        return str(mistake)


def _tried_over_component(
    name: str, path: Sequence[int], search: Search, report: CheckReport
) -> Finding:
    """Look for a violation over the abstract component also over the real one.

    Only a violation over the real one is called one.
    """
    from habemus.runs import abstraction
    from habemus.runtimes.checker.counterexample import story
    from habemus.runtimes.checker.guided import GuidedSearch, guide_of

    check = replace(report.check, abstract="", timeouts=None, timers=())
    system = check.system(report.entry)
    plan = next(iter(system.plans.values()))
    part = abstraction.path_of(plan, report.check.abstract)
    real = Search(system, *check.model(report.entry, system), check.bound(report.entry))
    guided = GuidedSearch(real, guide_of(search, path, part), part)
    with attribute_to_algorithm():
        found = guided.path_to(name, GUIDED_LIMIT)
    is_exception = name == NO_EXCEPTION.name
    ending = "" if is_exception else "events"
    if found is not None:
        why = _exception_of(real, found) if is_exception else ""
        return _explained(name, story(real, found), ending, why, report, check=check)
    why = _exception_of(search, path) if is_exception else ""
    finding = _explained(name, story(search, path), ending, why, report)
    report.over_abstraction.append(name)
    return Finding(
        name,
        Verdict.UNDECIDED,
        f"violated over the abstract component only: {finding.why}; the same steps over"
        f" {abstraction.replaced(plan, report.check.abstract)} did not lead there in"
        f" {guided.states:,} states",
    )


def _judged_in_second_phase(
    name: str, found: Inevitable, phase: SecondPhase, search: Search, report: CheckReport
) -> Finding:
    extent = search.extent
    if found.verdict is Verdict.UNDECIDED:
        why = f"no violation in {len(phase.states):,} states of the second phase, but {found.why}"
        return Finding(name, found.verdict, why)
    if found.verdict is not Verdict.VIOLATED:
        return Finding(name, found.verdict, f"from all {extent.states:,} states")
    from habemus.runtimes.checker.counterexample import STEP_US, Continuation, story

    then = Continuation(phase, phase.path_to(found.position))
    path = search.path_to(phase.origins[then.path[0]])
    told = story(search, path, [phase.states[each] for each in found.loop], then)
    since = f"in the second phase, which begins after step {len(path) - 1}, "
    processes = () if found.process is None else (found.process,)
    if told.loop is None:
        why = f"{since}{found.why}"
    else:
        who = "" if found.process is None else report.system.label(found.process)
        why = f"{since}the run can repeat for ever from step {told.loop // STEP_US} on"
        why += f", {found.why}" if found.why else ""
        why += f", and {who} never gets what it waits for" if who else ""
    finding = _explained(name, told, "", why, report, processes)
    if not report.check.abstract:
        return finding
    report.over_abstraction.append(name)
    return Finding(
        name,
        Verdict.UNDECIDED,
        f"violated over an abstract component that settles: {why}; it was not tried over"
        " another one",
    )


def _violated_for_ever(lasso: Lasso, search: Search, report: CheckReport) -> Finding:
    from habemus.runtimes.checker.counterexample import STEP_US, story

    found = story(search, lasso.path, lasso.loop)
    who = report.system.label(lasso.process)
    assert found.loop is not None
    why = (
        f"from step {found.loop // STEP_US} on the run can repeat for ever, fairly, and {who} never"
        " gets what it waits for"
    )
    return _explained(lasso.name, found, "", why, report, (lasso.process,))


def _explained(
    name: str,
    found: Story,
    ending: str,
    why: str,
    report: CheckReport,
    processes: tuple[int, ...] = (),
    *,
    check: Check | None = None,
) -> Finding:
    """Return the finding, explained by the monitor of the problem, and keep its trace.

    No monitor judges a loop; its finding is explained by `why`.  The trace describes `check` if
    that is not the one of the report.
    """
    from habemus.runtimes.sim.network import Network
    from habemus.traces import Trace

    system, setup = report.system, report.check.setup()
    finding = Finding(name, Verdict.VIOLATED, why, found.events[-1].time, processes)
    if ending:
        judge = report.entry.problem.judge(setup, system, Network())
        for event in found.events:
            judge.observe(event)
        finding = confirmed(name, "the search", judge.findings(ending, found.awaits))
    labels = {process: system.label(process) for process in system.topology.processes}
    title = (
        f"{report.check.algorithm}, {counted(report.check.n, 'participant')}: {name} violated in"
        f" {counted(found.steps, 'step')}"
    )
    run = {
        "check": (check or report.check).plain(),
        "property": name,
        "steps": found.steps,
        "loop": found.loop,
    }
    report.traces[name] = Trace(
        run, system.topology.processes, labels, found.events, (finding,), title
    )
    report.stories[name] = found
    return finding
