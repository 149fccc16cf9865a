"""Claims about SWIM (Das, Gupta, Motivala 2002), one test each."""

from itertools import pairwise
from statistics import mean

import pytest

from habemus.core.properties import Verdict
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute
from habemus.scenarios import find

PERIOD = 20_000


def properties(report: Report) -> dict[str, Verdict]:
    return {finding.name: finding.verdict for finding in report.findings}


def test_the_load_of_a_process_does_not_depend_on_the_size() -> None:
    """Section 3.3: one ping and one answer per process and period, exactly, in groups of any
    size.
    """
    for size in (8, 16, 32):
        costs = execute(Setup("swim", size, until="1010ms"), keep=False).costs
        assert costs["messages_by_name"] == {"Ping": 51 * size, "Answer": 51 * size}


def test_nor_does_it_when_messages_are_lost_and_a_process_is_down() -> None:
    loads = {}
    for size in (8, 16, 32):
        setup = Setup("swim", size, seed=1, loss="5%", faults=(("crash", "2@0"),), until="1s")
        costs = execute(setup, keep=False).costs
        loads[size] = costs["messages"] / (size - 1) / 50
    assert max(loads.values()) < 1.35 * min(loads.values()), loads
    assert min(loads.values()) > 2.2, "helpers are asked, or this shows nothing"


def test_a_failed_process_is_pinged_within_one_period_and_a_half_on_average() -> None:
    """Section 3.1: the expected time until somebody pings it is e/(e-1) = 1.58 periods, independent
    of the size.
    """
    waited = []
    for seed in range(30):
        trace = execute(
            Setup("swim", 12, seed=seed, faults=(("crash", "12@90ms"),), until="400ms")
        ).trace
        assert trace is not None
        pings = [
            event.time
            for event in trace.events
            if event.kind == "send" and event.name == "Ping" and event.peer == 12
        ]
        first = next(time for time in pings if time > 90_000)
        waited.append((first - 100_000) // PERIOD + 1)
    assert 1.58 * 0.8 < mean(waited) < 1.58 * 1.2


def test_everybody_has_its_turn_within_2n_minus_3_periods() -> None:
    """Section 4.3: completeness is bounded in time, because targets are not drawn again before all
    were.
    """
    size = 6
    longest = 0
    for seed in range(5):
        trace = execute(Setup("swim", size, seed=seed, until="2s")).trace
        assert trace is not None
        for one in range(1, size + 1):
            for other in range(1, size + 1):
                turns = [
                    event.time
                    for event in trace.events
                    if event.kind == "send"
                    and event.name == "Ping"
                    and (event.process, event.peer) == (one, other)
                ]
                longest = max([longest, *(later - earlier for earlier, later in pairwise(turns))])
    assert size * PERIOD < longest <= (2 * size - 3) * PERIOD


def test_a_lost_direct_ping_is_saved_by_a_helper() -> None:
    report = find("swim-indirect").run().report
    assert report.costs["mistakes"] == 0
    assert report.trace is not None
    assert report.costs["messages_by_name"]["PingForMe"] >= 5
    assert not any(
        each for event in report.trace.events for each in getattr(event.value, "news", ())
    ), "nobody was even doubted"


def test_a_doubted_process_denies_it_in_a_new_incarnation() -> None:
    report = find("swim-denied").run().report
    assert report.trace is not None
    told = {
        (each.process, each.incarnation, each.standing.name)
        for event in report.trace.events
        for each in getattr(event.value, "news", ())
    }
    assert told == {(2, 0, "DOUBTED"), (2, 1, "ALIVE")}
    assert report.costs["mistakes"] == 0


@pytest.mark.parametrize("size", [3, 8, 16])
def test_a_crash_is_known_to_all_after_the_grace_and_the_spreading(size: int) -> None:
    """Section 4.2: news spread like an infection, in a logarithmic number of periods."""
    magnitude = (size - 1).bit_length()
    for seed in range(4):
        report = execute(
            Setup("swim", size, seed=seed, delay="exp:1ms", faults=(("crash", f"{size}@100ms"),)),
            keep=False,
        )
        assert properties(report) == {
            "completeness": Verdict.HOLDS,
            "accuracy": Verdict.HOLDS,
        }, report.why
        assert report.costs["mistakes"] == 0
        assert report.costs["longest_detection_time"] <= PERIOD * (
            2 * magnitude + 2 * magnitude + 4
        )


@pytest.mark.parametrize(
    "faults",
    [
        (("cut", "1,2|3,4@100ms"), ("heal", "all@800ms")),
        (("pause", "2@100ms+600ms"),),
        (("crash", "2@100ms"), ("recover", "2@800ms")),
        (("crash", "2@100ms"), ("amnesia", "2@800ms")),
        # Every copy of the first denial is lost: 1 is not heard while it denies.
        (
            *(("cut", f"1>{other}@100ms") for other in (2, 3, 4)),
            ("crash", "1@103ms"),
            ("recover", "1@111ms"),
            ("heal", "all@2s"),
        ),
    ],
)
def test_what_was_taken_for_failed_is_taken_back(faults: tuple[tuple[str, str], ...]) -> None:
    for seed in range(3):
        report = execute(Setup("swim", 4, seed=seed, faults=faults))
        assert properties(report) == {"accuracy": Verdict.HOLDS}, report.why
        assert report.trace is not None
        assert any(event.name == "Restored" for event in report.trace.events)


def test_without_grace_lost_messages_are_mistakes() -> None:
    """Section 4.2: the suspicion is what keeps the rate of mistakes low."""

    def mistakes(grace: int) -> int:
        setup = Setup("swim", 6, options=(f"grace={grace}",), loss="20%", until="5s")
        return int(execute(setup, keep=False).costs["mistakes"])

    assert mistakes(0) > 20 > mistakes(2)
