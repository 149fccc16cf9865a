"""The glossary, and output that fits a terminal."""

import click
import pytest
from click.testing import CliRunner

from habemus.analysis.glossary import UnknownTerm, glossary, page
from habemus.analysis.glossary import explain as terms_of
from habemus.catalog.entries import problems
from habemus.cli import tables
from habemus.cli.commands.explain import explain
from habemus.cli.commands.scenario import scenario
from habemus.cli.output import say_events
from habemus.core.events import Event
from habemus.core.properties import Finding, Verdict
from habemus.scenarios import scenarios
from habemus.traces import Trace


def test_every_property_is_explained() -> None:
    for problem in problems():
        for each in problem.properties:
            [term] = terms_of(each.name)
            assert each.says[1:] in term.text
    assert [term.name for term in terms_of("me2")] == ["ME2-deadlock", "ME2-starvation"]


def test_an_unknown_word_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownTerm, match="did you mean quorum"):
        terms_of("quorun")


def test_explain_prints_what_was_asked_for_and_else_everything() -> None:
    one = CliRunner().invoke(explain, ["fencing", "token"], standalone_mode=False)
    assert one.output.startswith("fencing token  A number that grows")
    everything = CliRunner().invoke(explain, [], standalone_mode=False).output
    assert all(name in everything for name in glossary())
    assert all(f"**{name}**" in page() for name in glossary())


def test_scenarios_are_listed_by_chapter() -> None:
    listed = CliRunner().invoke(scenario, [], standalone_mode=False).output
    assert "\nLeader election\n" in listed and "\nMutual exclusion\n" in listed
    assert all(name in listed for name in scenarios())


def test_the_event_that_violates_is_in_colour() -> None:
    found = Finding("ME1", Verdict.VIOLATED, "two inside", 6_000, (1, 2))
    trace = Trace({}, (1, 2), {}, (Event(6_000, 2, "indicate", "Granted"),), (found,))

    @click.command()
    def show() -> None:
        say_events("6.000  2  gets Grant from 1\n6.000  2  enters\n6.000  1  rests\n", trace)

    shown = CliRunner().invoke(show, [], color=True).output
    assert shown.splitlines() == [
        "6.000  2  gets Grant from 1",
        "\x1b[31m\x1b[1m6.000  2  enters\x1b[0m",
        "6.000  1  rests",
    ]


def test_a_wide_table_continues_below(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heads, row = ("name", "first", "second", "third"), ("central", "1", "22", "333")
    tables.say_table(heads, [row])
    assert capsys.readouterr().out == (
        "name     first  second  third\ncentral      1      22    333\n"
    )
    monkeypatch.setattr(tables, "columns", lambda: 22)
    tables.say_table(heads, [row])
    assert capsys.readouterr().out == (
        "name     first  second\ncentral      1      22\n\nname     third\ncentral    333\n"
    )
