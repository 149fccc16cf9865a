"""The printer: it prints each job, answers when it is printed, and has no access control.

Two jobs that arrive at the same time overlap.  The printer detects that and reports it on request:
an overlap shows that the clients have failed.

A job is printed to its end even if its client dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

from habemus.core.process import Span
from habemus.printing.serving import PRINTING, Server, is_stamp
from habemus.printing.wire import distributed_printing_pb2 as pb2
from habemus.printing.wire import distributed_printing_pb2_grpc as stubs
from habemus.printing.words import Tell, on_one_line
from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.hosting.timers import now_us, random_source

KEPT_JOBS = 10_000
"""Most jobs kept for the summary."""
KEPT_TEXT = 200
"""Characters kept of each text."""
GRACE_SECONDS = 1.0


class Job(NamedTuple):
    client: int
    request: int
    stamp: int
    text: str
    began_us: int
    ended_us: int = 0


class Overlap(NamedTuple):
    """A job that began while another one was being printed."""

    job: Job
    other: Job


class Printer:
    def __init__(
        self,
        listen: Address,
        seconds_us: Span,
        tell: Tell,
        confirmation: Callable[..., str],
        end_after: int | None = None,
    ) -> None:
        self.jobs: list[Job] = []  # the first ones, as they ended
        self.overlaps: list[Overlap] = []  # the first ones
        self.printed = 0
        self.overlapping = 0
        self.done = asyncio.Event()  # all jobs that were wanted are printed
        self._listen = listen
        self._seconds_us = seconds_us
        self._tell = tell
        self._confirmation = confirmation
        self._end_after = end_after
        self._draw = random_source(None)
        self._clock = 0
        self._printing: list[Job] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = Server(self._listen, {PRINTING.full_name: self._add})
        self.address = self._server.address
        await self._server.start()

    def _add(self, server: grpc.aio.Server) -> None:
        stubs.add_PrintingServiceServicer_to_server(self, server)

    async def stop(self) -> None:
        await self._server.stop(GRACE_SECONDS)
        for task in self._tasks:
            task.cancel()

    async def SendToPrinter(self, sent: pb2.PrintRequest, _context: Any) -> pb2.PrintResponse:
        if is_stamp(sent.lamport_timestamp):
            self._clock = max(self._clock, sent.lamport_timestamp) + 1
        stamp = self._clock
        work = asyncio.get_running_loop().create_task(self._print(sent))
        self._tasks.add(work)
        work.add_done_callback(self._tasks.discard)
        await asyncio.shield(work)
        said = self._confirmation(client=sent.client_id, request=sent.request_number)
        return pb2.PrintResponse(success=True, confirmation_message=said, lamport_timestamp=stamp)

    async def _print(self, sent: pb2.PrintRequest) -> None:
        text = on_one_line(sent.message_content)
        job = Job(
            sent.client_id, sent.request_number, sent.lamport_timestamp, text[:KEPT_TEXT], now_us()
        )
        self._tell("job", client=job.client, request=job.request, stamp=job.stamp, text=text)
        if self._printing:
            self.overlapping += 1
            for other in self._printing:
                self._tell(
                    "overlap",
                    client=job.client,
                    request=job.request,
                    other=other.client,
                    other_request=other.request,
                )
                if len(self.overlaps) < KEPT_JOBS:
                    self.overlaps.append(Overlap(job, other))
        self._printing.append(job)
        duration_us = (
            self._seconds_us
            if isinstance(self._seconds_us, int)
            else self._draw.randint(*self._seconds_us)
        )
        try:
            await asyncio.sleep(duration_us / 1_000_000)
        finally:
            self._printing.remove(job)
        self.printed += 1
        if len(self.jobs) < KEPT_JOBS:
            self.jobs.append(job._replace(ended_us=now_us()))
        if self.printed == self._end_after:
            self.done.set()
