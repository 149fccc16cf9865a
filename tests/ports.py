"""Ports for nodes that must know each other's addresses before they start."""

from __future__ import annotations

import socket

_reserved: list[socket.socket] = []


def reserved_ports(count: int) -> list[int]:
    """Return ports that stay reserved for this test process, and that its children can listen on.

    Each port is bound, not listened on, for as long as the test process lives.  Linux gives a bound
    port neither to an outgoing connection nor to a socket that binds port 0.  It does give it to a
    server that asks for it by number with `SO_REUSEADDR`, as servers do; until then connections are
    refused.
    """
    made = [socket.socket() for _ in range(count)]
    for each in made:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        each.bind(("127.0.0.1", 0))
    _reserved.extend(made)
    return [each.getsockname()[1] for each in made]
