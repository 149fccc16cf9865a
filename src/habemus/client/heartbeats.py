"""Heartbeats of all sessions of this process, in the event loop of the keeper."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from habemus import boottime
from habemus.client.errors import HabemusError, NodeTimeout, Unreachable
from habemus.client.lines import Lines, open_lines

if TYPE_CHECKING:
    from habemus.client.keeper import Keeper
    from habemus.client.session import NodeSession

MOVES = 16
"""Sessions whose leases go to other nodes at the same time; each takes a thread meanwhile."""
MOVE_PAUSE = 0.01
"""Seconds between two attempts of a session to be one of them."""


class HeartbeatConnection:
    """The connection of a session for heartbeats: any thread may send and close."""

    def __init__(self, lines: Lines, session: NodeSession) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = session
        self._news = asyncio.Event()
        self.lines = lines
        session.learn_from(lines.welcome)
        lines.unasked = self._hear
        lines.ended = lambda _: self._news.set()

    def _hear(self, line: list[Any]) -> None:
        self._news.set()
        self._session.receive_news(line)

    async def has_news(self, within: float) -> bool:
        """Wait until a line has arrived, or the connection has ended; return False if the time is
        over before.
        """
        try:
            async with asyncio.timeout(within):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    def send(self, line: bytes) -> bool:
        """Send a line, after those of earlier calls; return whether the connection is open."""
        return not self.lines.is_over and _call(self._loop, self.lines.send, line)

    def close(self, last: bytes = b"") -> bool:
        """Close the connection, after what is to be sent and a last line.  Return False: nothing is
        sent any more if the process ends.
        """
        _call(self._loop, self._close, last)
        return False

    def _close(self, last: bytes) -> None:
        if not self.lines.is_over:
            self.lines.send(last)
            self.lines.transport.close()

    def abandon(self) -> None:
        """Close the descriptor in the child of a fork."""
        self.lines.abandon()


def send_heartbeats(keeper: Keeper) -> None:
    """Send the heartbeats of all sessions of a keeper, for as long as the process runs."""
    asyncio.run(Heartbeats().run(keeper))


class Heartbeats:
    """The tasks that send heartbeats, one for each session that needs them."""

    def __init__(self) -> None:
        self._moves = asyncio.Semaphore(MOVES)
        self._tasks: dict[NodeSession, asyncio.Task[None]] = {}
        self._news: dict[NodeSession, asyncio.Event] = {}

    async def run(self, keeper: Keeper) -> None:
        """Start the tasks when they are due."""
        loop, called = asyncio.get_running_loop(), asyncio.Event()
        keeper.wake_loop = lambda: _call(loop, called.set)
        while True:
            for session in keeper.due():
                if session in self._tasks:
                    self._wake(session)
                else:
                    self._news[session] = asyncio.Event()
                    task = self._tasks[session] = loop.create_task(self._keep(session))
                    task.add_done_callback(partial(self._forget, session))
            called.clear()
            pause = keeper.pause()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await called.wait()

    def _wake(self, session: NodeSession) -> None:
        if session.is_hurried:
            session.is_hurried = False
            self._news[session].set()

    def _forget(self, session: NodeSession, task: asyncio.Task[None]) -> None:
        del self._tasks[session], self._news[session]
        task.result()  # an error is reported, and the session kept again

    async def _keep(self, session: NodeSession) -> None:
        """Renew what a session holds; say what its node may not have heard when it is over."""
        await self._renew(session)
        if session.over and session.unsaid:
            with suppress(OSError, HabemusError):
                lines = await open_lines(
                    session.address, session.credentials, session.label, session.key
                )
                lines.send(b"".join(session.unsaid))
                await lines.close()
            session.unsaid.clear()

    async def _renew(self, session: NodeSession) -> None:
        """Send heartbeats for a session until it has nothing to renew, or has to leave its node."""
        silence = 0.0
        session.is_hurried = False
        while session.has_to_renew() and not session.over:
            # Not more than it waits: this process may have been suspended.
            longest = session.beat if session.keeping else session.silence
            began = boottime.seconds()
            heard_us = session.heard_us
            try:
                await self._beat(session)
            except NodeTimeout as reason:  # the node may be slow; the leases have their own time
                if session.was_cut:
                    session.lose_unleased(str(reason))
            except (OSError, HabemusError):
                await self._recover(session)
            if session.has_to_move and session.can_move():
                await self._move(session, session.has_to_move, is_planned=True)
                return
            session.has_to_move = ""
            session.drop_lost()
            is_silent = session.heard_us == heard_us
            silence = silence + min(longest, boottime.seconds() - began) if is_silent else 0.0
            if silence >= session.silence:
                session.leave(f"node {session.node} does not answer")
                if session.can_move():
                    await self._move(session, session.leaving, is_planned=False)
                    return

    async def _beat(self, session: NodeSession) -> None:
        """Send a heartbeat and listen until the next one.

        The event loop of an asynchronous client sends it on its own connection.  If that is not
        answered within half a beat, since the loop is busy or the node silent, it goes over a
        connection of the keeper.
        """
        if session.keeping is None and session.send_soon is not None and session.is_open:
            heard_us = session.heard_us
            session.send_soon(session.heartbeat())
            await self._pause(session, session.beat / 2)
            if session.heard_us != heard_us:
                await self._pause(session, session.beat / 2)
                return
            if session.over or session.has_to_move:
                return
        connection = session.keeping or await self._connect(session)
        connection.send(session.heartbeat())
        end = boottime.seconds() + session.beat
        while (left := end - boottime.seconds()) > 0 and not (session.over or session.has_to_move):
            if connection.lines.is_over:
                raise Unreachable(f"the connection to {session.address} has ended")
            if not await connection.has_news(session.patience(min(left, boottime.LONGEST_WAIT))):
                session.drop_lost()

    async def _pause(self, session: NodeSession, seconds: float) -> None:
        """Wait while the connection of the event loop is open, unless the leases have to move."""
        news = self._news[session]
        end = boottime.seconds() + seconds
        while (left := end - boottime.seconds()) > 0 and session.is_open:
            if session.has_to_move:
                return
            news.clear()
            try:
                async with asyncio.timeout(session.patience(min(left, boottime.LONGEST_WAIT))):
                    await news.wait()
            except TimeoutError:
                session.drop_lost()

    async def _connect(self, session: NodeSession) -> HeartbeatConnection:
        lines = await open_lines(
            session.address,
            session.credentials,
            session.label,
            session.key,
            session.patience(session.silence),
        )
        connection = session.keeping = HeartbeatConnection(lines, session)
        if session.over:
            connection.close()  # the thread that ended the session has not seen it
        return connection

    async def _recover(self, session: NodeSession) -> None:
        """Connect again; take the leases elsewhere, or close the session, if that fails."""
        if session.keeping is not None:
            session.keeping.close()
            session.keeping = None
        if session.over:
            return
        try:
            await self._connect(session)
            session.was_cut = True
        except NodeTimeout as reason:
            session.lose_unleased(str(reason))
        except (OSError, HabemusError) as reason:
            why = f"lost the connection to node {session.node}: {reason}"
            if session.can_move():
                await self._move(session, why, is_planned=False)
            else:
                session.close(why)

    async def _move(self, session: NodeSession, why: str, *, is_planned: bool) -> None:
        """Take the leases to other nodes, in a thread: claims use blocking connections."""
        session.leave(why)
        while self._moves.locked():
            session.drop_lost()
            await asyncio.sleep(MOVE_PAUSE)
        async with self._moves:
            loop = asyncio.get_running_loop()
            done = loop.create_future()

            def run() -> None:
                try:
                    session.move(why, is_planned=is_planned)
                finally:
                    loop.call_soon_threadsafe(done.set_result, None)

            threading.Thread(target=run, name="habemus-mover", daemon=True).start()
            await done


def _call(loop: asyncio.AbstractEventLoop, function: Any, *given: Any) -> bool:
    """Call a function in a loop, from any thread; return False if the loop has closed."""
    try:
        loop.call_soon_threadsafe(function, *given)
    except RuntimeError:
        return False
    return True
