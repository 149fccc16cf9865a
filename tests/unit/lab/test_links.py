"""Verified links: the same run opens, another one is told by its first different event."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest
from tests.unit.lab.asking import ask

from habemus.lab.branches import LabError
from habemus.lab.links import LONGEST_LINK, difference, link_to, read_link
from habemus.lab.session import Session
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute

RUN = "ricart-agrawala -n 3 --seed 7 --then '9: 2 pauses for 3ms'"


def test_a_link_opens_in_another_session_with_the_same_digest() -> None:
    one, other = Session(), Session()
    _, events = ask(one, do="open", run=RUN, by=20)
    [link] = ask(one, do="export", branch=0, **{"as": "link"})
    opened, again = ask(other, do="open", link=f"http://127.0.0.1:8000/#{link['text']}")
    assert opened["mismatch"] is None
    assert again["lines"] == events["lines"] and again["digest"] == events["digest"]
    assert parse_qs(link["text"])["run"] == [RUN]


@pytest.mark.parametrize("count", [40, 2000])
def test_the_first_difference_is_found(count: int) -> None:
    report = execute(Setup("ricart-agrawala", 3, requests=70))
    assert report.trace is not None
    events = report.trace.events[:count]
    link = read_link(link_to("run", "habemus run central", events))
    assert difference(link, events) is None
    for changed in (0, 17, count - 1):
        other = list(events)
        other[changed] = other[changed]._replace(time=other[changed].time + 1)
        found = difference(link, other)
        assert found is not None and found[0] == changed
        assert f"event #{changed + 1} is not that of the link" in found[1]
    cut = difference(link, events[:-5])
    assert cut is not None and cut[0] == count - 5 and "the run ends after" in cut[1]


def test_of_very_long_runs_a_few_events_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("habemus.lab.links.MOST_MARKS", 100)
    report = execute(Setup("ricart-agrawala", 3, requests=40))
    assert report.trace is not None
    events = report.trace.events[:250]
    link = read_link(link_to("run", "habemus run central", events))
    for changed in (0, 17, 249):
        other = list(events)
        other[changed] = other[changed]._replace(time=other[changed].time + 1)
        found = difference(link, other)
        assert found is not None and found[0] <= changed < found[0] + 3
        assert "among events" in found[1] or changed == 249


def test_a_link_to_another_run_names_the_event() -> None:
    session = Session()
    ask(session, do="open", run=RUN)
    [link] = ask(session, do="export", branch=0, **{"as": "link"})
    opened, _ = ask(session, do="open", link=link["text"].replace("seed%207", "seed%208"))
    assert opened["mismatch"]["event"] == 3
    assert "event #4 is not that of the link: here it is" in opened["mismatch"]["message"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#",
        "run=central",
        "run=central&events=x",
        "run=a&check=b&events=1",
        "x" * (LONGEST_LINK + 1),
        "run=central&events=999999999",
        "run=central&events=3&marks=a",
    ],
)
def test_a_damaged_link_is_refused(text: str) -> None:
    with pytest.raises(LabError):
        read_link(text)


def test_a_link_imports_no_file_without_consent() -> None:
    [reply] = ask(Session(), do="open", link="run=evil.py%3AEvil&events=1&digest=0&marks=AA")
    assert "open it only if you trust that file" in reply["message"]
