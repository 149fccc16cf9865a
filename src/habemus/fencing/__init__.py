"""Guards beside a resource: whoever held a lock and comes late is refused.

A lock with leases can be lost without its holder noticing: it was paused, and when it goes on it
writes.  No lock service can prevent that, but the resource can.  Every grant carries a token that
is larger than that of any grant before it; a guard remembers the largest token that it has accepted
and refuses a smaller one.

    FencedFile(path).write(content, lease.token)

    with sqlite.fenced(connection, "printer", lease.token) as cursor: ...
    with postgresql.fenced(connection, "printer", lease.token) as cursor: ...
    async with async_postgresql.fenced(connection, "printer", lease.token) as cursor: ...

A guard needs nothing but the standard library, and nothing else of habemus: it runs where the
resource is.
"""

from habemus.fencing.file import CorruptFence, FencedFile
from habemus.fencing.tokens import StaleToken, check_token, token_from

__all__ = ["CorruptFence", "FencedFile", "StaleToken", "check_token", "token_from"]
