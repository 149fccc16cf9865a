"""What a person sees on a narrow terminal: whole words, at most as wide as the terminal."""

from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Habemus, Terminal

TO_PASTE = ("habemus run ", "as a command")
"""Lines that hold a command are not folded: a reader pastes them."""


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize(
    "command",
    [
        "algorithms",
        "algorithms central",
        "run central",
        "run elected-coordinator --costs",
        "scenario",
        "scenario central-holder-slow",
        "check maekawa -n 3",
        "faults central",
        "compare central ricart-agrawala -n 5",
        "explain",
    ],
)
def test_no_line_is_wider_than_the_terminal(terminal: Terminal, columns: int, command: str) -> None:
    lines = terminal(columns, *command.split()).splitlines()
    assert lines
    wide = [
        line
        for line in lines
        if len(line) > columns
        and not any(each in line for each in TO_PASTE)
        # A digest is one word.
        and "  digest  " not in line
    ]
    assert wide == []


def test_titles_are_one_line(habemus: Habemus) -> None:
    listed = json.loads(habemus("algorithms", "--json").stdout)
    assert [each["title"] for each in listed if "\n" in each["title"]] == []
    lines = habemus("algorithms").stdout.splitlines()
    assert [line for line in lines if line.startswith(("that", "out", "earlier", "served"))] == []


def test_a_run_shows_its_most_telling_costs(habemus: Habemus) -> None:
    short = habemus("run", "central", "--no-table").stdout
    costs = short.split("\n\n")[1].splitlines()
    names = [line[:27].strip() for line in costs]
    telling = ["entries", "messages per entry", "client delay", "sync delay", "throughput"]
    assert names == [*telling, "ended", "digest", ""]
    assert costs[-1].endswith("--costs shows 10 more costs")
    every = habemus("run", "central", "--no-table", "--costs").stdout
    assert "upkeep messages" in every and "--costs" not in every
    document = json.loads(habemus("run", "central", "--json").stdout)
    assert {"entries", "upkeep_messages", "busiest_share"} <= document.keys()


def test_the_time_of_a_detection_has_a_unit(habemus: Habemus) -> None:
    assert (
        "detection time           31 ms" in habemus("run", "heartbeat", "--crash", "2@50ms").stdout
    )
