"""`habemus printer`: the printer that checks nothing."""

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
    """Around the first use of gRPC, which not everybody has; its own lines about lost connections
    are kept from the user.
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
            f"the printing system needs {missing.name}: install habemus[grpc]"
        ) from None


def as_span(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Span | None:
    """`2`, `0.5` or `2..3` seconds: a time in microseconds, or the range from which it is drawn."""
    try:
        return None if value is None else span("..".join(f"{each}s" for each in value.split("..")))
    except BadNotation:
        raise click.BadParameter(
            f"{value!r} is no number of seconds; write for example 2, 0.5 or 2..3"
        ) from None


LANGUAGES = click.Choice(["en", "pt"])

host_option = click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where to listen."
)
insecure_option = click.option(
    "--insecure",
    is_flag=True,
    help=(
        "Talk to other machines: this wire has neither encryption nor a secret, so whoever reaches"
        " it may use it."
    ),
)
language_option = click.option(
    "--lang",
    "language",
    type=LANGUAGES,
    default="en",
    show_default=True,
    help="In which language to speak.",
)


@click.command(epilog="Example: habemus printer --seconds 0.5..1 --watch --jobs 10")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=50_051,
    show_default=True,
    help="Where to listen; 0: any that is free.",
)
@host_option
@click.option(
    "--seconds",
    "seconds_us",
    callback=as_span,
    default="2..3",
    show_default=True,
    help="How long a job takes.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Tell of jobs that are printed over one another; the exit code is 1 if there were any.",
)
@click.option(
    "--jobs", "end_after", type=click.IntRange(1), metavar="N", help="End when so many are printed."
)
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
    """Print what clients send, one line each, until told to end (Ctrl-C).

    It checks nothing: that only one job comes at a time is the business of the clients (`habemus
    print`), or of programs that others wrote for the same wire.
    """
    with grpc_needed():
        from habemus.printing.serving import check_exposure
        from habemus.runtimes.live.sockets import Address

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
    return Exit.NOT_AS_WANTED if watch and here.overlapping else Exit.AS_WANTED


def _plain(job: Any) -> dict[str, Any]:
    return {name: value for name, value in job._asdict().items() if name != "ended_us" or value}
