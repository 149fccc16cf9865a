"""Steps of processes on a node, without connections and disks."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from habemus.algorithms.mutex.ricart_agrawala import Request, RicartAgrawala
from habemus.core import Indication, Message, Process, ProcessId, System, Timer, request, upon
from habemus.core.system import complete
from habemus.runtimes.live.hosting.instance import Instance
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.hosting.steps import Steps
from habemus.runtimes.live.hosting.timers import Timers, random_source
from habemus.runtimes.live.peers.codec import PortCodec, frame_of
from habemus.runtimes.live.peers.frames import MessageFrame

SIZE = 5


class Late(Timer):
    pass


class Told(Indication):
    pass


class Ping(Message):
    pass


class Waiter(Process):
    """Sends a message, sets a timer and indicates; the next request cancels the timer."""

    @request
    def wait(self) -> None:
        self.indicate(Told())
        self.set_timer(Late(), after=1_000)
        self.send(Ping(), to=2)

    @request
    def stop(self) -> None:
        self.cancel_timer(Late())

    @upon(Ping)
    def hear(self, sender: ProcessId, ping: Ping) -> None:
        pass

    @upon(Late)
    def expire(self, late: Late) -> None:
        pass


def fail(reason: object) -> None:
    pytest.fail(str(reason))


def test_messages_leave_before_timers_are_set_and_listeners_are_called_after_it() -> None:
    plan = Waiter()
    service = Service("waiters", System({1: plan, 2: plan}, complete((1, 2)), (1, 2)), (1, 2))
    codecs = [{key: [PortCodec(service.stacks[1].known_at(0))] for key in (1, 2)}]
    seen: list[tuple[str, int]] = []
    loop = asyncio.new_event_loop()
    try:
        timers = Timers(loop, random_source(1))
        steps = Steps(
            *(loop, timers, None, None),
            lambda node, frame: seen.append(("sent", len(timers))),
            *(codecs, fail, fail, Counter()),
        )
        instance = Instance(service, 0, "it", 1, lambda options: options[0])
        process = instance.processes[1]

        def stop(me: ProcessId, indication: Indication) -> None:
            seen.append(("told", len(timers)))
            steps.request(process, "stop", (), None)

        instance.listeners.append(stop)
        steps.start(process)
        steps.request(process, "wait", (), lambda: seen.append(("done", len(timers))))
    finally:
        loop.close()
    assert seen == [("sent", 0), ("told", 1), ("done", 0)]
    assert process.timers == {}


def test_a_broadcast_is_encoded_once() -> None:
    encoded: list[Any] = []

    def note(field: Any) -> Any:
        encoded.append(field)
        return field

    service = Service("locks", RicartAgrawala.system(SIZE), range(1, SIZE + 1))
    codec = PortCodec(service.stacks[1].known_at(0))
    codec._plains = {
        cls: (kind, tuple((name, note) for name, _ in plains))
        for cls, (kind, plains) in codec._plains.items()
    }

    codecs = [{key: [codec] for key in range(1, SIZE + 1)}]
    sent: dict[int, bytes] = {}
    loop = asyncio.new_event_loop()
    try:
        steps = Steps(
            loop,
            Timers(loop, random_source(1)),
            None,
            None,
            sent.__setitem__,
            codecs,
            fail,
            fail,
            Counter(),
        )
        instance = Instance(service, 0, "printer", 1, lambda options: options[0])
        process = instance.processes[1]
        steps.start(process)
        steps.request(process, "acquire", (), None)
    finally:
        loop.close()
    request = Request(1)
    assert encoded == [request.stamp]
    frames = {to: frame_of(frame[4:]) for to, frame in sent.items()}
    assert sorted(frames) == [2, 3, 4, 5]
    for to, frame in frames.items():
        assert isinstance(frame, MessageFrame)
        assert (frame.to, frame.sender) == (to, 1)
        assert codec.decode(frame.kind, frame.fields) == request
