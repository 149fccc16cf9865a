"""The report: what it counts, what it shows, and that it needs nothing but itself."""

import re
import sys
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from habemus.analysis.sweeps import report_plots
from habemus.analysis.sweeps.grid import grid_of
from habemus.analysis.sweeps.grid_files import BadResults
from habemus.analysis.sweeps.grid_rows import GridRow, RunBatches, rows_of
from habemus.analysis.sweeps.report import KINDS, Mean, Survey, in_order, survey
from habemus.analysis.sweeps.report_page import page
from habemus.analysis.sweeps.report_plots import pictures

FAULTS = {"none": {}, "crash": {"crash": "2@Granted#1"}}


def rows(**keys: object) -> list[GridRow]:
    grid = grid_of(
        {
            "algorithms": ["central", "maekawa"],
            "n": [3, 4],
            "load": ["burst"],
            "seeds": 4,
            "faults": FAULTS,
            **keys,
        }
    )
    return sorted(
        (row for piece in RunBatches(grid, range(len(grid))) for row in rows_of(piece)),
        key=lambda row: int(row["number"]),
    )


MUTEX = rows()
MIXED = rows(algorithms=["central", "bully", "heartbeat"], seeds=1, n=[3])


class Elements(HTMLParser):
    """Every element of a page, and that each is closed in its order."""

    EMPTY = ("meta", "use", "path")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def made(rows: list[GridRow], title: str = "a title") -> str:
    found = survey(rows)
    return page(found, pictures(found), title)


def test_it_counts_what_is_in_the_rows() -> None:
    found = survey(MUTEX)
    assert found.runs == len(MUTEX) == 32
    for name in ("central", "maekawa"):
        for verdict in ("holds", "violated", "undecided"):
            assert found.verdicts[name, verdict] == sum(
                row["algorithm"] == name and row["verdict"] == verdict for row in MUTEX
            )
            for each in ("ME1", "ME2-deadlock", "ME3"):
                count = sum(row["algorithm"] == name and row[each] == verdict for row in MUTEX)
                assert found.properties[name, each, verdict] == count
    crashed = [row for row in MUTEX if (row["algorithm"], row["fault"]) == ("central", "crash")]
    assert (
        found.places["central", "fault", "crash", "violated"]
        == sum(row["verdict"] == "violated" for row in crashed)
        > 0
    )
    assert found.varied() == {"n": ["3", "4"], "fault": ["none", "crash"]}


def test_costs_are_means_over_the_runs_that_hold() -> None:
    held = [
        row["messages_per_entry"]
        for row in MUTEX
        if (row["algorithm"], row["n"], row["verdict"]) == ("central", 4, "holds")
    ]
    mean = survey(MUTEX).costs["central", "n", "4", "messages_per_entry"]
    assert (mean.count, mean.value) == (len(held), sum(held) / len(held))
    assert ("maekawa", "fault", "crash", "throughput") not in survey(MUTEX).costs or mean.count


def test_each_kind_of_failure_has_examples_of_different_circumstances() -> None:
    failures = survey(MUTEX).failures
    assert set(failures["central"]) == {"ME2-deadlock violated"}
    kind = failures["central"]["ME2-deadlock violated"]
    assert (
        kind.count
        == sum(row["verdict"] == "violated" for row in MUTEX if row["algorithm"] == "central")
        > len(kind.examples)
    )
    (both,) = failures["maekawa"].values()
    assert {row["fault"] for row in both.examples} == {"none", "crash"}


def test_what_does_not_make_the_verdict_is_no_kind_of_failure() -> None:
    wrong = next(
        row for row in MUTEX if row["verdict"] == "violated" and row["algorithm"] == "central"
    )
    assert set(survey([{**wrong, "ME3": "violated"}]).failures["central"]) == {
        "ME2-deadlock violated"
    }
    assert set(survey([{**wrong, "ME1": "violated"}]).failures["central"]) == {
        "ME1, ME2-deadlock violated"
    }


@pytest.fixture(scope="module")
def text() -> str:
    return made(MUTEX)


def test_the_page_needs_nothing_but_itself(text: str) -> None:
    elements = Elements(text)
    assert {tag for tag, _ in elements.found}.isdisjoint(
        {"script", "link", "img", "iframe", "object", "embed", "image", "a"}
    )
    for _, attributes in elements.found:
        for name, value in attributes.items():
            assert name not in ("src", "srcset", "action") and not name.startswith("on"), (
                name,
                value,
            )
            if name.endswith("href"):
                assert (value or "").startswith("#")
    assert re.findall(r"url\((?!#)", text) == []
    assert "@import" not in text
    addresses = set(re.findall(r"https?://[^\"' <)]+", text))
    assert addresses <= {
        "http://www.w3.org/1999/xlink"
    }  # the name of a namespace, which nobody fetches
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(set(ids)) == len(ids)
    referred = {attributes["xlink:href"] for tag, attributes in elements.found if tag == "use"}
    assert {f"#{each}" for each in ids} >= {each for each in referred if each}


def test_the_page_shows_it(text: str) -> None:
    assert text == made(MUTEX)  # the same rows, the same page
    found = survey(MUTEX)
    for name in ("central", "maekawa"):
        (kind,) = found.failures[name].values()
        for row in kind.examples:
            assert row["command"].replace("'", "&#x27;") in text
    assert "2@Granted#1" in text
    assert ">ME2-deadlock violated<" in text
    assert (
        text.count('<td class="unclaimed">') == 4
    )  # neither claims ME3, and maekawa no part of ME2
    assert "messages per entry" in text


def test_every_problem_has_its_own_table_and_picture() -> None:
    text = made(MIXED)
    assert [
        title in text
        for title in (
            "Properties: mutual exclusion",
            "Properties: leader election",
            "Properties: failure detection",
        )
    ] == [True] * 3
    assert text.count("<svg") == 3
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(svg)
    Elements(text)
    assert len(set(re.findall(r' id="([^"]+)"', text))) == len(re.findall(r' id="([^"]+)"', text))


def test_signs_of_html_are_only_signs() -> None:
    evil = '<script>alert("1")</script> $x_1$ &amp;'
    twisted: list[dict[str, Any]] = [
        {**row, "fault": evil, "why": evil, "command": evil, "delay": f"{row['delay']}{evil}"}
        for row in MUTEX[:9]
    ]
    twisted += [{**row, "algorithm": evil} for row in MUTEX[9:12]]
    twisted += [{**MUTEX[12], "verdict": "error", "error": evil}]
    text = made([*twisted, *MUTEX[13:]], title=evil)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    Elements(text)


def test_an_algorithm_that_is_not_known_is_counted_all_the_same() -> None:
    found = survey([{**row, "algorithm": "of-tomorrow"} for row in MUTEX])
    assert found.problems() == {"": ["of-tomorrow"]}
    text = page(found, pictures(found), "tomorrow")
    assert "of-tomorrow" in text
    assert "<svg" not in text


def test_a_single_run_and_no_failure() -> None:
    text = made(MUTEX[:1])
    assert "There is none." in text
    assert "Where it holds" not in text
    assert "<b>1</b><span>run</span>" in text


def test_nothing_is_refused() -> None:
    with pytest.raises(BadResults, match="there is no row"):
        survey([])


def test_many_values_are_shown_in_part() -> None:
    many = [{**MUTEX[0], "n": size, "load": "0.5", "fault": f"f{size}"} for size in range(2, 60)]
    text = made(many)
    Elements(text)
    assert "2 to 59 (58)" in text
    assert text.count('title="1 of 1 runs hold"') == 24


def test_kinds_beyond_some_are_only_counted() -> None:
    found = Survey()
    for place in range(KINDS + 2):
        names = ("ME1", "ME2-deadlock", "ME2-starvation", "ME3")
        found.add(
            {
                **MUTEX[0],
                "algorithm": "x",
                "verdict": "violated",
                **{each: "violated" for bit, each in enumerate(names) if (place + 1) >> bit & 1},
            }
        )
    assert "and 2 other kinds" in page(found, {}, "x")


def test_values_are_in_order() -> None:
    assert in_order(["10", "9", "0.5"]) == ["0.5", "9", "10"]
    assert in_order(["burst", "2", "steady", "1"]) == ["1", "2", "burst", "steady"]


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[plot\]'"):
        report_plots.check()


def test_the_margin_of_a_mean_shrinks_with_the_runs_and_is_nothing_without_noise() -> None:
    few, many, same = Mean(), Mean(), Mean()
    for turn in range(400):
        value = 10.0 + (turn % 2)
        if turn < 4:
            few.add(value)
        many.add(value)
        same.add(7.0)
    assert few.value == many.value == 10.5
    # The standard deviation is a half: 1.96 * 0.5 / sqrt(400), nearly.
    assert many.margin == pytest.approx(0.049, rel=0.01)
    assert few.margin > 10 * many.margin
    assert same.margin == 0
    assert Mean(5.0, 1, 25.0).margin == 0
