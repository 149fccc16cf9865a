"""The record of a node: its events, in the one event format.

A record is a file of JSON lines, one file for each life of a node.  Its header names the node, and
the processes of each service that run there.  Every other line is an event as in a trace file, with
its instance in front:

    {"habemus_record":1,"cluster":"office","node":1,"life":2,"services":
     {"locks":{"run":{...},"processes":[...],"labels":{...},"here":[1]}}}
    {"on":"locks/printer","t":1343,"p":1,"e":"send","peer":2,"id":4294967297,"name":"Request",...}

The number of a message is counted by the sender's node and contains its life, so node and number
identify the message.  It is sent with the message, and the receiver records the same number.
`traces.merge` needs nothing else to join the records of all nodes in causal order and to compute
vector clocks; nothing that grows with the number of nodes is sent.

A step is recorded when its outputs leave: after its entries were stored, and before its first
message is sent.  So a step that was cut short by a crash either had no effect on others, or is in
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
    """Writes the record of one life of a node."""

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
        """Return the number of the next message that is sent."""
        self._count += 1
        return self.life << LIFE_BITS | self._count

    def step(self, instance: str, events: Iterable[Event]) -> None:
        """Write the events of one step in one write."""
        on = f'{{"on":{canonical(instance)},'
        self._write([on + event.line()[1:] for event in events])

    def close(self, time: int) -> None:
        """Mark a clean shutdown, and close the file."""
        self._write([canonical({"end": time})])
        os.close(self._descriptor)

    def _write(self, lines: list[str]) -> None:
        """Write lines.  Recording errors stop the recording, never the node."""
        if self._is_broken:
            return
        rest = memoryview(("\n".join(lines) + "\n").encode("ascii"))
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as reason:
            self._is_broken = True
            log.warning("recording to %s stopped: %s; the node goes on", self.path, reason.strerror)


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
