"""Claims of Lamport 1978 (CACM 21(7)), and of lecture notes that mention it, one test each."""

from itertools import pairwise

import pytest
from tests.causality import happened_before

from habemus.catalog.entries import find
from habemus.core.events import Event
from habemus.core.properties import Verdict
from habemus.runs.setup import BadSetup, Setup
from habemus.runs.simulate import execute
from habemus.scenarios import find as scenario


def crowded(seed: int, **changes: object) -> Setup:
    plain = {
        "algorithm": "lamport",
        "n": 3 + seed % 2,
        "seed": seed,
        "workload": "burst",
        "requests": 3,
        "delay": "exp:1ms",
        "until": "60s",
    }
    return Setup.from_plain({**plain, **changes})


def stamp(event: Event) -> int:
    return int(event.fields()["stamp"])


def test_clock_condition() -> None:
    """If one event happened before another, its stamp is smaller; the messages of one event share
    its stamp.
    """
    pairs = 0
    for seed in range(5):
        trace = execute(crowded(seed)).trace
        assert trace is not None
        sends = [event for event in trace.events if event.kind == "send"]
        for one in sends:
            for other in sends:
                assert one.clock is not None
                assert other.clock is not None
                if happened_before(one.clock, other.clock):
                    pairs += 1
                    assert stamp(one) < stamp(other) or (one.process, one.time) == (
                        other.process,
                        other.time,
                    )
    assert pairs > 1_000


def test_conditions_one_to_three_hold_on_links_that_keep_the_order() -> None:
    """(I) one at a time; (II) in the order in which the requests were made; (III) every request is
    granted in the end.
    """
    for seed in range(300):
        report = execute(crowded(seed), keep=False)
        for finding in report.findings:
            assert finding.verdict is Verdict.HOLDS, (
                f"{report.setup.command()}: {finding.name}: {finding.why}"
            )


def test_it_holds_when_now_and_then_a_message_is_very_late() -> None:
    for seed in range(60):
        report = execute(crowded(seed, delay="heavy:1ms"), keep=False)
        assert report.verdict is Verdict.HOLDS, f"{report.setup.command()}: {report.why}"


def test_rule_five_a_process_enters_only_when_it_has_heard_something_later_from_everybody() -> None:
    for seed in range(20):
        trace = execute(crowded(seed)).trace
        assert trace is not None
        asked: dict[int, tuple[int, int]] = {}
        heard: dict[int, set[int]] = {}
        entries = 0
        for event in trace.events:
            if event.kind == "send" and event.name == "Request":
                asked[event.process] = (stamp(event), event.process)
            elif event.kind == "request" and event.name == "acquire":
                heard[event.process] = set()
            elif event.kind == "receive" and event.peer is not None and event.process in asked:
                if (stamp(event), event.peer) > asked[event.process]:
                    heard[event.process].add(event.peer)
            elif event.kind == "indicate":
                entries += 1
                assert heard[event.process] == set(trace.processes) - {event.process}
        assert entries == 3 * len(trace.processes)


def test_entries_are_in_the_total_order_of_the_requests() -> None:
    """Everybody asks once before anybody hears of it: the entries are in the order of
    (stamp, id).
    """
    setup = Setup(
        "lamport", 4, workload="burst", initial=("1.clock=8", "2.clock=5", "3.clock=5", "4.clock=2")
    )
    trace = execute(setup).trace
    assert trace is not None
    assert [event.process for event in trace.events if event.name == "Granted"] == [4, 2, 3, 1]


@pytest.mark.parametrize("size", range(2, 21))
def test_three_messages_for_everybody_else(size: int) -> None:
    costs = execute(Setup("lamport", size, workload="in-turn"), keep=False).costs
    assert (costs["messages_per_entry"], costs["client_delay"]) == (3 * (size - 1), 2)


@pytest.mark.parametrize("size", [2, 3, 7])
def test_the_next_one_enters_one_message_after_the_exit(size: int) -> None:
    assert (
        execute(Setup("lamport", size, workload="burst", hold="50ms"), keep=False).costs[
            "sync_delay"
        ]
        == 1
    )


def test_messages_must_arrive_in_the_order_of_sending() -> None:
    """Lamport assumes it; without it two enter, in this run and in many others."""
    outcome = scenario("lamport-not-fifo").run()
    assert outcome.report.violated == ["ME1"]
    assert "on Acknowledgement(2) from 1, which 1 sent on Request(1) from 2" in outcome.report.why
    assert scenario("lamport-fifo").run().verdict == "all hold"
    broken = [
        seed
        for seed in range(30)
        if "ME1" in execute(crowded(seed, fifo=False), keep=False).violated
    ]
    assert len(broken) > 3


def test_one_crashed_process_blocks_all_others() -> None:
    """The table of the lecture notes calls the algorithm tolerant of a failure.  It is not, whoever
    crashes.
    """
    for victim in (1, 2, 3):
        others = [f"{process}@2ms" for process in (1, 2, 3) if process != victim]
        report = execute(
            Setup("lamport", 3, asks=tuple(others), faults=(("crash", f"{victim}@1ms"),))
        )
        assert report.violated == ["ME2-deadlock"]
        assert f"for {victim} (crashed)" in report.why or f"and {victim} (crashed)" in report.why


# How a run comes to have links that keep the order.


def test_runs_have_fifo_links_if_the_algorithm_needs_them() -> None:
    assert find("lamport").assumes.fifo
    default, kept, broken = (
        scenario("lamport-fifo").setup,
        Setup("lamport", 2, fifo=True),
        Setup("lamport", 2, fifo=False),
    )
    assert "fifo" not in default.command()
    assert kept.command().endswith("--fifo")
    assert broken.command().endswith("--no-fifo")
    assert [Setup.from_plain(setup.plain()) for setup in (default, kept, broken)] == [
        default,
        kept,
        broken,
    ]


@pytest.mark.parametrize("wrong", [1, 0, "yes", []])
def test_fifo_is_read_strictly(wrong: object) -> None:
    with pytest.raises(BadSetup, match="expected bool"):
        Setup.from_plain({"algorithm": "lamport", "n": 3, "fifo": wrong})


@pytest.mark.parametrize("seed", [1, 2])
def test_a_number_in_a_command_is_no_switch(seed: int) -> None:
    """1 equals True in Python; the command must still name the seed."""
    assert (
        Setup("lamport", 3, seed=seed, requests=0).command().endswith(f"--seed {seed} --requests 0")
    )


def test_fifo_links_keep_the_order_of_every_pair() -> None:
    """What the tests above stand on: the simulator's FIFO links are FIFO, and its other links are
    not.
    """
    for fifo in (None, False):
        overtaken = 0
        for seed in range(5):
            trace = execute(crowded(seed, **({} if fifo is None else {"fifo": fifo}))).trace
            assert trace is not None
            received: dict[tuple[int | None, int], list[int]] = {}
            for event in trace.events:
                if event.kind == "receive" and event.number is not None:
                    received.setdefault((event.peer, event.process), []).append(event.number)
            overtaken += sum(
                one > other for numbers in received.values() for one, other in pairwise(numbers)
            )
        assert (overtaken > 0) == (fifo is False)
