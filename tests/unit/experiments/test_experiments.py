"""`habemus.simulate`, `check`, `scenario`, `compare` and `load_trace`."""

from __future__ import annotations

import doctest
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import habemus
import habemus.experiments.comparison
import habemus.experiments.run
from habemus.algorithm import Message, Mutex, ProcessId, upon
from habemus.faults import Crash, Cut, Nth, both_ways


class Knock(Message):
    pass


class Polite(Mutex):
    """Mutual exclusion for one, and no entry for anybody else.

    Source   this test.
    Assumes  reliable links, in any order; no process crashes.
    Cost     nothing.
    Ensures  ME1.
    """

    def acquire(self) -> None:
        if self.me == 1:
            self.granted()
        else:
            self.send(Knock(), to=1)

    def release(self) -> None:
        pass

    @upon(Knock)
    def ignore(self, sender: ProcessId, _: Knock) -> None:
        pass


@pytest.mark.parametrize(
    "module", [habemus.experiments.run, habemus.experiments.comparison], ids=["run", "compare"]
)
def test_examples_of_docstrings(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.attempted > 0
    assert found.failed == 0


def test_the_same_arguments_give_the_run_of_the_command() -> None:
    result = habemus.simulate("central", n=3, seed=4, faults=[Crash(2, Nth("Granted"))])
    assert result.command == "habemus run central -n 3 --seed 4 --crash '2@Granted#1'"
    assert result.verdict is habemus.Verdict.VIOLATED
    assert result.violated == ["ME2-deadlock"]
    again = habemus.simulate("central", n=3, seed=4, faults=["crash 2@Granted#1"])
    assert again.digest == result.digest


def test_a_run_that_lacks_a_fault_is_undecided() -> None:
    result = habemus.simulate("ricart-agrawala", n=3, faults=["crash 2@Granted#9"])
    missed = "crash 2@Granted#9 did not strike: Granted happened 1 time at process 2"
    assert result.missed_faults == [missed]
    assert result.verdict is habemus.Verdict.UNDECIDED
    assert "undecided" in repr(result)
    assert habemus.simulate("ricart-agrawala", n=3).missed_faults == []


def test_the_reasons_are_those_of_properties_that_count() -> None:
    run = habemus.simulate("ra-majority-naive", n=4, workload="burst", delay="exp:1ms", requests=3)
    assert run.properties["ME3"] is habemus.Verdict.VIOLATED, "which it does not claim"
    assert run.violated == ["ME1"]
    assert run.why == run.plain["why"] == f"ME1: {run.reasons['ME1']}"
    found = habemus.check("maekawa", n=3, order=True, every=True)
    assert found.properties["ME3"] is habemus.Verdict.VIOLATED, "which it does not claim"
    assert found.why == f"ME2-deadlock: {found.reasons['ME2-deadlock']}"


def test_a_run_without_requests_has_no_order_to_keep() -> None:
    reasons = habemus.simulate("ricart-agrawala", requests=0).reasons
    assert reasons["ME3"] == "fewer than two entries, so there was no order to keep"


def test_a_bound_of_timeouts_is_none_without_timers() -> None:
    result = habemus.check("ricart-agrawala", n=2, timeouts=1)
    assert result.verdict is habemus.Verdict.HOLDS, result.why
    timed = habemus.check("central-timeout", n=2, timeouts=0, every=True)
    assert "timers run out only so many times" in timed.reasons["ME2-starvation"]


def test_options_initial_values_and_labels_reach_the_run() -> None:
    result = habemus.simulate(
        "ricart-agrawala",
        n=3,
        options={"notices": True},
        initial={1: {"clock": 5}},
        labels={1: "A"},
        faults=[Cut(both_ways(1, 2), 10_000_000)],
    )
    assert result.trace is not None
    assert result.trace.label(1) == "A"
    assert "--option notices=true" in result.command
    assert "--set 1.clock=5" in result.command
    assert "--cut 1-2@10000000" in result.command


def test_a_class_is_simulated_and_checked_as_it_is() -> None:
    result = habemus.simulate(Polite, n=2)
    assert result.violated == ["ME2-deadlock"] or result.violated == ["ME2-starvation"]
    assert f"{__file__}:Polite" in result.command
    assert habemus.check(Polite, n=2, every=True).properties["ME1"] is habemus.Verdict.HOLDS


def test_a_check_says_its_bound_and_shows_its_counterexample(tmp_path: Path) -> None:
    result = habemus.check("central-timeout", n=2, timeouts=1)
    assert result.exhaustive or result.violated
    assert "2 participants" in result.bound
    assert "ME1" in result.violated
    assert (result._repr_svg_() or "").startswith("<")
    assert "<svg" in result._repr_html_()
    result.save(tmp_path / "found.json")
    trace = habemus.load_trace(tmp_path / "found.json")
    picture = trace._repr_svg_()
    assert picture == result._repr_svg_()
    command = [sys.executable, "-m", *shlex.split(result.command), "--diagram", "found.svg"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert picture == (tmp_path / "found.svg").read_text(), "a notebook shows the same picture"


def test_a_result_without_a_trace_cannot_be_saved(tmp_path: Path) -> None:
    result = habemus.check("central", n=2)
    assert result.verdict is habemus.Verdict.HOLDS
    assert result._repr_svg_() is None
    assert "no counterexample" in result._repr_html_()
    with pytest.raises(ValueError, match="no violation was found"):
        result.save(tmp_path / "none.svg")


def test_html_escapes_what_others_wrote() -> None:
    result = habemus.simulate("central", n=2, labels={1: "<script>"})
    assert "<script>" not in result._repr_html_()


def test_a_scenario_knows_its_outcome() -> None:
    result = habemus.scenario("central-holder-slow")
    assert result.as_expected
    assert result.expected == "ME1 violated"
    assert "ME1" in repr(result)


def test_a_comparison_is_a_table() -> None:
    result = habemus.compare("central", "ricart-agrawala", n=3)
    assert [row["algorithm"] for row in result.rows] == ["central", "ricart-agrawala"]
    assert result._repr_html_().count("<tr>") == 3


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"algorithm": "centrl"}, "did you mean central"),
        ({"algorithm": "central", "faults": ["crash"]}, "not a fault"),
        ({"algorithm": "central", "faults": ["crsh 2@5ms"]}, "no fault crsh"),
        ({"algorithm": "central", "n": 0}, "1 to"),
        ({"algorithm": "central", "delay": "soon"}, "'soon'"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(arguments: dict[str, object], reason: str) -> None:
    with pytest.raises((ValueError, LookupError), match=reason):
        habemus.simulate(**arguments)  # type: ignore[arg-type]


def test_a_class_is_compared_as_well_as_a_name() -> None:
    result = habemus.compare("central", Polite, n=2, requests=1)
    assert [row["algorithm"] for row in result.rows] == ["central", f"{__file__}:Polite"]


SCRIPT = '''
import habemus
from habemus.algorithm import Mutex

class Alone(Mutex):
    """Mutual exclusion for one.

    Source   this test.
    Assumes  reliable links, in any order; no process crashes.
    Cost     nothing.
    Ensures  ME1.
    """

    def acquire(self) -> None:
        self.granted()

    def release(self) -> None:
        pass

print("begun")
result = habemus.compare(ALGORITHM, "central", n="1..2", points=2, requests=1, jobs=2)
print(*(row["algorithm"].rpartition(":")[2] for row in result.rows))
'''


def executed(*command: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], input=text, capture_output=True, text=True, check=False
    )


def test_a_script_that_compares_its_own_class_is_executed_once(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT.replace("ALGORITHM", "Alone"), encoding="utf-8")
    done = executed(str(script))
    assert done.stdout.splitlines() == ["begun", "Alone central Alone central"], done.stderr


def test_a_class_without_a_file_is_compared() -> None:
    done = executed("-", text=SCRIPT.replace("ALGORITHM", "Alone"))
    assert done.stdout.splitlines() == [
        "begun",
        "Alone (not in a file) central Alone (not in a file) central",
    ], done.stderr


def test_a_script_that_names_its_own_class_by_its_file_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT.replace("ALGORITHM", "f'{__file__}:Alone'"), encoding="utf-8")
    done = executed(str(script))
    assert done.stdout.splitlines() == ["begun", "begun"]
    last = done.stderr.splitlines()[-1]
    assert "asks for its own class while it is imported; give the class itself" in last


def test_a_class_of_a_module_is_compared_by_workers() -> None:
    by_workers = habemus.compare(Polite, "central", n="1..2", points=2, requests=1, jobs=2)
    alone = habemus.compare(Polite, "central", n="1..2", points=2, requests=1)
    assert by_workers.rows == alone.rows


def test_a_class_of_a_function_is_compared() -> None:
    class Local(Polite):
        pass

    rows = habemus.compare(Local, "central", n="1..2", points=2, requests=1, jobs=2).rows
    assert [row["algorithm"] for row in rows] == ["Local (not in a file)", "central"] * 2


def nameless(name: str) -> type[Polite]:
    """Return a class that is not at the top level of a file."""
    return type(name, (Polite,), {"__module__": __name__, "__doc__": Polite.__doc__})


def test_two_classes_of_one_name_are_not_compared() -> None:
    with pytest.raises(ValueError, match=r"two classes are named Mine .*; give one of them"):
        habemus.compare(nameless("Mine"), nameless("Mine"))


def test_a_class_without_a_file_has_no_command_and_no_replay(tmp_path: Path) -> None:
    result = habemus.simulate(nameless("Mine"), n=2)
    assert result.command == (
        "# Mine is not in a file; save it as mine.py: habemus run mine.py:Mine -n 2"
    )
    assert habemus.check(nameless("Polite"), n=2).command.startswith("# Polite is not in a file;")
    result.save(tmp_path / "run.json")
    done = executed("-m", "habemus", "replay", str(tmp_path / "run.json"))
    assert done.returncode == 2
    assert "Mine was not at the top level of a file" in done.stderr
    assert "name it as path/to/mine.py:Mine" in done.stderr


def test_a_class_of_stdin_has_no_file() -> None:
    text = SCRIPT.partition("print")[0] + "print(habemus.simulate(Alone).command)"
    assert executed("-", text=text).stdout.startswith("# Alone is not in a file;")


def test_a_result_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[habemus.Trace] = []
    draw = habemus.Trace._repr_svg_

    def counted(trace: habemus.Trace) -> str:
        drawn.append(trace)
        return draw(trace)

    monkeypatch.setattr(habemus.Trace, "_repr_svg_", counted)
    result = habemus.simulate("central", n=2)
    assert (result._repr_svg_() or "") in result._repr_html_()
    result._repr_svg_()
    assert len(drawn) == 1
