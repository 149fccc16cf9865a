"""The referee: a process outside the system, with the value that the lock protects.

    python -m habemus.torture.referee SOCKET RECORD [--unfenced]

Clients say, one JSON array a line,

    ["read", lock, client, stay, token or null]
    ["write", lock, client, stay, token or null, value]     the value that was read; the next one is to be stored

and hear [true, value] or [false, newest token].  It remembers the largest token that it has seen
and refuses a smaller one, also for reading: whoever reads is going to write what he makes of it,
and if an older holder could still write in between, its update would be lost without anybody having
written with an old token.  Without tokens, or unfenced, it accepts everything.

Everything is written down before it is answered (`habemus.torture.history`).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from time import monotonic_ns
from typing import Any, cast


class Resource:
    """One value, and who may change it."""

    def __init__(self, *, is_fenced: bool) -> None:
        self._is_fenced = is_fenced
        self._newest: int | None = None
        self.value = 0

    def access(self, kind: str, token: int | None, value: int | None) -> tuple[bool, int | None]:
        """Whether it is accepted, and what to say."""
        if self._is_fenced and token is not None:
            if self._newest is not None and token < self._newest:
                return False, self._newest
            self._newest = token
        if kind == "write":
            assert value is not None
            self.value = value + 1
        return True, self.value


class Referee:
    def __init__(self, record: int, *, is_fenced: bool) -> None:
        self._record = record
        self._is_fenced = is_fenced
        self._resources: dict[str, Resource] = {}

    def answer(self, line: list[Any]) -> list[Any]:
        kind, lock, client, stay, token, *rest = line
        value = rest[0] if rest else None
        resource = self._resources.setdefault(lock, Resource(is_fenced=self._is_fenced))
        accepted, said = resource.access(kind, token, value)
        entry = [monotonic_ns(), kind, lock, client, stay, token, value, accepted]
        os.write(self._record, json.dumps(entry).encode() + b"\n")
        return [accepted, said]


class _Connection(asyncio.Protocol):
    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._transport.write(
                json.dumps(self._referee.answer(json.loads(line))).encode() + b"\n"
            )


async def serve(path: str, record: str, *, is_fenced: bool) -> None:
    opened = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    referee = Referee(opened, is_fenced=is_fenced)
    server = await asyncio.get_running_loop().create_unix_server(lambda: _Connection(referee), path)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], is_fenced="--unfenced" not in sys.argv[3:]))
