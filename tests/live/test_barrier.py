"""Barriers between processes that are killed at any moment."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.live.conftest import PATIENCE, until
from tests.live.nodes import DEFAULT, Nodes

import habemus
from habemus.client.barrier import Member

PROGRAM = Path(__file__).with_name("waiting_at_a_barrier.py")
PARTIES = 3
KILLS = 5


@pytest.fixture(params=["own", "local"], scope="module")
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "local":
        yield f"local://{folder}/locks"
        return
    nodes = Nodes(folder, DEFAULT)
    yield str(nodes.file)
    nodes.close()


VICTIM = """
import habemus, sys
with habemus.connect(sys.argv[1]) as cluster:
    cluster.barrier(sys.argv[2], int(sys.argv[3]), lease=5).wait()
"""


class Party(threading.Thread):
    """A thread that waits so many times, tries again after a broken gathering, and keeps what
    became of it.
    """

    def __init__(
        self, url: str, name: str, parties: int = PARTIES, *, waits: int = 1, tries: int = 1
    ) -> None:
        super().__init__(daemon=True)
        self.arguments = (url, name, parties, waits, tries)
        self.barrier: habemus.Barrier | None = None
        self.may_leave = threading.Event()
        self.may_leave.set()
        self.outcomes: list[object] = []
        self.start()

    def run(self) -> None:
        url, name, parties, waits, tries = self.arguments
        with habemus.connect(url) as cluster:
            for _ in range(tries):
                with cluster.barrier(name, parties) as self.barrier:
                    try:
                        for _ in range(waits):
                            self.outcomes.append(self.barrier.wait(PATIENCE))
                        self.may_leave.wait()
                    except habemus.BarrierBroken as reason:
                        self.outcomes.append(reason)
                    else:
                        return

    @property
    def outcome(self) -> object:
        return self.outcomes[-1] if self.outcomes else None

    @property
    def member(self) -> Member | None:
        """What the party knows of the others."""
        inner = None if self.barrier is None else self.barrier._barrier
        return None if inner is None else inner._member

    def has_seat(self) -> bool:
        return self.member is not None and self.member.seat > 0

    def has_met(self, others: int) -> bool:
        """Return whether it has seen so many others that wait with it."""
        return self.member is not None and len(self.member._arrived) == others


def test_parties_wait_for_each_other_again_and_again(url: str) -> None:
    passed: list[tuple[int, int]] = []
    arrived = [0] * PARTIES

    def take_part(party: int) -> None:
        with habemus.connect(url) as cluster, cluster.barrier("again", PARTIES) as barrier:
            for phase in range(1, 6):
                arrived[party] = phase
                passed.append((barrier.wait(PATIENCE), min(arrived) - phase))

    threads = [threading.Thread(target=take_part, args=[each]) for each in range(PARTIES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(passed) == 5 * PARTIES
    assert all(behind >= 0 for _, behind in passed), "a party passed before all had come"
    assert {index for index, _ in passed} == set(range(PARTIES))


def test_a_party_that_gives_up_breaks_the_first_gathering(url: str) -> None:
    patient = Party(url, "given-up")
    until(patient.has_seat)
    with habemus.connect(url) as cluster, cluster.barrier("given-up", PARTIES) as barrier:
        with pytest.raises(habemus.BarrierBroken, match="timed out after 2 s; 1 of 3 did not come"):
            barrier.wait(2)
        assert barrier.broken
        with pytest.raises(habemus.BarrierBroken):
            barrier.wait()
    patient.join(PATIENCE)
    assert "has died or given up" in str(patient.outcome)
    late = [Party(url, "given-up") for _ in range(PARTIES)]
    for party in late:
        party.join(PATIENCE)
        assert isinstance(party.outcome, int), party.outcome


@pytest.mark.parametrize("comes_first", [True, False])
def test_a_party_that_is_killed_breaks_the_first_gathering(url: str, comes_first: bool) -> None:
    name = f"killed-{comes_first}"
    party = None if comes_first else Party(url, name)
    if party is not None:
        until(party.has_seat)
    victim = subprocess.Popen([sys.executable, "-c", VICTIM, url, name, str(PARTIES)])
    party = party or Party(url, name)
    try:
        until(lambda: party.has_met(1))
        victim.kill()
        party.join(PATIENCE)
        assert "has died or given up" in str(party.outcome)
    finally:
        end([victim])


def test_parties_that_try_again_after_a_broken_gathering_come_together(url: str) -> None:
    parties = [Party(url, "tried-again", 4, tries=100) for _ in range(2)]
    with habemus.connect(url) as cluster:
        while not all(party.outcomes for party in parties):
            with pytest.raises(habemus.BarrierBroken):
                cluster.barrier("tried-again", 4).wait(1)
        parties.append(Party(url, "tried-again", 4, tries=100))
        passed = None
        while passed is None:
            with suppress(habemus.BarrierBroken):
                passed = cluster.barrier("tried-again", 4).wait(PATIENCE)
    for party in parties:
        party.join(PATIENCE)
        assert isinstance(party.outcome, int), party.outcomes


def test_a_wait_that_times_out_counts_the_parties_that_did_not_come(url: str) -> None:
    with habemus.connect(url) as cluster:
        with pytest.raises(habemus.BarrierBroken, match="; 2 of 3 did not come"):
            cluster.barrier("counted-alone", 3).wait(0.3)
        others = [Party(url, "counted"), Party(url, "counted", waits=2)]
        for each in others:
            each.may_leave.clear()
        with cluster.barrier("counted", 3) as barrier:
            barrier.wait(PATIENCE)
            with pytest.raises(habemus.BarrierBroken, match="; 3 others have not left yet"):
                cluster.barrier("counted", 3).wait(0.3)
            until(lambda: others[1].member is not None and "arrived-1" in others[1].member._held)
            with pytest.raises(habemus.BarrierBroken, match="; 1 of 3 did not come"):
                barrier.wait(1.5)
        for each in others:
            each.may_leave.set()
            each.join(PATIENCE)


def test_a_party_that_is_killed_breaks_the_barrier(url: str, tmp_path: Path) -> None:
    """The victim has arrived, and is seen by two others who wait for a fourth."""
    log = tmp_path / "log"
    victim = started(url, log, "again")
    others = [started(url, log, "again") for _ in range(PARTIES - 1)]
    processes = [victim, *others]
    try:
        until(
            lambda: all(
                any(line.startswith(f"{each.pid} pass") for line in lines(log))
                for each in processes
            )
        )
        # One stops between two waits, so that the others wait at the barrier for good.
        others[0].send_signal(signal.SIGSTOP)
        until(lambda: waits(log, victim, others[1]))
        victim.kill()
        victim.wait(PATIENCE)
        until(lambda: f"{others[1].pid} broken - -" in lines(log))
    finally:
        end(processes)


def waits(log: Path, *processes: subprocess.Popen[bytes]) -> bool:
    """Return whether the last lines of all these processes say that they wait."""
    last = {line.split()[0]: line.split()[1] for line in lines(log)}
    return all(last[str(each.pid)] == "arrive" for each in processes)


def started(url: str, log: Path, way: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(PROGRAM), url, str(log), str(PARTIES), way])


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def passes(log: Path) -> int:
    return sum(" pass " in line for line in lines(log))


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()
        process.wait()


class Wait(NamedTuple):
    """A wait of a process, from a line of the log to another."""

    process: str
    begin: int
    end: int
    gathering: str
    members: str
    killed_in: str = ""  # the gathering that the process would have passed next


def early(seen: list[str]) -> list[str]:
    """Return the waits that were passed although a member did not wait at that time.  A member that
    was killed while it waited has arrived: the others may pass that gathering, or see it broken.
    """
    begun: dict[str, int] = {}
    passed: dict[str, str] = {}
    waits = []
    for count, line in enumerate([*seen, *(f"{line.split()[0]} end - -" for line in seen)]):
        process, what, gathering, members = line.split()
        if what == "arrive":
            begun[process] = count
        elif process in begun:
            next_one = following(passed[process]) if process in passed else ""
            killed_in = next_one if what == "killed" else ""
            waits.append(Wait(process, begun.pop(process), count, gathering, members, killed_in))
            passed[process] = gathering
    found = []
    for one in waits:
        for member in [] if one.members == "-" else one.members.split(","):
            met = [
                each
                for each in waits
                if each.process == member
                and each.begin < one.end
                and (
                    each.killed_in == one.gathering
                    or (
                        one.begin < each.end and each.gathering in ("-", one.gathering)
                    )  # it may have died or given up
                )
            ]
            if not met:
                found.append(f"{member} did not wait with {one}")
    return found


def following(gathering: str) -> str:
    """Return the next gathering of the same parties; empty if there is none."""
    parties, _, phase = gathering.partition("/")
    return f"{parties}/{int(phase) + 1}" if phase else ""


def test_the_judge_lets_others_pass_with_a_party_that_arrived_and_was_killed() -> None:
    first = ["1 arrive - -", "2 arrive - -", "1 pass g/1 1,2", "2 pass g/1 1,2"]
    killed = [*first, "1 arrive - -", "1 killed - -", "2 arrive - -"]
    assert not early([*killed, "2 pass g/2 1,2"])
    assert early([*killed, "2 pass g/3 1,2"])
    assert early([*first, "1 killed - -", "2 arrive - -", "2 pass g/2 1,2"])


def test_the_judge_sees_who_passes_too_early() -> None:
    first = ["1 pass g 1,2,3", "2 pass g 1,2,3", "3 pass g 1,2,3"]
    all_wait = ["1 arrive - -", "2 arrive - -", "3 arrive - -"]
    assert not early([*all_wait, *first])
    assert not early([*all_wait, first[0], "1 arrive - -", *first[1:], *all_wait[1:]])
    assert early([*all_wait, first[0], "1 arrive - -", *first[1:], "1 pass h 1,2,3"])
    assert not early([*all_wait, first[0], "2 broken - -", "3 killed - -"])
    assert early(["1 arrive - -", "2 arrive - -", "1 pass g 1,2,3"])


@pytest.mark.parametrize("way", ["once", "again"])
def test_nobody_passes_early_while_parties_are_killed(url: str, tmp_path: Path, way: str) -> None:
    """A new process takes the place of each that is killed."""
    log = tmp_path / "log"
    draw = random.Random(7)
    processes = [started(url, log, way) for _ in range(PARTIES)]
    try:
        for _ in range(KILLS):
            count = passes(log)
            until(lambda count=count: passes(log) > count + 5)  # type: ignore[misc]
            victim = processes.pop(draw.randrange(len(processes)))
            victim.kill()
            victim.wait(PATIENCE)
            with log.open("ab", 0) as file:
                file.write(f"{victim.pid} killed - -\n".encode())
            processes.append(started(url, log, way))
    finally:
        end(processes)
    assert not early(lines(log))
