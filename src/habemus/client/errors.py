"""What can go wrong with a lock, as exceptions."""

from __future__ import annotations


class HabemusError(Exception):
    """Of which all the others are."""


class LockLost(HabemusError):
    """The lock is not held any more, or may not be: somebody else may have it."""


class LockTimeout(HabemusError, TimeoutError):
    """The lock was not granted in time; nobody waits for it any more."""


class Unreachable(HabemusError, ConnectionError):
    """No node of the cluster answers."""


class NodeTimeout(Unreachable):
    """Somebody seems to be there, and does not answer; it may be slow."""


class ProtocolError(HabemusError, ConnectionError, ValueError):
    """The node sends what no node would send."""


class RefusedByNode(HabemusError):
    """The node does not do what it was asked for, and says why."""
