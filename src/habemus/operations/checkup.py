"""The checks of `habemus doctor`: this machine, its files, and the cluster as its nodes see it.

A problem needs action; a warning will, or makes a problem more likely.  Locks never depend on the
wall clock, but certificates and the reading of logs do.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from habemus.client.errors import HabemusError
from habemus.operations.cluster_view import ClusterView, NodeStatus, cluster_view
from habemus.operations.node_survey import ClusterSurvey
from habemus.runtimes.live.certificate_dates import expiry_of
from habemus.runtimes.live.config import Config

OK, WARNING, PROBLEM = "ok", "warning", "problem"

SYNCS = 20
SLOW_SYNC_S, BAD_SYNC_S = 0.05, 0.5
"""Median of fsync above which elections may begin needlessly, and above which they will."""
LOW_SPACE, NO_SPACE = 1 << 30, 100 << 20
CLOCK_S = 1.0
EXPIRES_DAYS = 30
TIME_ERROR = 5
"""Result of adjtimex(2) for a clock that is not synchronised."""


class HealthCheck(NamedTuple):
    """The result of one check."""

    name: str
    level: str
    text: str


# This machine.


def check_machine(config: Config, node: int | None, now: datetime) -> Iterator[HealthCheck]:
    """Yield the checks of the files and the disk that a node here uses."""
    yield from check_certificates(config, node, now)
    if config.data is not None:
        yield from check_disk(config.data)
    yield from check_clock()


def check_certificates(config: Config, node: int | None, now: datetime) -> Iterator[HealthCheck]:
    """Yield the ends of the certificates that are here: of the authority and of nodes."""
    if config.tls is None:
        return
    files = {"authority": config.tls.ca}
    for each in config.nodes if node is None else [node]:
        files[f"node {each}"] = config.certificate_files(config.tls, each)[0]
    for name, path in files.items():
        if node is None and name != "authority" and not path.exists():
            continue  # each machine has the certificate of its own node only
        try:
            yield _certificate(name, path, expiry_of(path), now)
        except (OSError, ValueError) as reason:
            yield HealthCheck("certificate", PROBLEM, f"certificate of {name}: {reason}")


def _certificate(name: str, path: Path, ends: datetime, now: datetime) -> HealthCheck:
    days = (ends - now).days
    what = f"certificate of {name} ({path})"
    if ends <= now:
        return HealthCheck(
            "certificate", PROBLEM, f"{what} has expired on {ends:%Y-%m-%d}; renew it"
        )
    level = OK if days >= EXPIRES_DAYS else WARNING
    advice = "" if level == OK else ": habemus certs --renew, then SIGHUP"
    return HealthCheck(
        "certificate", level, f"{what} ends in {days} days, on {ends:%Y-%m-%d}{advice}"
    )


def check_disk(folder: Path) -> Iterator[HealthCheck]:
    """Yield free space and the duration of fsync in the folder of stable memory."""
    try:
        free = shutil.disk_usage(folder).free
        durations = sorted(_syncs(folder))
    except OSError as reason:
        yield HealthCheck("disk", PROBLEM, f"{folder}: {reason.strerror}")
        return
    level = OK if free >= LOW_SPACE else WARNING if free >= NO_SPACE else PROBLEM
    yield HealthCheck("space", level, f"{folder}: {free / 1e9:,.1f} GB free")
    usual = median(durations)
    level = OK if usual < SLOW_SYNC_S else WARNING if usual < BAD_SYNC_S else PROBLEM
    yield HealthCheck(
        "fsync",
        level,
        f"{folder}: median {usual * 1e3:.2f} ms, longest {durations[-1] * 1e3:.2f} ms of {SYNCS}",
    )


def _syncs(folder: Path) -> Iterator[float]:
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(bytes(512))
            file.flush()
            os.fsync(file.fileno())
            yield time.perf_counter() - began


def check_clock() -> Iterator[HealthCheck]:
    """Yield whether the kernel considers its clock synchronised, where it can be asked."""
    if sys.platform != "linux":
        return
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(512))
    if state == TIME_ERROR:
        text = "the clock of this machine is not synchronised: run chrony or systemd-timesyncd"
        yield HealthCheck("clock", WARNING, text)
    elif state >= 0:
        yield HealthCheck("clock", OK, "the clock of this machine is synchronised")


# The cluster.


class ClockedStatus(NamedTuple):
    """The status of a node, and by how much its clock is ahead of ours."""

    status: NodeStatus
    ahead_s: float | None = None


def ask_nodes(survey: ClusterSurvey) -> dict[int, ClockedStatus]:
    """Ask every node for its status, one after the other, so that its clock can be compared."""
    answers = {}
    for node, client in sorted(survey.clients.items()):
        try:
            client.ask("status")  # connects
            began = time.time()
            status = client.ask("status")
            middle = (began + time.time()) / 2
        except HabemusError as reason:
            answers[node] = ClockedStatus(NodeStatus(client.address, why=str(reason)))
            continue
        now_ms = status.get("now_ms")
        ahead = None if now_ms is None else now_ms / 1e3 - middle
        answers[node] = ClockedStatus(NodeStatus(client.address, status), ahead)
    return answers


def check_cluster(answers: Mapping[int, ClockedStatus]) -> Iterator[HealthCheck]:
    """Yield the checks of the nodes that answer, and of their agreement."""
    seen = cluster_view({node: answer.status for node, answer in answers.items()})
    for node in seen.nodes:
        if node.up:
            yield HealthCheck("node", OK, f"node {node.node} answers at {node.address}")
        else:
            yield HealthCheck("node", PROBLEM, f"node {node.node} at {node.address}: {node.why}")
    voting = [node for node in seen.nodes if not seen.members or node.node in seen.members.members]
    yield _quorum(sum(node.up and node.member for node in voting), len(voting))
    if seen.members is not None:
        yield HealthCheck("members", WARNING if seen.members.learners else OK, str(seen.members))
    troubles = list(seen.troubles())
    yield from (HealthCheck("peers", PROBLEM, each) for each in troubles)
    if not troubles:
        yield HealthCheck(
            "peers", OK, "all nodes that are up reach each other, with one configuration"
        )
    for election in seen.elections:
        what = f"{election.service}/{election.name}"
        if election.leader is None:
            yield HealthCheck("leader", PROBLEM, f"{what} has no leader")
        elif not election.agreed:
            yield HealthCheck(
                "leader", WARNING, f"{what}: not all nodes know that {election.leader} leads"
            )
        else:
            leads = f"node {election.leader} leads, term {election.term}"
            yield HealthCheck("leader", OK, f"{what}: {leads}")
    yield from _versions(seen)
    yield from _clocks(answers)


def _quorum(up: int, size: int) -> HealthCheck:
    spare = up - (size // 2 + 1)
    if spare < 0:
        return HealthCheck("quorum", PROBLEM, f"{up} of {size} nodes take part: no majority")
    level = OK if spare else WARNING
    return HealthCheck("quorum", level, f"{up} of {size} nodes take part; {spare} more may fail")


def _versions(seen: ClusterView) -> Iterator[HealthCheck]:
    different = seen.different_versions()
    found = [node.version for node in seen.nodes if node.up]
    if different:
        yield HealthCheck("versions", WARNING, different)
    elif found:
        yield HealthCheck("versions", OK, f"all nodes run {found[0]}")


def _clocks(answers: Mapping[int, ClockedStatus]) -> Iterator[HealthCheck]:
    known = {node: each.ahead_s for node, each in answers.items() if each.ahead_s is not None}
    wrong = {node: ahead for node, ahead in known.items() if abs(ahead) > CLOCK_S}
    for node, ahead in wrong.items():
        side = "ahead of" if ahead > 0 else "behind"
        yield HealthCheck(
            "clocks",
            WARNING,
            f"clock of node {node} is {abs(ahead):.1f} s {side} that of this machine",
        )
    if known and not wrong:
        largest = max(map(abs, known.values()))
        yield HealthCheck(
            "clocks", OK, f"clocks of all nodes are within {largest:.3f} s of this machine"
        )


def is_healthy(checks: Iterable[HealthCheck]) -> bool:
    return all(check.level != PROBLEM for check in checks)


def plain(checks: Iterable[HealthCheck]) -> dict[str, Any]:
    """Return the checks as one document."""
    listed = list(checks)
    return {
        "healthy": is_healthy(listed),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "checks": [check._asdict() for check in listed],
    }
