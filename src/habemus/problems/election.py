"""Leader election: the interface of every election, and the applications that call one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from habemus.core import Indication, Process, ProcessId, Span, System, request
from habemus.core.application import Drive
from habemus.core.system import complete


class Leader(Indication):
    """From now on this process takes `process` for the leader, or nobody; in which term, if the
    election has terms.
    """

    process: ProcessId | None
    term: int = 0


class Costs(NamedTuple):
    """What one election costs by the formula when the first participant alone calls it and nothing
    fails.

    The turnaround goes from the call to the last process that names the leader, in message times.
    None: it depends.
    """

    messages: int | None = None
    turnaround: int | None = None


class Election(Process):
    """The processes agree on one of them."""

    indications = (Leader,)
    name: ClassVar[str] = ""
    """Under which the catalog lists the algorithm."""
    largest: ClassVar[int] = 3_000
    """How many participants a run may have; everybody knows everybody, so memory grows with the
    square.
    """
    scope: ClassVar[str] = "ever"
    """Where E1 is claimed: never two leaders "ever", never two in one "term", or only "eventually"."""
    callers: ClassVar[str] = "one"
    """Who calls an election when the run does not say: "one" (any), "all", or "none" because
    processes see to it themselves.
    """
    duration: ClassVar[int | None] = None
    """How long a run lasts, counted from its last fault, when the processes never come to rest and
    the run does not say.
    """

    @request
    @abstractmethod
    def elect(self) -> None:
        """The application calls an election: there is no leader yet, or it suspects the one there
        is.
        """

    def costs(self, size: int) -> Costs:
        """The formula for this many participants; measurements must equal it."""
        return Costs()

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Participants 1 to N, each connected to each, all by the same plan."""
        plan = cls(**options)
        everybody = range(1, size + 1)
        return System(dict.fromkeys(everybody, plan), complete(everybody), tuple(everybody))


class Call(NamedTuple):
    """One call of an election: by whom, and when."""

    process: ProcessId
    after: Span


@dataclass
class Calls:
    """The given calls and no others.  A process that is down when its turn comes does not call."""

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
        # an election has ended when nothing happens any more, or when the time of the run is over
        return False
