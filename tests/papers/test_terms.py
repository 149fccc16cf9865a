"""Claims about the election by terms (Ongaro, Ousterhout 2014; Ongaro's thesis, 9.6), one test
each.
"""

import random

import pytest

from habemus.core.properties import Verdict
from habemus.runs.commands import run_of
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute
from habemus.scenarios import find


def verdicts(report: Report) -> dict[str, Verdict]:
    return {finding.name: finding.verdict for finding in report.findings}


def troubled(seed: int) -> Setup:
    """Crashes and recoveries, pauses, cuts of both kinds, loss, duplication and wild delays; all
    healed in the end.
    """
    draw = random.Random(seed)
    size = draw.choice((3, 4, 5))
    faults: list[tuple[str, str]] = []
    for _ in range(draw.randrange(2, 7)):
        who, moment = draw.randrange(1, size + 1), draw.randrange(0, 1_000)
        match draw.choice(("crash", "pause", "cut", "one-way")):
            case "crash":
                faults += [
                    ("crash", f"{who}@{moment}ms"),
                    ("recover", f"{who}@{moment + draw.randrange(1, 300)}ms"),
                ]
            case "pause":
                faults.append(("pause", f"{who}@{moment}ms+{draw.randrange(1, 400)}ms"))
            case "cut":
                everybody = list(range(1, size + 1))
                draw.shuffle(everybody)
                border = draw.randrange(1, size)
                groups = "|".join(
                    ",".join(map(str, group)) for group in (everybody[:border], everybody[border:])
                )
                faults += [
                    ("cut", f"{groups}@{moment}ms"),
                    ("heal", f"all@{moment + draw.randrange(50, 500)}ms"),
                ]
            case _:
                other = draw.choice([each for each in range(1, size + 1) if each != who])
                faults.append(("cut", f"{who}>{other}@{moment}ms"))
    faults.append(("heal", "all@1400ms"))
    return Setup(
        "terms",
        size,
        seed=seed,
        options=(() if draw.randrange(3) else ("prevote=false",)),
        delay=draw.choice(("1ms", "exp:3ms", "heavy:1ms")),
        loss=draw.choice(("0", "0.05")),
        duplicate=draw.choice(("0", "0.1")),
        faults=tuple(faults),
        until="2600ms",
    )


def test_never_two_leaders_in_one_term_and_one_in_the_end(times: int) -> None:
    elections = 0
    for seed in range(200 * times):
        report = execute(troubled(seed), keep=False)
        assert verdicts(report)["E1"] is Verdict.HOLDS, f"{troubled(seed).command()}: {report.why}"
        # With heavy tails the first election may come so late that the run ends before it can be
        # called final.
        assert Verdict.VIOLATED not in (verdicts(report)["E2"], verdicts(report)["E3"]), (
            f"{troubled(seed).command()}: {report.why}"
        )
        elections += report.costs["elections"]
    assert elections > 250 * times, (
        "more than one election in many of the runs, or little was shown"
    )


def test_a_process_that_is_ahead_of_the_leader_is_heard() -> None:
    """Its candidacy was cut off, so it is in a newer term than the others; nobody backs it while
    they have a leader.
    """
    report = execute(troubled(1902), keep=False)
    assert verdicts(report)["E2"] is Verdict.HOLDS, report.why
    assert report.costs["messages_by_name"]["Overtaken"] > 0


@pytest.mark.parametrize(("prevote", "rounds"), [("true", 5), ("false", 3)])
@pytest.mark.parametrize("size", [2, 3, 7])
def test_an_undisturbed_election_is_linear(size: int, prevote: str, rounds: int) -> None:
    report = execute(
        Setup("terms", size, options=(f"prevote={prevote}",), asks=("1@1ms",), until="10ms")
    )
    assert report.costs["leader"] == 1
    assert report.costs["messages"] == rounds * (size - 1)
    assert report.costs["turnaround"] == rounds


def test_then_one_heartbeat_to_each_per_period() -> None:
    costs = execute(Setup("terms", 4, asks=("1@1ms",), until="1s"), keep=False).costs
    assert costs["messages_by_name"]["Heartbeat"] == 3 * (1 + (1_000 - 5) // 20)


def test_the_minority_cannot_elect_and_the_old_term_is_refused() -> None:
    report = find("terms-partition").run().report
    assert report.trace is not None
    named = [
        (event.time, event.process, event.fields())
        for event in report.trace.events
        if event.kind == "indicate"
    ]
    during = [each for each in named if 300_000 < each[0] < 1_000_000]
    assert not any(
        process in (1, 2) and fields["process"] in (1, 2) for _, process, fields in during
    ), "nobody new on the minority side"
    winner = next(fields for _, process, fields in during if fields["process"] == process)
    assert winner["process"] in (3, 4, 5) and winner["term"] > 1
    after = [each for each in named if each[0] >= 1_000_000]
    assert {process for _, process, fields in after if fields["process"] == winner["process"]} == {
        1,
        2,
    }
    assert not any(process in (3, 4, 5) for _, process, _ in after), (
        "the heartbeats of the old term change nothing there"
    )


def test_the_prevote_keeps_a_healthy_leader() -> None:
    kept, deposed = find("terms-rejoin").run().report, find("terms-rejoin-no-prevote").run().report
    assert kept.costs["leader_changes"] == 0 and kept.costs["leader"] == 1
    assert deposed.violated == ["E4"]


def test_a_process_that_has_just_recovered_does_not_back_a_candidate() -> None:
    """Neither 2 nor 3 has heard the leader yet when 2 calls: with the backing of 3, 2 would have a
    majority against a healthy leader.
    """
    faults = tuple(
        fault for who in (2, 3) for fault in (("crash", f"{who}@50ms"), ("recover", f"{who}@200ms"))
    )
    report = execute(Setup("terms", 3, asks=("1@1ms", "2@201ms"), faults=faults))
    assert report.verdict is Verdict.HOLDS, report.why
    assert report.costs["leader"] == 1 and report.costs["messages_by_name"]["Sounding"] == 4


def test_a_follower_ignores_a_call_of_its_application() -> None:
    """3 knows the leader and 2 does not: 2 would back 3, hear the leader, and yet vote for 3."""
    setup = run_of(
        "habemus run terms -n 3 --seed 1179 --ask 1@1707 --ask 2@1060 --ask 3@2960 "
        "--delay exp:1ms --cut '2|1,3@74446' --events 200"
    )
    report = execute(setup)
    assert "E4" not in report.violated, report.why
    assert report.costs["leader"] == 1 and report.costs["leader_changes"] == 0


def test_after_a_recovery_of_everybody_there_is_a_leader_again() -> None:
    faults = tuple(
        fault
        for who in (1, 2, 3)
        for fault in (("crash", f"{who}@50ms"), ("recover", f"{who}@60ms"))
    )
    for seed in range(20):
        report = execute(Setup("terms", 3, seed=seed, asks=("1@1ms",), faults=faults), keep=False)
        assert report.verdict is Verdict.HOLDS, report.why


def test_a_call_of_a_process_that_is_a_majority_does_not_depose_a_healthy_leader() -> None:
    report = execute(Setup("terms", 3, options=("weights=[1, 3, 1]",), asks=("1@1ms", "2@201ms")))
    assert report.verdict is Verdict.HOLDS, report.why
    assert report.costs["leader"] == 1


def test_calls_and_crashes_at_any_moment_leave_a_leader_in_office(times: int) -> None:
    for seed in range(100 * times):
        draw = random.Random(seed)
        size = draw.choice((3, 4, 5))
        faults: list[tuple[str, str]] = []
        for who in draw.sample(range(1, size + 1), draw.randrange(1, size)):
            moment = draw.randrange(1, 800)
            faults += [
                ("crash", f"{who}@{moment}ms"),
                ("recover", f"{who}@{moment + draw.randrange(1, 300)}ms"),
            ]
        asks = tuple(
            f"{draw.randrange(1, size + 1)}@{draw.randrange(1, 1_200)}ms"
            for _ in range(draw.randrange(1, 8))
        )
        weights = [draw.randrange(1, 4) if seed % 2 else 1 for _ in range(size)]
        setup = Setup(
            "terms",
            size,
            seed=seed,
            options=(f"weights={weights}",),
            delay="exp:1ms",
            asks=asks,
            faults=tuple(faults),
        )
        report = execute(setup, keep=False)
        assert report.verdict is not Verdict.VIOLATED, f"{setup.command()}: {report.why}"


def test_a_call_does_not_depose_a_healthy_leader() -> None:
    report = execute(Setup("terms", 5, asks=("1@1ms", *(f"{who}@300ms" for who in (2, 3, 4, 5)))))
    assert report.verdict is Verdict.HOLDS
    assert report.costs["leader"] == 1 and report.costs["elections"] == 1


def test_more_than_half_of_the_weight() -> None:
    """1 weighs as much as all others together: without it nobody is elected, and with one other it
    leads.
    """
    alone = Setup("terms", 4, options=("weights=[3, 1, 1, 1]",), faults=(("crash", "1@0"),))
    report = execute(alone, keep=False)
    assert report.costs["elections"] == 0 and report.violated == ["E2"]
    two = Setup(
        "terms", 4, options=("weights=[3, 1, 1, 1]",), faults=(("crash", "2@0"), ("crash", "3@0"))
    )
    assert execute(two, keep=False).costs["leader"] in (1, 4)
    even = Setup("terms", 4, faults=(("cut", "1,2|3,4@0"),))
    assert execute(even, keep=False).costs["elections"] == 0, "half is not more than half"


def test_a_vote_that_is_stored_is_not_given_twice() -> None:
    """The run of terms-amnesia, but with the memory kept."""
    forgetful = find("terms-amnesia")
    assert forgetful.run().report.violated == ["E1"]
    setup = forgetful.setup
    faults = tuple(("recover" if kind == "amnesia" else kind, text) for kind, text in setup.faults)
    careful = Setup(
        "terms", 3, options=setup.options, asks=setup.asks, faults=faults, until=setup.until
    )
    assert verdicts(execute(careful))["E1"] is Verdict.HOLDS


def test_one_alone_leads() -> None:
    report = execute(Setup("terms", 1))
    assert report.verdict is Verdict.HOLDS and report.costs["messages"] == 0


@pytest.mark.parametrize(("algorithm", "delay"), [("terms", "50ms"), ("terms-members", "200ms")])
@pytest.mark.parametrize("seed", range(3))
def test_elections_that_take_longer_than_any_patience_end(
    algorithm: str, delay: str, seed: int
) -> None:
    """From the pre-vote to the last vote it takes four messages, and the longest patience is 200
    ms.  So a candidate always gave up before it had won, again and again.
    """
    trace = execute(Setup(algorithm, 3, seed=seed, delay=delay, until="10s")).trace
    assert trace is not None
    leaders = [each.fields()["process"] for each in trace.events if each.name == "Leader"]
    assert any(leaders)
