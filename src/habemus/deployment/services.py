"""Live services from the catalog: made from a name and options, judged and replayed from their
traces.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from habemus.algorithms.election.shared_election import LeaderChanged, SharedElection
from habemus.algorithms.links.perfect import PerfectLinks
from habemus.catalog.entries import find
from habemus.core.assumptions import Crashes, Links
from habemus.core.process import Process, ProcessId
from habemus.core.system import System
from habemus.core.values import Indication, Timer
from habemus.problems.election import Election, Leader
from habemus.runs import notation
from habemus.runs.setup import BadSetup, Setup
from habemus.runs.simulate import Report, system_of
from habemus.runtimes.replay import Replay
from habemus.runtimes.sim.network import Network
from habemus.runtimes.sim.simulation import Ending
from habemus.traces import Trace, digest

if TYPE_CHECKING:
    from habemus.runtimes.live.config import Config
    from habemus.runtimes.live.hosting.service import Service

LINKS: dict[str, Process] = {
    "perfect": PerfectLinks(every=(50_000, 100_000)),
    "perfect-fifo": PerfectLinks(every=(50_000, 100_000), fifo=True),
}
"""What can be put under the processes of a service: slower to repeat itself than in a simulation,
because here a sync of the disk stands between a message and its acknowledgement."""

LEASE = ("lease=2s",)
LENDING = ("patience=500ms", "ahead=1000")
LIVE_OPTIONS: dict[str, tuple[str, ...]] = {
    "adaptive": ("tick=20ms",),
    "bully": ("timeout=200ms", "patience=500ms"),
    "bully-stable": ("timeout=200ms", "patience=500ms"),
    "central-timeout": ("timeout=2s",),
    "elected-coordinator": LENDING,
    "elected-coordinator-bully": (*LEASE, *LENDING),
    "elected-coordinator-leased": (*LEASE, *LENDING),
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
    "token-ring-repair": ("patience=1s", "silence=4s"),
}
"""Times for real networks, disks and schedulers, where the defaults of an algorithm are times of
simulations.
"""
ELECTION_OPTIONS: dict[str, str] = {
    "terms": '{"patience": [200000, 400000], "period": 50000}',
    "bully": '{"timeout": 200000, "patience": 500000}',
    "bully-stable": '{"timeout": 200000, "patience": 500000}',
    "omega-recovery": '{"period": 100000, "step": 100000}',
}
"""The same for the election below an algorithm."""

NEWS = "1..100ms"
"""How long a message may take before two that both claim to lead count as two leaders."""


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
) -> list[Service]:
    """A service for a cluster with these nodes, which are numbered from 1, and before it the one
    that it shares, if it does.

    Locks whose coordinator is elected share one election unless told otherwise: else each would
    hold its own, for ever.
    """
    # needs a package that judging a trace can do without
    from habemus.runtimes.live.hosting.service import (
        Feed,
        Service,
    )

    everybody = sorted(nodes)
    if everybody != list(range(1, len(everybody) + 1)):
        raise BadSetup(
            "the nodes of a cluster are numbered from 1 on, without gaps, not"
            f" {', '.join(map(str, everybody))}"
        )
    setup = Setup(algorithm, len(everybody), options=tuple(options), over=over)
    election_system = _election_of(setup)
    if shared and election_system is None:
        raise BadSetup(f"{algorithm} has no election that its instances could share")
    if election_system is None or shared is False:
        return [Service(name, live_system(setup), everybody, {"live": True, **setup.plain()})]
    election = Service(
        f"{name}-election", election_system, everybody, {"live": True, "election_of": setup.plain()}
    )
    feed = Feed(election.name, SHARED, ".election", _told)
    return [
        election,
        Service(
            name,
            live_system(setup, shared=True),
            everybody,
            {"live": True, "shared": True, **setup.plain()},
            feed,
        ),
    ]


def all_services(config: Config) -> list[Service]:
    """What a cluster offers by its file."""
    found: list[Service] = []
    for name, (algorithm, options, over, shared) in sorted(config.offers.items()):
        found += services_of(
            name, algorithm, live_options(algorithm, options), over, config.nodes, shared
        )
    return found


SHARED = "all"
"""The name of an instance that others share."""


def _told(indication: Indication) -> Timer | None:
    return (
        LeaderChanged(indication.process, indication.term)
        if isinstance(indication, Leader)
        else None
    )


def _election_of(setup: Setup) -> System | None:
    """The election that every process of the setup has below it, as a system of its own, if its
    instances can share that.

    They can if nobody has to call it: those who are only told cannot.
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
        raise BadSetup(f"there are no links {setup.over}; there are {', '.join(LINKS)}")
    changed: dict[int, Process] = {}  # one plan stays one plan
    for plan in system.plans.values():
        if id(plan) not in changed:
            other = plan.replace(election=SharedElection()) if shared else plan
            changed[id(plan)] = (
                other.over(LINKS[setup.over]) if setup.over and plan.links is None else other
            )
    plans: dict[ProcessId, Process] = {
        process: changed[id(plan)] for process, plan in system.plans.items()
    }
    return replace(system, plans=plans)


def warnings_of(algorithm: str, over: str, is_durable: bool, has_folder: bool) -> list[str]:
    """What somebody who chose this ought to know."""
    entry = find(algorithm)
    box, assumes = entry.box, entry.assumes
    found = []
    if "Unsafe" in box.sections:
        found.append(f"{algorithm} is here to be broken; see the scenario {box.sections['Unsafe']}")
    if assumes.links is Links.RELIABLE and not over:
        found.append(
            f"{algorithm} assumes reliable links, and a connection that breaks loses what is under"
            ' way; over = "perfect" mends it'
        )
    if assumes.crashes in (Crashes.NONE, Crashes.IDLE, Crashes.OUTSIDE) and not is_durable:
        found.append(
            f"{algorithm} does not stand a crash: a node that comes back has forgotten everything,"
            " and two may be inside; start all nodes anew, or choose one with stable memory"
        )
    if is_durable and not has_folder:
        found.append(
            f'{algorithm} keeps something in stable memory, and there is none (memory = "none"): a'
            " node that restarts has forgotten it"
        )
    return found


def setup_of(trace: Trace) -> Setup:
    """What was run.  The trace of a shared election says whose it is, and is judged as what it is."""
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
    """What the monitors say of a live trace; the trace of the report has their findings."""
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
    told = replace(trace, findings=tuple(findings))
    return Report(
        setup, entry, system, ending, findings, digest(trace.events), judge.costs(ending), told
    )


def replayed(trace: Trace) -> int:
    """Feeds a live trace to the pure processes: the number of steps, or `Divergence` where they do
    something else.
    """
    return sum(1 for _ in Replay(system_of_trace(trace)).states(trace.events))
