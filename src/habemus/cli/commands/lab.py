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
    "what", nargs=-1, type=click.UNPROCESSED, metavar="[RUN...|check CHECK...|TRACE|SCENARIO|LINK]"
)
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
    port: int,
    no_browser: bool,
    limit_seconds: float,
    limit_mb: int,
    as_json: bool,
) -> int:
    """Open the lab: watch a run in the browser, step it, break it, fork it.

    RUN is an algorithm with the options of `habemus run`, CHECK one with those of `habemus check`,
    whose counterexample opens.  TRACE is a saved trace, SCENARIO the name of a scenario, LINK what
    the page exported.  Without any of them the page asks.

    The server listens on this machine only, until Ctrl-C.  The address contains a secret.
    """
    try:
        from habemus.lab.server import LabServer, PortTaken, listen, serve
        from habemus.lab.worker import WorkerLimits
    except ModuleNotFoundError as missing:
        if missing.name not in PACKAGES:
            raise
        raise click.ClickException(
            f"package {missing.name!r} is missing: pip install 'habemus[lab]'"
        ) from None
    opens = opening(what)
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


def opening(what: tuple[str, ...]) -> dict[str, Any] | None:
    """Return what the page opens first."""
    if not what:
        return None
    if len(what) == 1:
        if "&events=" in what[0]:
            return {"link": what[0]}
        file = Path(what[0])
        if file.suffix in (".json", ".jsonl") or (file.is_file() and file.suffix != ".py"):
            if file.stat().st_size > TRACE_BYTES:
                raise click.ClickException(f"{file} has more than {TRACE_BYTES:,} bytes")
            return {"trace": file.read_text(encoding="utf-8"), "name": file.name}
        from habemus.scenarios import scenarios

        if what[0] in scenarios():
            return {"scenario": what[0]}
    from habemus.catalog.entries import find

    if what[0] == "check" and len(what) > 1:
        find(what[1])
        return {"check": shlex.join(what[1:])}
    find(what[0])  # an unknown algorithm is refused here, in one line
    return {"run": shlex.join(what)}


def _announce(server: LabServer, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"url": server.url, "port": server.port}))
    else:
        click.echo(f"the lab is at {server.url}")
        click.echo("Ctrl-C ends it", err=True)
