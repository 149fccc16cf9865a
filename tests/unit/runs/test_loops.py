"""The search for loops has its own progress and time, and is skipped when it decides nothing."""

from habemus.runs.check import NOT_NEEDED, Check, perform


def test_the_search_for_loops_tells_how_far_it_is() -> None:
    told: list[tuple[int, int]] = []
    report = perform(
        Check("central", 2, entries=None), loop_progress=lambda *each: told.append(each)
    )
    assert told == [(0, report.extent.states), (report.extent.states, report.extent.states)]
    assert report.loop_seconds > 0
    assert report.plain()["loop_seconds"] == round(report.loop_seconds, 3)


def test_loops_are_not_searched_if_no_verdict_depends_on_them() -> None:
    told: list[int] = []
    report = perform(
        Check("maekawa", 3, entries=None, every=True), loop_progress=lambda *_: told.append(1)
    )
    assert report.extent.complete
    assert (report.loops, told) == (NOT_NEEDED, [])
    assert "ME2-deadlock" in report.violated
