"""Conversion of stable memory to the durable variables that a process has now.

An entry is the list of the durable variables of a process.  Beside the entries, the memory has the
names of these variables.  If the process has others now, the entries are converted when the node
starts, all of a process in one batch: a variable that was added gets its initial value.  A variable
that the process does not have may be a promise to other nodes, so it is not dropped: the node does
not start.

A cluster with fixed members becomes one whose members change in the same way (`Service.continues`):
what its nodes have promised stays, and its nodes are the first members.  Nodes of the two refuse
each other, so for those that have changed the others are cut off.  The file must have the nodes
that this one knows: otherwise two nodes might begin with different members.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

import msgspec

from habemus.core.node import PureNode
from habemus.core.process import ProcessId
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.storage.batches import Entry
from habemus.runtimes.live.storage.log import CorruptStorage, StableMemory

log = logging.getLogger("habemus.live")


def convert_entries(
    memory: StableMemory, services: Iterable[Service], node: int, peers: Collection[int]
) -> None:
    """Convert the entries of all processes; raise `CorruptStorage` if they have unknown variables.

    peers: the other nodes in the file.
    """
    for service in services:
        for process in service.at(node):
            names, stored = service.stable[process].names, memory.variables(service.name, process)
            if names == stored or not (names or stored):
                continue
            entries: list[Entry] = []
            if stored is not None:
                renamed = [_renamed(name, service) for name in stored]
                if renamed != stored:
                    _check_nodes(memory, node, peers)
                entries = _converted(memory, service, process, renamed)
                log.info(
                    "converted %d entries of service %s to durable variables that were added%s",
                    len(entries),
                    service.name,
                    ", or to members that change" if renamed != stored else "",
                )
            memory.name_variables(service.name, process, names, entries)


def _renamed(variable: str, service: Service) -> str:
    """Return the name of a durable variable in the class that takes the place of the stored one."""
    path, _, rest = variable.rpartition(":")
    kind, _, name = rest.partition(".")
    return f"{path}:{service.continues.get(kind, kind)}.{name}"


def _check_nodes(memory: StableMemory, node: int, peers: Collection[int]) -> None:
    if set(memory.known) != set(peers):
        listed = ", ".join(map(str, sorted({node, *memory.known})))
        raise CorruptStorage(
            f"[nodes] of the cluster.toml was changed together with the algorithm: this cluster has"
            f" nodes {listed}; undo that, and change the members afterwards by `habemus member`"
        )


def _converted(
    memory: StableMemory, service: Service, process: ProcessId, names: list[str]
) -> list[Entry]:
    stable = service.stable[process]
    unknown = [name for name in names if name not in stable.names]
    if unknown:
        raise CorruptStorage(
            f"stable memory of {service.name} does not fit its algorithm and options: it has"
            f" {', '.join(unknown)}; restore the earlier configuration, or start the release"
            " that has stored it"
        )
    made = PureNode(service.stacks[process], process, (), lambda options: options[0])
    found: list[Entry] = []
    start = f"{service.name}/{process}/"
    for key, value in memory.table.items():
        if key.startswith(start):
            made.restore(stable.state(msgspec.msgpack.decode(value), names))
            found.append((key, msgspec.msgpack.encode(stable.plain(made.parts))))
    return found
