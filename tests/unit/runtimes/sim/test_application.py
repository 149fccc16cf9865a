"""The application of a run: requests of the workload, lives of processes, the end of the run."""

from __future__ import annotations

import random
from typing import Any

import pytest

from habemus.core import Indication, ProcessId
from habemus.core.application import Drive
from habemus.runtimes.sim.application import Application, Stop
from habemus.runtimes.sim.calendar import CONTROL, Calendar
from habemus.runtimes.sim.network import Network, Uniform

GRACE = 200
"""Ten times the longest delay of the network."""


class Noted:
    """A workload that remembers what it was told, and is done when the test says so."""

    def __init__(self, *, done: bool = False) -> None:
        self.done = done
        self.calls: list[tuple[Any, ...]] = []

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None:
        self.calls.append(("begin", clients, drive.now))

    def asked(self, process: ProcessId, request: str, drive: Drive) -> None: ...

    def indicated(self, process: ProcessId, indication: Indication, drive: Drive) -> None: ...

    def crashed(self, process: ProcessId) -> None:
        self.calls.append(("crashed", process))

    def recovered(self, process: ProcessId, drive: Drive) -> None:
        self.calls.append(("recovered", process, drive.now))
        drive.ask(process, "again", after=5)

    def is_done(self) -> bool:
        return self.done


def made(workload: Noted | None) -> tuple[Application, Calendar]:
    calendar = Calendar(random.Random(1).getrandbits)
    network = Network(Uniform(5, GRACE // 10))
    application = Application(workload, (1, 2), calendar, network)
    calendar.move_to(1_000)
    return application, calendar


def scheduled(calendar: Calendar) -> list[tuple[int, Any]]:
    """Return time and control of all pending events."""
    return [
        (moment, control)
        for moment in sorted(calendar.buckets)
        for _, address, _, control in calendar.buckets[moment]
        if address == CONTROL
    ]


def stops(calendar: Calendar) -> list[int]:
    assert all(control in (Stop("done"), (2, "again", (), 0)) for _, control in scheduled(calendar))
    return [moment for moment, control in scheduled(calendar) if control == Stop("done")]


# Requests.


def test_a_request_is_made_after_its_time_in_the_present_life_of_its_process() -> None:
    application, calendar = made(Noted())
    application.ask(2, "acquire", after=30)
    application.crashed(2)
    application.ask(2, "write", 7, "x", after=40)
    application.ask(1, "acquire", after=50)
    assert scheduled(calendar) == [
        (1_030, (2, "acquire", (), 0)),
        (1_040, (2, "write", (7, "x"), 1)),
        (1_050, (1, "acquire", (), 0)),
    ]


def test_a_lasting_request_is_made_in_any_life() -> None:
    application, calendar = made(Noted())
    application.ask(1, "acquire", after=30, lasting=True)
    assert scheduled(calendar) == [(1_030, (1, "acquire", (), None))]


def test_a_span_is_drawn_for_each_request() -> None:
    application, calendar = made(Noted())
    for _ in range(50):
        application.ask(1, "acquire", after=(3, 5))
    assert {moment for moment, _ in scheduled(calendar)} == {1_003, 1_004, 1_005}


def test_a_workload_sees_the_time_of_the_run() -> None:
    application, calendar = made(None)
    calendar.move_to(1_234)
    assert application.now == 1_234


# The life of processes.


def test_a_crash_begins_another_life_of_one_process() -> None:
    workload = Noted()
    application, _ = made(workload)
    application.crashed(2)
    application.crashed(2)
    assert application.lives == {1: 0, 2: 2}
    assert workload.calls == [("crashed", 2), ("crashed", 2)]


def test_lives_are_counted_without_a_workload() -> None:
    application, calendar = made(None)
    application.begin((1, 2))
    application.crashed(1)
    application.recovered(1)
    assert application.lives == {1: 1, 2: 0}
    assert scheduled(calendar) == []


def test_a_workload_can_ask_when_a_process_recovers() -> None:
    workload = Noted()
    application, calendar = made(workload)
    application.recovered(2)
    assert workload.calls == [("recovered", 2, 1_000)]
    assert scheduled(calendar) == [(1_005, (2, "again", (), 0))]


# The end of a run.


def test_a_workload_begins_with_the_clients_and_the_run_goes_on_until_it_is_done() -> None:
    workload = Noted()
    application, calendar = made(workload)
    application.begin((2,))
    assert workload.calls == [("begin", (2,), 1_000)]
    assert (stops(calendar), application.is_stopping) == ([], False)
    workload.done = True
    application.stop_if_done()
    assert (stops(calendar), application.is_stopping) == ([1_000 + GRACE], True)


def test_a_workload_that_is_done_at_once_leaves_time_for_the_last_messages() -> None:
    application, calendar = made(Noted(done=True))
    application.begin((1, 2))
    assert stops(calendar) == [1_000 + GRACE]


@pytest.mark.parametrize("happens", ["crashed", "recovered"])
def test_a_crash_or_a_recovery_ends_a_run_whose_workload_is_done_then(happens: str) -> None:
    workload = Noted()
    application, calendar = made(workload)
    application.begin((1, 2))
    workload.done = True
    getattr(application, happens)(2)
    assert stops(calendar) == [1_000 + GRACE]


def test_the_end_is_scheduled_once() -> None:
    application, calendar = made(Noted(done=True))
    application.begin((1, 2))
    application.stop_if_done()
    application.crashed(1)
    assert stops(calendar) == [1_000 + GRACE]


def test_a_crash_before_the_workload_has_begun_does_not_end_the_run() -> None:
    application, calendar = made(Noted(done=True))
    application.crashed(1)
    assert stops(calendar) == []


@pytest.mark.parametrize(
    ("done", "recoveries_are_due", "expected"),
    [(True, False, False), (True, True, True), (False, False, True), (False, True, True)],
)
def test_a_run_keeps_going_for_unfinished_work_and_for_recoveries_that_are_due(
    done: bool, recoveries_are_due: bool, expected: bool
) -> None:
    workload = Noted(done=True)
    application, calendar = made(workload)
    application.begin((1, 2))
    workload.done = done
    assert application.keeps_going(recoveries_are_due=recoveries_are_due) is expected
    assert application.is_stopping is not expected
    workload.done = True
    calendar.move_to(1_001)
    application.stop_if_done()
    again = [1_001 + GRACE] if expected else []
    assert stops(calendar) == [1_000 + GRACE, *again], "a run that kept going ends later"


def test_a_run_without_a_workload_does_not_keep_going() -> None:
    application, _ = made(None)
    assert not application.keeps_going(recoveries_are_due=True)


@pytest.mark.parametrize("done", [True, False])
def test_after_its_end_a_run_goes_on_for_as_long_as_the_last_messages_take(done: bool) -> None:
    workload = Noted(done=True)
    application, calendar = made(workload)
    application.begin((1, 2))
    calendar.move_to(2_000)
    workload.done = done
    application.continue_after_stop()
    assert stops(calendar)[1:] == ([2_000 + GRACE] if done else [])
    assert application.is_stopping is done
