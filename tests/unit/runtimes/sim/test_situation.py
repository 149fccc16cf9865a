"""A run goes on from its situation: states, messages, timers, clocks and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.unit.runtimes.sim.parts import Bell, Noting, Word, summary, words

from habemus.core import Indication, Process, ProcessId, System
from habemus.core.application import Drive
from habemus.core.events import Event
from habemus.core.node import Stack, State
from habemus.core.system import complete
from habemus.runtimes.sim.faults import Recover
from habemus.runtimes.sim.interventions import Duplicate, Intervention, Lose, MakeRequest
from habemus.runtimes.sim.network import Network, Uniform
from habemus.runtimes.sim.simulation import Record, Simulation
from habemus.runtimes.sim.situation import MessageUnderWay, Situation, TimerSet

NOW = 5_000
DELAY = 10
NETWORK = Network(Uniform(DELAY, DELAY))


def state(**values: Any) -> State:
    """Return the state of a process with these variables, and the others as they are at first."""
    [initial] = Stack(Noting()).initial
    names = list(Noting.__variables__)
    made = list(initial)
    for name, value in values.items():
        made[names.index(name)] = value
    return (tuple(made),)


def situation(
    *,
    states: Mapping[ProcessId, State] | None = None,
    down: tuple[ProcessId, ...] = (),
    unstarted: tuple[ProcessId, ...] = (),
    messages: Sequence[MessageUnderWay] = (),
    timers: Sequence[TimerSet] = (),
    clocks: Mapping[ProcessId, tuple[int, ...]] | None = None,
    last_number: int = 20,
) -> Situation:
    every = {process: state() for process in (1, 2, 3)}
    return Situation(
        NOW,
        every | dict(states or {}),
        down,
        unstarted,
        messages,
        timers,
        clocks or {},
        last_number,
    )


class Chatting:
    """A workload in which process 1 says a word when the run begins."""

    def __init__(self) -> None:
        self.begun: list[int] = []

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None:
        self.begun.append(drive.now)
        drive.ask(1, "say", 9, after=5)

    def asked(self, process: ProcessId, request: str, drive: Drive) -> None: ...

    def indicated(self, process: ProcessId, indication: Indication, drive: Drive) -> None: ...

    def crashed(self, process: ProcessId) -> None: ...

    def recovered(self, process: ProcessId, drive: Drive) -> None: ...

    def is_done(self) -> bool:
        return False


def made(
    begin: Situation,
    *interventions: tuple[int, Intervention],
    workload: Chatting | None = None,
    network: Network = NETWORK,
) -> Simulation:
    plans: dict[ProcessId, Process] = dict.fromkeys((1, 2, 3), Noting())
    return Simulation(
        System(plans, complete(plans), tuple(plans)),
        workload=workload,
        network=network,
        record=Record.CLOCKS,
        interventions=interventions,
        situation=begin,
    )


def executed(simulation: Simulation) -> list[Event]:
    simulation.run(until=10_000)
    return list(simulation.drained())


def process(simulation: Simulation, number: ProcessId) -> Noting:
    [part] = simulation.processes[number]
    assert isinstance(part, Noting)
    return part


def test_processes_have_their_states_and_do_not_start_again() -> None:
    simulation = made(situation(states={2: state(heard=(4, 5), kept=5)}))
    assert executed(simulation) == []
    assert (process(simulation, 2).heard, process(simulation, 2).kept) == ([4, 5], 5)
    assert process(simulation, 1).heard == []


def test_processes_that_have_not_started_start_now() -> None:
    events = executed(made(situation(unstarted=(1, 3))))
    assert summary(events, *{each.kind for each in events}) == [
        (NOW, 1, "start"),
        (NOW, 3, "start"),
    ]


def test_the_workload_begins_at_the_time_of_the_situation() -> None:
    workload = Chatting()
    events = executed(made(situation(), workload=workload))
    assert workload.begun == [NOW]
    assert words(events, "send") == [(NOW + 5, 9)] * 2


def test_a_message_under_way_arrives_with_its_number_and_later_ones_follow_the_last() -> None:
    simulation = made(
        situation(messages=[MessageUnderWay(17, 3, 2, 0, Word(4), None)], last_number=20),
        workload=Chatting(),
    )
    events = executed(simulation)
    assert process(simulation, 2).heard == [4, 9]
    numbers = [(each.kind, each.number) for each in events if each.name == "Word"]
    assert numbers[:3] == [("send", 21), ("send", 22), ("receive", 17)]
    assert sorted(numbers[3:]) == [("receive", 21), ("receive", 22)]
    [arrival] = [each for each in events if each.number == 17]
    assert (arrival.time, arrival.process, arrival.peer) == (NOW + DELAY, 2, 3)


def test_a_timer_expires_when_its_time_is_over() -> None:
    simulation = made(
        situation(timers=[TimerSet(1, 0, Bell(4), 70), TimerSet(3, 0, Bell(5), (30, 40))])
    )
    early, late = [each for each in executed(simulation) if each.kind == "timer"]
    assert NOW + 30 <= early.time <= NOW + 40 and early.process == 3
    assert (late.time, late.process) == (NOW + 70, 1)
    assert (process(simulation, 1).bells, process(simulation, 3).bells) == ([4], [5])


def test_a_timer_of_the_situation_can_be_cancelled() -> None:
    simulation = made(situation(timers=[TimerSet(1, 0, Bell(), 70)]))
    simulation.begin()
    process(simulation, 1).stop_bell()
    executed(simulation)
    assert process(simulation, 1).bells == []


def test_a_process_that_is_down_loses_messages_and_recovers_with_its_state() -> None:
    simulation = made(
        situation(
            states={2: state(kept=5)},
            down=(2,),
            messages=[
                MessageUnderWay(17, 1, 2, 0, Word(4), None),
                MessageUnderWay(18, 1, 3, 0, Word(6), None),
            ],
        ),
        (2, Recover(2, 0)),
    )
    events = executed(simulation)
    assert sorted(summary(events, "lost", "receive", "recover", "crash")) == [
        (NOW + DELAY, 2, "lost"),
        (NOW + DELAY, 2, "recover"),
        (NOW + DELAY, 3, "receive"),
    ]
    assert (process(simulation, 2).kept, process(simulation, 2).recoveries) == (5, 1)
    assert simulation.is_up(2)


def test_vector_clocks_go_on_from_those_of_the_processes_and_of_the_messages() -> None:
    simulation = made(
        situation(
            messages=[MessageUnderWay(17, 3, 2, 0, Word(4), (1, 0, 8))],
            clocks={1: (1, 0, 0), 2: (0, 6, 2), 3: (1, 0, 9)},
        )
    )
    assert [(each.kind, each.clock) for each in executed(simulation)] == [
        ("receive", (1, 7, 8)),
        ("indicate", (1, 8, 8)),
    ]


def test_a_message_without_a_clock_causes_nothing_but_its_receipt() -> None:
    simulation = made(situation(messages=[MessageUnderWay(17, 3, 2, 0, Word(4), None)]))
    assert [each.clock for each in executed(simulation)] == [(0, 1, 0), (0, 2, 0)]


def test_what_the_workload_would_do_later_can_be_done_first() -> None:
    simulation = made(situation(), (0, MakeRequest(1, "say(9)")), workload=Chatting())
    assert words(executed(simulation), "send") == [(NOW, 9)] * 2


@pytest.mark.parametrize(
    ("intervention", "kind"),
    [(Lose(2, 1, "Word(4)"), "lost"), (Duplicate(2, 1, "Word(4)"), "duplicate")],
)
def test_a_message_that_is_changed_at_once_is_changed_at_the_time_of_the_situation(
    intervention: Intervention, kind: str
) -> None:
    begin = situation(messages=[MessageUnderWay(17, 1, 2, 0, Word(4), None)])
    events = executed(made(begin, (0, intervention)))
    assert words(events, kind) == [(NOW, 4)]


def test_messages_under_way_take_as_long_as_others_of_their_links() -> None:
    network = Network(Uniform(DELAY, DELAY), links={(3, 2): Uniform(70, 70)})
    begin = situation(
        messages=[
            MessageUnderWay(17, 3, 2, 0, Word(4), None),
            MessageUnderWay(18, 2, 3, 0, Word(5), None),
            MessageUnderWay(19, 1, 1, 0, Word(6), None),  # to itself, which has no delay
        ]
    )
    assert words(executed(made(begin, network=network)), "receive") == [
        (NOW + 1, 6),
        (NOW + DELAY, 5),
        (NOW + 70, 4),
    ]
