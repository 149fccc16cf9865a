"""Mutual exclusion and leader election between processes that share nothing but messages.

    import habemus

    with habemus.connect() as cluster:
        with cluster.lock("printer", timeout=5) as lease:
            ...  # nobody else is in here; lease.token is for the resource to check

What is imported here is loaded when it is first used: neither a search nor a simulation needs a socket, and `habemus lock` has to start
as fast as Python does.
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing` takes as long to import as the rest of a short command

if TYPE_CHECKING:
    from typing import Any

    from habemus.api import Cluster, HabemusError, Lease, LockLost, LockTimeout, RefusedByNode, Unreachable, connect
    from habemus.api.embedded import embedded
    from habemus.runtimes.live.node import Node

__all__ = ["Cluster", "HabemusError", "Lease", "LockLost", "LockTimeout", "Node", "RefusedByNode", "Unreachable", "connect", "embedded"]

_ELSEWHERE = {"Node": "habemus.runtimes.live.node", "embedded": "habemus.api.embedded"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'habemus' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_ELSEWHERE.get(name, "habemus.api")), name)
