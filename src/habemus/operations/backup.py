"""Backups of a cluster, and new clusters that continue one.

A fencing token begins with a term, so tokens do not fall if terms do not.  A backup is the largest
term of the cluster.  A restored cluster begins `JUMP` terms later: beyond all terms that the old
cluster can have reached after the backup.  Locks are not part of a backup: after a restore all are
free, and the token of an earlier holder is smaller than every new one.

A restored memory has a new identity, so nodes of the old cluster refuse its node, and it takes part
when all nodes of the new cluster have met (`peers.membership`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from habemus.algorithms.election.terms import Terms
from habemus.core.node import PureNode
from habemus.deployment.services import SHARED, all_services
from habemus.operations.cluster_view import ClusterView
from habemus.runtimes.live.config import Config
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.peers.codec import LARGEST_TERM
from habemus.runtimes.live.storage.batches import Entry
from habemus.runtimes.live.storage.log import FILE, StableMemory

FORMAT = 1
JUMP = 1 << 22
"""Terms between a backup and the cluster that continues it: more than elections in a week that come
one after the other.
"""
SIZE_LIMIT = 1 << 20


class BadBackup(ValueError):
    """A backup that cannot be made, read or restored; the message is one line."""


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    habemus_backup: int  # the format
    cluster: str
    taken: str
    term: int
    elections: list[tuple[str, str]]


@dataclass(frozen=True)
class Backup:
    """The largest term of a cluster, and its elections by service and name."""

    cluster: str
    taken: str
    term: int
    elections: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, seen: ClusterView) -> Backup:
        """Return the backup of a cluster that has elected its leaders."""
        elections = [each for each in seen.elections if each.term > 0]
        if not elections:
            raise BadBackup(
                f"cluster {seen.cluster} has no election by terms, so there is nothing to continue"
                " tokens from"
            )
        for each in elections:
            if each.leader is None:
                raise BadBackup(
                    f"election {each.service}/{each.name} has no leader; repeat the backup when"
                    " `habemus status` shows one"
                )
        return cls(
            seen.cluster,
            datetime.now(UTC).isoformat(timespec="seconds"),
            max(each.term for each in elections),
            tuple(sorted((each.service, each.name) for each in elections)),
        )

    def plain(self) -> dict[str, object]:
        return {
            "habemus_backup": FORMAT,
            "cluster": self.cluster,
            "taken": self.taken,
            "term": self.term,
            "elections": [list(each) for each in self.elections],
        }

    def write(self, path: Path) -> None:
        """Write the file as a whole, in the place of an older one."""
        new = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with new.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(self.plain())) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        except OSError as reason:
            new.unlink(missing_ok=True)
            raise BadBackup(f"cannot write {path}: {reason.strerror}") from None

    @classmethod
    def read(cls, path: Path) -> Backup:
        try:
            with path.open("rb") as file:
                content = file.read(SIZE_LIMIT)
            found = msgspec.json.decode(content, type=_Document)
        except OSError as reason:
            raise BadBackup(f"cannot read {path}: {reason.strerror}") from None
        except msgspec.DecodeError as reason:
            raise BadBackup(f"{path} is not a backup of habemus: {reason}") from None
        if found.habemus_backup != FORMAT:
            raise BadBackup(
                f"{path} has format {found.habemus_backup}, and this version reads {FORMAT}; use"
                " the version that wrote it, or a newer one"
            )
        if not 0 < found.term <= LARGEST_TERM - 2 * JUMP:
            raise BadBackup(f"{path}: term {found.term} is not from 1 to {LARGEST_TERM - 2 * JUMP}")
        return cls(found.cluster, found.taken, found.term, tuple(found.elections))

    @property
    def first_term(self) -> int:
        """The term from which a restored cluster counts on."""
        return self.term + JUMP


def restore(backup: Backup, config: Config, nodes: Iterable[int]) -> list[Path]:
    """Write the memories of nodes of a new cluster.  Return their folders."""
    if config.cluster != backup.cluster:
        raise BadBackup(
            f"the backup is of cluster {backup.cluster!r}, and {config.file} names"
            f" {config.cluster!r}"
        )
    services = all_services(config)
    instances = list(_instances(backup, services))
    folders = {node: _folder(config, node) for node in nodes}
    for folder in folders.values():
        if (folder / FILE).exists():
            raise BadBackup(
                f"{folder} has a memory already; a restored node begins with an empty folder: move"
                " the old one away"
            )
    for node, folder in folders.items():
        memory = StableMemory(folder, f"{config.cluster}/{node}")
        try:
            memory.commit(
                [
                    entry
                    for service, name in instances
                    for entry in _entries(service, name, node, backup.first_term)
                ]
            )
        finally:
            memory.close()
    return list(folders.values())


def _folder(config: Config, node: int) -> Path:
    folder = config.settings(node).folder
    if folder is None:
        raise BadBackup(f"{config.file} has no data folder, so there is nothing to restore into")
    return folder


def _instances(backup: Backup, services: list[Service]) -> Iterator[tuple[Service, str]]:
    """Yield the elections to write."""
    for service in services:
        top = next(iter(service.system.plans.values()))
        if isinstance(top, Terms):
            names = {name for of, name in backup.elections if of == service.name} | {SHARED}
            yield from ((service, name) for name in sorted(names))
        elif service.feed is None:
            raise BadBackup(
                f"service {service.name}: its tokens do not begin with the term of a shared"
                " election, so a restored cluster could not continue them"
            )


def _entries(service: Service, name: str, node: int, term: int) -> Iterator[Entry]:
    for me in service.at(node):
        neighbours = service.system.topology.neighbours[me]
        made = PureNode(service.stacks[me], me, neighbours, lambda options: options[0])
        top = made.parts[0]
        assert isinstance(top, Terms)
        top.term, top.voted_for = term, me
        stored = msgspec.msgpack.encode(service.stable[me].plain(made.parts))
        yield f"{service.name}/{me}/{name}", stored
