"""`habemus trace`: merge and judge the records of live nodes."""

from __future__ import annotations

from pathlib import Path

import click

from habemus.cli.commands.showing import Showing, showing_options
from habemus.cli.output import (
    EXIT_OF,
    Exit,
    json_option,
    say_findings,
    say_json,
    trust_option,
    verdict_text,
)
from habemus.core.properties import Verdict


@click.group(epilog="Example: habemus trace merge records/*.jsonl -o run.json")
def trace() -> None:
    """Merge and judge the records of live nodes."""


@trace.command(
    epilog="Example: habemus trace merge records/*.jsonl --on locks/printer -o run.json -o run.svg"
)
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--on", metavar="SERVICE/NAME", help="Instance to merge; required if the records have several."
)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help=(
        "Save the trace to a file; the format follows from the suffix: .json (trace), .svg, .png,"
        " .md or .mmd (Mermaid), .shiviz."
    ),
)
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="NAME=VERDICT",
    help="Expected verdict, for example ME1=violated.  [default: no property is violated]",
)
@trust_option
@json_option
@showing_options
def merge(
    showing: Showing,
    files: tuple[Path, ...],
    on: str | None,
    outputs: tuple[Path, ...],
    expected: tuple[str, ...],
    trusted: bool,
    as_json: bool,
) -> int:
    """Merge the records of all nodes into one causally ordered trace, and judge it."""
    from habemus.deployment.services import judged
    from habemus.traces.export import check_ending
    from habemus.traces.merge import merge as merged
    from habemus.traces.merge import read_record

    wanted = dict(_wanted(each) for each in expected)
    for path in outputs:
        check_ending(path)
    report = judged(merged([read_record(file, trusted=trusted) for file in files], on))
    assert report.trace is not None
    showing.save(report.trace, outputs, lambda: report.system)
    if as_json:
        say_json(report.plain())
    else:
        click.echo(
            f"{report.trace.title}, {report.setup.algorithm}, {len(report.trace.events):,} events:"
            f" {verdict_text(report.verdict)}"
        )
        counted = [finding.name for finding in report.counted]
        say_findings(
            report.findings,
            [finding.name for finding in report.findings if finding.name not in counted],
        )
    if not wanted:
        return EXIT_OF[report.verdict]
    found = {finding.name: finding.verdict.value for finding in report.findings}
    mismatches = [
        f"{name}: expected {verdict}, found {found.get(name, 'not judged')}"
        for name, verdict in wanted.items()
        if found.get(name) != verdict
    ]
    for each in mismatches:
        click.echo(f"habemus: {each}", err=True)
    return Exit.FAILED if mismatches else Exit.OK


def _wanted(text: str) -> tuple[str, str]:
    name, _, verdict = text.partition("=")
    if verdict not in [each.value for each in Verdict]:
        raise click.BadParameter(
            f"{text}: use NAME=holds, NAME=violated or NAME=undecided", param_hint="--expect"
        )
    return name, verdict
