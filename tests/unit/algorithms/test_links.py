"""Links: what each kind promises, on networks that lose, repeat and reorder, and with processes
that crash and come back.
"""

import random
from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import pytest

from habemus.algorithms.links.perfect import Acknowledgement, Numbered, PerfectLinks, Unacknowledged
from habemus.algorithms.links.stubborn import Copy, StubbornLinks
from habemus.algorithms.mutex.lamport import Lamport
from habemus.algorithms.mutex.ricart_agrawala import RicartAgrawala
from habemus.core import Durable, Indication, Message, Process, ProcessId, System, request, upon
from habemus.core.application import Drive
from habemus.core.node import CancelTimer, Delivered, PureNode, Send, SetTimer, Stack
from habemus.core.properties import Verdict
from habemus.core.system import complete
from habemus.problems.link import Link
from habemus.problems.mutex import Clients, Mutex
from habemus.problems.mutex_monitor import MutexMonitor
from habemus.runtimes.sim.faults import Crash, Fault, Nth, Recover
from habemus.runtimes.sim.network import Delay, Exponential, HeavyTail, Network, Uniform
from habemus.runtimes.sim.simulation import Ending, Record, Simulation


class Word(Message):
    number: int


class Speaker(Process):
    """Remembers for good what it has said and heard, so that a run can be judged by its end."""

    said: Durable[list[tuple[ProcessId, int]]] = []
    heard: Durable[list[tuple[ProcessId, int]]] = []

    @request
    def say(self, number: int, to: ProcessId) -> None:
        self.said.append((to, number))
        self.send(Word(number), to=to)

    @upon(Word)
    def hear(self, sender: ProcessId, word: Word) -> None:
        self.heard.append((sender, word.number))


@dataclass
class Talk:
    """Says the given words, each at its time."""

    words: list[tuple[int, ProcessId, ProcessId]]

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None:
        for number, (time, process, to) in enumerate(self.words, start=1):
            drive.ask(process, "say", number, to, after=time, lasting=True)

    def asked(self, process: ProcessId, request: str, drive: Drive) -> None: ...
    def indicated(self, process: ProcessId, indication: Indication, drive: Drive) -> None: ...
    def crashed(self, process: ProcessId) -> None: ...
    def recovered(self, process: ProcessId, drive: Drive) -> None: ...
    def is_done(self) -> bool:
        return False  # so that a run ends only when nothing can happen any more


@dataclass
class Conversation:
    """What came of a talk."""

    ending: Ending
    processes: dict[ProcessId, list[Process]]
    crashes: int

    def speaker(self, process: ProcessId) -> Speaker:
        return cast(Speaker, self.processes[process][0])

    def said(self, sender: ProcessId, receiver: ProcessId) -> list[int]:
        return [number for to, number in self.speaker(sender).said if to == receiver]

    def heard(self, sender: ProcessId, receiver: ProcessId) -> list[int]:
        return [number for whom, number in self.speaker(receiver).heard if whom == sender]

    def mistakes(self, fifo: bool) -> list[str]:
        """Where what was heard is not exactly what was said."""
        found = []
        for sender, receiver in product(self.processes, self.processes):
            said, heard = self.said(sender, receiver), self.heard(sender, receiver)
            if Counter(said) != Counter(heard):
                found.append(f"{sender} said {said} to {receiver}, which heard {heard}")
            elif fifo and said != heard:
                found.append(f"{receiver} heard {heard} from {sender}, out of order")
        if self.ending.reason != "quiescent":
            found.append("still sending when all has been said and acknowledged")
        return found


def talk(
    links: Link, words: list[tuple[int, ProcessId, ProcessId]], size: int, **run: Any
) -> Conversation:
    everybody = range(1, size + 1)
    system = System(
        dict.fromkeys(everybody, Speaker().over(links)), complete(everybody), tuple(everybody)
    )
    until = run.pop("until", 20_000_000)
    simulation = Simulation(system, workload=Talk(words), record=Record.REQUESTS, **run)
    ending = simulation.run(until)
    return Conversation(
        ending, simulation.processes, sum(event.kind == "crash" for event in simulation.drained())
    )


def random_talk(
    links: Link, seed: int, crashes: bool = False, until: int = 20_000_000
) -> Conversation:
    """Two to four on a bad network; whoever crashes comes back."""
    draw = random.Random(seed)
    size = draw.randint(2, 4)
    everybody = range(1, size + 1)
    words = [
        (draw.randint(0, 40_000), draw.choice(everybody), draw.choice(everybody))
        for _ in range(draw.randint(5, 25))
    ]
    delays: list[Delay] = [
        Uniform(1_000, 1_000),
        Uniform(100, 9_000),
        Exponential(1_000),
        HeavyTail(500, 6),
    ]
    network = Network(
        draw.choice(delays),
        False,
        draw.choice([0, 300_000, 600_000]),
        draw.choice([0, 300_000, 600_000]),
    )
    faults: list[Fault] = []
    if crashes:
        for victim in draw.sample(everybody, draw.randint(1, size)):
            at_an_event = Nth(
                draw.choice(["send", "receive", "request", "timer"]), draw.randint(1, 6)
            )
            faults.append(
                Crash(victim, at_an_event if draw.random() < 0.5 else draw.randint(1, 50_000))
            )
        faults += [
            Recover(process, time)
            for process in everybody
            for time in range(10_000, 500_001, 30_000)
        ]
    return talk(links, words, size, network=network, faults=faults, seed=seed, until=until)


SEEDS = range(120)


@pytest.mark.parametrize("crashes", [False, True], ids=["no crash", "crashes"])
@pytest.mark.parametrize("fifo", [False, True], ids=["any order", "fifo"])
def test_perfect_links_deliver_everything_exactly_once(fifo: bool, crashes: bool) -> None:
    words = crashed = 0
    for seed in SEEDS:
        done = random_talk(PerfectLinks(fifo=fifo), seed, crashes)
        assert not done.mistakes(fifo), f"seed {seed}: {done.mistakes(fifo)}"
        words += sum(len(done.speaker(process).heard) for process in done.processes)
        crashed += done.crashes
    assert words > 1_000
    assert (crashed > 100) == crashes


def test_nothing_is_left_to_remember() -> None:
    """One number for each sender is all that remains: what was said is acknowledged, what was heard
    has no gaps.
    """
    for seed in SEEDS:
        done = random_talk(PerfectLinks(), seed, crashes=seed % 2 == 1)
        for receiver, (_, part) in done.processes.items():
            links = cast(PerfectLinks, part)
            assert not links.outgoing
            assert not links.early
            assert links.complete == {
                sender: len(done.said(sender, receiver))
                for sender in done.processes
                if done.said(sender, receiver)
            }


# Planted bugs, one broken line each.


class NeverAgain(PerfectLinks):
    def send_until_acknowledged(self, timer: Unacknowledged) -> None:
        self.send(Numbered(timer.number, self.outgoing[timer.to, timer.number]), to=timer.to)


class TakesRepeats(PerfectLinks):
    def is_repeat(self, sender: ProcessId, number: int) -> bool:
        return False


class LooksOnlyAtTheMark(PerfectLinks):
    """Forgets what came early."""

    def is_repeat(self, sender: ProcessId, number: int) -> bool:
        return number <= self.complete.get(sender, 0)


class OneNumberForAll(PerfectLinks):
    """Counts over all receivers together, so each of them sees gaps that nothing fills."""

    def transmit(self, message: Message, *, to: ProcessId) -> None:
        self.last[0] = self.last.get(0, 0) + 1
        self.outgoing[to, self.last[0]] = message
        self.send_until_acknowledged(Unacknowledged(to, self.last[0]))


class AcknowledgesOnce(PerfectLinks):
    """A repeat is not acknowledged, so a lost acknowledgement is never made up for."""

    def acknowledge_and_deliver(self, sender: ProcessId, numbered: Numbered) -> None:
        if not self.is_repeat(sender, numbered.number):
            super().acknowledge_and_deliver(sender, numbered)


class ForgetsNumbers(PerfectLinks):
    """After a crash numbers start over."""

    last: dict[ProcessId, int] = {}


class ForgetsWhatItSends(PerfectLinks):
    outgoing: dict[tuple[ProcessId, int], Message] = {}


class ForgetsWhatCame(PerfectLinks):
    complete: dict[ProcessId, int] = {}


class DoesNotGoOn(PerfectLinks):
    def on_recover(self) -> None:
        pass


@pytest.mark.parametrize(
    ("mutant", "crashes"),
    [
        (NeverAgain(), False),
        (TakesRepeats(), False),
        (LooksOnlyAtTheMark(), False),
        (OneNumberForAll(fifo=True), False),
        (AcknowledgesOnce(), False),
        (ForgetsNumbers(), True),
        (ForgetsWhatItSends(), True),
        (ForgetsWhatCame(), True),
        (DoesNotGoOn(), True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Link) else "",
)
def test_mutant_is_caught(mutant: PerfectLinks, crashes: bool) -> None:
    assert any(random_talk(mutant, seed, crashes).mistakes(mutant.fifo) for seed in SEEDS)


def test_amnesia_breaks_perfect_links_as_their_card_says() -> None:
    """Numbers start at 1 again: a new message is taken for a repeat, acknowledged and dropped."""
    words = [(0, 1, 2), (20_000, 1, 2), (30_000, 1, 2)]
    done = talk(
        PerfectLinks(), words, 2, faults=[Crash(1, 10_000), Recover(1, 11_000, amnesia=True)]
    )
    assert done.heard(1, 2) == [1, 3]


# Step by step.


def node_over(links: Link, me: ProcessId = 1) -> PureNode:
    return PureNode(
        Stack(Speaker().over(links)),
        me,
        tuple(p for p in (1, 2, 3) if p != me),
        lambda options: options[0],
    )


def test_a_message_is_sent_until_it_is_acknowledged() -> None:
    node = node_over(PerfectLinks(every=5))
    timer = Unacknowledged(2, 1)
    assert node.request("say", 7, 2) == [Send(1, 2, Numbered(1, Word(7))), SetTimer(1, timer, 5)]
    assert node.fire(1, timer) == [Send(1, 2, Numbered(1, Word(7))), SetTimer(1, timer, 5)]
    assert node.deliver(1, 2, Acknowledgement(1)) == [CancelTimer(1, timer)]
    assert node.deliver(1, 2, Acknowledgement(1)) == [CancelTimer(1, timer)], (
        "a second acknowledgement does no harm"
    )
    assert node.request("say", 8, 2)[0] == Send(1, 2, Numbered(2, Word(8)))
    assert node.request("say", 9, 3)[0] == Send(1, 3, Numbered(1, Word(9))), (
        "each receiver has numbers of its own"
    )


def test_a_repeat_is_acknowledged_and_dropped() -> None:
    node = node_over(PerfectLinks())
    speaker = cast(Speaker, node.parts[0])
    for _ in range(2):
        assert node.deliver(1, 2, Numbered(1, Word(7))) == [Send(1, 2, Acknowledgement(1))]
    assert speaker.heard == [(2, 7)]
    node.deliver(1, 3, Numbered(1, Word(5)))
    assert speaker.heard == [(2, 7), (3, 5)], "the numbers of another sender are others"


@pytest.mark.parametrize(("fifo", "heard"), [(False, [2, 3, 1]), (True, [1, 2, 3])])
def test_what_comes_early_waits_only_if_order_is_wanted(fifo: bool, heard: list[int]) -> None:
    node = node_over(PerfectLinks(fifo=fifo))
    for number in (2, 3, 1):
        assert node.deliver(1, 2, Numbered(number, Word(number))) == [
            Send(1, 2, Acknowledgement(number))
        ]
    assert [number for _, number in cast(Speaker, node.parts[0]).heard] == heard


@pytest.mark.parametrize("fifo", [False, True])
def test_a_message_to_oneself_takes_the_same_way(fifo: bool) -> None:
    """It even outlives a crash between its sending and its arrival, which is one microsecond
    later.
    """
    done = talk(
        PerfectLinks(fifo=fifo),
        [(1_000, 1, 1), (9_000, 1, 1)],
        1,
        faults=[Crash(1, Nth("request")), Recover(1, 5_000)],
    )
    assert done.crashes == 1
    assert done.heard(1, 1) == [1, 2]
    assert not done.mistakes(fifo=True)


# Stubborn links.


def test_stubborn_links_repeat_until_told_to_cease() -> None:
    node = node_over(StubbornLinks(every=5))
    links = cast(StubbornLinks, node.parts[1])
    [sent, timed] = node.request("say", 7, 2)
    assert sent == Send(1, 2, Copy(Word(7)))
    assert isinstance(timed, SetTimer)
    for _ in range(3):
        assert node.fire(1, timed.timer) == [sent, timed]
    node.request("say", 8, 3)
    links.cease(2)
    assert [to for to, _ in links.outgoing] == [3]


def test_stubborn_links_lose_nothing_and_repeat() -> None:
    repeated = 0
    for seed in range(20):
        done = random_talk(StubbornLinks(), seed, until=300_000)
        assert done.ending.reason == "time", "they never stop"
        for sender, receiver in product(done.processes, done.processes):
            said, heard = done.said(sender, receiver), done.heard(sender, receiver)
            assert set(said) == set(heard)
            repeated += len(heard) > len(said)
    assert repeated


# Below an algorithm that assumes them.


def judged(plan: Mutex, seed: int, network: Network) -> tuple[Simulation, MutexMonitor, Ending]:
    everybody = (1, 2, 3)
    system = System(dict.fromkeys(everybody, plan), complete(everybody), everybody)
    simulation = Simulation(
        system, workload=Clients(3, think=(0, 3_000)), network=network, seed=seed
    )
    monitor = MutexMonitor(everybody)
    simulation.observers.append(monitor.observe)
    ending = simulation.run(events=5_000)
    return simulation, monitor, ending


BAD_NETWORK = Network(Exponential(1_000), False, 300_000, 300_000)


@pytest.mark.parametrize(
    "plan",
    [RicartAgrawala().over(PerfectLinks()), Lamport().over(PerfectLinks(fifo=True))],
    ids=["any order", "fifo"],
)
def test_a_finished_run_over_perfect_links_comes_to_rest(plan: Mutex) -> None:
    for seed in range(20):
        simulation, monitor, ending = judged(plan, seed, BAD_NETWORK)
        assert ending.reason == "done"
        found = {finding.name: finding.verdict for finding in monitor.findings(ending.reason)}
        assert found["ME1"] is found["ME2-deadlock"] is found["ME2-starvation"] is Verdict.HOLDS
        assert simulation.run(events=5_000).reason == "quiescent", (
            "everything is acknowledged, so nothing is sent again"
        )


def is_violated(name: str, plan: Mutex) -> bool:
    """Whether some run on a bad network violates the property."""
    for seed in range(20):
        _, monitor, ending = judged(plan, seed, BAD_NETWORK)
        if any(
            finding.name == name and finding.verdict is Verdict.VIOLATED
            for finding in monitor.findings(ending.reason)
        ):
            return True
    return False


def test_an_algorithm_needs_each_promise() -> None:
    """Repeats let two in, loss lets nobody in, and Lamport's algorithm needs the order as well."""
    assert is_violated("ME1", RicartAgrawala().over(StubbornLinks()))
    assert is_violated("ME1", RicartAgrawala().over(TakesRepeats()))
    assert is_violated("ME2-deadlock", RicartAgrawala().over(NeverAgain()))
    assert is_violated("ME1", Lamport().over(PerfectLinks()))


def test_links_say_what_they_indicate() -> None:
    assert PerfectLinks.indications == StubbornLinks.indications == (Delivered,)
