"""The planned end of a run."""

from __future__ import annotations

from habemus.core.process import Process
from habemus.runs import notation
from habemus.runs.setup import Setup


def planned_end(setup: Setup, algorithm: type[Process]) -> int | None:
    """Return the planned end of a setup; else, for processes that never become idle, the end of
    their duration after the last fault.

    None: the run lasts until nothing can happen any more.
    """
    if setup.until is not None:
        return notation.time(setup.until)
    duration: int | None = getattr(algorithm, "duration", None)
    if duration is None:
        return None
    moments = [0, getattr(notation.delay(setup.delay), "gst", 0)]
    moments += [notation.ask(text).at for text in setup.resign]
    for kind, text in setup.faults:
        fault = notation.FAULT_PARSERS[kind](text)
        when = getattr(fault, "when", None)
        if isinstance(when, int):
            moments.append(when + getattr(fault, "duration", 0))
    return max(moments) + duration
