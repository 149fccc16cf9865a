"""Which modules an installation may have compiled, and whether this one has.

They are what a node does for every request, compiled by mypyc from the very same files:
`HABEMUS_COMPILE=1 pip install '.[live]'` (see `hatch_build.py`, which reads the list).  Algorithms
are never among them: these are the user's, and run as they are written.
"""

from __future__ import annotations

MODULES = (
    "habemus.core.node",
    "habemus.core.stable",
    "habemus.runtimes.live.peers.peer_server",
    "habemus.runtimes.live.clients.connections",
    "habemus.runtimes.live.peers.codec",
    "habemus.runtimes.live.storage.commit",
    "habemus.runtimes.live.clients.lock_queues",
    "habemus.runtimes.live.peers.peer_client",
    "habemus.runtimes.live.hosting.instance",
    "habemus.runtimes.live.hosting.node",
    "habemus.runtimes.live.hosting.slices",
    "habemus.runtimes.live.hosting.steps",
    "habemus.runtimes.live.peers.network",
    "habemus.runtimes.live.hosting.timers",
    "habemus.runtimes.live.hosting.turn",
    "habemus.runtimes.live.clients.watchers",
)


def is_compiled() -> bool:
    """Whether all of them are the compiled ones: those in use, where they have been imported
    already.
    """
    from importlib.util import find_spec  # asked once in the life of a process, if at all

    specs = [find_spec(module) for module in MODULES]
    return all(
        spec is not None and spec.origin is not None and not spec.origin.endswith(".py")
        for spec in specs
    )
