"""What is taken away from the lab: each form can be used as it is."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from habemus.cli import main
from habemus.lab.session import Session
from habemus.scenarios.scenario import Scenario
from habemus.traces.file import parsed

RUN = "ra-timeout -n 3 --option timeout=10ms --ask 1@1ms+4ms --ask 2@4ms+3ms --label 1=A"
THEN = "--then '9: 1 pauses for 20ms'"


def exported(session: Session, form: str, **more: Any) -> dict[str, Any]:
    [reply] = session.answer({"id": 1, "do": "export", "branch": 0, "as": form, **more})
    return reply


def opened(run: str = f"{RUN} {THEN}", **how: Any) -> Session:
    session = Session()
    replies = list(session.answer({"id": 1, "do": "open", "run": run, **how}))
    assert replies[-1]["is"] == "events", replies
    return session


def test_a_violation_becomes_a_test_that_passes() -> None:
    session = opened()
    test = exported(session, "pytest")
    assert "assert 'ME1' in result.violated" in test["text"]
    space: dict[str, Any] = {}
    exec(compile(test["text"], "test.py", "exec"), space)
    space["test_the_run_of_the_lab"]()


def test_a_run_that_was_stepped_becomes_a_test_of_its_beginning() -> None:
    space: dict[str, Any] = {}
    exec(exported(opened(by=9), "pytest")["text"], space)
    space["test_the_run_of_the_lab"]()


def test_a_branch_becomes_a_scenario_that_runs() -> None:
    space: dict[str, Any] = {}
    exec(exported(opened(), "scenario")["text"], space)
    [scenario] = space["SCENARIOS"]
    assert isinstance(scenario, Scenario) and scenario.violates == ("ME1",)
    assert scenario.run().as_expected


def test_the_command_repeats_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    command = exported(opened(), "command")["text"]
    with pytest.raises(SystemExit) as end:
        main([*shlex.split(command)[1:], "--json"])
    assert end.value.code == 1
    [tree] = opened().answer({"id": 1, "do": "tree"})
    assert json.loads(capsys.readouterr().out)["digest"] == tree["branches"][0]["digest"]


def test_traces_and_pictures() -> None:
    session = opened()
    trace = parsed(iter(exported(session, "jsonl")["text"].encode().splitlines(keepends=True)))
    assert trace.run["then"] == ["9: 1 pauses for 20ms"]
    assert "<svg" in exported(session, "svg")["text"]
    assert exported(session, "mermaid")["text"].startswith("sequenceDiagram")
    assert exported(session, "shiviz")["text"].startswith("(?<event>")
    assert json.loads(exported(session, "perfetto")["text"])["traceEvents"]
    whole, window = (len(exported(session, "svg", **{"from": a})["text"]) for a in (0, 20))
    assert window < whole


@pytest.mark.parametrize(
    ("more", "said"),
    [({"as": "gif"}, "no form 'gif'"), ({"as": "svg", "from": 9000}, "has no event 9000")],
)
def test_mistakes_are_one_line(more: dict[str, Any], said: str) -> None:
    [reply] = opened().answer({"id": 1, "do": "export", "branch": 0, **more})
    assert said in reply["message"]
