"""Sessions of the lab: open a run, go on step by step, look at one event."""

from __future__ import annotations

import subprocess
import sys
from bisect import bisect_right
from typing import Any

import pytest
from tests.unit.lab.asking import ask

from habemus.lab import session as lab
from habemus.lab.session import Session
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute
from habemus.traces.file import written

RUN = "ricart-agrawala -n 3 --seed 7"


def test_an_opened_run_has_the_events_of_the_command() -> None:
    session = Session()
    opened, events = ask(session, do="open", run=f"habemus run {RUN}")
    report = execute(Setup("ricart-agrawala", 3, seed=7))
    assert opened["is"] == "opened" and opened["playable"]
    assert opened["command"] == report.setup.command()
    assert opened["shows"] == ["state", "clock", "stamp", "deferred"]
    assert events["digest"] == report.digest
    assert events["ended"] == "done"
    assert len(events["lines"]) == len(events["texts"]) == len(events["deliveries"]) == 36
    assert {lamp["property"]: lamp["run"] for lamp in events["lamps"]}["ME1"] == "holds"
    [messages] = [cost for cost in events["costs"] if cost["name"] == "messages_per_entry"]
    assert messages["measured"] == messages["expected"] == 4


def test_the_lines_are_those_of_a_trace_file() -> None:
    import json

    _, events = ask(Session(), do="open", run="elected-coordinator -n 3")
    report = execute(Setup("elected-coordinator", 3))
    assert report.trace is not None
    saved = [json.loads(line) for line in written(report.trace)][1:-1]
    for line in saved:
        line.pop("vc", None)
    assert json.loads(json.dumps(events["lines"])) == saved
    assert len(events["columns"]["whats"]) < len(saved) / 2, "equal values are told once"


def test_a_run_that_is_stepped_is_the_whole_run() -> None:
    session = Session()
    _, whole = ask(session, do="open", run=RUN)
    _, start = ask(session, do="open", run=RUN, by=0)
    assert {line["e"] for line in start["lines"]} == {"start"}
    lines = start["lines"]
    for _ in range(100):
        [events] = ask(session, do="advance", branch=1, by=1)
        assert events["from"] == len(lines)
        lines += events["lines"]
        if events["ended"]:
            break
    assert lines == whole["lines"]
    assert events["digest"] == whole["digest"]


def test_a_run_goes_on_to_the_violation_and_past_it() -> None:
    session = Session()
    _, events = ask(session, do="open", scenario="central-holder-slow", until="violation")
    [me1] = [lamp for lamp in events["lamps"] if lamp["property"] == "ME1"]
    assert (me1["run"], me1["event"], me1["claimed"]) == ("violated", 26, False)
    assert events["lines"][26]["name"] == "Granted"
    assert events["ended"] is None
    [rest] = ask(session, do="advance", branch=0, until="end")
    assert rest["ended"] == "done" and rest["lines"]


@pytest.mark.parametrize("until", [{"event": "Granted"}, {"time": 5000}])
def test_a_run_goes_on_to_an_event_or_a_time(until: dict[str, Any]) -> None:
    _, events = ask(Session(), do="open", run=RUN, until=until)
    last = events["lines"][-1]
    assert last.get("name") == "Granted" or last["t"] >= 5000
    assert events["ended"] is None


def test_the_state_around_an_event() -> None:
    session = Session()
    _, events = ask(session, do="open", run=RUN)
    request = next(i for i, line in enumerate(events["lines"]) if line["e"] == "request")
    [state] = ask(session, do="state", branch=0, event=request + 1)  # what the step sends
    own = str(events["lines"][request]["p"])
    assert state["step"] == request
    assert (state["before"][own]["state"], state["after"][own]["state"]) == ("RELEASED", "WANTED")
    assert "state" in state["changed"]
    assert state["effects"] == ["broadcast Request(1)"]
    [lines] = ask(session, do="lines", branch=0, event=request)
    assert lines["handler"] == "acquire"
    assert lines["file"] == "habemus/algorithms/mutex/ricart_agrawala.py"
    assert lines["executed"][0] == lines["first"] + 1
    [along] = ask(session, do="along", branch=0, variables=["state"])
    assert [each["text"] for each in along["changes"] if str(each["process"]) == own][:3] == [
        "RELEASED",
        "WANTED",
        "HELD",
    ]


def test_the_executed_lines_leave_out_the_branch_that_was_not_taken() -> None:
    session = Session()
    _, events = ask(session, do="open", run=RUN)
    receipts = [i for i, line in enumerate(events["lines"]) if line.get("name") == "Request"]
    taken = set()
    for index in receipts:
        if events["lines"][index]["e"] == "receive":
            [lines] = ask(session, do="lines", branch=0, event=index)
            taken.add(tuple(lines["executed"]))
    assert len(taken) == 2  # it replies, or defers the reply


def test_the_cone_agrees_with_the_vector_clocks() -> None:
    session = Session()
    ask(session, do="open", run="lamport -n 3 --requests 2")
    clocks = [event.clock for event in session._branches[0].branch.events]
    for index in (7, 20, 40):
        [cone] = ask(session, do="cone", branch=0, event=index)

        def is_before(one: Any, other: Any) -> bool:
            return one != other and all(a <= b for a, b in zip(one, other, strict=True))

        here = clocks[index]
        assert cone["past"] == [i for i, each in enumerate(clocks) if is_before(each, here)]
        assert cone["future"] == [i for i, each in enumerate(clocks) if is_before(here, each)]


def test_a_saved_trace_opens_as_its_run() -> None:
    report = execute(Setup("central", 2, seed=3))
    assert report.trace is not None
    text = "".join(f"{line}\n" for line in written(report.trace))
    session = Session()
    opened, events = ask(session, do="open", trace=text)
    assert opened["playable"] and events["digest"] == report.digest
    [tree] = ask(session, do="tree")
    assert [each["digest"] for each in tree["branches"]] == [report.digest]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"do": "dance"}, "there is no request 'dance'"),
        ({}, "do must be a string"),
        ({"do": "open"}, "open needs one of"),
        ({"do": "open", "run": 5}, "run must be a string"),
        ({"do": "open", "run": "nothing-like-it"}, "there is no algorithm"),
        ({"do": "open", "run": "central --sed 5"}, "did you mean --seed"),
        ({"do": "open", "run": "central -n three"}, "expected a whole number"),
        ({"do": "open", "run": "central 'a"}, "no closing quotation"),
        ({"do": "open", "scenario": "central-holder"}, "there is no scenario"),
        ({"do": "open", "trace": "{}"}, "line 1"),
        ({"do": "open", "run": "central", "until": "noon"}, "until must be"),
        ({"do": "open", "run": "central", "by": -1}, "by must be"),
        ({"do": "advance", "branch": 3}, "there is no branch 3"),
        ({"do": "state", "branch": "0"}, "there is no branch 0"),
    ],
)
def test_mistakes_are_one_line(message: dict[str, Any], said: str) -> None:
    [reply] = ask(Session(), **message)
    assert reply["is"] == "error"
    assert said in reply["message"] and "\n" not in reply["message"]


def test_a_trace_imports_no_file_without_consent() -> None:
    report = execute(Setup("central", 2))
    assert report.trace is not None
    text = "\n".join(written(report.trace)).replace('"central"', '"evil.py:Evil"')
    [reply] = ask(Session(), do="open", trace=f"{text}\n")
    assert "evil.py:Evil; open it only if you trust that file" in reply["message"]
    [reply] = ask(Session(), do="open", trace=f"{text}\n", trusted=True)
    assert "there is no file evil.py" in reply["message"]


def test_a_session_has_only_so_many_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "MOST_BRANCHES", 1)
    session = Session()
    ask(session, do="open", run=RUN, by=0)
    [reply] = ask(session, do="open", run=RUN, by=0)
    assert "at most 1 branches" in reply["message"]


def test_a_pending_message_is_chosen() -> None:
    session = Session()
    _, start = ask(session, do="open", run=RUN, by=4)
    [pending] = ask(session, do="pending", branch=0)
    messages = [each for each in pending["pending"] if each["kind"] == "message"]
    last = messages[-1]
    branched, events = ask(session, do="intervene", branch=0, what=last["choice"])
    assert (branched["branch"], branched["parent"]) == (1, 0)
    assert branched["shared"] == events["from"] == len(start["lines"])
    line = events["lines"][0]
    assert (line["e"], line["p"], line["peer"]) == ("receive", last["process"], last["from"])
    assert branched["interventions"][0].endswith(last["choice"])
    [again] = ask(session, do="pending", branch=1)
    other = next(each for each in again["pending"] if each["kind"] == "message")
    same, more = ask(session, do="intervene", branch=1, what=other["choice"], new=False)
    assert same["branch"] == 1 and len(same["interventions"]) == 2
    assert more["from"] == events["from"] + len(events["lines"])
    _, repeated = ask(session, do="open", run=same["command"], by=len(start["lines"]))
    assert repeated["lines"][: len(start["lines"])] == start["lines"]


def test_pending_events_of_the_past_are_those_that_were_pending_then() -> None:
    session = Session()
    _, start = ask(session, do="open", run=RUN, by=4)
    [then] = ask(session, do="pending", branch=0)
    assert then["pending"]
    ask(session, do="advance", branch=0, until="end")
    [now] = ask(session, do="pending", branch=0)
    assert now["pending"] == []
    [again] = ask(session, do="pending", branch=0, at=len(start["lines"]) - 1)
    assert again["pending"] == then["pending"]


def test_a_fork_in_the_past_shares_its_prefix() -> None:
    session = Session()
    _, whole = ask(session, do="open", run=RUN)
    branched, events = ask(session, do="intervene", branch=0, at=10, what="1 crashes")
    shared = branched["shared"]
    assert shared > 10 and whole["deliveries"][shared - 1] == whole["deliveries"][10]
    assert (events["lines"][0]["e"], events["lines"][0]["p"]) == ("crash", 1)
    assert events["ended"]
    _, opened = ask(session, do="open", run=branched["command"])
    assert opened["digest"] == events["digest"]
    assert opened["lines"] == whole["lines"][:shared] + events["lines"]
    # A fork before the crash does not have it, one after it does.
    before, _ = ask(session, do="intervene", branch=1, at=10, what="luck 3")
    after, _ = ask(session, do="intervene", branch=1, at=shared, what="luck 3")
    assert before["shared"] == shared and len(before["interventions"]) == 1
    assert after["shared"] == shared + 1 and len(after["interventions"]) == 2
    [tree] = ask(session, do="tree")
    assert [each["parent"] for each in tree["branches"]] == [None, 0, None, 1, 1]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"what": "dance"}, "'dance' is not an intervention"),
        ({"what": "1 recovers"}, "1 recovers: the process was not down"),
        ({"what": "7 crashes"}, "there is no process 7"),
        ({"what": "1 crashes", "at": 900}, "has no event 900"),
        ({"what": "1 crashes", "at": 3, "new": False}, "only the last event"),
    ],
)
def test_an_impossible_intervention_makes_no_branch(message: dict[str, Any], said: str) -> None:
    session = Session()
    ask(session, do="open", run=RUN)
    [reply] = ask(session, do="intervene", branch=0, **message)
    assert said in reply["message"]
    [tree] = ask(session, do="tree")
    assert len(tree["branches"]) == 1


def test_a_session_needs_only_the_standard_library() -> None:
    code = """
import sys
from bisect import bisect_right
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("click", "rich", "numpy", "starlette", "uvicorn", "msgspec"):
            raise ImportError(name)
sys.meta_path.insert(0, Nothing())
from habemus.lab.session import Session
session = Session()
list(session.answer({"id": 1, "do": "open", "run": "central -n 2"}))
list(session.answer({"id": 2, "do": "intervene", "branch": 0, "at": 5, "what": "1 crashes"}))
for form in ("svg", "link", "pytest", "perfetto"):
    [reply] = session.answer({"id": 3, "do": "export", "branch": 1, "as": form})
    assert reply["is"] == "export", reply
list(session.answer({"id": 4, "do": "open", "check": "maekawa -n 3"}))
[tree] = session.answer({"id": 5, "do": "tree"})
assert len(tree["branches"]) == 3, tree
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "opening", [{"run": RUN}, {"check": "maekawa -n 3"}, {"scenario": "terms-partition"}]
)
def test_the_event_that_comes_next_anyway_is_marked(opening: dict[str, str]) -> None:
    session = Session()
    _, whole = ask(session, do="open", **opening)
    lines = whole["lines"]
    marked = 0
    for at in range(3, min(len(lines) - 1, 40)):
        [pending] = ask(session, do="pending", branch=0, at=at)
        natural = [each for each in pending["pending"] if each["next"]]
        assert len(natural) <= 1
        end = bisect_right(whole["deliveries"], whole["deliveries"][at])
        if natural and end < len(lines):
            [each], came = natural, lines[end]
            kinds = {"receive": "message", "timer": "timer", "request": "request"}
            assert (each["kind"], each["process"]) == (kinds[came["e"]], came["p"])
            marked += 1
    assert marked > 5


def test_before_an_intervention_no_event_comes_next_anyway() -> None:
    session = Session()
    _, whole = ask(session, do="open", run=f"{RUN} --then '5: 1 crashes'")
    before = whole["lines"].index(next(each for each in whole["lines"] if each["e"] == "crash")) - 1
    [pending] = ask(session, do="pending", branch=0, at=before)
    assert pending["pending"] and not any(each["next"] for each in pending["pending"])
    [pending] = ask(session, do="pending", branch=0, at=before + 1)
    assert pending["pending"][0]["next"]
