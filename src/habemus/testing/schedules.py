"""The function `play` for tests, as `habemus check --pytest` writes them.

played = play("central-timeout", 2, '''
    1 acquire
    0 receives Request from 1
    1 receives Grant from 0
''')
assert "ME1" not in played.violated
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from habemus.catalog.entries import entry_by_place, find
from habemus.core.process import Process
from habemus.runs.check import Check
from habemus.schedules.play import Played, played
from habemus.schedules.schedule import schedule


def play(
    algorithm: str | Path | type[Process],
    n: int,
    steps: str | Iterable[str],
    *,
    options: tuple[str, ...] = (),
    initial: tuple[str, ...] = (),
    over: str = "",
    abstract: str = "",
    refines: str = "",
    entries: int | None = 1,
    network: str = "",
    faults: tuple[tuple[str, int], ...] = (),
    merging: bool = False,
    order: bool = False,
    outside: bool = False,
    loop: int | None = None,
) -> Played:
    """Play the steps, one on each line, with the bare processes of an algorithm as it is now.

    The algorithm is a name of the catalog, a class, or a class of a file
    (`path/to/mine.py:MyMutex`); the rest is as in a check.  With `loop`, the steps after so many
    are one round of a loop.
    """
    entry = entry_by_place(algorithm) if isinstance(algorithm, type) else find(os.fspath(algorithm))
    check = Check(
        entry.name,
        n,
        options=options,
        initial=initial,
        over=over,
        abstract=abstract,
        refines=refines,
        entries=entries,
        network=network,
        faults=faults,
        merging=merging,
        order=order,
        outside=outside,
    )
    return played(check, schedule(steps), loop=loop, entry=entry)


__all__ = ["Played", "play"]
