"""What a person sees on a narrow terminal: whole words, at most as wide as the terminal."""

from __future__ import annotations

import io
import json
import re
import sys
import time

import pytest
from click import unstyle
from tests.unit.cli.conftest import Habemus, Terminal

from habemus.cli.output import progress

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


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_progress_bar_shows_both_times(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    began = time.monotonic()
    with progress("check", 4_000_000) as update:
        monkeypatch.setattr(time, "monotonic", lambda: began + 2)
        update(2_000_000, "2,000,000 states, 131,724/s, depth 14, 55,236 to visit")
    lines = [line for line in unstyle(screen.getvalue()).splitlines() if "check" in line]
    assert lines and max(map(len, lines)) <= columns
    assert re.search(r" 0:00:\d\d (0:00:\d\d|-:--:--) 2,000,000 ", lines[-1])


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
