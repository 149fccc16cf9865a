"""The proxies: each thing that can be done to a link, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tests import virtual
from tests.ports import reserved_ports

from habemus.torture.links import ProxyLink

PATIENCE = 600.0


class Receiver:
    """Writes down what it hears, and answers each chunk with its length."""

    def __init__(self) -> None:
        self.heard = b""
        self.changed = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []
        self.hearing: list[asyncio.Task[None]] = []
        self.ended = 0

    async def serve(self) -> int:
        self.server = await asyncio.start_server(self._let_in, "127.0.0.1", 0)
        port: int = self.server.sockets[0].getsockname()[1]
        return port

    def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.server.is_serving():  # it was on its way when the test ended
            writer.transport.abort()
            return
        self.writers.append(writer)
        self.hearing.append(asyncio.create_task(self._hear(reader, writer)))

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                self.heard += data
                self.changed.set()
        except ConnectionError:
            pass
        self.ended += 1
        self.changed.set()
        writer.close()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


Test = Callable[[ProxyLink, int, Receiver], Awaitable[None]]


def over_a_link(test: Test) -> None:
    async def run() -> None:
        receiver = Receiver()
        link = ProxyLink(await receiver.serve())
        try:
            await test(link, await link.listen(), receiver)
        finally:
            link.close()
            receiver.server.close()
            await hang_up(*receiver.writers)

    virtual.run(run())


async def dial(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def hang_up(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(1), PATIENCE) == b""
    except ConnectionError:
        return True


def test_bytes_pass_both_ways() -> None:
    async def test(link: ProxyLink, port: int, receiver: Receiver) -> None:
        reader, writer = await dial(port)
        writer.write(b"hello")
        await receiver.until(lambda: receiver.heard == b"hello")
        receiver.writers[0].write(b"welcome")
        assert await reader.readexactly(7) == b"welcome"
        await hang_up(writer)
        await receiver.until(lambda: receiver.ended == 1)

    over_a_link(test)


def test_held_bytes_wait_and_go_on_in_order() -> None:
    async def test(link: ProxyLink, port: int, receiver: Receiver) -> None:
        _, writer = await dial(port)
        writer.write(b"a")
        await receiver.until(lambda: receiver.heard == b"a")
        link.hold()
        link.hold()
        writer.write(b"b")
        _, other = await dial(port)  # a new connection is held, too
        other.write(b"x")
        link.let_go()  # one of two
        await asyncio.sleep(0.05)
        assert receiver.heard == b"a"
        writer.write(b"c")
        link.let_go()
        await receiver.until(lambda: len(receiver.heard) == 4)
        assert receiver.heard.replace(b"x", b"") == b"abc"
        await hang_up(writer, other)

    over_a_link(test)


def test_a_connection_that_ends_at_the_receiver_lives_on_at_the_sender() -> None:
    async def test(link: ProxyLink, port: int, receiver: Receiver) -> None:
        reader, writer = await dial(port)
        writer.write(b"a")
        await receiver.until(lambda: receiver.heard == b"a")
        link.hang_up()
        await receiver.until(lambda: receiver.ended == 1)
        end = asyncio.ensure_future(is_closed(reader))
        await asyncio.sleep(0.05)
        assert not end.done()
        link.let_go()
        assert await end
        _, other = await dial(port)
        other.write(b"b")
        await receiver.until(lambda: receiver.heard == b"ab")
        await hang_up(writer, other)

    over_a_link(test)


def test_what_a_dead_sender_had_sent_arrives_when_the_link_lets_go() -> None:
    async def test(link: ProxyLink, port: int, receiver: Receiver) -> None:
        _, writer = await dial(port)
        writer.write(b"a")
        await receiver.until(lambda: receiver.heard == b"a")
        link.hold()
        writer.write(b"last words")
        await writer.drain()
        await hang_up(writer)
        await asyncio.sleep(0.05)
        assert (receiver.heard, receiver.ended) == (b"a", 0)  # not even the end is heard
        link.let_go()
        await receiver.until(lambda: receiver.ended == 1)
        assert receiver.heard == b"alast words"

    over_a_link(test)


def test_a_sender_hears_that_the_receiver_is_dead_when_the_link_lets_go() -> None:
    async def test(link: ProxyLink, port: int, receiver: Receiver) -> None:
        reader, writer = await dial(port)
        writer.write(b"a")
        await receiver.until(lambda: receiver.heard == b"a")
        link.hold()
        receiver.writers[0].transport.abort()
        writer.write(b"to nobody")
        await receiver.until(lambda: receiver.ended == 1)
        link.let_go()
        assert await is_closed(reader)
        assert receiver.heard == b"a"
        await hang_up(writer)

    over_a_link(test)


def test_a_refused_link_breaks_and_is_not_to_be_had() -> None:
    async def test(link: ProxyLink, port: int, receiver: Receiver) -> None:
        reader, writer = await dial(port)
        writer.write(b"a")
        await receiver.until(lambda: receiver.heard == b"a")
        link.refuse()
        assert await is_closed(reader)
        again, second = await dial(port)
        assert await is_closed(again)
        link.accept()
        _, third = await dial(port)
        third.write(b"b")
        await receiver.until(lambda: receiver.heard == b"ab")
        await hang_up(writer, second, third)

    over_a_link(test)


def test_breaking_off_loses_what_is_under_way() -> None:
    async def test(link: ProxyLink, port: int, receiver: Receiver) -> None:
        reader, writer = await dial(port)
        writer.write(b"a")
        await receiver.until(lambda: receiver.heard == b"a")
        link.hold()
        writer.write(b"lost")
        await asyncio.sleep(0.05)
        link.break_off()
        link.let_go()
        assert await is_closed(reader)
        await receiver.until(lambda: receiver.ended == 1)
        assert receiver.heard == b"a"
        await hang_up(writer)

    over_a_link(test)


def test_late_bytes_keep_their_order() -> None:
    async def test(link: ProxyLink, port: int, receiver: Receiver) -> None:
        lags = iter([0.05, 0.0, 0.02, 0.0, 0.0])
        link.lag_s = lambda: next(lags, 0.0)
        _, writer = await dial(port)
        for each in (b"a", b"b", b"c", b"d"):
            writer.write(each)
            await writer.drain()
            await asyncio.sleep(0.002)
        await receiver.until(lambda: len(receiver.heard) == 4)
        assert receiver.heard == b"abcd"
        await hang_up(writer)

    over_a_link(test)


def test_nobody_behind_it() -> None:
    async def run() -> None:
        link = ProxyLink(1)  # nobody listens there
        reader, writer = await dial(await link.listen())
        assert await is_closed(reader)
        await hang_up(writer)
        link.close()
        assert not link.connections

    virtual.run(run())


def test_a_patient_link_waits_for_a_receiver_that_does_not_listen_yet() -> None:
    async def test(link: ProxyLink, port: int, receiver: Receiver) -> None:
        (late,) = reserved_ports(1)
        link.port = late
        reader, hasty = await dial(port)
        assert await is_closed(reader)
        link.patience_s = PATIENCE
        _, patient = await dial(port)
        patient.write(b"early")
        await asyncio.sleep(1)
        assert not receiver.heard
        receiver.server.close()
        receiver.server = await asyncio.start_server(receiver._let_in, "127.0.0.1", late)
        await receiver.until(lambda: receiver.heard == b"early")
        await hang_up(hasty, patient)
        await receiver.until(lambda: receiver.ended == 1)

    over_a_link(test)
