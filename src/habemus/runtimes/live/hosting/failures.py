"""Why a node does not do what is asked of it.  (Not compiled: mypyc knows no class that derives
from `RuntimeError`, or most others.)
"""

from __future__ import annotations


class InstanceFailed(RuntimeError):
    """The instance has stopped, because a handler of it raised."""


class NodeStopped(RuntimeError):
    """The node has ended, or has to, because its disk failed."""


class TooMany(RuntimeError):
    """The node hosts as many instances as it may."""
