"""A client: a process of Ricart and Agrawala, hosted as a node hosts it, and its print jobs.

The live runtime steps the process and records it like that of any node.  Around it there are

- the transport, which turns messages into calls;
- the jobs, one at a time: request, wait for the grant, print, release;
- one guard.  Ricart and Agrawala assume that no process crashes.  A peer that restarts with its
  clock at 0 may request with a smaller stamp than ours although it has replied to us, and would
  enter beside us.  A peer that did not restart cannot do that.  So the guard keeps such a request
  from the process until the process has left.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import grpc

from habemus.algorithms.mutex.ricart_agrawala import WANTED, Request, RicartAgrawala
from habemus.core.process import ProcessId
from habemus.core.values import Indication, Message
from habemus.printing.group import SERVICE, Group
from habemus.printing.serving import CHANNEL, Server
from habemus.printing.transport import LARGEST_NUMBER, GrpcTransport
from habemus.printing.wire import distributed_printing_pb2 as pb2
from habemus.printing.wire import distributed_printing_pb2_grpc as stubs
from habemus.printing.words import Tell
from habemus.problems.mutex import Granted
from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.hosting.instance import Instance
from habemus.runtimes.live.hosting.record import NodeRecorder
from habemus.runtimes.live.hosting.steps import Steps
from habemus.runtimes.live.hosting.timers import Timers, now_us, random_source

INSTANCE = "printer"
REMIND_SECONDS = 5.0
"""Seconds between two reminders of the peers that have not replied."""
GRACE_SECONDS = 1.0
PROBE_SECONDS = 1.0


class ProcessFailed(RuntimeError):
    """A handler of the process raised."""


class Printed(NamedTuple):
    """Outcome of a job."""

    text: str
    request: int
    stamp: int  # of the request for access
    waited_us: int
    success: bool
    said: str  # answer of the printer, or the error


class PrintingClient:
    def __init__(
        self,
        group: Group,
        listen: Address,
        printer: Address,
        tell: Tell,
        record: Path | None = None,
    ) -> None:
        self.group = group
        self.me = group.process(group.me)
        self.times_given_up = 0  # grants without the replies of all peers
        self.counts: Counter[str] = Counter()
        self._listen = listen
        self._printer_address = printer
        self._tell = tell
        self._record = record
        self._turn = asyncio.Lock()
        self._granted: asyncio.Future[None] | None = None
        self._outside = asyncio.Event()  # of the critical section
        self._outside.set()
        self._parked: list[
            tuple[ProcessId, Request, int]
        ] = []  # requests of peers that have forgotten their clock

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        service = self.group.service()
        self._draw = random_source(None)
        self._instance = Instance(service, 0, INSTANCE, self.me, self._draw.choice)
        self._instance.listeners.append(self._hear)
        self._local_process = self._instance.processes[self.me]
        process = self._local_process.pure.parts[0]
        assert isinstance(process, RicartAgrawala)
        self.process = process
        self._timers = Timers(loop, self._draw)
        self._transport = GrpcTransport(
            self.group, service, self._received, lambda: self.process.clock, self._tell
        )
        self._printer = grpc.aio.insecure_channel(str(self._printer_address), options=CHANNEL)
        self._recorder: NodeRecorder | None = None
        try:
            self._server = Server(self._listen, self._transport.services())
        except ValueError:
            await self._close()
            raise
        self.address = self._server.address
        if self._record is not None:
            self._recorder = NodeRecorder(self._record, SERVICE, self.me, [service])
        self._steps = Steps(
            loop,
            self._timers,
            None,
            self._recorder,
            self._transport.send,
            [service.codecs],
            self._stop_at_once,
            lambda instance: self._stop_at_once(ProcessFailed(str(instance.failed))),
            self.counts,
        )
        self._steps.start(self._local_process)
        await self._server.start()

    async def stop(self) -> None:
        """Leave the group; finish the current job first.  The other clients then block."""
        await self._server.stop(GRACE_SECONDS)
        self._steps.close()
        await self._close()

    async def _close(self) -> None:
        self._timers.close()
        await self._transport.stop()
        await self._printer.close()
        if self._recorder is not None:
            self._recorder.close(now_us())

    def waits_for(self) -> Sequence[int]:
        """Return the clients that have not replied yet."""
        return (
            [self.group.client(process) for process in self.process.awaits()]
            if self.process.state == WANTED
            else []
        )

    # Jobs.

    async def print(self, text: str) -> Printed:
        """Request access, wait for the grant, print, and release.  Jobs wait here for their turn.

        The client requests access only when the printer can be reached: a holder that cannot print
        would block the others for nothing.
        """
        text.encode("utf-8")  # raises before the request if the text cannot be sent
        async with self._turn:
            await self._printer_is_there()
            self._transport.request_number += 1
            number = self._transport.request_number % LARGEST_NUMBER
            asked = now_us()
            self._granted = asyncio.get_running_loop().create_future()
            reminding = asyncio.get_running_loop().create_task(self._remind())
            self._steps.request(self._local_process, "acquire", (), None)
            stamp = self.process.stamp
            if self._instance.failed is not None:
                raise ProcessFailed(self._instance.failed)
            if not self._granted.done():
                self.say_state()
            try:
                await self._granted
            finally:
                reminding.cancel()
            waited = now_us() - asked
            self.say_state()
            try:
                success, said = await self._use_printer(text, number)
            finally:
                self._leave()
            return Printed(text, number, stamp, waited, success, said)

    @property
    def is_inside(self) -> bool:
        return not self._outside.is_set()

    async def finish(self) -> None:
        """Return when no job of this client is being printed."""
        await self._outside.wait()

    async def _printer_is_there(self) -> None:
        try:
            await asyncio.wait_for(self._printer.channel_ready(), PROBE_SECONDS)
        except TimeoutError:
            self._tell("printer-away", place=self._printer_address)
            await self._printer.channel_ready()

    async def _use_printer(self, text: str, number: int) -> tuple[bool, str]:
        job = pb2.PrintRequest(
            client_id=self.group.me,
            message_content=text,
            lamport_timestamp=self.process.clock,
            request_number=number,
        )
        try:
            # The stamp of the answer is ignored: the printer is not a process of the algorithm.
            answer = await stubs.PrintingServiceStub(self._printer).SendToPrinter(job)
        except grpc.aio.AioRpcError as error:
            self._tell("no-printer", place=self._printer_address, why=error.code().name)
            return False, error.code().name
        return answer.success, answer.confirmation_message

    def _leave(self) -> None:
        self._steps.request(self._local_process, "release", (), None)
        self.say_state()
        self._outside.set()
        parked, self._parked = self._parked, []
        for sender, request, number in parked:
            self._steps.deliver(self._local_process, sender, 0, request, number)

    async def _remind(self) -> None:
        while True:
            await asyncio.sleep(REMIND_SECONDS)
            waits = self.waits_for()
            away = [client for client in waits if not self._transport.reaches(client)]
            self._tell("waiting", clients=waits, away=away)

    def say_state(self) -> None:
        self._tell(
            "state",
            state=self.process.state.name,
            clock=self.process.clock,
            clients=self.waits_for(),
        )

    # The process.

    def _hear(self, _process: ProcessId, indication: Indication) -> None:
        if not isinstance(indication, Granted):
            return
        self._outside.clear()
        silent = self._transport.give_up()
        if silent:
            self.times_given_up += 1
            self._tell("gave-up", clients=silent)
        if self._granted is None or self._granted.done():
            asyncio.get_running_loop().call_soon(self._leave)  # the job was cancelled
        else:
            self._granted.set_result(None)

    def _received(self, peer: int, message: Message, number: int) -> None:
        sender = self.group.process(peer)
        if isinstance(message, Request) and self._has_forgotten(sender, message):
            self._tell("forgetful", client=peer, stamp=message.stamp)
            self._parked.append((sender, message, number))
        else:
            self._steps.deliver(self._local_process, sender, 0, message, number)

    def _has_forgotten(self, sender: ProcessId, request: Request) -> bool:
        """Return whether the sender has restarted: it has replied to our request, and now requests
        with a smaller stamp.

        A request before its reply would have deferred the reply; one after it would have a stamp
        larger than ours.
        """
        process = self.process
        mine, its = (process.stamp, process.me), (request.stamp, sender)
        return process.state == WANTED and sender not in process.missing and its < mine

    def _stop_at_once(self, reason: Exception) -> None:
        if self._granted is not None and not self._granted.done():
            self._granted.set_exception(reason)


async def is_up(place: Address) -> bool:
    """Return whether a server answers at the address."""
    async with grpc.aio.insecure_channel(str(place), options=CHANNEL) as channel:
        try:
            await asyncio.wait_for(channel.channel_ready(), PROBE_SECONDS)
        except TimeoutError:
            return False
    return True
