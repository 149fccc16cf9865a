"""Mutual exclusion and leader election between processes that share nothing but messages.

    import habemus

    with habemus.connect() as cluster:
        with cluster.lock("printer", timeout=5) as lease:
            ...  # no other client is in here; the resource checks lease.token

    habemus.simulate("ricart-agrawala", n=5, seed=7)    # one run, judged
    habemus.check("maekawa", n=3)                       # every interleaving

`habemus.algorithm` has what the author of an algorithm imports, `habemus.faults` the faults of
runs, `habemus.fencing` the guards of resources, `habemus.redis` the locks of redis-py,
`habemus.testing` the conformance suite.  Every other module is internal.

Names are loaded when they are first used: a search needs no socket, and `habemus lock` has to start
as fast as Python does.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` would take as long as the rest of a short command

if TYPE_CHECKING:
    from typing import Any

    from habemus.client.asynchronous import (
        AsyncCluster,
        AsyncHeldLock,
        AsyncLeaderElection,
        AsyncLock,
        AsyncTerm,
    )
    from habemus.client.backend import LockState
    from habemus.client.barrier import AsyncBarrier, Barrier, BarrierBroken
    from habemus.client.blocking import Cluster, HeldLock, LeaderElection, Lock, Term, connect
    from habemus.client.embedded import EmbeddedNode, embedded
    from habemus.client.errors import (
        HabemusError,
        LockLost,
        LockNotHeld,
        LockTimeout,
        RefusedByNode,
        Unreachable,
    )
    from habemus.client.lease import Lease
    from habemus.client.read_write import AsyncReadWriteLock, ReadWriteLock
    from habemus.core.events import Event
    from habemus.core.properties import Finding, Verdict
    from habemus.experiments import (
        CheckResult,
        ComparisonResult,
        ProofResult,
        RunResult,
        ScenarioResult,
        check,
        compare,
        load_trace,
        prove,
        scenario,
        simulate,
    )
    from habemus.traces import Trace

    __version__: str

__all__ = [
    "AsyncBarrier",
    "AsyncCluster",
    "AsyncHeldLock",
    "AsyncLeaderElection",
    "AsyncLock",
    "AsyncReadWriteLock",
    "AsyncTerm",
    "Barrier",
    "BarrierBroken",
    "CheckResult",
    "Cluster",
    "ComparisonResult",
    "EmbeddedNode",
    "Event",
    "Finding",
    "HabemusError",
    "HeldLock",
    "LeaderElection",
    "Lease",
    "Lock",
    "LockLost",
    "LockNotHeld",
    "LockState",
    "LockTimeout",
    "ProofResult",
    "ReadWriteLock",
    "RefusedByNode",
    "RunResult",
    "ScenarioResult",
    "Term",
    "Trace",
    "Unreachable",
    "Verdict",
    "check",
    "compare",
    "connect",
    "embedded",
    "load_trace",
    "prove",
    "scenario",
    "simulate",
]

_MODULES = {
    "habemus.experiments": (
        "CheckResult",
        "ComparisonResult",
        "ProofResult",
        "RunResult",
        "ScenarioResult",
        "check",
        "compare",
        "load_trace",
        "prove",
        "scenario",
        "simulate",
    ),
    "habemus.client.asynchronous": (
        "AsyncCluster",
        "AsyncHeldLock",
        "AsyncLeaderElection",
        "AsyncLock",
        "AsyncTerm",
    ),
    "habemus.client.backend": ("LockState",),
    "habemus.client.blocking": (
        "Cluster",
        "HeldLock",
        "LeaderElection",
        "Lock",
        "Term",
        "connect",
    ),
    "habemus.client.embedded": ("EmbeddedNode", "embedded"),
    "habemus.client.barrier": ("AsyncBarrier", "Barrier", "BarrierBroken"),
    "habemus.client.errors": (
        "HabemusError",
        "LockLost",
        "LockNotHeld",
        "LockTimeout",
        "RefusedByNode",
        "Unreachable",
    ),
    "habemus.client.lease": ("Lease",),
    "habemus.client.read_write": ("AsyncReadWriteLock", "ReadWriteLock"),
    "habemus.core.events": ("Event",),
    "habemus.core.properties": ("Finding", "Verdict"),
    "habemus.traces": ("Trace",),
}
"""The modules in which the public names are defined."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("habemus")
    if name not in __all__:
        raise AttributeError(f"module 'habemus' has no attribute {name!r}")
    import importlib

    home = next(module for module, names in _MODULES.items() if name in names)
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
