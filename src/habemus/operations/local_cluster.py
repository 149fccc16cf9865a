"""A cluster of node processes on this machine, in a folder of its own: what `habemus up` runs.

The folder has the cluster.toml, the secret, sockets, logs, stable memory and records.  Only its
user can read it.  Other users of the machine could reach the ports of the nodes, so the nodes
require the secret.  Nodes end with the process that started them, even if it was killed: they
notice the end of their standard input.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from habemus.client.address import NodeAddress
from habemus.client.connection import NodeConnection
from habemus.client.credentials import Credentials
from habemus.client.errors import RefusedByNode, Unreachable
from habemus.client.session import own_label
from habemus.deployment.services import GROWING, all_services
from habemus.operations.node_survey import ClusterSurvey, NodeClient
from habemus.runtimes.live.cluster_file import BadConfig
from habemus.runtimes.live.config import (
    OVERRIDES,
    Config,
    ServiceConfig,
    load,
    secret_in,
)
from habemus.runtimes.live.default_cluster import SECRET, SOCKET, check_own, last_file
from habemus.runtimes.live.hosting.service import Service

PORTS = range(15_000, 32_000)
"""The range of ports for nodes.  It is below the ports of outgoing connections: a node that dials
the port of a peer that is not up yet could otherwise get that very port, and reach itself.
"""
STOP_SECONDS = 10.0
STATE = ("data", "records", "logs")
"""Folders of an earlier cluster that --fresh deletes."""
FRESH_DELETES = "--fresh deletes its data, records and logs"
SERVICES = {"mutex": "locks", "election": "elections", "detector": "detectors"}


def file_of(
    ports: Iterable[int],
    offers: Mapping[str, ServiceConfig],
    *,
    keeps: bool,
    records: bool,
    semaphores: Mapping[str, int] | None = None,
) -> str:
    """Return the text of the cluster.toml."""
    lines = [
        (
            "# `habemus up` overwrites this file.  For a cluster of your own, copy and edit it,"
            " check it with"
        ),
        (
            "# `habemus config check`, and start each node with `habemus node --config"
            " cluster.toml --id 1`."
        ),
        'cluster = "habemus"',
        f'socket = "node-{{id}}{SOCKET}"  # local socket of each node, for clients of this user',
        f'secret_file = "{SECRET}"  # network clients have to know it',
        (
            'data = "data"  # the stable memory of the nodes'
            if keeps
            else 'memory = "none"  # a node that restarts has lost its state'
        ),
        *(
            ['record = "records"  # what the nodes do, for `habemus trace merge`']
            if records
            else []
        ),
        "",
        "[nodes]",
        *(f'{number} = "127.0.0.1:{port}"' for number, port in enumerate(ports, 1)),
    ]
    if semaphores:
        lines += ["", "[semaphores]"]
        lines += [
            f"{json.dumps(name, ensure_ascii=False)} = {size}" for name, size in semaphores.items()
        ]
    for service, offer in offers.items():
        options = (option.partition("=") for option in offer.options)
        lines += ["", f"[services.{service}]", f"algorithm = {json.dumps(offer.algorithm)}"]
        lines += [f"over = {json.dumps(offer.over)}  # links that retransmit"] if offer.over else []
        lines += [f"[services.{service}.options]"] if offer.options else []
        lines += [
            f"{name} = {json.dumps(value) if equals else 'true'}" for name, equals, value in options
        ]
    return "\n".join(lines) + "\n"


def free_ports(count: int) -> list[int]:
    """Return free ports, drawn at random."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if len(found) == count:
            return found
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    raise click.ClickException(
        f"{count} free ports are needed, and {len(found)} were found between {PORTS[0]} and"
        f" {PORTS[-1]}"
    )


@contextmanager
def occupied(folder: Path) -> Iterator[None]:
    """Reserve the folder for one cluster."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_own(str(folder))
        lock = os.open(
            folder / "up.lock", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
    except ValueError as reason:
        raise click.ClickException(str(reason)) from None
    except OSError as reason:
        raise click.ClickException(f"{reason.filename}: {reason.strerror}") from None
    with os.fdopen(lock, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise click.ClickException(
                f"a cluster is already up in {folder}; stop it first, or choose another --folder"
            ) from None
        for path in sorted(folder.glob(f"*{SOCKET}")):
            if _is_answered(path):
                raise click.ClickException(
                    f"a node is already up in {folder} ({path.name}); stop it first, or choose"
                    " another --folder"
                )
        yield


def _is_answered(path: Path) -> bool:
    try:
        NodeConnection(NodeAddress(str(path)), Credentials(), own_label()).close()
    except (Unreachable, RefusedByNode):
        return False
    return True


def earlier_cluster(folder: Path) -> Config | None:
    """Return the cluster whose stable memory is in the folder; None if there is none."""
    if not any((folder / "data").glob("*")):
        return None
    try:
        return load(folder / "cluster.toml", {}, {})
    except BadConfig:
        return None


def prepare(folder: Path, text: str, *, fresh: bool) -> tuple[Config, list[Service]]:
    """Write the cluster.toml; refuse if it is invalid, or if the folder has the stable memory of
    another cluster.
    """
    path = folder / "cluster.toml"
    draft = path.with_suffix(".new")
    draft.write_text(text, encoding="utf-8")
    _make_secret(folder / SECRET)
    try:
        config = load(draft, {}, {})
        services = all_services(config)
        if fresh:
            for name in STATE:
                shutil.rmtree(folder / name, ignore_errors=True)
        elif any((folder / "data").glob("*")) and not _is_alike(earlier_cluster(folder), config):
            raise click.ClickException(
                f"{folder} has the stable memory of a cluster with other nodes or another"
                f" algorithm; {FRESH_DELETES}, or choose another --folder"
            )
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    if config.data is not None:
        config.data.mkdir(exist_ok=True)
    (folder / "logs").mkdir(exist_ok=True)
    return config, services


def _make_secret(path: Path) -> None:
    """Write a secret for the cluster, unless it has one that no other user can read."""
    if path.exists() and not path.stat().st_mode & 0o077:
        return
    path.unlink(missing_ok=True)
    made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(made, "w") as file:
        file.write(f"{secrets.token_hex(32)}\n")


def _is_alike(old: Config | None, config: Config) -> bool:
    """Return whether the stable memory of an earlier cluster is of use for this one."""
    if old is None or len(old.nodes) != len(config.nodes):
        return False
    growing = {
        name: each._replace(algorithm=GROWING.get(each.algorithm, each.algorithm))
        for name, each in old.services.items()
    }
    return config.services in (old.services, growing)


def remember(folder: Path) -> None:
    """Make a folder the default for commands that name no cluster."""
    file = Path(last_file())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{folder}\n", encoding="utf-8")


class LocalNode:
    """A node process of this machine."""

    def __init__(self, config: Config, file: Path, number: int) -> None:
        self.number = number
        self.address = config.nodes[number]
        self.socket = config.socket_of(number)
        self.log = file.parent / "logs" / f"node-{number}.log"
        self._command = [
            sys.executable,
            "-m",
            "habemus",
            "node",
            "--config",
            str(file),
            "--id",
            str(number),
            "--with-stdin",
        ]
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        """Start the process."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in {f"HABEMUS_{each.upper()}" for each in OVERRIDES}
        }
        with self.log.open("ab") as log:
            self._written = log.tell()
            self.process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def last_words(self) -> str:
        """Return how the process ended, with the last line of its log."""
        code = self.process.returncode
        how = f"killed by signal {-code}" if code < 0 else f"ended with code {code}"
        with self.log.open("rb") as log:
            log.seek(self._written)
            said = log.read().decode(errors="replace").strip().splitlines()
        return f"{how}: {said[-1].removeprefix('habemus: ')}" if said and code > 0 else how


class LocalCluster:
    """The node processes of a cluster on this machine."""

    def __init__(self, config: Config, file: Path) -> None:
        self.nodes = {number: LocalNode(config, file, number) for number in config.nodes}
        credentials = Credentials(
            None if config.secret_file is None else secret_in(config.secret_file)
        )
        self.survey = ClusterSurvey(
            {
                number: NodeClient(NodeAddress("", *each.address), credentials, str(each.address))
                for number, each in self.nodes.items()
            },
            credentials,
        )

    def ended(self) -> list[LocalNode]:
        """Return the nodes that have ended."""
        return [node for node in self.nodes.values() if node.process.poll() is not None]

    def stop(self) -> list[int]:
        """Stop all nodes; return the numbers of those that had to be killed."""
        self.survey.close()
        for node in self.nodes.values():
            assert node.process.stdin is not None
            node.process.stdin.close()  # all at once: clients cannot move to another node
        killed = []
        for node in self.nodes.values():
            try:
                node.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                node.process.kill()
                node.process.wait()
                killed.append(node.number)
            if node.socket is not None:
                node.socket.unlink(missing_ok=True)
        return killed
