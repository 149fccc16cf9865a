"""What a node has done, in the one event format.

A record is a file of JSON lines, one file for each life of a node.  Its header says which node it
is and which processes of which services live there; every other line is an event as a trace file
has it, with the instance that it belongs to in front:

    {"habemus_record":1,"cluster":"office","node":1,"life":2,"services":{"locks":{"run":{...},"processes":[...],"labels":{...},"here":[1]}}}
    {"on":"locks/printer","t":1343,"p":1,"e":"send","peer":2,"id":4294967297,"name":"Request","v":{"stamp":1}}

The number of a message is counted by its sender's node and carries the life, so sender's node and
number identify it.  It travels with the message, so the receiver writes down the same one.  That is
all that `traces.merge` needs to join the records of all nodes in an order that respects cause and
effect, and to work out the vector clocks; nothing that grows with the number of nodes is ever sent.

A step is written when its outputs leave: after what it stored is stored, and before its first
message is sent.  So what was killed in the middle has either left no trace anywhere, or stands in
the record.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from habemus.core.events import Event
from habemus.core.values import canonical
from habemus.runtimes.live.hosting.service import Service

log = logging.getLogger("habemus.live")

VERSION = 1
LIFE_BITS = 32


class NodeRecorder:
    def __init__(self, folder: Path, cluster: str, node: int, services: Sequence[Service]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.life = _last_life(folder, node) + 1
        self.path = folder / f"node-{node}-{self.life}.jsonl"
        self._count = 0
        self._is_broken = False
        self._descriptor = os.open(
            self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        self._write([canonical(_header(cluster, node, self.life, services))])

    def number(self) -> int:
        """For the next message that is sent."""
        self._count += 1
        return self.life << LIFE_BITS | self._count

    def step(self, instance: str, events: Iterable[Event]) -> None:
        """One step of a process, as a whole."""
        on = f'{{"on":{canonical(instance)},'
        self._write([on + event.line()[1:] for event in events])

    def close(self, time: int) -> None:
        """The node ends in good order; a killed one does not say so."""
        self._write([canonical({"end": time})])
        os.close(self._descriptor)

    def _write(self, lines: list[str]) -> None:
        """A record that cannot be written ends there: it is a witness, and no lock shall fail for
        want of a witness.
        """
        if self._is_broken:
            return
        rest = memoryview(("\n".join(lines) + "\n").encode("ascii"))
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as reason:
            self._is_broken = True
            log.warning("%s ends here: %s", self.path, reason.strerror)


def _last_life(folder: Path, node: int) -> int:
    names = (re.fullmatch(rf"node-{node}-(\d+)\.jsonl", file.name) for file in folder.iterdir())
    return max((int(name[1]) for name in names if name), default=0)


def _header(cluster: str, node: int, life: int, services: Sequence[Service]) -> dict[str, Any]:
    described = {
        service.name: {
            "run": service.run,
            "processes": list(service.system.topology.processes),
            "labels": {
                str(process): label for process, label in sorted(service.system.labels.items())
            },
            "here": service.at(node),
        }
        for service in services
    }
    return {
        "habemus_record": VERSION,
        "cluster": cluster,
        "node": node,
        "life": life,
        "services": described,
    }
