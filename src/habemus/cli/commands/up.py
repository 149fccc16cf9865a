"""`habemus up`: run a cluster of node processes on this machine."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from habemus.cli.commands.node import live
from habemus.cli.commands.status import LOCK_HEADS, lock_row, node_row
from habemus.cli.output import Exit, json_option, option_option, say_json
from habemus.core.words import counted
from habemus.deployment.services import LINKS, RAW, SHARED
from habemus.operations.cluster_view import ClusterView, changes
from habemus.runtimes.live.default_cluster import FOLDER
from habemus.supervise.locked_command import NOT_EXECUTABLE, NOT_FOUND, UNREACHABLE

if TYPE_CHECKING:
    from habemus.operations.local_cluster import LocalCluster, LocalNode
    from habemus.problems.election import Election
    from habemus.runtimes.live.config import Config, ServiceConfig

SIZE = 3
LOOK_SECONDS = 0.5
READY_SECONDS = 60.0
RESTART_SECONDS = 1.0
ELECTION_SECONDS = 5.0


@click.command(
    epilog="Example: habemus up -n 3 -- ./my-tests.sh",
    context_settings={"allow_interspersed_args": False},  # options end at COMMAND
)
@click.option(
    "-n",
    "size",
    type=click.IntRange(1, 100),
    help="Number of nodes.  [default: 3, or the present members of the cluster in the folder]",
)
@click.option(
    "--algorithm",
    help=(
        "Algorithm of the locks (see `habemus algorithms`), or an election or a detector."
        "  [default: elected-coordinator-leased-members; with --record or --no-data:"
        " elected-coordinator-leased]"
    ),
)
@option_option
@click.option(
    "--over",
    type=click.Choice([*LINKS, RAW]),
    help=(
        "Run every process over links that retransmit, or over none.  [default: those that the"
        " algorithm needs]"
    ),
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(FOLDER),
    show_default=True,
    help="Folder of the cluster: configuration, data, logs, sockets.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65_000),
    metavar="BASE",
    help="Port of the first node; the others follow.  [default: free ports]",
)
@click.option(
    "--no-data",
    is_flag=True,
    help="Keep no stable memory: a node that restarts has lost its state.",
)
@click.option(
    "--record",
    is_flag=True,
    help="Record the events of all nodes, for `habemus trace merge`.",
)
@click.option(
    "--semaphore",
    "semaphores",
    multiple=True,
    metavar="NAME=SIZE",
    help="Declare a semaphore, for `Cluster.semaphore`.",
)
@click.option("--fresh", is_flag=True, help="Delete the state of an earlier cluster in the folder.")
@click.option("--restart", is_flag=True, help="Restart a node that has ended.")
@json_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def up(
    folder: Path, command: tuple[str, ...], restart: bool, as_json: bool, fresh: bool, **given: Any
) -> int:
    """Start a cluster of node processes on this machine and show its state until Ctrl-C.

    Ctrl-C stops the nodes, which is an orderly end: exit code 0.  Their state stays in the folder.

    With COMMAND: run it when the cluster is ready, with HABEMUS_CLUSTER set, then stop the cluster
    and exit with COMMAND's exit code.
    """
    if command and as_json:
        raise click.UsageError("--json and COMMAND exclude each other: both write to stdout")
    with live():
        from habemus.operations.local_cluster import occupied

        folder = folder.absolute()
        with occupied(folder):
            config = (None if fresh else _as_left(folder, given)) or _configured(
                folder, fresh=fresh, **given
            )
            if not command:  # with a command, the cluster ends before another client could use it
                _remember(folder)
            return _Run(config, folder, list(command), restart, as_json).run()


def _remember(folder: Path) -> None:
    from habemus.operations.local_cluster import remember

    try:
        remember(folder)
    except OSError as error:  # a home that is missing or read-only
        click.echo(
            f"habemus: {error.filename}: {error.strerror};"
            f" commands in other folders need --cluster {folder}",
            err=True,
        )


def _as_left(folder: Path, given: dict[str, Any]) -> Config | None:
    """Return the cluster in the folder if `habemus member` has changed it: its file stays."""
    from habemus.operations.local_cluster import FRESH_DELETES, earlier_cluster

    found = earlier_cluster(folder)
    if found is None or found.written_version is None:
        return None
    if given["size"] == len(found.nodes):
        given["size"] = None
    if any(given.values()):
        raise click.ClickException(
            f"the members of the cluster in {folder} were changed by `habemus member`, and it has"
            f" nodes {', '.join(map(str, found.nodes))}: start it without other options;"
            f" {FRESH_DELETES}, or choose another --folder"
        )
    return found


def _configured(
    folder: Path,
    size: int | None,
    algorithm: str | None,
    options: tuple[str, ...],
    over: str | None,
    port: int | None,
    no_data: bool,
    record: bool,
    semaphores: tuple[str, ...],
    fresh: bool,
) -> Config:
    from habemus.deployment.services import warnings_of
    from habemus.operations.local_cluster import earlier_cluster, file_of, free_ports, prepare

    size = size or SIZE
    if algorithm is None:
        earlier = None if fresh else earlier_cluster(folder)
        algorithm = _default_algorithm(earlier, fixed=no_data or record)
    offers = _offers(algorithm, options, over)
    ports = free_ports(size) if port is None else list(range(port, port + size))
    sizes = dict(map(_size_of, semaphores))
    text = file_of(ports, offers, keeps=not no_data, records=record, semaphores=sizes)
    config, services = prepare(folder, text, fresh=fresh)
    if size < 3:
        click.echo(
            f"habemus: a cluster of {size} tolerates no failure: without one node there is no"
            " majority; use 3 nodes or more",
            err=True,
        )
    for name, offer in offers.items():
        durable = any(
            stack.durable
            for service in services
            if service.name == name
            for stack in service.stacks.values()
        )
        for warning in warnings_of(offer.algorithm, offer.over, durable, not no_data):
            click.echo(f"habemus: {warning}", err=True)
    return config


def _size_of(semaphore: str) -> tuple[str, int]:
    from habemus.runtimes.live.clients.protocol import NAMES_LIMIT

    name, _, size = semaphore.rpartition("=")
    is_size = size.isascii() and size.isdecimal() and len(size) <= 4
    if not name or not is_size or not 1 <= int(size) <= NAMES_LIMIT:
        raise click.UsageError(
            f"--semaphore {semaphore!r}: write NAME=SIZE, such as printers=3, of 1 to"
            f" {NAMES_LIMIT} places"
        )
    return name, int(size)


def _default_algorithm(earlier: Config | None, *, fixed: bool) -> str:
    """Return the algorithm of the locks: an earlier cluster keeps its own."""
    from habemus.runtimes.live.clients.protocol import LOCKS
    from habemus.runtimes.live.config import DEFAULT_ALGORITHM, FIXED_ALGORITHM

    offer = None if earlier is None else earlier.services.get(LOCKS)
    is_fixed = fixed or (offer is not None and offer.algorithm == FIXED_ALGORITHM)
    return FIXED_ALGORITHM if is_fixed else DEFAULT_ALGORITHM


def _offers(algorithm: str, options: tuple[str, ...], over: str | None) -> dict[str, ServiceConfig]:
    from habemus.catalog.entries import find
    from habemus.deployment.services import links_for, live_options
    from habemus.operations.local_cluster import SERVICES
    from habemus.runtimes.live.config import ServiceConfig

    entry = find(algorithm)
    return {
        SERVICES[entry.problem.name]: ServiceConfig(
            algorithm, live_options(algorithm, options), links_for(entry.assumes, over)
        )
    }


def _election_of(offer: ServiceConfig) -> type[Election] | None:
    """Return the algorithm of a service that elects nodes; None for other services."""
    from habemus.catalog.entries import find
    from habemus.problems.election import Election

    algorithm = find(offer.algorithm).algorithm
    return algorithm if issubclass(algorithm, Election) else None


class _Run:
    """One run of the cluster, in the foreground."""

    def __init__(
        self, config: Config, folder: Path, command: list[str], restart: bool, as_json: bool
    ) -> None:
        self._config = config
        self._folder = folder
        self._command = command
        self._restart = restart
        self._as_json = as_json
        self._ending = False  # a signal has asked for the end
        self._seen: ClusterView | None = None
        self._ended_at: dict[int, float] = {}  # nodes that have ended, and when that was noticed

    def run(self) -> int:
        from habemus.operations.local_cluster import LocalCluster

        wakes, woken = os.pipe()
        for end in (wakes, woken):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, self._noted)
        self._wakes = wakes
        self._cluster: LocalCluster = LocalCluster(self._config, self._folder / "cluster.toml")
        try:
            return self._run()
        finally:
            if not self._command:
                self._say_end()
            killed = self._cluster.stop()
            if killed:
                self._say(
                    f"killed nodes that did not stop in time: {', '.join(map(str, killed))}",
                    err=True,
                )

    def _noted(self, number: int, frame: object) -> None:
        if number != signal.SIGCHLD:
            self._ending = True

    def _pause(self, seconds: float) -> None:
        """Wait for a time or a signal."""
        if select.select([self._wakes], [], [], max(0.0, seconds))[0]:
            os.read(self._wakes, 512)

    def _run(self) -> int:
        if not self._become_ready():
            return Exit.OK if self._ending else UNREACHABLE
        self._call_elections()
        if self._command:
            return self._run_command()
        if self._as_json:
            self._say_ready()
        elif sys.stdout.isatty():
            return self._draw()
        else:
            self._say(f"ready: {self._hint()}")
        while not self._ending and self._check_nodes():
            self._look()
            self._pause(LOOK_SECONDS)
        return Exit.OK if self._ending else Exit.FAILED

    def _become_ready(self) -> bool:
        deadline = time.monotonic() + READY_SECONDS
        while not self._ending:
            ended = self._cluster.ended()
            if ended:
                for node in ended:
                    self._say(f"node {node.number} {node.last_words()}", err=True)
                return False
            self._look(LOOK_SECONDS / 10)
            if self._seen is not None and self._seen.is_ready:
                return True
            if time.monotonic() > deadline:
                self._say(
                    f"timed out after {READY_SECONDS:.0f} s waiting for the nodes to form a"
                    " cluster;"
                    f" see {self._folder}/logs",
                    err=True,
                )
                return False
        return False

    def _call_elections(self) -> None:
        """Call the elections of the nodes once, and wait until there is a leader, but not long: not
        every algorithm elects one.
        """
        services = [
            (name, election)
            for name, offer in self._config.services.items()
            if (election := _election_of(offer)) is not None
        ]
        for name, election in services:
            callers = list(self._cluster.nodes) if election.callers == "all" else [1]
            for node in callers:
                self._cluster.survey.clients[node].ask("elect", name, SHARED)
        deadline = time.monotonic() + ELECTION_SECONDS
        while services and not self._ending and time.monotonic() < deadline:
            self._look(LOOK_SECONDS / 10)
            if self._seen is not None and self._seen.elections and self._seen.is_ready:
                return

    def _hint(self) -> str:
        if any(_election_of(offer) for offer in self._config.services.values()):
            return f"habemus elect --cluster {self._folder}"
        return f"habemus lock printer --cluster {self._folder} -- echo hello"

    # Looking.

    def _look(self, then: float = 0.0) -> None:
        seen = self._cluster.survey.look()
        if not self._command and not self._as_json and not sys.stdout.isatty():
            for change in changes(self._seen, seen):
                self._say(change)
        self._seen = seen
        if then:
            self._pause(then)

    def _say(self, line: str, *, err: bool = False) -> None:
        click.echo(f"habemus: {line}" if err else line, err=err)

    def _say_end(self) -> None:
        own = self._cluster.nodes
        stays = f"; the state stays in {self._folder}" if self._config.data else ""
        self._say(f"stopping {counted(len(own), 'node')}{stays}", err=True)
        for number in self._cluster.survey.clients:
            if number not in own:
                self._say(f"node {number} was not started here and does not stop", err=True)

    def _say_ready(self) -> None:
        assert self._seen is not None
        nodes = [
            {
                "node": node.number,
                "pid": node.process.pid,
                "address": str(node.address),
                "socket": str(node.socket),
                "log": str(node.log),
            }
            for node in self._cluster.nodes.values()
        ]
        election = self._seen.election
        leads = (
            {"leader": election.leader, "term": election.term}
            if election
            else {"leader": None, "term": None}
        )
        services = {name: offer.algorithm for name, offer in self._config.services.items()}
        say_json(
            {
                "folder": str(self._folder),
                "cluster": self._seen.cluster,
                "nodes": nodes,
                **leads,
                "services": services,
            }
        )
        sys.stdout.flush()

    def _draw(self) -> int:
        from rich.console import Console
        from rich.live import Live

        console = Console()
        with Live(console=console, auto_refresh=False, transient=True) as drawing:
            while not self._ending and self._check_nodes(
                partial(console.print, markup=False, highlight=False)
            ):
                self._look()
                assert self._seen is not None
                drawing.update(_tables(self._seen, self._hint()), refresh=True)
                self._pause(LOOK_SECONDS)
        return Exit.OK if self._ending else Exit.FAILED

    # Nodes that end.

    def _check_nodes(self, say: Callable[[str], None] | None = None) -> bool:
        """Report nodes that have ended and restart them with --restart; return False if no node is
        left.
        """
        ended = self._cluster.ended()
        for node in ended:
            if node.number not in self._ended_at:
                self._ended_at[node.number] = time.monotonic()
                line = (
                    f"node {node.number} was {node.last_words()}"
                    if node.process.returncode < 0
                    else f"node {node.number} {node.last_words()}"
                )
                (say or (lambda words: self._say(words, err=True)))(line)
            elif (
                self._restart and time.monotonic() >= self._ended_at[node.number] + RESTART_SECONDS
            ):
                self._restart_node(node)
        return self._restart or len(ended) < len(self._cluster.nodes)

    def _restart_node(self, node: LocalNode) -> None:
        del self._ended_at[node.number]
        assert node.process.stdin is not None
        node.process.stdin.close()
        node.start()

    # A command.

    def _run_command(self) -> int:
        # The folder of this `habemus` comes last in PATH.
        beside = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{Path(sys.executable).parent}"
        environment = {**os.environ, "HABEMUS_CLUSTER": str(self._folder), "PATH": beside}
        try:
            child = subprocess.Popen(self._command, env=environment)
        except FileNotFoundError:
            self._say(f"{self._command[0]}: command not found", err=True)
            return NOT_FOUND
        except OSError as reason:
            self._say(f"{self._command[0]}: {reason.strerror}", err=True)
            return NOT_EXECUTABLE
        while child.poll() is None:
            if self._ending:
                self._ending = False
                child.terminate()
            self._check_nodes()
            self._pause(LOOK_SECONDS)
        return 128 - child.returncode if child.returncode < 0 else child.returncode


def _tables(seen: ClusterView, suggestion: str) -> Any:
    """Draw the tables of nodes and locks.  Names come from clients: plain text, never markup."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    election = seen.election
    nodes = Table(
        "node",
        "address",
        "pid",
        "reaches",
        *(("leader", "term") if election else ()),
        "suspects",
        title=Text(f"{seen.cluster}: nodes"),
    )
    for node in seen.nodes:
        leads = election is not None and election.leader == node.node
        cells = node_row(node, has_leader=election is not None)
        nodes.add_row(
            *map(Text, cells), style="red" if not node.up else "bold green" if leads else None
        )
    locks = Table(*LOCK_HEADS, title="locks")
    for lock in seen.locks:
        locks.add_row(*map(Text, lock_row(lock)), style=None if lock.holder else "dim")
    hint = Text(f"{suggestion}        Ctrl-C stops the cluster", style="dim")
    return Group(nodes, locks, hint)
