"""Findings about a run of a failure detector, completeness and accuracy, and its quality.

The simulator knows which processes crashed, so the monitor can tell a mistake from a detection.  A
*mistake* is a suspicion of a process that is up; it lasts until the suspicion is withdrawn or one
of the two processes crashes.  A *detection* is a suspicion of a process that is down; its time
counts from the crash.

Both properties are about the end of the run, and follow the rule of `finality`.  Completeness is
judged only in runs in which a process is down at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from habemus.core.events import Event
from habemus.core.process import ProcessId
from habemus.core.properties import Finding, Kind, Property
from habemus.problems.finality import FAULT_EVENTS, Finality, in_ms

COMPLETENESS = Property(
    "completeness",
    Kind.EVENTUALLY,
    "in the end every process that is down is suspected by every one that is up",
)
ACCURACY = Property(
    "accuracy", Kind.EVENTUALLY, "in the end no process that is up is suspected by one that is up"
)

PROPERTIES = (COMPLETENESS, ACCURACY)


@dataclass
class DetectorMonitor:
    """Reads every event of a run in order; `findings` returns a verdict for each property."""

    processes: tuple[ProcessId, ...]
    label: Callable[[ProcessId], str] = str
    planned_end: int | None = None

    down: dict[ProcessId, int] = field(default_factory=dict, init=False)  # since when
    # since when one process suspects another
    suspicions: dict[tuple[ProcessId, ProcessId], int] = field(default_factory=dict, init=False)
    mistakes: int = field(default=0, init=False)
    mistake_durations: list[int] = field(default_factory=list, init=False)  # if it has ended
    detection_times: list[int] = field(default_factory=list, init=False)
    last_mistake: int | None = field(default=None, init=False)  # when the last one began or ended

    _mistaken: set[tuple[ProcessId, ProcessId]] = field(default_factory=set, init=False, repr=False)
    # of a suspicion of a process that is up
    _last_change: int = field(default=0, init=False, repr=False)
    _last_detection: int = field(default=0, init=False, repr=False)
    _last_fault: int = field(default=0, init=False, repr=False)

    def observe(self, event: Event) -> None:
        kind = event.kind
        if event.part:
            return
        if kind == "indicate" and event.name == "Suspected":
            self._suspect(event.time, event.process, event.fields()["process"])
        elif kind == "indicate" and event.name == "Restored":
            self._restore(event.time, event.process, event.fields()["process"])
        elif kind in FAULT_EVENTS:
            self._last_fault = event.time
            if kind == "crash":
                self._crash(event.time, event.process)
            elif kind == "recover":
                self._recover(event.process)

    def _suspect(self, time: int, who: ProcessId, whom: ProcessId) -> None:
        if (who, whom) in self.suspicions:
            return
        self.suspicions[who, whom] = time
        if whom in self.down:
            self.detection_times.append(time - self.down[whom])
            self._last_detection = time
        else:
            self.mistakes += 1
            self.last_mistake = self._last_change = time
            self._mistaken.add((who, whom))

    def _restore(self, time: int, who: ProcessId, whom: ProcessId) -> None:
        since = self.suspicions.pop((who, whom), None)
        if since is None:
            return
        if whom in self.down:
            self._last_detection = time
        else:
            self._last_change = time
        if (who, whom) in self._mistaken:
            self._end_mistake(time, who, whom, since)

    def _end_mistake(self, time: int, who: ProcessId, whom: ProcessId, since: int) -> None:
        self._mistaken.discard((who, whom))
        self.last_mistake = time
        self.mistake_durations.append(time - since)

    def _crash(self, time: int, process: ProcessId) -> None:
        self.down[process] = time
        for (who, whom), since in sorted(self.suspicions.items()):
            if process not in (who, whom):
                continue
            if (who, whom) in self._mistaken:
                self._end_mistake(time, who, whom, since)
            if who == process:
                del self.suspicions[who, whom]  # volatile state is lost
            else:
                self.detection_times.append(0)  # suspected before the crash

    def _recover(self, process: ProcessId) -> None:
        """Note a recovery.  A suspicion of the process was right so far; it is not counted as a
        mistake, but must be withdrawn in the end.
        """
        del self.down[process]

    def findings(self, ending: str) -> list[Finding]:
        found = [self._judge_accuracy(ending)]
        return [self._judge_completeness(ending), *found] if self.down else found

    def _judge_completeness(self, ending: str) -> Finding:
        up = [process for process in self.processes if process not in self.down]
        missing = [
            (who, whom)
            for who in up
            for whom in sorted(self.down)
            if (who, whom) not in self.suspicions
        ]
        final = Finality(ending, self.planned_end, self._last_detection, max(self.down.values()))
        if not missing:
            gone = ", ".join(map(self.label, sorted(self.down)))
            return final.finding(
                COMPLETENESS.name, True, f"{gone} down, and suspected by all {len(up)} that are up"
            )
        who, whom = missing[0]
        why = (
            f"{self.label(who)} does not suspect {self.label(whom)}, which is down since"
            f" {in_ms(self.down[whom])}"
        )
        return final.finding(COMPLETENESS.name, False, why, (who, whom))

    def _judge_accuracy(self, ending: str) -> Finding:
        wrong = sorted(pair for pair in self.suspicions if pair[1] not in self.down)
        final = Finality(ending, self.planned_end, self._last_change, self._last_fault)
        if not wrong:
            count = "one mistake" if self.mistakes == 1 else f"{self.mistakes or 'no'} mistakes"
            last = (
                f", the last over at {in_ms(self.last_mistake)}"
                if self.last_mistake is not None
                else ""
            )
            return final.finding(ACCURACY.name, True, f"{count}{last}")
        who, whom = wrong[0]
        why = (
            f"{self.label(who)} suspects {self.label(whom)} since"
            f" {in_ms(self.suspicions[who, whom])}, and it is up"
        )
        return final.finding(ACCURACY.name, False, why, (who, whom))
