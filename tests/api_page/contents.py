"""The order in which the page has the public names: what a reader needs first comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

CONTENTS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "habemus": {
        "Locks": ("connect", "Cluster", "Lock", "HeldLock", "Lease", "LockState"),
        "Built of locks": ("ReadWriteLock", "Barrier", "LeaderElection", "Term"),
        "In an event loop": (
            *("AsyncCluster", "AsyncLock", "AsyncHeldLock", "AsyncReadWriteLock", "AsyncBarrier"),
            "AsyncLeaderElection",
            "AsyncTerm",
        ),
        "Exceptions": (
            *("HabemusError", "LockTimeout", "LockLost", "LockNotHeld", "BarrierBroken"),
            *("Unreachable", "RefusedByNode"),
        ),
        "A node in the program": ("embedded", "EmbeddedNode"),
        "Experiments": ("simulate", "check", "prove", "compare", "scenario", "load_trace"),
        "Results": (
            *("RunResult", "CheckResult", "ProofResult", "ComparisonResult", "ScenarioResult"),
            *("Verdict", "Finding", "Trace", "Event"),
        ),
    },
    "habemus.algorithm": {
        "Base classes": ("Process", "Mutex", "Election", "Detector", "Link"),
        "Variables": ("Const", "Durable", "Uses", "ProcessId", "Span"),
        "Handlers": ("upon", "whenever", "request"),
        "Values": (
            *("Message", "Timer", "Indication", "Granted", "Leader", "Suspected", "Restored"),
            "Delivered",
        ),
        "Assumptions": ("Assumptions", "Links", "Crashes", "Timing", "Unsynced"),
        "Costs": ("MutexCosts", "ElectionCosts", "average"),
        "Systems": (
            *("System", "Topology", "complete", "ring", "line", "star", "grid", "tree"),
            "random_connected",
        ),
        "Invariants": (
            *("Invariant", "InTransit", "is_inside", "is_waiting", "is_leader", "same_link"),
            *("opposite", "between", "is_next", "towards"),
        ),
        "Mistakes": ("MistakeInAlgorithm", "MistakeInPlan"),
    },
    "habemus.faults": {
        "Faults": (
            *("Fault", "Crash", "Recover", "Replace", "Pause", "Cut", "Heal", "Slow", "Skew"),
        ),
        "Times": ("When", "Nth"),
        "Links": ("both_ways", "one_way", "between"),
        "Delays": ("Delay", "Uniform", "Exponential", "HeavyTail"),
    },
    "habemus.fencing": {
        "Guard of a file": ("FencedFile", "CorruptFence"),
        "Tokens": ("StaleToken", "check_token", "token_from", "token_text"),
    },
    "habemus.fencing.sqlite": {"": ("make_table", "fenced", "Unguarded")},
    "habemus.fencing.postgresql": {"": ("make_table", "fenced", "Unguarded")},
    "habemus.fencing.async_postgresql": {"": ("make_table", "fenced", "Unguarded")},
    "habemus.redis": {
        "": ("from_url", "Redis", "RedisLock", "LockError", "LockNotOwnedError", "exceptions")
    },
    "habemus.testing": {
        "Clusters": ("NodeProcesses",),
        "Conformance": ("check_mutex", "check_election", "check_detector", "CHECKS", "entry_of"),
        "Schedules": ("play", "Played"),
    },
}
"""The public modules, the groups of their names, and the names."""


def names_of(module: str) -> list[str]:
    """Return the names of a module in the order of the page."""
    return [name for names in CONTENTS[module].values() for name in names]
