"""Exceptions of the clients."""

from __future__ import annotations


class HabemusError(Exception):
    """Base class of the exceptions of locks, leases and clusters.

    Arguments that are wrong raise `ValueError`, `LookupError` or `TypeError`.
    """


class LockLost(HabemusError):
    """The lock is not held any more, or may not be: another client may hold it."""


class LockNotHeld(HabemusError, RuntimeError):
    """A lock was to be released that this thread or task does not hold."""


class LockTimeout(HabemusError, TimeoutError):
    """The lock was not granted in time; the request was withdrawn.

    The message names the holder, if the node knows it.
    """


class Unreachable(HabemusError, ConnectionError):
    """No node of the cluster can be reached."""


class NodeTimeout(Unreachable):
    """A node accepts connections but does not answer in time; it may be slow."""


class ProtocolError(HabemusError, ConnectionError, ValueError):
    """A node sent what no node would send."""


class RefusedByNode(HabemusError):
    """A node refused the request; the message has its reason."""
