"""`habemus lab`: runs in the browser."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from habemus.cli.output import Exit, FiniteRange, json_option
from habemus.core.words import did_you_mean

if TYPE_CHECKING:
    from habemus.lab.server import LabServer

PORT = 7490
PACKAGES = ("starlette", "uvicorn", "websockets")
TRACE_BYTES = 60_000_000


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Example: habemus lab ricart-agrawala -n 3 --seed 7",
)
@click.argument(
    "what",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[RUN...|check CHECK...|TRACE|RECORDS...|SCENARIO|LINK]",
)
@click.option("--on", metavar="SERVICE/NAME", help="Lock or election of the RECORDS to open.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT,
    show_default=True,
    help="Port on the loopback interface; 0 for a free one.",
)
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
@click.option(
    "--limit-seconds",
    type=FiniteRange(0.1, 3600),
    default=60,
    show_default=True,
    help="Longest time that one request of the page may take.",
)
@click.option(
    "--limit-mb",
    type=click.IntRange(128, 1_000_000),
    default=2048,
    show_default=True,
    help="Memory of a session in megabytes.",
)
@json_option
def lab(
    what: tuple[str, ...],
    on: str | None,
    port: int,
    no_browser: bool,
    limit_seconds: float,
    limit_mb: int,
    as_json: bool,
) -> int:
    """Open the lab: watch a run in the browser, step it, break it, fork it.

    RUN is an algorithm with the options of `habemus run`, CHECK one with those of `habemus check`,
    whose counterexample opens.  TRACE is a saved trace, RECORDS are the files of live nodes that
    `habemus up --record` wrote, SCENARIO is the name of a scenario, LINK what the page exported.
    Without any of them the page asks.

    The server listens on this machine only, until Ctrl-C.  The address contains a secret.
    """
    try:
        from habemus.lab.server import LabServer, PortTaken, listen, serve
        from habemus.lab.worker import WorkerLimits
    except ModuleNotFoundError as missing:
        if missing.name not in PACKAGES:
            raise
        raise click.ClickException(
            f"package {missing.name!r} is missing: pip install '.[lab]' in your clone"
        ) from None
    opens = opening(what, on)
    try:
        listening = listen(port)
    except PortTaken as taken:
        raise click.ClickException(f"{taken}; choose another one with --port") from None
    limits = WorkerLimits(seconds=limit_seconds, megabytes=limit_mb)
    server = LabServer(listening.getsockname()[1], opens, limits)
    _announce(server, as_json)
    if not no_browser:
        webbrowser.open(server.url)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(server, listening))
    return Exit.OK


def opening(what: tuple[str, ...], on: str | None = None) -> dict[str, Any] | None:
    """Return what the page opens first; a mistake is refused here, in one line."""
    from habemus.catalog.entries import entries, find
    from habemus.runs.commands import check_of, run_of
    from habemus.runs.execution import Execution
    from habemus.scenarios import scenarios

    if on is not None and not (what and all(map(_is_record, what))):
        raise click.ClickException(
            "--on chooses from the records of live nodes; name their files, records/*.jsonl"
        )
    if not what:
        return None
    if all(map(_is_record, what)):
        return _merged([Path(each) for each in what], on)
    if what[0] in ("run", "scenario") and len(what) > 1:  # as in the command that it opens
        what = what[1:]
    if len(what) == 1:
        if "&events=" in what[0]:
            return {"link": what[0]}
        file = Path(what[0])
        if file.suffix in (".json", ".jsonl") or (file.is_file() and file.suffix != ".py"):
            return {"trace": _text_of(file), "name": file.name}
        if what[0] in scenarios():
            return {"scenario": what[0]}

    if what[0] == "check":
        if len(what) == 1:
            raise click.ClickException("name an algorithm: habemus lab check maekawa -n 3")
        check = check_of(shlex.join(what[1:]))
        check.system(find(check.algorithm))
        return {"check": shlex.join(what[1:])}
    if len(what) == 1 and "." not in what[0]:
        _refuse_unknown(what[0], [*entries(), *scenarios()])
    elif what[0] in scenarios():
        raise click.ClickException(f"scenario {what[0]} takes no options; open a run instead")
    find(what[0])
    Execution(run_of(shlex.join(what)), keep=False)  # prepared, not begun
    return {"run": shlex.join(what)}


def _refuse_unknown(name: str, known: list[str]) -> None:
    if name not in known:
        hint = did_you_mean(name, known, "habemus algorithms and habemus scenario list all")
        raise click.ClickException(f"there is no algorithm, scenario or file {name}; {hint}")


def _text_of(file: Path) -> str:
    try:
        if file.stat().st_size > TRACE_BYTES:
            raise click.ClickException(f"{file} has more than {TRACE_BYTES:,} bytes")
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.ClickException(f"{file} is not a trace: it is not text") from None


def _is_record(name: str) -> bool:
    """Return whether it is a file with the events of one live node."""
    try:
        with Path(name).open("rb") as file:
            return file.read(18) == b'{"habemus_record":'
    except (OSError, ValueError):
        return False


def _merged(files: list[Path], on: str | None) -> dict[str, Any]:
    """Return the trace that the records of live nodes give."""
    from habemus.traces.file import written
    from habemus.traces.merge import merge, read_record

    # The page asks before code that a header names is run.
    trace = merge([read_record(file, trusted=True) for file in files], on)
    return {"trace": "".join(f"{line}\n" for line in written(trace)), "name": trace.title}


def _announce(server: LabServer, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"url": server.url, "port": server.port}))
    else:
        click.echo(f"the lab is at {server.url}")
        click.echo("Ctrl-C ends it", err=True)
