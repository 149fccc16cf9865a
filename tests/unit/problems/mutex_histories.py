"""Histories of mutual exclusion, and the verdicts about them by brute force: each looks at the
whole history, where the product looks at a state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from habemus.core.events import Event
from habemus.core.model import ExternalEvent
from habemus.problems.fencing import WriteOutcome
from habemus.problems.mutex import Granted

PROCESSES = (1, 2, 3)
CHANGES = ("request", "entry", "exit", "crash")

Change = tuple[str, int]
Token = tuple[int, int]

processes = st.sampled_from(PROCESSES)
changes = st.lists(st.tuples(st.sampled_from(CHANGES), processes), max_size=25)


# ME1, ME2 and ME3.


def is_since(history: Sequence[Change], begin: str, ends: set[str], process: int) -> bool:
    """Return whether the last of these changes of the process is `begin`."""
    own = [kind for kind, who in history if who == process and kind in {begin, *ends}]
    return bool(own) and own[-1] == begin


def inside(history: Sequence[Change]) -> set[int]:
    return {each for each in PROCESSES if is_since(history, "entry", {"exit", "crash"}, each)}


def waiting(history: Sequence[Change]) -> set[int]:
    """Return the processes that wait: one that is not inside, and exits, stops waiting."""
    found: set[int] = set()
    for position, (kind, process) in enumerate(history):
        if kind == "request":
            found.add(process)
        elif kind in ("entry", "crash") or (
            kind == "exit" and process not in inside(history[:position])
        ):
            found.discard(process)
    return found


class Message(NamedTuple):
    sender: int
    to: int
    sent: int  # position in the history


class Run:
    """A history with messages: external events, events of a trace, and a graph of causes."""

    def __init__(self, actions: Sequence[tuple[str, int, int]]) -> None:
        self.history: list[Change] = []
        self.causes: list[set[int]] = []  # the positions before each position
        self.events: list[Event] = []
        self.external: list[ExternalEvent | None] = []
        messages: list[Message] = []
        for kind, process, peer in actions:
            extra: set[int] = set()
            if kind == "send":
                messages.append(Message(process, peer, len(self.history)))
                event = Event(0, process, "send", "Word", None, peer, len(messages))
            elif kind == "receive":
                coming = [
                    number
                    for number, each in enumerate(messages, start=1)
                    if each.to == process and not self._is_received(number)
                ]
                if not coming:
                    continue
                message = messages[coming[0] - 1]
                extra = {message.sent, *self.causes[message.sent]}
                event = Event(0, process, "receive", "Word", None, message.sender, coming[0])
            else:
                event = {
                    "request": Event(0, process, "request", "acquire"),
                    "entry": Event(0, process, "indicate", "Granted", Granted()),
                    "exit": Event(0, process, "request", "release"),
                    "crash": Event(0, process, "crash"),
                }[kind]
            self._add(kind, process, event._replace(time=len(self.history)), extra)

    def _is_received(self, number: int) -> bool:
        return any(each.kind == "receive" and each.number == number for each in self.events)

    def _add(self, kind: str, process: int, event: Event, extra: set[int]) -> None:
        own = [place for place, (_, who) in enumerate(self.history) if who == process]
        causes = {each for place in own for each in (place, *self.causes[place])} | extra
        self.history.append((kind, process))
        self.causes.append(causes)
        self.events.append(event)
        before = sum(1 << place for place in causes if self.history[place][0] == "request")
        self.external.append(
            None
            if kind in ("send", "receive")
            else ExternalEvent(
                event.kind,
                process,
                event.name,
                Granted() if kind == "entry" else None,
                1 << len(self.history) - 1 if kind == "request" else 0,
                before if kind == "request" else 0,
            )
        )

    def violations_of_me1(self) -> list[bool]:
        """Return of each event whether it enters while another process is inside."""
        return [
            kind == "entry" and bool(inside(self.history[:position]) - {process})
            for position, (kind, process) in enumerate(self.history)
        ]

    def violations_of_me3(self) -> list[bool]:
        return [self.violates_me3(position) for position in range(len(self.history))]

    def violates_me3(self, position: int) -> bool:
        """Return whether this entry overtakes a request that happened before its own."""
        history = self.history[:position]
        kind, process = self.history[position]
        if kind != "entry" or process not in waiting(history):
            return False
        last = {who: place for place, (what, who) in enumerate(history) if what == "request"}
        return any(
            last[other] in self.causes[last[process]] for other in waiting(history) - {process}
        )


runs = st.lists(
    st.tuples(st.sampled_from((*CHANGES[:3], "send", "receive")), processes, processes),
    max_size=30,
).map(Run)
"""Without crashes: a monitor lets a process keep what it knows over a crash, a search does not."""


# FENCE.

tokens = st.tuples(st.integers(1, 2), st.integers(1, 2))
accesses = st.lists(st.tuples(st.sampled_from(("grant", "write")), processes, tokens), max_size=20)
Access = tuple[str, int, Token]


def granted_at(history: Sequence[Access], position: int) -> int | None:
    """Return the position of the grant that a write belongs to; None if there is none."""
    _, process, token = history[position]
    grants = [each for each in range(position) if history[each] == ("grant", process, token)]
    return grants[-1] if grants else None


def is_accepted(history: Sequence[Access], position: int) -> bool:
    earlier = [token for kind, _, token in history[:position] if kind == "write"]
    return all(history[position][2] >= token for token in earlier)


def outcome(history: Sequence[Access], position: int) -> WriteOutcome:
    """Return STALE where another entry has written since an earlier write of the same entry.

    The last write before the grant counts as one of the entry if it has the same process and token.
    """
    if not is_accepted(history, position):
        return WriteOutcome.REFUSED
    accepted = [
        each
        for each in range(position + 1)
        if history[each][0] == "write" and is_accepted(history, each)
    ]
    granted = granted_at(history, position)
    assert granted is not None
    earlier = [each for each in accepted if each < granted]
    writes = [history[each] for each in accepted[max(0, len(earlier) - 1) :]]
    own = writes.index(history[position])
    is_stale = any(each != history[position] for each in writes[own:])
    return WriteOutcome.STALE if is_stale else WriteOutcome.ACCEPTED


def valid(history: Sequence[Access]) -> list[Access]:
    """Leave out writes without a grant: clients make none."""
    kept: list[Access] = []
    for access in history:
        kept.append(access)
        if access[0] == "write" and granted_at(kept, len(kept) - 1) is None:
            kept.pop()
    return kept
