"""`habemus report`: render the results of a sweep as one HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from habemus.analysis.sweeps import grid_files
from habemus.analysis.sweeps.grid_rows import VERDICTS, GridRow
from habemus.analysis.sweeps.journal import ENDING
from habemus.analysis.sweeps.report import Survey, survey
from habemus.cli.output import Exit, json_option, progress, say_json
from habemus.cli.tables import say_table

EVERY = 10_000
"""Rows between two updates of the progress bar."""


@click.command(epilog="Example: habemus report results.csv --out report.html")
@click.argument("results", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.html",
    help="Output file.  [default: RESULTS with the suffix .html]",
)
@click.option("--title", help="Title of the page.  [default: the name of the file]")
@json_option
def report(results: Path, out: Path | None, title: str | None, as_json: bool) -> int:
    """Render the results of a sweep as one HTML page: verdicts, costs with plots, and the commands
    of failing runs.

    RESULTS is the output of `habemus sweep FILE.toml`, or the journal of an unfinished sweep.  The
    page needs no other file.
    """
    from habemus.analysis.sweeps.report_page import page
    from habemus.analysis.sweeps.report_plots import check, pictures

    unfinished = results.suffix == ENDING
    named = results.with_suffix("") if unfinished else results  # rows.csv.journal is about rows.csv
    out = out or named.with_suffix(".html")
    if out.suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(
            f"--out {out}: a report is an HTML page; use a name that ends in .html"
        )
    check()
    with progress("report") as update:
        found = survey(_counted(grid_files.read(results), update))
    subtitle = "The sweep has not ended; these are the runs made so far." if unfinished else ""
    out.write_text(page(found, pictures(found), title or named.stem, subtitle), encoding="utf-8")
    if as_json:
        say_json(_plain(found, out))
    else:
        say_table(
            ["algorithm", "runs", *VERDICTS],
            [
                [name, *(f"{count:,}" for count in _counts(found, name))]
                for name in found.algorithms
            ],
        )
    click.echo(f"saved {out}", err=True)
    return Exit.OK


def _counted(rows: Iterator[GridRow], update: Callable[[int, str], None]) -> Iterator[GridRow]:
    for count, row in enumerate(rows, 1):
        if count % EVERY == 0:
            update(count, f"{count:,} rows")
        yield row


def _counts(found: Survey, name: str) -> list[int]:
    """Return the number of runs, and of runs with each verdict."""
    counts = [found.verdicts[name, verdict] for verdict in VERDICTS]
    return [sum(counts), *counts]


def _plain(found: Survey, out: Path) -> dict[str, Any]:
    rows = []
    for name in found.algorithms:
        judged = {
            each.name: [found.properties[name, each.name, verdict] for verdict in VERDICTS[:3]]
            for each in found.judged([name])
        }
        rows.append(
            {
                "algorithm": name,
                **dict(zip(("runs", *VERDICTS), _counts(found, name), strict=True)),
                "properties": {
                    each: dict(zip(VERDICTS, counts, strict=False))
                    for each, counts in judged.items()
                },
                "failures": [
                    {
                        "kind": kind.kind,
                        "runs": kind.count,
                        "commands": [row["command"] for row in kind.examples],
                    }
                    for kind in found.failures[name].values()
                ],
            }
        )
    return {"report": str(out), "runs": found.runs, "rows": rows}
