"""Guards at a resource: a client whose lock was lost is refused.

A client can lose a lock with a lease without noticing: it is paused, its lease expires, and then it
writes.  No lock service can prevent that, but the resource can.  Every grant has a token that is
larger than that of every earlier grant.  A guard remembers the largest token that it has accepted
and refuses a smaller one.

    FencedFile(path).write(content, lease.token)

    with sqlite.fenced(connection, "printer", lease.token) as cursor: ...
    with postgresql.fenced(connection, "printer", lease.token) as cursor: ...
    async with async_postgresql.fenced(connection, "printer", lease.token) as cursor: ...

A guard needs only the standard library and no other part of habemus.  It runs where the resource
is.
"""

from habemus.fencing.file import CorruptFence, FencedFile
from habemus.fencing.tokens import StaleToken, check_token, token_from, token_text

__all__ = ["CorruptFence", "FencedFile", "StaleToken", "check_token", "token_from", "token_text"]
