"""The rule by which the end of a run is final, for properties that must hold *in the end*.

A quiescent state is final.  Processes that never become idle (they send heartbeats) need a planned
end, and then the rule is: **a state that lasted for the whole last quarter of the run is final.**
So a property

- holds, if it is true at the planned end and nothing that it is about changed in the last quarter;
- is violated, if it is false at the planned end, and there was neither such a change nor a fault in
  the last quarter;
- is undecided otherwise, and in every run that was cut off before its planned end.
"""

from __future__ import annotations

from typing import NamedTuple

from habemus.core.process import ProcessId
from habemus.core.properties import Finding, Verdict

FAULT_EVENTS = ("crash", "recover", "pause", "resume", "cut", "heal", "slow")
"""Kinds of events after which a run needs time to show that a violation is final."""


def is_late(time: int, planned_end: int | None) -> bool:
    """Return whether a moment lies in the last quarter of a run with a planned end."""
    return planned_end is not None and 4 * time > 3 * planned_end


class Finality(NamedTuple):
    ending: str  # `quiescent`, `done`, `time` or `events`
    planned_end: int | None
    last_change: int
    last_fault: int

    def finding(
        self, name: str, is_true: bool, why: str, processes: tuple[ProcessId, ...] = ()
    ) -> Finding:
        moved = self.last_change if is_true else max(self.last_change, self.last_fault)
        if self.ending == "time" and self.planned_end is not None:
            is_final = not is_late(moved, self.planned_end)
            if is_final:
                why += (
                    f"; nothing changed from {in_ms(moved)} to the end at {in_ms(self.planned_end)}"
                )
        else:
            is_final = self.ending in ("quiescent", "done")
        if not is_final:
            return Finding(
                name,
                Verdict.UNDECIDED,
                f"{why}, but that is not final: the last change was at {in_ms(moved)}",
            )
        if is_true:
            return Finding(name, Verdict.HOLDS, why)
        return Finding(name, Verdict.VIOLATED, why, moved, processes)


def in_ms(time: int) -> str:
    return f"{time / 1000:g} ms"
