"""Messages of Ricart and Agrawala as gRPC calls between clients.

    Request    a call RequestAccess to the peer
    Reply      the return of that call; a deferred reply is a call that has not returned yet
    Release    a call ReleaseAccess, whose answer is empty

A call that fails is repeated with the same stamp until the peer answers: only `access_granted =
true` is a reply.  A call that a peer repeats after a broken connection is the same request.

A call that no client of the group can have made does not reach the process.  Its answer is
`access_granted = false`, not an error, because programs of other authors count an error as a reply.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import grpc
from google.protobuf.empty_pb2 import Empty

from habemus.algorithms.mutex.ricart_agrawala import Release, Reply, Request
from habemus.core.values import Message
from habemus.printing.group import Group
from habemus.printing.serving import CHANNEL, MUTUAL_EXCLUSION, is_stamp
from habemus.printing.wire import distributed_printing_pb2 as pb2
from habemus.printing.wire import distributed_printing_pb2_grpc as stubs
from habemus.printing.words import Tell
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.peers.codec import HEADER_SIZE, frame_of
from habemus.runtimes.live.peers.frames import MessageFrame

NUMBER = "habemus-message"
"""Metadata key of the number of the message in the sender's record; other programs ignore it."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""Seconds before a failed call is repeated."""
NOTICE_SECONDS = 5.0
HELD_OF_ONE = 16
"""Most calls of one peer that wait for a reply; a peer may have abandoned some of them."""
MOST_COMPLAINTS = 100
LARGEST_NUMBER = 1 << 31
"""Request numbers wrap around here."""

Received = Callable[[int, Message, int], None]
"""Callback: the peer, the message, and its number in the peer's record, or 0."""


class GrpcTransport:
    def __init__(
        self,
        group: Group,
        service: Service,
        received: Received,
        clock: Callable[[], int],
        tell: Tell,
    ) -> None:
        self._group = group
        self._service = service
        self._received = received
        self._clock = clock
        self._tell = tell
        self.request_number = 0
        self._channels = {
            peer: grpc.aio.insecure_channel(str(place), options=CHANNEL)
            for peer, place in group.peers.items()
        }
        self._stubs = {
            peer: stubs.MutualExclusionServiceStub(channel)
            for peer, channel in self._channels.items()
        }
        self._asking: dict[int, asyncio.Task[None]] = {}  # by peer: the open request to it
        self._notices: set[asyncio.Task[None]] = set()
        self._held: defaultdict[int, list[asyncio.Future[tuple[int, int]]]] = defaultdict(
            list
        )  # by peer: its calls that wait for a reply
        self._latest: dict[
            int, tuple[int, tuple[int, int] | None]
        ] = {}  # by peer: the number of its last request, and our reply to it
        self._complained: set[tuple[str, int]] = set()

    def services(self) -> dict[str, Callable[[grpc.aio.Server], None]]:
        return {
            MUTUAL_EXCLUSION.full_name: lambda server: (
                stubs.add_MutualExclusionServiceServicer_to_server(self, server)
            )
        }

    async def stop(self) -> None:
        if self._notices:
            await asyncio.wait(self._notices, timeout=1.0)
        for task in (*self._asking.values(), *self._notices):
            task.cancel()
        for channel in self._channels.values():
            await channel.close()

    def reaches(self, peer: int) -> bool:
        return self._channels[peer].get_state() is grpc.ChannelConnectivity.READY

    # From the process.

    def send(self, _node: int, frame: bytes) -> None:
        """Send a message of the process, given as the frame for another node."""
        carry = frame_of(frame[HEADER_SIZE:])
        assert isinstance(carry, MessageFrame)
        message = self._service.codecs[carry.to][carry.port].decode(carry.kind, carry.fields)
        peer = self._group.client(carry.to)
        if isinstance(message, Request):
            self._asking[peer] = _task(self._ask(peer, message, carry.number))
        elif isinstance(message, Reply):
            self._reply(peer, message, carry.number)
        elif isinstance(message, Release):
            notice = _task(self._notify(peer, message, carry.number))
            self._notices.add(notice)
            notice.add_done_callback(self._notices.discard)

    def give_up(self) -> list[int]:
        """Cancel the open requests and return the peers that have not replied; their replies no
        longer count.
        """
        silent = sorted(self._asking)
        for task in self._asking.values():
            task.cancel()
        self._asking.clear()
        return silent

    async def _ask(self, peer: int, request: Request, number: int) -> None:
        wanted = pb2.AccessRequest(
            client_id=self._group.me,
            lamport_timestamp=request.stamp,
            request_number=self.request_number % LARGEST_NUMBER,
        )
        pause = FIRST_PAUSE
        last = ""
        while True:
            call = self._stubs[peer].RequestAccess(wanted, metadata=_metadata(number))
            try:
                answer = await call
                if answer.access_granted:
                    break
                trouble = "refuses"
            except grpc.aio.AioRpcError as error:
                trouble = "unreachable" if error.code() is grpc.StatusCode.UNAVAILABLE else "fails"
                if trouble != last:
                    self._tell(
                        trouble, client=peer, place=self._group.peers[peer], why=error.code().name
                    )
            else:
                if trouble != last:
                    self._tell(trouble, client=peer)
            last = trouble
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        stamp = answer.lamport_timestamp
        if not is_stamp(stamp):
            # It is a reply all the same; only its stamp is ignored.
            self._complain("strange-stamp", peer, stamp)
            stamp = 0
        self._asking.pop(peer, None)
        self._received(peer, Reply(stamp), _number_in(await call.trailing_metadata()))

    async def _notify(self, peer: int, release: Release, number: int) -> None:
        left = pb2.AccessRelease(
            client_id=self._group.me,
            lamport_timestamp=release.stamp,
            request_number=self.request_number % LARGEST_NUMBER,
        )
        with suppress(grpc.aio.AioRpcError):  # a notice is optional
            await self._stubs[peer].ReleaseAccess(
                left, metadata=_metadata(number), timeout=NOTICE_SECONDS
            )

    def _reply(self, peer: int, reply: Reply, number: int) -> None:
        answer = (reply.stamp, number)
        self._latest[peer] = (self._latest.get(peer, (0, None))[0], answer)
        for call in self._held[peer]:
            if not call.done():
                call.set_result(answer)

    # From the peers.

    async def RequestAccess(self, asked: pb2.AccessRequest, context: Any) -> pb2.AccessResponse:
        peer = asked.client_id
        held = self._held[peer] if self._is_of_the_group(peer, asked.lamport_timestamp) else None
        if held is None or len(held) >= HELD_OF_ONE:
            return pb2.AccessResponse(access_granted=False, lamport_timestamp=self._clock())
        number = _number_in(context.invocation_metadata())
        call: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        held.append(call)
        try:
            latest, replied = self._latest.get(peer, (0, None))
            if not number or number != latest:
                self._latest[peer] = (number, None)
                self._received(peer, Request(asked.lamport_timestamp), number)
            elif replied is not None:
                call.set_result(replied)
            stamp, own = await call
        finally:
            held.remove(call)
        context.set_trailing_metadata(_metadata(own))
        return pb2.AccessResponse(access_granted=True, lamport_timestamp=stamp)

    async def ReleaseAccess(self, left: pb2.AccessRelease, context: Any) -> Empty:
        if self._is_of_the_group(left.client_id, left.lamport_timestamp):
            self._received(
                left.client_id,
                Release(left.lamport_timestamp),
                _number_in(context.invocation_metadata()),
            )
        return Empty()

    def _is_of_the_group(self, client: int, stamp: int) -> bool:
        if client == self._group.me:
            self._complain("same-id", client, stamp)
        elif client not in self._group.peers:
            self._complain("unknown", client, stamp)
        elif not is_stamp(stamp):
            self._complain("strange-stamp", client, stamp)
        else:
            return True
        return False

    def _complain(self, what: str, client: int, stamp: int) -> None:
        """Report each problem once, so that repeated calls do not fill the screen."""
        if (what, client) not in self._complained and len(self._complained) < MOST_COMPLAINTS:
            self._complained.add((what, client))
            self._tell(what, client=client, stamp=stamp)


def _task(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work)


def _metadata(number: int) -> tuple[tuple[str, str], ...]:
    return ((NUMBER, str(number)),) if number else ()


def _number_in(metadata: Any) -> int:
    """Return the number in the metadata, or 0: then the message is in no record."""
    for key, value in metadata or ():
        if (
            key == NUMBER
            and isinstance(value, str)
            and value.isascii()
            and value.isdigit()
            and len(value) < 20
        ):
            return int(value)
    return 0
