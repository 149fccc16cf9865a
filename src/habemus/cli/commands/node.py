"""`habemus node`: run one node of a cluster in the foreground."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from habemus.cli.output import Exit, FiniteRange, json_option, say_json

if TYPE_CHECKING:
    from habemus.runtimes.live.hosting.node import Node
    from habemus.runtimes.live.hosting.service import Service
    from habemus.runtimes.live.monitoring.logs import LogFormatter
    from habemus.runtimes.live.peers.tls import TlsContexts
    from habemus.runtimes.live.settings import Settings

log = logging.getLogger("habemus.live")

FORGETFUL = (
    'memory = "none": this node loses its votes and grants when it stops; after a restart of one'
    " node two clients can hold the same lock, and after a restart of all nodes fencing tokens"
    " start again, so resources can accept stale writes"
)
GRACE_SECONDS = 10.0
"""Time that a stopping node waits for clients that hold a lock."""


@contextmanager
def live() -> Iterator[None]:
    """Turn a missing optional package into one line that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as missing:
        extra = {
            "msgspec": "live",
            "uvloop": "live",
            "cryptography": "certs",
            "prometheus_client": "metrics",
        }.get(missing.name or "")
        if extra is None:
            raise
        raise click.ClickException(
            f"package {missing.name!r} is missing: pip install '.[{extra}]' in your clone"
        ) from None


def runner() -> Callable[[Coroutine[Any, Any, int]], int]:
    """Return the runner of the event loop: uvloop if it is installed, else asyncio."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.run
    return uvloop.run


@click.command(epilog="Example: habemus node --config cluster.toml --id 2")
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    envvar="HABEMUS_CONFIG",
    required=True,
    help="The cluster.toml.",
)
@click.option(
    "--id",
    "number",
    type=int,
    envvar="HABEMUS_NODE",
    required=True,
    help="Number of this node in the cluster.toml.",
)
@click.option(
    "--data", metavar="FOLDER", help="Folder of stable memory; each node has a folder in it."
)
@click.option(
    "--replace",
    is_flag=True,
    help="Start with empty stable memory: the old one of this node is lost.",
)
@click.option(
    "--join",
    "joins",
    is_flag=True,
    help="Join a running cluster: wait until `habemus member add` makes this node a member.",
)
@click.option("--secret-file", metavar="FILE", help="File with the cluster secret.")
@click.option(
    "--record",
    metavar="FOLDER",
    help="Record events in this folder, for `habemus trace merge`.",
)
@click.option(
    "--bind", metavar="HOST:PORT", help="Listen here.  [default: the address in the cluster.toml]"
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Serve /metrics for Prometheus and the probes /livez and /readyz here.",
)
@click.option(
    "--insecure",
    is_flag=True,
    default=None,
    help="Allow connections to other machines without TLS and secret.",
)
@click.option(
    "--grace",
    type=FiniteRange(0, 3_600),
    default=GRACE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="After SIGTERM, wait so long for clients that hold a lock.",
)
@click.option(
    "--with-stdin",
    is_flag=True,
    help="Stop when standard input is closed, that is when the parent process ends.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    envvar="HABEMUS_LOG_FORMAT",
    help="Lines of text or of JSON on stderr.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log connections of clients as well.")
@json_option
def node(
    file: Path,
    number: int,
    grace: float,
    replace: bool,
    joins: bool,
    with_stdin: bool,
    log_format: str,
    verbose: bool,
    as_json: bool,
    **flags: Any,
) -> int:
    """Run one node of a cluster until SIGTERM or Ctrl-C.

    A stopping node accepts no new requests, redirects waiting clients to other nodes, and waits for
    clients that hold a lock (--grace).  A second signal stops it at once.  SIGHUP makes it read its
    certificates again, for new connections.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a node outlives its terminal
    with live():
        from habemus.deployment.services import all_services
        from habemus.runtimes.live.monitoring.logs import configure

        formatter = configure(log_format, number, logging.DEBUG if verbose else logging.INFO)
        from habemus.runtimes.live.config import load
        from habemus.runtimes.live.sockets import raise_descriptor_limit

        raise_descriptor_limit()
        given = {
            name: (
                str(Path(value).absolute())
                if name in ("data", "secret_file", "record") and value
                else value
            )
            for name, value in flags.items()
        }
        config = load(file, os.environ, given)
        services = all_services(config, joins=joins)
        settings = dataclasses.replace(config.settings(number, joins=joins), replace=replace)
        if settings.metrics is not None:
            import habemus.runtimes.live.monitoring.metrics  # noqa: F401  # is it installed?
    with_credentials = partial(config.contexts_of, number)
    return runner()(
        _run(settings, services, as_json, with_stdin, grace, formatter, with_credentials)
    )


async def _run(
    settings: Settings,
    services: list[Service],
    as_json: bool,
    with_stdin: bool = False,
    grace: float = GRACE_SECONDS,
    formatter: LogFormatter | None = None,
    read_certificates: Callable[[], TlsContexts | None] = lambda: None,
) -> int:
    from habemus.runtimes.live.hosting.garbage import without_full_collections
    from habemus.runtimes.live.hosting.node import Node
    from habemus.runtimes.live.storage.log import StorageFailed

    here = Node(settings, services)
    if formatter is not None:
        formatter.term = here.term
    try:
        await here.start()
    except StorageFailed as reason:
        raise click.ClickException(str(reason)) from None
    except OSError as reason:
        what = os.strerror(reason.errno) if reason.errno else str(reason)
        place = (
            f"cannot use {reason.filename}"
            if reason.filename
            else f"cannot listen on {settings.bind}"
            + (f" and {settings.metrics}" if settings.metrics else "")
        )
        raise click.ClickException(f"{place}: {what}") from None
    _reload_on_signal(here, read_certificates)
    with without_full_collections():
        return await _serve(here, as_json, with_stdin, grace)


def _reload_on_signal(here: Node, read_certificates: Callable[[], TlsContexts | None]) -> None:
    """Read the certificates again when SIGHUP arrives; keep the old ones if that fails."""
    from habemus.runtimes.live.monitoring.service_manager import ServiceManager

    manager = ServiceManager(os.environ)

    def reload() -> None:
        manager.reloading()
        try:
            tls = read_certificates()
        except (OSError, ValueError) as reason:
            log.error("kept the old certificates: %s", reason)  # noqa: TRY400  # one line
        else:
            if tls is None:
                log.info("nothing to reload: this cluster has no certificates")
            else:
                here.use_certificates(tls)
                log.info("read the certificates again; new connections use them")
        manager.notify(READY=1)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


async def _serve(here: Node, as_json: bool, with_stdin: bool, grace: float) -> int:
    """Run a node that has started, until a signal, the end of the parent or a failure."""
    from habemus.runtimes.compiled import is_compiled
    from habemus.runtimes.live.hosting.garbage import collect_while_few
    from habemus.runtimes.live.monitoring.service_manager import ServiceManager

    settings = here.settings
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    collecting = loop.create_task(collect_while_few(lambda: len(here.instances())))

    def end() -> None:
        if stopping.is_set():
            here.hurry()
        stopping.set()

    def end_with_parent() -> None:
        if not os.read(0, 4_096):
            loop.remove_reader(0)
            here.hurry()
            stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    if with_stdin:
        loop.add_reader(0, end_with_parent)
    if as_json:
        say_json(
            {
                "node": here.me,
                "address": str(here.address),
                "pid": os.getpid(),
                "compiled": is_compiled(),
                **({"metrics": str(here.metrics_address)} if here.metrics_address else {}),
            }
        )
    else:
        click.echo(f"node {here.me} of {settings.cluster} listens on {here.address}", err=True)
    if settings.folder is None:
        click.echo(f"habemus: {FORGETFUL}", err=True)
    manager = ServiceManager(os.environ)
    manager.notify(READY=1, STATUS=f"node {here.me} listens on {here.address}")
    watchdog = loop.create_task(manager.feed_watchdog())
    ending = loop.create_task(stopping.wait())
    removed = loop.create_task(here.removed.wait())
    await asyncio.wait((ending, removed, here.failure), return_when=asyncio.FIRST_COMPLETED)
    manager.notify(STOPPING=1)
    ending.cancel()
    removed.cancel()
    collecting.cancel()
    failed = here.failure.exception() if here.failure.done() else None
    await here.stop(grace)
    watchdog.cancel()
    if failed is not None:
        click.echo(f"habemus: {failed}", err=True)
        return Exit.FAILED
    if here.removal:
        click.echo(f"habemus: {here.removal}; its data is of no use any more", err=True)
        return Exit.OK if here.left_orderly else Exit.FAILED
    return Exit.OK
