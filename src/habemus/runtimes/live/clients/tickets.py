"""Tickets: what a client shows to take a lock from one node to another.

A *stay* is what a client has from a grant to its release.  Its ticket goes with the grant, to that
client only.  The token, which resources and watchers see, does not tell it: a ticket is made from
the lock, the token and a key.  A node draws its key when it starts, and tells it to the other nodes
only: so they can check the tickets of a node that has crashed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from hmac import compare_digest

KEY_BYTES = 32
TICKET_BYTES = 12
LONGEST_TICKET = 64
"""Characters."""
LIVES = 4
"""Lives of a node whose keys the others keep: its clients claim their locks after it restarted."""


class Tickets:
    """The keys of all nodes, as far as this node knows them."""

    def __init__(self, me: int) -> None:
        self._prefix = f"{me}-"
        self.key = os.urandom(KEY_BYTES)
        self._keys: dict[int, deque[bytes]] = {me: deque([self.key])}

    def maker(self, service: str, name: str) -> Callable[[int], str]:
        """Return the function that makes the tickets of a lock from tokens, at every grant."""
        prefix, keyed = self._prefix, _keyed(self.key, service, name)

        def ticket_of(token: int) -> str:
            stay = keyed.copy()
            stay.update(b"%d" % token)
            return prefix + stay.hexdigest()

        return ticket_of

    def is_own(self, ticket: str, service: str, name: str, token: int) -> bool:
        """Return whether this node has issued the ticket, since it started."""
        own = self.maker(service, name)(token)
        return compare_digest(ticket.encode(), own.encode())

    def learn(self, node: int, key: bytes) -> None:
        """Take in the key of another node; it has a new one after each start."""
        keys = self._keys.setdefault(node, deque(maxlen=LIVES))
        if key not in keys:
            keys.append(key)

    def is_valid(self, ticket: str, service: str, name: str, token: int) -> bool | None:
        """Return whether a node has issued the ticket for this stay; None if this node has no key
        of that node.
        """
        keys = self._keys.get(node_of(ticket))
        if not keys:
            return None
        shown = ticket.partition("-")[2].encode()
        valid = [_digest(each, service, name, token).encode() for each in keys]
        return any(compare_digest(shown, each) for each in valid)


def node_of(ticket: str) -> int:
    """Return the number of the node that has issued a ticket; 0 if it is none."""
    node = ticket.partition("-")[0]
    is_number = len(ticket) <= LONGEST_TICKET and node.isascii() and node.isdecimal()
    return int(node) if is_number and len(node) <= 9 else 0


def _digest(key: bytes, service: str, name: str, token: int) -> str:
    stay = _keyed(key, service, name)
    stay.update(b"%d" % token)
    return stay.hexdigest()


def _keyed(key: bytes, service: str, name: str) -> blake2b:
    return blake2b(f"{service}\0{name}\0".encode(), digest_size=TICKET_BYTES, key=key)
