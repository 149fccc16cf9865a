"""Nodes: instances of their own, outputs after what is durable, and every failure kept where it
happened.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests import virtual
from tests.unit.runtimes.live.conftest import PATIENCE, guise, node_on_loop

from habemus import boottime
from habemus.algorithms.election.terms import Heartbeat
from habemus.algorithms.mutex.elected_coordinator import ElectedCoordinatorLeased
from habemus.core import Durable, Message, Process, ProcessId, System, request, upon
from habemus.core.system import complete
from habemus.deployment.services import services_of
from habemus.problems.mutex import Granted
from habemus.runs.setup import BadSetup
from habemus.runtimes.live.clients.protocol import WIRE_VERSION
from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.hosting.failures import InstanceFailed, NodeStopped, TooMany
from habemus.runtimes.live.hosting.node import Node
from habemus.runtimes.live.peers import peer_client as dialling
from habemus.runtimes.live.peers.codec import Deframer, encoded, frame_of, framed, greeting_of
from habemus.runtimes.live.peers.frames import Challenge, Hello, MessageFrame, OpenFrame, Proof
from habemus.runtimes.live.peers.handshake import DiallerHandshake, wire_refusal
from habemus.runtimes.live.peers.peer_server import PeerConnection
from habemus.runtimes.live.storage.log import CorruptStorage, StableMemory, StorageFailed


class Number(Message):
    value: int


class Counting(Process):
    """Counts, in stable memory, and tells everybody; some numbers it does not like."""

    count: Durable[int] = 0
    heard: int = 0

    @request
    def add(self, value: int) -> None:
        if value == 13:
            raise ZeroDivisionError("thirteen")
        if value == 14:
            raise SystemExit(0)
        self.count += value
        self.broadcast(Number(self.count))

    @request
    def tell(self, value: int) -> None:
        self.broadcast(Number(value))

    @upon(Number)
    def hear(self, sender: ProcessId, number: Number) -> None:
        if number.value == 666:
            raise KeyError("six hundred")
        self.heard = number.value


def counting() -> System:
    return System(dict.fromkeys((1, 2, 3), Counting()), complete((1, 2, 3)), (1, 2, 3))


class Greeting(Process):
    """Says hello when it starts, and never does anything else."""

    @request
    def wait(self) -> None: ...

    def on_start(self) -> None:
        self.broadcast(Number(1))

    @upon(Number)
    def hear(self, sender: ProcessId, number: Number) -> None: ...


def greeting() -> System:
    return System(dict.fromkeys((1, 2, 3), Greeting()), complete((1, 2, 3)), (1, 2, 3))


def process(node: Node, service: str = "counts", name: str = "x") -> Any:
    return node.open(service, name).processes[node.me].pure.parts[0]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(
    "algorithm", ["ricart-agrawala", "central", "token-ring", "quorum-yield", "elected-coordinator"]
)
def test_a_lock_between_three_nodes(cluster: Any, algorithm: str, loop: str) -> None:
    async def main() -> None:
        async with cluster({"locks": algorithm}) as made:
            clients = [made.client(number, "locks", "printer") for number in (1, 2, 3)]
            inside: list[int] = []

            async def visits(number: int) -> None:
                for _ in range(5):
                    clients[number].ask("acquire")
                    assert isinstance(await clients[number].hear(), Granted)
                    inside.append(number)
                    assert len(inside) == 1
                    await asyncio.sleep(0)
                    inside.remove(number)
                    clients[number].ask("release")

            await asyncio.gather(*map(visits, range(3)))
            assert not any(each.failed for node in made.nodes.values() for each in node.instances())

    if loop == "uvloop":
        pytest.importorskip("uvloop").run(main())
    else:
        virtual.run(main())


def test_instances_know_nothing_of_each_other(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "ricart-agrawala", "others": "ricart-agrawala"}) as made:
            places = [("locks", "printer"), ("locks", "scanner"), ("others", "printer")]
            holders = [
                made.client(number, *place) for number, place in zip((1, 2, 3), places, strict=True)
            ]
            for holder in holders:
                holder.ask("acquire")
                await holder.hear()  # all three are inside at once, each in its own
            waiter = made.client(2, "locks", "printer")
            waiter.ask("acquire")
            holders[1].ask("release")
            holders[2].ask("release")
            await made.client(1, "locks", "scanner").visit()
            assert waiter.heard.empty()
            holders[0].ask("release")
            assert isinstance(await waiter.hear(), Granted)

    virtual.run(main())


def test_an_instance_that_must_be_started_everywhere_is(cluster: Any) -> None:
    """Nobody but process 1 makes the token, and node 3 alone is asked; also when node 1 comes up
    later.
    """

    async def main() -> None:
        async with cluster({"rings": "token-ring"}, only=(2, 3)) as made:
            client = made.client(3, "rings", "r")
            client.ask("acquire")
            await cluster.until(lambda: made.nodes[2].instances())
            await made.start(1)
            assert isinstance(await client.hear(), Granted)

    virtual.run(main())


def test_a_peer_that_was_away_hears_of_it_again(cluster: Any) -> None:
    """It had been told, and has forgotten; nothing else would remind it."""

    async def main() -> None:
        async with cluster({"greetings": greeting()}) as made:
            made.nodes[2].open("greetings", "x")
            await cluster.until(lambda: made.nodes[1].instances() and made.nodes[3].instances())
            await cluster.until(
                lambda: all(node.counts["received"] >= 4 for node in made.nodes.values())
            )
            await made.stop(1)
            await cluster.until(lambda: 1 not in made.nodes[2].reaches())
            node = await made.start(1)
            await cluster.until(node.instances)

    virtual.run(main())


def test_what_does_something_when_it_starts_is_never_forgotten(cluster: Any) -> None:
    """Though its state is as at first: made again, it would say hello again."""

    async def main() -> None:
        async with cluster({"greetings": greeting(), "locks": "central"}, idle_us=20_000) as made:
            made.nodes[2].open("greetings", "x")
            made.nodes[2].open("locks", "x")
            await cluster.until(lambda: made.nodes[2].counts["forgotten"] == 1)
            for _ in range(3):
                made.nodes[2].open("locks", "again")
                before = made.nodes[2].counts["forgotten"]
                await cluster.until(
                    lambda before=before: made.nodes[2].counts["forgotten"] > before
                )
            assert [each.title for each in made.nodes[2].instances()] == ["greetings/x"]

    virtual.run(main())


# Many locks, one election.


def told(node: Node, name: str) -> Any:
    """Who leads, as one lock on the node knows it."""
    return process(node, "locks", name).coordinator


def test_locks_share_one_election(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "elected-coordinator"}) as made:
            clients = {name: made.client(2, "locks", name) for name in "abc"}
            for client in clients.values():
                await client.visit()
            assert {each.title for each in made.nodes[2].instances()} == {
                "locks-election/all",
                "locks/a",
                "locks/b",
                "locks/c",
            }
            known = [(node, name) for node in made.nodes.values() for name in "abc"]
            await cluster.until(
                lambda: len({told(*each) for each in known}) == 1 and told(*known[0]) is not None
            )
            leader = told(made.nodes[2], "a")
            # The last to enter is another one: what the leader lent to itself counts as lent until
            # it is back, for nobody records that it has left.
            other = next(number for number in sorted(made.nodes) if number != leader)
            for name in "abc":
                await made.client(other, "locks", name).visit()
            await made.stop(leader)
            others = sorted(made.nodes)
            for name in "abc":  # every lock is told of the new leader, and goes on
                await made.client(others[0], "locks", name).visit()
                await made.client(others[1], "locks", name).visit()
            await made.client(
                others[0], "locks", "new"
            ).visit()  # also one that is made after the news
            back = await made.start(leader)
            await cluster.until(lambda: told(back, "a") in others)
            await made.client(leader, "locks", "a").visit()

    virtual.run(main())


@pytest.mark.parametrize("election", ["terms", "omega", "omega-recovery"])
def test_every_election_that_sees_to_itself_can_be_shared(cluster: Any, election: str) -> None:
    """Omega says who leads when it starts, and perhaps never again: that, too, is news."""

    async def main() -> None:
        async with cluster({}, only=()) as made:
            given = services_of(
                "locks", "elected-coordinator", (f"elected_by={election}",), "", made.addresses
            )
            made.services = {}
            for number in (1, 2, 3):
                made.nodes[number] = node_on_loop(made.settings(number), given)
                await made.nodes[number].start(made._sockets.pop(number))
            for number in (1, 2, 3):
                await made.client(number, "locks", "x").visit()

    virtual.run(main())


def test_an_election_that_somebody_must_call_is_not_shared() -> None:
    nodes = (1, 2, 3)
    assert [
        each.name for each in services_of("locks", "elected-coordinator-leased", (), "", nodes)
    ] == ["locks-election", "locks"]
    assert [
        each.name
        for each in services_of("locks", "elected-coordinator-leased", (), "", nodes, shared=False)
    ] == ["locks"]
    assert [
        each.name for each in services_of("locks", "elected-coordinator-bully", (), "", nodes)
    ] == ["locks"]
    assert [each.name for each in services_of("locks", "ricart-agrawala", (), "", nodes)] == [
        "locks"
    ]
    with pytest.raises(BadSetup, match="no election that its instances can share"):
        services_of("locks", "ricart-agrawala", (), "", nodes, shared=True)


# Stable memory.


class Gate:
    """Stands before the disk until it is opened."""

    def __init__(self, node: Node) -> None:
        memory = node._memory
        assert memory is not None
        self._commit = memory.commit
        self.opened = threading.Event()
        self.reached = threading.Event()
        self.batches: list[int] = []
        memory.commit = self._pass  # type: ignore[method-assign]  # in the place of the real one

    def _pass(self, entries: Any) -> None:
        self.reached.set()
        assert self.opened.wait(60)
        self.batches.append(len(entries))
        self._commit(entries)


def test_no_output_leaves_before_what_is_durable_is_stored(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": counting()}) as made:
            one, two = made.nodes[1], made.nodes[2]
            one.open("counts", "x")
            two.open("counts", "x")
            await cluster.until(
                lambda: one._steps.is_idle and two._steps.is_idle and one.reaches() == [2, 3]
            )
            gate = Gate(one)
            asked = asyncio.ensure_future(one.request("counts", "x", "add", 5))
            await cluster.until(gate.reached.is_set)
            one.make_request(
                "counts", "x", "tell", 7
            )  # changes nothing durable, and yet must not overtake
            sent = one.counts["sent"]
            one.make_request(
                "counts", "y", "tell", 1
            )  # another instance; its start waits for the disk as well
            for _ in range(50):
                await asyncio.sleep(0)
            assert (one.counts["sent"], asked.done(), process(two).heard) == (sent, False, 0)
            assert process(one).count == 5
            gate.opened.set()
            await asked
            await cluster.until(lambda: process(two).heard == 7)

    virtual.run(main())


def test_what_is_not_durable_does_not_wait_for_the_disk(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": counting(), "locks": "ricart-agrawala"}) as made:
            one = made.nodes[1]
            gate = Gate(one)
            one.make_request("counts", "x", "add", 5)
            await cluster.until(gate.reached.is_set)
            await made.client(1, "locks", "printer").visit()
            gate.opened.set()

    virtual.run(main())


def test_the_first_frame_of_a_turn_is_sent_at_once_and_the_others_together(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": counting()}) as made:
            one, two = made.nodes[1], made.nodes[2]
            one.open("counts", "x")
            two.open("counts", "x")
            await cluster.until(
                lambda: one._steps.is_idle and two._steps.is_idle and one.reaches() == [2, 3]
            )
            turn, link = one._network.turn, one._network._links[2]
            for first in (1, 4):  # in each of two turns
                writes = one.counts["writes"]
                turn.open()
                for count in range(first, first + 3):
                    one.make_request("counts", "x", "tell", count)
                    assert one.counts["writes"] == writes + 2  # to two peers
                turn.close()
                assert one.counts["writes"] == writes + 4
            await cluster.until(lambda: process(two).heard == 6)

            turn.open()
            link._connection.takes_more = False
            one.make_request("counts", "x", "tell", 7)
            link._connection.takes_more = True
            one.make_request("counts", "x", "tell", 8)  # behind the frame that waits
            turn.close()
            await cluster.until(lambda: process(two).heard == 8)

    virtual.run(main())


def test_many_instances_share_one_sync(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": counting()}) as made:
            one = made.nodes[1]
            gate = Gate(one)
            asked = [
                asyncio.ensure_future(one.request("counts", f"{number}", "add", 1))
                for number in range(100)
            ]
            await cluster.until(gate.reached.is_set)
            more = [
                asyncio.ensure_future(one.request("counts", f"{number}", "add", 1))
                for number in range(100)
            ]
            await asyncio.sleep(0)
            gate.opened.set()
            await asyncio.gather(*asked, *more)
            assert gate.batches[:2] == [200, 100]  # each started and added; then each added again
            assert one.counts["batches"] <= 3
            # and what goes to one peer in one turn goes in one write
            await cluster.until(lambda: one.reaches() == [2, 3])
            writes = one.counts["writes"]
            for number in range(100):
                one.make_request("counts", f"{number}", "tell", 1)
            for _ in range(3):
                await asyncio.sleep(0)
            assert one.counts["writes"] - writes <= 2

    virtual.run(main())


def test_what_was_stored_is_back_after_a_restart(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": counting()}) as made:
            for number in range(10):
                await made.nodes[1].request("counts", f"{number}", "add", number)
            await made.stop(1)
            node = await made.start(1)
            assert len(node.instances()) == 10
            assert [process(node, name=f"{number}").count for number in range(10)] == list(
                range(10)
            )
            assert [process(node, name=f"{number}").heard for number in range(10)] == [0] * 10

    virtual.run(main())


def test_a_participant_stays_down_until_nobody_can_be_inside_any_more(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with cluster({"locks": "elected-coordinator"}) as made:

            async def is_down_after_restart() -> bool:
                await made.stop(1)
                node = await made.start(1)
                return node.participant("locks", "x").deferred_requests is not None

            await made.client(1, "locks", "x").visit()
            assert not await is_down_after_restart()
            with monkeypatch.context() as crash:  # as far as its memory is concerned
                crash.setattr(StableMemory, "leave_vacant", lambda _: None)
                assert await is_down_after_restart()
            assert (
                await is_down_after_restart()
            )  # in this life nobody was let in; in the one before perhaps
            await made.client(1, "locks", "x").visit()  # a request waits
            assert not await is_down_after_restart()

    virtual.run(main())


def test_hand_overs_of_leased_locks_wait_for_no_disk(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": ElectedCoordinatorLeased.system(3, ahead=100)}) as made:

            def counted(what: str) -> int:
                return sum(node.counts[what] for node in made.nodes.values())

            clients = [made.client(number, "locks", "x") for number in (1, 2, 3)]
            for client in clients:
                await client.visit()
            stored, written = counted("batches"), counted("written")
            for client in 10 * clients:
                await client.visit()
            assert counted("written") - written >= 30
            # Two for each hand-over, if they were synced; some, if there was another election.
            assert counted("batches") - stored < 15

    virtual.run(main())


def test_a_node_whose_machine_has_crashed_starts_when_its_leases_have_expired(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with cluster({"locks": "elected-coordinator-leased"}) as made:
            loop = asyncio.get_running_loop()
            down_us = max(each.stable[1].down_us for each in made.nodes[1].services)
            assert down_us > 0

            async def waited_us() -> int:
                await made.client(1, "locks", "x").visit()
                await made.stop(1)
                began = loop.time()
                node = await made.start(1)
                assert node._grace_us(node.open("locks", "x")) == 0
                assert round((loop.time() - began) * 1_000_000) >= node._waited_us
                return int(node._waited_us)

            assert await waited_us() == 0
            with monkeypatch.context() as crash:
                crash.setattr(StableMemory, "_end_recent", crashed)
                crash.setattr(boottime, "boot_id", lambda: b"another boot....")
                assert await waited_us() == down_us
            assert await waited_us() == 0

    def crashed(memory: StableMemory) -> None:
        raise StorageFailed("the machine has crashed")

    virtual.run(main())


def test_a_node_that_was_killed_is_not_ready_until_it_takes_part_in_all_locks(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another node failed before that, no majority would be left to renew or move locks."""

    async def main() -> None:
        async with cluster({"locks": "elected-coordinator-leased"}) as made:
            await made.client(1, "locks", "x").visit()
            await made.stop(1)
            node = await made.start(1)
            assert node.unsettled() == []
            await made.client(1, "locks", "x").visit()
            with monkeypatch.context() as crash:  # as far as its memory is concerned
                crash.setattr(StableMemory, "leave_vacant", lambda _: None)
                await made.stop(1)
            node = await made.start(1)
            process = node.participant("locks", "x")
            assert process.deferred_requests is not None
            assert node.impediments()
            assert "does not take part in 1 lock yet" in node.unsettled()[0]
            await cluster.until(lambda: process.deferred_requests is None)
            await cluster.until(lambda: not node.impediments())

    virtual.run(main())


def test_memory_of_another_algorithm_is_refused(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": counting()}, only=(1,)) as made:
            await made.nodes[1].request("counts", "x", "add", 1)
            await made.stop(1)
            made.services = {"counts": "quorum-durable"}
            with pytest.raises(CorruptStorage, match=r"stable memory of counts does not fit"):
                await made.start(1)
            made.nodes.clear()
            made.services = {"counts": counting()}
            assert process(await made.start(1)).count == 1

    virtual.run(main())


def test_a_disk_that_fails_stops_the_node(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": counting()}) as made:
            one, two = made.nodes[1], made.nodes[2]
            await one.request("counts", "x", "add", 1)
            await cluster.until(lambda: process(two).heard == 1)
            memory = one._memory
            assert memory is not None

            class Broken:
                def write(self, data: bytes) -> None: ...

                def sync(self) -> None:
                    raise OSError(5, "Input/output error")

                def close(self) -> None: ...

            memory._disk.close()
            memory._disk = Broken()
            with pytest.raises(NodeStopped, match="Input/output error"):
                await one.request("counts", "x", "add", 1)
            assert isinstance(one.failure.exception(), StorageFailed)
            with pytest.raises(NodeStopped):
                one.make_request("counts", "x", "tell", 9)
            await one.stop()
            assert process(two).heard == 1

    virtual.run(main())


def test_without_a_folder_it_works_and_forgets(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": counting()}, folder=None) as made:
            await made.nodes[1].request("counts", "x", "add", 1)
            await made.stop(1)
            assert process(await made.start(1)).count == 0

    virtual.run(main())


# Instances come and go.


def test_an_idle_instance_is_forgotten_if_nobody_can_tell(cluster: Any, tmp_path: Path) -> None:
    async def main() -> None:
        services = {
            "central": "central",
            "clocked": "ricart-agrawala",
            "rings": "token-ring",
            "kept": "quorum-durable",
        }
        async with cluster(services, idle_us=100_000) as made:
            for service in services:
                client = made.client(2, service, "x")
                await client.visit()
                client.leave()
            held = made.client(3, "central", "held")
            held.ask("acquire")
            await held.hear()
            held.leave()
            for node in made.nodes.values():
                await cluster.until(
                    lambda node=node: "central/x" not in [each.title for each in node.instances()]
                )
            left = {each.title for node in made.nodes.values() for each in node.instances()}
            assert left == {"clocked/x", "rings/x", "kept/x", "central/held"}
            assert {each.title for each in made.nodes[1].instances()} >= {
                "central/held"
            }  # the coordinator is there
            await made.client(1, "central", "x").visit()  # made again, as if nothing had been
            again = made.client(2, "central", "held")
            again.ask("acquire")
            held.ask("release")
            assert isinstance(await again.hear(), Granted)

    virtual.run(main())


def test_what_is_forgotten_is_no_longer_in_stable_memory(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": counting()}, idle_us=50_000, only=(1,)) as made:
            node = made.nodes[1]
            node.open("counts", "x")
            await node.request("counts", "y", "add", 1)
            await cluster.until(lambda: len(node.instances()) == 1 and node._steps.is_idle)
            assert node._memory is not None
            assert list(node._memory.table) == ["counts/1/y"]

    virtual.run(main())


def test_limits(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "ricart-agrawala"}, most_instances=3) as made:
            node = made.nodes[1]
            for name in "abc":
                node.open("locks", name)
            with pytest.raises(TooMany):
                node.open("locks", "d")
            for wrong in ("", "x" * 201, "two\nlines"):
                with pytest.raises(ValueError, match="is not valid; use 1 to 200 printable"):
                    node.open("locks", wrong)
            with pytest.raises(LookupError, match="no service 'lock'; this cluster has locks"):
                node.open("lock", "a")
            with pytest.raises(
                ValueError, match="no request enter; it has acquire, release, write"
            ):
                node.make_request("locks", "a", "enter")
            with pytest.raises(ValueError, match="acquire takes 0 arguments, not 1"):
                node.make_request("locks", "a", "acquire", 1)
            made.nodes[2].make_request(
                "locks", "d", "acquire"
            )  # node 1 has no room for it, and drops it
            await cluster.until(lambda: node.counts["turned away"])

    virtual.run(main())


def test_a_handler_that_raises_stops_its_instance_and_nothing_else(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": counting()}) as made:
            one, two = made.nodes[1], made.nodes[2]
            with pytest.raises(
                InstanceFailed, match=r"counts/x has stopped: ZeroDivisionError: thirteen"
            ):
                one.make_request("counts", "x", "add", 13)
            with pytest.raises(InstanceFailed):
                one.make_request("counts", "x", "add", 1)
            with pytest.raises(InstanceFailed, match=r"counts/w has stopped: SystemExit: 0"):
                one.make_request("counts", "w", "add", 14)
            await one.request("counts", "y", "add", 2)
            one.make_request("counts", "z", "tell", 666)
            await cluster.until(lambda: two.counts["failed instances"] == 1)
            one.make_request("counts", "y", "tell", 3)
            await cluster.until(lambda: process(two, name="y").heard == 3)
            assert two.counts["refused"] == 0

    virtual.run(main())


def test_a_listener_that_raises_disturbs_nobody(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "ricart-agrawala"}) as made:
            made.nodes[1].subscribe("locks", "x", lambda *_: 1 / 0)
            await made.client(1, "locks", "x").visit()

    virtual.run(main())


def test_a_record_that_cannot_be_written_disturbs_nobody(
    cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with cluster({"locks": "ricart-agrawala"}, record=tmp_path / "records") as made:
            await made.client(1, "locks", "x").visit()
            recorder = made.nodes[1]._recorder
            assert recorder is not None
            kept, recorder._descriptor = recorder._descriptor, os.open("/dev/full", os.O_WRONLY)
            await made.client(1, "locks", "x").visit()
            await made.client(2, "locks", "x").visit()
            os.close(kept)

    virtual.run(main())
    assert [
        record.getMessage() for record in caplog.records if "stopped: No" in record.getMessage()
    ] == [
        f"recording to {tmp_path}/records/node-1-1.jsonl stopped: No space left on device; the node"
        " goes on"
    ]


# Connections.


def test_a_node_does_not_expose_itself_unprotected(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "ricart-agrawala"}, only=()) as made:
            for given in ({}, {"secret": b"a secret of the cluster"}):
                with pytest.raises(ValueError, match="can be reached by other machines"):
                    await made.made(1, bind=Address("0.0.0.0", 0), **given).start()
            made.nodes.clear()
            await made.start(1, insecure=True)

    virtual.run(main())


def test_a_peer_that_restarts_is_connected_to_again(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "ricart-agrawala"}) as made:
            await cluster.until(
                lambda: all(len(node.reaches()) == 2 for node in made.nodes.values())
            )
            await made.stop(2)
            await cluster.until(lambda: made.nodes[1].reaches() == [3])
            made.nodes[1].make_request("locks", "x", "acquire")  # waits in the queue for node 2
            client = made.client(1, "locks", "x")
            await made.start(2)
            assert isinstance(await client.hear(), Granted)

    virtual.run(main())


class Late:
    """The transport of a connection that was accepted before the node closed, and made after."""

    def __init__(self) -> None:
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


def test_a_connection_that_was_on_its_way_in_ends_with_the_node(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": counting()}, only=(1,)) as made:
            network = made.nodes[1]._network
        for protocol in (PeerConnection(network), network.clients.connection()):
            late: Any = Late()
            protocol.connection_made(late)
            assert late.is_aborted

    virtual.run(main())


def test_a_full_queue_loses_the_oldest_and_counts(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "QUEUE_LIMIT", 1_000)

    async def main() -> None:
        async with cluster({"counts": counting()}, only=(1,)) as made:
            one = made.nodes[1]
            for value in range(200):
                one.make_request("counts", "x", "tell", value)
            await cluster.until(lambda: one.counts["lost"] > 100)
            link = one._network._links[2]
            assert link._queued == sum(map(len, link._queue)) <= 1_000
            two = await made.start(2)
            await cluster.until(lambda: two.instances() and process(two).heard == 199)

    virtual.run(main())


def test_the_bound_of_terms_follows_what_was_stored_whatever_the_clock_says(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster has come far in its terms, and restarts on machines whose clocks are not set."""
    codec = "habemus.runtimes.live.peers.codec"
    monkeypatch.setattr(f"{codec}.TERMS_AHEAD", 1_000, raising=False)
    monkeypatch.setattr(f"{codec}.TERMS_AT_LEAST", 1_000, raising=False)
    monkeypatch.setattr("time.time", lambda: 0.0)

    async def hears(node: Node, term: int) -> None:
        _, writer = await dialled(node, 2)
        election = node.service_index("locks-election")
        kind, fields = node.services[election].codecs[1][0].encode(Heartbeat(term))
        writer.write(encoded(MessageFrame(election, "all", 1, 2, 0, kind, fields, 0)))
        await cluster.until(
            lambda: (2, term) in [each[2:] for each in node.leaders()] or node.counts["refused"]
        )
        writer.close()

    async def main() -> None:
        async with cluster({"locks": "elected-coordinator-leased"}, only=(1,)) as made:
            await hears(made.nodes[1], 900)
            await made.stop(1)
            node = await made.start(1)
            await hears(node, 1_800)
            assert node.counts["refused"] == 0
            await hears(node, 1_000_000)  # nobody can have come so far meanwhile
            assert node.counts["refused"] == 1

    virtual.run(main())


def test_heartbeats_do_not_wait_behind_messages_about_locks(cluster: Any) -> None:
    """A peer sends 5,000 frames about locks, and a heartbeat after them."""

    async def main() -> None:
        async with cluster({"locks": "elected-coordinator-leased"}, only=(1,)) as made:
            node = made.nodes[1]
            _, writer = await dialled(node, 2)
            # so slow that a slice is over after each frame
            node._slices._clock = partial(next, count(step=1_000_000_000))
            locks, election = node.service_index("locks"), node.service_index("locks-election")
            handled: list[int] = []  # frames, when the heartbeat was
            node.subscribe(
                "locks-election", "all", lambda *_: handled.append(node.counts["received"])
            )
            kind, fields = node.services[election].codecs[1][0].encode(Heartbeat(1))
            heartbeat = MessageFrame(election, "all", 1, 2, 0, kind, fields, 0)
            for number in range(5_000):
                writer.write(encoded(OpenFrame(locks, f"x{number}")))
            writer.write(encoded(heartbeat))
            await cluster.until(lambda: (2, 1) in [each[2:] for each in node.leaders()])
            assert handled[0] < 5_000
            await cluster.until(lambda: node.counts["received"] == 5_001)
            writer.close()

    virtual.run(main())


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"secret": b"another secret of theirs"}, "secret"),
        ({"cluster": "home"}, "cluster"),
        ({"record": "r"}, "different services"),
        ({"semaphores": {"printers": 4}}, "different services, semaphores or rules"),
    ],
)
def test_nodes_that_do_not_belong_together_do_not_talk(
    cluster: Any,
    given: dict[str, Any],
    reason: str,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    if "record" in given:
        given = {"record": tmp_path / "r"}

    async def main() -> None:
        async with cluster(
            {"counts": counting()},
            secret=b"a secret of the cluster",
            semaphores={"printers": 3},
            only=(1,),
        ) as made:
            await made.start(2, **given)
            await cluster.until(
                lambda: any(reason in record.getMessage() for record in caplog.records)
            )
            assert made.nodes[1].reaches() == made.nodes[2].reaches() == []
            made.nodes[2].make_request("counts", "x", "tell", 5)
            assert made.nodes[1].instances() == []

    virtual.run(main())


async def dialled(node: Node, as_node: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has shown to be that node's."""
    reader, writer = await asyncio.open_connection(*node.address)
    handshake, deframer = DiallerHandshake(guise(node, as_node), node.me), Deframer()
    writer.write(encoded(handshake.hello()))
    while not handshake.is_welcome:
        for body in deframer.feed(await reader.read(1_000)):
            greeting = greeting_of(body)
            assert not isinstance(greeting, tuple)
            answer = handshake.answer(greeting)
            if isinstance(answer, Proof):
                writer.write(encoded(answer))
    return reader, writer


@pytest.mark.parametrize(
    "frame",
    [
        MessageFrame(0, "x", 1, 3, 0, "Number", [5]),  # in the name of another
        MessageFrame(0, "x", 1, 1, 0, "Number", [5]),  # in the name of the node itself
        MessageFrame(0, "x", 3, 2, 0, "Number", [5]),  # for somebody who lives elsewhere
        MessageFrame(0, "x", 1, 2, 1, "Number", [5]),  # for a part that it does not have
        MessageFrame(1, "x", 1, 2, 0, "Number", [5]),  # of a service that there is not
        MessageFrame(0, "", 1, 2, 0, "Number", [5]),  # without a name
        MessageFrame(0, "x", 1, 2, 0, "Number", ["5"]),  # of another shape
        MessageFrame(0, "x", 1, 2, 0, "Number", [True]),
        MessageFrame(0, "x", 1, 2, 0, "Number", []),
    ],
)
def test_what_a_peer_may_not_send_costs_it_the_connection_and_has_no_effect(
    cluster: Any, frame: MessageFrame
) -> None:
    async def main() -> None:
        async with cluster(
            {"counts": counting()}, only=(1,), secret=b"a secret of the cluster"
        ) as made:
            node = made.nodes[1]
            reader, writer = await dialled(node, 2)
            writer.write(encoded(MessageFrame(0, "good", 1, 2, 0, "Number", [5])))
            await cluster.until(lambda: node.instances())
            assert process(node, name="good").heard == 5
            writer.write(encoded(frame) + encoded(MessageFrame(0, "good", 1, 2, 0, "Number", [6])))
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
            assert [each.name for each in node.instances()] == ["good"]
            assert (process(node, name="good").heard, node.counts["refused"]) == (5, 1)
            writer.close()

    virtual.run(main())


def test_what_a_peer_of_another_release_adds_is_ignored_or_dropped(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Fields are ignored, types of messages and frames are dropped; the connection stays."""

    async def main() -> None:
        async with cluster({"counts": counting()}, only=(1,)) as made:
            node = made.nodes[1]
            _, writer = await dialled(node, 2)
            bell = encoded(MessageFrame(0, "x", 1, 2, 0, "Bell", ["ding"]))
            writer.write(bell + framed(msgspec.msgpack.encode([99, 0, "x", {}])) + bell)
            known = [1, 0, "x", 1, 2, 0, "Number", [5, "more"], 0, "more"]
            writer.write(framed(msgspec.msgpack.encode(known)))
            await cluster.until(lambda: node.instances())
            assert process(node).heard == 5
            assert (node.counts["not understood"], node.counts["refused"]) == (3, 0)
            writer.close()

    virtual.run(main())
    [dropped] = [each for each in caplog.messages if each.startswith("dropped")]
    assert dropped.startswith("dropped a frame of node 2: unknown type of message 'Bell'; run one")


def test_nodes_of_two_wire_versions_say_so_at_both_ends(
    cluster: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node 2 dials with a later wire version."""

    def hello(self: DiallerHandshake) -> Hello:
        is_later = self._identity.node == 2
        return msgspec.structs.replace(self._hello, wire=WIRE_VERSION + is_later)

    monkeypatch.setattr(DiallerHandshake, "hello", hello)

    async def main() -> None:
        async with cluster({"counts": counting()}, only=(1,)) as made:
            await made.start(2)
            await cluster.until(lambda: made.nodes[1].counts["refused"])
            await cluster.until(lambda: "refused by node 1" in caplog.text)
            assert made.nodes[2].reaches() == []

    virtual.run(main())
    reason = wire_refusal("node 2", WIRE_VERSION + 1, "node 1")
    refusals = [each for each in caplog.messages if each.endswith(reason)]
    assert [each.split()[0] for each in refusals] == ["refused", "cannot"]


def test_the_newest_connection_speaks_for_a_peer(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": counting()}, only=(1,)) as made:
            old_reader, old_writer = await dialled(made.nodes[1], 2)
            _, writer = await dialled(made.nodes[1], 2)
            assert await asyncio.wait_for(old_reader.read(), PATIENCE) == b""
            writer.write(encoded(MessageFrame(0, "x", 1, 2, 0, "Number", [5])))
            await cluster.until(lambda: made.nodes[1].instances())
            for each in (old_writer, writer):
                each.close()

    virtual.run(main())


def test_a_replayed_connection_has_no_effect(cluster: Any) -> None:
    """All that was said on a good connection, said again."""

    async def main() -> None:
        async with cluster(
            {"counts": counting()}, only=(1,), secret=b"a secret of the cluster"
        ) as made:
            node = made.nodes[1]
            said: list[bytes] = []
            reader, writer = await asyncio.open_connection(*node.address)
            handshake = DiallerHandshake(guise(node, 2), 1)
            said.append(encoded(handshake.hello()))
            writer.write(said[-1])
            challenge = greeting_of(Deframer().feed(await reader.read(1_000))[0])
            assert isinstance(challenge, Challenge)
            proof = handshake.answer(challenge)
            assert isinstance(proof, Proof)
            said += [encoded(proof), encoded(MessageFrame(0, "x", 1, 2, 0, "Number", [5]))]
            writer.write(said[1] + said[2])
            await cluster.until(lambda: node.instances() and process(node).heard == 5)
            process(node).heard = 0
            received = node.counts["received"]
            again_reader, again = await asyncio.open_connection(*node.address)
            again.write(b"".join(said))
            await asyncio.wait_for(again_reader.read(), PATIENCE)
            assert (process(node).heard, node.counts["received"], node.counts["refused"]) == (
                0,
                received,
                1,
            )
            writer.close()
            again.close()

    virtual.run(main())


def test_connections_without_a_handshake_are_limited_in_number_and_time(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("habemus.runtimes.live.peers.peer_server.HANDSHAKE_SECONDS", 2.0)
    monkeypatch.setattr("habemus.runtimes.live.peers.unauthenticated.MOST_UNAUTHENTICATED", 5)

    async def main() -> None:
        async with cluster({"counts": counting()}, only=(1,)) as made:
            node = made.nodes[1]
            pairs = [await asyncio.open_connection(*node.address) for _ in range(12)]
            for reader, writer in pairs:
                with suppress(ConnectionResetError):
                    await asyncio.wait_for(
                        reader.read(), PATIENCE
                    )  # each is closed, sooner or later
                writer.close()
            assert node.counts["turned away"] == 12 - 5
            assert node.counts["refused"] == 5

    virtual.run(main())


def test_a_frame_is_what_was_sent() -> None:
    frame = frame_of(Deframer().feed(encoded(MessageFrame(0, "x", 1, 2, 0, "Number", [5])))[0])
    assert frame == MessageFrame(0, "x", 1, 2, 0, "Number", [5])
