"""The monitor of elections, fed by hand: who leads when, and what is counted."""

from habemus.core.events import Event
from habemus.core.properties import Verdict
from habemus.problems.election import Leader
from habemus.problems.election_monitor import ElectionMonitor

HOLDS, VIOLATED, UNDECIDED = Verdict.HOLDS, Verdict.VIOLATED, Verdict.UNDECIDED


def names(time: int, process: int, leader: int | None, term: int = 0) -> Event:
    return Event(time, process, "indicate", "Leader", Leader(leader, term))


def judged(
    *events: Event, scope: str = "ever", ending: str = "quiescent", planned_end: int | None = None
) -> dict[str, Verdict]:
    monitor = ElectionMonitor((1, 2, 3), scope, handover=1_000, planned_end=planned_end)
    for event in events:
        monitor.observe(event)
    return {finding.name: finding.verdict for finding in monitor.findings(ending)}


ALL_NAME_3 = (names(10, 3, 3), names(20, 1, 3), names(20, 2, 3))


def test_one_leader() -> None:
    assert judged(*ALL_NAME_3) == {"E1": HOLDS, "E2": HOLDS, "E3": HOLDS, "E4": HOLDS}


def test_nothing_happened() -> None:
    assert judged() == {"E1": UNDECIDED, "E2": VIOLATED, "E3": UNDECIDED, "E4": UNDECIDED}


def test_two_leaders_of_one_election() -> None:
    found = judged(names(10, 3, 3), names(11, 2, 2), names(12, 2, 3), names(20, 1, 3))
    assert found == {"E1": VIOLATED, "E2": HOLDS, "E3": HOLDS, "E4": HOLDS}


def test_after_a_crash_there_may_be_another() -> None:
    assert judged(
        *ALL_NAME_3, Event(30, 3, "crash"), names(40, 2, 2), names(50, 1, 2)
    ) == dict.fromkeys(("E1", "E2", "E3", "E4"), HOLDS)


def test_a_paused_leader_still_leads() -> None:
    found = judged(names(10, 3, 3), Event(12, 3, "pause"), names(20, 2, 2), names(30, 1, 2))
    assert found["E1"] is VIOLATED


def test_a_take_over_is_no_second_leader_while_the_news_is_under_way() -> None:
    in_time = judged(*ALL_NAME_3, names(100, 2, 2), names(1_100, 3, 2), names(1_100, 1, 2))
    assert in_time == {"E1": HOLDS, "E2": HOLDS, "E3": HOLDS, "E4": VIOLATED}
    late = judged(*ALL_NAME_3, names(100, 2, 2), names(1_101, 3, 2), names(1_101, 1, 2))
    assert late["E1"] is VIOLATED
    never = judged(*ALL_NAME_3, names(100, 2, 2))
    assert never["E1"] is VIOLATED and never["E3"] is VIOLATED
    cut_off = judged(*ALL_NAME_3, names(100, 2, 2), ending="events")
    assert cut_off["E1"] is UNDECIDED


def test_a_leader_that_is_paused_or_cut_off_may_be_replaced() -> None:
    for fault in (Event(50, 3, "pause"), Event(50, 3, "cut", peer=1), Event(50, 1, "cut", peer=3)):
        assert (
            judged(
                *ALL_NAME_3,
                fault,
                names(100, 3, None),
                names(110, 2, 2),
                names(120, 1, 2),
                names(130, 3, 2),
            )["E4"]
            is HOLDS
        )
    healed = (Event(50, 3, "cut", peer=1), Event(60, 3, "heal", peer=1))
    assert judged(*ALL_NAME_3, *healed, names(100, 3, None), names(110, 2, 2))["E4"] is VIOLATED


def test_terms() -> None:
    overlap = (*ALL_NAME_3, names(100, 2, 2, 1), names(9_000, 1, 2, 1), names(9_000, 3, 2, 1))
    assert judged(*overlap, scope="term")["E1"] is HOLDS
    again = (names(10, 3, 3, 7), Event(20, 3, "crash"), names(30, 2, 2, 7), names(40, 1, 2, 7))
    assert judged(*again, scope="term")["E1"] is VIOLATED, "even if the first winner is gone"


def test_a_recovered_process_must_name_a_leader_again() -> None:
    found = judged(*ALL_NAME_3, Event(30, 1, "crash"), Event(40, 1, "recover"))
    assert found["E2"] is VIOLATED and found["E3"] is HOLDS


def test_a_leader_that_is_down() -> None:
    found = judged(*ALL_NAME_3, Event(30, 3, "crash"))
    assert found["E2"] is HOLDS and found["E3"] is VIOLATED


def test_the_last_quarter_decides() -> None:
    def at_the_end(*events: Event) -> dict[str, Verdict]:
        return judged(*events, scope="eventually", ending="time", planned_end=1_000)

    assert at_the_end(*ALL_NAME_3) == dict.fromkeys(("E1", "E2", "E3", "E4"), HOLDS)
    quarrel = (*ALL_NAME_3, names(300, 2, 2))
    assert at_the_end(*quarrel) == {"E1": VIOLATED, "E2": HOLDS, "E3": VIOLATED, "E4": HOLDS}
    assert at_the_end(*quarrel, names(740, 2, 3)) == dict.fromkeys(("E1", "E2", "E3", "E4"), HOLDS)
    late = at_the_end(*ALL_NAME_3, names(800, 2, 2), names(820, 2, 3))
    assert late == dict.fromkeys(("E1", "E2", "E3", "E4"), UNDECIDED), (
        "that may have been the last time"
    )
    assert at_the_end(*ALL_NAME_3, Event(900, 3, "crash"))["E3"] is UNDECIDED, (
        "they may still notice"
    )
    cut_off = judged(*ALL_NAME_3, scope="eventually", ending="events", planned_end=1_000)
    assert cut_off == dict.fromkeys(("E1", "E2", "E3", "E4"), UNDECIDED)


def test_turnaround() -> None:
    monitor = ElectionMonitor((1, 2, 3))
    events = [
        Event(5, 1, "request", "elect"),
        *ALL_NAME_3,
        Event(100, 3, "crash"),
        Event(130, 2, "request", "elect"),
        names(140, 2, 2),
        names(150, 1, 2),
        Event(300, 1, "request", "elect"),
        names(310, 2, 2),
        names(320, 1, 2),
        names(330, 1, 2),
    ]
    for event in events:
        monitor.observe(event)
    assert monitor.finished_turnarounds() == [15, 50, 20]
    assert monitor.changes == 1
