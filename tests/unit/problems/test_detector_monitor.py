"""The monitor of detectors, fed by hand."""

from habemus.core.events import Event
from habemus.core.properties import Verdict
from habemus.problems.detector import Restored, Suspected
from habemus.problems.detector_monitor import DetectorMonitor

HOLDS, VIOLATED, UNDECIDED = Verdict.HOLDS, Verdict.VIOLATED, Verdict.UNDECIDED


def suspects(time: int, who: int, whom: int) -> Event:
    return Event(time, who, "indicate", "Suspected", Suspected(whom))


def restores(time: int, who: int, whom: int) -> Event:
    return Event(time, who, "indicate", "Restored", Restored(whom))


def watched(*events: Event) -> DetectorMonitor:
    monitor = DetectorMonitor((1, 2, 3), planned_end=1_000)
    for event in events:
        monitor.observe(event)
    return monitor


def judged(*events: Event, ending: str = "time") -> dict[str, Verdict]:
    return {finding.name: finding.verdict for finding in watched(*events).findings(ending)}


CRASH = Event(100, 3, "crash")


def test_completeness() -> None:
    assert judged() == {"accuracy": HOLDS}, (
        "where nobody is down there is nothing to be complete about"
    )
    assert judged(CRASH) == {"completeness": VIOLATED, "accuracy": HOLDS}
    assert judged(CRASH, suspects(150, 1, 3)) == {"completeness": VIOLATED, "accuracy": HOLDS}
    assert judged(CRASH, suspects(150, 1, 3), suspects(160, 2, 3)) == {
        "completeness": HOLDS,
        "accuracy": HOLDS,
    }
    assert judged(Event(900, 3, "crash"))["completeness"] is UNDECIDED, "there was no time"
    assert (
        judged(CRASH, suspects(150, 1, 3), suspects(160, 2, 3), ending="events")["completeness"]
        is UNDECIDED
    )
    assert judged(CRASH, Event(200, 3, "recover")) == {"accuracy": HOLDS}


def test_accuracy() -> None:
    assert judged(suspects(100, 1, 2), restores(200, 1, 2))["accuracy"] is HOLDS
    assert judged(suspects(100, 1, 2))["accuracy"] is VIOLATED
    assert judged(suspects(800, 1, 2), restores(810, 1, 2))["accuracy"] is UNDECIDED, (
        "it still errs in the last quarter"
    )
    assert judged(suspects(100, 1, 2), Event(200, 1, "crash"))["accuracy"] is HOLDS, (
        "it does not any more"
    )
    back = (CRASH, suspects(150, 1, 3), suspects(160, 2, 3), Event(300, 3, "recover"))
    assert judged(*back)["accuracy"] is VIOLATED, "a process that is back must be restored"
    assert judged(*back, restores(310, 1, 3), restores(320, 2, 3))["accuracy"] is HOLDS


def test_quality() -> None:
    monitor = watched(
        suspects(50, 1, 2), restores(80, 1, 2), suspects(90, 2, 3), CRASH, suspects(140, 1, 3)
    )
    assert monitor.mistakes == 2
    assert monitor.mistake_durations == [30, 10], "the second one became true by the crash"
    assert monitor.detection_times == [0, 40]
    assert monitor.last_mistake == 100
