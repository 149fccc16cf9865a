"""The lines that clients and nodes exchange: one JSON array per line; its first item is the type.

A client sends

    ["hello", WIRE_VERSION, label, session or null, nonce or null, secret or null]
                                      session: one to join, if any; secret: the name of the secret
                                      that the client knows, if it is not that of the cluster
    ["proof", proof]                  proves knowledge of the secret, if the node asks for it
    ["request", id, service, [name, ...], timeout_ms or null, lease_ms or null, at, keeps]
                                      requests one of these locks; a free one is granted also after
                                      the timeout, within TRY_MS
    ["lead", id, service, name, timeout_ms or null, lease_ms or null, at]
                                      requests to lead this election
    ["semaphore", id, service, name, size or null, timeout_ms or null, lease_ms or null, at]
                                      requests a place of this semaphore
    ["move", id]                      the client takes this lock to another node; no answer
    ["claim", id, service, name, token, shown, lease_ms or null, at, keeps, ticket]
                                      goes on with a lock that it holds at another node: `token`
                                      and `ticket` came with the grant there, `shown` is the token
                                      that the client shows to resources
    ["release", id]                   releases the lock, or withdraws the request; no answer
    ["transfer", id, label]           releases, and reserves the lock for that client; no answer
    ["goodbye"]                       ends all requests of the session; no answer
    ["alive", at]                     heartbeat, renews all leases of the session
    ["wrote", service, name, token]   the resource was written; for the record, no answer
    ["watch", id, service, name]      subscribes to the holder of a lock or election
    ["unwatch", id]
    ["status", id]
    ["force", id, service, name]      an operator asserts that the holder has crashed
    ["elect", id, service, name]      calls an election, in a service of elections
    ["member", id, step, node, address, memory]
                                      makes one step of a change of members, if the node leads

and a node

    ["challenge", cluster, node, nonce, proof]
    ["welcome", {"cluster", "node", "session", "nodes", "services", "version"}]
                                      and "configuration", if the members have ever changed, and
                                      "release_on_disconnect", if the operator has chosen that
    ["nodes", 0, configuration, {number: address, ...}]   the members have changed
    ["granted", id, token or null, left_ms or null, at, name, ticket]
                                      a ticket, which is a secret, only where locks can be claimed
    ["wanted", id]                    to a holder with `keeps`: another client waits
    ["lost", id, why]                 the lease has ended
    ["leave", 0, why]                 the node shuts down: take what is held here to another node
    ["alive", at, [[id, left_ms or null], ...]]   the leases of the session, with the time left
    ["news", id, {...}]    ["status", id, {...}]    ["done", id, {...}]
    ["refused", id or null, word, why]

The words of refusals are timeout, unknown, full, stopped, bad_request, unauthenticated, forbidden
(by the rules of the cluster), lost (a claim that came too late), unavailable: use another node;
what is held here stays, wire_version, and unsupported: a line that the node does not know.

Nodes and clients of two releases work together while they have one wire version.  Each ignores
fields that it does not know at the end of a line.  A node answers a line that it does not know by a
refusal, and the connection stays; a client ignores such a line.  All other changes need a new wire
version.  Its place in "hello", and the line "refused", are the same in all of them.

The leader of an election `x` holds the lock `leader/x`, and the holder of the second place of a
semaphore `x` the lock `semaphore/x/2`; grants, watches and the status show these names.  A plain
request for such a name is refused.  The sizes of semaphores are part of the configuration that all
nodes have in common; a size that a client gives is compared with it.

`at` is a time on the client's own clock, which the node returns unchanged: the latest it has
received from the session.  The client counts `left_ms` from that time.  So a lease expires for the
client before it expires for the node, however long lines were in transit and however long either
side was paused.

The client chooses the ids, and uses each once per session.  A session belongs to one client
process.  It may have several connections.  A request that waits ends with its connection.  A lease
belongs to the session, and one "alive" renews all of them.  When all connections are closed, the
session lasts until its leases have ended: a client that was cut off joins it again.

Frames between nodes begin with a byte that no line begins with, so both share one port.
"""

from __future__ import annotations

WIRE_VERSION = 2
"""Version of all that nodes and clients send: of these lines, and of the frames between nodes."""
LINE_LIMIT = 1 << 14
"""Bytes of a line of a client.  Lines of a node may be longer: a status lists all locks."""
FIRST_BYTE = b"["
GOODBYE = b'["goodbye"]\n'
"""Line by which a client ends its session."""
LABEL_LIMIT = 100
NAMES_LIMIT = 1_000
"""Locks that one request may name, and places that a semaphore may have."""
ELECTIONS = "leader/"
"""Prefix of elections: the leader holds the lock of that name."""
SEMAPHORES = "semaphore/"
"""Prefix of the places of a semaphore: its name and the number of the place follow."""
READ_WRITE_LOCKS = "rwlock/"
BARRIERS = "barrier/"
PERMITS = "permits/"
RESERVED = (ELECTIONS, SEMAPHORES)
"""Prefixes of names that a plain request may not have."""
KINDS = {
    ELECTIONS: "elections",
    SEMAPHORES: "semaphores",
    READ_WRITE_LOCKS: "read-write locks",
    BARRIERS: "barriers",
    PERMITS: "permits",
}
"""Kinds of names by their prefixes.  Clients build the last three of plain locks, so nodes accept
such names, and a program that names a lock so is refused by its client.
"""
LOCKS = "locks"
"""The default service."""
TRY_MS = 250
"""How long a request with a shorter timeout waits while the node does not know that another client
holds the lock: the node has to ask the other nodes.
"""
CONNECT_SECONDS = 2.0
"""Timeout of the handshake with a node, after which a client tries another one."""
CLIENT_SHUTDOWN_GRACE_US = 1_000_000
"""Where the algorithm has no leases: time for a client to stop its work after its node crashed.  A
node that restarts waits twice as long before it ends the leases of its earlier life.
"""


def checked_name(name: str) -> str:
    """Return the name of a lock, an election or a semaphore; raise `ValueError` if it cannot be
    one.
    """
    given: object = name
    if not (isinstance(given, str) and given and given.isprintable()):
        raise ValueError(f"{name!r} is not a name: give a text of printable characters")
    return name


def lock_name(name: str) -> str:
    """Return the name; raise `ValueError` if it is reserved for something else than a lock."""
    prefix, slash, _ = checked_name(name).partition("/")
    what = KINDS.get(prefix + slash)
    if what is not None:
        raise ValueError(
            f"{name!r} is not a name for a lock: {prefix + slash!r} is the prefix of {what}; choose"
            " another name"
        )
    return name


def secret_name(secret: bytes) -> str | None:
    """Return the name of a secret, which is then `NAME:REST` as a whole; None if it has none."""
    name, colon, _ = secret.partition(b":")
    is_named = colon and 0 < len(name) <= 40 and name.isalnum() and name.islower()
    return name.decode("ascii") if is_named else None


def semaphore_places(name: str, size: int) -> list[str]:
    """Return the names of the locks of a semaphore, one for each place."""
    return [f"{SEMAPHORES}{name}/{place}" for place in range(1, size + 1)]


def proof(secret: bytes, side: str, cluster: str, node: int, nonces: tuple[str, str]) -> str:
    """Return the HMAC by which a side, "client" or "node", proves that it knows the secret.

    Compare it by `hmac.compare_digest`.
    """
    import hashlib  # imported here: `habemus lock` on a local socket does without
    import hmac

    content = "\n".join(("habemus", str(WIRE_VERSION), side, cluster, str(node), *nonces))
    return hmac.digest(secret, content.encode(), hashlib.sha256).hex()
