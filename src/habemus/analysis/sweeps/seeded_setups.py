"""The run of each seed of a sweep: the seed decides everything, within the declared assumptions.

It decides the number of participants and, where that matters, their arrangement and topology; the
moments of requests and the time inside; delays; crashes and cuts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from habemus.analysis.numbers.ranges import SizeRange
from habemus.catalog.election import ELECTION
from habemus.catalog.entries import Entry
from habemus.catalog.mutex import MUTEX
from habemus.core.assumptions import Crashes
from habemus.core.node import Stack
from habemus.core.process import MistakeInPlan, ProcessId
from habemus.core.replacement import is_replaceable
from habemus.runs import notation
from habemus.runs.arrangements import HOLDS, LOCKSTEP, arrangement
from habemus.runs.mutex import can_resign
from habemus.runs.options import options_for
from habemus.runs.setup import BadSetup, Setup
from habemus.runs.simulate import system_of

DELAYS = ("exp:1ms", "100..3000", LOCKSTEP)
LATE_DELAYS = ("heavy:100us",)
"""Half of the messages are fast, and one in a thousand takes a hundred times as long."""

EVENTS = 200_000
"""Limit on the events of a run; a run that is cut off shows less."""

REQUESTS = 3
MOMENTS_US = 25_000
"""Crashes come within this time, and recoveries within as much again: most runs of mutual exclusion
with short stays are as long.
"""
LONG_MOMENTS_US = 500_000
"""The same for processes that never come to rest, whose runs are longer."""
RETURNS = ("1s", "10s")
LATE_RETURNS = ("10s", "40s")
"""Moments at which a process that crashed at an event recovers, and those for long stays. Most of
the run has happened by the first moment, and all of it by the second.
"""

LONG_HOLDS = ("300ms", "900ms")
THINK = "0..4s"
PATIENCE = ("1ms..20ms", "5ms..200ms")
"""How long applications wait where some of them stop waiting."""
RESIGNATIONS = 3
WITHDRAWING, RESIGNING = (3, 9, 10), (9, 10, 11)
"""Seeds modulo 12 of the runs with withdrawals and with resignations, odd and even ones: all other
runs are without them.
"""
CUT_WITHIN_US = 2_000_000
CUT_US = (200_000, 4_000_000)
"""Runs with cuts: the times inside, the time between requests, when a cut comes and how long it
lasts.  They are long against elections, so that a process is or gets inside on one side while the
other side elects a leader; and the lock is free now and then, so that both sides may lend it.
"""


@dataclass(frozen=True)
class SeededSetups:
    """Setups to draw from, one for each seed."""

    sizes: SizeRange
    delay: str | None = None  # None: several
    crashes: bool = False  # and cuts
    options: tuple[str, ...] = ()  # each algorithm gets those that it has

    def sizes_for(self, entry: Entry) -> SizeRange:
        """Return the sizes that the algorithm supports. Raise `BadSetup` if there are none."""
        fewest = max(self.sizes.low, getattr(entry.algorithm, "fewest", 1))
        most = min(self.sizes.high, getattr(entry.algorithm, "largest", self.sizes.high))
        if fewest > most:
            raise BadSetup(
                f"{entry.name} runs with other numbers of participants than"
                f" {self.sizes.low}..{self.sizes.high}"
            )
        return SizeRange(fewest, most)

    def setup(self, entry: Entry, seed: int) -> Setup:
        """Return the setup of a seed. Odd seeds request all at once, even ones now and then; the
        sizes alternate.
        """
        rng = random.Random(
            f"{entry.name} {seed}"
        )  # of its own, so that a change of one algorithm does not change the others
        low, high = self.sizes_for(entry)
        assumes = entry.assumes
        setup = Setup(
            entry.name,
            low + seed // 2 % (high - low + 1),
            seed=seed,
            workload="burst" if seed % 2 else "steady",
            requests=REQUESTS,
            delay=self.delay
            or rng.choice(DELAYS + (LATE_DELAYS if assumes.tolerates_delays else ())),
            loss=rng.choice(("0", "0.1", "0.3")) if assumes.tolerates_loss else "0",
            duplicate=rng.choice(("0", "0.2")) if assumes.tolerates_copies else "0",
            events=EVENTS,
        )
        setup = replace(
            setup,
            hold=rng.choice(HOLDS) if entry.problem is MUTEX else setup.hold,
            options=(*arrangement(entry, rng), *options_for(entry, self.options)),
        )
        if entry.problem is ELECTION and seed % 4 == 3:
            setup = replace(setup, asks=_calls(system_of(setup, entry).clients, rng))
        setup = _with_faults(setup, entry, rng) if self.crashes else setup
        return _interrupted(setup, entry, seed)

    def check(self, entry: Entry) -> None:
        """Raise an exception if a run is impossible, before many are started."""
        low, high = self.sizes_for(entry)
        for size in {low, high}:
            try:
                system_of(replace(self.setup(entry, 0), n=size), entry)
            except MistakeInPlan as reason:
                raise BadSetup(f"{entry.name}, {size} participants: {reason}") from None


def _interrupted(setup: Setup, entry: Entry, seed: int) -> Setup:
    """Return a setup in which applications stop waiting and leaders resign, in some runs of
    algorithms that allow it.
    """
    rng = random.Random(f"{entry.name} {seed} interruptions")
    if seed % 12 in WITHDRAWING and getattr(entry.algorithm, "withdraws", False):
        setup = replace(setup, give_up=rng.choice(PATIENCE))
    if seed % 12 in RESIGNING and "resign" in entry.algorithm.__behaviour__.requests:
        system = system_of(setup, entry)
        if can_resign(system):
            moments = [
                rng.randrange(1, LONG_MOMENTS_US) for _ in range(rng.randint(1, RESIGNATIONS))
            ]
            resign = tuple(f"{each}@{moment}" for moment in moments for each in system.clients)
            setup = replace(setup, resign=resign)  # of these one leads
    return setup


def _calls(participants: Sequence[ProcessId], rng: random.Random) -> tuple[str, ...]:
    """Return calls of an election by some of them at almost the same moment."""
    callers = rng.sample(participants, rng.randint(1, len(participants)))
    return tuple(f"{each}@{rng.randrange(1, 3_000)}" for each in sorted(callers))


def _with_faults(setup: Setup, entry: Entry, rng: random.Random) -> Setup:
    """Return a setup with the crashes that the assumptions allow, with cuts, or with both."""
    if not entry.assumes.tolerates_cuts or setup.n == 1 or rng.random() < 0.5:
        setup = _with_crashes(setup, entry, rng)
        is_alone = len({text.partition("@")[0] for _, text in setup.faults}) == 1
        return _replaced(setup, entry, rng) if is_alone and setup.n > 1 else setup
    if entry.problem is MUTEX:
        setup = replace(
            setup,
            workload="steady",
            requests=rng.randint(1, 2),
            think=THINK,
            hold=rng.choice(LONG_HOLDS),
        )
    if rng.random() < 0.3:
        setup = _with_crashes(setup, entry, rng)
    # A process that is cut off may meet the event at which it crashes only after the cut.
    late = tuple(
        (kind, text.replace("@1s", "@5s")) for kind, text in setup.faults if text.endswith("@1s")
    )
    return replace(setup, faults=setup.faults + late + _cuts(setup, entry, rng))


def _replaced(setup: Setup, entry: Entry, rng: random.Random) -> Setup:
    """Return a setup in which the only process that crashes has lost its memory, now and then, and
    is replaced instead of recovered.
    """
    is_timed = not any("#" in text for kind, text in setup.faults if kind == "recover")
    plans = system_of(setup, entry).plans.values()
    if not (is_timed and entry.assumes.tolerates_restarts):
        return setup
    if not all(is_replaceable(Stack(plan)) for plan in set(plans)) or rng.random() < 0.7:
        return setup
    return replace(
        setup,
        faults=tuple(
            ("replace" if kind == "recover" else kind, text) for kind, text in setup.faults
        ),
    )


def _cuts(setup: Setup, entry: Entry, rng: random.Random) -> tuple[tuple[str, str], ...]:
    """Return a cut between two sides, which heals at once or link by link, and in some runs a
    restart of one side while they are apart.
    """
    everybody = list(system_of(setup, entry).plans)
    side = _minority(everybody, rng)
    others = [each for each in everybody if each not in side]
    moment = rng.randrange(1, CUT_WITHIN_US if entry.problem is MUTEX else LONG_MOMENTS_US)
    healed = moment + rng.randrange(*CUT_US)
    faults = [("cut", f"{links}@{moment}") for links in _between(side, others, rng)]
    if rng.random() < 0.5:
        reached = rng.sample(others, rng.randint(1, len(others)))
        again = moment + rng.randrange(1, healed - moment)
        faults.append(("heal", f"{_group(side)}|{_group(sorted(reached))}@{again}"))
    if entry.assumes.tolerates_restarts and rng.random() < 0.3:
        faults += _restart(rng.choice((side, others, others)), moment, rng)
    return (*faults, ("heal", f"all@{healed}"))


def _minority(everybody: list[ProcessId], rng: random.Random) -> list[ProcessId]:
    """Return less than half of them, if they are three or more.

    The first one is often among these: where one process calls the first election it is the
    lowest, which then leads.
    """
    some = rng.sample(everybody, rng.randint(1, max(1, (len(everybody) - 1) // 2)))
    if rng.random() < 0.5 and everybody[0] not in some:
        some[0] = everybody[0]
    return sorted(some)


def _between(side: list[ProcessId], others: list[ProcessId], rng: random.Random) -> list[str]:
    """Return the links to cut: both ways, or one way if a single process is on this side."""
    way = rng.choice(("both",) * 4 + ("from", "to"))
    if way == "both" or len(side) > 1:
        return [f"{_group(side)}|{_group(others)}"]
    alone = side[0]
    return [f"{alone}>{each}" if way == "from" else f"{each}>{alone}" for each in others]


def _group(processes: list[ProcessId]) -> str:
    return ",".join(map(str, processes))


def _restart(processes: list[ProcessId], moment: int, rng: random.Random) -> list[tuple[str, str]]:
    """Return crashes soon after the moment, and recoveries one after the other."""
    crash = moment + rng.randrange(1, 5_000)
    return [
        (kind, f"{each}@{when}")
        for each in processes
        for kind, when in (("crash", crash), ("recover", crash + rng.randrange(1, MOMENTS_US)))
    ]


def _with_crashes(setup: Setup, entry: Entry, rng: random.Random) -> Setup:
    crashes = entry.assumes.crashes
    system = system_of(setup, entry)
    everybody, participants = list(system.plans), list(system.clients)
    match crashes:
        case Crashes.NONE:
            return setup
        case Crashes.IDLE:
            victims = _some(participants, (len(participants) - 1) // 2, rng)
            return replace(
                setup,
                faults=tuple(
                    ("crash", f"{each}@release#{rng.randint(1, REQUESTS)}") for each in victims
                ),
            )
        case Crashes.OUTSIDE:
            moments = (f"release#{rng.randint(1, REQUESTS)}", f"acquire#{rng.randint(1, REQUESTS)}")
            victims = _some(participants, len(participants) - 1, rng)
            return replace(
                setup, faults=tuple(("crash", f"{each}@{rng.choice(moments)}") for each in victims)
            )
        case Crashes.BETWEEN_ELECTIONS:
            return _between_elections(setup, participants, rng)
        case Crashes.STOP:
            victims = _some(everybody, len(everybody) - 1, rng)
            return replace(
                setup,
                faults=tuple(
                    ("crash", f"{each}@{rng.randrange(1, LONG_MOMENTS_US)}") for each in victims
                ),
            )
    down = {
        Crashes.RECOVER: 0,
        Crashes.MINORITY: (len(everybody) - 1) // 2,
        Crashes.ANY: len(everybody) - 1,
    }[crashes]
    if getattr(entry.algorithm, "scope", "") == "term" and rng.random() < 0.6:  # there are votes
        return _amid_an_election(setup, participants, rng)
    if crashes is Crashes.RECOVER and rng.random() < 0.3:
        return replace(setup, faults=_at_once(everybody, _moments(setup, entry), rng))
    victims = _some(everybody, len(everybody), rng)[:3]
    faults: list[tuple[str, str]] = []
    for place, each in enumerate(victims):
        stays_down = down > 0 and rng.random() < 0.5
        down -= stays_down
        # One at most is struck at an event.  Of two, the second could come when the first is back,
        # and so never recover itself.
        at_event = place == 0 and rng.random() < (0.6 if entry.problem is MUTEX else 0.4)
        within = _moments(setup, entry)
        returns = RETURNS if within <= LONG_MOMENTS_US else LATE_RETURNS
        when = _event(each, participants, entry, rng) if at_event else ""
        if at_event and entry.problem is not MUTEX:
            returns = (
                f"{rng.choice(everybody)}.receive#{rng.randint(1, 9)}",
                *RETURNS[:1],
            )  # back in the middle of the same election
        faults += _crash(each, stays_down, when, returns, within, rng)
    return replace(setup, faults=tuple(faults))


def _moments(setup: Setup, entry: Entry) -> int:
    """Return the part of a run in which crashes may come: long stays make it longer."""
    return (
        max(MOMENTS_US, REQUESTS * notation.time(setup.hold))
        if entry.problem is MUTEX
        else LONG_MOMENTS_US
    )


def _some(processes: list[ProcessId], most: int, rng: random.Random) -> list[ProcessId]:
    """Return at least one of them, unless there are none."""
    return rng.sample(processes, rng.randint(1, most)) if most > 0 else []


def _at_once(
    everybody: list[ProcessId], within: int, rng: random.Random
) -> tuple[tuple[str, str], ...]:
    """Return a crash of all processes, or all but one, at one moment, and their recoveries one
    after the other.
    """
    moment = rng.randrange(1, within)
    victims = rng.sample(everybody, rng.choice((len(everybody), max(1, len(everybody) - 1))))
    crashes = [("crash", f"{each}@{moment}") for each in victims]
    return (
        *crashes,
        *(("recover", f"{each}@{moment + rng.randrange(1, MOMENTS_US)}") for each in victims),
    )


def _amid_an_election(setup: Setup, participants: list[ProcessId], rng: random.Random) -> Setup:
    """Return a setup in which all processes but one call an election at almost the same moment, and
    that one restarts again and again while their votes are under way.
    """
    process, moment = rng.choice(participants), 0
    faults: list[tuple[str, str]] = []
    for _ in range(rng.randint(5, 15)):
        crash = moment + rng.randrange(1, 1_000)
        moment = crash + rng.randrange(1, 100)
        faults += [("crash", f"{process}@{crash}"), ("recover", f"{process}@{moment}")]
    calls = tuple(f"{each}@{rng.randrange(1, 1_000)}" for each in participants if each != process)
    return replace(setup, asks=calls, faults=tuple(faults))


def _event(
    process: ProcessId, participants: list[ProcessId], entry: Entry, rng: random.Random
) -> str:
    """Return an event at which the process crashes: in the middle of a step, on entering or
    leaving, or when another process enters.
    """
    of_locks = (
        ("acquire", "Granted", "release", "another's", "another's")
        if entry.problem is MUTEX
        else ()
    )
    event = rng.choice(("send", "send", "receive", *of_locks))
    others = [each for each in participants if each != process]
    if event == "another's":
        return f"{rng.choice(others)}.Granted#{rng.randint(1, REQUESTS)}" if others else "send#1"
    return f"{event}#{rng.randint(1, 10 if event in ('send', 'receive') else REQUESTS)}"


def _crash(
    process: ProcessId,
    stays_down: bool,
    when: str,
    returns: tuple[str, ...],
    within: int,
    rng: random.Random,
) -> list[tuple[str, str]]:
    """Return a crash at an event with recoveries at the given moments, or a crash and recovery at
    times.
    """
    if not when:
        moment = rng.randrange(1, within)
        when, returns = str(moment), (str(moment + rng.randrange(1, within)),)
    return [
        ("crash", f"{process}@{when}"),
        *(("recover", f"{process}@{back}") for back in returns if not stays_down),
    ]


_AN_ELECTION_US = 2_000_000
"""Longer than any election takes, so that the next fault or call comes between two of them."""


def _between_elections(setup: Setup, participants: list[ProcessId], rng: random.Random) -> Setup:
    """Return a setup with calls by one process, each after a crash or recovery of another.

    The caller stays up: an application forgets its planned requests in a crash.
    """
    caller = rng.choice(participants)
    up, down = [each for each in participants if each != caller], list[ProcessId]()
    asks, faults = [f"{caller}@1ms"], list[tuple[str, str]]()
    for turn in range(1, 1 + REQUESTS):
        moment = turn * _AN_ELECTION_US
        returns = bool(down) and (not up or rng.random() < 0.5)
        origin, target = (down, up) if returns else (up, down)
        if origin:
            process = origin.pop(rng.randrange(len(origin)))
            target.append(process)
            faults.append(("recover" if returns else "crash", f"{process}@{moment}"))
            asks.append(f"{caller}@{moment + _AN_ELECTION_US // 2}")
    return replace(setup, workload="steady", asks=tuple(asks), faults=tuple(faults))
