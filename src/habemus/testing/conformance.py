"""The conformance suite: rules for every algorithm, whatever problem it solves.

It is public.  Check your own algorithm with it:

    from habemus.testing import check_mutex

    def test_my_mutex() -> None:
        check_mutex(MyMutex)

Each check raises AssertionError with a reason.  A check that met no case fails.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from habemus.catalog.entries import Entry, entry_by_place, find
from habemus.core.process import MistakeInPlan, Process
from habemus.core.properties import Verdict
from habemus.core.values import Value, from_plain, to_plain
from habemus.problems.detector import Detector
from habemus.problems.election import Election
from habemus.problems.mutex import Mutex
from habemus.runs.arrangements import HOLDS, LOCKSTEP, arrangement
from habemus.runs.mutex import can_resign
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute, faults_of, system_of
from habemus.runtimes.replay import Replay
from habemus.runtimes.sim.simulation import Record, Simulation

SIZES = (1, 2, 3, 5)
SEEDS = 24


def _setups(entry: Entry) -> list[Setup]:
    """Return runs of several sizes, with little and much contention, and with different delays."""
    base = Setup(entry.name, 3, events=20_000)
    sizes = [size for size in SIZES if size >= getattr(entry.algorithm, "fewest", 1)]
    return [
        *(replace(base, n=size) for size in sizes),
        *(
            replace(base, n=size, workload="burst", requests=2, delay="exp:1ms", seed=size)
            for size in sizes
        ),
    ]


def _run(entry: Entry, setup: Setup) -> Report:
    report = execute(setup, entry=entry)
    assert report.trace is not None
    return report


def check_determinism(entry: Entry) -> None:
    """Check that a setup has the same events each time, also after a reset, and that another seed
    has others.
    """
    digests = set()
    for seed in range(4):
        setup = Setup(entry.name, 3, seed=seed, delay="exp:1ms", events=20_000)
        first, second = _run(entry, setup), _run(entry, setup)
        assert first.digest == second.digest, f"{setup.command()} gives two digests"
        digests.add(first.digest)
    assert len(digests) > 1, "four seeds gave one run: nothing depends on the seed"
    setup = Setup(entry.name, 3, requests=2)
    system = system_of(setup, entry)
    fresh, again = (
        Simulation(system, workload=entry.problem.workload(setup, system), seed=seed)
        for seed in (7, 3)
    )
    again.run(events=5_000)
    again.reset(7)
    fresh.run(events=5_000)
    again.run(events=5_000)
    lines = [[event.line() for event in simulation.drained()] for simulation in (fresh, again)]
    assert lines[0] == lines[1], "a reset run differs from a fresh one"


def check_purity(entry: Entry) -> None:
    """Check that recorded events, replayed to the bare processes, have the recorded effects, and
    that a captured state can be restored.
    """
    steps = 0
    for setup in _setups(entry):
        report = _run(entry, setup)
        assert report.trace is not None
        replay = Replay(system_of(setup, entry))
        for event, state in replay.states(report.trace.events):
            node = replay.nodes[event.process]
            hash(state)
            node.restore(state)
            assert node.capture() == state, (
                f"{entry.name}: a state changes when it is captured and restored"
            )
            steps += 1
    assert steps > 20, f"only {steps} steps were taken"


def check_rules(entry: Entry) -> None:
    """Check that after every step no rule is left whose guard holds."""
    checked = 0
    for setup in _setups(entry):
        system = system_of(setup, entry)
        simulation = Simulation(
            system,
            workload=entry.problem.workload(setup, system),
            seed=setup.seed,
            record=Record.NOTHING,
        )
        for _ in range(400):
            if simulation.run(events=1).reason != "events":
                break
            for parts in simulation.processes.values():
                for process in parts:
                    for rule in type(process).__behaviour__.rules:
                        checked += 1
                        holds = rule.guard(process)
                        assert not holds, (
                            f"{type(process).__name__}.{rule.name} was not applied although its"
                            " guard holds"
                        )
    assert checked or not any(type(part).__behaviour__.rules for part in _parts(entry)), (
        "no rule was checked"
    )


def _parts(entry: Entry) -> list[Process]:
    simulation = Simulation(system_of(Setup(entry.name, 3), entry))
    return [part for parts in simulation.processes.values() for part in parts]


def check_values(entry: Entry) -> None:
    """Check that every message, timer and indication is hashable, equals only its like, and
    survives encoding and decoding.
    """
    seen: dict[type[Value], Value] = {}
    for setup in _setups(entry):
        trace = _run(entry, setup).trace
        assert trace is not None
        for event in trace.events:
            if isinstance(event.value, Value):
                seen.setdefault(type(event.value), event.value)
    assert seen, "no value was seen"
    known = {kind.__name__: kind for kind in seen}
    for part in _parts(entry):
        known |= type(part).__behaviour__.values
    for kind, value in seen.items():
        assert from_plain(to_plain(value), known) == value, (
            f"{value!r} changes when it is encoded and decoded"
        )
        assert hash(value) == hash(from_plain(to_plain(value), known))
        assert all(value != other for other_kind, other in seen.items() if other_kind is not kind)


def check_claims(entry: Entry) -> None:
    """Check that the claims of the card hold over many seeds.

    If liveness is claimed, every run must decide all properties; an algorithm that may deadlock
    must show its safety at least once.
    """
    claims = entry.box.ensures
    always_decides = entry.claims("ME2") or entry.claims("E2")
    held: set[str] = set()
    for seed in range(SEEDS):
        setup = Setup(
            entry.name,
            3 + seed % 3,
            seed=seed,
            options=arrangement(entry, random.Random(seed)),
            workload="burst" if seed % 2 else "steady",
            requests=3,
            hold=HOLDS[seed // 2 % len(HOLDS)],
            delay=("exp:1ms", LOCKSTEP)[seed // 8 % 2],
            events=200_000,
        )
        report = execute(setup, entry=entry, keep=False)
        assert not report.costs.get("uninvited_entries"), (
            f"{setup.command()}: a process entered without a request"
        )
        for finding in report.counted:
            if not entry.claims(finding.name):
                continue
            wrong = (
                finding.verdict is not Verdict.HOLDS
                if always_decides
                else finding.verdict is Verdict.VIOLATED
            )
            assert not wrong, (
                f"{setup.command()}: {finding.name} {finding.verdict.value}: {finding.why}"
            )
            if finding.verdict is Verdict.HOLDS:
                held |= {finding.name, finding.name.partition("-")[0]}
    assert "Ensures" in entry.box.sections, (
        f"the card of {entry.algorithm.__name__} claims nothing, so no property would be checked;"
        " write its claims in a paragraph of the docstring of the file or the class, as in"
        f" 'Ensures  {_EXAMPLES[entry.problem.name]}.'"
    )
    unseen = [claim for claim in claims if claim in _JUDGED and claim not in held]
    assert not unseen, f"{', '.join(unseen)}: claimed, but no run shows that it holds"


_EXAMPLES = {"mutex": "ME1, ME2", "election": "E1, E2", "detector": "completeness, accuracy"}
_JUDGED = ("ME1", "ME2", "ME3", "FENCE", "TOKEN", "E1", "E2", "E3")


def check_cost(entry: Entry) -> None:
    """Check that measured costs equal the formula exactly, where there is one."""
    if issubclass(entry.algorithm, Election):
        _check_cost_of_election(entry)
    if not issubclass(entry.algorithm, Mutex):
        return
    for size in (2, 3, 5, 10):
        alone = Setup(entry.name, size, workload="in-turn")
        # One enters and stays while all others request, so that each hand-over is one from a holder
        # to a known waiter.
        crowded = Setup(entry.name, size, workload="burst", hold="6ms")
        runs = [(alone, {"messages": "messages_per_entry", "client_delay": "client_delay"})]
        if entry.claims("ME2"):  # one that may deadlock has no hand-over to measure
            runs.append((crowded, {"sync_delay": "sync_delay"}))
        for setup, costs in runs:
            report = execute(setup, entry=entry, keep=False)
            assert report.costs["entries"] >= size, (
                f"{setup.command()}: {report.costs['entries']} entries"
            )
            for name, cost in costs.items():
                expected, measured = report.costs["formula"][name], report.costs[cost]
                assert expected is None or measured == expected, (
                    f"{setup.command()}: {cost} is {measured}, by the formula {expected}"
                )


def _check_cost_of_election(entry: Entry) -> None:
    """Check the costs if only the first participant calls, for several arrangements."""
    for size in (2, 3, 5, 10):
        for seed in range(4):
            setup = Setup(
                entry.name,
                size,
                seed=seed,
                options=arrangement(entry, random.Random(seed)),
                workload="in-turn",
            )
            report = execute(setup, entry=entry, keep=False)
            for name, expected in report.costs["formula"].items():
                measured = report.costs[name]
                assert expected is None or measured == expected, (
                    f"{setup.command()}: {name} is {measured}, by the formula {expected}"
                )


def check_crashes(entry: Entry) -> None:
    """Check that a crash of any process at any moment, with or without recovery, breaks no handler
    and no claimed safety.
    """
    crashes = 0
    processes = list(system_of(Setup(entry.name, 3), entry).plans)
    remembers = entry.assumes.stable_memory
    for seed in range(SEEDS):
        victim = processes[seed % len(processes)]
        # long stays, so that a crash and a take-over meet a process inside
        scale = 40 if seed % 4 > 1 else 1
        moment = (500 + 613 * seed % 9_000) * scale
        faults: tuple[tuple[str, str], ...] = (("crash", f"{victim}@{moment}us"),)
        if seed % 2:
            faults += (("recover", f"{victim}@{moment + (12 + seed % 5) * 1_000}us"),)
        events = 4_000 if scale == 1 else 6_000
        setup = Setup(
            entry.name,
            3,
            seed=seed,
            requests=2,
            hold=f"{scale * 5}ms",
            delay="exp:1ms",
            faults=faults,
            events=events,
        )
        assert faults_of(setup)
        report = execute(setup, entry=entry)
        assert report.trace is not None
        crashes += sum(event.kind == "crash" for event in report.trace.events)
        for finding in report.findings:
            if (
                finding.name in ("ME1", "FENCE", "TOKEN")
                and entry.claims(finding.name)
                and (remembers or not seed % 2)
            ):
                assert finding.verdict is not Verdict.VIOLATED, f"{setup.command()}: {finding.why}"
    assert crashes, "no process crashed"


def check_interruptions(entry: Entry) -> None:
    """Check that applications that stop waiting, where the algorithm can cancel a request, and
    leaders that resign, where the election can, break no handler and no claim.
    """
    system = system_of(Setup(entry.name, 3), entry)
    withdraws, resigns = getattr(entry.algorithm, "withdraws", False), can_resign(system)
    if not (withdraws or resigns):
        return
    withdrawn = resigned = 0
    for seed in range(SEEDS):
        size = 3 + seed % 3
        clients = system_of(Setup(entry.name, size), entry).clients
        moments = (5_000 + 1_913 * seed % 40_000, 150_000 + 37_000 * seed % 400_000)
        setup = Setup(
            entry.name,
            size,
            seed=seed,
            workload="burst" if seed % 2 else "steady",
            requests=3,
            hold=HOLDS[seed // 2 % len(HOLDS)],
            delay=("exp:1ms", LOCKSTEP)[seed // 8 % 2],
            give_up="1ms..20ms" if withdraws else "",
            resign=tuple(f"{each}@{moment}" for moment in moments for each in clients)
            if resigns
            else (),
            events=200_000,
        )
        report = execute(setup, entry=entry)
        assert not report.costs.get("uninvited_entries"), (
            f"{setup.command()}: a process entered for an application that had stopped waiting"
        )
        for finding in report.counted:
            assert not (entry.claims(finding.name) and finding.verdict is Verdict.VIOLATED), (
                f"{setup.command()}: {finding.name} {finding.verdict.value}: {finding.why}"
            )
        assert report.trace is not None
        names = [event.name for event in report.trace.events]
        withdrawn += names.count("acquire") - names.count("Granted")
        resigned += sum(
            event.name == "resign" and then.process == event.process and then.kind == "send"
            for event, then in pairwise(report.trace.events)
        )
    assert withdrawn > 0 or not withdraws, "no application stopped waiting"
    assert resigned > 0 or not resigns, "no leader resigned"


CHECKS: dict[str, Callable[[Entry], None]] = {
    "determinism": check_determinism,
    "purity": check_purity,
    "rules": check_rules,
    "values": check_values,
    "claims": check_claims,
    "cost": check_cost,
    "crashes": check_crashes,
    "interruptions": check_interruptions,
}
"""The checks of the suite by name, for `pytest.mark.parametrize`; each takes `entry_of(...)`."""


def entry_of(algorithm: str | type[Process]) -> Entry:
    """Return the argument of checks: the entry of a class, a name, or `path/to/mine.py:MyMutex`."""
    return find(algorithm) if isinstance(algorithm, str) else entry_by_place(algorithm)


def check_mutex(algorithm: type[Mutex]) -> None:
    """Run the whole suite on an algorithm for mutual exclusion; AssertionError names the check and
    the reason.
    """
    _check_all(algorithm, Mutex)


def check_election(algorithm: type[Election]) -> None:
    """Run the whole suite on an election; AssertionError names the check and the reason."""
    _check_all(algorithm, Election)


def check_detector(algorithm: type[Detector]) -> None:
    """Run the whole suite on a failure detector; AssertionError names the check and the reason."""
    _check_all(algorithm, Detector)


def _check_all(algorithm: type[Process], base: type[Process]) -> None:
    entry = entry_of(algorithm)
    if not issubclass(entry.algorithm, base):
        raise MistakeInPlan(
            f"{entry.algorithm.__name__} does not derive from {base.__name__}: check it with"
            f" check_{entry.problem.name}"
        )
    for name, check in CHECKS.items():
        try:
            check(entry)
        except AssertionError as reason:
            raise AssertionError(f"{entry.name}, {name}: {reason}") from None


__all__ = [
    "CHECKS",
    "SEEDS",
    "SIZES",
    "check_detector",
    "check_election",
    "check_mutex",
    "entry_of",
]
