"""The judgement of ME1, ME2-deadlock, ME3 and ME4, as folds over requests, entries, exits and
crashes.

An application that moves from one process to another stays inside all the time, until it cannot go
on, its lease has run out, or the process that it left crashes.  If it goes on although a larger
token was granted in between (`tokens.TokenOrder.is_overtaken`), it was inside with another one.

Searches and runs share `MutexJudgement`.  A search needs the state between two events as a value:
`frozen` and `thawed` convert it.  A run keeps one and adds times, explanations and costs.  Only
runs keep `Overtaking`: it counts entries, so no two states of a search would be the same.
"""

from __future__ import annotations

from typing import NamedTuple

from habemus.core.process import ProcessId


class PendingRequest(NamedTuple):
    own: int  # the request as one bit; 0 where causality is not tracked
    before: int  # the requests that happened before it, as a set of bits


class MutexEntry(NamedTuple):
    """An entry and the processes that it wronged."""

    inside: tuple[ProcessId, ...]  # already in the critical section: ME1 is violated
    overtaken: tuple[ProcessId, ...]  # still waiting, with an earlier request: ME3 is violated


class MutexState(NamedTuple):
    """The state of the judgement as a value."""

    inside: frozenset[ProcessId] = frozenset()
    moving: frozenset[ProcessId] = frozenset()
    waiting: tuple[tuple[ProcessId, int, int], ...] = ()  # sorted; with the fields of the request


class MutexJudgement:
    """The processes inside the critical section and those that wait for it."""

    def __init__(self) -> None:
        self.inside: set[ProcessId] = set()
        self.moving: set[ProcessId] = set()  # of these, whose applications go on elsewhere
        self.waiting: dict[ProcessId, PendingRequest] = {}
        self._pending = 0  # the requests of all waiting processes, as a set of bits

    def request(self, process: ProcessId, own: int = 0, before: int = 0) -> None:
        self._withdraw(process)
        self.waiting[process] = PendingRequest(own, before)
        self._pending |= own

    def entry(self, process: ProcessId) -> MutexEntry:
        """Let a process enter.  ME1: no other process is inside.  ME3: no other process waits whose
        request happened before the one that is served.
        """
        served = self._withdraw(process)
        inside = tuple(sorted(self.inside - ({process} - self.moving))) if self.inside else ()
        self.inside.add(process)
        if served is None or not served.before & self._pending:
            return MutexEntry(inside, ())
        overtaken = [each for each, other in self.waiting.items() if served.before & other.own]
        return MutexEntry(inside, tuple(sorted(overtaken)))

    def move(self, process: ProcessId) -> None:
        """Let the application of a process go on elsewhere: its stay is not over."""
        if process in self.inside:
            self.moving.add(process)

    def resume(self, process: ProcessId) -> tuple[ProcessId, ...]:
        """Let an application that moved go on at a process.  ME1: no other process is inside."""
        self._arrive()
        inside = tuple(sorted(self.inside))
        self.inside.add(process)
        return inside

    def _arrive(self) -> None:
        """End the stays in transit: there is one, or ME1 has been violated before."""
        self.inside -= self.moving
        self.moving.clear()

    def loss(self, process: ProcessId) -> None:
        """End the stay of a process, or the one in transit, which cannot go on there."""
        if process not in self.inside:
            self._arrive()
        self.exit(process)

    def release(self, process: ProcessId) -> bool:
        """End the stay of a process, or its wait if it is not inside.  Return whether it waited."""
        if process in self.waiting and process not in self.inside - self.moving:
            self._withdraw(process)
            return True
        self.exit(process)
        return False

    def exit(self, process: ProcessId) -> None:
        self.inside.discard(process)
        self.moving.discard(process)

    def crash(self, process: ProcessId) -> None:
        self.inside.discard(process)
        self.moving.discard(process)
        self._withdraw(process)

    @property
    def pending(self) -> int:
        """The requests of all waiting processes, as a set of bits."""
        return self._pending

    def deadlocked(self) -> list[ProcessId]:
        """Return the processes that wait for ever if nothing happens any more (ME2-deadlock)."""
        return sorted(self.waiting)

    def _withdraw(self, process: ProcessId) -> PendingRequest | None:
        request = self.waiting.pop(process, None)
        if request is not None:
            self._pending &= ~request.own
        return request

    def frozen(self) -> MutexState:
        waiting = sorted((process, *request) for process, request in self.waiting.items())
        return MutexState(frozenset(self.inside), frozenset(self.moving), tuple(waiting))

    @classmethod
    def thawed(cls, state: MutexState) -> MutexJudgement:
        judgement = cls()
        judgement.inside.update(state.inside)
        judgement.moving.update(state.moving)
        for process, own, before in state.waiting:
            judgement.request(process, own, before)
        return judgement


class Overtaking:
    """The judgement of ME4: how many others enter between a request and its entry."""

    def __init__(self, bound: int | None = None) -> None:
        self.bound = bound  # None: none is claimed
        self.entries = 0  # of all processes
        self.largest = 0  # number of entries that passed one request
        self._requested: dict[ProcessId, int] = {}  # the entries before each pending request

    def request(self, process: ProcessId) -> None:
        self._requested[process] = self.entries

    def entry(self, process: ProcessId) -> int:
        """Let a process enter.  Return how many others entered since its request, 0 without one."""
        passed = self.passed(process)
        self._requested.pop(process, None)
        self.entries += 1
        self.largest = max(self.largest, passed)
        return passed

    def withdraw(self, process: ProcessId) -> None:
        """Drop a pending request: it was withdrawn, or its process has crashed."""
        self._requested.pop(process, None)

    def passed(self, process: ProcessId) -> int:
        """Return how many processes entered since the pending request of a process."""
        return self.entries - self._requested.get(process, self.entries)

    def is_violated_by(self, passed: int) -> bool:
        return self.bound is not None and passed > self.bound
