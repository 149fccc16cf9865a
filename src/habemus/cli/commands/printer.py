"""`habemus printer`: a printer without access control."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from habemus.cli.output import Exit, json_option, say_json
from habemus.core.process import Span
from habemus.runs.parsing import BadNotation, span


@contextmanager
def grpc_needed() -> Iterator[None]:
    """Turn a missing gRPC package into one line that names the extra to install, and silence the
    log lines of gRPC about lost connections.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in (
            "grpc",
            "grpc_health",
            "grpc_reflection",
            "google",
            "msgspec",
        ):
            raise
        raise click.ClickException(
            f"package {missing.name!r} is missing: pip install '.[grpc]' in your clone"
        ) from None


def as_span(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Span | None:
    """Parse `2`, `0.5` or `2..3` seconds into microseconds or a range of them."""
    try:
        return None if value is None else span("..".join(f"{each}s" for each in value.split("..")))
    except BadNotation:
        raise click.BadParameter(
            f"{value!r} is not a number of seconds; examples: 2, 0.5, 2..3"
        ) from None


LANGUAGES = click.Choice(["en", "pt"])

host_option = click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on."
)
insecure_option = click.option(
    "--insecure",
    is_flag=True,
    help=(
        "Allow addresses of other machines.  The protocol has neither encryption nor"
        " authentication: every host that reaches the port can use it."
    ),
)
language_option = click.option(
    "--lang",
    "language",
    type=LANGUAGES,
    default="en",
    show_default=True,
    help="Language of the output.",
)


@click.command(epilog="Example: habemus printer --seconds 0.5..1 --watch --jobs 10")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=50_051,
    show_default=True,
    help="Port to listen on; 0 chooses a free one.",
)
@host_option
@click.option(
    "--seconds",
    "seconds_us",
    callback=as_span,
    default="2..3",
    show_default=True,
    help="Duration of a job.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Report jobs that overlap; exit with 1 if there were any.",
)
@click.option("--jobs", "end_after", type=click.IntRange(1), metavar="N", help="Exit after N jobs.")
@language_option
@insecure_option
@json_option
def printer(
    port: int,
    host: str,
    seconds_us: Span,
    watch: bool,
    end_after: int | None,
    language: str,
    insecure: bool,
    as_json: bool,
) -> int:
    """Print the jobs of clients, one line each, until Ctrl-C.

    The printer has no access control.  The clients (`habemus print`, or other programs that speak
    the same protocol) must ensure that jobs do not overlap.
    """
    with grpc_needed():
        from habemus.printing.serving import check_exposure
        from habemus.runtimes.live.cluster_file import Address

        listen = Address(host, port)
        check_exposure([listen], insecure)
    return asyncio.run(_run(listen, seconds_us, watch, end_after, language, as_json))


async def _run(
    listen: Any, seconds_us: Span, watch: bool, end_after: int | None, language: str, as_json: bool
) -> int:
    from habemus.printing.printer import Printer
    from habemus.printing.words import say

    def tell(what: str, /, **fields: Any) -> None:
        if what != "overlap" or watch:
            click.echo(say(language, what, **fields), err=as_json or what != "job")

    here = Printer(listen, seconds_us, tell, partial(say, language, "confirmation"), end_after)
    await here.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, here.done.set)
    tell("printer", place=here.address)
    await here.done.wait()
    await here.stop()
    if as_json:
        overlaps = [[_plain(job), _plain(other)] for job, other in here.overlaps]
        watched = {"overlapping": here.overlapping, "overlaps": overlaps} if watch else {}
        say_json(
            {
                "address": str(here.address),
                "printed": here.printed,
                **watched,
                "jobs": [_plain(job) for job in here.jobs],
            }
        )
    elif watch:
        tell("watched", jobs=here.printed, overlaps=here.overlapping)
    else:
        tell("summary", jobs=here.printed)
    return Exit.FAILED if watch and here.overlapping else Exit.OK


def _plain(job: Any) -> dict[str, Any]:
    return {name: value for name, value in job._asdict().items() if name != "ended_us" or value}
