"""Which modules an installation may have compiled, and whether this one has.

They are what a node does for every request, compiled by mypyc from the very same files: `HABEMUS_COMPILE=1 pip install '.[live]'` (see
`hatch_build.py`, which reads the list).  Algorithms are never among them: these are the user's, and run as they are written.
"""

from __future__ import annotations

MODULES = (
    "habemus.core.node",
    "habemus.runtimes.live.answering",
    "habemus.runtimes.live.clients",
    "habemus.runtimes.live.codec",
    "habemus.runtimes.live.commit",
    "habemus.runtimes.live.desk",
    "habemus.runtimes.live.dialling",
    "habemus.runtimes.live.instance",
    "habemus.runtimes.live.node",
    "habemus.runtimes.live.slices",
    "habemus.runtimes.live.steps",
    "habemus.runtimes.live.tcp",
    "habemus.runtimes.live.timers",
    "habemus.runtimes.live.turn",
    "habemus.runtimes.live.watching",
)


def is_compiled() -> bool:
    """Whether all of them are the compiled ones: those in use, where they have been imported already."""
    from importlib.util import find_spec  # asked once in the life of a process, if at all

    specs = [find_spec(module) for module in MODULES]
    return all(spec is not None and spec.origin is not None and not spec.origin.endswith(".py") for spec in specs)
