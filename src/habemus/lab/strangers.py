"""Connections that have not shown the token.

Any program of this machine can open them.  Only so many stay open: a new one takes the place of the
oldest, so they cannot keep the page of the user out, whose requests take a moment.
"""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_STRANGERS = 64

Address = tuple[str, int]


class Strangers:
    """The connections without a session, in the order of their opening, by their addresses."""

    def __init__(self) -> None:
        self._open: dict[Address, asyncio.Transport] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, transport: asyncio.Transport) -> None:
        """Note a new connection; close the oldest one if there are too many."""
        host, port, *_ = transport.get_extra_info("peername") or ("", 0)
        self._open[host, port] = transport
        while len(self._open) > MOST_STRANGERS:
            self._open.pop(next(iter(self._open))).abort()

    def forget(self, address: object) -> None:
        """Forget a connection that has ended or has shown the token."""
        if isinstance(address, tuple):
            self._open.pop((address[0], address[1]), None)

    def protocol(self) -> type[H11Protocol]:
        """Return the protocol of connections, which notes them here."""
        strangers = self

        class Protocol(H11Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                connected = cast(asyncio.Transport, transport)
                strangers.add(connected)
                super().connection_made(connected)

            def connection_lost(self, exc: Exception | None) -> None:
                strangers.forget(self.client)
                super().connection_lost(exc)

        return Protocol


__all__ = ["Strangers"]
