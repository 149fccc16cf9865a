"""`habemus run`: simulate one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click

from habemus.cli.commands.completion import complete_algorithm
from habemus.cli.commands.showing import Showing, showing_options
from habemus.cli.output import (
    EXIT_OF,
    folded,
    hanging,
    json_option,
    option_option,
    over_option,
    progress,
    say_events,
    say_findings,
    say_json,
    set_option,
    text_width,
    verdict_text,
)
from habemus.core import words
from habemus.runs.notation import FAULT_PARSERS
from habemus.runs.setup import EVENT_LIMIT, ORDERS, WORKLOADS, Setup
from habemus.runs.simulate import Report, execute
from habemus.traces import Trace

TABLE_UP_TO = 80
MOST_COSTS = 5
TELLING = (
    *("entries", "messages_per_entry", "client_delay", "sync_delay", "throughput"),
    *("leader", "turnaround", "elections", "leader_changes"),
    *("detections", "detection_time", "longest_detection_time", "mistakes"),
    *("messages", "fairness", "busiest_share", "bytes_per_entry"),
)
"""Costs that say most about an algorithm: the first of these are shown."""
"""Print the table of events by default only for runs of up to so many events."""

_FAULT_HELP = {
    "crash": ("P@WHEN", "Crash process P at a time (5ms) or an event (send#3, Granted#1)."),
    "recover": ("P@WHEN", "P recovers with its stable memory."),
    "amnesia": ("P@WHEN", "P recovers with empty memory."),
    "replace": (
        "P@TIME",
        "P lost its memory and is replaced, if all others are up and connected.",
    ),
    "pause": ("P@WHEN+D", "Pause P for a time D."),
    "cut": (
        "LINKS@WHEN",
        "These links lose every message: A-B, A>B (one way) or 1,2|3 (partition).",
    ),
    "heal": ("LINKS@WHEN", "These links, or all, deliver messages again."),
    "slow": ("LINKS@WHEN=DELAY", "Change the delay of these links."),
    "skew": (
        "P=PPM",
        "Clock skew of P in parts per million; with +50000 its timers run 5 % too long.",
    ),
}


def _fault_options(command: Any) -> Any:
    for kind in reversed(FAULT_PARSERS):
        metavar, help = _FAULT_HELP[kind]
        command = click.option(f"--{kind}", multiple=True, metavar=metavar, help=help)(command)
    return command


diagram_option = click.option(
    "--diagram",
    "diagrams",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help=(
        "Save the run to a file; the format follows from the suffix: .svg, .png, .md or .mmd"
        " (Mermaid), .json (trace), .shiviz, .perfetto.json."
    ),
)
stages_option = click.option(
    "--stages",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save the graph stage by stage (yo-yo, franklin) as .svg or .png.",
)
table_option = click.option(
    "--table/--no-table",
    default=None,
    help=f"Print every event.  [default: for up to {TABLE_UP_TO} events]",
)


costs_option = click.option(
    "--costs", "all_costs", is_flag=True, help=f"Print all costs.  [default: {MOST_COSTS} of them]"
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
    "--requests", type=int, default=1, show_default=True, help="Requests of each participant."
)
@click.option(
    "--workload",
    type=click.Choice(WORKLOADS),
    default="steady",
    show_default=True,
    help="Arrival pattern of the requests.",
)
@click.option("--think", default=Setup.think, show_default=True, help="Time before each request.")
@click.option("--hold", default=Setup.hold, show_default=True, help="Time in the critical section.")
@click.option(
    "--give-up",
    default="",
    metavar="TIME",
    help="Time after which an application stops waiting.  [default: it waits for ever]",
)
@click.option(
    "--resign",
    multiple=True,
    metavar="P@T",
    help="P steps down at time T, if it leads then; repeat it.",
)
@click.option(
    "--ask",
    "asks",
    multiple=True,
    metavar="P@T[+HOLD]",
    help="Request of P at time T; repeat it.  Replaces the workload.",
)
@click.option(
    "--delay",
    default=Setup.delay,
    show_default=True,
    help="Message delay: 1ms, 500..1500, exp:1ms, heavy:1ms.",
)
@click.option(
    "--fifo/--no-fifo",
    default=None,
    help="Links deliver in order.  [default: only if the algorithm needs it]",
)
@click.option("--loss", default="0", show_default=True, help="Probability that a message is lost.")
@click.option(
    "--duplicate",
    default="0",
    show_default=True,
    help="Probability that a message is delivered twice.",
)
@over_option
@click.option(
    "--processing",
    metavar="TIME",
    help="Time that a process needs for each message that it gets, one by one.  [default: 0]",
)
@_fault_options
@option_option
@set_option
@click.option(
    "--label", "labels", multiple=True, metavar="P=NAME", help="Display name of a process."
)
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    help=(
        "How a process learns of requests, for ME3: by messages of the algorithm only, or outside:"
        " applications also tell each other.  [default: messages]"
    ),
)
@click.option(
    "--then",
    "then",
    multiple=True,
    metavar="'K: WHAT'",
    help=(
        "Intervene after K deliveries and keep everything before: '60: 2 crashes', '60: Reply(8)"
        " from 2 to 1 is lost', '60: luck 5'."
    ),
)
@click.option("--until", help="Stop at this time.")
@click.option(
    "--events",
    type=click.IntRange(min=1),
    default=EVENT_LIMIT,
    show_default=True,
    help="Stop after this many events.",
)
@click.option(
    "--overtaking",
    type=click.IntRange(min=0),
    metavar="K",
    help="Judge ME4: at most K others enter between a request and its entry.",
)
@click.option("--self-check", is_flag=True, help="Run twice and compare the digests.")
@diagram_option
@stages_option
@table_option
@costs_option
@json_option
@showing_options
def run(
    showing: Showing,
    diagrams: tuple[Path, ...],
    stages: Path | None,
    table: bool | None,
    all_costs: bool,
    as_json: bool,
    self_check: bool,
    **given: Any,
) -> int:
    """Simulate one run and print its events, costs and verdicts.

    ALGORITHM is a name from `habemus algorithms`, or a class of your own: path/to/mine.py:MyMutex.
    A time is a number of microseconds, or 5ms, or 2s.
    """
    setup = setup_of(given)
    report = execute_with_progress(setup)
    if self_check and execute(setup, keep=False).digest != report.digest:
        raise click.ClickException(
            "--self-check: two runs of the same setup have different digests, so the algorithm"
            " is not"
            " deterministic; look for time, random or unordered sets in it"
        )
    save_diagrams(report, diagrams, stages, showing)
    if as_json:
        say_json(report.plain())
    else:
        say_report(report, table, showing, all_costs=all_costs)
    return EXIT_OF[report.verdict]


def setup_of(given: Mapping[str, Any]) -> Setup:
    """Return the setup that the options describe."""
    faults = tuple((kind, text) for kind in FAULT_PARSERS for text in given[kind])
    chosen = {
        each.name: given[each.name] for each in fields(Setup) if given.get(each.name) is not None
    }
    return Setup(**chosen, faults=faults)


def execute_with_progress(setup: Setup) -> Report:
    with progress(f"running {setup.algorithm}") as update:
        return execute(
            setup,
            progress=lambda now, events: update(
                events, f"{events:,} events, {now / 1000:,.0f} ms of virtual time"
            ),
        )


def save_diagrams(
    report: Report, paths: tuple[Path, ...], stages: Path | None, showing: Showing
) -> None:
    if not paths and stages is None:
        return
    if report.trace is None:
        raise click.ClickException(
            f"the run has {report.ending.delivered:,} events, too many to draw; reduce"
            " --requests or"
            " --events"
        )
    showing.save(report.trace, paths, lambda: report.system)
    if stages is not None:
        _save_stages(report, stages)


def _save_stages(report: Report, path: Path) -> None:
    from habemus.runs.stages import picture

    if path.suffix not in (".svg", ".png"):
        raise click.UsageError(f"--stages {path}: unknown suffix {path.suffix!r}; use .svg or .png")
    drawn = picture(report, report.trace.title if report.trace else "")
    if path.suffix == ".svg":
        path.write_text(drawn, encoding="utf-8")
    else:
        from habemus.traces.png import png

        path.write_bytes(png(drawn))
    click.echo(f"saved {path}", err=True)


def say_report(report: Report, table: bool | None, showing: Showing, *, all_costs: bool) -> None:
    if report.trace is not None and table is not False:
        arguments = showing.arguments(report.trace, lambda: report.system)
        _say_table(report.trace, table, arguments)
    click.echo(
        f"{report.setup.algorithm}, {words.counted(report.setup.n, 'participant')}:"
        f" {verdict_text(report.verdict)}"
    )
    for missed in report.missed_faults:
        click.echo(click.style(folded(f"  WARNING: {missed}", "    "), fg="yellow", bold=True))
    counted = [finding.name for finding in report.counted]
    say_findings(
        report.findings,
        [finding.name for finding in report.findings if finding.name not in counted],
    )
    click.echo()
    ending = report.ending
    costs = _shown_costs(report.costs)
    telling = [name for name in TELLING if name in costs][:MOST_COSTS]
    shown = {
        **{_words(name): text for name, text in costs.items() if all_costs or name in telling},
        "ended": f"{_ENDINGS[ending.reason]}, at {ending.time / 1000:g} ms after"
        f" {words.counted(ending.delivered, 'event')}",
        "digest": report.digest,
    }
    for name, value in shown.items():
        click.echo(hanging(f"  {name:24} ", value))
    if not all_costs and len(costs) > len(telling):
        hidden = words.counted(len(costs) - len(telling), "more cost")
        click.echo(click.style(f"  {'':24} --costs shows {hidden}", dim=True))


def _say_table(trace: Trace, table: bool | None, arguments: dict[str, Any]) -> None:
    from habemus.traces.table import text
    from habemus.traces.view import select

    count = len(select(trace, arguments["selection"]).shown)
    if table or count <= TABLE_UP_TO:
        unjudged = replace(trace, findings=())
        say_events(text(unjudged, width=text_width(110), **arguments) + "\n", trace)
    else:
        click.echo(f"{count:,} events; --table prints them, --diagram run.svg draws them\n")


_ENDINGS = {
    "quiescent": "no event is left",
    "done": "all requests are done",
    "time": "time limit reached (--until)",
    "events": "event limit reached (--events)",
}


def _words(name: str) -> str:
    return name.replace("_", " ")


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
            shown[name] = ", ".join(f"{key}: {each}" for key, each in value.items())
            continue
        expected = formula.get(beside.get(name, ""))
        if isinstance(value, str):
            number = value
        elif name.endswith("detection_time"):
            number = f"{value / 1000:g} ms"
        elif name == "busiest_share":
            number = f"{value:.0%} of the messages are to or from it"
        elif name == "busiest_load":
            number = f"{value:.0%} of the time is spent on messages"
        else:
            number = f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
        shown[name] = f"{number}{_unit(name)}" + (
            f"   (formula, uncontended: {expected})" if expected is not None else ""
        )
    return shown


def _unit(cost: str) -> str:
    if cost.endswith("_delay") or cost == "turnaround":
        return " message times"
    if cost == "busiest_receives":
        return " messages per entry"
    return " entries per message time" if cost == "throughput" else ""
