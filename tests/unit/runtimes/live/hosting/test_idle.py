"""Idle instances: forgotten in memory and on disk, and nothing that matters is forgotten with
them.
"""

from __future__ import annotations

import asyncio
from typing import Any, Self

import pytest
from tests import virtual
from tests.unit.runtimes.live.hosting.test_node import Gate

from habemus.core import Durable, Message, Process, ProcessId, System, request, upon
from habemus.core.system import complete
from habemus.problems.fencing import GrantedWithToken, Token
from habemus.runtimes.live.hosting import idle
from habemus.runtimes.live.hosting.node import Node
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.peers.codec import Refused, encoded, frame_of
from habemus.runtimes.live.peers.frames import IdleMessageFrame

LOCKS = {"locks": "elected-coordinator-leased"}
UNLEASED = {"locks": "elected-coordinator"}


async def visit(made: Any, number: int, name: str) -> Token:
    """Enters and leaves once, as a client that then never thinks of the lock again."""
    client = made.client(number, "locks", name)
    client.ask("acquire")
    granted = await client.hear()
    client.ask("release")
    client.leave()
    assert isinstance(granted, GrantedWithToken)
    return granted.token


def in_use(node: Node) -> list[str]:
    return [each.name for each in node.instances() if each.service.name == "locks"]


def on_disk(node: Node) -> list[str]:
    assert node._memory is not None
    return sorted(key.split("/", 2)[2] for key in node._memory.table if key.startswith("locks/"))


def representative(node: Node) -> Any:
    """The process that stands for all idle locks of a node."""
    [instance] = node._idle.representatives.values()
    return instance.processes[node.me].pure.parts[0]


def is_forgotten(made: Any) -> bool:
    return all(
        in_use(node) == [] and node._steps.is_idle and on_disk(node) == [""]
        for node in made.nodes.values()
    )


@pytest.mark.parametrize("services", [LOCKS, UNLEASED], ids=["leased", "unleased"])
def test_names_are_forgotten_and_their_tokens_grow(cluster: Any, services: Any) -> None:
    """Over forgetting, a change of the leader, and a restart of all nodes."""

    async def main() -> None:
        async with cluster(services) as made:
            latest: dict[str, Token] = {}

            async def use_all(numbers: list[int]) -> None:
                for turn, name in enumerate("abcdefg"):
                    token = await visit(made, numbers[turn % len(numbers)], name)
                    assert token > latest.get(name, (0, 0))
                    latest[name] = token
                await cluster.until(lambda: is_forgotten(made))

            await use_all([1, 2, 3])
            await use_all([2, 3, 1])
            leader = representative(made.nodes[1]).coordinator
            await made.stop(leader)
            others = sorted(made.nodes)
            await use_all(others)
            await made.start(leader)
            await use_all([leader, *others])
            for number in (1, 2, 3):
                await made.stop(number)
            for number in (1, 2, 3):
                await made.start(number)
            await use_all([3, 1, 2])

    virtual.run(main())


def test_processes_that_only_recorded_a_loan_forget_it(cluster: Any) -> None:
    """Among five, one process besides the coordinator and the borrower records it."""

    async def main() -> None:
        async with cluster(LOCKS, size=5) as made:
            recorded = set()
            for number in made.nodes:
                await visit(made, number, f"of-{number}")
                recorded |= {each for node in made.nodes.values() for each in on_disk(node)}
            assert recorded > {""}
            await cluster.until(lambda: is_forgotten(made))

    virtual.run(main())


def test_no_timer_is_left_of_a_forgotten_lock(cluster: Any) -> None:
    async def main() -> None:
        async with cluster(LOCKS) as made:
            await visit(made, 2, "first")
            await cluster.until(lambda: is_forgotten(made))
            before = {number: len(node._timers) for number, node in made.nodes.items()}
            for turn in range(20):
                await visit(made, 2, f"n{turn}")
            await cluster.until(lambda: is_forgotten(made))
            for number, node in made.nodes.items():
                assert len(node._timers) <= before[number] + 3

    virtual.run(main())


@pytest.mark.parametrize("names_those_in_use", [True, False])
def test_a_lock_that_is_held_elsewhere_is_not_lent_as_an_idle_one(
    cluster: Any, names_those_in_use: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new leader does not know the lock, and a majority that has answered for all idle locks
    does not speak for it.  If their messages did not name it, it would be lent twice.
    """
    if not names_those_in_use:
        monkeypatch.setattr(idle.IdleInstances, "_in_use", lambda _, __: [])

    async def main() -> None:
        async with cluster(UNLEASED) as made:
            await visit(made, 1, "first")
            leader = representative(made.nodes[1]).coordinator
            one, other = (number for number in (1, 2, 3) if number != leader)
            held = {}
            for number, name in ((one, "x"), (other, "y")):
                held[name] = made.client(number, "locks", name)
                held[name].ask("acquire")
                await held[name].hear()
            await made.stop(leader)
            await cluster.until(
                lambda: (
                    representative(made.nodes[one]).coordinator in (one, other)
                    and representative(made.nodes[other]).coordinator in (one, other)
                )
            )
            new = representative(made.nodes[one]).coordinator
            name = "y" if new == one else "x"
            await cluster.until(lambda: representative(made.nodes[new]).settled)
            waiting = made.client(new, "locks", name)
            waiting.ask("acquire")
            for _ in range(300):
                await asyncio.sleep(0.01)
            assert waiting.heard.empty() == names_those_in_use
            held[name].ask("release")
            await waiting.hear()

    virtual.run(main())


def test_a_lock_that_wakes_before_the_answers_are_there_asks_for_itself(cluster: Any) -> None:
    async def main() -> None:
        async with cluster(LOCKS) as made:
            await visit(made, 2, "first")
            leader = made.nodes[representative(made.nodes[1]).coordinator]
            process = representative(leader)
            await asyncio.sleep(process.patience / 1e6)  # the answers to its inquiry have arrived
            process.settled, process.answers = False, {leader.me}  # as just after a take-over
            started = asyncio.get_running_loop().time()
            await visit(made, leader.me, "x")
            assert asyncio.get_running_loop().time() - started < process.patience / 1e6
            assert not process.settled

    virtual.run(main())


def test_a_replaced_node_knows_what_is_lent_and_what_is_idle(cluster: Any, tmp_path: Any) -> None:
    """It asks nodes that have an entry for some locks, and one for all that are idle."""

    async def main() -> None:
        async with cluster(UNLEASED) as made:
            await visit(made, 1, "first")
            leader = representative(made.nodes[1]).coordinator
            one, other = (number for number in (1, 2, 3) if number != leader)
            holder = made.client(one, "locks", "held")
            holder.ask("acquire")
            await holder.hear()
            await cluster.until(lambda: in_use(made.nodes[other]) == [])
            await made.stop(other)
            for path in (tmp_path / f"{other}").iterdir():
                path.unlink()
            await made.start(other, replace=True)
            await cluster.until(lambda: made.nodes[other].is_member)
            term = representative(made.nodes[one]).term
            assert representative(made.nodes[other]).term >= term >= 1
            assert in_use(made.nodes[other]) == ["held"]
            known = made.nodes[other].open("locks", "held").processes[other].pure.parts[0]
            assert known.loan is not None and known.loan.borrower == one
            assert known.term >= term

    virtual.run(main())


# A process of which little can be said but that it absorbs.


class Number(Message):
    value: int


class Numbering(Process):
    """Never uses a number twice in one instance."""

    latest: Durable[int] = 0
    heard: list[int] = []

    @request
    def use(self) -> None:
        self.latest += 1
        self.broadcast(Number(self.latest))

    @request
    def tell(self) -> None:
        self.broadcast(Number(self.latest))

    @upon(Number)
    def hear(self, sender: ProcessId, number: Number) -> None:
        self.heard.append(number.value)

    def absorb(self, idle: Self) -> bool:
        if self.heard or idle.heard:
            return False
        self.latest = max(self.latest, idle.latest)
        return True


def numbering() -> System:
    return System(dict.fromkeys((1, 2, 3), Numbering()), complete((1, 2, 3)), (1, 2, 3))


def numbers(node: Node) -> list[str]:
    return [each.name for each in node.instances()]


def test_a_copy_does_not_act_on_values_that_are_not_stored(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"numbers": numbering()}) as made:
            one, two = made.nodes[1], made.nodes[2]
            await cluster.until(lambda: one.reaches() == [2, 3])
            await one.request("numbers", "x", "use")
            await cluster.until(lambda: one._steps.is_idle)
            gate = Gate(one)
            await cluster.until(lambda: numbers(one) == [] and gate.reached.is_set())
            asked = asyncio.ensure_future(one.request("numbers", "y", "tell"))
            for _ in range(50):
                await asyncio.sleep(0)
            assert representative(one).latest == 1
            assert not asked.done() and "y" not in numbers(two)
            gate.opened.set()
            await asked
            await cluster.until(lambda: "y" in numbers(two))
            assert gate.batches[0] == 2, "the raised value and the removal are in one batch"

    virtual.run(main())


def test_a_copy_does_not_act_before_the_entry_of_its_name_is_removed(cluster: Any) -> None:
    """A crash would bring back the process that the entry describes."""

    async def main() -> None:
        async with cluster({"numbers": numbering()}) as made:
            one, two = made.nodes[1], made.nodes[2]
            await cluster.until(lambda: one.reaches() == [2, 3])
            leave = one.subscribe("numbers", "x", lambda *_: None)
            await one.request("numbers", "x", "use")
            for _ in range(2):
                await one.request("numbers", "y", "use")
            await cluster.until(lambda: numbers(one) == ["x"] and one._steps.is_idle)
            assert representative(one).latest == 2
            gate = Gate(one)
            leave()
            await cluster.until(lambda: numbers(one) == [] and gate.reached.is_set())
            asked = asyncio.ensure_future(one.request("numbers", "x", "tell"))
            for _ in range(50):
                await asyncio.sleep(0)
            assert not asked.done() and process_of(two, "x").heard == [1]
            gate.opened.set()
            await asked
            await cluster.until(lambda: process_of(two, "x").heard == [1, 2])
            assert gate.batches[0] == 1, "only the removal was pending"

    virtual.run(main())


def test_a_copy_that_is_made_while_outputs_are_released_does_not_wait_for_ever(
    cluster: Any,
) -> None:
    """The values that it was copied from are stored already, and their own outputs are not released
    yet.
    """

    async def main() -> None:
        async with cluster({"numbers": numbering()}) as made:
            one, two = made.nodes[1], made.nodes[2]
            await cluster.until(lambda: one.reaches() == [2, 3])
            leave = one.subscribe("numbers", "v", lambda *_: None)
            for name in ("v", "v", "w"):
                await one.request("numbers", name, "use")
            await cluster.until(lambda: one._steps.is_idle)
            gate = Gate(one)
            await cluster.until(lambda: numbers(one) == ["v"] and gate.reached.is_set())
            one.make_request(
                *("numbers", "x", "use"), on_done=lambda: one.make_request("numbers", "z", "tell")
            )
            leave()
            await cluster.until(lambda: numbers(one) == ["x"])
            gate.opened.set()
            await cluster.until(lambda: "z" in numbers(two))
            assert gate.batches[:2] == [2, 3], (
                "the second one has a new value, a removal and a raised value"
            )

    virtual.run(main())


def test_an_instance_with_a_listener_stays(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"numbers": numbering()}) as made:
            leave = made.nodes[1].subscribe("numbers", "x", lambda *_: None)
            await made.nodes[1].request("numbers", "y", "use")
            await cluster.until(lambda: numbers(made.nodes[1]) == ["x"])
            leave()
            await cluster.until(lambda: numbers(made.nodes[1]) == [])

    virtual.run(main())


def test_a_message_that_wakes_too_many_is_lost(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"numbers": numbering()}, most_instances=3) as made:
            node = made.nodes[1]
            frame = IdleMessageFrame(0, "", 1, 2, 0, "Number", [7], ["a", "b", "c", "d"])
            assert node._received(2, frame) is None
            assert representative(node).heard == []
            assert numbers(node) == ["a", "b", "c"]
            assert node._received(2, IdleMessageFrame(0, "", 1, 2, 0, "Number", [7], ["a"])) is None
            assert representative(node).heard == [7]
            assert process_of(node, "a").heard == [], "it was awake before"

    virtual.run(main())


def process_of(node: Node, name: str) -> Any:
    return node.open("numbers", name).processes[node.me].pure.parts[0]


def test_frames_of_idle_instances_are_checked(cluster: Any) -> None:
    malformed = IdleMessageFrame(0, "", 1, 2, 0, "Number", [7], ["", "b"])
    assert isinstance(frame_of(encoded(malformed)[4:]), Refused)

    async def main() -> None:
        async with cluster({"numbers": numbering()}) as made:
            named = IdleMessageFrame(0, "x", 1, 2, 0, "Number", [7], [])
            assert isinstance(made.nodes[1]._received(2, named), Refused)

    virtual.run(main())


def test_only_what_can_be_absorbed_is_forgotten() -> None:
    assert Service("numbers", numbering(), (1, 2, 3)).is_forgetful

    class Unforgetful(Numbering):
        absorb = Process.absorb

    system = System(dict.fromkeys((1, 2), Unforgetful()), complete((1, 2)), (1, 2))
    assert not Service("numbers", system, (1, 2)).is_forgetful
