"""What a client and its node say to each other: one JSON array on each line, told apart by its
first word.

A client says

    ["hello", VERSION, label, session or null, nonce or null]    who it is; a session to join, if it has one already
    ["proof", proof]                                             that it knows the secret, where one is asked for
    ["acquire", id, service, [name, ...], timeout_ms or null, lease_ms or null, at, keeps]   one of these locks
    ["release", id]                                              it leaves, or does not want to wait any more; no answer
    ["transfer", id, label]                                      it leaves, and would like that client to be next; no answer
    ["alive", at]                                                its locks are still in use
    ["wrote", service, name, token]                              the resource was written to; for the record, no answer
    ["watch", id, service, name]    ["unwatch", id]              tell me who holds it, now and whenever that changes
    ["status", id]                                               what goes on at this node
    ["force", id, service, name]                                 an operator vouches that whoever holds it is gone

and the node

    ["challenge", cluster, node, nonce, proof]
    ["welcome", {"cluster", "node", "session", "nodes", "services"}]
    ["granted", id, token or null, left_ms or null, at, name]
    ["wanted", id]                                               to a holder that keeps it: somebody else would like to have it
    ["lost", id, why]
    ["alive", at, [[id, left_ms or null], ...]]                  what the session holds, and how long that is good for
    ["news", id, {...}]    ["status", id, {...}]    ["done", id, {...}]
    ["refused", id or null, word, why]                           words: timeout, unknown, full, stopped, rude, secret,
                                                                 unavailable (ask another node; what is held here stays)

`at` is a time on the client's own clock, which means nothing to the node: it gives back the last
one that it has heard from the session.  So whatever is left, counted by the client from the moment
`at`, is over for the client before it is over for the node, however long lines were under way and
however long either of them stood still.

Ids are chosen by the client and are used once in a session.  A session is what one client process
has: it may have several connections, its locks belong to the connection on which they were acquired
and end with it, and one "alive" is good for all.

Frames between nodes begin with a byte that no line begins with, so both come to the same port.
"""

from __future__ import annotations

VERSION = 1
LINE_LIMIT = 1 << 14
"""Bytes of a line of a client.  A node may say longer ones: a status has as many locks as there
are.
"""
FIRST_BYTE = b"["
LABEL_LIMIT = 100
NAMES_LIMIT = 1_000
"""Locks among which one may be chosen."""
ELECTIONS = "leader/"
"""Before the name of an election: to lead is to hold the lock of that name."""
SEMAPHORES = "semaphore/"
"""Before the name, the size and the place of a semaphore: to have a place is to hold the lock of
that name.
"""
LOCKS = "locks"
"""The service that is meant where none is named."""
TRY_MS = 250
"""How long a try may take: the other nodes have to be asked."""
CONNECT_SECONDS = 2.0
"""How long a client waits for a node to answer its greeting before it turns to another."""
CLIENT_SHUTDOWN_GRACE_US = 1_000_000
"""Where no lease of the algorithm runs out: how long a client whose node has gone may take to end
what it does.  A node that comes back waits for longer than that before it says that they are over.
"""


def lock_name(name: str) -> str:
    """Return the name of a lock; `ValueError` if it is in the namespace of elections or semaphores."""
    for prefix, what in ((ELECTIONS, "elections"), (SEMAPHORES, "semaphores")):
        if name.startswith(prefix):
            raise ValueError(
                f"{name!r} is no name for a lock: names that begin with {prefix} are those of"
                f" {what}"
            )
    return name


def semaphore_names(name: str, size: int) -> list[str]:
    """Return the names of the locks that are the places of a semaphore.  Its size is part of them:
    another size is another semaphore.
    """
    if size < 1:
        raise ValueError(f"a semaphore of {size} places; it has at least one")
    return [f"{SEMAPHORES}{name}/{size}/{place}" for place in range(1, size + 1)]


def proof(secret: bytes, side: str, cluster: str, node: int, nonces: tuple[str, str]) -> str:
    """That one knows the secret: "client" or "node" says it, of both nonces."""
    import hashlib  # not everybody who talks to a node needs them
    import hmac

    # Whoever compares one with what was shown does so by `hmac.compare_digest`.
    said = "\n".join(("habemus", str(VERSION), side, cluster, str(node), *nonces))
    return hmac.digest(secret, said.encode(), hashlib.sha256).hex()
