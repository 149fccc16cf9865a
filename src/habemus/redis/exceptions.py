"""The exceptions of redis-py that its locks raise: `LockError`, `LockNotOwnedError`, and
`ConnectionError`, which is `habemus.Unreachable`.
"""

from __future__ import annotations

from habemus.client.errors import HabemusError, Unreachable

ConnectionError = Unreachable


class LockError(HabemusError, ValueError):
    """A lock was not acquired or cannot be released."""


class LockNotOwnedError(LockError):
    """The lock is not owned any more: it has expired or was lost."""
