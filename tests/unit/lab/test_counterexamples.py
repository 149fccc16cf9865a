"""Counterexamples in the lab: opened, forked and continued by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.lab.asking import ask

from habemus.catalog.entries import find
from habemus.lab.session import Session
from habemus.runs.check import Check
from habemus.schedules.play import Stage


def opened(check: str = "maekawa -n 3", **how: Any) -> tuple[Session, list[dict[str, Any]]]:
    session = Session()
    return session, ask(session, do="open", check=check, **how)


def test_a_counterexample_opens_at_its_violation() -> None:
    session, [head, events] = opened()
    assert head["playable"] and head["command"] == "habemus check maekawa -n 3"
    [deadlock] = [lamp for lamp in events["lamps"] if lamp["run"] == "violated"]
    assert deadlock["property"] == "ME2-deadlock"
    [pending] = ask(session, do="pending", branch=0)
    assert [each["choice"] for each in pending["pending"]] == ["2 acquire"]
    [saved] = ask(session, do="export", branch=0, **{"as": "jsonl"})
    head, again = ask(session, do="open", trace=saved["text"])
    assert again["digest"] == events["digest"]


def test_a_counterexample_is_stepped_and_left_by_hand() -> None:
    session, [_, events] = opened(by=0)
    assert {line["e"] for line in events["lines"]} == {"start"}
    [first] = ask(session, do="advance", branch=0)
    assert first["lines"][0]["e"] == "request"
    ask(session, do="advance", branch=0, until="end")
    branched, fork = ask(
        session, do="intervene", branch=0, at=len(events["lines"]), what="2 crashes"
    )
    assert fork["lines"][-1]["e"] == "crash" or fork["lines"][0]["e"] == "crash"
    assert branched["interventions"] == ["1: 2 crashes"]
    number = branched["branch"]
    for _ in range(40):
        [pending] = ask(session, do="pending", branch=number)
        choices = [each["choice"] for each in pending["pending"]]
        if not choices:
            break
        same, _ = ask(session, do="intervene", branch=number, what=choices[0], new=False)
        assert same["branch"] == number
    [link] = ask(session, do="export", branch=number, **{"as": "link"})
    [tree] = ask(session, do="tree")
    head, events = ask(Session(), do="open", link=link["text"])
    assert head["mismatch"] is None
    assert events["digest"] == tree["branches"][number]["digest"]


def test_random_steps_are_listed_with_each_value() -> None:
    check = Check("itai-rodeh", 2)
    stage = Stage(check, find("itai-rodeh"))
    stage.start([])
    before = stage.state()
    assert [str(step) for step in stage.possible()] == [
        "1 elect, choosing 1",
        "1 elect, choosing 2",
        "2 elect, choosing 1",
        "2 elect, choosing 2",
    ]
    assert stage.state() == before
    stage.make(stage.possible()[1])
    assert [event.kind for event in stage.events[2:]] == ["request", "choose", "send"]


def test_a_counterexample_becomes_a_test_that_fails() -> None:
    session, _ = opened()
    [test] = ask(session, do="export", branch=0, **{"as": "pytest"})
    space: dict[str, Any] = {}
    exec(test["text"], space)
    [name] = [name for name in space if name.startswith("test_me2_deadlock")]
    with pytest.raises(AssertionError, match="nothing can happen any more"):
        space[name]()


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("central -n 2", "holds: no counterexample in"),
        ("maekawa --netwrk fifo", "did you mean --network?"),
    ],
)
def test_a_check_without_a_counterexample_is_an_error(check: str, said: str) -> None:
    _, replies = opened(check)
    assert replies[-1]["is"] == "error"
    assert said in replies[-1]["message"]


def test_an_impossible_step_makes_no_branch() -> None:
    session, _ = opened()
    [reply] = ask(session, do="intervene", branch=0, what="2 receives Vote from 9")
    assert reply["is"] == "error"
    [tree] = ask(session, do="tree")
    assert len(tree["branches"]) == 1
