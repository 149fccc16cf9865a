"""The application and the properties of a problem, as a search needs them: finite, and without
time.

A run has a workload that waits and draws, and a monitor that counts.  A search has neither time nor
numbers: what an application may do next is a function of a small state of its own, and so is what
has gone wrong.  Both are values, so they take part in the state of the search like everything else.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from habemus.core.process import ProcessId
from habemus.core.values import Indication

ClientState: TypeAlias = Hashable
Knowledge: TypeAlias = Hashable


class ExternalEvent(NamedTuple):
    """What can be seen from outside: a request, an indication, a crash, a recovery."""

    kind: str
    process: ProcessId
    name: str = ""
    value: Any = None  # the arguments of a request, or the indication
    own: int = (
        0  # the request itself, as one bit, where it is kept track of what happened before what
    )
    before: int = 0  # the requests that happened before it, as a set of bits


class PossibleRequest(NamedTuple):
    """A request that an application may make."""

    name: str
    arguments: tuple[Any, ...] = ()
    voluntary: bool = (
        False  # it may as well never make it; whatever else it may do, it does in the end
    )


class ClientModel(Protocol):
    """What the application above one process does, whatever the others do."""

    def first(self) -> ClientState: ...

    def choices(self, state: ClientState) -> Sequence[PossibleRequest]:
        """What it may ask for now."""

    def asked(self, state: ClientState, asking: PossibleRequest) -> ClientState: ...

    def indicated(self, state: ClientState, indication: Indication) -> ClientState: ...

    def crashed(self, state: ClientState) -> ClientState: ...


class Observer(Protocol):
    """Watches all that can be seen.  What it remembers is a value; properties are told by their
    names.
    """

    def first(self) -> Knowledge: ...

    def sees(self, knowledge: Knowledge, seen: ExternalEvent) -> tuple[Knowledge, Sequence[str]]:
        """What it knows then, and which properties that event violates."""

    def at_rest(self, knowledge: Knowledge) -> Sequence[str]:
        """Which properties are violated if nothing happens any more, but for requests that nobody
        is obliged to make.
        """

    def unfulfilled(self, knowledge: Knowledge) -> Sequence[tuple[str, ProcessId]]:
        """Who still lacks what it is owed: if that is so for ever, the property is violated."""

    def progress(self, seen: ExternalEvent) -> Sequence[str]:
        """The properties that such an event is progress for, even if it is somebody else's."""

    def shown(self, seen: ExternalEvent) -> Sequence[str]:
        """The properties that are about such an event: without any, nothing was shown."""

    def about_the_end(self) -> Sequence[str]:
        """The properties that are about how things are in the end, and so not decided where a run
        may go on for ever.
        """
