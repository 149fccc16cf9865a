"""The steps of the processes on a node, and their outputs.

1. The pure process makes its step and returns effects.  Timers are set at once.
2. If there is stable memory and durable variables have changed, they join the next batch, and the
   outputs of the step are held, with those of all later steps of the same process.  Variables that
   a crash of the machine may set back are written at once instead.
3. When the batch is stored, or at once if nothing durable changed, the outputs leave: the step is
   recorded, its messages go to the connections, or to a queue for receivers on this node, and its
   indications to the listeners.

A listener may make requests; their effects follow the outputs of the present step.

A handler that raises stops its own instance, whose state cannot be trusted any more.  Other
instances go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import msgspec

from habemus.core.events import Event, note
from habemus.core.node import (
    Broadcast,
    CancelTimer,
    Chosen,
    Effect,
    Indicate,
    PureNode,
    Send,
    SetTimer,
)
from habemus.core.process import MistakeInAlgorithm, ProcessId
from habemus.core.values import Indication, Message, Timer
from habemus.runtimes.live.hosting.instance import (
    Cause,
    HeldStep,
    Instance,
    LocalProcess,
    OnDone,
    event_of,
)
from habemus.runtimes.live.hosting.record import NodeRecorder
from habemus.runtimes.live.hosting.timers import Timers, now_us
from habemus.runtimes.live.hosting.turn import Turn
from habemus.runtimes.live.monitoring.meter import Meter
from habemus.runtimes.live.peers.codec import PortCodec, encoded
from habemus.runtimes.live.peers.frames import (
    IdleMessageFrame,
    MessageFrame,
    Unsendable,
)
from habemus.runtimes.live.storage.commit import GroupCommit
from habemus.runtimes.live.storage.log import StableMemory, StorageFailed

log = logging.getLogger("habemus.live")

UNNUMBERED: Iterator[int] = repeat(0)
"""Message numbers where nothing is recorded."""


class Changed(NamedTuple):
    """Durable variables that a step has changed."""

    entry: bytes
    must_sync: bool  # a crash of the machine must not lose it


class Steps:
    """Makes the steps of all local processes, and carries out their effects."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        memory: StableMemory | None,  # None: durable variables last as long as the node
        recorder: NodeRecorder | None,
        send: Callable[[int, bytes], None],
        codecs: list[dict[ProcessId, list[PortCodec]]],  # by service, receiver and port
        failed: Callable[[StorageFailed], None],
        given_up: Callable[[Instance], None],
        counts: Counter[str],
        turn: Turn | None = None,
    ) -> None:
        self._turn = turn or Turn(loop)
        self._timers = timers
        self._recorder = recorder
        self._send_to_node = send
        self._codecs = codecs
        self._given_up = given_up
        self._counts = counts
        self._commit = (
            None
            if memory is None
            else GroupCommit(loop, self._turn, memory, self._stored, failed, counts)
        )
        # processes with held outputs, by batch
        self._waiting: defaultdict[int, list[LocalProcess]] = defaultdict(list)
        self._removals: dict[str, int] = {}  # batches that remove entries, by key
        # messages between processes of this node
        self._local: deque[tuple[LocalProcess, ProcessId, int, Message, int]] = deque()
        self._delivering = False
        self._closed = False

    def measure(self, meter: Meter) -> None:
        """Count the durations of fsync."""
        if self._commit is not None:
            self._commit.meter = meter

    @property
    def is_idle(self) -> bool:
        return not self._local and (self._commit is None or self._commit.is_idle)

    def close(self) -> None:
        self._closed = True
        if self._commit is not None:
            self._commit.close()

    # Events.

    def start(self, local_process: LocalProcess) -> None:
        # The entry marks the process as started, even if its durable variables are initial.
        self._step(local_process, ("start", (), 0), stores=local_process.keeps)

    def restore(self, local_process: LocalProcess, stored: bytes) -> Any:
        """Restore the durable variables of a process.

        Raise `Malformed` or `DecodeError` if they do not fit its class.
        """
        plain = msgspec.msgpack.decode(stored)
        local_process.pure.restore(local_process.stable.state(plain))
        local_process.stored = local_process.stable.taken(local_process.pure.parts)
        local_process.is_stored = True
        return plain

    def recover(self, local_process: LocalProcess, plain: Any) -> None:
        """Make a process recover with its restored variables."""
        self._step(local_process, ("recover", (plain,), 0))

    def request(
        self,
        local_process: LocalProcess,
        request: str,
        arguments: tuple[object, ...],
        on_done: OnDone,
    ) -> None:
        if local_process.deferred_requests is not None:
            local_process.deferred_requests.append((request, arguments, on_done))
        else:
            self._step(local_process, ("request", (request, *arguments), 0), on_done)

    def deliver(
        self,
        local_process: LocalProcess,
        sender: ProcessId,
        port: int,
        message: Message,
        number: int,
    ) -> None:
        self._step(local_process, ("receive", (port, sender, message), number))

    def tell(self, local_process: LocalProcess, part: str, news: Timer) -> None:
        """Expire a timer that carries news from outside the instance (`Feed`)."""
        self._expire(local_process, (local_process.paths.index(part), news))

    def catch_up(self, instance: Instance) -> None:
        """Tell the processes of an instance the news that they have not heard yet."""
        feed, unheard = instance.service.feed, instance.unheard
        if unheard and feed is not None:
            instance.unheard = []
            for news in unheard:
                for local_process in instance.processes.values():
                    self.tell(local_process, feed.part, news)

    def _expire(self, local_process: LocalProcess, expired: tuple[int, Timer]) -> None:
        local_process.timers.pop(expired, None)
        self._step(local_process, ("timer", expired, 0))

    def _deliver_local(self) -> None:
        self._delivering = False
        for _ in range(len(self._local)):
            local_process, sender, port, message, number = self._local.popleft()
            self.deliver(local_process, sender, port, message, number)

    def forget(self, local_process: LocalProcess) -> None:
        if local_process.is_stored and self._commit is not None:
            batch = self._commit.remove(local_process.key)
            if batch is not None:
                self._removals[local_process.key] = batch

    # Idle instances.

    def wake(self, local_process: LocalProcess, representative: LocalProcess) -> None:
        """Make a new process a copy of the representative (`idle`)."""
        local_process.pure.restore(representative.pure.capture())
        local_process.stored = representative.stored
        for (port, timer), alarm in representative.timers.items():
            self._set_timer(local_process, SetTimer(port, timer, self._timers.left(alarm)))
        # Before that, a crash would bring back what the representative or this process was.
        batch = max(
            representative.held[-1].batch if representative.held else 0,
            self._removals.get(local_process.key, 0),
        )
        if batch:
            self._hold(local_process, batch, ("wake", (), 0))
        self._step(local_process, ("wake", (), 0))

    def absorb(self, representative: LocalProcess, idle: LocalProcess) -> bool:
        """Let the representative stand for a process from now on, if possible."""
        if (
            idle.held
            or idle.timers
            or idle.deferred_requests is not None
            or representative.timers
            or representative.deferred_requests is not None
            or any(step.outputs for step in representative.held)
            or self._local
            or self._closed
            or not representative.pure.parts[0].absorb(idle.pure.parts[0])
        ):
            return False
        if self._commit is not None and representative.keeps:
            changed = self._changed(representative, stores=False)
            if changed is not None:
                batch = self._commit.add((representative.key, changed.entry))
                self._hold(representative, batch, ("absorb", (), 0))
        self.forget(idle)
        return True

    def _hold(
        self,
        local_process: LocalProcess,
        batch: int,
        cause: Cause,
        outputs: list[Effect] | None = None,
        on_done: OnDone = None,
    ) -> None:
        """Hold outputs, and all later ones of the process, until a batch is stored."""
        local_process.held.append(HeldStep(batch, cause, outputs or [], on_done))
        self._waiting[batch].append(local_process)

    # Steps.

    def _step(
        self,
        local_process: LocalProcess,
        cause: Cause,
        on_done: OnDone = None,
        stores: bool = False,
    ) -> None:
        instance = local_process.instance
        if (
            instance.failed is not None
            or self._closed
            or local_process.deferred_requests is not None
        ):
            return
        if instance.unheard:
            self.catch_up(instance)
        instance.is_used = True
        commit = self._commit
        try:
            effects = _effects(local_process.pure, cause)
            changed = (
                self._changed(local_process, stores)
                if commit is not None and local_process.keeps
                else None
            )
            timers, outputs = self._split_effects(local_process, effects)
        except (Exception, SystemExit) as reason:
            self._fail(local_process, cause, reason)
            return
        if (
            commit is not None
            and changed is not None
            and not self._write_if_unsynced(local_process, changed, commit)
        ):
            batch = commit.add((local_process.key, changed.entry))
            self._hold(local_process, batch, cause, outputs, on_done)
        elif local_process.held:
            local_process.held.append(
                HeldStep(local_process.held[-1].batch, cause, outputs, on_done)
            )
        else:
            # Messages first: other nodes wait for them.  Listeners last: they may make requests.
            self._send_all(local_process, cause, outputs)
            self._set_timers(local_process, timers)
            self._indicate_all(local_process, outputs, on_done)
            return
        self._set_timers(local_process, timers)

    @staticmethod
    def _split_effects(
        local_process: LocalProcess, effects: list[Effect]
    ) -> tuple[list[SetTimer | CancelTimer], list[Effect]]:
        """Return the timers to set and to cancel, and the other effects, which are outputs."""
        # Classes are compared with tuples: compiled, `A | B` would be made anew each time.
        timers: list[SetTimer | CancelTimer] = []
        for effect in effects:
            if isinstance(effect, Send):  # the most frequent one first
                if effect.to not in local_process.homes:
                    raise MistakeInAlgorithm(
                        f"sends {effect.message!r} to {effect.to!r}, which is not a process"
                    )
            elif isinstance(effect, (SetTimer, CancelTimer)):
                timers.append(effect)
        if not timers:  # as in most steps
            return timers, effects
        return timers, [each for each in effects if not isinstance(each, (SetTimer, CancelTimer))]

    def _set_timers(
        self, local_process: LocalProcess, timers: list[SetTimer | CancelTimer]
    ) -> None:
        for effect in timers:
            if isinstance(effect, SetTimer):
                self._set_timer(local_process, effect)
            else:
                self._timers.cancel(local_process.timers.pop((effect.port, effect.timer), None))

    @staticmethod
    def _changed(local_process: LocalProcess, stores: bool) -> Changed | None:
        """Return what to store, if the step has changed durable variables."""
        stable, parts = local_process.stable, local_process.pure.parts
        if not stores and stable.are_unchanged(parts, local_process.stored):
            return None
        must_sync = stores or stable.must_sync(parts, local_process.stored)
        local_process.stored = stable.taken(parts)
        local_process.is_stored = True
        return Changed(msgspec.msgpack.encode(stable.plain(parts)), must_sync)

    @staticmethod
    def _write_if_unsynced(
        local_process: LocalProcess, changed: Changed, commit: GroupCommit
    ) -> bool:
        """Write what need not be synced, unless an earlier step of the process is held."""
        return (
            not changed.must_sync
            and not local_process.held
            and commit.write((local_process.key, changed.entry))
        )

    def _set_timer(self, local_process: LocalProcess, effect: SetTimer) -> None:
        timer = (effect.port, effect.timer)
        replaced = local_process.timers.get(timer)
        if replaced is not None:
            self._timers.cancel(replaced)
        local_process.timers[timer] = self._timers.set(
            effect.after,
            partial(self._expire, local_process, timer),
            local_process.instance.service.is_urgent,
        )

    def _fail(self, local_process: LocalProcess, cause: Cause, reason: BaseException) -> None:
        instance = local_process.instance
        event = event_of(cause, local_process, now_us())
        instance.failed = f"{type(reason).__name__}: {reason}"
        self._counts["failed instances"] += 1
        log.error(
            "%s has stopped: its handler of %s %s raised",
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
        if self._removals:
            self._removals = {key: each for key, each in self._removals.items() if each > batch}
        while batch in self._waiting:  # what is released may wake others, which wait for it, too
            for local_process in self._waiting.pop(batch):
                while local_process.held and local_process.held[0].batch <= batch:
                    _, cause, outputs, on_done = local_process.held.popleft()
                    self._release(local_process, cause, outputs, on_done)

    # Outputs.

    def _release(
        self, local_process: LocalProcess, cause: Cause, outputs: list[Effect], on_done: OnDone
    ) -> None:
        self._send_all(local_process, cause, outputs)
        self._indicate_all(local_process, outputs, on_done)

    def _send_all(self, local_process: LocalProcess, cause: Cause, outputs: list[Effect]) -> None:
        """Record the step, and send its messages."""
        numbers = (
            UNNUMBERED
            if self._recorder is None
            else _recorded(self._recorder, local_process, cause, outputs)
        )
        for effect in outputs:
            if isinstance(effect, Send):
                self._send(local_process, effect.port, effect.to, effect.message, next(numbers))
            elif isinstance(effect, Broadcast):
                encoded_by: dict[PortCodec, tuple[str, list[Any]]] = {}
                for to in local_process.peers:
                    self._send(
                        local_process, effect.port, to, effect.message, next(numbers), encoded_by
                    )

    def _indicate_all(
        self, local_process: LocalProcess, outputs: list[Effect], on_done: OnDone
    ) -> None:
        for effect in outputs:
            if isinstance(effect, Indicate):
                self._indicate(local_process, effect.indication)
        if on_done is not None:
            on_done()

    @staticmethod
    def _indicate(local_process: LocalProcess, indication: Indication) -> None:
        instance = local_process.instance
        for listener in (*instance.feedback.get(type(indication), ()), *instance.listeners):
            try:
                listener(local_process.me, indication)
            except Exception:
                log.exception("a listener to the indications of %s raised", instance.title)

    def _send(
        self,
        local_process: LocalProcess,
        port: int,
        to: ProcessId,
        message: Message,
        number: int,
        encoded_by: dict[PortCodec, tuple[str, list[Any]]] | None = None,
    ) -> None:
        """Send a message.

        encoded_by: of a broadcast, the message as each codec of its receivers encodes it.
        """
        instance = local_process.instance
        neighbour = instance.processes.get(to)
        if neighbour is not None:
            self._local.append((neighbour, local_process.me, port, message, number))
            if not self._delivering:
                self._delivering = True
                self._turn.before_end(self._deliver_local)
            return
        try:
            index, me = instance.service_index, local_process.me
            codec = self._codecs[index][to][port]
            known = None if encoded_by is None else encoded_by.get(codec)
            kind, fields = codec.encode(message) if known is None else known
            if encoded_by is not None and known is None:
                encoded_by[codec] = kind, fields
            at = codec.port
            frame = encoded(
                MessageFrame(index, instance.name, to, me, at, kind, fields, number)
                if instance.besides is None
                else IdleMessageFrame(index, "", to, me, at, kind, fields, instance.besides())
            )
        except Unsendable as reason:
            self._counts["lost"] += 1
            log.warning(
                "%s: dropped a %s that cannot be encoded: %s",
                instance.title,
                type(message).__name__,
                reason,
            )
            return
        self._send_to_node(instance.service.home[to], frame)


def _effects(pure: PureNode, cause: Cause) -> list[Effect]:
    """Make the step of a pure process."""
    kind, given, _ = cause
    if kind == "receive":
        port, sender, message = given
        return pure.deliver(port, sender, message)
    if kind == "request":
        if len(given) == 1:  # as most are; compiled, the general case takes much longer
            return pure.request(given[0])
        return pure.request(*given)
    if kind == "timer":
        port, timer = given
        return pure.fire(port, timer)
    if kind == "start":
        return pure.start()
    return pure.recover() if kind == "recover" else pure.wake()


def _recorded(
    recorder: NodeRecorder, local_process: LocalProcess, cause: Cause, outputs: list[Effect]
) -> Iterator[int]:
    """Record the step as events: its cause, then its outputs in order.  Return the numbers of its
    messages.
    """
    now, me, numbers = now_us(), local_process.me, []
    events = [event_of(cause, local_process, now)]
    for effect in outputs:
        if isinstance(effect, Send | Broadcast):
            message, part = effect.message, local_process.paths[effect.port]
            for to in (effect.to,) if isinstance(effect, Send) else local_process.peers:
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
                    now,
                    me,
                    "choose",
                    "",
                    note(effect.value),
                    None,
                    None,
                    local_process.paths[effect.port],
                )
            )
    recorder.step(local_process.instance.title, events)
    return iter(numbers)
