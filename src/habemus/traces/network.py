"""Changes of the network: links cut, healed or slowed down at one moment, briefly named."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from habemus.core.events import Event
from habemus.core.process import ProcessId
from habemus.traces.words import ENGLISH, Words

KINDS_OF_CHANGE = ("cut", "heal", "slow")
MOST_NAMED = 4
"""More links than this are counted, not named, unless together they are a partition."""

Link = tuple[ProcessId, ProcessId]


class Change(NamedTuple):
    kind: str
    first: int  # index of the first of its events
    last: int
    links: frozenset[Link]


def changes(events: Sequence[Event]) -> list[Change]:
    """Group neighbouring events of one kind and moment: one fault makes an event for each link."""
    found: list[Change] = []
    for index, event in enumerate(events):
        if event.kind not in KINDS_OF_CHANGE or event.peer is None:
            continue
        link = (event.process, event.peer)
        last = found[-1] if found else None
        if (
            last is not None
            and last.last == index - 1
            and last.kind == event.kind
            and events[last.last].time == event.time
        ):
            found[-1] = last._replace(last=index, links=last.links | {link})
        else:
            found.append(Change(event.kind, index, index, frozenset({link})))
    return found


def named(
    change: Change,
    processes: Collection[ProcessId],
    label: Callable[[ProcessId], str],
    words: Words = ENGLISH,
) -> str:
    """Name a change: "cut 1-2", "cut 1>2" for one direction, "cut 1 2 | 3 4 5" for a partition."""
    groups = _partition(change.links, processes)
    if groups is not None and len(change.links) > 2:
        links = " | ".join(" ".join(label(process) for process in group) for group in groups)
    else:
        pairs = [
            (one, other)
            for one, other in sorted(change.links)
            if (other, one) not in change.links or one < other
        ]
        signs = ["-" if (other, one) in change.links else ">" for one, other in pairs]
        links = ", ".join(
            f"{label(one)}{sign}{label(other)}"
            for (one, other), sign in zip(pairs, signs, strict=True)
        )
        if len(pairs) > MOST_NAMED:
            links = words["links"].format(count=len(change.links))
    return words[f"network {change.kind}"].format(links=links)


def _partition(
    links: frozenset[Link], processes: Collection[ProcessId]
) -> list[list[ProcessId]] | None:
    """Return the groups between which these are exactly all links, if there are such groups."""
    groups: list[list[ProcessId]] = []
    for process in processes:
        for group in groups:
            if (process, group[0]) not in links:
                group.append(process)
                break
        else:
            groups.append([process])
    of = {process: index for index, group in enumerate(groups) for process in group}
    between = {(one, other) for one in processes for other in processes if of[one] != of[other]}
    return groups if links == between and len(groups) > 1 else None
