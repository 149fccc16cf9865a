"""`habemus scenario`: named runs with an expected outcome."""

from __future__ import annotations

import textwrap
from itertools import groupby
from pathlib import Path

import click

from habemus.cli.commands.completion import complete_scenario
from habemus.cli.commands.run import (
    costs_option,
    diagram_option,
    save_diagrams,
    say_report,
    stages_option,
    table_option,
)
from habemus.cli.commands.showing import Showing, showing_options
from habemus.cli.output import Exit, folded, hanging, json_option, progress, say_json, text_width
from habemus.scenarios import ScenarioOutcome, find, scenarios


@click.command(epilog="Example: habemus scenario central-holder-slow --diagram slow.svg")
@click.argument("name", required=False, shell_complete=complete_scenario)
@click.option(
    "--all",
    "run_all",
    is_flag=True,
    help="Run all scenarios and compare each outcome with the expected one.",
)
@click.option(
    "--sheet",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save one page of HTML with the pictures of all scenarios.",
)
@diagram_option
@stages_option
@table_option
@costs_option
@json_option
@showing_options
def scenario(
    showing: Showing,
    name: str | None,
    run_all: bool,
    sheet: Path | None,
    diagrams: tuple[Path, ...],
    stages: Path | None,
    table: bool | None,
    all_costs: bool,
    as_json: bool,
) -> int:
    """List the scenarios, or run one and compare its outcome with the expected one."""
    if run_all or sheet:
        if name or diagrams or stages:
            option = "--all" if run_all else "--sheet"
            raise click.UsageError(f"{option} excludes NAME, --diagram and --stages")
        return _run_all(as_json, sheet)
    if name is None:
        if diagrams or stages:
            raise click.UsageError("--diagram and --stages need NAME, a scenario of the list")
        _list(as_json)
        return Exit.OK
    outcome = find(name).run()
    save_diagrams(outcome.report, diagrams, stages, showing)
    if as_json:
        say_json(outcome.plain())
    else:
        if outcome.report.trace is not None:  # refuse a bad choice before anything is printed
            showing.arguments(outcome.report.trace, lambda: outcome.report.system)
        click.echo(click.style(folded(outcome.scenario.title), bold=True))
        click.echo(textwrap.fill(outcome.scenario.story, text_width()) + "\n")
        say_report(outcome.report, table, showing, all_costs=all_costs)
        click.echo(f"  {'as a command':24} {outcome.scenario.setup.command()}\n")
        click.echo(_line(outcome))
    return Exit.OK if outcome.as_expected else Exit.FAILED


def _list(as_json: bool) -> None:
    known = scenarios().values()
    if as_json:
        say_json(
            [
                {
                    "scenario": one.name,
                    "chapter": one.chapter,
                    "title": one.title,
                    "expected": one.expected,
                    "command": one.setup.command(),
                }
                for one in known
            ]
        )
        return
    width = 30
    for chapter, of_chapter in groupby(known, key=lambda one: one.chapter):
        click.echo("\n" + click.style(folded(chapter), bold=True))
        for each in of_chapter:
            head = f"  {each.name:{width}}  "
            click.echo(hanging(head, f"{each.title} [{each.expected}]"))


def _run_all(as_json: bool, sheet: Path | None) -> int:
    known = scenarios().values()
    outcomes: list[ScenarioOutcome] = []
    with progress("scenarios", len(known)) as update:
        for each in known:
            update(len(outcomes), each.name)
            outcomes.append(each.run())
            if not as_json:
                click.echo(_line(outcomes[-1]))
    if sheet is not None:
        from habemus.scenarios.sheet import page

        sheet.write_text(page(outcomes), encoding="utf-8")
        click.echo(f"saved {sheet}", err=True)
    unexpected = [outcome for outcome in outcomes if not outcome.as_expected]
    if as_json:
        say_json([outcome.plain() for outcome in outcomes])
    else:
        click.echo(f"\n{len(outcomes)} scenarios, {len(unexpected)} not as expected")
    return Exit.FAILED if unexpected else Exit.OK


def _line(outcome: ScenarioOutcome) -> str:
    mark = "as expected" if outcome.as_expected else "NOT as expected"
    colour = "green" if outcome.as_expected else "red"
    wanted = "" if outcome.as_expected else f" (expected: {outcome.scenario.expected})"
    line = hanging(f"{outcome.scenario.name:28} ", f"{outcome.verdict:24} {mark}{wanted}")
    return line.replace(mark, click.style(mark, fg=colour, bold=not outcome.as_expected), 1)
