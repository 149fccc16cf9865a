"""Leader election: the interface of every election, and the applications that call one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from habemus.core import Indication, Process, ProcessId, Span, System, Value, request
from habemus.core.application import Drive
from habemus.core.system import complete


class Leader(Indication):
    """This process follows another leader from now on.

    process: the leader; None if the process knows none.
    term: the term of the leader; 0 if the election has no terms.
    """

    process: ProcessId | None
    term: int = 0


class Location(Value):
    """Where a process is, and what it keeps its stable memory in.  Algorithms pass both on."""

    process: ProcessId
    address: str
    memory: str = ""  # identity of the stable memory; empty: not agreed on


class Members(Indication):
    """The configuration by which this process counts from now on, in an election whose members
    change.
    """

    term: int  # of the leader that wrote it
    version: int  # how many changes have led to it
    members: tuple[ProcessId, ...]
    book: tuple[Location, ...] = ()  # of all processes, members or not; empty: not written down yet


class ElectionCosts(NamedTuple):
    """Costs of one election by the formula, if only the first participant calls and nothing fails.

    messages: the number of messages; None: it depends.
    turnaround: the time from the call until the last process has named the leader, in message
        times; None: it depends.
    """

    messages: int | None = None
    turnaround: int | None = None


class Election(Process):
    """Base class of algorithms for leader election."""

    indications = (Leader,)
    name: ClassVar[str] = ""
    """Name of the algorithm in the catalog."""
    largest: ClassVar[int] = 3_000
    """Largest number of participants of a run.  Each knows all others, so memory grows with the
    square.
    """
    scope: ClassVar[str] = "ever"
    """Scope of E1: never two leaders "ever", never two in one "term", or only "eventually"."""
    callers: ClassVar[str] = "one"
    """Default callers of an election: "one" (any), "all", or "none" if processes begin elections
    by themselves.
    """
    duration: ClassVar[int | None] = None
    """Default duration of a run after its last fault, where the processes never become idle."""
    can_resign: ClassVar[bool] = False
    """Whether a leader can step down in its own term."""

    @request
    @abstractmethod
    def elect(self) -> None:
        """Call an election: there is no leader yet, or the application suspects it."""

    def resign(self, heir: ProcessId) -> None:
        """Step down in favour of a peer, if this process leads and `can_resign`."""

    def begin_term(self, after: int) -> None:
        """Begin a new term if this process leads the given one, and the election has terms."""

    def may_change(self) -> bool:
        """Return whether this process leads, and can change the members now."""
        return False

    def unconfirmed(self) -> tuple[int, int] | None:
        """Return the term and version of members that the processes above have to confirm before
        this process can change them again.  None if it waits for no confirmation.
        """
        return None

    def costs(self, size: int) -> ElectionCosts:
        """Return the costs by formula for a number of participants; measurements must equal it."""
        return ElectionCosts()

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return participants 1 to N, all of the same plan and all connected to each other."""
        plan = cls(**options)
        participants = range(1, size + 1)
        return System(
            dict.fromkeys(participants, plan), complete(participants), tuple(participants)
        )


class Call(NamedTuple):
    """One call of an election: its process and its time."""

    process: ProcessId
    after: Span


@dataclass
class Calls:
    """Workload of given calls.  A process that is down at the time of its call does not call."""

    calls: Iterable[Call] = ()

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None:
        for call in self.calls:
            drive.ask(call.process, "elect", after=call.after, lasting=True)

    def asked(self, process: ProcessId, request: str, drive: Drive) -> None:
        pass

    def indicated(self, process: ProcessId, indication: Indication, drive: Drive) -> None:
        pass

    def crashed(self, process: ProcessId) -> None:
        pass

    def recovered(self, process: ProcessId, drive: Drive) -> None:
        pass

    def is_done(self) -> bool:
        # an election ends when nothing happens any more, or at the planned end of the run
        return False
