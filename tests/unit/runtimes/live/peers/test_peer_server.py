"""Connections of peers: what comes first while a node is behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

from habemus.runtimes.live.hosting.slices import TimeSlicer
from habemus.runtimes.live.hosting.turn import Turn
from habemus.runtimes.live.peers.codec import OF_NEW_NODE, encoded, message_prefix
from habemus.runtimes.live.peers.frames import MessageFrame
from habemus.runtimes.live.peers.peer_server import PeerConnection

ELECTIONS, LOCKS = 0, 1


def message(service: int, number: int) -> bytes:
    return encoded(MessageFrame(service, "x", 1, 2, 0, "Kind", [], number))


def test_a_heartbeat_does_not_wait_behind_the_work_of_clients() -> None:
    """A backlog of frames waits for its time slice, behind clients that each have theirs."""
    loop = asyncio.new_event_loop()
    try:
        turn = Turn(loop)
        slices = TimeSlicer(loop, turn, lambda: 0)
        received: list[int] = []

        def receive(peer: int, frame: Any) -> None:
            received.append(frame.number)

        network = SimpleNamespace(
            identity=None,
            turn=turn,
            slices=slices,
            urgent=frozenset([message_prefix(ELECTIONS)]),
            terms=OF_NEW_NODE,
            counts=Counter[str](),
            received=receive,
        )
        connection = PeerConnection(cast(Any, network))
        connection._handshake = cast(Any, SimpleNamespace(peer=2))
        connection._transport = cast(Any, SimpleNamespace(is_reading=lambda: True))
        connection._has_received = True
        connection._deframer.limit = 1 << 20
        slices.run(connection, iter([None]), at_once=False)  # so the frames wait, too
        connection.data_received(b"".join(message(LOCKS, number) for number in range(20)))
        assert received == []
        connection.data_received(message(ELECTIONS, 100) + message(LOCKS, 20))
        assert received == [100]
        slices._go_on()
        assert received == [100, *range(21)]
    finally:
        loop.close()
