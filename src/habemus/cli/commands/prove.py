"""`habemus prove`: prove a property for every number of processes."""

from __future__ import annotations

from collections.abc import Sequence

import click

from habemus.catalog.entries import find
from habemus.cli.commands.completion import complete_algorithm
from habemus.cli.output import (
    COLOURS,
    EXIT_OF,
    Exit,
    hanging,
    json_option,
    option_option,
    say_events,
    say_json,
    text_width,
)
from habemus.core.properties import Verdict
from habemus.core.words import counted
from habemus.proofs.proving import ProofReport, proved_names
from habemus.proofs.proving import prove as prove_one
from habemus.proofs.solver import TIME_LIMIT_S
from habemus.runs.parsing import option

WORDS = {Verdict.HOLDS: "proved", Verdict.VIOLATED: "not proved", Verdict.UNDECIDED: "unknown"}


@click.command(epilog="Example: habemus prove ricart-agrawala")
@click.argument("algorithm", required=False, shell_complete=complete_algorithm)
@option_option
@click.option(
    "--limit",
    type=click.FloatRange(min=0.1, max=3600),
    default=float(TIME_LIMIT_S),
    show_default=True,
    metavar="SECONDS",
    help="Time for each question to the solver.",
)
@json_option
def prove(algorithm: str | None, options: tuple[str, ...], limit: float, as_json: bool) -> int:
    """Prove a property of an algorithm for every number of processes, by induction.

    ALGORITHM is a name from `habemus algorithms`, or a class of your own: path/to/mine.py:MyMutex.
    Without it, all proofs of the catalog are made.  The clauses of the invariant stand beside the
    algorithm.  They are tried on every state of two and three processes first.
    """
    reports = []
    for name in [algorithm] if algorithm else proved_names():
        entry = find(name)
        report = prove_one(entry, dict(map(option, options)), limit)
        reports.append(report)
        if not as_json:
            _say(report)
    if as_json:
        plain = [report.plain() for report in reports]
        say_json(plain[0] if algorithm else plain)
    return _exit(reports)


def _exit(reports: Sequence[ProofReport]) -> int:
    verdicts = {report.verdict for report in reports}
    for verdict in (Verdict.VIOLATED, Verdict.UNDECIDED):
        if verdict in verdicts:
            return EXIT_OF[verdict]
    return Exit.OK


def _say(report: ProofReport) -> None:
    verdict = click.style(WORDS[report.verdict], fg=COLOURS[report.verdict], bold=True)
    what = f"{report.proof.ensures} for every number of processes"
    click.echo(f"{report.name}: {what}: {verdict}")
    if report.why:
        _say_line("why", report.why)
    if report.refutation is not None:
        _say_line("for", ", ".join(report.refutation.arguments))
        trace = report.trace
        if trace is not None:
            from habemus.traces.table import text

            say_events(text(trace, width=text_width(110)) + "\n", trace)
    if report.case is not None:
        for line in report.case.lines():
            _say_line("", line)
        _say_line(
            "",
            "No state of the searches takes this step, so the clauses allow a state that cannot be"
            " reached: add a clause that excludes it.",
        )
    searched = ", ".join(
        f"{each.search.extent.states:,} states with {each.size} processes"
        + ("" if each.is_complete else " (cut off)")
        for each in report.searched
    )
    compared = f"; {counted(report.compared, 'step')} compared" if report.compared else ""
    _say_line("searched", searched + compared)
    if report.obligations:
        _say_line(
            "induction",
            f"{counted(len(report.proof.clauses), 'clause')}, {counted(report.ways, 'way')} through"
            f" the handlers, {counted(report.obligations, 'obligation')}, {report.seconds:.1f} s",
        )
    if report.assumptions:
        _say_line("assumes", "; ".join(report.assumptions))


def _say_line(head: str, text: str) -> None:
    click.echo(hanging(f"  {head:12} ", text))
