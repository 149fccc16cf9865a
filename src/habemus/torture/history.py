"""Records of the processes of a torture, as values.  Nothing here opens a file.

All times are nanoseconds of the monotonic clock, which all processes of a machine share.  Every
line is a JSON array.

A client's file, one for each process; `stay` counts its requests:

    [time, "acquire", stay, lock]           it asks
    [time, "granted", stay, token or null]
    [time, "timeout", "failed" or "cancelled", stay, why]
    [time, "read", stay]                    it begins an update: it is about to read the value
    [time, "write", stay, value]            it has read this value, and is about to write the next
    [time, "wrote", stay]                   which was accepted
    [time, "refused", stay]                 the referee refused the read or the write: no update
    [time, "lost", stay, why]               it has heard that the lock is lost
    [time, "release", stay]                 it leaves

The referee's file:

    [time, "read" or "write", lock, client, stay, token or null, value read, accepted]

The file of the torture itself:

    [time, "began", kind, whom, number, client]
                                            a fault; whom it hit, in words; the client, or ""
    [time, "ended", number]                 it is over
    [time, "healed"]                        no fault is left
    [time, "killed", client]                before the signal was sent
    [time, "damaged", node, what]           its stable memory, and how
    [time, "changed", word, node, code]     `habemus member WORD NODE` has ended
    [time, "stalled", since]                the machine did not run the torture itself in between
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from habemus.fencing.tokens import token_text

LEADING = " (leader)"
"""Ending of the words for a victim that led when the round began."""


class Stay(NamedTuple):
    """One request for a lock, and its outcome."""

    client: str
    number: int
    lock: str
    asked: int
    answered: int | None = None  # None: the client died before it heard anything
    outcome: str = "unknown"  # granted, timeout, failed, cancelled
    token: int | None = None
    # when the client released the lock, knew that it was lost, or died; None without a grant
    left: int | None = None
    ending: str = ""  # release, lost, killed

    @property
    def is_granted(self) -> bool:
        return self.outcome == "granted"

    def __str__(self) -> str:
        token = "" if self.token is None else f" (token {token_text(self.token)})"
        return f"stay {self.number} of client {self.client}{token}"


class Update(NamedTuple):
    """A client reads a value and writes the next one: atomic, if the lock works."""

    client: str
    stay: int
    lock: str
    invoked: int
    returned: int | None  # None: the client died before it heard whether the write was accepted
    value: int  # that it read


class Access(NamedTuple):
    """One read or write at the referee."""

    time: int
    kind: str  # read, write
    lock: str
    client: str
    stay: int
    token: int | None
    value: int | None  # on which a write builds
    accepted: bool

    @property
    def whose(self) -> tuple[str, int]:
        return self.client, self.stay


class InjectedFault(NamedTuple):
    kind: str
    whom: str
    began: int
    ended: int | None
    client: str = ""  # that it hit


@dataclass
class History:
    began: int
    ended: int
    stays: list[Stay] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    faults: list[InjectedFault] = field(default_factory=list)
    healings: list[int] = field(default_factory=list)
    stalls: list[tuple[int, int]] = field(default_factory=list)  # from, to: of the machine itself

    @property
    def grants(self) -> list[Stay]:
        return [stay for stay in self.stays if stay.is_granted]


def lines_of(text: str) -> Iterator[list[Any]]:
    """Yield the complete lines.  A process that was killed may have left half a line."""
    for line in text.split("\n")[:-1]:
        yield json.loads(line)


def read_client(
    client: str, lines: Iterable[list[Any]], died: int
) -> tuple[list[Stay], list[Update]]:
    """Return the stays and updates of one client process.  Its death ends those that are open."""
    stays: dict[int, Stay] = {}
    updates: list[Update] = []
    begun: dict[int, int] = {}  # when the update of a stay began
    for time, what, number, *rest in lines:
        if what == "acquire":
            stays[number] = Stay(client, number, rest[0], time)
        stay = stays[number]
        if what == "granted":
            stays[number] = stay._replace(answered=time, outcome=what, token=rest[0])
        elif what in ("timeout", "failed", "cancelled"):
            stays[number] = stay._replace(answered=time, outcome=what)
        elif what in ("lost", "release") and stay.left is None:
            stays[number] = stay._replace(left=time, ending=what)
        elif what == "read":
            begun[number] = time
        elif what == "write":
            updates.append(Update(client, number, stay.lock, begun[number], None, rest[0]))
        elif what == "wrote":
            updates[-1] = updates[-1]._replace(returned=time)
        elif (
            what == "refused"
            and updates
            and updates[-1].returned is None
            and updates[-1].invoked == begun[number]
        ):
            updates.pop()  # it is certain that this one did not happen
    for number, stay in stays.items():
        if stay.outcome in ("granted", "unknown") and stay.left is None:
            stays[number] = stay._replace(
                left=max(died, stay.answered or stay.asked), ending="killed"
            )
    return list(stays.values()), updates


def read_referee(lines: Iterable[list[Any]]) -> list[Access]:
    return [Access(*line) for line in lines]


class FaultLog(NamedTuple):
    """Record of the torture itself."""

    faults: list[InjectedFault]
    healings: list[int]  # the moments at which no fault was left
    killed: dict[str, int]  # clients, and when
    stalls: list[tuple[int, int]]


def read_journal(lines: Iterable[list[Any]]) -> FaultLog:
    faults: dict[int, InjectedFault] = {}
    healings: list[int] = []
    killed: dict[str, int] = {}
    stalls: list[tuple[int, int]] = []
    for time, what, *rest in lines:
        if what == "began":
            kind, whom, number, client = rest
            faults[number] = InjectedFault(kind, whom, time, None, client)
        elif what == "ended":
            faults[rest[0]] = faults[rest[0]]._replace(ended=time)
        elif what == "healed":
            healings.append(time)
        elif what == "killed":
            killed[rest[0]] = time
        elif what == "stalled":
            stalls.append((rest[0], time))
    return FaultLog(list(faults.values()), healings, killed, stalls)


def history_of(
    began: int, ended: int, clients: Mapping[str, str], referee: str, faults: str
) -> History:
    """Build the history from the texts of the files, those of the clients by name.  Events after
    the end are left out.
    """

    def events(text: str) -> Iterator[list[Any]]:
        return (line for line in lines_of(text) if line[0] <= ended)

    journal = read_journal(events(faults))
    history = History(
        began,
        ended,
        accesses=read_referee(events(referee)),
        faults=journal.faults,
        healings=journal.healings,
        stalls=journal.stalls,
    )
    for client, text in clients.items():
        stays, updates = read_client(client, events(text), journal.killed.get(client, ended))
        history.stays += stays
        history.updates += updates
    return history
