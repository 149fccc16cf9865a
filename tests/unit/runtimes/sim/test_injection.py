"""Fault injection: which faults strike, when, and what each does to its process or links."""

from __future__ import annotations

import pytest
from tests.unit.runtimes.sim.parts import Noting, Parts, summary, words

from habemus.core import Indication, ProcessId
from habemus.core.application import Drive
from habemus.core.node import State
from habemus.runtimes.sim.faults import (
    Crash,
    Cut,
    Fault,
    Heal,
    Nth,
    Pause,
    Recover,
    Replace,
    Skew,
    Slow,
    between,
    both_ways,
    one_way,
)
from habemus.runtimes.sim.network import Uniform

LIFE = ("crash", "recover", "pause", "resume")


# When a fault strikes.


def test_a_fault_strikes_at_its_time_and_not_before() -> None:
    parts = Parts(Crash(1, 50))
    assert summary(parts.run(49), *LIFE) == []
    assert summary(parts.run(50), *LIFE) == [(50, 1, "crash")]
    assert list(parts.stepper.down) == [1]
    assert parts.injector.missed() == []


def test_a_replacement_strikes_after_everything_else_of_its_time() -> None:
    for seed in range(20):
        parts = Parts(Replace(1, 50), Crash(1, 50), seed=seed)
        assert summary(parts.run(60), *LIFE) == [(50, 1, "crash"), (50, 1, "recover")]


def test_only_a_fault_at_an_event_has_to_be_watched_for() -> None:
    assert not Parts(Crash(1, 5), Skew(1, 5)).injector.watches
    assert Parts(Crash(1, Nth("receive"))).injector.watches


def test_a_fault_strikes_at_the_kth_event_of_its_process_and_only_there() -> None:
    parts = Parts(Crash(2, Nth("Word", 2)))
    parts.injector.witness(1, "receive", "Word")
    parts.injector.witness(1, "receive", "Word")
    parts.injector.witness(2, "receive", "Word")
    parts.injector.witness(2, "receive", "Number")
    assert not parts.stepper.down
    parts.injector.witness(2, "receive", "Word")
    assert list(parts.stepper.down) == [2]
    parts.injector.inflict_now(Recover(2, 0))
    parts.injector.witness(2, "receive", "Word")
    assert not parts.stepper.down, "the third event is not the second"


def test_a_fault_can_wait_for_an_event_of_another_process() -> None:
    parts = Parts(Crash(2, Nth("receive", 1, process=1)))
    parts.injector.witness(2, "receive")
    assert not parts.stepper.down
    parts.injector.witness(1, "receive")
    assert list(parts.stepper.down) == [2]


def test_a_fault_of_links_waits_for_the_first_process_that_reaches_the_count() -> None:
    parts = Parts(Cut(one_way(1, 2), Nth("send", 2)))
    parts.injector.witness(1, "send")
    parts.injector.witness(2, "send")
    assert not parts.transport.cuts
    parts.injector.witness(2, "send")
    assert parts.transport.cuts == {(1, 2)}


def test_a_crash_at_a_send_lets_only_the_messages_before_it_out() -> None:
    parts = Parts(Crash(1, Nth("send", 2)), size=3)
    parts.ask(1, "say", 7)
    events = parts.run(100)
    assert summary(events, "send", "crash") == [(0, 1, "send"), (0, 1, "crash")]
    assert (parts.heard(2), parts.heard(3)) == ([7], [])


def test_a_step_that_a_crash_cuts_short_reports_nothing_later() -> None:
    watched = Pause(1, Nth("Heard", 1), 5)
    parts = Parts(Crash(1, Nth("receive", 1)), watched)
    parts.ask(2, "say", 7)
    parts.run(20)
    assert parts.injector.missed() == [(watched, "Heard happened 0 times at process 1")]


# Crash and recovery.


def test_a_crashed_process_loses_messages_timers_and_requests() -> None:
    parts = Parts(Crash(1, 5), Recover(1, 100))
    parts.ask(1, "set_bell", 50)
    parts.ask(2, "say", 7)
    parts.application.ask(1, "say", 8, after=50)
    parts.application.ask(1, "say", 9, after=200)
    events = parts.run(300)
    assert words(events, "lost") == [(10, 7)]
    assert words(events, "send") == [(0, 7)], "requests of the former life are not made"
    assert (parts.heard(1), parts.process(1).bells) == ([], [])


def test_a_crash_leaves_the_timers_of_other_processes_alone() -> None:
    parts = Parts(Crash(1, 5))
    parts.ask(2, "set_bell", 50)
    parts.run(100)
    assert parts.process(2).bells == [1]


def test_the_application_hears_of_each_crash_once() -> None:
    parts = Parts(Crash(1, 5), Crash(1, 6), Recover(1, 10), Crash(1, 20))
    parts.run(30)
    assert parts.application.lives == {1: 2, 2: 0}


class Listening:
    """A workload that asks for nothing and remembers which processes recovered, and when."""

    def __init__(self) -> None:
        self.recoveries: list[tuple[int, ProcessId]] = []

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None: ...

    def asked(self, process: ProcessId, request: str, drive: Drive) -> None: ...

    def indicated(self, process: ProcessId, indication: Indication, drive: Drive) -> None: ...

    def crashed(self, process: ProcessId) -> None: ...

    def recovered(self, process: ProcessId, drive: Drive) -> None:
        self.recoveries.append((drive.now, process))

    def is_done(self) -> bool:
        return False


@pytest.mark.parametrize("fault", [Recover(1, 60), Recover(1, 60, amnesia=True), Replace(1, 60)])
def test_the_application_hears_of_each_recovery(fault: Fault) -> None:
    workload = Listening()
    Parts(Recover(2, 10), Crash(1, 50), fault, workload=workload).run(100)
    assert workload.recoveries == [(60, 1)]


@pytest.mark.parametrize(("amnesia", "kept"), [(False, 7), (True, 0)])
def test_a_process_recovers_with_its_durable_variables_unless_it_has_amnesia(
    amnesia: bool, kept: int
) -> None:
    parts = Parts(Crash(1, 50), Recover(1, 60, amnesia))
    parts.ask(2, "say", 7)
    parts.run(40)
    assert (parts.heard(1), parts.process(1).kept) == ([7], 7)
    events = parts.run(60)
    assert (parts.heard(1), parts.process(1).kept, parts.process(1).recoveries) == ([], kept, 1)
    [recovery] = [each for each in events if each.kind == "recover"]
    assert recovery.fields() == ({"value": "amnesia"} if amnesia else {})


def test_a_process_that_has_recovered_hears_and_asks_again() -> None:
    parts = Parts(Crash(1, 5), Recover(1, 20))
    parts.run(30)
    parts.ask(2, "say", 7)
    parts.ask(1, "say", 8)
    parts.run(60)
    assert (parts.heard(1), parts.heard(2)) == ([7], [8])


def test_a_process_that_is_down_from_the_beginning_recovers_with_the_given_state() -> None:
    parts = Parts(Recover(1, 50))
    state: State = parts.stepper.stacks[1].initial
    index = list(Noting.__variables__).index("kept")
    values = list(state[0])
    values[index] = 99
    parts.injector.put_down(1, (tuple(values),))
    parts.ask(2, "say", 7)
    assert summary(parts.run(40), "crash") == []
    assert parts.heard(1) == []
    assert parts.application.lives[1] == 0
    parts.run(60)
    assert parts.process(1).kept == 99


# Replacement.


def test_a_replaced_process_takes_over_what_the_others_have_stored() -> None:
    parts = Parts(Crash(1, 50), Replace(1, 60), Crash(1, 70), Replace(1, 80), size=3)
    parts.ask(2, "say", 7)
    parts.run(65)
    assert (parts.process(1).kept, parts.process(1).life, parts.heard(1)) == (7, 2, [])
    events = parts.run(90)
    assert parts.process(1).life == 3
    assert [each.fields() for each in events if each.kind == "recover"] == [
        {"value": "replaced", "stored": [7, 3]}
    ]


def test_messages_in_flight_from_a_former_life_are_lost_at_the_replacement() -> None:
    parts = Parts(Replace(1, 6), size=3)
    parts.ask(1, "say", 7)
    parts.ask(2, "say", 8)
    parts.injector.inflict_now(Crash(1, 0))
    events = parts.run(20)
    assert words(events, "lost") == [(6, 7), (6, 7)]
    assert words(events, "receive") == [(10, 8), (10, 8)]


@pytest.mark.parametrize(
    "obstacle", [Crash(2, 0), Pause(2, 0, 99), Cut(one_way(3, 1), 0), Recover(1, 0)]
)
def test_a_process_is_not_replaced_unless_all_others_can_answer(obstacle: Fault) -> None:
    parts = Parts(size=3)
    parts.ask(1, "say", 7)
    parts.injector.inflict_now(Crash(1, 0))
    assert parts.injector.inflict_now(obstacle) == ""
    assert "not all others were up" in parts.injector.inflict_now(Replace(1, 0))
    assert parts.process(1).life == 1
    parts.run(20)
    assert parts.heard(3) == [7], "messages in flight stay there"


def test_a_cut_between_others_does_not_prevent_a_replacement() -> None:
    parts = Parts(size=3)
    parts.injector.inflict_now(Crash(1, 0))
    parts.injector.inflict_now(Cut(both_ways(2, 3), 0))
    assert parts.injector.inflict_now(Replace(1, 0)) == ""


# Pauses.


def test_events_for_a_paused_process_are_delivered_in_order_when_it_resumes() -> None:
    parts = Parts(Pause(1, 5, 100))
    parts.ask(1, "set_bell", 30, 3)
    for time, value in ((0, 7), (40, 8)):
        parts.run(time)
        parts.ask(2, "say", value)
    parts.application.ask(1, "say", 9, after=1)
    events = parts.run(104)
    assert (parts.heard(1), parts.process(1).bells) == ([], [])
    events = parts.run(105)
    assert [(each.kind, each.name) for each in events if each.process == 1] == [
        ("resume", ""),
        ("receive", "Word"),
        ("indicate", "Heard"),
        ("timer", "Bell"),
        ("request", "say"),
        ("send", "Word"),
        ("receive", "Word"),
        ("indicate", "Heard"),
    ]
    assert {each.time for each in events} == {105}
    assert parts.heard(1) == [7, 8]


def test_events_that_waited_come_before_those_of_the_instant_of_the_resumption() -> None:
    for seed in range(20):
        parts = Parts(Pause(1, 5, 30), size=3, seed=seed)
        parts.ask(2, "say", 7)
        parts.run(25)
        parts.ask(2, "say", 8)  # arrives at 35, when process 1 resumes
        events = parts.run(35)
        assert words(events, "receive")[:2] == [(35, 7), (35, 8)]
        assert summary(events, "resume", "receive")[:2] == [(35, 1, "resume"), (35, 1, "receive")]
        assert parts.heard(1) == [7, 8]


def test_a_second_pause_changes_nothing() -> None:
    second = Pause(1, 10, 90)
    parts = Parts(Pause(1, 5, 20), second)
    assert summary(parts.run(200), *LIFE) == [(5, 1, "pause"), (25, 1, "resume")]
    assert parts.injector.missed() == [(second, "the process was down or paused already")]


def test_a_process_that_pauses_again_while_it_resumes_keeps_the_rest_for_later() -> None:
    parts = Parts(Pause(1, 5, 20), Pause(1, Nth("receive", 1), 50))
    parts.ask(2, "say", 7)
    parts.run(3)
    parts.ask(2, "say", 8)
    parts.run(30)
    assert parts.heard(1) == [7]
    events = parts.run(100)
    assert parts.heard(1) == [7, 8]
    assert words(events, "receive") == [(75, 8)]


def test_a_crash_ends_a_pause() -> None:
    parts = Parts(Pause(1, 5, 50), Crash(1, 20), Recover(1, 30))
    parts.ask(2, "say", 7)
    events = parts.run(100)
    assert summary(events, *LIFE) == [(5, 1, "pause"), (20, 1, "crash"), (30, 1, "recover")]
    assert parts.heard(1) == []


def test_the_end_of_a_pause_that_a_crash_has_ended_does_not_end_the_next_one() -> None:
    parts = Parts(Pause(1, 5, 50), Crash(1, 20), Recover(1, 30), Pause(1, 40, 100))
    assert summary(parts.run(200), "pause", "resume") == [
        (5, 1, "pause"),
        (40, 1, "pause"),
        (140, 1, "resume"),
    ]


def test_a_crash_loses_the_messages_that_wait_for_the_end_of_a_pause() -> None:
    parts = Parts(Pause(1, 5, 50), Crash(1, 20), Recover(1, 30), Pause(1, 40, 50))
    parts.ask(2, "say", 7)
    assert words(parts.run(35), "lost") == [(20, 7)]
    parts.ask(2, "say", 8)
    parts.run(100)
    numbers = {each.number: each.kind for each in parts.events if each.name == "Word"}
    assert numbers == {1: "lost", 2: "receive"}
    assert parts.heard(1) == [8]


def test_a_crash_while_a_process_resumes_loses_the_messages_that_still_wait() -> None:
    parts = Parts(Pause(1, 5, 20), Crash(1, Nth("receive", 1)))
    parts.ask(2, "say", 7)
    parts.run(3)
    parts.ask(2, "say", 8)
    events = parts.run(30)
    assert summary(events, "receive", "crash", "lost") == [
        (25, 1, "receive"),
        (25, 1, "crash"),
        (25, 1, "lost"),
    ]
    assert words(events, "lost") == [(25, 8)]


# Links.


def test_a_cut_loses_what_is_sent_from_now_on_in_its_direction_only() -> None:
    parts = Parts(Cut(one_way(1, 2), 5))
    parts.ask(1, "say", 7)
    events = parts.run(5)
    parts.ask(1, "say", 8)
    parts.ask(2, "say", 9)
    parts.run(20)
    assert (parts.heard(2), parts.heard(1)) == ([7], [9])
    assert [(each.process, each.peer) for each in events if each.kind == "cut"] == [(1, 2)]


def test_a_heal_without_links_heals_all_and_one_with_links_only_those_that_were_cut() -> None:
    parts = Parts(size=3)
    parts.injector.inflict_now(Cut(between((1,), (2, 3)), 0))
    parts.injector.inflict_now(Heal(((1, 2), (2, 3)), 0))
    assert parts.transport.cuts == {(2, 1), (1, 3), (3, 1)}
    parts.injector.inflict_now(Heal((), 0))
    assert parts.transport.cuts == set()
    healed = [(each.process, each.peer) for each in parts.run(1) if each.kind == "heal"]
    assert healed == [(1, 2), (1, 3), (2, 1), (3, 1)]


def test_a_slow_link_takes_longer_and_the_others_do_not() -> None:
    parts = Parts(Slow(one_way(1, 2), 5, Uniform(70, 70)), size=3)
    events = parts.run(5)
    parts.ask(1, "say", 7)
    parts.run(20)
    assert (parts.heard(3), parts.heard(2)) == ([7], [])
    assert words(parts.run(100), "receive") == [(75, 7)]
    [slow] = [each for each in events if each.kind == "slow"]
    assert (slow.process, slow.peer, slow.fields()) == (1, 2, {"value": 70})


# What is reported.


@pytest.mark.parametrize(
    ("before", "fault", "reason"),
    [
        ([Crash(1, 0)], Crash(1, 0), "the process was down already"),
        ([], Recover(1, 0), "the process was not down"),
        ([], Replace(1, 0), "the process was not down, or not all others were up"),
        ([Crash(1, 0)], Pause(1, 0, 5), "the process was down or paused already"),
        ([Pause(1, 0, 9)], Pause(1, 0, 5), "the process was down or paused already"),
        ([Cut(both_ways(1, 2), 0)], Cut(one_way(2, 1), 0), "the links were cut already"),
        ([Cut(one_way(1, 2), 0)], Heal(one_way(2, 1), 0), "the links were not cut"),
        ([], Heal((), 0), "the links were not cut"),
    ],
)
def test_a_fault_that_changes_nothing_has_a_reason(
    before: list[Fault], fault: Fault, reason: str
) -> None:
    parts = Parts(fault)
    assert [parts.injector.inflict_now(each) for each in before] == [""] * len(before)
    assert parts.injector.inflict_now(fault).startswith(reason)
    parts.injector.inflict(fault)
    [(missed, why)] = parts.injector.missed()
    assert missed is fault and why.startswith(reason)


def test_a_cut_that_adds_one_link_is_not_in_vain() -> None:
    parts = Parts()
    parts.injector.inflict_now(Cut(one_way(1, 2), 0))
    assert parts.injector.inflict_now(Cut(both_ways(1, 2), 0)) == ""


def test_missed_faults_are_those_that_have_not_struck_so_far() -> None:
    late, watched = Crash(1, 50), Crash(2, Nth("receive", 3))
    other, anywhere = Pause(1, Nth("receive", 2, process=2), 5), Cut(one_way(1, 2), Nth("Word", 9))
    parts = Parts(Pause(2, 5, 1), late, watched, other, anywhere, Skew(1, 50))
    parts.run(20)
    parts.injector.witness(2, "receive", "Word")
    parts.injector.witness(1, "receive", "Word")
    parts.injector.witness(1, "receive", "Word")
    assert parts.injector.missed() == [
        (late, "the run ended before"),
        (watched, "receive happened 1 time at process 2"),
        (other, "receive happened 1 time at process 2"),
        (anywhere, "Word happened 2 times at any process"),
    ]
    parts.run(60)
    assert late not in [fault for fault, _ in parts.injector.missed()]


def test_a_fault_by_hand_does_not_count_as_the_planned_one() -> None:
    planned = Crash(1, 50)
    parts = Parts(planned)
    assert parts.injector.inflict_now(Crash(1, 50)) == ""
    assert parts.injector.missed() == [(planned, "the run ended before")]


@pytest.mark.parametrize("fault", [Recover(1, 50), Replace(1, 50)])
def test_a_recovery_is_due_while_its_process_is_down_and_its_time_is_not_over(
    fault: Fault,
) -> None:
    parts = Parts(fault, Recover(2, 90))
    assert not parts.injector.recoveries_are_due()
    parts.injector.inflict_now(Crash(1, 0))
    assert parts.injector.recoveries_are_due()
    parts.calendar.move_to(50)
    assert parts.injector.recoveries_are_due()
    parts.calendar.move_to(51)
    assert not parts.injector.recoveries_are_due()


# A process that needs time for each message.


def test_a_crash_loses_the_messages_that_wait_for_a_busy_process() -> None:
    parts = Parts(Crash(1, 30), processing=50)
    for time, value in ((0, 7), (5, 8)):
        parts.run(time)
        parts.ask(2, "say", value)
    events = parts.run(200)
    assert words(events, "lost") == [(30, 7), (30, 8)]
    assert parts.heard(1) == []


def test_messages_in_flight_to_a_busy_process_are_lost_at_the_replacement_of_the_sender() -> None:
    parts = Parts(Replace(1, 6), processing=50)
    parts.ask(1, "say", 7)
    parts.injector.inflict_now(Crash(1, 0))
    assert words(parts.run(200), "lost") == [(6, 7)]
    assert parts.heard(2) == []
