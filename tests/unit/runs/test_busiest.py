"""The load of the busiest process: all messages pass a coordinator, 2/N of them another process."""

import itertools

from habemus.runs.setup import Setup
from habemus.runs.simulate import execute


def test_a_coordinator_is_a_bottleneck_and_a_participant_is_not() -> None:
    central = execute(Setup("central", 5)).costs
    assert (central["busiest_process"], central["busiest_share"]) == ("coordinator", 1.0)
    for size in (3, 5, 9):
        assert execute(Setup("ricart-agrawala", size)).costs["busiest_share"] == round(2 / size, 6)


def test_a_run_without_messages_has_no_busiest_process() -> None:
    assert execute(Setup("ricart-agrawala", 1)).costs["busiest_process"] is None


def test_the_busiest_process_receives_what_the_formulas_say() -> None:
    for size in (3, 6):
        central = execute(Setup("central", size, requests=2)).costs
        assert central["busiest_receives"] == 2  # a request and a release
        everybody = execute(Setup("ricart-agrawala", size, requests=2)).costs
        assert everybody["busiest_receives"] == round(2 * (size - 1) / size, 6)
        assert central["busiest_load"] is None  # handlers take no time


def test_messages_wait_for_a_coordinator_that_needs_time_for_each() -> None:
    quick = execute(Setup("central", 4, workload="burst")).costs
    busy = execute(Setup("central", 4, workload="burst", processing="500us")).costs
    # The release at the coordinator, and the grant at the next participant.
    assert (quick["sync_delay"], busy["sync_delay"]) == (2, 3)
    assert 0 < busy["busiest_load"] < 1
    # 4 requests and 4 releases, 500 us each; the first entry is after 1 ms, 4 handlings and so on.
    setup = Setup("central", 4, workload="burst", processing="500us")
    report = execute(setup)
    assert report.trace is not None
    at_coordinator = [
        event.time
        for event in report.trace.events
        if (event.kind, event.process, event.name) == ("receive", 0, "Request")
    ]
    gaps = [after - before for before, after in itertools.pairwise(at_coordinator)]
    assert gaps == [500, 500, 500]
    assert execute(setup).digest == report.digest


def test_a_run_saturates_its_coordinator_when_handling_takes_most_of_the_time() -> None:
    light, heavy = (
        execute(Setup("central", 8, workload="burst", requests=4, hold="1us", processing=time))
        for time in ("10us", "20ms")
    )
    assert light.costs["busiest_load"] < 0.02
    assert heavy.costs["busiest_load"] > 0.5


def test_messages_that_wait_for_a_process_are_lost_when_it_crashes() -> None:
    setup = Setup(
        "central",
        3,
        asks=("1@1ms+1ms", "2@1ms+1ms", "3@1ms+1ms"),
        processing="1ms",
        faults=(("crash", "0@2500us"), ("recover", "0@2600us")),
    )
    report = execute(setup)
    assert report.trace is not None
    lost = [event for event in report.trace.events if event.kind == "lost"]
    assert [event.name for event in lost] == ["Request"] * 3
    assert {event.time for event in lost} == {2500}
    assert report.violated == ["ME2-deadlock"]
