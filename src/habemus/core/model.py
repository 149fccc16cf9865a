"""Finite models of the application and of the properties of a problem, for a search.

A run has a workload that waits and draws random numbers, and a monitor that counts.  A search has
neither time nor counters: the next requests of an application are a function of a small state, and
so are the violations that an observer sees.  Both states are values and part of the global state.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from habemus.core.process import ProcessId
from habemus.core.values import Indication

WITHDRAW, RESIGN = "withdraw", "resign"
"""Budgets of requests: an application stops waiting; a leader steps down in its own term."""

ClientState: TypeAlias = Hashable
Knowledge: TypeAlias = Hashable


class ExternalEvent(NamedTuple):
    """An event visible from outside: a request, an indication, a crash or a recovery."""

    kind: str
    process: ProcessId
    name: str = ""
    value: Any = None  # the arguments of a request, or the indication
    own: int = 0  # the request itself, as one bit, if happened-before is tracked
    before: int = 0  # the requests that happened before it, as a set of bits


class PossibleRequest(NamedTuple):
    """A request that an application may make."""

    name: str
    arguments: tuple[Any, ...] = ()
    voluntary: bool = False  # the application need not ever make it; it makes all others eventually
    is_ordered: bool = False  # which of two such requests happened before the other matters
    budget: str = ""  # a search bounds the number of such requests; without the bound there is none


class ClientModel(Protocol):
    """The behaviour of the application above one process, independent of the other processes."""

    def first(self) -> ClientState: ...

    def choices(self, state: ClientState) -> Sequence[PossibleRequest]:
        """Return the requests that the application may make now."""

    def asked(self, state: ClientState, asking: PossibleRequest) -> ClientState: ...

    def indicated(self, state: ClientState, indication: Indication) -> ClientState: ...

    def crashed(self, state: ClientState) -> ClientState: ...


class Observer(Protocol):
    """Judge of properties, which are given by their names.  Its memory is a value."""

    def first(self) -> Knowledge: ...

    def sees(self, knowledge: Knowledge, seen: ExternalEvent) -> tuple[Knowledge, Sequence[str]]:
        """Return the knowledge after the event, and the properties that the event violates."""

    def at_rest(self, knowledge: Knowledge) -> Sequence[str]:
        """Return the properties that are violated if no event but voluntary requests follows."""

    def unfulfilled(self, knowledge: Knowledge) -> Sequence[tuple[str, ProcessId]]:
        """Return the pending obligations: properties violated if they stay pending for ever."""

    def pending(self, knowledge: Knowledge) -> Knowledge:
        """Return the part of the knowledge on which obligations and the end of a run depend."""

    def progress(self, seen: ExternalEvent) -> Sequence[str]:
        """Return the properties for which such an event is progress, of whichever process."""

    def shown(self, seen: ExternalEvent) -> Sequence[str]:
        """Return the properties about such an event; without one, nothing was shown."""

    def about_the_end(self) -> Sequence[str]:
        """Return the properties about the end of a run, undecided where it may go on for ever."""
