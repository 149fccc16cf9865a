"""Locks of engines for commands: an engine answers the lines of a command as a node would.

The request itself is made in the thread of the command, before there is a command.  Renewals are
made in a thread, because an engine can hang: then the command is ended in time nevertheless.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from habemus.client.credentials import Credentials
from habemus.client.engines import engine_at, split_offset
from habemus.client.engines.engine import Engine, EngineGrant, LockGone, Wait, WaitOver
from habemus.client.errors import HabemusError, RefusedByNode, Unreachable
from habemus.client.session import own_label
from habemus.runtimes.live.clients.protocol import ELECTIONS
from habemus.supervise.locked_command import BAD_USE, UNREACHABLE, CommandExit, NoNodeReached

LOOK_SECONDS = 0.25
"""Time between two looks whether the engine has given the lock up."""


class EngineFinder:
    """Connects to an engine for a command."""

    def __init__(
        self, url: str, credential_files: Mapping[str, str | None], lease: float | None = None
    ) -> None:
        try:
            url, self._offset = split_offset(url)
            self._engine = engine_at(url, Credentials.of_files(**credential_files))
        except (ValueError, ModuleNotFoundError) as reason:
            raise CommandExit(BAD_USE, str(reason)) from None
        self._lease = lease

    def __call__(self, deadline_us: int | None) -> EngineConnection:
        """Connect; `NoNodeReached` if the engine does not answer, `CommandExit` if it refuses."""
        try:
            self._engine.connect()
        except Unreachable as reason:
            raise NoNodeReached(str(reason)) from None
        except HabemusError as reason:
            raise CommandExit(UNREACHABLE, str(reason)) from None
        return EngineConnection(self._engine, self._offset, self._lease)


class EngineConnection:
    """An engine that answers the lines of a command."""

    def __init__(self, engine: Engine, offset: int, lease: float | None) -> None:
        self._engine = engine
        self._offset = offset
        self._lease = lease
        self._heard, self._said = os.pipe()
        self._lines: list[list[Any]] = []
        self._grant: EngineGrant | None = None
        self._id = 0
        self._beat = threading.Event()
        self._keeper: threading.Thread | None = None
        engine.share_with_children()  # the guard keeps the lock, too

    def fileno(self) -> int:
        """Return a descriptor that can be read when there are lines."""
        return self._heard

    def lease_ms(self, service: str) -> int | None:
        """Return the lease that the engine grants; None if none expires."""
        if self._engine.lease_ms is None or self._lease is None:
            return self._engine.lease_ms
        return max(1, round(self._lease * 1_000))

    def moves(self, service: str) -> bool:
        """Return False: an engine is one place."""
        return False

    def heard(self) -> list[list[Any]]:
        """Return the answers that have arrived."""
        if self._lines:
            os.read(self._heard, 4_096)
        lines, self._lines = self._lines, []
        if self._grant is not None and self._engine.is_gone(self._grant):
            lines.append(["lost", self._id, f"{self._engine.shown} has given it up"])
        return lines

    def close(self) -> None:
        """Give up the lock, if it was granted."""
        if self._grant is not None:
            grant, self._grant = self._grant, None
            self._engine.drop(grant)

    def send(self, line: bytes) -> None:
        """Take a line of the command."""
        word, *rest = json.loads(line)
        if word in ("request", "lead"):
            self._request(word, *rest)
        elif word == "alive":
            self._beat.set()
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._keep, daemon=True)
                self._keeper.start()
        elif word == "watch":
            state = self._engine.state(f"{rest[1]}/{rest[2]}")
            self._answer("news", rest[0], {"holder": state.holder})
        elif word == "release" and self._grant is not None:
            with suppress(LockGone, HabemusError):
                self._engine.release(self._grant)

    def _answer(self, *line: Any) -> None:
        self._lines.append(list(line))
        os.write(self._said, b"\n")

    def _request(
        self, word: str, id: int, service: str, what: Any, timeout_ms: int | None, *_: Any
    ) -> None:
        name = ELECTIONS + what if word == "lead" else what[0]
        wait = Wait(None if timeout_ms is None else timeout_ms / 1_000)
        try:
            grant = self._engine.acquire(f"{service}/{name}", own_label(), self._lease, wait)
        except WaitOver:
            self._answer("refused", id, "timeout", "timed out")
        except RefusedByNode as reason:
            self._answer("refused", id, "unauthenticated", str(reason))
        else:
            self._id, self._grant = id, grant
            token = grant.token + self._offset
            self._answer("granted", id, token, grant.lease_ms, grant.at_us, name)

    def _keep(self) -> None:
        """Renew the lease when the command asks for it, and look whether the lock is lost."""
        while (grant := self._grant) is not None:
            is_due = self._beat.wait(LOOK_SECONDS)
            try:
                if is_due:
                    self._beat.clear()
                    self._engine.renew(grant)
                    self._answer("alive", grant.at_us, [[self._id, grant.lease_ms]])
                elif self._engine.is_gone(grant):
                    raise LockGone(f"{self._engine.shown} has given it up")  # noqa: TRY301
            except LockGone as reason:
                self._answer("lost", self._id, str(reason))
                return
            except HabemusError:
                continue  # the lease has its own time
