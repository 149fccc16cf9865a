"""`habemus check`: search every interleaving."""

from __future__ import annotations

from pathlib import Path

import click

from habemus.cli.commands.completion import complete_algorithm
from habemus.cli.output import (
    EXIT_OF,
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
from habemus.core.properties import Verdict
from habemus.runs.check import NETWORKS, SEARCHES, STATE_LIMIT, TIMINGS, Check, CheckReport, perform
from habemus.runs.commands import entries_of, faults_of_check, processes_of
from habemus.runs.parsing import receipts as bounds_of_receipts
from habemus.runs.parsing import timeouts as bounds_of_timeouts
from habemus.runs.setup import MESSAGES, ORDERS, OUTSIDE
from habemus.runtimes.checker.search import Extent


@click.command(epilog="Example: habemus check maekawa -n 3 --diagram deadlock.svg")
@click.argument("algorithm", shell_complete=complete_algorithm)
@click.option("-n", "n", type=int, default=3, show_default=True, help="Number of participants.")
@click.option(
    "--entries",
    default="1",
    show_default=True,
    metavar="K|unbounded",
    help="Entries of each participant; for an election, calls.",
)
@click.option(
    "--network",
    type=click.Choice(NETWORKS),
    help="Behaviour of links.  [default: fifo if the algorithm needs it, else unordered]",
)
@click.option(
    "--faults",
    default="",
    metavar="KIND=K,...",
    help="Upper bound for each kind of fault: crash, recover, amnesia, lose, copy.",
)
@click.option(
    "--timeouts",
    default="",
    metavar="K,TIMER=K,...",
    help=(
        "Upper bound for the number of timeouts in all, or of the timers of one name."
        "  [default: unbounded]"
    ),
)
@click.option(
    "--receipts",
    default="",
    metavar="MESSAGE=K,...",
    help="Upper bound for the receipts of messages of one name.  [default: unbounded]",
)
@click.option(
    "--draws",
    type=int,
    metavar="K",
    help=(
        "Upper bound for the number of steps that draw at random.  Termination with probability"
        " one is then judged with K more draws."
    ),
)
@click.option(
    "--withdrawals",
    type=int,
    default=0,
    metavar="K",
    help="Upper bound for how often an application stops waiting for the lock.  [default: 0]",
)
@click.option(
    "--resignations",
    type=int,
    default=0,
    metavar="K",
    help="Upper bound for how often a leader steps down in its own term.  [default: 0]",
)
@click.option(
    "--asking",
    default="",
    metavar="P,...",
    help="Participants that make requests.  [default: all]",
)
@click.option(
    "--timing",
    type=click.Choice(TIMINGS),
    default="asynchronous",
    show_default=True,
    help=(
        "asynchronous: a timer can expire at any moment.  synchronous: only in order, after"
        " all messages.  eventual: at any moment at first, then in order and without a limit;"
        " decides liveness."
    ),
)
@click.option(
    "--merging",
    is_flag=True,
    help="Merge equal messages in flight, for algorithms that retransmit.",
)
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    is_flag=False,
    flag_value=MESSAGES,
    help=(
        "Also check ME3.  messages, or no value: a process learns of requests by messages of the"
        " algorithm only.  outside: applications also tell each other of their requests."
    ),
)
@click.option(
    "--returning",
    is_flag=True,
    help="Assume that crashed processes recover: ignore executions that end with one down.",
)
@click.option(
    "--every", is_flag=True, help="Continue after the first violation and judge every property."
)
@click.option(
    "--search",
    "search",
    type=click.Choice(SEARCHES),
    default="auto",
    show_default=True,
    help="auto chooses symbolic (decision diagrams) or numpy for large searches.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=STATE_LIMIT,
    show_default=True,
    help="Give up after this many states, or edges of decision diagrams.",
)
@over_option
@click.option(
    "--abstract",
    metavar="election[:terms=K]",
    help="Replace the component below by one that does all that its safety properties allow.",
)
@click.option(
    "--refines",
    metavar="election",
    help="Check that the algorithm does only what the abstract component may do.",
)
@option_option
@set_option
@click.option(
    "--diagram",
    "diagrams",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save the counterexample; the format follows from the suffix, as in `run`.",
)
@click.option(
    "--pytest",
    "test",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the counterexample as a pytest file.",
)
@json_option
def check(
    algorithm: str,
    n: int,
    entries: str,
    network: str | None,
    faults: str,
    timeouts: str,
    receipts: str,
    draws: int | None,
    withdrawals: int,
    resignations: int,
    asking: str,
    timing: str,
    merging: bool,
    order: str | None,
    returning: bool,
    every: bool,
    search: str,
    limit: int,
    over: str | None,
    abstract: str | None,
    refines: str | None,
    options: tuple[str, ...],
    initial: tuple[str, ...],
    diagrams: tuple[Path, ...],
    test: Path | None,
    as_json: bool,
) -> int:
    """Search every interleaving of an algorithm within a bound and say which properties hold.

    ALGORITHM is a name from `habemus algorithms`, or a class of your own: path/to/mine.py:MyMutex.
    """
    in_all, timers = bounds_of_timeouts(timeouts)
    wanted = Check(
        algorithm,
        n,
        options=options,
        initial=initial,
        over=over or "",
        abstract=abstract or "",
        refines=refines or "",
        entries=entries_of(entries),
        network=network or "",
        faults=faults_of_check(faults),
        timeouts=in_all,
        timers=timers,
        receipts=bounds_of_receipts(receipts),
        draws=draws,
        withdrawals=withdrawals,
        resignations=resignations,
        asking=processes_of(asking),
        timing=timing,
        merging=merging,
        order=order is not None,
        outside=order == OUTSIDE,
        returning=returning,
        every=every,
        search=search,
        limit=limit,
    )
    with progress("check", limit) as update:
        report = perform(
            wanted,
            progress=lambda extent: update(extent.states, _meter(extent)),
            loop_progress=lambda done, total: update(
                done,
                f"{done:,} of {total:,} states",
                title="second phase" if wanted.has_second_phase else "loops",
                total=total,
            ),
        )
    _save(report, diagrams, test)
    if as_json:
        say_json(report.plain())
    else:
        _say(report)
    return EXIT_OF[report.verdict]


def _meter(extent: Extent) -> str:
    rate = extent.states / extent.seconds if extent.seconds else 0
    beside = "" if extent.depth is None else f", depth {extent.depth}, {extent.queue:,} to visit"
    return f"{extent.states:,} states, {rate:,.0f}/s{beside}"


def _save(report: CheckReport, diagrams: tuple[Path, ...], test: Path | None) -> None:
    if not diagrams and test is None:
        return
    # A property that the algorithm does not claim does not count, but its violation can be drawn.
    trace = report.trace or next(iter(report.traces.values()), None)
    if trace is None or (report.trace is None and not diagrams):
        click.echo(f"habemus: no counterexample to save: {report.verdict.value}", err=True)
        return
    if diagrams:
        from habemus.traces.export import save

        for path in diagrams:
            save(trace, path)
            click.echo(f"saved {path}", err=True)
    if test is not None and report.trace is not None:
        from habemus.schedules.regression import regression_test

        test.write_text(regression_test(report, test.parent), encoding="utf-8")
        click.echo(f"saved {test}", err=True)


def _say(report: CheckReport) -> None:
    trace, extent = report.trace, report.extent
    if trace is not None:
        from dataclasses import replace

        from habemus.traces.table import text

        say_events(text(replace(trace, findings=()), width=text_width(110)) + "\n", trace)
        story = report.stories[report.explained[0]]
        if story.loop is not None:
            click.echo(f"from {story.loop / 1000:g} ms on, the events repeat for ever\n")
    click.echo(
        f"{report.check.algorithm}, {words.counted(report.check.n, 'participant')}:"
        f" {verdict_text(report.verdict)}"
    )
    counted = [finding.name for finding in report.counted]
    say_findings(
        report.findings,
        [finding.name for finding in report.findings if finding.name not in counted],
    )
    click.echo()
    _say_line("within", report.check.description(report.entry))
    if report.check.abstract:
        from habemus.runs import abstraction

        kept = abstraction.kept_by_abstraction()
        name = report.check.abstract.partition(":")[0]
        live = (
            f", and liveness if the {name} settles"
            if report.check.has_second_phase
            else "; liveness is not asked"
        )
        _say_line(
            "abstract",
            f"what holds here holds over every {name} that keeps {kept} (--refines {name}){live}",
        )
    deep = "" if extent.depth is None else f", {extent.depth} steps deep"
    _say_line(
        "states",
        f"{extent.states:,} in {extent.seconds:.2f} s, {extent.transitions:,} transitions{deep}",
    )
    _say_line("search", report.search.description)
    _say_line("handlers", f"{report.search.handlers_run:,} executed")
    if report.liveness is not None:
        _say_line(
            "liveness",
            f"by a second phase of {report.liveness.states:,} states, in"
            f" {report.loop_seconds:.2f} s",
        )
    if report.loops:
        took = f", in {report.loop_seconds:.2f} s" if report.loop_seconds >= 0.01 else ""
        _say_line("loops", f"{report.loops}{took}")
    cut_off = "" if report.liveness is None else report.liveness.cut_off
    if cut_off:
        _say_line("exhaustive", f"no: in the second phase, {cut_off}", "yellow")
    elif extent.complete:
        _say_line("exhaustive", "yes, all states were visited")
    else:
        colour = "yellow" if report.verdict is Verdict.UNDECIDED else None
        queue = "" if extent.depth is None else f", {extent.queue:,} states not visited"
        _say_line("exhaustive", f"no: {extent.stopped}{queue}", colour)


def _say_line(head: str, text: str, colour: str | None = None) -> None:
    click.echo(click.style(hanging(f"  {head:12} ", text), fg=colour))
