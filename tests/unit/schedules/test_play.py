"""Schedules: written, read, played by the bare processes, performed in the simulator, and kept as
tests.
"""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from shlex import split
from typing import Any

import pytest

from habemus.algorithms.mutex.central import Central, Grant, Release
from habemus.catalog.entries import entry_of
from habemus.core import MistakeInAlgorithm, ProcessId, upon, whenever
from habemus.runs.check import Check, CheckReport, perform
from habemus.runs.setup import BadSetup
from habemus.runtimes.checker.counterexample import STEP_US
from habemus.schedules.counterexamples import again
from habemus.schedules.play import Played, played
from habemus.schedules.regression import regression_test
from habemus.schedules.schedule import BadSchedule, Step, parsed, schedule, schedule_of
from habemus.testing import play
from habemus.traces.file import read, write

CHECKS = {
    "a timer": Check("central-timeout", 2),
    "a deadlock": Check("maekawa", 3),
    "a crash": Check("central", 2, faults=(("crash", 1),)),
    "a crash in the middle of a step": Check("central", 2, faults=(("crash", 1), ("recover", 1))),
    "a recovery": Check(
        "quorum", 2, options=("coordinators=1",), faults=(("crash", 1), ("recover", 1)), every=True
    ),
    "amnesia": Check(
        "quorum-durable",
        2,
        options=("coordinators=1",),
        faults=(("amnesia", 1), ("crash", 1)),
        every=True,
    ),
    "a lost message": Check("central", 2, network="lossy"),
    "a message twice": Check("central", 2, network="duplicating"),
    "out of order": Check("lamport", 2, entries=2, network="unordered"),
    "an election": Check("bully", 2),
    "links below": Check(
        "central", 2, over="perfect", faults=(("crash", 1),), timeouts=2, merging=True
    ),
    "something drawn": Check("itai-rodeh", 2, faults=(("lose", 1),)),
    "time passes": Check("bully", 3, timing="synchronous", faults=(("crash", 1),)),
}


@cache
def report_of(name: str) -> CheckReport:
    report = perform(CHECKS[name])
    assert report.violated, f"{CHECKS[name].command()} finds nothing"
    return report


def played_again(report: CheckReport, name: str) -> tuple[list[Step], Played]:
    told = report.stories[name]
    steps = schedule_of(report.traces[name].events, told.steps)
    loop = None if told.loop is None else told.loop // STEP_US - 1
    return steps, played(report.check, steps, loop=loop, entry=report.entry)


@pytest.mark.parametrize("name", CHECKS)
def test_a_counterexample_is_played_as_it_was_told(name: str) -> None:
    report = report_of(name)
    for violated, trace in report.traces.items():
        steps, result = played_again(report, violated)
        assert schedule("\n".join(map(str, steps))) == steps
        assert result.events == trace.events
        assert result.diverged == ""
        assert violated in result.violated


@pytest.mark.parametrize("name", CHECKS)
def test_a_saved_counterexample_happens_again_and_in_the_simulator(
    name: str, tmp_path: Path
) -> None:
    for trace in report_of(name).traces.values():
        write(trace, tmp_path / "c.json")
        found = again(read(tmp_path / "c.json", trusted=True))
        assert found.same
        assert found.digest == found.saved
        if name == "a message twice":
            assert found.simulated.startswith("not performed")
        else:
            assert found.simulated == f"{found.name} is violated too"


def test_a_changed_file_is_not_the_same(tmp_path: Path) -> None:
    trace = report_of("a timer").trace
    assert trace is not None
    other = (*trace.events[:-1], trace.events[-1]._replace(process=1))
    write(
        type(trace)(trace.run, trace.processes, trace.labels, other, trace.findings),
        tmp_path / "c.json",
    )
    found = again(read(tmp_path / "c.json", trusted=True))
    assert not found.same
    assert found.different.startswith("event 16 is")
    write(
        type(trace)({"check": trace.run["check"]}, trace.processes, trace.labels, other),
        tmp_path / "c.json",
    )
    with pytest.raises(BadSetup, match="names no property"):
        again(read(tmp_path / "c.json"))


@pytest.mark.parametrize(
    "run",
    [
        {"check": 3},
        {"check": {"algorithm": "central"}},
        {"check": {"algorithm": "central", "n": "2"}},
        {"steps": -1},
        {"loop": "x"},
        {"property": 1},
    ],
)
def test_a_header_from_anywhere_is_refused(run: dict[str, Any]) -> None:
    trace = report_of("a timer").trace
    assert trace is not None
    with pytest.raises(BadSetup):
        again(type(trace)({**trace.run, **run}, trace.processes, trace.labels, trace.events))


def test_events_that_are_no_schedule_are_refused() -> None:
    trace = report_of("a lost message").trace
    assert trace is not None
    for without in ("send", "request"):
        with pytest.raises(BadSchedule):
            again(
                type(trace)(
                    trace.run,
                    trace.processes,
                    trace.labels,
                    tuple(event for event in trace.events if event.kind != without),
                )
            )


# Reading and writing.


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("1 acquire", Step("request", 1, "acquire")),
        ("  2   receives Request(1) from 1 ", Step("receive", 2, "Request(1)", 1)),
        ("2 receives a copy of Request(1) from 1", Step("copy", 2, "Request(1)", 1)),
        (
            "2 receives Numbered(1, Request()) from 1 at .links",
            Step("receive", 2, "Numbered(1, Request())", 1, ".links"),
        ),
        ("Request(1) from 1 to 2 is lost", Step("lose", 2, "Request(1)", 1)),
        ("2 misses Request(1) from 1", Step("vanish", 2, "Request(1)", 1)),
        (
            "3 timer Retry(2), choosing 1 then [2, 3]",
            Step("timer", 3, "Retry(2)", choices=("1", "[2, 3]")),
        ),
        ("1 release, crashing after 0 sends", Step("request", 1, "release", torn=0)),
        ("1 write(1, 2)", Step("request", 1, "write(1, 2)")),
        ("1 crashes", Step("crash", 1)),
        ("1 recovers", Step("recover", 1)),
        ("1 forgets", Step("amnesia", 1)),
        ("time passes", Step("pass")),
        ("1 starts, choosing 2", Step("start", 1, choices=("2",))),
    ],
)
def test_lines(line: str, step: Step) -> None:
    assert parsed(line) == step
    assert str(step) == " ".join(line.split())


@pytest.mark.parametrize(
    "line", ["", "acquire", "one acquire", "1", "1 2", "Request from 1 to 2 is"]
)
def test_what_is_no_step_is_refused(line: str) -> None:
    with pytest.raises(BadSchedule, match="is not a step"):
        parsed(line)


# Algorithms that were changed.


class Careless(Central):
    """Does not look whether anybody is inside."""

    def is_free_and_wanted(self) -> bool:
        return bool(self.waiting)

    @whenever(is_free_and_wanted)
    def admit_next(self) -> None:
        self.holder = self.waiting.pop(0)
        self.send(Grant(), to=self.holder)


class Silent(Central):
    """Does not grant anything."""

    @whenever(Central.is_free_and_wanted)
    def admit_next(self) -> None:
        self.waiting.pop(0)


class Starving(Central):
    """Serves the smallest first, whoever came first."""

    @whenever(Central.is_free_and_wanted)
    def admit_next(self) -> None:
        self.waiting.sort()
        self.holder = self.waiting.pop(0)
        self.send(Grant(), to=self.holder)


class Broken(Central):
    @upon(Release)
    def vacate(self, sender: ProcessId, _: Release) -> None:
        self.waiting.remove(sender)


TWO_INSIDE = """
# 0 is the coordinator.
1 acquire
2 acquire
0 receives Request from 1
0 receives Request from 2
1 receives Grant from 0
2 receives Grant from 0
"""


def test_a_bug_shows_and_its_repair_does_not() -> None:
    wrong = play(Careless, 2, TWO_INSIDE)
    assert "while 1 was inside" in wrong.violated["ME1"]
    assert wrong.steps == 6 and not wrong.diverged
    right = play(Central, 2, TWO_INSIDE)
    assert not right.violated
    assert right.steps == 5
    assert right.diverged == "step 6, 2 receives Grant from 0: nothing is under way to it"


def test_standing_still_is_judged_only_at_the_end_of_the_whole_schedule() -> None:
    steps = TWO_INSIDE.strip().splitlines()[1:5]
    assert list(play(Silent, 2, steps).violated) == ["ME2-deadlock"]
    assert not play(Silent, 2, steps[:3]).violated  # a request is still under way
    assert not play(Central, 2, steps).violated


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ("1 release", "its application can only acquire now"),
        ("0 acquire", "its application asks for nothing now"),
        ("1 acquire\n1 acquire", "its application asks for nothing now"),
        (
            "1 acquire\n0 receives Request from 2",
            "no such message is under way to it, only Request from 1",
        ),
        (
            "1 acquire\n0 receives Request(1) from 1",
            "no such message is under way to it, only Request from 1",
        ),
        ("1 timer Retry", "no timer is set"),
        ("1 recovers", "1 is up"),
        ("1 crashes\n1 acquire", "1 is down"),
        ("1 acquire, choosing 4", "1 does not choose any more"),
        ("2 misses Grant from 0", "2 is up"),
    ],
)
def test_a_schedule_that_cannot_be_followed_says_where(steps: str, why: str) -> None:
    result = play("central", 2, steps)
    assert result.diverged.endswith(f": {why}")
    assert result.steps == len(steps.splitlines()) - 1


def test_what_is_durable_is_there_after_a_recovery_and_not_after_amnesia() -> None:
    volatile = report_of("a recovery")
    steps, result = played_again(volatile, "ME1")
    kinds = [step.kind for step in steps]
    assert "recover" in kinds and "ME1" in result.violated
    faults = (("amnesia", 1), ("crash", 1), ("recover", 1))
    assert not play(
        "quorum-durable", 2, map(str, steps), options=("coordinators=1",), faults=faults
    ).violated
    forgetful = [
        step._replace(kind="amnesia") if step.kind == "recover" else step for step in steps
    ]
    assert (
        "ME1"
        in play(
            "quorum-durable", 2, map(str, forgetful), options=("coordinators=1",), faults=faults
        ).violated
    )


def test_a_schedule_is_what_its_events_tell() -> None:
    lines = [
        # one more has gone, to itself, which no crash can cut off
        "1 acquire, crashing after 1 sends",
        "2 receives Request from 1",
        "1 misses Vote from 2",
        "1 misses Request from 1",
        "1 forgets",
        "2 acquire",
        "Request from 2 to 1 is lost",
        "2 receives a copy of Request from 2",
    ]
    faults = (("amnesia", 1), ("copy", 1), ("crash", 1), ("lose", 1))
    result = play("maekawa", 2, lines, faults=faults)
    assert not result.diverged
    assert list(map(str, schedule_of(result.events, len(lines)))) == lines


def test_links_that_keep_the_order_deliver_only_the_first() -> None:
    steps = (
        "1 acquire\n0 receives Request from 1\n1 receives Grant from 0\n1 release\n1 acquire\n0"
        " receives Request from 1"
    )
    assert not play("central", 2, steps, entries=2).diverged
    assert "only Release from 1" in play("central", 2, steps, entries=2, network="fifo").diverged


def test_what_is_drawn_must_be_possible() -> None:
    report = report_of("something drawn")
    steps, result = played_again(report, report.violated[0])
    draws = [step for step in steps if step.choices]
    assert draws
    for wrong in (draws[0]._replace(choices=("77",)), draws[0]._replace(choices=())):
        changed = [wrong if step is draws[0] else step for step in steps]
        assert played(report.check, changed).steps != result.steps


def test_a_mistake_in_a_handler_is_told_with_its_line() -> None:
    with pytest.raises(MistakeInAlgorithm, match=r"test_play.py, line \d+, in vacate: ValueError"):
        play(
            Broken,
            2,
            "1 acquire\n0 receives Request from 1\n1 receives Grant from 0\n1 release\n0 receives"
            " Release from 1",
        )


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ("9 acquire", "9 acquire: there is no process 9; there are 0, 1, 2, 3"),
        ("1 receives Grant from 9", "there is no process 9; there are 0, 1, 2, 3"),
        ("1 acquir", "1 acquir: there is no request acquir; did you mean acquire?"),
        ("1 explodes", "there is no request explodes; there are acquire, release, write"),
    ],
)
def test_a_step_that_no_run_has_is_refused(steps: str, why: str) -> None:
    with pytest.raises(BadSchedule) as refused:
        play("central", 3, steps)
    assert why in str(refused.value)


def test_arguments_may_have_the_form_that_a_check_takes() -> None:
    faults = {"crash": 1}
    assert play("central", 3, "1 crashes", faults=faults) == play(
        "central", 3, "1 crashes", faults=(("crash", 1),)
    )
    by_mapping = play("ricart-agrawala", 2, "1 acquire", initial={1: {"clock": 5}})
    by_text = play("ricart-agrawala", 2, "1 acquire", initial=("1.clock=5",))
    assert by_mapping == by_text
    options = {"timeout": "5ms"}
    assert play("central-timeout", 2, "1 acquire", options=options).steps == 1


def test_a_detector_has_no_schedule() -> None:
    with pytest.raises(BadSetup, match="about time"):
        play("heartbeat", 2, "1 crashes")


# Loops.


def starved() -> CheckReport:
    report = perform(Check("starving", 3, entries=None), entry=entry_of(Starving))
    assert report.violated == ["ME2-starvation"]
    return report


def test_a_loop_still_loops_and_a_repaired_algorithm_does_not() -> None:
    report = starved()
    steps, result = played_again(report, "ME2-starvation")
    assert result.events == report.traces["ME2-starvation"].events
    assert result.violated["ME2-starvation"].startswith("still loops: everything is as it was")
    assert result.violated["ME2-starvation"].endswith(" never gets what it waits for")
    assert report.findings[-1].why.endswith(" never gets what it waits for")
    told = report.stories["ME2-starvation"]
    assert told.loop is not None
    loop = told.loop // STEP_US - 1
    assert not played(report.check, steps, loop=loop, entry=entry_of(Central)).violated
    assert not played(
        report.check, steps[:-1], loop=loop, entry=report.entry
    ).violated  # not once round


UNFAIR = """
from habemus.algorithms.mutex.central import Central, Grant
from habemus.core import whenever


class Unfair(Central):
    @whenever(Central.is_free_and_wanted)
    def admit_next(self) -> None:
        self.waiting.sort()
        self.holder = self.waiting.pop(0)
        self.send(Grant(), to=self.holder)
"""


def test_a_saved_loop_happens_again(tmp_path: Path) -> None:
    (tmp_path / "unfair.py").write_text(UNFAIR, encoding="utf-8")
    report = perform(Check(f"{tmp_path / 'unfair.py'}:Unfair", 3, entries=None))
    assert report.trace is not None
    write(report.trace, tmp_path / "c.json")
    found = again(read(tmp_path / "c.json", trusted=True))
    assert found.same and found.digest == found.saved
    assert found.played.violated["ME2-starvation"].startswith("still loops")
    assert found.simulated == "the same events"  # a run that ends shows no loop


# As a test.


OWN = """
from habemus.algorithms.mutex.central import Central
from habemus.core import whenever
from habemus.algorithms.mutex.central import Grant


class Own(Central):
    def is_free_and_wanted(self) -> bool:
        return bool(self.waiting)

    @whenever(is_free_and_wanted)
    def admit_next(self) -> None:
        self.holder = self.waiting.pop(0)
        self.send(Grant(), to=self.holder)
"""


def test_the_written_test_fails_until_the_bug_is_repaired(tmp_path: Path) -> None:
    for folder in ("before", "after"):
        (tmp_path / folder / "tests").mkdir(parents=True)
    own = tmp_path / "before" / "own.py"
    own.write_text(OWN, encoding="utf-8")
    text = regression_test(perform(Check(f"{own}:Own", 2)), own.parent / "tests")
    assert "habemus check" in text and "ME1 is violated in 6 steps" in " ".join(text.split())
    with pytest.raises(AssertionError, match="2 entered on Grant from coordinator"):
        run_test_of(text, own.parent / "tests" / "test_own.py")
    repaired = OWN.replace("return bool", "return self.holder is None and bool")
    (tmp_path / "after" / "own.py").write_text(repaired, encoding="utf-8")
    run_test_of(text, tmp_path / "after" / "tests" / "test_own.py")


def run_test_of(text: str, file: Path) -> None:
    """Runs the one test of a text as if it stood in that file."""
    names: dict[str, Any] = {"__file__": str(file)}
    exec(compile(text, str(file), "exec"), names)
    [test] = [each for name, each in names.items() if name.startswith("test_")]
    test()


def test_the_commands_keep_and_replay_a_counterexample(tmp_path: Path) -> None:
    def habemus(*arguments: str) -> Any:
        command = [sys.executable, "-W", "error", "-m", "habemus", *arguments, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout)

    code, _ = habemus(
        "check", "central-timeout", "-n", "2", "--diagram", "c.json", "--pytest", "test_c.py"
    )
    assert code == 1
    with pytest.raises(AssertionError, match="while 1 was inside"):
        run_test_of((tmp_path / "test_c.py").read_text(encoding="utf-8"), tmp_path / "test_c.py")
    code, replayed = habemus("replay", "c.json")
    assert code == 0
    assert replayed["same"] and replayed["digest"] == replayed["saved"]
    assert (replayed["property"], replayed["steps"], replayed["simulator"]) == (
        "ME1",
        7,
        "ME1 is violated too",
    )


def test_written_tests_are_formatted_and_typed(tmp_path: Path) -> None:
    reports = [*(report_of(name) for name in CHECKS), starved()]
    for number, report in enumerate(reports):
        (tmp_path / f"test_{number}.py").write_text(
            regression_test(report, tmp_path), encoding="utf-8"
        )
    texts = "".join(file.read_text(encoding="utf-8") for file in tmp_path.iterdir())
    assert "loop=" in texts and "faults=(" in texts and "crashing after" in texts
    for width in ("88", "140"):
        words = split(f"-m ruff format --isolated --check --line-length {width} {tmp_path}")
        command = [sys.executable, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    words = split(f"-m ruff check --isolated --select E4,E7,E9,F,I {tmp_path}")
    assert subprocess.run([sys.executable, *words], check=False).returncode == 0
    for file in tmp_path.iterdir():
        compile(file.read_text(encoding="utf-8"), file.name, "exec")
