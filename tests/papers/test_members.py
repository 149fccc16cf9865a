"""Claims about members that change (MongoRaftReconfig, CPP 2022; Ongaro's thesis, 4.1)."""

import random

import pytest

from habemus.core import MistakeInPlan
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute
from habemus.scenarios import find
from habemus.traces import Trace


def troubled(seed: int, algorithm: str) -> Setup:
    """Members that come and go, with crashes, recoveries, cuts, loss and copies; healed at last."""
    draw = random.Random(seed)
    size = draw.choice((3, 4, 5))
    faults: list[tuple[str, str]] = []
    for _ in range(draw.randrange(1, 5)):
        who, moment = draw.randrange(1, size + 1), draw.randrange(0, 900)
        later = moment + draw.randrange(30, 300)
        if draw.randrange(2):
            faults += [("crash", f"{who}@{moment}ms"), ("recover", f"{who}@{later}ms")]
        else:
            others = ",".join(str(each) for each in range(1, size + 1) if each != who)
            faults += [("cut", f"{who}|{others}@{moment}ms"), ("heal", f"all@{later}ms")]
    first, every = draw.randrange(1, size + 1), draw.choice((20_000, 50_000))
    movable = list(range(1, size + 1))
    chosen = {"first": first, "changes": 12, "movable": movable, "every": every}
    plain = str(chosen).replace("'", '"')
    of_election = tuple(f"{name}={value}" for name, value in chosen.items())
    return Setup(
        algorithm,
        size,
        seed=seed,
        options=of_election if algorithm == "terms-members" else (f"election_options={plain}",),
        requests=10,
        think="0..100ms",
        hold="0..30ms",
        delay=draw.choice(("1ms", "exp:3ms")),
        loss=draw.choice(("0", "0.05")),
        duplicate=draw.choice(("0", "0.1")),
        faults=(*faults, ("heal", "all@1200ms")),
        until="1500ms",
    )


def versions(trace: Trace | None) -> int:
    """Return the newest version of the members that a process has sent."""
    assert trace is not None
    sent = [event for event in trace.events if event.kind == "send" and event.name == "Install"]
    configurations = [event.fields()["configuration"]["Configuration"] for event in sent]
    return max((each["version"] for each in configurations), default=0)


@pytest.mark.parametrize(
    ("algorithm", "safe"),
    [
        ("terms-members", ("E1",)),
        ("elected-coordinator-members", ("ME1", "FENCE", "TOKEN")),
    ],
)
def test_safe_whatever_members_come_and_go(
    algorithm: str, safe: tuple[str, ...], times: int
) -> None:
    changes = 0
    for seed in range(15 * times):
        setup = troubled(seed, algorithm)
        report = execute(setup)
        violated = [name for name in report.violated if name in safe]
        assert not violated, f"{setup.command()}: {report.why}"
        changes += versions(report.trace)
    assert changes > 40 * times, "many changes in most of the runs, or little was shown"


def test_a_learner_follows_and_never_counts() -> None:
    """4 is no member: it votes, and 1 needs two of the three members all the same."""
    cut = (("cut", "1,4|2,3@0"),)
    report = execute(
        Setup("terms-members", 4, options=("first=3",), asks=("1@1ms",), faults=cut, until="300ms")
    )
    assert report.trace is not None
    leaders = {
        event.fields()["process"] for event in report.trace.events if event.name == "Leader"
    } - {None}
    assert leaders and leaders <= {2, 3}


def test_a_loan_to_a_process_that_is_no_member_is_recorded_by_members_at_once() -> None:
    """Its own record does not count: 3 is lent the lock when 2 has recorded it, after request,
    record, recorded and grant, and not after a timeout.
    """
    setup = Setup(
        "elected-coordinator-members",
        3,
        options=('election_options={"first": 2}',),
        asks=("3@500ms+1ms",),
        delay="1ms",
        until="600ms",
    )
    assert execute(setup).costs["client_delay"] == 4


def test_a_removed_leader_resigns_when_the_others_have_stored_it() -> None:
    trace = find("members-leader-removed").run().report.trace
    assert trace is not None
    told = [
        (event.process, event.name)
        for event in trace.events
        if event.name in ("Installed", "Resignation") and event.kind in ("receive", "send")
    ]
    assert (1, "Resignation") in told
    assert told[: told.index((1, "Resignation"))].count((1, "Installed")) >= 4  # two by two


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("weights=[1,1,5]", "members that change have no weights"),
        ("first=4", "first=4"),
        ("movable=[7]", "there is no process 7"),
    ],
)
def test_refused(option: str, reason: str) -> None:
    with pytest.raises(MistakeInPlan, match=reason.replace("[", r"\[")):
        execute(Setup("terms-members", 3, options=(option,)))
