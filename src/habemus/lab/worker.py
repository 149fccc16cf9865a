"""Worker processes: each session of the lab runs in a process of its own.

An algorithm on the page may be the user's, and may loop for ever or take all memory.  The worker
has limits on CPU time and memory, and its parent ends it when a request takes too long or when the
page is closed.  This bounds accidents.  It is not a sandbox: the code runs with the user's rights.

Requests and replies are lines of JSON over pipes.  A reply has one character before it: `=` if it
is the last one of its request, else `+`; so the parent relays replies without parsing them.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import resource
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, TypeAlias

from habemus.argument_names import FLAGS

MORE, LAST = b"+", b"="
READY = b"ready\n"
START_SECONDS = 60.0
SESSION = "habemus.lab.session:Session"
CPU_SLACK_S = 5

Answer: TypeAlias = Callable[[dict[str, Any]], Iterator[Mapping[str, Any]]]


@dataclass(frozen=True)
class WorkerLimits:
    """Bounds of one session."""

    seconds: float = 60
    """Longest time that one request may take."""
    megabytes: int = 2048
    reply_bytes: int = 64_000_000


class WorkerEnded(Exception):
    """The worker was ended, or ended by itself; the message says why."""


class WorkerProcess:
    """The parent's end of one worker.  It is started with its first request."""

    def __init__(self, limits: WorkerLimits, session: str = SESSION) -> None:
        self._limits = limits
        self._session = session
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the worker, if there is none, and wait until it can answer."""
        if self._process is not None:
            return
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "habemus.lab.worker", self._session),
            *(str(self._limits.megabytes), str(int(self._limits.seconds) + CPU_SLACK_S)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=self._limits.reply_bytes,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await process.stdout.readline()
        except TimeoutError:
            line = b""
        if line != READY:
            raise WorkerEnded(await self._why())

    async def ask(self, request: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """Yield the replies to a request.  Raise `WorkerEnded` if the worker does not survive."""
        await self.start()
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        deadline = asyncio.get_running_loop().time() + self._limits.seconds
        try:
            async with asyncio.timeout_at(deadline):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                await process.stdin.drain()
            while True:
                async with asyncio.timeout_at(deadline):
                    line = await process.stdout.readline()
                if not line:
                    raise WorkerEnded(await self._why())
                yield line[1:-1]
                if line.startswith(LAST):
                    return
        except TimeoutError:
            await self.kill()
            raise WorkerEnded(
                f"stopped: no answer within {self._limits.seconds:g} s; does a handler loop for"
                " ever?"
            ) from None
        except (ConnectionError, ValueError):  # closed pipe; a reply longer than the limit
            raise WorkerEnded(await self._why()) from None

    async def _why(self) -> str:
        code = await self.kill()
        if code == -24:  # SIGXCPU
            return "stopped: too much CPU time; does a handler loop for ever?"
        return f"the process of the session ended (code {code}); was its memory exhausted?"

    async def kill(self) -> int | None:
        """End the worker; the next request starts a new one."""
        process, self._process = self._process, None
        if process is None:
            return None
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                # A worker that closed its pipe is already ending, by itself or by a signal.
                if process.stdout is None or not process.stdout.at_eof():
                    process.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                return await process.wait()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()


def serve(answer: Answer, requests: IO[bytes], replies: IO[bytes], cpu_seconds: int) -> None:
    """Answer requests until there are no more: the loop of a worker."""
    for line in requests:
        request = json.loads(line)
        _grant_cpu_time(cpu_seconds)
        try:
            for reply in answer(request):
                _write(replies, reply)
        except MemoryError:
            _write(replies, _error(request, "out of memory"))
        except (Exception, SystemExit) as error:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            _write(replies, _error(request, what))


def _error(request: Mapping[str, Any], message: str) -> dict[str, Any]:
    return {"id": request.get("id"), "is": "error", "message": message, "done": True}


def _write(replies: IO[bytes], reply: Mapping[str, Any]) -> None:
    text = json.dumps(reply, ensure_ascii=False, separators=(",", ":"))
    replies.write((LAST if reply.get("done") else MORE) + text.encode() + b"\n")
    replies.flush()


def _grant_cpu_time(seconds: int) -> None:
    """Let the next request take so much CPU time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def main(session: str, megabytes: int, cpu_seconds: int) -> None:
    """Be a worker.  What a user's algorithm prints goes to stderr and not between the replies."""
    memory = megabytes << 20
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    module, _, name = session.partition(":")
    answer = getattr(importlib.import_module(module), name)().answer
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a user's `input()` reads no request
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        replies.write(READY)
        replies.flush()
        with FLAGS:  # the lab shows runs and checks as commands
            serve(answer, requests, replies, cpu_seconds)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
