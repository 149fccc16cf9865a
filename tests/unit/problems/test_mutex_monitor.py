"""The monitor and the meter of mutual exclusion, on traces made by hand."""

import pytest

from habemus.core.events import Event
from habemus.core.properties import Verdict
from habemus.problems.mutex_monitor import MutexMeter, MutexMonitor, wait_cycle


def asks(time: int, process: int) -> Event:
    return Event(time, process, "request", "acquire")


def enters(time: int, process: int) -> Event:
    return Event(time, process, "indicate", "Granted")


def leaves(time: int, process: int) -> Event:
    return Event(time, process, "request", "release")


def sends(time: int, process: int, to: int, number: int) -> Event:
    return Event(time, process, "send", "Word", None, to, number)


def gets(time: int, process: int, sender: int, number: int) -> Event:
    return Event(time, process, "receive", "Word", None, sender, number)


def judge(
    *events: Event, ending: str = "quiescent", bound: int | None = None, patience: int = 100
) -> dict[str, tuple[Verdict, str]]:
    monitor = MutexMonitor((1, 2, 3), bound=bound, patience=patience)
    for event in events:
        monitor.observe(event)
    return {
        finding.name: (finding.verdict, finding.why)
        for finding in monitor.findings(ending, {2: [3], 3: [2]})
    }


def test_two_inside_violate_me1_and_are_named() -> None:
    verdict, why = judge(asks(0, 1), enters(1_000, 1), asks(1_500, 2), enters(2_000, 2))["ME1"]
    assert verdict is Verdict.VIOLATED
    assert why == "at 2 ms 2 entered on its own acquire, while 1 was inside since 1 ms"


@pytest.mark.parametrize(
    "end_of_the_first",
    [
        leaves(1_500, 1),
        Event(1_500, 1, "crash"),
        Event(1_500, 1, "request", "break_off"),
        Event(1_500, 1, "indicate", "LockLost"),
    ],
)
def test_one_after_the_other_is_fine(end_of_the_first: Event) -> None:
    found = judge(
        asks(0, 1),
        asks(10, 2),
        enters(1_000, 1),
        end_of_the_first,
        enters(1_500, 2),
        leaves(3_000, 2),
    )
    assert found["ME1"][0] is Verdict.HOLDS
    assert found["ME2-deadlock"][0] is found["ME2-starvation"][0] is Verdict.HOLDS


def test_a_component_inside_does_not_count() -> None:
    inner = enters(1_000, 1)._replace(part=".lock")
    assert judge(inner, asks(1_500, 2), enters(2_000, 2))["ME1"][0] is Verdict.HOLDS


def test_nothing_shows_nothing() -> None:
    assert {name: verdict for name, (verdict, _) in judge().items()} == dict.fromkeys(
        ("ME1", "ME2-deadlock", "ME2-starvation", "ME3"), Verdict.UNDECIDED
    )


def test_standing_still_with_somebody_waiting_is_a_deadlock_with_its_cycle() -> None:
    verdict, why = judge(asks(0, 2), asks(0, 3))["ME2-deadlock"]
    assert verdict is Verdict.VIOLATED
    assert why == "nothing can happen any more; waiting: 2 for 3, 3 for 2; cycle 2 -> 3 -> 2"


def test_a_run_that_was_cut_off_decides_nothing_about_those_who_wait() -> None:
    found = judge(asks(0, 1), enters(1, 1), leaves(2, 1), asks(3, 2), ending="time")
    assert found["ME2-deadlock"][0] is found["ME2-starvation"][0] is Verdict.UNDECIDED


def test_waiting_while_others_go_in_again_and_again_is_starvation() -> None:
    others = [
        event for turn in range(6) for event in (asks(turn, 1), enters(turn, 1), leaves(turn, 1))
    ]
    found = judge(asks(0, 2), *others, ending="time", patience=5)
    assert found["ME2-starvation"] == (
        Verdict.VIOLATED,
        "2 has waited since 0 ms while others entered 6 times",
    )
    assert (
        judge(asks(0, 2), *others, ending="time", patience=6)["ME2-starvation"][0]
        is Verdict.UNDECIDED
    )


def test_a_request_that_happened_before_and_is_served_after_violates_me3() -> None:
    told = (asks(0, 1), sends(0, 1, 2, 7), gets(1_000, 2, 1, 7), asks(1_000, 2))
    verdict, why = judge(*told, enters(2_000, 2), leaves(3_000, 2), enters(4_000, 1))["ME3"]
    assert verdict is Verdict.VIOLATED
    assert (
        why == "the request of 1 at 0 ms happened before that of 2 at 1 ms, which entered first, at"
        " 2 ms"
    )
    assert (
        judge(*told, enters(2_000, 1), leaves(3_000, 1), enters(4_000, 2))["ME3"][0]
        is Verdict.HOLDS
    )


def test_requests_that_know_nothing_of_each_other_may_be_served_in_any_order() -> None:
    concurrent = (asks(0, 1), sends(0, 1, 2, 7), asks(500, 2), gets(1_000, 2, 1, 7))
    assert (
        judge(*concurrent, enters(2_000, 2), leaves(3_000, 2), enters(4_000, 1))["ME3"][0]
        is Verdict.HOLDS
    )


def test_order_is_passed_on_by_a_third_process() -> None:
    told = (
        asks(0, 1),
        sends(0, 1, 3, 7),
        gets(900, 3, 1, 7),
        sends(900, 3, 2, 8),
        gets(1_800, 2, 3, 8),
        asks(1_800, 2),
    )
    assert (
        judge(*told, enters(2_000, 2), leaves(3_000, 2), enters(4_000, 1))["ME3"][0]
        is Verdict.VIOLATED
    )


def test_order_cannot_be_judged_without_messages() -> None:
    assert (
        judge(asks(0, 1), enters(1, 1), leaves(2, 1), asks(3, 2), enters(4, 2))["ME3"][0]
        is Verdict.UNDECIDED
    )


def test_overtaking_is_counted_and_held_to_a_bound() -> None:
    overtaken = (
        asks(0, 1),
        asks(0, 2),
        enters(1, 2),
        leaves(2, 2),
        asks(3, 3),
        enters(4, 3),
        leaves(5, 3),
        enters(6, 1),
    )
    assert judge(*overtaken, bound=1)["ME4"][0] is Verdict.VIOLATED
    assert judge(*overtaken, bound=2)["ME4"] == (
        Verdict.HOLDS,
        "at most 2 others entered in between",
    )
    assert "ME4" not in judge(*overtaken)


def test_wait_cycles() -> None:
    assert wait_cycle({1: [2], 2: [3], 3: [1]}, [1]) == [1, 2, 3, 1]
    assert wait_cycle({1: [2], 2: [3], 3: []}, [1]) == []
    assert wait_cycle({1: [2, 4], 2: [3], 3: [], 4: [1]}, [1]) == [1, 4, 1]


class TestMeter:
    def measure(self, *events: Event) -> MutexMeter:
        meter = MutexMeter(settled=2_000)
        for event in events:
            meter.observe(event)
        return meter

    def test_client_delay_is_that_of_requests_that_met_nobody(self) -> None:
        meter = self.measure(
            asks(0, 1),
            enters(2_000, 1),
            asks(2_500, 2),
            leaves(9_000, 1),
            enters(11_000, 2),
            leaves(12_000, 2),
        )
        assert meter.client_delays == [2_000]
        assert meter.sync_delays == [2_000]
        assert self.measure(asks(0, 1), asks(500, 2), enters(2_000, 1)).client_delays == []

    def test_a_hand_over_counts_only_if_the_next_one_was_known_to_wait(self) -> None:
        assert (
            self.measure(
                asks(0, 1), enters(2_000, 1), asks(8_500, 2), leaves(9_000, 1), enters(11_000, 2)
            ).sync_delays
            == []
        )

    def test_an_application_that_goes_on_elsewhere_hands_nothing_over(self) -> None:
        before = (asks(0, 1), enters(2_000, 1), asks(2_500, 2))
        for kind, name, delays in (
            ("request", "release", [2_000]),
            ("indicate", "LockLost", [2_000]),
            ("request", "move", []),
            ("request", "break_off", []),
        ):
            left = Event(9_000, 1, kind, name)
            meter = self.measure(*before, left, enters(11_000, 2), leaves(12_000, 2))
            assert meter.sync_delays == delays
            meter = self.measure(*before[:2], left, asks(9_500, 2), enters(9_900, 2))
            assert meter.client_delays == [2_000, 400]

    def test_messages_to_oneself_are_free(self) -> None:
        meter = self.measure(sends(0, 1, 2, 1), sends(0, 1, 1, 2))
        assert meter.messages == 1
        assert meter.bytes > 0

    def test_fairness(self) -> None:
        meter = self.measure(enters(0, 1), leaves(1, 1), enters(2, 1))
        assert meter.fairness((1,)) == 1
        assert meter.fairness((1, 2)) == 0.5
        assert MutexMeter(settled=0).fairness((1, 2)) is None
