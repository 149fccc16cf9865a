"""A trace: the events of one run, its identity, and the findings of the monitors."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from habemus.core.events import KINDS, Event, lines
from habemus.core.process import ProcessId
from habemus.core.properties import Finding, Verdict
from habemus.core.words import counted

CHUNK = 2_000
"""Events between two updates of the hash: one long update costs far less than many short ones."""


class TooLargeToDraw(ValueError):
    """More events than a picture can show."""


@dataclass(frozen=True, repr=False)
class Trace:
    """One run.

    run: what identifies the run (algorithm, size, seed, ...), as opaque JSON.
    processes: the processes, in the order in which pictures show them.
    labels: names of processes for tables and pictures; the default is the number.
    events: the events, in an order that respects cause and effect.
    findings: the verdicts on the properties.
    title: the title of pictures.
    not_claimed: names of the properties whose violation does not count.
    """

    run: Mapping[str, Any]
    processes: tuple[ProcessId, ...]
    labels: Mapping[ProcessId, str]
    events: tuple[Event, ...]
    findings: tuple[Finding, ...] = ()
    title: str = ""
    not_claimed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = frozenset(self.processes)
        if len(known) != len(self.processes):
            raise ValueError("a process occurs twice among the processes of the trace")
        for process in self.labels:
            if process not in known:
                raise ValueError(
                    f"there is a label for {process}, which is not a process of the trace"
                )
        for finding in self.findings:
            if not known.issuperset(finding.processes):
                raise ValueError(f"{finding.name} names a process that is not one of the trace")
        for position, event in enumerate(self.events, start=1):
            wrong = mistake_in(event, known)
            if wrong:
                raise ValueError(f"event {position}: {wrong}")

    def __repr__(self) -> str:
        counts = (
            f"{counted(len(self.processes), 'process', 'processes')},"
            f" {counted(len(self.events), 'event')}"
        )
        return f"<Trace {self.title!r}: {counts}>" if self.title else f"<Trace: {counts}>"

    def label(self, process: ProcessId) -> str:
        """Return the name of a process for tables and pictures."""
        return self.labels.get(process, str(process))

    def save(self, path: Path | str) -> None:
        """Save the trace in the format of the suffix: .svg, .png, .md, .mmd (Mermaid), .json or
        .jsonl (to load it again), .shiviz, .perfetto or .perfetto.json.
        """
        from habemus.traces.export import save  # slow to import, and rarely needed

        save(self, path)

    def _repr_svg_(self) -> str:
        """Return the space-time diagram, for notebooks."""
        from habemus.traces.diagram import svg

        return svg(self)

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The violations that count: pictures mark them."""
        return tuple(
            finding
            for finding in self.findings
            if finding.verdict is Verdict.VIOLATED and finding.name not in self.not_claimed
        )


def mistake_in(event: Event, processes: Collection[ProcessId]) -> str:
    """Return the reason why an event cannot be in a trace of these processes, or nothing."""
    if event.process not in processes:
        return f"{event.process} is not a process of the trace"
    if event.peer is not None and event.peer not in processes:
        return f"the peer {event.peer} is not a process of the trace"
    if event.kind not in _KINDS:
        return f"unknown kind {event.kind!r}"
    if event.clock is not None and len(event.clock) != len(processes):
        return f"the vector clock has {len(event.clock)} entries for {len(processes)} processes"
    return ""


_KINDS = frozenset(KINDS)


class Digest:
    """SHA-256 over the canonical lines of events, which are added one by one."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._pending: list[Event] = []

    def add(self, event: Event) -> None:
        self._pending.append(event)
        if len(self._pending) == CHUNK:
            self._flush()

    def hexdigest(self) -> str:
        """Return the digest of the events so far; more may follow."""
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        if self._pending:
            # Events are hashed in batches, because `lines` encodes a broadcast message only once.
            self._hash.update(("\n".join(lines(iter(self._pending))) + "\n").encode("ascii"))
            self._pending.clear()


def digest(events: Iterable[Event]) -> str:
    """Return the SHA-256 over the canonical lines of the events, each with its line end, as hex."""
    result = Digest()
    for event in events:
        result.add(event)
    return result.hexdigest()
