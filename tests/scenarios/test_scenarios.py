"""Every scenario comes out as it is known to, and its conversation is the committed one."""

import shlex
from collections.abc import Callable

import pytest

from habemus.cli.commands.run import run, setup_of
from habemus.scenarios import scenarios
from habemus.traces.diagram import svg
from habemus.traces.table import text

TOLD_UP_TO = 400


@pytest.mark.parametrize("name", scenarios())
def test_scenario(name: str, habemus_golden: Callable[[str, str], None]) -> None:
    outcome = scenarios()[name].run()
    assert outcome.as_expected, (
        f"{outcome.verdict} instead of {outcome.scenario.expected}: {outcome.report.why}"
    )
    assert not outcome.report.missed_faults
    trace = outcome.report.trace
    assert trace is not None
    told = text(trace) if len(trace.events) <= TOLD_UP_TO else f"{len(trace.events)} events\n"
    height = float(svg(trace).split('height="', 1)[1].split('"', 1)[0])
    assert height <= 2_000, f"the picture is {height} pixels high"
    habemus_golden(
        f"{name}.txt",
        f"{outcome.scenario.setup.command()}\n\n{told}\ndigest {outcome.report.digest}\n",
    )


@pytest.mark.parametrize("name", scenarios())
def test_the_command_that_a_scenario_prints_is_its_setup(name: str) -> None:
    setup = scenarios()[name].setup
    words = shlex.split(setup.command())
    assert words[:2] == ["habemus", "run"]
    given = run.make_context("run", words[2:]).params
    assert setup_of(given) == setup
