"""Stable memory that another version has written.

An entry is the list of the durable variables of a process.  Beside the entries, the memory has the
names of these variables.  If they are not those of this version, the entries are converted when the
node starts, all of a process in one batch: a variable that was added gets its initial value.  A
variable that this version does not know was stored by a later one.  It may be a promise to other
nodes, so it is not dropped: the node does not start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from habemus.core.node import PureNode
from habemus.core.process import ProcessId
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.storage.log import CorruptStorage, Entry, StableMemory

log = logging.getLogger("habemus.live")


def convert_entries(memory: StableMemory, services: Iterable[Service], node: int) -> None:
    """Convert what another version has stored; raise `CorruptStorage` if that is a later one."""
    for service in services:
        for process in service.at(node):
            names, stored = service.stable[process].names, memory.variables(service.name, process)
            if names == stored or not (names or stored):
                continue
            entries: list[Entry] = []
            if stored is not None:
                entries = _converted(memory, service, process, stored)
                log.info(
                    "converted %d entries of service %s, stored by an earlier version",
                    len(entries),
                    service.name,
                )
            memory.name_variables(service.name, process, names, entries)


def _converted(
    memory: StableMemory, service: Service, process: ProcessId, names: list[str]
) -> list[Entry]:
    stable = service.stable[process]
    unknown = [name for name in names if name not in stable.names]
    if unknown:
        raise CorruptStorage(
            f"stable memory of {service.name} does not fit its algorithm and options: it has"
            f" {', '.join(unknown)}; restore the earlier configuration, or start the later version"
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
