"""Every algorithm of the catalog between three real processes, judged by the monitors that judge
simulated runs, and replayed.

The nodes record what they do; the records are joined, the monitors give their verdict, and the pure
processes, fed with the joined trace, must do exactly what the live ones did.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.live.conftest import PATIENCE, until

from habemus.catalog.entries import Entry, entries
from habemus.core.properties import Verdict
from habemus.deployment.services import judged, replayed
from habemus.problems.detector import Detector
from habemus.problems.election import Election
from habemus.problems.mutex import Mutex
from habemus.traces import Trace
from habemus.traces.merge import merge, read_record

# A machine that runs tests is slow now and then, and nothing here is about being fast: whoever
# takes a late answer for none waits long.
PATIENT: dict[str, tuple[str, ...]] = {
    "central-timeout": ("timeout=20s",),
    "ra-timeout": ("timeout=20s",),
    "token-ring-repair": ("patience=2s", "silence=10s"),
    "elected-coordinator-leased": ("lease=20s",),
    "elected-coordinator-unrecorded": ("lease=1s",),
    "elected-coordinator-bully": ("lease=1s",),
    "bully": ("timeout=20s", "patience=50s"),
    "bully-stable": ("timeout=4s", "patience=20s"),  # waits so long before it begins
    "probabilistic": ("patience=3s",),
    "terms": ("patience=2s..4s", "period=100ms"),
    # After the first choice all intervals are equally long, and a heartbeat may just miss one of
    # them: so the next choice comes when the test is over, unless the first was wrong.
    "omega-recovery": ("period=3s", "step=15s"),
    "eventually-perfect": ("period=1500ms", "step=500ms"),
    "heartbeat": ("timeout=2500ms",),
    "swim": ("period=1500ms", "timeout=500ms"),
    "adaptive": ("margin=150",),
    "phi-accrual": ("least_deviation=25",),
}
OWN = {"omega": f"{Path(__file__).with_name('patient.py')}:PatientOmega"}
"""Algorithms whose components have to be patient, too."""
ROUNDS = 3
NAME = "x"

Start = Callable[..., Any]
Noted = dict[str, tuple[float, list[int | None]]]
"""By algorithm: how long ago the last indication of a node came, and the processes that all of them
named.
"""


def of(problem: type) -> dict[str, Entry]:
    return {
        name: entry for name, entry in entries().items() if issubclass(entry.algorithm, problem)
    }


def services(
    found: Mapping[str, Entry], over: str = ""
) -> dict[str, tuple[str, Sequence[str], str]]:
    return {name: (OWN.get(name, name), PATIENT.get(name, ()), over) for name in found}


def never_rests(name: str) -> bool:
    return name.startswith("token-ring")  # the token goes round for ever, as fast as it can


def judge(records: list[Path], found: Mapping[str, Entry]) -> dict[str, list[str]]:
    """Which claims of its card each algorithm broke, or did not show."""
    read = [read_record(path, trusted=True) for path in records]
    wrong = {
        name: broken_claims(merge(read, f"{name}/{NAME}"), entry) for name, entry in found.items()
    }
    return {name: reasons for name, reasons in wrong.items() if reasons}


def broken_claims(trace: Trace, entry: Entry, but: Sequence[str] = ()) -> list[str]:
    report = judged(trace)
    # Only where somebody was killed is there anything for completeness to be about; ME2 has two
    # parts.
    killed = any(event.kind == "crash" for event in trace.events)
    claims = [
        claim
        for claim in entry.box.ensures
        if claim not in but and (claim != "completeness" or killed)
    ]
    judged_by_name = {finding.name: finding for finding in report.findings}
    wanted = [
        name
        for claim in claims
        for name in (("ME2-deadlock", "ME2-starvation") if claim == "ME2" else (claim,))
    ]
    broken = [f"{name} was not judged" for name in wanted if name not in judged_by_name]
    broken += [
        f"{finding.name} {finding.verdict.value}: {finding.why}"
        for name, finding in judged_by_name.items()
        if name in wanted and finding.verdict is not Verdict.HOLDS
    ]
    if replayed(trace) < 3:
        broken.append("hardly anything happened")
    return broken


def visit(cluster: Any, found: Mapping[str, Entry]) -> None:
    for name in sorted(found, key=never_rests):
        # Those that are here to be broken are asked by one at a time; they are broken in the
        # scenarios.
        at_once = [[1, 2, 3]] if found[name].unsafe is None else [[1], [2], [3]]
        for numbers in at_once:
            for number in numbers:
                cluster.nodes[number].tell("visit", on=[name, NAME], rounds=ROUNDS)
            for number in numbers:
                assert cluster.nodes[number].hear("done") == [name, NAME]


def test_every_mutex(processes: Start) -> None:
    found = of(Mutex)
    cluster = processes(services(found))
    visit(cluster, found)
    records = cluster.stop()
    assert judge(records, found) == {}
    # The coordinators of all locks of a service are elected together, in an instance of its own.
    read = [read_record(path, trusted=True) for path in records]
    trace = merge(read, "elected-coordinator-election/all")
    assert broken_claims(trace, entries()["terms"], but=("E2", "E3", "E4")) == []


def test_mutexes_over_perfect_links(processes: Start) -> None:
    """Their files know nothing of the links; what those keep goes through stable memory."""
    found = {
        name: of(Mutex)[name]
        for name in ("central", "ricart-agrawala", "lamport", "maekawa-sanders", "suzuki-kasami")
    }
    cluster = processes(services(found, "perfect-fifo"))
    visit(cluster, found)
    assert judge(cluster.stop(), found) == {}


def test_every_election(processes: Start) -> None:
    assert_in_two_attempts(of(Election), lambda found: elections(processes, found))


def elections(processes: Start, found: Mapping[str, Entry]) -> list[Path]:
    began = time.monotonic()
    cluster = processes(services(found))
    callers: dict[str, list[int]] = {"one": [1], "all": [1, 2, 3], "none": []}
    for name, entry in found.items():
        for node in cluster.nodes.values():
            node.tell("note", on=[name, NAME])
        for node in cluster.nodes.values():
            node.hear("done")
        assert issubclass(entry.algorithm, Election)
        for number in callers[entry.algorithm.callers]:
            cluster.nodes[number].tell("ask", on=[name, NAME], request="elect")
    agreeing = [name for name, entry in found.items() if "E3" in entry.box.ensures]
    settle(cluster, began, lambda noted: all(is_agreed(name, noted) for name in agreeing))
    return list(cluster.stop())


def is_agreed(name: str, noted: Sequence[Noted]) -> bool:
    """Whether all nodes name one leader; `omega` names its first one before it can be heard."""
    leaders = {each[name][1][-1] for each in noted if name in each}
    return name == "omega" or (
        all(name in each for each in noted) and len(leaders) == 1 and leaders != {None}
    )


def test_every_detector(processes: Start) -> None:
    """First all are there and nobody is suspected for long; then one is killed, and the others find
    out.
    """
    assert_in_two_attempts(of(Detector), lambda found: detections(processes, found))


def detections(processes: Start, found: Mapping[str, Entry]) -> list[Path]:
    began = time.monotonic()
    cluster = processes(services(found))
    for number in (1, 2, 3):
        for name in found:
            cluster.nodes[number].tell("note", on=[name, NAME])
            cluster.nodes[number].hear("done")
    time.sleep(1)  # of silence, which nobody takes for a failure
    cluster.kill(3)
    settle(cluster, began, lambda noted: all(is_suspected(name, noted) for name in found))
    return list(cluster.stop())


def is_suspected(name: str, noted: Sequence[Noted]) -> bool:
    """Whether all nodes have found out about the one that was killed."""
    return all(name in each and 3 in each[name][1] for each in noted)


def assert_in_two_attempts(
    found: Mapping[str, Entry], run: Callable[[Mapping[str, Entry]], list[Path]]
) -> None:
    """A machine that stands still for long enough makes any detector wrong; those that were get a
    second chance, and no third.
    """
    wrong = judge(run(found), found)
    again = {name: found[name] for name in wrong}
    if again:
        wrong = judge(run(again), again)
    assert wrong == {}


def settle(cluster: Any, began: float, is_right: Callable[[Sequence[Noted]], bool]) -> None:
    """Wait until what is so in the end has been so for a third of the run: the judge asks for a
    quarter.
    """

    def is_settled() -> bool:
        for node in cluster.nodes.values():
            node.tell("noted")
        noted: list[Noted] = [node.hear("noted") for node in cluster.nodes.values()]
        latest = min((each[name][0] for each in noted for name in each), default=0.0)
        return latest > (time.monotonic() - began) / 3 and is_right(noted)

    until(is_settled, 2 * PATIENCE)


def test_the_judge_is_not_easily_satisfied(processes: Start) -> None:
    """Two of three votes are taken without asking anybody: live, too, two are inside at once, and
    the monitor says so.
    """
    found = {"ra-majority-naive": of(Mutex)["ra-majority-naive"]}
    cluster = processes(services(found))
    [name] = found
    for number in (1, 2, 3):
        cluster.nodes[number].tell("visit", on=[name, NAME], rounds=60)
    for number in (1, 2, 3):
        cluster.nodes[number].hear("done")
    records = [read_record(path, trusted=True) for path in cluster.stop()]
    report = judged(merge(records))
    assert "ME1" in report.violated
    assert isinstance(report.trace, Trace)
    assert replayed(report.trace)
