"""Errors of a node.

Not compiled: mypyc does not support most builtin exceptions as base classes.
"""

from __future__ import annotations


class InstanceFailed(RuntimeError):
    """A handler raised, so the instance has stopped."""


class NodeStopped(RuntimeError):
    """The node has stopped, or stops because its disk failed."""


class TooMany(RuntimeError):
    """The node hosts the largest allowed number of instances."""
