"""Arguments of a wrong type are refused where they are given, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import habemus
from habemus.faults import (
    Crash,
    Cut,
    Heal,
    HeavyTail,
    Nth,
    Pause,
    Recover,
    Replace,
    Skew,
    Slow,
    Uniform,
    between,
    one_way,
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: habemus.simulate(None), "algorithm=None: give a text or the class of an algo"),  # type: ignore[arg-type]
        (lambda: habemus.simulate("central", n="3"), "n='3': give a whole number"),  # type: ignore[arg-type]
        (lambda: habemus.simulate("central", n=2.5), "n=2.5: give a whole number"),  # type: ignore[arg-type]
        (lambda: habemus.simulate("central", n=True), "n=True: give a whole number"),
        (lambda: habemus.simulate("central", seed="a"), "seed='a': give a whole number"),  # type: ignore[arg-type]
        (lambda: habemus.simulate("central", delay=1.5), "delay=1.5: give a whole number or a t"),  # type: ignore[arg-type]
        (lambda: habemus.simulate("central", asks="1@2ms"), "asks='1@2ms': give a list, each"),
        (lambda: habemus.simulate("central", then="6: 2 crashes"), "give a list, each element a t"),
        (lambda: habemus.simulate("central", faults="crash 2@5ms"), "a fault of habemus.faults or"),
        (lambda: habemus.simulate("central", faults=[None]), "a fault of habemus.faults or a text"),  # type: ignore[list-item]
        (lambda: habemus.simulate("central", faults=Crash(2, 5)), "give a list, each element a fa"),  # type: ignore[arg-type]
        (lambda: habemus.simulate("central", options=["a=1"]), "give a dictionary (each key a t"),  # type: ignore[arg-type]
        (lambda: habemus.simulate("central", labels={"A": 1}), "labels={'A': 1}: give a dictionar"),  # type: ignore[dict-item]
        (lambda: habemus.check("central", entries="2"), "entries='2': give a whole number or None"),  # type: ignore[arg-type]
        (lambda: habemus.check("central", faults="crash=1"), "faults='crash=1': give a dictionary"),  # type: ignore[arg-type]
        (lambda: habemus.check("central", asking=1), "asking=1: give a list, each element a whole"),  # type: ignore[arg-type]
        (
            lambda: habemus.simulate("central", options={1: 2}),  # type: ignore[dict-item]
            "options={1: 2}: give a dictionary (each key a text, each value anything) or None",
        ),
        (
            lambda: habemus.simulate("central", initial={1: 5}),  # type: ignore[dict-item]
            "initial={1: 5}: give a dictionary (each key a whole number, each value a dictionary"
            " (each key a text, each value anything)) or None",
        ),
        (
            lambda: habemus.check("central", faults={"crash": "1"}),  # type: ignore[dict-item]
            "faults={'crash': '1'}: give a dictionary (each key a text, each value a whole number)",
        ),
        (
            lambda: habemus.simulate("central-timeout", options={"timeout": {1, 2}}),
            "timeout={1, 2}: a command cannot contain a set; give a number, a text",
        ),
        (
            lambda: habemus.check("ricart-agrawala", initial={1: {"clock": {1}}}),
            "clock={1}: a command cannot contain a set; give a number, a text",
        ),
        (lambda: habemus.scenario(None), "name=None: give a text"),  # type: ignore[arg-type]
        (lambda: habemus.compare(["central"]), "algorithm=['central']: give a text or the"),  # type: ignore[arg-type]
        (lambda: habemus.load_trace(None), "path=None: give a text or a path"),  # type: ignore[arg-type]
        (lambda: Crash(2, Nth(2, "Granted")), "such as Nth('Granted', 1)"),  # type: ignore[arg-type]
        (lambda: Crash("2", 5), "'2' is not the number of a process, such as 2"),  # type: ignore[arg-type]
        (lambda: Recover(2, "9ms"), "'9ms' is not a time; give a number of microseconds"),  # type: ignore[arg-type]
        (lambda: Replace(2, Nth("Granted")), "is not a time; give a number of microseconds"),  # type: ignore[arg-type]
        (lambda: Cut((1, 2), 5), "(1, 2) are not links; give for example both_ways(1, 2)"),  # type: ignore[arg-type]
        (lambda: Heal("all", 9_000), "'all' are not links; give for example both_ways(1, 2), one"),  # type: ignore[arg-type]
        (lambda: Heal("all", 9_000), "between([1, 2], [3]), or () for all links"),  # type: ignore[arg-type]
        (lambda: Skew(2, 1.5), "1.5 is not a whole number of millionths"),  # type: ignore[arg-type]
        (lambda: between(1, 2), "between(1, 2): give groups of processes, such as between([1]"),  # type: ignore[arg-type]
        (lambda: habemus.simulate("central", faults=(each for each in [5])), "faults=(5,): give a"),  # type: ignore[misc]
        (lambda: habemus.simulate("central", then=(each for each in [5])), "then=(5,): give a lis"),  # type: ignore[misc]
    ],
)
def test_a_wrong_type_is_refused_in_words(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError) as refused:
        call()
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: habemus.check("central", faults={"loss": 1}), "no fault loss; did you mean lose?"),
        (
            lambda: habemus.check("central", faults={"duplicate": 1}),
            "a check has no fault duplicate; did you mean copy?",
        ),
        (
            lambda: habemus.check("central", faults={"quake": 1}),
            "no fault quake; there are crash, recover, amnesia, lose, copy",
        ),
        (lambda: habemus.check("central", limit=0), "a search visits at least 1 state, not 0"),
        (lambda: habemus.simulate("central", events=-1), "events is at least 1, not -1"),
        (lambda: habemus.simulate("central", events=0), "events is at least 1, not 0"),
        (lambda: habemus.simulate("central", overtaking=-1), "overtaking is 0 or more, not -1"),
        (lambda: habemus.compare("central", n="2..6", points=1), "a range has at least two points"),
        (lambda: habemus.compare("central", jobs=-1), "jobs is at least 1, not -1"),
        (lambda: habemus.compare("central", jobs=0), "jobs is at least 1, not 0"),
        (
            lambda: habemus.simulate("central", labels={1: "A", 2: "A"}),
            "label 1=A: process 2 has this label too; give each another one",
        ),
        (
            lambda: habemus.simulate("central", labels={1: "coordinator"}),
            "label 1=coordinator: process 0 has this label too",
        ),
        (
            lambda: habemus.simulate("central", labels={1: "2"}),
            "label 1=2: 2 is the number of another process; give another label",
        ),
        (lambda: habemus.compare("central", points=0), "at least one point and one run, not 0 poi"),
        (lambda: habemus.compare("central", repeat=0), "at least one point and one run, not 8 poi"),
        (
            lambda: habemus.simulate("central", faults=[Slow(one_way(0, 1), 0, "9ms")]),  # type: ignore[arg-type]
            "'9ms' is not a delay; give Uniform(9_000, 9_000)",
        ),
        (
            lambda: habemus.simulate("central", faults=[Slow(one_way(0, 1), 0, HeavyTail(9, 3))]),
            "a run has 10 doublings, not 3; give HeavyTail(9)",
        ),
        (lambda: Cut((), 5), "it names no link; give for example both_ways(1, 2)"),
        (lambda: Slow((), 5, Uniform()), "it names no link; give for example both_ways(1, 2)"),
        (lambda: Pause(1, 5, -2), "a pause lasts a number of microseconds, such as 20_000, not -2"),
    ],
)
def test_a_wrong_value_is_refused_in_words(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        call()
    assert message in str(refused.value)


def test_numbers_will_do_for_times_and_probabilities() -> None:
    by_numbers = habemus.simulate("central", delay=2_000, loss=0.1, until=50_000, hold=3_000)
    by_texts = habemus.simulate("central", delay="2ms", loss="10%", until="50ms", hold="3ms")
    assert by_numbers.digest == by_texts.digest
    slow = habemus.simulate("central", faults=[Slow(one_way(0, 1), 0, Uniform(9_000, 9_000))])
    assert "--slow '0>1@0=9000'" in slow.command


def test_labels_may_be_exchanged_and_may_be_numbers_of_no_process() -> None:
    result = habemus.simulate("central", labels={0: "C", 1: "coordinator", 2: "2", 3: "77"})
    assert result.trace is not None
    assert [result.trace.label(each) for each in range(4)] == ["C", "coordinator", "2", "77"]


def test_bounds_of_timeouts_by_name() -> None:
    by_mapping = habemus.check("central-timeout", n=2, timeouts={"Overdue": 0})
    assert by_mapping.command == habemus.check("central-timeout", n=2, timeouts="Overdue=0").command


def test_a_file_that_is_no_trace_is_named(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"run\.json is not a trace: line 1"):
        habemus.load_trace(file)


def test_generators_and_other_mappings_are_accepted() -> None:
    class Options(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            return {"timeout": "5ms"}[key]

        def __iter__(self) -> Any:
            return iter(["timeout"])

        def __len__(self) -> int:
            return 1

    result = habemus.simulate(
        "central-timeout", options=Options(), faults=(f"crash {me}@5ms" for me in (1, 2))
    )
    assert "--crash 2@5ms" in result.command
