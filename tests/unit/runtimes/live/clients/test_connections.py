"""What one client or connection can do to a node, and what it cannot."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from functools import partial
from importlib import metadata
from typing import Any, cast

import pytest
from tests import virtual
from tests.unit.runtimes.live.conftest import PATIENCE, until

from habemus.runtimes.live.clients.connections import UNREAD_LIMIT, ClientConnection
from habemus.runtimes.live.clients.protocol import WIRE_VERSION
from habemus.runtimes.live.hosting.node import Node
from habemus.runtimes.live.hosting.slices import MOST_AT_ONCE
from habemus.runtimes.live.log_limits import RateLimitedLog


class Transport:
    """A connection of a client that reads everything at once."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.reading = True
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.lines += [json.loads(line) for line in data.splitlines()]

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_reading(self) -> bool:
        return self.reading

    def is_closing(self) -> bool:
        return self.is_closed

    def get_extra_info(self, name: str) -> None:
        return None

    def set_write_buffer_limits(self, **given: int) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    abort = close


def connected(node: Node) -> tuple[ClientConnection, Transport]:
    transport = Transport()
    return connected_by(node, transport), transport


def connected_by(node: Node, transport: Transport) -> ClientConnection:
    connection = node._network.clients.connection()
    connection.connection_made(cast(asyncio.Transport, transport))
    connection.data_received(b'["hello",%d,"client",null,null]\n' % WIRE_VERSION)
    assert transport.lines.pop()[0] == "welcome"
    return connection


def test_a_flood_of_lines_is_read_in_slices(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "central"}, 1) as made:
            connection, transport = connected(made.nodes[1])
            connection.data_received(b'["status",1]\n' * 20_000)
            assert 0 < len(transport.lines) < 20_000
            assert not transport.is_reading()
            await cluster.until(lambda: len(transport.lines) == 20_000)
            assert transport.is_reading()
            connection.connection_lost(None)

    virtual.run(main())


def test_lines_of_a_herd_of_clients_are_handled_in_slices(cluster: Any) -> None:
    """Each client sends one line in the same turn of the event loop."""

    async def main() -> None:
        async with cluster({"locks": "central"}, 1) as made:
            herd = [connected(made.nodes[1]) for _ in range(100)]
            for connection, _ in herd:
                connection.data_received(b'["alive",1]\n')
            assert sum(bool(transport.lines) for _, transport in herd) == MOST_AT_ONCE
            await cluster.until(lambda: all(transport.lines for _, transport in herd))
            for connection, _ in herd:
                connection.connection_lost(None)

    virtual.run(main())


def test_a_status_of_many_locks_and_waiters_is_made_in_slices(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "central"}, 1) as made:
            node = made.nodes[1]
            connection, transport = connected(node)
            for id in range(3_000):
                name = b"popular" if id < 2_500 else b"x%d" % id
                connection.data_received(
                    b'["request",%d,"locks",["%s"],null,null,1]\n' % (id, name)
                )
            await cluster.until(lambda: len(transport.lines) == 501)
            transport.lines.clear()
            time_ns = iter(range(0, 10**12, 10**6))  # each piece of work takes 1 ms
            node._slices._clock = partial(next, time_ns)
            connection.data_received(b'["status",1]\n["alive",2]\n')
            assert transport.lines == []
            await cluster.until(lambda: len(transport.lines) == 2)
            assert next(time_ns) > 500 * 10**6
            status, alive = transport.lines
            assert (status[0], alive[0]) == ("status", "alive")
            locks = {each["name"]: len(each["waiting"]) for each in status[2]["locks"]}
            assert locks == {"popular": 2_499} | {f"x{id}": 0 for id in range(2_500, 3_000)}
            connection.connection_lost(None)

    virtual.run(main())


def clients_in_status(connection: ClientConnection, transport: Transport) -> int:
    connection.data_received(b'["status",99]\n')
    status = transport.lines.pop()
    assert status[:2] == ["status", 99]
    clients: int = status[2]["clients"]
    return clients


def test_a_status_counts_clients_of_locks_and_not_its_own_readers(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "central"}, 1) as made:
            reader, _ = connected(made.nodes[1]), connected(made.nodes[1])
            assert clients_in_status(*reader) == 0
            connection, transport = connected(made.nodes[1])
            connection.data_received(b'["request",1,"locks",["x"],null,null,5]\n')
            await cluster.until(lambda: transport.lines)
            assert clients_in_status(*reader) == 1
            connection.data_received(b'["release",1]\n')  # it may come back for more
            watching, _ = connected(made.nodes[1])
            watching.data_received(b'["watch",1,"locks","x"]\n')
            assert clients_in_status(*reader) == 2
            connection.connection_lost(None)
            watching.connection_lost(None)
            await cluster.until(lambda: clients_in_status(*reader) == 0)

    virtual.run(main())


def refusal(connection: ClientConnection, transport: Transport, line: bytes) -> str:
    """Return why a node refuses a line, as a word and a text."""
    connection.data_received(line + b"\n")
    refused, _, word, why = transport.lines.pop()
    assert refused == "refused"
    return f"{word}: {why}"


def test_a_plain_request_cannot_name_an_election_or_a_semaphore(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "central"}, 1, semaphores={"x": 2}) as made:
            client = connected(made.nodes[1])
            for name, what in ((b"leader/x", "elections"), (b"semaphore/x/1", "semaphores")):
                line = b'["request",1,"locks",["a","%s"],null,null,1]' % name
                assert f"is the prefix of {what}" in refusal(*client, line)
            assert made.nodes[1].instances() == []
            connection, transport = client
            connection.data_received(b'["lead",2,"locks","x",null,null,1]\n')
            await cluster.until(lambda: transport.lines)
            assert transport.lines == [["granted", 2, None, None, 1, "leader/x"]]

    virtual.run(main())


def test_a_node_refuses_a_lease_longer_than_that_of_its_service(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "elected-coordinator-leased"}, 1) as made:
            connection, transport = connected(made.nodes[1])
            assert (
                "lease of 0.101 s is longer than that of service 'locks' (0.1 s); ask for a shorter"
                in refusal(connection, transport, b'["request",1,"locks",["x"],null,101,1]')
            )
            connection.data_received(b'["request",2,"locks",["x"],null,100,1]\n')
            await cluster.until(lambda: transport.lines)
            assert transport.lines[0][:2] == ["granted", 2]

    virtual.run(main())


def test_all_nodes_agree_on_the_size_of_a_semaphore(cluster: Any) -> None:
    """Clients with other ideas of it are refused, at every node; so there is never a third."""

    async def main() -> None:
        async with cluster({"locks": "central"}, 2, semaphores={"x": 2}) as made:
            clients = [connected(made.nodes[number]) for number in (1, 2)]
            for client in clients:
                for size in (1, 3):
                    line = b'["semaphore",%d,"locks","x",%d,null,null,1]' % (size, size)
                    assert refusal(*client, line).startswith(
                        f"bad_request: semaphore 'x' has size 2 in this cluster, not {size}; "
                    )
                assert refusal(*client, b'["semaphore",5,"locks","y",2,null,null,1]').startswith(
                    "bad_request: no semaphore 'y' in this cluster; declare its size"
                )
            for id, expected in ((6, b"2"), (7, b"null")):
                for connection, _ in clients:
                    connection.data_received(
                        b'["semaphore",%d,"locks","x",%s,null,null,1]\n' % (id, expected)
                    )

            def granted() -> list[Any]:
                return [line for _, each in clients for line in each.lines]

            await cluster.until(lambda: len(granted()) == 2)
            await asyncio.sleep(10.0)
            assert {line[-1] for line in granted()} == {"semaphore/x/1", "semaphore/x/2"}
            for (connection, transport), id in ((each, id) for each in clients for id in (6, 7)):
                if any(line[1] == id for line in transport.lines):
                    connection.data_received(b'["release",%d]\n' % id)
            await cluster.until(lambda: len(granted()) == 4)

    virtual.run(main())


def test_watching_does_not_wear_out_and_has_a_limit(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "central"}, 1) as made:
            connection, transport = connected(made.nodes[1])
            for id in range(10_001):
                connection.data_received(b'["watch",%d,"locks","x"]\n["unwatch",%d]\n' % (id, id))
            await cluster.until(lambda: len(transport.lines) == 10_001)
            assert {line[0] for line in transport.lines} == {"news"}
            transport.lines.clear()
            for id in range(1_001):
                connection.data_received(b'["watch",%d,"locks","x%d"]\n' % (id, id))
            await cluster.until(lambda: len(transport.lines) == 1_001)
            assert [line[:3] for line in transport.lines if line[0] != "news"] == [
                ["refused", 1_000, "full"]
            ]
            connection.data_received(b'["unwatch",5]\n["watch",2000,"locks","x5"]\n')
            await cluster.until(lambda: transport.lines[-1][:2] == ["news", 2_000])
            connection.connection_lost(None)
            await cluster.until(lambda: not made.nodes[1].watchers._locks)

    virtual.run(main())


def test_peers_forget_what_nobody_watches_any_more(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("habemus.runtimes.live.clients.watchers.FORGET_US", 20_000)

    async def main() -> None:
        async with cluster({"locks": "central"}, 2) as made:
            connection, transport = connected(made.nodes[1])
            await cluster.until(lambda: made.nodes[1].reaches() == [2])
            connection.data_received(
                b"".join(b'["watch",%d,"locks","x%d"]\n' % (id, id) for id in range(100))
            )
            await cluster.until(lambda: len(transport.lines) == 100)
            assert made.nodes[2].counts["received"] >= 100
            connection.connection_lost(None)
            await cluster.until(lambda: not made.nodes[2].watchers._peer_watches)

    virtual.run(main())


def test_who_has_not_shown_who_it_is_goes_first(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silent connections, many more than the limit, keep neither a peer nor a client out."""
    monkeypatch.setattr("habemus.runtimes.live.peers.unauthenticated.MOST_UNAUTHENTICATED", 3)

    async def main() -> None:
        async with cluster({"locks": "central"}, 2, only=(1,)) as made:
            node = made.nodes[1]
            silent = [await asyncio.open_connection(*node.address) for _ in range(12)]
            for reader, _ in silent[:9]:
                with suppress(ConnectionResetError):
                    assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
            assert node.counts["turned away"] == 9
            await made.start(2)
            await cluster.until(lambda: 2 in node._network.current)
            reader, writer = await asyncio.open_connection(*node.address)
            writer.write(b'["hello",%d,"client",null,null]\n' % WIRE_VERSION)
            assert b"welcome" in await asyncio.wait_for(reader.readline(), PATIENCE)
            more = [await asyncio.open_connection(*node.address) for _ in range(12)]
            writer.write(b'["alive",1]\n')
            assert await asyncio.wait_for(reader.readline(), PATIENCE) == b'["alive",1,[]]\n'
            assert 2 in node._network.current
            for _, each in (*silent, *more, (reader, writer)):
                each.close()

    virtual.run(main())


def test_nothing_is_written_to_a_connection_that_is_closing(cluster: Any) -> None:
    """The event loop would log each such write."""

    async def main() -> None:
        async with cluster({"locks": "central"}, 1) as made:
            connection, transport = connected(made.nodes[1])
            connection.send("news", 1, {})
            assert transport.lines.pop() == ["news", 1, {}]
            transport.close()
            connection.send("news", 1, {})
            assert not transport.lines
            connection.connection_lost(None)

    virtual.run(main())


class RecordingTransport(Transport):
    """Records what is written at once, and the end."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[list[str]] = []

    def write(self, data: bytes) -> None:
        super().write(data)
        self.writes.append([json.loads(line)[0] for line in data.splitlines()])

    def close(self) -> None:
        super().close()
        self.writes.append(["end"])


def test_the_first_line_of_a_turn_leaves_at_once_and_the_others_together(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "central"}, 1) as made:
            transport = RecordingTransport()
            connection = connected_by(made.nodes[1], transport)
            connection.data_received(b'["alive",1]\n["alive",2]\n["unwatch",3]\n["alive",3]\n')
            connection.data_received(b'["alive",4]\n')
            connection.send("news", 1, {})  # outside of a turn
            connection.data_received(b'["alive",5]\n["alive",6]\nnoise\n')
            assert transport.writes == [
                ["welcome"],
                *(["alive"], ["alive", "alive"]),
                ["alive"],
                ["news"],
                *(["alive"], ["alive", "refused"], ["end"]),
            ]
            connection.connection_lost(None)

    virtual.run(main())


def test_a_loss_leaves_before_the_grant_to_the_next_client(cluster: Any) -> None:
    """One client loses two locks in one turn; another waits for the second one."""

    async def main() -> None:
        async with cluster({"locks": "central"}, 1) as made:
            order: list[list[Any]] = []
            loser, other = (connected_by(made.nodes[1], OrderedTransport(order)) for _ in range(2))
            loser.data_received(
                b'["request",1,"locks",["x"],null,1000,1]\n["request",2,"locks",["y"],null,1000,1]\n'
            )
            other.data_received(b'["request",7,"locks",["y"],null,null,1]\n')
            order.clear()
            await until(lambda: ["granted", 7] in order)
            assert order == [["lost", 1], ["lost", 2], ["granted", 7]]
            loser.connection_lost(None)
            other.connection_lost(None)

    virtual.run(main())


class OrderedTransport(Transport):
    """Adds the first two fields of each line to a list that several connections share."""

    def __init__(self, order: list[list[Any]]) -> None:
        super().__init__()
        self._order = order

    def write(self, data: bytes) -> None:
        super().write(data)
        self._order += [json.loads(line)[:2] for line in data.splitlines()]


class UnendingTransport(Transport):
    """A connection that closes only when it is aborted: its client reads nothing."""

    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize("how", ["noise", "end of file"])
def test_a_connection_that_closes_too_slowly_is_aborted(cluster: Any, how: str) -> None:
    """Until then the client keeps its lock."""

    async def main() -> None:
        async with cluster({"locks": "central"}, 1) as made:
            transport = UnendingTransport()
            connection = connected_by(made.nodes[1], transport)
            if how == "noise":
                connection.data_received(b"noise\n")
            else:
                connection.eof_received()
            assert transport.is_closed and not transport.is_aborted
            await until(lambda: transport.is_aborted)
            connection.connection_lost(None)

    virtual.run(main())


def test_lines_that_a_failed_turn_left_leave_before_the_next_one(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "central"}, 1) as made:
            transport = RecordingTransport()
            connection = connected_by(made.nodes[1], transport)
            turn = made.nodes[1]._turn
            turn.open()
            connection.send("news", 1, {})
            turn.at_end(lambda: 1 // 0)
            connection.send("news", 2, {})
            with pytest.raises(ZeroDivisionError):
                turn.close()
            connection.send("news", 3, {})
            assert [line[1] for line in transport.lines] == [1, 2, 3]
            connection.connection_lost(None)

    virtual.run(main())


class UnreadTransport(Transport):
    """A connection of a client that does not read; the event loop keeps what was written."""

    unread = 0

    def get_write_buffer_size(self) -> int:
        return self.unread


@pytest.mark.parametrize("is_read", [True, False])
def test_a_client_may_be_slow_and_is_closed_when_too_much_is_unread(
    cluster: Any, caplog: pytest.LogCaptureFixture, is_read: bool
) -> None:
    async def main() -> None:
        async with cluster({"locks": "central"}, 1) as made:
            transport = UnreadTransport()
            connection = connected_by(made.nodes[1], transport)
            transport.unread = 1  # the socket has not taken all of a line
            connection.pause_writing()
            transport.unread = UNREAD_LIMIT
            connection.send("news", 1, {})
            assert not transport.is_closed
            if is_read:
                connection.resume_writing()
            transport.unread = UNREAD_LIMIT + 1  # with TLS: what it has encrypted meanwhile
            connection.send("news", 2, {})
            assert transport.is_closed is not is_read
            assert ("does not read" in caplog.text) is not is_read
            connection.connection_lost(None)

    virtual.run(main())


def test_a_log_of_refusals_is_never_silent_for_good(caplog: pytest.LogCaptureFixture) -> None:
    class Loop:
        action: Any = None

        def call_later(self, delay: float, action: Any) -> Any:
            self.action = action
            return self

    loop = Loop()
    limited_log = RateLimitedLog(cast(asyncio.AbstractEventLoop, loop))
    with caplog.at_level(logging.WARNING):
        for number in range(1_000):
            limited_log.warning("refused %d", number)
        assert caplog.messages == [f"refused {number}" for number in range(20)]
        caplog.clear()
        loop.action()
        limited_log.warning("refused again")
        assert caplog.messages == [
            "suppressed 980 more warnings of the last 60 s",
            "refused again",
        ]


def test_an_election_is_called_in_a_service_of_elections_only(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "central", "elections": "bully"}, 1) as made:
            connection, transport = connected(made.nodes[1])
            assert refusal(connection, transport, b'["elect",1,"locks","x"]') == (
                "unknown: no service 'locks' with elections to call;"
                " habemus up --algorithm bully starts a cluster that has them"
            )
            assert "bad_request" in refusal(connection, transport, b'["elect",2,"elections",""]')
            connection.data_received(b'["elect",3,"elections","x"]\n')
            assert transport.lines.pop() == ["done", 3, {"called": "x"}]
            connection.data_received(b'["watch",4,"elections","x"]\n')
            known = {"service": "elections", "name": "x", "leader": 1, "term": 0}
            assert transport.lines.pop() == ["news", 4, known]  # known before the watch began
            connection.connection_lost(None)

    virtual.run(main())


def test_unknown_lines_are_refused_and_the_connection_stays(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "central"}, 1) as made:
            connection, transport = connected(made.nodes[1])
            for line, id in [
                ('["teleport",7,"x"]', 7),
                ('["teleport"]', None),
                ('["teleport","x",[[{}]]]', None),
            ]:
                connection.data_received(line.encode() + b"\n")
                [refusal] = transport.lines
                transport.lines.clear()
                assert refusal[:3] == ["refused", id, "unsupported"]
                assert "does not know the line 'teleport'; upgrade the node" in refusal[3]
            connection.data_received(b'["status",10]\n')
            await cluster.until(lambda: bool(transport.lines))
            assert transport.lines.pop()[:2] == ["status", 10]
            assert not transport.is_closed
            connection.data_received(b'["status","x"]\n')  # not of the declared type
            assert transport.lines.pop()[2] == "bad_request"
            await cluster.until(lambda: transport.is_closed)
            connection.connection_lost(None)

    virtual.run(main())


def test_unknown_fields_at_the_end_of_a_line_are_ignored(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"locks": "central"}, 1) as made:
            connection, transport = made.nodes[1]._network.clients.connection(), Transport()
            connection.connection_made(cast(asyncio.Transport, transport))
            hello = ["hello", WIRE_VERSION, "client", None, None, None, {"new": 1}]
            connection.data_received(json.dumps(hello).encode() + b"\n")
            assert transport.lines.pop()[0] == "welcome"
            request = b'["request",1,"locks",["x"],null,null,5,false,"more",[]]\n'
            connection.data_received(request)
            assert transport.lines.pop()[:2] == ["granted", 1]
            connection.data_received(b'["release",1,{"more":1}]\n["status",2,"verbose"]\n')
            await cluster.until(lambda: bool(transport.lines))
            [status] = transport.lines
            assert status[:2] == ["status", 2] and not status[2]["locks"]
            connection.connection_lost(None)

    virtual.run(main())


@pytest.mark.parametrize(
    ("theirs", "upgrade"),
    [
        (WIRE_VERSION + 1, "node 1 to the release of the client"),
        (WIRE_VERSION - 1, "the client to the release of node 1"),
    ],
)
def test_a_client_of_another_wire_version_is_told_what_to_upgrade(
    cluster: Any, theirs: int, upgrade: str
) -> None:
    async def main() -> None:
        async with cluster({"locks": "central"}, 1) as made:
            connection, transport = made.nodes[1]._network.clients.connection(), Transport()
            connection.connection_made(cast(asyncio.Transport, transport))
            connection.data_received(b'["hello",%d,"client",null,null]\n' % theirs)
            assert transport.lines.pop()[2:] == [
                "wire_version",
                f"the client speaks wire version {theirs}, and node 1 (habemus"
                f" {metadata.version('habemus')}) speaks {WIRE_VERSION}: upgrade {upgrade}",
            ]
            connection.connection_lost(None)

    virtual.run(main())
