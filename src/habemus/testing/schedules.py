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
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from habemus.catalog.entries import entry_by_place, find
from habemus.core.process import Process, ProcessId
from habemus.core.system import System
from habemus.core.words import did_you_mean
from habemus.runs.check import Check
from habemus.runs.options import initial_texts, option_texts
from habemus.schedules.play import Played, played
from habemus.schedules.schedule import BadSchedule, Step, schedule


def play(
    algorithm: str | Path | type[Process],
    n: int,
    steps: str | Iterable[str],
    *,
    options: Mapping[str, Any] | tuple[str, ...] = (),
    initial: Mapping[ProcessId, Mapping[str, Any]] | tuple[str, ...] = (),
    over: str = "",
    abstract: str = "",
    refines: str = "",
    entries: int | None = 1,
    network: str = "",
    faults: Mapping[str, int] | tuple[tuple[str, int], ...] = (),
    merging: bool = False,
    order: bool = False,
    outside: bool = False,
    loop: int | None = None,
) -> Played:
    """Play the steps of a schedule with the bare processes of an algorithm as it is now.

        played = play("central-timeout", 2, '''
            1 acquire
            0 receives Request from 1
            1 receives Grant from 0
        ''')
        assert "ME1" not in played.violated

    algorithm: a name of the catalog, a class, or a class of a file (`path/to/mine.py:MyMutex`).
    n: the number of participants.
    steps: the steps, one on each line.
    options: options of the algorithm, such as ("lease=2s",), or by name as in `habemus.check`.
    initial: initial values of variables, such as ("1.holder=2",), or as in `habemus.check`.
    loop: the steps after this many are one round of a loop.

    A step that the algorithm, as it is now, cannot make ends the play: `Played.diverged` has the
    reason.  `ValueError`: a step of a process or a request that does not exist.

    The other arguments bound the search from which the schedule comes; see `habemus.check`.
    """
    entry = entry_by_place(algorithm) if isinstance(algorithm, type) else find(os.fspath(algorithm))
    check = Check(
        entry.name,
        n,
        options=option_texts(options) if isinstance(options, Mapping) else options,
        initial=initial_texts(initial) if isinstance(initial, Mapping) else initial,
        over=over,
        abstract=abstract,
        refines=refines,
        entries=entries,
        network=network,
        faults=tuple(faults.items()) if isinstance(faults, Mapping) else faults,
        merging=merging,
        order=order,
        outside=outside,
    )
    parsed = schedule(steps)
    _refuse_unknown_names(parsed, check.system(entry))
    return played(check, parsed, loop=loop, entry=entry)


def _refuse_unknown_names(steps: Iterable[Step], system: System) -> None:
    """Refuse a step of a process, or a request, that no run of the algorithm has."""
    requests = {
        name for plan in system.plans.values() for name in type(plan).__behaviour__.requests
    }
    for step in steps:
        for process in (step.process, step.peer):
            if process != -1 and process not in system.plans:
                known = ", ".join(map(str, system.plans))
                raise BadSchedule(f"{step}: there is no process {process}; there are {known}")
        name = step.what.partition("(")[0]
        if step.kind == "request" and name not in requests:
            hint = did_you_mean(name, sorted(requests))
            raise BadSchedule(f"{step}: there is no request {name}; {hint}")


__all__ = ["Played", "play"]
