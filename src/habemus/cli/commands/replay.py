"""`habemus replay`: execute a saved trace again and compare."""

from __future__ import annotations

from pathlib import Path

import click

from habemus.catalog.entries import find
from habemus.cli.commands.run import diagram_option
from habemus.cli.commands.showing import Showing, showing_options
from habemus.cli.output import Exit, json_option, say_json, trust_option
from habemus.core.system import System
from habemus.runs.setup import Setup
from habemus.runs.simulate import is_counterexample, is_live, replayed, system_of
from habemus.traces import Trace


@click.command(epilog="Example: habemus run central --diagram run.json && habemus replay run.json")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@diagram_option
@click.option("--table", is_flag=True, help="Print every event.")
@trust_option
@json_option
@showing_options
def replay(
    showing: Showing,
    file: Path,
    diagrams: tuple[Path, ...],
    table: bool,
    trusted: bool,
    as_json: bool,
) -> int:
    """Execute the saved trace FILE again and check that it gives the same events.

    A counterexample is executed by the pure processes and by the simulator.  The events of a live
    trace are fed to the pure processes, which must do what the live nodes did.
    """
    from habemus.traces import digest
    from habemus.traces.file import read

    trace = read(file, trusted=trusted)
    showing.save(trace, diagrams, lambda: _system_of(trace))
    if table:
        from habemus.traces.table import text

        click.echo(text(trace, width=110, **showing.arguments(trace, lambda: _system_of(trace))))
    if is_counterexample(trace.run):
        return _replay_counterexample(file, trace, as_json)
    if is_live(trace.run):
        return _replay_live(file, trace, as_json)
    saved = digest(trace.events)
    report = replayed(trace)
    same = report.digest == saved
    if as_json:
        say_json(
            {
                "file": str(file),
                "digest": report.digest,
                "saved": saved,
                "same": same,
                "events": len(trace.events),
            }
        )
    elif same:
        click.echo(f"same: {len(trace.events):,} events, digest {saved}")
    else:
        click.echo(f"different: digest {saved} in the file, {report.digest} now")
    return Exit.OK if same else Exit.FAILED


def _system_of(trace: Trace) -> System:
    """Return the processes of a saved trace."""
    if is_counterexample(trace.run):
        from habemus.schedules.counterexamples import system_of_counterexample

        return system_of_counterexample(trace)
    if is_live(trace.run):
        from habemus.deployment.services import system_of_trace

        return system_of_trace(trace)
    setup = Setup.from_plain(trace.run)
    return system_of(setup, find(setup.algorithm))


def _replay_live(file: Path, trace: Trace, as_json: bool) -> int:
    from habemus.deployment.services import replayed as replayed_live
    from habemus.runtimes.replay import Divergence
    from habemus.traces import digest

    why = ""
    steps = 0
    try:
        steps = replayed_live(trace)
    except Divergence as reason:
        why = str(reason)
    saved = digest(trace.events)
    if as_json:
        say_json(
            {
                "file": str(file),
                "digest": saved,
                "saved": saved,
                "same": not why,
                "events": len(trace.events),
                "steps": steps,
                "why": why,
            }
        )
    else:
        click.echo(
            f"same: {steps:,} steps of live processes, {len(trace.events):,} events"
            if not why
            else f"different: {why}"
        )
    return Exit.FAILED if why else Exit.OK


def _replay_counterexample(file: Path, trace: Trace, as_json: bool) -> int:
    from habemus.schedules.counterexamples import again

    found = again(trace)
    if as_json:
        say_json(
            {
                "file": str(file),
                "digest": found.digest,
                "saved": found.saved,
                "same": found.same,
                "events": len(trace.events),
                "property": found.name,
                "steps": found.played.steps,
                "violated": dict(found.played.violated),
                "simulator": found.simulated,
                "why": found.different,
            }
        )
        return Exit.OK if found.same else Exit.FAILED
    if found.different:
        click.echo(f"different: {found.different}")
    else:
        click.echo(
            f"same: {found.played.steps} steps, {len(trace.events):,} events, digest {found.saved}"
        )
    click.echo(f"  {found.name}: {found.played.violated.get(found.name, 'no longer violated')}")
    click.echo(f"  in the simulator: {found.simulated}")
    return Exit.OK if found.same else Exit.FAILED
