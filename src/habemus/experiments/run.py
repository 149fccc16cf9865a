"""Simulate, check and load from Python."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from habemus import scenarios
from habemus.catalog.entries import Entry, entry_by_place, find
from habemus.core.process import Process, ProcessId
from habemus.experiments.arguments import check_types
from habemus.experiments.results import CheckResult, ProofResult, RunResult, ScenarioResult
from habemus.runs.check import STATE_LIMIT, Check, perform
from habemus.runs.fault_notation import all_written
from habemus.runs.options import initial_texts, option_texts
from habemus.runs.parsing import timeouts as bounds_of_timeouts
from habemus.runs.setup import EVENT_LIMIT, MESSAGES, ORDERS, OUTSIDE, BadSetup, Setup
from habemus.runs.simulate import execute
from habemus.runtimes.sim.faults import Fault
from habemus.traces import Trace
from habemus.traces.file import read

Element = TypeVar("Element")


def simulate(
    algorithm: str | type[Process],
    n: int = 3,
    *,
    seed: int = 0,
    requests: int = 1,
    workload: str = "steady",
    think: int | str = Setup.think,
    hold: int | str = Setup.hold,
    give_up: int | str = "",
    resign: Iterable[str] = (),
    asks: Iterable[str] = (),
    delay: int | str = Setup.delay,
    fifo: bool | None = None,
    loss: float | str = 0,
    duplicate: float | str = 0,
    over: str = "",
    faults: Iterable[Fault | str] = (),
    options: Mapping[str, Any] | None = None,
    initial: Mapping[ProcessId, Mapping[str, Any]] | None = None,
    labels: Mapping[ProcessId, str] | None = None,
    until: int | str | None = None,
    events: int = EVENT_LIMIT,
    overtaking: int | None = None,
    order: str = MESSAGES,
    processing: int | str = Setup.processing,
    then: Iterable[str] = (),
) -> RunResult:
    """Simulate one run and judge it, as `habemus run` does.

    The same arguments give the same events, and the same digest, on every platform.  A time is a
    text such as "5ms" or a number of microseconds.  Arguments that make no run raise `ValueError`,
    `LookupError` or `TypeError`.

    algorithm: a name of the catalog, a class, or `path/to/mine.py:MyMutex`.
    n: the number of participants.
    seed: the seed of all random draws.
    requests: the number of requests of each participant.
    workload: how the requests arrive: "steady", "burst" or "in-turn".
    think: the time before each request.
    hold: the time in the critical section.
    give_up: the time after which an application stops waiting; by default it waits for ever.
    resign: processes that step down, if they lead at that time, such as "1@50ms".
    asks: requests such as "2@5ms+1ms" (process, time, hold), which replace the workload.
    delay: the delay of messages: "1ms", "500..1500", "exp:1ms" or "heavy:1ms".
    fifo: whether links deliver in order; by default only if the algorithm needs it.
    loss: the probability that a message is lost.
    duplicate: the probability that a message is delivered twice.
    over: "perfect" or "perfect-fifo" to run every process over links that retransmit.
    faults: values of `habemus.faults`, or texts such as "crash 2@5ms".
    options: options of the algorithm, by name.
    initial: initial values of variables, by process and name.
    labels: names of processes for tables and pictures.
    until: the time at which to stop.
    events: the number of events after which to stop.
    overtaking: judge ME4: at most this many others enter between a request and its entry.
    order: for ME3, "messages": processes learn of requests by messages only; "outside":
        applications also tell each other of their requests.
    processing: the time that a process needs for each message.
    then: interventions such as "60: 2 crashes", sixty deliveries into the run.

    >>> result = simulate("ricart-agrawala", n=10, seed=7)
    >>> result.verdict.value, result.costs["messages_per_entry"]
    ('holds', 18)
    """
    asks, faults, then = _listed(asks), _listed(faults), _listed(then)
    resign = _listed(resign)
    check_types(simulate, locals())
    entry = entry_for(algorithm)
    setup = Setup(
        entry.name,
        n,
        seed=seed,
        options=option_texts(options),
        initial=initial_texts(initial),
        labels=tuple(f"{process}={label}" for process, label in (labels or {}).items()),
        workload=workload,
        requests=requests,
        think=str(think),
        hold=str(hold),
        give_up=str(give_up),
        resign=tuple(resign),
        asks=tuple(asks),
        delay=str(delay),
        fifo=fifo,
        loss=str(loss),
        duplicate=str(duplicate),
        over=over,
        faults=all_written(faults),
        until=None if until is None else str(until),
        events=events,
        overtaking=overtaking,
        order=order,
        processing=str(processing),
        then=tuple(then),
    )
    return RunResult(execute(setup, entry=entry))


def check(
    algorithm: str | type[Process],
    n: int = 3,
    *,
    entries: int | None = 1,
    network: str = "",
    faults: Mapping[str, int] | None = None,
    timeouts: int | str | Mapping[str, int] | None = None,
    receipts: Mapping[str, int] | None = None,
    draws: int | None = None,
    withdrawals: int = 0,
    resignations: int = 0,
    asking: Sequence[ProcessId] = (),
    timing: str = "asynchronous",
    merging: bool = False,
    order: bool | str = False,
    returning: bool = False,
    every: bool = False,
    search: str = "auto",
    limit: int = STATE_LIMIT,
    over: str = "",
    abstract: str = "",
    refines: str = "",
    options: Mapping[str, Any] | None = None,
    initial: Mapping[ProcessId, Mapping[str, Any]] | None = None,
) -> CheckResult:
    """Search every interleaving within a bound, as `habemus check` does.

    algorithm: a name of the catalog, a class, or `path/to/mine.py:MyMutex`.
    n: the number of participants.
    entries: the number of entries of each participant, or of calls of an election; None: any.
    network: "fifo", "unordered", "lossy" or "duplicating"; by default "fifo" if the algorithm needs
        it, else "unordered".
    faults: how many of each kind may strike, at every point: {"crash": 1, "recover": 1}.  Kinds are
        crash, recover, amnesia, lose (a message) and copy (it arrives twice).
    timeouts: bound on the timeouts in all, or by the names of timers: {"Repeat": 1}.
    receipts: bound on the receipts, by the names of messages.
    draws: bound on the steps that draw at random.
    withdrawals: how often an application stops waiting for the lock.
    resignations: how often a leader steps down in its own term.
    asking: the participants that make requests; by default all.
    timing: "asynchronous": a timer can expire at any moment; "synchronous": only in order, after
        all messages; "eventual": at any moment at first, then in order, which decides liveness.
    merging: whether to merge equal messages in flight, for algorithms that retransmit.
    order: whether to judge ME3; "outside": as if applications also told each other of their
        requests.
    returning: whether to assume that crashed processes recover.
    every: whether to continue after the first violation and judge every property.
    search: "auto", "breadth", "numpy" or "symbolic".
    limit: the number of states, or edges of decision diagrams, after which to give up.
    over: "perfect" or "perfect-fifo" to run every process over links that retransmit.
    abstract: "election" or "election:terms=K" to replace the component below by one that does all
        that its safety properties allow.
    refines: "election" to check that the algorithm does only what the abstract component may do.
    options: options of the algorithm, by name.
    initial: initial values of variables, by process and name.

    >>> check("maekawa", n=3).violated
    ['ME2-deadlock']
    """
    check_types(check, locals())
    entry = entry_for(algorithm)
    if order not in (False, True, *ORDERS):
        raise BadSetup(f"there is no order {order}; there are {' and '.join(ORDERS)}")
    if isinstance(timeouts, Mapping):
        in_all, timers = None, tuple(sorted(timeouts.items()))
    else:
        in_all, timers = bounds_of_timeouts("" if timeouts is None else str(timeouts))
    description = Check(
        entry.name,
        n,
        options=option_texts(options),
        initial=initial_texts(initial),
        over=over,
        abstract=abstract,
        refines=refines,
        entries=entries,
        network=network,
        faults=tuple((faults or {}).items()),
        timeouts=in_all,
        timers=timers,
        receipts=tuple(sorted((receipts or {}).items())),
        draws=draws,
        withdrawals=withdrawals,
        resignations=resignations,
        asking=tuple(sorted(set(asking))),
        timing=timing,
        merging=merging,
        order=bool(order),
        outside=order == OUTSIDE,
        returning=returning,
        every=every,
        search=search,
        limit=limit,
    )
    return CheckResult(perform(description, entry=entry))


def scenario(name: str) -> ScenarioResult:
    """Run a scenario by name and compare its outcome with the known one.

    name: a name that `habemus scenario` lists.

    >>> scenario("central-holder-slow").violated
    ['ME1']
    """
    check_types(scenario, locals())
    return ScenarioResult(scenarios.find(name).run())


def prove(
    algorithm: str | type[Process],
    *,
    options: Mapping[str, Any] | None = None,
    limit: float = 20,
) -> ProofResult:
    """Prove a property for every number of processes, as `habemus prove` does.

    It needs the solver z3 (extra `prove`), and an `Invariant` in the file of the algorithm.

    algorithm: a name of the catalog, a class, or `path/to/mine.py:MyMutex`.
    options: options of the algorithm.
    limit: the time for each question to the solver, in seconds.
    """
    from habemus.proofs.proving import prove as prove_one

    entry = find(algorithm) if isinstance(algorithm, str) else entry_by_place(algorithm)
    return ProofResult(prove_one(entry, options, limit))


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace from a .json file, which `Trace.save`, `habemus run --diagram` or `habemus trace
    merge` has written.
    """
    check_types(load_trace, locals())
    return read(path, trusted=True)  # to draw or to save a trace imports nothing


def entry_for(algorithm: str | type[Process]) -> Entry:
    """Return the algorithm of a name or a class."""
    check_types(entry_for, locals())
    return find(algorithm) if isinstance(algorithm, str) else entry_by_place(algorithm)


def _listed(given: Iterable[Element]) -> Iterable[Element]:
    """Return the elements of a generator, so that they can be looked at before they are used."""
    return tuple(given) if isinstance(given, Iterator) else given
