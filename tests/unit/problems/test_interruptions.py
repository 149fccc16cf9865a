"""Applications that stop waiting, and leaders that resign, in runs."""

from typing import Any

import pytest

from habemus.core.events import Event
from habemus.core.properties import Verdict
from habemus.runs.setup import BadSetup, Setup
from habemus.runs.simulate import execute


def events(setup: Setup) -> list[Event]:
    report = execute(setup)
    assert report.verdict is Verdict.HOLDS, report.why
    assert report.trace is not None
    return list(report.trace.events)


def test_an_application_stops_waiting_after_its_time() -> None:
    asks = ("1@50ms+40ms", "2@60ms", "3@80ms")
    found = events(Setup("elected-coordinator", 3, asks=asks, give_up="15ms"))
    own = [(event.process, event.time, event.name) for event in found]
    assert (2, 75_000, "release") in own
    assert not [each for each in own if each[0] == 2 and each[2] == "Granted"]
    assert [
        name for process, _, name in own if process == 3 and name in ("Granted", "release")
    ] == [
        "Granted",
        "release",
    ]


def test_a_leader_resigns_and_another_process_leads() -> None:
    found = events(Setup("terms", 3, resign=("1@400ms", "2@400ms", "3@400ms")))
    assert [event.name for event in found].count("resign") == 3
    resigned = {event.process for event in found if event.name == "Resignation"}
    leaders = [event.fields()["process"] for event in found if event.name == "Leader"]
    assert len({leader for leader in leaders if leader is not None}) == 2
    assert len(resigned) >= 1


@pytest.mark.parametrize(
    ("algorithm", "field", "why"),
    [
        ("central", {"give_up": "5ms"}, "central cannot cancel a request"),
        ("central", {"resign": ("1@5ms",)}, "central cannot resign"),
        ("terms", {"resign": ("7@5ms",)}, "there is no participant 7"),
    ],
)
def test_interruptions_that_an_algorithm_does_not_have_are_refused(
    algorithm: str, field: dict[str, Any], why: str
) -> None:
    with pytest.raises(BadSetup, match=why):
        execute(Setup(algorithm, 3, **field))
