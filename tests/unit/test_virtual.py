"""The virtual clock of the tests: it jumps over timers, and does not move for what is real."""

from __future__ import annotations

import asyncio
import time

from tests import virtual


def test_a_timer_is_not_waited_for() -> None:
    async def main() -> None:
        await asyncio.sleep(100)

    began = time.monotonic()
    virtual.run(main())
    assert time.monotonic() - began < 90


def test_an_answer_is_heard_although_only_the_deadline_for_it_is_set() -> None:
    """The thread is not known to work, and reports after many moments."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.wait_for(loop.run_in_executor(None, time.sleep, 0.05), 1_000)

    virtual.run(main())


def test_a_thread_that_works_is_waited_for_before_a_timer_that_is_later() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual.VirtualLoop)
        work = loop.run_in_executor(None, time.sleep, 0.05)
        loop.wait_for_thread(lambda: not work.done())
        await asyncio.wait_for(work, 30)
        assert loop.time() < 30

    virtual.run(main())


def test_sockets_that_are_never_quiet_do_not_stop_the_clock() -> None:
    async def main() -> None:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(1):
                writer.write(data)
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        end = asyncio.get_running_loop().time() + 0.1
        while asyncio.get_running_loop().time() < end:
            writer.write(b"x")
            await reader.readexactly(1)
        writer.close()
        await writer.wait_closed()
        server.close()

    virtual.run(main())
