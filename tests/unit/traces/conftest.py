"""Small traces written by hand, and larger ones from the simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from habemus.algorithms.mutex.ricart_agrawala import RicartAgrawala
from habemus.core.events import Event
from habemus.core.properties import Finding, Verdict
from habemus.core.system import System, complete
from habemus.problems.mutex import Clients
from habemus.runtimes.sim.faults import Crash, Cut, Heal, Pause, Recover, between
from habemus.runtimes.sim.network import Network, Uniform
from habemus.runtimes.sim.simulation import Record, Simulation
from habemus.traces import Trace


class Story:
    """Writes the events of a trace in order, with the vector clocks that follow from them."""

    def __init__(self, *processes: int) -> None:
        self.processes = processes
        self.events: list[Event] = []
        self.time = 0
        self._clocks = {process: [0] * len(processes) for process in processes}
        self._sent: dict[int, Event] = {}
        for process in processes:
            self.happens(process, "start")

    def at(self, time: int) -> Story:
        self.time = time
        return self

    def happens(
        self,
        process: int,
        kind: str,
        name: str = "",
        value: dict[str, Any] | None = None,
        peer: int | None = None,
    ) -> Story:
        self._add(Event(self.time, process, kind, name, value, peer))
        return self

    def asks(self, process: int) -> Story:
        return self.happens(process, "request", "acquire")

    def enters(self, process: int) -> Story:
        return self.happens(process, "indicate", "Granted")

    def leaves(self, process: int) -> Story:
        return self.happens(process, "request", "release")

    def sends(self, sender: int, receiver: int, name: str, part: str = "", **fields: Any) -> int:
        number = len(self._sent) + 1
        self._sent[number] = self._add(
            Event(self.time, sender, "send", name, fields or None, receiver, number, part)
        )
        return number

    def arrives(self, number: int) -> Story:
        sent = self._sent[number]
        assert sent.peer is not None and sent.clock is not None
        clock = self._clocks[sent.peer]
        clock[:] = map(max, clock, sent.clock)
        self._add(
            sent._replace(time=self.time, process=sent.peer, kind="receive", peer=sent.process)
        )
        return self

    def is_lost(self, number: int) -> Story:
        self.events.append(self._sent[number]._replace(time=self.time, kind="lost", clock=None))
        return self

    def misses(self, number: int) -> Story:
        sent = self._sent[number]
        assert sent.peer is not None
        self.events.append(
            sent._replace(
                time=self.time, process=sent.peer, kind="lost", peer=sent.process, clock=None
            )
        )
        return self

    def is_duplicated(self, number: int) -> Story:
        self.events.append(
            self._sent[number]._replace(time=self.time, kind="duplicate", clock=None)
        )
        return self

    def link(self, kind: str, *links: tuple[int, int]) -> Story:
        self.events.extend(Event(self.time, one, kind, "", None, other) for one, other in links)
        return self

    def told(self, title: str, *findings: Finding, labels: dict[int, str] | None = None) -> Trace:
        return Trace(
            {"title": title}, self.processes, labels or {}, tuple(self.events), findings, title
        )

    def _add(self, event: Event) -> Event:
        clock = self._clocks[event.process]
        clock[self.processes.index(event.process)] += 1
        event = event._replace(clock=tuple(clock))
        self.events.append(event)
        return event


def contention_story() -> Trace:
    """A coordinator and three who want to enter; two of them at the same time."""
    story = Story(0, 1, 2, 3)
    requests = {}
    for process, time in ((1, 1_000), (2, 1_200), (3, 2_500)):
        requests[process] = story.at(time).asks(process).sends(process, 0, "Request")
    story.at(2_000).arrives(requests[1])
    grant = story.sends(0, 1, "Grant")
    story.at(2_200).arrives(requests[2])
    story.at(3_000).arrives(grant).enters(1)
    story.at(3_500).arrives(requests[3])
    for process, following, time in ((1, 2, 5_000), (2, 3, 8_000), (3, 0, 11_000)):
        release = story.at(time).leaves(process).sends(process, 0, "Release")
        story.at(time + 1_000).arrives(release)
        if following:
            grant = story.sends(0, following, "Grant")
            story.at(time + 2_000).arrives(grant).enters(following)
    findings = [
        Finding(name, Verdict.HOLDS, "") for name in ("ME1", "ME2-deadlock", "ME2-starvation")
    ]
    findings.append(Finding("ME3", Verdict.UNDECIDED, "no two requests were ordered"))
    return story.told(
        "Central coordinator, three participants",
        *findings,
        labels={0: "coordinator", 1: "A", 2: "B", 3: "C"},
    )


def violation_story() -> Trace:
    """A coordinator takes a slow holder for dead and grants again: two are inside."""
    story = Story(0, 1, 2)
    first = story.at(500).asks(1).sends(1, 0, "Request")
    second = story.at(900).asks(2).sends(2, 0, "Request")
    story.at(1_500).arrives(first)
    grant = story.sends(0, 1, "Grant")
    story.at(1_900).arrives(second)
    story.at(2_500).arrives(grant).enters(1)
    story.at(3_000).happens(1, "pause")
    story.at(11_500).happens(0, "timer", "Expiry", {"holder": 1})
    grant = story.sends(0, 2, "Grant")
    story.at(12_500).arrives(grant).enters(2)
    story.at(13_200).happens(1, "resume")
    release = story.at(14_000).leaves(1).sends(1, 0, "Release")
    story.at(15_000).arrives(release)
    release = story.at(15_500).leaves(2).sends(2, 0, "Release")
    story.at(16_500).arrives(release)
    why = (
        "coordinator <1> let B in while A was still inside: the grant was reclaimed after 10 ms,"
        " and A was only slow"
    )
    finding = Finding("ME1", Verdict.VIOLATED, why, 12_500, (1, 2))
    ended = Finding("ME2-deadlock", Verdict.HOLDS, "everybody who asked got in")
    return story.told(
        "Coordinator with a timeout, slow holder",
        finding,
        ended,
        labels={0: "coordinator", 1: "A", 2: "B"},
    )


def links_story() -> Trace:
    """Loss, duplication, a message to oneself, and messages of a component below."""
    story = Story(1, 2, 3)
    lost = story.at(1_000).sends(
        1, 2, "Data", ".links", number=1, message={"Request": {"stamp": 6}}
    )
    story.is_lost(lost)
    far = story.sends(1, 3, "Data", ".links", number=1, message={"Request": {"stamp": 6}})
    story.is_duplicated(far)
    story.at(2_000).arrives(far)
    acknowledgement = story.sends(3, 1, "Ack", ".links", number=1)
    story.at(2_700).arrives(far)
    again = story.sends(3, 1, "Ack", ".links", number=1)
    own = story.at(2_800).sends(2, 2, "Note", ".links", text="to myself")
    story.at(2_801).arrives(own)
    story.at(3_000).arrives(acknowledgement)
    story.at(3_700).arrives(again)
    story.at(4_000).happens(1, "timer", "Retry", {"peer": 2, "number": 1})
    resent = story.sends(1, 2, "Data", ".links", number=1, message={"Request": {"stamp": 6}})
    story.at(5_000).arrives(resent)
    story.sends(2, 1, "Ack", ".links", number=1)
    return story.told("Perfect links over a network that loses and repeats")


def faults_story() -> Trace:
    """Crash, recovery, pause, cuts of several kinds."""
    story = Story(1, 2, 3, 4, 5)
    beat = story.at(1_000).sends(1, 2, "Heartbeat", term=1)
    story.at(2_000).arrives(beat)
    story.at(2_400).happens(2, "crash")
    beat = story.at(3_000).sends(1, 2, "Heartbeat", term=1)
    other = story.sends(1, 4, "Heartbeat", term=1)
    story.at(4_000).misses(beat).arrives(other)
    story.at(5_000).link(
        "cut",
        *(
            (one, two)
            for group, rest in (((1, 2), (3, 4, 5)), ((3, 4, 5), (1, 2)))
            for one in group
            for two in rest
        ),
    )
    beat = story.at(6_000).sends(1, 3, "Heartbeat", term=1)
    story.is_lost(beat)
    story.at(6_500).happens(3, "pause")
    story.at(9_000).happens(2, "recover", value={"value": "amnesia"})
    story.at(9_500).happens(3, "resume")
    story.at(60_000).link("heal", (1, 3), (3, 1)).link("cut", (4, 5))
    beat = story.at(61_000).sends(1, 3, "Heartbeat", term=2)
    story.at(62_000).arrives(beat)
    story.at(62_500).happens(5, "crash")
    return story.told("Everything that can go wrong")


def election_story() -> Trace:
    """The bully algorithm after the crash of the strongest."""
    story = Story(1, 2, 3, 4)
    story.at(1_000).happens(4, "crash")
    story.at(3_000).happens(2, "indicate", "Suspected", {"process": 4}).happens(
        2, "request", "elect"
    )
    numbers = [story.sends(2, peer, "Election") for peer in (3, 4)]
    story.at(4_000).arrives(numbers[0]).misses(numbers[1])
    ok = story.sends(3, 2, "Ok")
    ask = story.sends(3, 4, "Election")
    story.at(5_000).arrives(ok).misses(ask)
    story.at(9_000).happens(3, "timer", "Answer")
    story.happens(3, "indicate", "Leader", {"process": 3})
    numbers = [story.sends(3, peer, "Coordinator", leader=3) for peer in (1, 2)]
    for number, receiver in zip(numbers, (1, 2), strict=True):
        story.at(10_000).arrives(number).happens(receiver, "indicate", "Leader", {"process": 3})
    story.at(12_000).happens(4, "recover").happens(4, "indicate", "Leader", {"process": 4})
    why = "3 and 4 both lead"
    return story.told(
        "Bully: the strongest comes back", Finding("E1", Verdict.VIOLATED, why, 12_000, (3, 4))
    )


def deadlock_story() -> Trace:
    """Three who wait for each other, for ever."""
    story = Story(1, 2, 3)
    for process, following in ((1, 2), (2, 3), (3, 1)):
        own = story.at(process * 400).asks(process).sends(process, process, "Vote")
        story.at(process * 400 + 1).arrives(own)
        story.sends(process, following, "Request", stamp=process)
    finding = Finding(
        "ME2-deadlock", Verdict.VIOLATED, "1 waits for 2, 2 for 3 and 3 for 1", 1_201, (1, 2, 3)
    )
    return story.told("Voting sets in a cycle", finding)


def simulated_run(
    size: int, rounds: int, seed: int = 1, *, faults: bool = False, constant: bool = False
) -> Trace:
    """Ricart and Agrawala in the simulator."""
    plan = RicartAgrawala()
    processes = range(1, size + 1)
    system = System(dict.fromkeys(processes, plan), complete(processes), tuple(processes))
    network = (
        Network()
        if constant
        else Network(
            delay=Uniform(600, 1_800),
            loss=30_000 if faults else 0,
            duplication=60_000 if faults else 0,
        )
    )
    struck: list[Any] = []
    if faults:
        struck = [
            Pause(1, 3_000, 5_000),
            Crash(2, 9_000),
            Recover(2, 14_000),
            Cut(between((1,), range(2, size + 1)), 16_000),
            Heal((), 20_000),
        ]
    run = Simulation(
        system,
        workload=Clients(rounds),
        network=network,
        faults=struck,
        seed=seed,
        record=Record.CLOCKS,
    )
    run.run(until=60_000)
    return Trace(
        {"algorithm": "ricart-agrawala", "n": size, "seed": seed},
        system.topology.processes,
        {},
        tuple(run.drained()),
        (Finding("ME1", Verdict.HOLDS, ""),),
        f"ricart-agrawala, {size} processes, seed {seed}",
    )


STORIES: dict[str, Callable[[], Trace]] = {
    "contention": contention_story,
    "violation": violation_story,
    "links": links_story,
    "faults": faults_story,
    "election": election_story,
    "deadlock": deadlock_story,
    "simulated": lambda: simulated_run(3, 1),
    "simulated-faults": lambda: simulated_run(4, 2, faults=True),
}


@pytest.fixture(scope="session")
def stories() -> dict[str, Trace]:
    return {name: story() for name, story in STORIES.items()}


@pytest.fixture(params=list(STORIES))
def story(request: pytest.FixtureRequest, stories: dict[str, Trace]) -> Trace:
    """Each of the traces in turn."""
    trace: Trace = stories[request.param]
    return trace


@pytest.fixture
def simulated() -> Callable[..., Trace]:
    return simulated_run
