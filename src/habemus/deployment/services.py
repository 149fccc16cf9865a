"""Live services from the catalog: created from names and options, judged and replayed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from habemus.algorithms.election.shared_election import (
    LeaderChanged,
    MembersChanged,
    SharedElection,
    SharedElectionOfMembers,
)
from habemus.algorithms.election.terms import Terms
from habemus.algorithms.election.terms_members import Configuration, TermsMembers
from habemus.algorithms.links.perfect import PerfectLinks
from habemus.algorithms.mutex.elected_coordinator import (
    ElectedCoordinator,
    ElectedCoordinatorLeased,
)
from habemus.algorithms.mutex.elected_coordinator_members import (
    ElectedCoordinatorLeasedMembers,
    ElectedCoordinatorMembers,
)
from habemus.catalog.entries import Entry, find
from habemus.core.assumptions import Assumptions, Crashes, Links
from habemus.core.process import Process, ProcessId
from habemus.core.system import System, complete
from habemus.core.values import Indication, Timer
from habemus.problems.election import Election, Leader, Members
from habemus.runs import notation
from habemus.runs.setup import BadSetup, Setup
from habemus.runs.simulate import Report, system_of
from habemus.runtimes.replay import Replay
from habemus.runtimes.sim.network import Network
from habemus.runtimes.sim.simulation import Ending
from habemus.traces import Trace, digest

if TYPE_CHECKING:
    from habemus.runtimes.live.config import Config
    from habemus.runtimes.live.hosting.service import Feed, Service

RAW = "none"
"""The word of a user for no links that retransmit."""
LINKS: dict[str, Process] = {
    "perfect": PerfectLinks(every=(50_000, 100_000)),
    "perfect-fifo": PerfectLinks(every=(50_000, 100_000), fifo=True),
}
"""Links for the processes of a service.  They retransmit more slowly than in a simulation, because
an fsync comes between a message and its acknowledgement.
"""

LEASE = ("lease=10s",)
LENDING = ("patience=500ms", "ahead=1000")
LIVE_OPTIONS: dict[str, tuple[str, ...]] = {
    "adaptive": ("tick=20ms",),
    "bully": ("timeout=200ms", "patience=500ms"),
    "bully-stable": ("timeout=200ms", "patience=500ms"),
    "central-timeout": ("timeout=2s",),
    "elected-coordinator": LENDING,
    "elected-coordinator-bully": (*LEASE, *LENDING),
    "elected-coordinator-leased": (*LEASE, *LENDING),
    "elected-coordinator-leased-members": (*LEASE, *LENDING),
    "elected-coordinator-members": LENDING,
    "elected-coordinator-plain": LENDING,
    "elected-coordinator-unrecorded": (*LEASE, *LENDING),
    "eventually-perfect": ("period=200ms", "step=100ms"),
    "heartbeat": ("period=100ms", "timeout=400ms", "step=100ms"),
    "omega-recovery": ("period=100ms", "step=100ms"),
    "phi-accrual": ("tick=20ms",),
    "probabilistic": ("patience=500ms",),
    "quorum-retry": ("patience=200ms..600ms",),
    "ra-reliable": ("every=50ms..100ms",),
    "swim": ("period=400ms", "timeout=100ms"),
    "terms": ("patience=200ms..400ms", "period=50ms"),
    "terms-members": ("patience=200ms..400ms", "period=50ms"),
    "token-ring-repair": ("patience=1s", "silence=4s"),
}
"""Defaults for real networks, disks and schedulers; those of the classes are for simulations."""
ELECTION_OPTIONS: dict[str, str] = {
    "terms": '{"patience": [200000, 400000], "period": 50000}',
    "bully": '{"timeout": 200000, "patience": 500000}',
    "bully-stable": '{"timeout": 200000, "patience": 500000}',
    "omega-recovery": '{"period": 100000, "step": 100000}',
    "terms-members": '{"patience": [200000, 400000], "period": 50000}',
}
"""The same for the election below an algorithm."""

CONTINUES = {
    Terms.__name__: TermsMembers.__name__,
    ElectedCoordinator.__name__: ElectedCoordinatorMembers.__name__,
    ElectedCoordinatorLeased.__name__: ElectedCoordinatorLeasedMembers.__name__,
}
"""Processes with fixed members, and those that go on with their stable memory."""

GROWING = {
    ElectedCoordinator.name: ElectedCoordinatorMembers.name,
    ElectedCoordinatorLeased.name: ElectedCoordinatorLeasedMembers.name,
}
"""Algorithms with fixed members, and those whose members change and that take their place."""

NEWS = "1..100ms"
"""Message delay within which two processes may both believe that they lead."""


def live_options(algorithm: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return the given options, and for the rest the live defaults of the algorithm."""
    chosen = {
        option.partition("=")[0]: option for option in (*LIVE_OPTIONS.get(algorithm, ()), *given)
    }
    variables = find(algorithm).algorithm.__variables__
    if algorithm in LIVE_OPTIONS and "elected_by" in variables and "election_options" not in chosen:
        elected_by = chosen.get("elected_by", f"={variables['elected_by'].default}").partition("=")[
            2
        ]
        if elected_by in ELECTION_OPTIONS:
            chosen["election_options"] = f"election_options={ELECTION_OPTIONS[elected_by]}"
    return tuple(chosen.values())


def services_of(
    name: str,
    algorithm: str,
    options: Iterable[str],
    over: str,
    nodes: Iterable[int],
    shared: bool | None = None,
    *,
    may_grow: bool = True,
    joins: bool = False,
) -> list[Service]:
    """Return a service for a cluster with these nodes, preceded by its shared election, if any.

    Locks with an elected coordinator share one election by default: otherwise each lock would run
    its own for ever.

    may_grow: members may change, if the election is one whose members do.
    joins: the services are for a node that does not know the members yet.
    """
    # needs msgspec, which judging a trace does not
    from habemus.runtimes.live.hosting.service import Service

    everybody = sorted(nodes)
    setup = Setup(algorithm, len(everybody), options=tuple(options), over=over)
    election_system = _election_of(setup)
    if may_grow and shared is not False and not over and _has_members(election_system):
        assert election_system is not None
        return _growing(name, setup, election_system, () if joins else tuple(everybody))
    if joins:
        raise BadSetup(
            f"--join: service {name} ({algorithm}) has fixed members; a node can only join where"
            " they change"
        )
    if everybody != list(range(1, len(everybody) + 1)):
        raise BadSetup(
            f"nodes {', '.join(map(str, everybody))}: number the nodes of a cluster from 1 without"
            " gaps"
        )
    if shared and election_system is None:
        raise BadSetup(
            f"shared = true: {algorithm} has no election that its instances can share; remove it"
        )
    if election_system is None or shared is False:
        return [Service(name, live_system(setup), everybody, {"live": True, **setup.plain()})]
    election = Service(
        f"{name}-election", election_system, everybody, {"live": True, "election_of": setup.plain()}
    )
    feed = _feed_of(election)
    return [
        election,
        Service(
            name,
            live_system(setup, shared=True),
            everybody,
            {"live": True, "shared": True, **setup.plain()},
            feed,
            growing=GROWING.get(algorithm, ""),
        ),
    ]


def _feed_of(election: Service) -> Feed:
    from habemus.runtimes.live.hosting.service import Feed

    kinds = (MembersChanged, LeaderChanged)  # members first: a new leader counts by them
    return Feed(election.name, SHARED, ".election", _news_of, kinds)


def _has_members(election_system: System | None) -> bool:
    """Return whether the members of an election change."""
    return election_system is not None and isinstance(election_system.plans[1], TermsMembers)


def _growing(
    name: str, setup: Setup, election_system: System, members: tuple[ProcessId, ...]
) -> list[Service]:
    """Return a service whose members change, preceded by its election.

    The systems have all processes that the cluster may ever have; these are the first members.
    """
    from habemus.runtimes.live.cluster_file import MOST_NODES
    from habemus.runtimes.live.hosting.service import Service

    everybody = range(1, MOST_NODES + 1)
    of_election, of_lock = (
        election_system.plans[1].replace(configuration=Configuration(0, 0, members)),
        live_system(setup, shared=True).plans[1].replace(members=members),
    )
    election_system, system = (
        System(dict.fromkeys(everybody, plan), complete(everybody), tuple(everybody))
        for plan in (of_election, of_lock)
    )
    run = {"live": True, "election_of": setup.plain()}
    made = partial(Service, nodes=everybody, grows=True, continues=CONTINUES)
    election = made(f"{name}-election", election_system, run=run)
    run = {"live": True, "shared": True, **setup.plain()}
    return [election, made(name, system, run=run, feed=_feed_of(election))]


def all_services(config: Config, *, joins: bool = False) -> list[Service]:
    """Return the services that a configuration names.

    joins: for a node that is new in the cluster.
    """
    found: list[Service] = []
    for name, (algorithm, options, over, shared) in sorted(config.services.items()):
        found += services_of(
            name,
            algorithm,
            live_options(algorithm, options),
            over,
            config.nodes,
            shared,
            may_grow=config.record is None,
            joins=joins,
        )
    return found


SHARED = "all"
"""Name of a shared instance."""


def _news_of(indication: Indication) -> Timer | None:
    if isinstance(indication, Leader):
        return LeaderChanged(indication.process, indication.term)
    if isinstance(indication, Members) and indication.members:
        return MembersChanged(indication.term, indication.version, indication.members)
    return None


def _election_of(setup: Setup) -> System | None:
    """Return the election component of the processes as a system of its own, if instances can share
    it: if it needs no calls.
    """
    own = system_of(replace(setup, over=""), find(setup.algorithm))
    plans: dict[ProcessId, Process] = {}
    for process, plan in own.plans.items():
        election = getattr(plan, "election", None)
        if not isinstance(election, Election) or election.callers != "none":
            return None
        plans[process] = election
    return replace(own, plans=plans)


def live_system(setup: Setup, *, shared: bool = False) -> System:
    system = system_of(replace(setup, over=""), find(setup.algorithm))
    if not setup.over and not shared:
        return system
    if setup.over and setup.over not in LINKS:
        raise BadSetup(f"no links {setup.over!r}; valid links are {', '.join(LINKS)}")
    changed: dict[int, Process] = {}  # keeps processes with one plan together
    for plan in system.plans.values():
        if id(plan) not in changed:
            other = plan.replace(election=_shared(plan)) if shared else plan
            changed[id(plan)] = (
                other.over(LINKS[setup.over]) if setup.over and plan.links is None else other
            )
    plans: dict[ProcessId, Process] = {
        process: changed[id(plan)] for process, plan in system.plans.items()
    }
    return replace(system, plans=plans)


def _shared(plan: Process) -> Election:
    """Return what takes the place of the election in a process."""
    has_members = isinstance(getattr(plan, "election", None), TermsMembers)
    return SharedElectionOfMembers() if has_members else SharedElection()


def links_for(assumes: Assumptions, over: str | None = None) -> str:
    """Return the links that a user chose, RAW for none, or the default: connections break, so they
    are repaired where reliable links are assumed.
    """
    if over is not None:
        return "" if over == RAW else over
    if assumes.links is not Links.RELIABLE:
        return ""
    return "perfect-fifo" if assumes.fifo else "perfect"


def warnings_of(algorithm: str, over: str, is_durable: bool, has_folder: bool) -> list[str]:
    """Return warnings about the choice of this algorithm for a live cluster."""
    entry = find(algorithm)
    box, assumes = entry.box, entry.assumes
    found = []
    if "Unsafe" in box.sections:
        found.append(f"{algorithm} is unsafe by design; see the scenario {box.sections['Unsafe']}")
    if assumes.links is Links.RELIABLE and not over:
        found.append(
            f"{algorithm} assumes reliable links, and a broken connection loses messages in"
            ' transit; write over = "perfect"'
        )
    if assumes.crashes in (Crashes.NONE, Crashes.IDLE, Crashes.OUTSIDE) and not is_durable:
        found.append(
            f"{algorithm} does not tolerate crashes: a restarted node has lost its state, and"
            f" {_doubled(entry)}; restart all nodes, or choose an algorithm with stable memory"
        )
    if is_durable and not has_folder:
        found.append(
            f'{algorithm} needs stable memory, and memory = "none": a restarted node has lost its'
            " state"
        )
    return found


def _doubled(entry: Entry) -> str:
    elects = issubclass(entry.algorithm, Election)
    return "two nodes may lead" if elects else "two clients may hold one lock"


def setup_of(trace: Trace) -> Setup:
    """Return the setup of a live trace.  A shared election is judged as an election."""
    run = {key: value for key, value in trace.run.items() if key not in ("live", "shared")}
    whose = run.pop("election_of", None)
    election = _election_of(Setup.from_plain(whose)) if isinstance(whose, dict) else None
    if election is not None:
        plan = next(iter(election.plans.values()))
        run = {"algorithm": getattr(type(plan), "name", ""), "n": len(election.plans), **run}
    return Setup.from_plain(run)


def system_of_trace(trace: Trace) -> System:
    whose = trace.run.get("election_of")
    election = _election_of(Setup.from_plain(whose)) if isinstance(whose, dict) else None
    if election is not None:
        return election
    return live_system(setup_of(trace), shared=trace.run.get("shared") is True)


def judged(trace: Trace) -> Report:
    """Return the report of the monitors on a live trace, which then contains their findings."""
    setup = setup_of(trace)
    entry = find(setup.algorithm)
    system = system_of_trace(trace)
    judge = entry.problem.judge(setup, system, Network(notation.delay(NEWS)))
    for event in trace.events:
        judge.observe(event)
    end = (
        notation.time(setup.until) if setup.until else trace.events[-1].time if trace.events else 0
    )
    sent = sum(event.kind == "send" for event in trace.events)
    ending = Ending("time", end, sum(event.kind == "receive" for event in trace.events), sent)
    findings = judge.findings(ending.reason, {})
    judged_trace = replace(trace, findings=tuple(findings))
    return Report(
        setup,
        entry,
        system,
        ending,
        findings,
        digest(trace.events),
        judge.costs(ending),
        judged_trace,
    )


def replayed(trace: Trace) -> int:
    """Replay a live trace with the pure processes.  Return the number of steps; raise `Divergence`
    where they act differently.
    """
    return sum(1 for _ in Replay(system_of_trace(trace)).states(trace.events))
