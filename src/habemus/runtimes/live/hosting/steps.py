"""The steps of the processes on a node, and what leaves them.

1. The pure process makes its step and gives a list of effects.  Timers are set at once.
2. If there is stable memory and durable variables have changed, they join the batch that is stored next, and the outputs of the step
   are held, together with those of all later steps of the same process, so that nothing overtakes.
3. When the batch is stored, or at once if nothing durable changed, the outputs leave: the step is recorded, then its messages go to the
   connections, or to a queue if their receiver lives on this node, then its indications to the listeners.

A listener may make requests; what they lead to comes after the outputs of the present step.

A handler that raises stops its own instance, whose state cannot be trusted any more; the others go
on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

import msgspec

from habemus.core.events import Event, note
from habemus.core.node import Broadcast, CancelTimer, Chosen, Effect, Indicate, Send, SetTimer
from habemus.core.process import MistakeInAlgorithm, ProcessId
from habemus.core.values import Indication, Message, Timer
from habemus.runtimes.live.hosting.instance import Cause, Held, Hosted, Instance, Told, event_of
from habemus.runtimes.live.hosting.record import Recorder
from habemus.runtimes.live.hosting.timers import Timers, now_us
from habemus.runtimes.live.hosting.turn import Turn
from habemus.runtimes.live.peers.codec import encoded
from habemus.runtimes.live.peers.frames import Carry, Unsendable
from habemus.runtimes.live.storage.commit import GroupCommit
from habemus.runtimes.live.storage.log import StableMemory, StorageFailed

log = logging.getLogger("habemus.live")

UNNUMBERED: Iterator[int] = repeat(0)
"""The numbers of messages that nobody records."""


class Steps:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        memory: StableMemory | None,  # None: what is durable lasts as long as the process
        recorder: Recorder | None,
        send: Callable[[int, bytes], None],
        failed: Callable[[StorageFailed], None],
        given_up: Callable[[Instance], None],
        counts: Counter[str],
        turn: Turn | None = None,
    ) -> None:
        self._turn = turn or Turn(loop)
        self._timers = timers
        self._recorder = recorder
        self._send_to_node = send
        self._given_up = given_up
        self._counts = counts
        self._commit = (
            None
            if memory is None
            else GroupCommit(loop, self._turn, memory, self._stored, failed, counts)
        )
        self._waiting: defaultdict[int, list[Hosted]] = defaultdict(
            list
        )  # who has outputs held, by batch
        self._local: deque[tuple[Hosted, ProcessId, int, Message, int]] = (
            deque()
        )  # messages that stay on this node
        self._delivering = False
        self._closed = False

    @property
    def is_idle(self) -> bool:
        return not self._local and (self._commit is None or self._commit.is_idle)

    def close(self) -> None:
        self._closed = True
        if self._commit is not None:
            self._commit.close()

    # Events.

    def start(self, hosted: Hosted) -> None:
        # An entry says that the process has started, even if what it keeps is still as at first.
        self._step(hosted, hosted.pure.start, ("start", (), 0), stores=hosted.keeps)

    def restore(self, hosted: Hosted, stored: bytes) -> Any:
        """Gives a process what it had stored; `Malformed` or `DecodeError` if it cannot have stored
        that.
        """
        plain = msgspec.msgpack.decode(stored)
        hosted.pure.restore(hosted.stable.state(plain))
        hosted.stored = hosted.stable.taken(hosted.pure.parts)
        return plain

    def recover(self, hosted: Hosted, plain: Any) -> None:
        """Brings a process back with what was restored."""
        self._step(hosted, lambda _: hosted.pure.recover(), ("recover", (plain,), 0))

    def request(
        self, hosted: Hosted, request: str, arguments: tuple[object, ...], told: Told
    ) -> None:
        if hosted.awaited is not None:
            hosted.awaited.append((request, arguments, told))
        else:
            self._step(hosted, hosted.pure.request, ("request", (request, *arguments), 0), told)

    def deliver(
        self, hosted: Hosted, sender: ProcessId, port: int, message: Message, number: int
    ) -> None:
        self._step(hosted, hosted.pure.deliver, ("receive", (port, sender, message), number))

    def tell(self, hosted: Hosted, part: str, news: Timer) -> None:
        """A timer expires that nobody set: news from outside the instance."""
        self._expire(hosted, (hosted.paths.index(part), news))

    def _expire(self, hosted: Hosted, expired: tuple[int, Timer]) -> None:
        hosted.timers.pop(expired, None)
        self._step(hosted, hosted.pure.fire, ("timer", expired, 0))

    def _deliver_local(self) -> None:
        self._delivering = False
        for _ in range(len(self._local)):
            self.deliver(*self._local.popleft())

    def forget(self, hosted: Hosted) -> None:
        if hosted.keeps and self._commit is not None:
            self._commit.add((hosted.key, None))

    # Steps.

    def _step(
        self,
        hosted: Hosted,
        act: Callable[..., list[Effect]],
        cause: Cause,
        told: Told = None,
        stores: bool = False,
    ) -> None:
        instance = hosted.instance
        if instance.failed is not None or self._closed or hosted.awaited is not None:
            return
        instance.is_used = True
        commit = self._commit
        try:
            effects = act(*cause[1])
            entry = self._changed(hosted, stores) if commit is not None and hosted.keeps else None
            outputs: list[Effect] = []
            for effect in effects:
                if isinstance(effect, SetTimer):
                    self._set_timer(hosted, effect)
                elif isinstance(effect, CancelTimer):
                    self._timers.cancel(hosted.timers.pop((effect.port, effect.timer), None))
                else:
                    if isinstance(effect, Send) and effect.to not in instance.service.home:
                        raise MistakeInAlgorithm(  # noqa: TRY301
                            f"{effect.message!r} is sent to {effect.to}, which is no process"
                        )
                    outputs.append(effect)
        except (Exception, SystemExit) as reason:
            self._fail(hosted, cause, reason)
            return
        if commit is not None and entry is not None:
            batch = commit.add((hosted.key, entry))
            hosted.held.append(Held(batch, cause, outputs, told))
            self._waiting[batch].append(hosted)
        elif hosted.held:
            hosted.held.append(Held(hosted.held[-1].batch, cause, outputs, told))
        else:
            self._release(hosted, cause, outputs, told)

    @staticmethod
    def _changed(hosted: Hosted, stores: bool) -> bytes | None:
        """What is to be stored, if the step has changed it."""
        now = hosted.stable.taken(hosted.pure.parts)
        if now == hosted.stored and not stores:
            return None
        hosted.stored = now
        return msgspec.msgpack.encode(hosted.stable.plain(hosted.pure.parts))

    def _set_timer(self, hosted: Hosted, effect: SetTimer) -> None:
        timer = (effect.port, effect.timer)
        replaced = hosted.timers.get(timer)
        if replaced is not None:
            self._timers.cancel(replaced)
        hosted.timers[timer] = self._timers.set(effect.after, partial(self._expire, hosted, timer))

    def _fail(self, hosted: Hosted, cause: Cause, reason: BaseException) -> None:
        instance = hosted.instance
        event = event_of(cause, hosted, now_us())
        instance.failed = f"{type(reason).__name__}: {reason}"
        self._counts["failed instances"] += 1
        log.error(
            "%s has stopped, on %s %s",
            instance.title,
            event.kind,
            event.described(),
            exc_info=reason,
        )
        for each in instance.processes.values():
            for alarm in each.timers.values():
                self._timers.cancel(alarm)
            each.timers.clear()
        self._given_up(instance)

    def _stored(self, batch: int) -> None:
        for hosted in self._waiting.pop(batch, ()):
            while hosted.held and hosted.held[0].batch <= batch:
                _, cause, outputs, told = hosted.held.popleft()
                self._release(hosted, cause, outputs, told)

    # Outputs.

    def _release(self, hosted: Hosted, cause: Cause, outputs: list[Effect], told: Told) -> None:
        numbers = (
            UNNUMBERED
            if self._recorder is None
            else _recorded(self._recorder, hosted, cause, outputs)
        )
        for effect in outputs:
            if isinstance(effect, Send):
                self._send(hosted, effect.port, effect.to, effect.message, next(numbers))
            elif isinstance(effect, Broadcast):
                for to in hosted.peers:
                    self._send(hosted, effect.port, to, effect.message, next(numbers))
        for effect in outputs:
            if isinstance(effect, Indicate):
                self._indicate(hosted, effect.indication)
        if told is not None:
            told()

    @staticmethod
    def _indicate(hosted: Hosted, indication: Indication) -> None:
        for listener in tuple(hosted.instance.listeners):
            try:
                listener(hosted.me, indication)
            except Exception:
                log.exception("a listener of %s raised", hosted.instance.title)

    def _send(
        self, hosted: Hosted, port: int, to: ProcessId, message: Message, number: int
    ) -> None:
        instance = hosted.instance
        neighbour = instance.processes.get(to)
        if neighbour is not None:
            self._local.append((neighbour, hosted.me, port, message, number))
            if not self._delivering:
                self._delivering = True
                self._turn.before_end(self._deliver_local)
            return
        try:
            kind, fields = instance.service.codecs[to][port].encode(message)
            frame = encoded(
                Carry(
                    instance.service_index, instance.name, to, hosted.me, port, kind, fields, number
                )
            )
        except Unsendable as reason:
            self._counts["lost"] += 1
            log.warning("%s: %s cannot be sent: %s", instance.title, type(message).__name__, reason)
            return
        self._send_to_node(instance.service.home[to], frame)


def _recorded(
    recorder: Recorder, hosted: Hosted, cause: Cause, outputs: list[Effect]
) -> Iterator[int]:
    """Writes the step down as events: what began it, then its outputs in order.  Gives the numbers
    of its messages.
    """
    now, me, numbers = now_us(), hosted.me, []
    events = [event_of(cause, hosted, now)]
    for effect in outputs:
        if isinstance(effect, Send | Broadcast):
            message, part = effect.message, hosted.paths[effect.port]
            for to in (effect.to,) if isinstance(effect, Send) else hosted.peers:
                numbers.append(recorder.number())
                events.append(
                    Event(now, me, "send", type(message).__name__, message, to, numbers[-1], part)
                )
        elif isinstance(effect, Indicate):
            events.append(
                Event(now, me, "indicate", type(effect.indication).__name__, effect.indication)
            )
        elif isinstance(effect, Chosen):
            events.append(
                Event(
                    now, me, "choose", "", note(effect.value), None, None, hosted.paths[effect.port]
                )
            )
    recorder.step(hosted.instance.title, events)
    return iter(numbers)
