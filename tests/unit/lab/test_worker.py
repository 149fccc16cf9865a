"""A session runs in a process of its own, within limits, and its end is a line."""

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.lab.stub_session import StubSession

from habemus.lab.worker import WorkerEnded, WorkerLimits, WorkerProcess, serve

STUB = "tests.unit.lab.stub_session:StubSession"
PATIENT = WorkerLimits(seconds=60, megabytes=400)


@asynccontextmanager
async def worker(limits: WorkerLimits = PATIENT) -> AsyncIterator[WorkerProcess]:
    made = WorkerProcess(limits, STUB)
    try:
        yield made
    finally:
        await made.kill()


async def ask(made: WorkerProcess, what: str, **fields: Any) -> list[dict[str, Any]]:
    return [json.loads(each) async for each in made.ask({"id": 7, "do": what, **fields})]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_replies_come_one_by_one_from_another_process() -> None:
    async def main() -> None:
        async with worker() as made:
            echo, last = await ask(made, "echo", text="</script>\n\u2028é")
            assert echo == {"id": 7, "is": "echo", "text": "</script>\n\u2028é"}
            assert last["pid"] != os.getpid()
            [again] = await ask(made, "print")  # what it prints is not taken for a reply
            assert again["pid"] == last["pid"]
            assert (await ask(made, "long"))[0]["text"] == "x" * 3_000_000
        assert not is_running(last["pid"])

    asyncio.run(main())


def test_errors_and_a_full_memory_are_replies_and_the_worker_goes_on() -> None:
    async def main() -> None:
        async with worker() as made:
            for what, message in (
                ("nonsense", "ValueError: no nonsense here"),
                ("quit", "SystemExit: 4"),
                ("read", "EOFError: EOF when reading a line"),
                ("memory", "out of memory"),
            ):
                [error] = await ask(made, what)
                assert error == {"id": 7, "is": "error", "message": message, "done": True}
            assert len(await ask(made, "echo")) == 2

    asyncio.run(main())


def test_a_request_that_never_ends_is_ended_and_the_next_one_is_answered() -> None:
    async def main() -> None:
        async with worker(WorkerLimits(seconds=1.5, megabytes=400)) as made:
            with pytest.raises(WorkerEnded, match=r"no answer within 1\.5 s"):
                await ask(made, "loop")
        async with worker() as made:
            with pytest.raises(WorkerEnded, match="ended"):
                await ask(made, "exit")
            assert len(await ask(made, "echo")) == 2

    asyncio.run(main())


def test_killing_a_worker_ends_its_process() -> None:
    async def main() -> None:
        async with worker() as made:
            [last] = await ask(made, "print")
            await made.kill()
            assert not is_running(last["pid"])

    asyncio.run(main())


def test_the_loop_of_a_worker_marks_the_last_reply() -> None:
    requests = io.BytesIO(b'{"id": 1, "do": "echo"}\n{"id": 2, "do": "what"}\n')
    replies = io.BytesIO()
    serve(StubSession().answer, requests, replies, 1_000_000)
    assert [line[:1] for line in replies.getvalue().splitlines()] == [b"+", b"=", b"="]
