"""Merge the records of live nodes into one trace.

Each node has recorded the events of its processes in their order.  One more rule gives an order of
all events that respects cause and effect: a message is received after it was sent.  Among the
events that could come next, the earliest by the clock is taken.  The clocks of one machine agree,
so there the order is also that of real time.  Between machines only cause and effect count, and
times are moved forward where a receipt would otherwise come before its sending.  The vector clocks
follow from the order.

Missing events are added.  The processes of a node that was killed *crash* at the time of its last
record.  If the node was restarted, they recover then; a node without durable variables recovers
with amnesia.

The run lasts until the first node shuts down cleanly: the reaction of the others is not part of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from habemus.core.events import Event, note
from habemus.core.named_code import refuse_code
from habemus.core.process import ProcessId
from habemus.traces.file import LONGEST_LINE, MOST_EVENTS, MalformedTrace, event_of
from habemus.traces.trace import Trace, mistake_in

VERSION = 1


@dataclass(frozen=True)
class NodeRecord:
    """The record of one node in one life."""

    path: str
    cluster: str
    node: int
    life: int
    services: Mapping[str, Mapping[str, Any]]
    events: Sequence[tuple[str, Event]]  # with the instance
    end: int | None  # the time at which it shut down cleanly

    @property
    def last(self) -> int:
        """Time of the last record."""
        return self.end if self.end is not None else self.events[-1][1].time if self.events else 0


class CannotMerge(ValueError):
    """The records do not belong together, or one is missing."""


def read_record(path: Path, *, trusted: bool = False) -> NodeRecord:
    """Return the record in the file.

    trusted: the header may name Python files, else that raises `UntrustedCode`.

    Its last line may be truncated, because the node may have been killed while it wrote.
    """
    with path.open("rb") as file:
        lines = list(iter(lambda: file.readline(LONGEST_LINE + 2), b""))
    header = _plain(path, 1, lines[0]) if lines else {}
    if header.get("habemus_record") != VERSION:
        raise MalformedTrace(
            f"{path}: line 1: not a record of a node, or of another version than {VERSION}"
        )
    try:
        services: dict[str, dict[str, Any]] = {
            name: {
                "run": dict(one["run"]),
                "processes": tuple(one["processes"]),
                "labels": dict(one["labels"]),
                "here": tuple(one["here"]),
            }
            for name, one in header["services"].items()
        }
        cluster, node, life = str(header["cluster"]), int(header["node"]), int(header["life"])
    except (KeyError, TypeError, ValueError, AttributeError) as reason:
        raise MalformedTrace(
            f"{path}: line 1: the header of the record is not complete: {reason}"
        ) from None
    refuse_code([each["run"] for each in services.values()], str(path), trusted=trusted)
    events: list[tuple[str, Event]] = []
    end = None
    for number, line in enumerate(lines[1:], start=2):
        if not line.endswith(b"\n") and number == len(lines):
            break
        plain = _plain(path, number, line)
        if "end" in plain:
            end = plain["end"]
            break
        events.append(_entry(path, number, plain, services))
        if len(events) > MOST_EVENTS:
            raise MalformedTrace(f"{path}: line {number}: more than {MOST_EVENTS} events")
    return NodeRecord(
        str(path), cluster, node, life, services, events, end if type(end) is int else None
    )


def _plain(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        plain = json.loads(line)
    except (ValueError, RecursionError) as reason:
        raise MalformedTrace(f"{path}: line {number}: {' '.join(str(reason).split())}") from None
    if not isinstance(plain, dict):
        raise MalformedTrace(f"{path}: line {number}: not an object")
    return plain


def _entry(
    path: Path, number: int, plain: dict[str, Any], services: Mapping[str, Mapping[str, Any]]
) -> tuple[str, Event]:
    on = plain.pop("on", None)
    service = services.get(on.partition("/")[0]) if isinstance(on, str) else None
    if service is None:
        raise MalformedTrace(f"{path}: line {number}: the event belongs to no service of this node")
    try:
        event = event_of(number, plain)
    except MalformedTrace as reason:
        raise MalformedTrace(f"{path}: {reason}") from None
    wrong = mistake_in(event, service["processes"])
    if wrong or event.process not in service["here"]:
        raise MalformedTrace(
            f"{path}: line {number}: {wrong or f'process {event.process} does not live here'}"
        )
    return str(on), event


def instances(records: Sequence[NodeRecord]) -> dict[str, int]:
    """Return the instances in the records, with the number of their events."""
    counts: dict[str, int] = {}
    for record in records:
        for on, _ in record.events:
            counts[on] = counts.get(on, 0) + 1
    return dict(sorted(counts.items()))


def merge(records: Sequence[NodeRecord], on: str | None = None) -> Trace:
    """Return the trace of one instance, named as "service/name".

    The name may be omitted if there is only one.
    """
    _check(records)
    found = instances(records)
    if on is None and len(found) == 1:
        [on] = found
    if on is None or on not in found:
        what = (
            "the records hold no events" if not found else f"which of {', '.join(list(found)[:20])}"
        )
        raise CannotMerge(
            f"there is no {on} in these records; {what}" if on else f"say which instance: {what}"
        )
    service = records[0].services[on.partition("/")[0]]
    streams = [
        list(_lives([each for each in records if each.node == node], on))
        for node in sorted({each.node for each in records})
    ]
    ended = [max(lives, key=lambda each: each.life).end for lives in _by_node(records)]
    finish = min((end for end in ended if end is not None), default=None)
    homes = {
        process: record.node
        for record in records
        for process in record.services[on.partition("/")[0]]["here"]
    }
    ordered = [
        event for event in _in_order(streams, homes) if finish is None or event.time <= finish
    ]
    start = min(event.time for event in ordered) if ordered else 0
    events = tuple(_clocked(ordered, service["processes"], start, homes))
    until = (finish if finish is not None else max(event.time for event in ordered)) - start
    run = {**service["run"], "until": f"{max(until, events[-1].time if events else 0)}us"}
    labels = {
        process: service["labels"].get(str(process), str(process))
        for process in service["processes"]
    }
    return Trace(run, service["processes"], labels, events, (), f"{on}, live")


def _by_node(records: Sequence[NodeRecord]) -> list[list[NodeRecord]]:
    return [
        [each for each in records if each.node == node]
        for node in sorted({each.node for each in records})
    ]


def _check(records: Sequence[NodeRecord]) -> None:
    if not records:
        raise CannotMerge("there is no record to merge")
    first = records[0]
    seen: dict[tuple[int, int], str] = {}
    for record in records:
        if record.cluster != first.cluster:
            raise CannotMerge(
                f"{record.path} is of the cluster {record.cluster}, and {first.path} of"
                f" {first.cluster}"
            )
        if (record.node, record.life) in seen:
            raise CannotMerge(
                f"{record.path} and {seen[record.node, record.life]} are both life {record.life} of"
                f" node {record.node}"
            )
        seen[record.node, record.life] = record.path
        for name, service in record.services.items():
            if name in first.services and any(
                service[key] != first.services[name][key] for key in ("run", "processes")
            ):
                raise CannotMerge(f"{record.path} and {first.path} have different services {name}")


def _lives(records: list[NodeRecord], on: str) -> Iterator[Event]:
    """Return all events of the processes of one node, life after life, with crashes in between."""
    lives = sorted(records, key=lambda each: each.life)
    alive: list[ProcessId] = []
    known: set[ProcessId] = set()
    for record in lives:
        for instance, event in record.events:
            if instance != on:
                continue
            if event.kind == "start" and event.process in known:
                event = event._replace(kind="recover", value=note("amnesia"))
            if event.process not in alive:
                alive.append(event.process)
                known.add(event.process)
            yield event
        if record is not lives[-1] or record.end is None:
            yield from (Event(record.last, process, "crash") for process in alive)
            alive = []


def _in_order(streams: list[list[Event]], homes: Mapping[ProcessId, int]) -> Iterator[Event]:
    """Yield the events of all streams in causal order: a receipt follows its sending."""
    places = [0] * len(streams)
    sent: set[tuple[int, int | None]] = set()
    now = 0
    while True:
        waiting = None
        best: tuple[int, int] | None = None
        for index, stream in enumerate(streams):
            if places[index] == len(stream):
                continue
            event = stream[places[index]]
            if (
                event.kind == "receive"
                and (homes.get(event.peer or 0, -1), event.number) not in sent
            ):
                waiting = event
            elif best is None or (event.time, index) < best:
                best = (event.time, index)
        if best is None:
            if waiting is not None:
                raise CannotMerge(
                    f"process {waiting.process} received {waiting.name} from {waiting.peer}, and no"
                    f" record has its sending: the record of the node of process {waiting.peer} is"
                    " missing, or not whole"
                )
            return
        index = best[1]
        event = streams[index][places[index]]
        places[index] += 1
        if event.kind == "send":
            sent.add((homes[event.process], event.number))
        now = max(now, event.time)
        yield event._replace(time=now)


def _clocked(
    ordered: Sequence[Event],
    processes: Sequence[ProcessId],
    start: int,
    homes: Mapping[ProcessId, int],
) -> Iterator[Event]:
    """Set times from the first event on, numbers of messages in order, and vector clocks."""
    position = {process: index for index, process in enumerate(processes)}
    clocks = {process: [0] * len(processes) for process in processes}
    numbers: dict[tuple[int, int | None], tuple[int, tuple[int, ...]]] = {}
    receipts = Counter(
        (homes[event.peer or 0], event.number) for event in ordered if event.kind == "receive"
    )
    for event in ordered:
        clock = clocks[event.process]
        number = None
        if event.kind == "receive":
            number, stamp = numbers[homes[event.peer or 0], event.number]
            clock[:] = map(max, clock, stamp)
        clock[position[event.process]] += 1
        if event.kind == "send":
            number = len(numbers) + 1
            numbers[homes[event.process], event.number] = (number, tuple(clock))
        yield event._replace(time=event.time - start, number=number, clock=tuple(clock))
        if event.kind == "send":
            # A message that is received twice was retransmitted below the process, for example to
            # a node that had restarted.
            again = event._replace(
                kind="duplicate", time=event.time - start, number=number, clock=None
            )
            yield from [again] * (receipts[homes[event.process], event.number] - 1)
