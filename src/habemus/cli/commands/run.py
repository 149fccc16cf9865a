"""`habemus run`: one simulated run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click

from habemus.cli.commands.completion import complete_algorithm
from habemus.cli.output import EXIT_OF, json_option, progress, say_findings, say_json, verdict_text
from habemus.runs.notation import FAULTS
from habemus.runs.setup import EVENT_LIMIT, WORKLOADS, Setup
from habemus.runs.simulate import Report, execute

TABLE_UP_TO = 80
"""Runs of so many events are told event by event, unless asked otherwise."""

_FAULT_HELP = {
    "crash": "P@WHEN: process P crashes, at a time (5ms) or an event (send#3, Granted#1).",
    "recover": "P@WHEN: P comes back with its stable memory.",
    "amnesia": "P@WHEN: P comes back and has forgotten everything.",
    "pause": "P@WHEN+D: P does nothing for a time D.",
    "cut": "A-B@WHEN, A>B@WHEN (one way) or 1,2|3@WHEN (groups): what these links carry is lost.",
    "heal": "A-B@WHEN or all@WHEN: these links carry messages again.",
    "slow": "A>B@WHEN=DELAY: these links get another delay.",
    "skew": "P=MILLIONTHS: the clock of P is off, +50000 means timers 5 % too long.",
}


def _fault_options(command: Any) -> Any:
    for kind in reversed(FAULTS):
        command = click.option(f"--{kind}", multiple=True, metavar="...", help=_FAULT_HELP[kind])(
            command
        )
    return command


diagram_option = click.option(
    "--diagram",
    "diagrams",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help=(
        "Save the run; the ending decides: .svg, .png, .md or .mmd (Mermaid), .json (the trace),"
        " .shiviz."
    ),
)
stages_option = click.option(
    "--stages",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save the graph itself, stage by stage (yo-yo, franklin): .svg or .png.",
)
table_option = click.option(
    "--table/--no-table", default=None, help=f"Tell every event (default: up to {TABLE_UP_TO})."
)


@click.command(
    epilog="Example: habemus run ricart-agrawala -n 5 --seed 7 --crash 2@5ms --diagram run.svg"
)
@click.argument("algorithm", shell_complete=complete_algorithm)
@click.option("-n", "n", type=int, default=3, show_default=True, help="Number of participants.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="The same seed gives the same run."
)
@click.option(
    "--requests", type=int, default=1, show_default=True, help="How often each participant asks."
)
@click.option(
    "--workload",
    type=click.Choice(WORKLOADS),
    default="steady",
    show_default=True,
    help="How the requests come.",
)
@click.option("--think", default=Setup.think, show_default=True, help="Time before each request.")
@click.option("--hold", default=Setup.hold, show_default=True, help="Time inside.")
@click.option(
    "--ask",
    "asks",
    multiple=True,
    metavar="P@T[+HOLD]",
    help="Only these requests; may be given several times.",
)
@click.option(
    "--delay",
    default=Setup.delay,
    show_default=True,
    help="Of a message: 1ms, 500..1500, exp:1ms, heavy:1ms.",
)
@click.option(
    "--fifo/--no-fifo",
    default=None,
    help="Links keep the order (default: only if the algorithm needs it).",
)
@click.option("--loss", default="0", show_default=True, help="Chance that a message is lost.")
@click.option(
    "--duplicate", default="0", show_default=True, help="Chance that a message comes twice."
)
@click.option(
    "--over",
    type=click.Choice(["perfect", "perfect-fifo"]),
    help="Links that retransmit, under every process.",
)
@_fault_options
@click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="An option of the algorithm, see its card.",
)
@click.option(
    "--set",
    "initial",
    multiple=True,
    metavar="P.VAR=VALUE",
    help="The initial value of a variable of one process.",
)
@click.option("--label", "labels", multiple=True, metavar="P=NAME", help="What to call a process.")
@click.option("--until", help="Stop at this time.")
@click.option(
    "--events",
    type=click.IntRange(min=1),
    default=EVENT_LIMIT,
    show_default=True,
    help="Stop after so many events.",
)
@click.option("--self-check", is_flag=True, help="Run twice and compare the digests.")
@diagram_option
@stages_option
@table_option
@json_option
def run(
    diagrams: tuple[Path, ...],
    stages: Path | None,
    table: bool | None,
    as_json: bool,
    self_check: bool,
    **given: Any,
) -> int:
    """Simulate one run: what happened, what it cost, and which properties held."""
    setup = setup_of(given)
    report = execute_with_progress(setup)
    if self_check and execute(setup, keep=False).digest != report.digest:
        raise click.ClickException(
            "two runs of the same setup differ: the algorithm is not deterministic"
        )
    save_diagrams(report, diagrams, stages)
    if as_json:
        say_json(report.plain())
    else:
        say_report(report, table)
    return EXIT_OF[report.verdict]


def setup_of(given: Mapping[str, Any]) -> Setup:
    """The setup that the options describe."""
    faults = tuple((kind, text) for kind in FAULTS for text in given[kind])
    said = {
        each.name: given[each.name] for each in fields(Setup) if given.get(each.name) is not None
    }
    return Setup(**said, faults=faults)


def execute_with_progress(setup: Setup) -> Report:
    with progress(f"running {setup.algorithm}") as update:
        return execute(
            setup,
            progress=lambda now, events: update(
                events, f"{events:,} events, {now / 1000:,.0f} ms of virtual time"
            ),
        )


def save_diagrams(report: Report, paths: tuple[Path, ...], stages: Path | None) -> None:
    if not paths and stages is None:
        return
    from habemus.traces.export import save

    if report.trace is None:
        raise click.ClickException(
            f"the run has {report.ending.delivered:,} events, too many to draw; use fewer"
            " --requests or --events"
        )
    for path in paths:
        save(report.trace, path)
        click.echo(f"saved {path}", err=True)
    if stages is not None:
        _save_stages(report, stages)


def _save_stages(report: Report, path: Path) -> None:
    from habemus.runs.stages import picture

    if path.suffix not in (".svg", ".png"):
        raise click.UsageError(
            f"the stages are drawn as .svg or .png, not as {path.suffix or path.name}"
        )
    drawn = picture(report, report.trace.title if report.trace else "")
    if path.suffix == ".svg":
        path.write_text(drawn, encoding="utf-8")
    else:
        from habemus.traces.png import png

        path.write_bytes(png(drawn))
    click.echo(f"saved {path}", err=True)


def say_report(report: Report, table: bool | None) -> None:
    if report.trace is not None and (
        table or (table is None and len(report.trace.events) <= TABLE_UP_TO)
    ):
        from habemus.traces.table import text

        click.echo(text(replace(report.trace, findings=()), width=110))
    click.echo(
        f"{report.setup.algorithm}, {report.setup.n} participants: {verdict_text(report.verdict)}"
    )
    counted = [finding.name for finding in report.counted]
    say_findings(
        report.findings,
        [finding.name for finding in report.findings if finding.name not in counted],
    )
    click.echo()
    for name, value in _shown_costs(report.costs).items():
        click.echo(f"  {name:24} {value}")
    ending = report.ending
    click.echo(
        f"  {'ended':24} {_ENDINGS[ending.reason]}, at {ending.time / 1000:g} ms after"
        f" {ending.delivered:,} events"
    )
    click.echo(f"  {'digest':24} {report.digest}")


_ENDINGS = {
    "quiescent": "nothing more can happen",
    "done": "everything asked was done",
    "time": "its time is over",
    "events": "cut off after so many events",
}


def _shown_costs(costs: dict[str, Any]) -> dict[str, str]:
    formula = costs.get("formula") or {}
    beside = {
        "messages_per_entry": "messages",
        "client_delay": "client_delay",
        "sync_delay": "sync_delay",
    }
    shown = {}
    for name, value in costs.items():
        if name == "formula" or value is None or (name == "uninvited_entries" and not value):
            continue
        if isinstance(value, dict):
            shown[name.replace("_", " ")] = ", ".join(
                f"{key}: {each}" for key, each in value.items()
            )
            continue
        expected = formula.get(beside.get(name, ""))
        unit = " message times" if name.endswith("_delay") else ""
        shown[name.replace("_", " ")] = f"{value:,}{unit}" + (
            f"   (formula, uncontended: {expected})" if expected is not None else ""
        )
    return shown
