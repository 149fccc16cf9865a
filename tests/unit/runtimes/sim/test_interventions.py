"""Interventions: the pending events of a run, and what can be done to them by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.runtimes.sim.parts import DELAY, Parts, Word, summary, words

from habemus.runtimes.sim.application import Stop
from habemus.runtimes.sim.calendar import CONTROL, TIE, Queued
from habemus.runtimes.sim.faults import (
    Crash,
    Cut,
    Heal,
    Pause,
    Recover,
    Replace,
    Skew,
    Slow,
    both_ways,
    one_way,
)
from habemus.runtimes.sim.interventions import (
    Choice,
    Deliver,
    Duplicate,
    Expire,
    Intervention,
    Lose,
    Luck,
    MakeRequest,
    Pending,
    Postpone,
    processes_named,
)
from habemus.runtimes.sim.network import Uniform
from habemus.runtimes.sim.processing import Arrive


class Hand:
    """Applies interventions to a run, and remembers what they did to its loop."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.delivered: list[tuple[int, Queued]] = []
        self.seeds: list[int] = []

    def deliver_first(self, moment: int, event: Queued) -> None:
        self.delivered.append((moment, event))

    def apply(self, intervention: Intervention) -> str:
        return self.parts.intervening.apply(intervention, self.deliver_first, self.seeds.append)

    def apply_next(self, delivered: int) -> None:
        self.parts.intervening.apply_next(delivered, self.deliver_first, self.seeds.append)


def with_word(**options: Any) -> tuple[Parts, Hand]:
    """Return a run in which one word is under way from 1 to 2, and the hand that changes it."""
    parts = Parts(**options)
    parts.ask(1, "say", 7)
    return parts, Hand(parts)


def seen(parts: Parts) -> list[tuple[Any, ...]]:
    return [
        (each.time, each.kind, each.process, each.sender, each.text)
        for each in parts.intervening.pending()
    ]


# Pending events.


def test_pending_events_are_listed_in_their_order_with_the_text_of_schedules() -> None:
    parts = Parts(Crash(2, 40))
    parts.ask(1, "set_bell", 30, 4)
    parts.application.ask(2, "say", 8, after=20)
    parts.ask(1, "say", 7)
    parts.injector.inflict_now(Pause(2, 0, 50))
    assert seen(parts) == [
        (10, "message", 2, 1, "Word(7)"),
        (20, "request", 2, None, "say(8)"),
        (30, "timer", 1, None, "Bell(4)"),
        (40, "fault", 2, None, "crash"),
        (50, "fault", 2, None, "resume"),
    ]


def test_events_of_one_instant_are_listed_in_the_order_of_their_ties() -> None:
    for seed in range(20):
        parts = Parts(size=3, seed=seed)
        parts.ask(1, "say", 7)
        parts.ask(2, "say", 8)
        listed = [each[2:4] for each in seen(parts)]
        received = [
            (each.process, each.peer) for each in parts.run(DELAY) if each.kind == "receive"
        ]
        assert listed == received


def test_what_will_not_happen_is_not_listed() -> None:
    parts = Parts()
    parts.ask(1, "set_bell", 30)
    parts.ask(1, "set_bell", 40)  # sets it again
    assert seen(parts) == [(40, "timer", 1, None, "Bell(1)")]
    parts.ask(1, "stop_bell")
    parts.calendar.schedule(50, Stop("done"))
    assert seen(parts) == []


def test_the_end_of_a_pause_that_a_crash_has_ended_is_not_listed() -> None:
    parts = Parts()
    for fault in (Pause(1, 0, 50), Crash(1, 0), Recover(1, 0)):
        parts.injector.inflict_now(fault)
    assert seen(parts) == []
    parts.injector.inflict_now(Pause(1, 0, 90))
    assert seen(parts) == [(90, "fault", 1, None, "resume")]


def test_requests_of_a_process_that_is_down_or_of_its_former_life_are_not_listed() -> None:
    parts = Parts()
    parts.application.ask(1, "say", 7, after=20)
    parts.application.ask(1, "say", 8, after=30, lasting=True)
    parts.injector.inflict_now(Crash(1, 0))
    assert seen(parts) == []
    parts.injector.inflict_now(Recover(1, 0))
    assert seen(parts) == [(30, "request", 1, None, "say(8)")]


def test_a_message_on_its_way_to_a_busy_process_is_a_message_like_any_other() -> None:
    parts, _ = with_word(processing=50)
    assert seen(parts) == [(10, "message", 2, 1, "Word(7)")]
    parts.run(10)
    assert seen(parts) == [], "it has arrived"


def test_ordinals_number_equal_events_of_one_link_only() -> None:
    parts = Parts(size=3)
    for time, sender, to, value in (
        (0, 1, 2, 7),
        (1, 1, 2, 8),
        (2, 1, 3, 7),
        (3, 3, 2, 7),
        (4, 1, 2, 7),
    ):
        parts.run(time)
        parts.process(sender).send(Word(value), to=to)
    assert [
        (each.sender, each.process, each.text, each.ordinal) for each in parts.intervening.pending()
    ] == [
        (1, 2, "Word(7)", 1),
        (1, 2, "Word(8)", 1),
        (1, 3, "Word(7)", 1),
        (3, 2, "Word(7)", 1),
        (1, 2, "Word(7)", 2),
    ]


@pytest.mark.parametrize(
    ("fault", "obstacle"),
    [(Crash(2, 0), "process 2 is down"), (Pause(2, 0, 50), "process 2 is paused")],
)
def test_an_event_of_a_process_that_cannot_handle_it_has_an_obstacle(
    fault: Crash | Pause, obstacle: str
) -> None:
    parts, hand = with_word()
    parts.ask(1, "set_bell", 30)
    assert [each.obstacle for each in parts.intervening.pending()] == ["", ""]
    parts.injector.inflict_now(fault)
    message, timer, *_ = parts.intervening.pending()
    assert (message.obstacle, message.choice()) == (obstacle, None)
    assert (timer.obstacle, timer.choice()) == ("", Expire(1, "Bell(1)"))
    assert hand.apply(Deliver(2, 1, "Word(7)")) == obstacle
    assert hand.delivered == []


def test_only_the_first_message_of_a_link_that_keeps_the_order_can_come_next() -> None:
    parts, hand = with_word(fifo=True, size=3)
    parts.ask(1, "say", 8)
    parts.ask(3, "say", 9)
    obstacles = {
        (each.sender, each.process, each.text): each.obstacle
        for each in parts.intervening.pending()
    }
    behind = "an earlier message of the same link comes first"
    assert obstacles == {
        (1, 2, "Word(7)"): "",
        (1, 3, "Word(7)"): "",
        (1, 2, "Word(8)"): behind,
        (1, 3, "Word(8)"): behind,
        (3, 1, "Word(9)"): "",
        (3, 2, "Word(9)"): "",
    }
    assert hand.apply(Deliver(2, 1, "Word(8)")) == behind
    assert hand.apply(Deliver(2, 1, "Word(7)")) == ""


@pytest.mark.parametrize(
    ("kind", "obstacle", "choice"),
    [
        ("message", "", Deliver(2, 1, "text", ".part", 3)),
        ("timer", "", Expire(2, "text", ".part")),
        ("request", "", MakeRequest(2, "text")),
        ("fault", "", None),
        ("message", "process 2 is down", None),
    ],
)
def test_a_pending_event_offers_the_choice_that_makes_it_the_next(
    kind: str, obstacle: str, choice: Choice | None
) -> None:
    event = (0, 2, 1, Word(7))
    sender = 1 if kind == "message" else None
    assert Pending(kind, 10, 2, sender, "text", ".part", 3, obstacle, event).choice() == choice


# Choices.


def test_a_choice_delivers_exactly_the_event_that_it_names() -> None:
    parts, hand = with_word(size=3)
    parts.run(1)
    parts.ask(1, "say", 7)
    parts.ask(2, "set_bell", 30, 4)
    parts.ask(2, "set_bell", 30, 5)
    parts.application.ask(3, "say", 8, after=60)
    for choice in (
        Deliver(3, 1, "Word(7)"),
        Deliver(3, 1, "Word(7)", ordinal=2),
        Expire(2, "Bell(5)"),
        MakeRequest(3, "say(8)"),
    ):
        assert hand.apply(choice) == ""
    [first, second, timer, request] = hand.delivered
    assert (first[0], first[1][1:]) == (10, (3, 1, Word(7)))
    assert (second[0], second[1][1:]) == (11, (3, 1, Word(7)))
    assert (timer[0], timer[1][3].timer.number) == (31, 5)
    assert (request[0], request[1][3]) == (61, (3, "say", (8,), 0))
    for moment, event in hand.delivered:
        assert any(event is each for each in parts.calendar.buckets[moment])


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        (Deliver(1, 2, "Word(7)"), "no such message is under way"),
        (Deliver(2, 1, "Word(8)"), "no such message is under way"),
        (Deliver(2, 1, "Word(7)", ".links"), "no such message is under way"),
        (Deliver(2, 1, "Word(7)", ordinal=2), "only 1 such messages are under way"),
        (Lose(2, 1, "Word(8)"), "no such message is under way"),
        (Duplicate(2, 1, "Word(7)", ordinal=2), "only 1 such messages are under way"),
        (Postpone(1, 2, "Word(7)", 5), "no such message is under way"),
        (Expire(1, "Bell(2)"), "process 1 has set no such timer"),
        (Expire(1, "Bell(1)", ".links"), "process 1 has set no such timer"),
        (Expire(2, "Bell(1)"), "process 2 has set no such timer"),
        (MakeRequest(2, "say(8)"), "the application of 2 has no such request to make"),
        (MakeRequest(1, "say(9)"), "the application of 1 has no such request to make"),
    ],
)
def test_an_event_that_is_not_pending_cannot_be_chosen_or_changed(
    choice: Intervention, reason: str
) -> None:
    parts, hand = with_word()
    parts.ask(1, "set_bell", 30)
    parts.application.ask(1, "say", 8, after=60)
    before = seen(parts)
    assert hand.apply(choice) == reason
    assert hand.delivered == []
    assert seen(parts) == before


# Changes of messages.


def test_a_message_is_lost_and_the_others_are_not() -> None:
    parts, hand = with_word(size=3)
    assert hand.apply(Lose(3, 1, "Word(7)")) == ""
    events = parts.run(20)
    assert summary(events, "lost") == [(0, 3, "lost")]
    assert (parts.heard(2), parts.heard(3)) == ([7], [])


def test_a_copy_is_the_last_of_the_instant_of_its_message_and_has_its_number() -> None:
    for seed in range(10):
        parts, hand = with_word(size=3, seed=seed)
        parts.ask(3, "say", 8)
        assert hand.apply(Duplicate(2, 1, "Word(7)")) == ""
        events = parts.run(20)
        assert sorted(parts.heard(2)) == [7, 7, 8] and parts.heard(2)[-1] == 7
        assert parts.heard(3) == [7]
        [duplicate] = [each for each in events if each.kind == "duplicate"]
        assert (duplicate.process, duplicate.peer, duplicate.number) == (1, 2, 1)
        numbers = [each.number for each in events if (each.kind, each.process) == ("receive", 2)]
        assert sorted(filter(None, numbers))[:2] == [1, 1]


def test_a_delayed_message_arrives_so_much_later() -> None:
    parts, hand = with_word()
    assert hand.apply(Postpone(2, 1, "Word(7)", 25)) == ""
    assert words(parts.run(100), "receive") == [(35, 7)]


def test_a_message_of_a_link_that_keeps_the_order_is_not_delayed() -> None:
    parts, hand = with_word(fifo=True)
    assert "links keep the order" in hand.apply(Postpone(2, 1, "Word(7)", 25))
    assert words(parts.run(100), "receive") == [(10, 7)]


@pytest.mark.parametrize(
    ("change", "received", "lost"),
    [
        (Lose(2, 1, "Word(7)"), [], [(0, 7)]),
        (Duplicate(2, 1, "Word(7)"), [(60, 7), (110, 7)], []),
        (Postpone(2, 1, "Word(7)", 25), [(85, 7)], []),
    ],
)
def test_messages_to_a_busy_process_are_changed_before_they_arrive(
    change: Intervention, received: list[tuple[int, int]], lost: list[tuple[int, int]]
) -> None:
    parts, hand = with_word(processing=50)
    assert hand.apply(change) == ""
    events = parts.run(500)
    assert (words(events, "receive"), words(events, "lost")) == (received, lost)


def test_a_copy_for_a_busy_process_is_an_arrival_of_its_own() -> None:
    parts, hand = with_word(processing=50)
    hand.apply(Duplicate(2, 1, "Word(7)"))
    first, copy = sorted(parts.calendar.buckets[DELAY])
    assert copy[:2] == (1 << TIE, CONTROL) and copy[2] == parts.calendar.sequence
    assert isinstance(first[3], Arrive) and isinstance(copy[3], Arrive)
    assert first[2] != copy[2]


# Faults and luck.


def test_faults_strike_now_whatever_their_time_is() -> None:
    parts, hand = with_word()
    assert hand.apply(Crash(2, 999)) == ""
    assert list(parts.stepper.down) == [2]
    assert hand.apply(Crash(2, 999)) == "the process was down already"
    assert hand.apply(Replace(2, 999)) == ""
    assert hand.apply(Pause(2, 999, 5)) == ""
    assert list(parts.stepper.paused) == [2]
    assert hand.apply(Recover(2, 999)) == "the process was not down"
    assert hand.apply(Slow(one_way(1, 2), 999, Uniform(70, 70))) == ""
    assert hand.apply(Cut(one_way(2, 1), 999)) == ""
    assert (list(parts.transport.samplers), parts.transport.cuts) == ([(1, 2)], {(2, 1)})
    assert hand.apply(Heal((), 999)) == ""
    assert parts.transport.cuts == set()


def test_the_speed_of_a_clock_cannot_be_changed_by_hand() -> None:
    assert Hand(Parts()).apply(Skew(1, 50)) == "it cannot be done by hand"


@pytest.mark.parametrize(
    "intervention",
    [
        Deliver(2, 1, "Word(7)"),
        Lose(2, 1, "Word(7)"),
        Duplicate(2, 1, "Word(7)"),
        Postpone(2, 1, "Word(7)", 5),
        Crash(2, 0),
        Pause(2, 0, 5),
        Cut(both_ways(1, 2), 0),
        Slow(one_way(1, 2), 0, Uniform(5, 50)),
    ],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("processing", [0, 50])
def test_an_intervention_draws_nothing(intervention: Intervention, processing: int) -> None:
    parts, hand = with_word(processing=processing)
    before = parts.source.getstate()
    assert hand.apply(intervention) == ""
    assert parts.source.getstate() == before
    assert hand.seeds == []


def test_luck_seeds_the_run_anew() -> None:
    hand = Hand(Parts())
    assert hand.apply(Luck(9)) == ""
    assert hand.seeds == [9]


# The plan.

LATER, EARLIER, IN_VAIN = Crash(2, 0), Pause(1, 0, 50), Recover(1, 0)


def planned() -> tuple[Parts, Hand]:
    """Return a run with three interventions, of which two have the same moment."""
    parts = Parts(interventions=[(8, LATER), (3, EARLIER), (8, IN_VAIN)])
    return parts, Hand(parts)


def test_interventions_take_place_in_the_order_of_their_moments() -> None:
    parts, hand = planned()
    intervening = parts.intervening
    assert (intervening.next, intervening.done) == (3, 0)
    hand.apply_next(3)
    assert (list(parts.stepper.paused), list(parts.stepper.down)) == ([1], [])
    assert (intervening.next, intervening.done) == (8, 1)
    hand.apply_next(8)
    assert list(parts.stepper.down) == [2]
    hand.apply_next(8)
    assert (intervening.next, intervening.done) == (None, 3)


def test_interventions_that_failed_or_whose_moment_has_not_come_are_missed() -> None:
    parts, hand = planned()
    hand.apply_next(3)
    assert parts.intervening.missed(5) == [
        (LATER, "the run ended after 5 deliveries"),
        (IN_VAIN, "the run ended after 5 deliveries"),
    ]
    hand.apply_next(8)
    hand.apply_next(8)
    assert parts.intervening.missed(9) == [(IN_VAIN, "the process was not down")]


def test_an_intervention_whose_moment_another_one_has_used_up_does_nothing() -> None:
    parts, hand = planned()
    hand.apply_next(3)
    hand.apply_next(9)
    assert not parts.stepper.down
    assert parts.intervening.missed(9)[0] == (LATER, "an earlier intervention made delivery 9")


@pytest.mark.parametrize(
    ("intervention", "named"),
    [
        (Luck(5), []),
        (Deliver(2, 1, "Word(7)"), [2, 1]),
        (Postpone(2, 1, "Word(7)", 5), [2, 1]),
        (Expire(2, "Bell(1)"), [2]),
        (MakeRequest(2, "say(7)"), [2]),
        (Crash(3, 0), [3]),
        (Cut(((1, 2), (3, 4)), 0), [1, 2, 3, 4]),
        (Heal((), 0), []),
    ],
)
def test_all_processes_that_an_intervention_names_are_known(
    intervention: Intervention, named: list[int]
) -> None:
    assert processes_named(intervention) == named
