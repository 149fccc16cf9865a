"""What the simulated network and the faults do, seen in traces."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

import pytest

from habemus.algorithms.mutex.central import Central
from habemus.algorithms.mutex.ricart_agrawala import RicartAgrawala
from habemus.algorithms.mutex.token_ring import TokenRing
from habemus.core import (
    Const,
    Durable,
    Message,
    MistakeInAlgorithm,
    MistakeInPlan,
    Process,
    ProcessId,
    System,
    Timer,
    upon,
)
from habemus.core.events import Event
from habemus.core.system import complete
from habemus.problems.mutex import Ask, Clients, Script
from habemus.runs.notation import delay
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
from habemus.runtimes.sim.network import Exponential, HeavyTail, Network, Uniform
from habemus.runtimes.sim.simulation import Record, Simulation


class Number(Message):
    value: int


class Tick(Timer):
    pass


class Stored(Message):
    value: int


class Counting(Process):
    """Sends 1, 2, 3, ... to everybody, one number per tick, and remembers what it got and how many
    it has sent.
    """

    upto: Const[int] = 5
    got: list[int] = []
    sent: int = 0
    kept: Durable[int] = 0

    def on_start(self) -> None:
        self.set_timer(Tick(), after=100)

    @upon(Tick)
    def send_next(self, _: Tick) -> None:
        if self.kept < self.upto:
            self.sent += 1
            self.kept += 1
            self.broadcast(Number(self.kept))
            self.set_timer(Tick(), after=100)

    @upon(Number)
    def keep(self, sender: ProcessId, number: Number) -> None:
        self.got.append(number.value)


def simulate(
    plans: dict[ProcessId, Process], *faults: Fault, network: Network | None = None, seed: int = 0
) -> tuple[Simulation, list[Event]]:
    system = System(plans, complete(plans), ())
    simulation = Simulation(system, network=network, faults=faults, seed=seed, record=Record.CLOCKS)
    simulation.run(until=1_000_000)
    return simulation, list(simulation.drained())


def pair(upto: int = 5) -> dict[ProcessId, Process]:
    return {1: Counting(upto=upto), 2: Counting(upto=0)}


def got(simulation: Simulation, process: ProcessId) -> list[int]:
    part = simulation.processes[process][0]
    assert isinstance(part, Counting)
    return part.got


def test_unordered_links_reorder_and_fifo_links_do_not() -> None:
    wild = Uniform(1, 5_000)
    orders = [got(simulate(pair(20), network=Network(wild), seed=seed)[0], 2) for seed in range(5)]
    assert all(sorted(order) == list(range(1, 21)) for order in orders)
    assert any(order != sorted(order) for order in orders)
    for seed in range(20):
        assert got(simulate(pair(20), network=Network(wild, fifo=True), seed=seed)[0], 2) == list(
            range(1, 21)
        )


def test_loss_and_duplication_happen_about_as_often_as_asked_and_are_recorded() -> None:
    simulation, events = simulate(pair(2_000), network=Network(loss=300_000, duplication=200_000))
    kinds = Counter(event.kind for event in events)
    assert kinds["send"] == 2_000
    assert 500 < kinds["lost"] < 700
    assert 200 < kinds["duplicate"] < 360
    assert kinds["receive"] == 2_000 - kinds["lost"] + kinds["duplicate"] == len(got(simulation, 2))


def test_everything_can_be_lost() -> None:
    simulation, events = simulate(pair(), network=Network(loss=1_000_000))
    assert got(simulation, 2) == []
    assert sum(event.kind == "lost" for event in events) == 5


def test_cut_is_one_way_or_both_and_heals() -> None:
    plans: dict[ProcessId, Process] = {1: Counting(upto=5), 2: Counting(upto=5)}
    simulation, _ = simulate(plans, Cut(one_way(1, 2), 150), Heal((), 350))
    assert got(simulation, 2) == [1, 4, 5]
    assert got(simulation, 1) == [1, 2, 3, 4, 5]
    simulation, _ = simulate(plans, Cut(both_ways(1, 2), 150))
    assert (got(simulation, 1), got(simulation, 2)) == ([1], [1])
    assert between((1, 2), (3,)) == ((1, 3), (2, 3), (3, 1), (3, 2))


def test_crash_resets_what_is_not_durable_and_drops_timers_and_messages() -> None:
    plans: dict[ProcessId, Process] = {1: Counting(upto=5), 2: Counting(upto=5)}
    simulation, events = simulate(plans, Crash(1, 250), Recover(1, 10_000))
    first = simulation.processes[1][0]
    assert isinstance(first, Counting)
    assert (first.kept, first.sent) == (5, 3)  # 1 and 2 before the crash, 3 to 5 after it
    assert got(simulation, 2) == [1, 2, 3, 4, 5]
    assert got(simulation, 1) == []  # all came while it was down
    assert sum(event.kind == "lost" and event.process == 1 for event in events) == 5


def test_amnesia_forgets_what_is_durable_too() -> None:
    simulation, _ = simulate(pair(3), Crash(1, 250), Recover(1, 10_000, amnesia=True))
    assert got(simulation, 2) == [1, 2, 1, 2, 3]


class Inheriting(Counting):
    """Counts from the largest that any other has kept, in a life of its own."""

    life: Durable[int] = 1

    def on_replaced(self, others: Sequence[Self], life: int) -> None:
        self.kept = max(other.kept for other in others)
        self.life = life


def replaced(*faults: Fault) -> tuple[Inheriting, list[Event]]:
    plans: dict[ProcessId, Process] = {1: Inheriting(upto=9), 2: Inheriting(upto=3)}
    plans[3] = Inheriting(upto=4)
    slow = Network(Uniform(5_000, 5_000))
    simulation, events = simulate(plans, Crash(1, 250), *faults, network=slow)
    first = simulation.processes[1][0]
    assert isinstance(first, Inheriting)
    return first, events


def test_a_replaced_process_has_what_the_others_know_and_nothing_of_its_former_life() -> None:
    first, events = replaced(Replace(1, 2_000))
    assert (first.kept, first.sent, first.life) == (9, 5, 2)  # 5 to 9: another had kept 4
    received = [event.fields()["value"] for event in events if event.kind == "receive"]
    assert received.count(1) == received.count(2) == 4, "of 2 and 3, to each other and to 1"
    lost = [event for event in events if event.kind == "lost"]
    assert [(event.peer, event.fields()["value"]) for event in lost] == [
        (1, 1),
        (1, 1),
        (1, 2),
        (1, 2),
    ]
    [back] = [event for event in events if event.kind == "recover"]
    assert back.fields() == {"value": "replaced", "stored": [4, 2]}
    assert replaced(Replace(1, 2_000), Crash(1, 2_500), Replace(1, 2_600))[0].life == 3


@pytest.mark.parametrize(
    "fault", [Crash(2, 1_000), Pause(3, 1_000, 9_000), Cut(one_way(3, 1), 1_000)]
)
def test_a_process_is_replaced_only_if_all_others_can_answer(fault: Fault) -> None:
    first, events = replaced(fault, Replace(1, 2_000))
    assert not any(event.kind == "recover" for event in events)
    assert first.life == 1


def test_only_an_algorithm_that_says_how_can_be_replaced() -> None:
    with pytest.raises(MistakeInPlan, match="process 1 cannot be replaced"):
        simulate(pair(), Crash(1, 250), Replace(1, 9_000))


def test_torn_step_stores_and_sends_only_what_came_before() -> None:
    """Struck at its second send, a process has stored the step, and only the first message of the
    broadcast is out.
    """
    plans: dict[ProcessId, Process] = {
        1: Counting(upto=5),
        2: Counting(upto=0),
        3: Counting(upto=0),
    }
    simulation, events = simulate(plans, Crash(1, Nth("send", 2)), Recover(1, 50_000))
    assert got(simulation, 2) == [1, 2, 3, 4, 5]
    assert got(simulation, 3) == [2, 3, 4, 5]
    crash = next(index for index, event in enumerate(events) if event.kind == "crash")
    assert [event.kind for event in events[:crash]].count("send") == 1


def test_pause_holds_messages_and_timers_back_in_order() -> None:
    plans: dict[ProcessId, Process] = {1: Counting(upto=5), 2: Counting(upto=2)}
    simulation, events = simulate(plans, Pause(2, 50, 20_000), network=Network(fifo=True))
    assert got(simulation, 2) == [1, 2, 3, 4, 5]
    late = [event for event in events if event.process == 2 and event.kind in ("receive", "timer")]
    assert len(late) == 8
    assert all(event.time >= 20_050 for event in late)


def test_crash_during_a_pause_ends_it() -> None:
    simulation, events = simulate(pair(), Pause(2, 50, 20_000), Crash(2, 5_000), Recover(2, 6_000))
    assert got(simulation, 2) == []
    assert not any(event.kind == "resume" for event in events)


def test_skew_stretches_timers() -> None:
    _, straight = simulate(pair(3))
    _, slow = simulate(pair(3), Skew(1, 500_000))
    assert [event.time for event in straight if event.kind == "timer" and event.process == 1] == [
        100,
        200,
        300,
        400,
    ]
    assert [event.time for event in slow if event.kind == "timer" and event.process == 1] == [
        150,
        300,
        450,
        600,
    ]


def test_slow_changes_the_delay_of_one_link() -> None:
    _, events = simulate(pair(2), Slow(one_way(1, 2), 150, Uniform(9_000, 9_000)))
    assert [event.time for event in events if event.kind == "receive"] == [1_100, 9_200]


def test_fault_at_an_event_of_another_process() -> None:
    _, events = simulate(pair(5), Crash(1, Nth("receive", 2, process=2)))
    crash = next(event for event in events if event.kind == "crash")
    assert crash.time == 1_200
    assert crash.process == 1


def test_fault_for_a_process_that_is_not_there_is_refused() -> None:
    with pytest.raises(MistakeInPlan, match="there is no process 9; there are 1, 2"):
        simulate(pair(), Crash(9, 5))


def test_vector_clocks_say_what_happened_before_what() -> None:
    _, events = simulate({1: Counting(upto=3), 2: Counting(upto=3)})
    sends = {event.number: event for event in events if event.kind == "send"}
    receives = [event for event in events if event.kind == "receive"]
    assert receives
    for event in receives:
        before, after = sends[event.number].clock, event.clock
        assert before is not None
        assert after is not None
        assert before != after
        assert all(one <= other for one, other in zip(before, after, strict=True))


def test_messages_to_oneself_are_delivered_and_not_counted() -> None:
    system = Central.system(3, coordinator=1)
    simulation = Simulation(system, workload=Script([Ask(1, at=1_000)]))
    ending = simulation.run()
    assert ending.sent == 0
    assert ending.delivered >= 3


class Careless(Process):
    """Sends to somebody that does not exist."""

    def on_start(self) -> None:
        self.send(Number(1), to=77)


class Deaf(Process):
    def on_start(self) -> None:
        self.broadcast(Number(1))


class Broken(Process):
    def on_start(self) -> None:
        self.broadcast(Stored(1))

    @upon(Stored)
    def fail(self, sender: ProcessId, stored: Stored) -> None:
        [][stored.value]


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        (Careless, "does not exist"),
        (Deaf, r"Deaf has no @upon\(Number\)"),
        (Broken, "IndexError.*process [12], on Stored"),
    ],
)
def test_mistakes_in_an_algorithm_are_explained(algorithm: type[Process], said: str) -> None:
    plans: dict[ProcessId, Process] = {1: algorithm(), 2: algorithm()}
    with pytest.raises(MistakeInAlgorithm, match=said):
        simulate(plans)


class TestRuns:
    def simulation(self, **changes: Any) -> Simulation:
        given: dict[str, Any] = {"workload": Clients(3, think=(0, 2_000)), "seed": 5} | changes
        return Simulation(RicartAgrawala.system(4), **given)

    def test_a_run_in_pieces_is_the_run_in_one(self) -> None:
        whole, pieces = self.simulation(), self.simulation()
        whole.run()
        while pieces.run(events=7).reason == "events":
            pass
        assert [event.line() for event in whole.drained()] == [
            event.line() for event in pieces.drained()
        ]

    @pytest.mark.parametrize("count", [1, 2, 10, 50])
    def test_the_number_of_events_is_exact(self, count: int) -> None:
        assert self.simulation().run(events=count).delivered == count

    def test_the_time_limit_is_kept(self) -> None:
        ending = self.simulation(workload=Clients(1_000)).run(until=5_000)
        assert (ending.reason, ending.time) == ("time", 5_000)

    def test_a_limit_does_not_hide_that_nothing_can_happen_any_more(self) -> None:
        stuck = self.simulation(faults=[Crash(1, 1)])
        assert stuck.run(until=10**7).reason == "quiescent"

    def test_observers_see_what_the_record_has(self) -> None:
        observed: list[Event] = []
        one, other = self.simulation(), self.simulation()
        one.observers.append(observed.append)
        one.run()
        other.run()
        assert observed == list(other.drained())
        assert one.log == []

    def test_seeds_order_one_instant_and_not_the_order_of_sending(self) -> None:
        """Everybody asks at once with constant delays: all requests arrive at the same instant."""
        first = set()
        for seed in range(12):
            simulation = Simulation(
                RicartAgrawala.system(5), workload=Clients(1, think=1_000), seed=seed
            )
            simulation.run()
            first.add(
                next(
                    event.peer
                    for event in simulation.drained()
                    if event.kind == "receive" and event.process == 3
                )
            )
        assert len(first) > 1

    def test_without_a_trace_memory_holds_what_is_in_flight_only(self) -> None:
        simulation = self.simulation(workload=Clients(300, think=(0, 2_000)), record=Record.NOTHING)
        ending = simulation.run()
        assert ending.sent == 4 * 300 * 6
        assert simulation.log == []


@pytest.mark.parametrize(
    "law", [Exponential(1_000), HeavyTail(1_000), Uniform(500, 1_500), delay("heavy:2ms")]
)
def test_delays_are_integers_of_at_least_one_around_their_mean(law: Any) -> None:
    import random

    sample = law.sampler(random.Random(1).getrandbits)
    drawn = [sample(0) for _ in range(20_000)]
    assert all(type(one) is int and 1 <= one <= law.longest for one in drawn)
    assert abs(sum(drawn) / len(drawn) - law.mean) < law.mean * 0.12


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: Uniform(0, 5),
        lambda: Uniform(9, 5),
        lambda: Exponential(0),
        lambda: Network(loss=2_000_000),
    ],
)
def test_impossible_networks_are_refused(mistake: Any) -> None:
    with pytest.raises(ValueError, match=r"at least|chance"):
        mistake()


def test_a_pause_keeps_the_order_of_links_that_keep_it() -> None:
    """A message that arrives at the instant of the resumption comes after those that waited."""
    for seed in range(30):
        simulation, _ = simulate(
            pair(60),
            Pause(2, 1_500, 2_000 + seed),
            network=Network(Uniform(900, 1_100), fifo=True),
            seed=seed,
        )
        assert got(simulation, 2) == list(range(1, 61))


def test_copies_keep_the_order_of_links_that_keep_it() -> None:
    simulation, _ = simulate(
        pair(200), network=Network(Uniform(1, 3_000), fifo=True, duplication=300_000)
    )
    assert got(simulation, 2) == sorted(got(simulation, 2))
    assert len(got(simulation, 2)) > 220


def test_the_limit_of_one_call_does_not_stop_the_next() -> None:
    simulation = Simulation(RicartAgrawala.system(3), workload=Clients(5, think=(0, 2_000)))
    assert simulation.run(until=9_000, events=3).reason == "events"
    assert simulation.run().reason == "done"


class TestApplicationsAndCrashes:
    """A crash takes the application with it; its other requests are made after the recovery."""

    def ending(self, simulation: Simulation) -> tuple[str, list[str]]:
        ending = simulation.run(until=10**7)
        told = [
            f"{event.process} {event.name}"
            for event in simulation.drained()
            if event.kind in ("request", "indicate")
        ]
        return ending.reason, told

    def test_what_a_crash_has_overtaken_is_not_asked_in_the_next_life(self) -> None:
        faults: list[Fault] = [Crash(1, 5_000), Recover(1, 6_000)]
        simulation = Simulation(
            Central.system(1), workload=Script([Ask(1, at=1_000, hold=8_000)]), faults=faults
        )
        assert self.ending(simulation) == ("done", ["1 acquire", "1 Granted"])

    def test_a_request_of_the_future_survives_a_crash(self) -> None:
        faults: list[Fault] = [Crash(1, 1_000), Recover(1, 2_000)]
        simulation = Simulation(
            Central.system(2), workload=Script([Ask(1, at=9_000)]), faults=faults
        )
        assert self.ending(simulation) == ("done", ["1 acquire", "1 Granted", "1 release"])

    def test_a_run_waits_for_those_who_will_recover(self) -> None:
        faults: list[Fault] = [
            Crash(1, 1_000),
            Crash(2, 9_000),
            Recover(2, 60_000),
            Recover(1, 70_000),
        ]
        simulation = Simulation(
            Central.system(2), workload=Clients(2, think=(2_000, 5_000)), faults=faults
        )
        reason, told = self.ending(simulation)
        assert reason == "done"
        assert told.count("1 release") == 2
        assert told.count("2 Granted") >= 1

    def test_a_crash_at_the_start_does_not_end_the_run(self) -> None:
        plans = TokenRing.system(3)
        simulation = Simulation(plans, workload=Clients(1), faults=[Crash(1, Nth("send", 1))])
        assert simulation.run(until=10**6).reason == "quiescent"
