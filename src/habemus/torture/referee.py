"""The referee: a process outside the system, with the value that the lock protects.

    python -m habemus.torture.referee SOCKET RECORD [--unfenced]

Clients send one JSON array per line:

    ["read", lock, client, stay, token or null]
    ["write", lock, client, stay, token or null, value]     the value that was read

The answer is [true, value] or [false, newest token].  A write stores the successor of the value.
The referee remembers the largest token and refuses a smaller one, for reads as well: a client that
reads will write, and if an older holder could write in between, that update would be lost although
no write had an old token.  Without tokens, or with --unfenced, the referee accepts every access.

Each access is recorded before it is answered (`habemus.torture.history`).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from time import monotonic_ns
from typing import Any, cast


class FencedValue:
    """One value, and the largest token that was accepted."""

    def __init__(self, *, is_fenced: bool) -> None:
        self._is_fenced = is_fenced
        self._newest: int | None = None
        self.value = 0

    def access(self, kind: str, token: int | None, value: int | None) -> tuple[bool, int | None]:
        """Return whether the access is accepted, and the value or the newest token."""
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
        self._resources: dict[str, FencedValue] = {}

    def answer(self, line: list[Any]) -> list[Any]:
        kind, lock, client, stay, token, *rest = line
        value = rest[0] if rest else None
        resource = self._resources.setdefault(lock, FencedValue(is_fenced=self._is_fenced))
        accepted, said = resource.access(kind, token, value)
        entry = [monotonic_ns(), kind, lock, client, stay, token, value, accepted]
        os.write(self._record, json.dumps(entry).encode() + b"\n")
        return [accepted, said]


class _RefereeConnection(asyncio.Protocol):
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
    server = await asyncio.get_running_loop().create_unix_server(
        lambda: _RefereeConnection(referee), path
    )
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], is_fenced="--unfenced" not in sys.argv[3:]))
