"""Mutual exclusion: the interface of every mutex, and the applications that use one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from habemus.core import Indication, Process, ProcessId, Span, System, Timer, request
from habemus.core.application import Drive
from habemus.core.system import complete


class Granted(Indication):
    """The process is in the critical section from now on."""


class Costs(NamedTuple):
    """What one uncontended entry and exit costs by the formula; delays in message times.  None: it
    depends.
    """

    messages: float | None = (
        None  # a whole number, unless it is an average over participants that pay differently
    )
    client_delay: int | None = None
    sync_delay: int | None = None


def average(total: int, entries: int) -> float:
    """Rounded as measurements are, so that the two can be compared."""
    return round(total / entries, 6)


class Mutex(Process):
    """At most one process at a time is in the critical section."""

    indications: ClassVar[tuple[type[Indication], ...]] = (Granted,)
    name: ClassVar[str] = ""
    """Under which the catalog lists the algorithm."""
    largest: ClassVar[int] = 3_000
    """How many participants a run may have; everybody knows everybody, so memory grows with the
    square.
    """
    upkeep: ClassVar[tuple[str, ...]] = ()
    """The messages that no entry causes, by name.  They are counted apart, as are those of
    components other than links.
    """
    duration: ClassVar[int | None] = None
    """How long a run lasts, counted from its last fault, when the processes never come to rest and
    the run does not say.
    """
    withdraws: ClassVar[bool] = False
    """Whether a release before the grant takes the request back.  Others have to be let in before
    they can leave.
    """

    sees_waiters: ClassVar[bool] = False
    """True if the process inside learns that others wait to enter."""

    @request
    @abstractmethod
    def acquire(self) -> None:
        """The application wants to enter.  It asks once and then waits for `Granted`."""

    @request
    @abstractmethod
    def release(self) -> None:
        """The application leaves the critical section."""

    @request
    def write(self, term: int, count: int) -> None:
        """The application writes to the resource and shows its token.  That is between the two of
        them; the trace has it.
        """

    def runs_out(self) -> Timer | None:
        """The timer at whose expiry the process loses what it holds, unless that is renewed; None
        where grants do not run out.
        """
        return None

    def is_wanted(self) -> bool:
        """Whether others are known to wait for what this process holds; never, where it does not
        hear of them.
        """
        return False

    def granted(self) -> None:
        """Lets the application in."""
        self.indicate(Granted())

    def costs(self, size: int) -> Costs:
        """The formula for this many participants; measurements must equal it."""
        return Costs()

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Participants 1 to N, each connected to each, all by the same plan."""
        plan = cls(**options)
        everybody = range(1, size + 1)
        return System(dict.fromkeys(everybody, plan), complete(everybody), tuple(everybody))


@dataclass
class Visits:
    """What applications do inside: they stay for a while, and those that have a token write on
    entering and before they leave.
    """

    _tokens: dict[ProcessId, tuple[int, int]] = field(default_factory=dict, init=False)
    _holds: dict[ProcessId, Span] = field(
        default_factory=dict, init=False
    )  # of those that have not written yet

    def begin(self, process: ProcessId, indication: Granted, hold: Span, drive: Drive) -> None:
        token = getattr(indication, "token", None)  # only some locks give one
        if token is None:
            drive.ask(process, "release", after=hold)
        else:
            self._tokens[process] = token
            self._holds[process] = hold
            drive.ask(process, "write", *token, after=0)

    def wrote(self, process: ProcessId, drive: Drive) -> None:
        if process in self._holds:
            drive.ask(process, "write", *self._tokens[process], after=self._holds.pop(process))
        elif self._tokens.pop(process, None) is not None:
            drive.ask(process, "release", after=0)

    def end(self, process: ProcessId) -> None:
        self._tokens.pop(process, None)
        self._holds.pop(process, None)


@dataclass
class Clients:
    """Each client asks a number of times: it thinks, asks, stays inside for a while, leaves."""

    rounds: int = 1
    think: Span = (0, 10_000)
    hold: Span = 1_000

    _left: dict[ProcessId, int] = field(default_factory=dict, init=False, repr=False)
    _busy: set[ProcessId] = field(default_factory=set, init=False, repr=False)
    _thinking: set[ProcessId] = field(
        default_factory=set, init=False, repr=False
    )  # will ask, but has not yet
    _visits: Visits = field(default_factory=Visits, init=False, repr=False)

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None:
        self._visits = Visits()
        self._left = dict.fromkeys(clients, self.rounds)
        self._busy = set()
        self._thinking = set()
        for client in clients:
            if self._next(client, drive):
                self._busy.add(client)

    def _next(self, client: ProcessId, drive: Drive) -> bool:
        left = self._left[client]
        if left:
            self._left[client] = left - 1
            self._thinking.add(client)
            drive.ask(client, "acquire", after=self.think)
        return left > 0

    def asked(self, process: ProcessId, request: str, drive: Drive) -> None:
        if request == "acquire":
            self._thinking.discard(process)
        elif request == "write":
            self._visits.wrote(process, drive)
        elif request == "release" and not self._next(process, drive):
            self._busy.discard(process)

    def indicated(self, process: ProcessId, indication: Indication, drive: Drive) -> None:
        if isinstance(indication, Granted):
            self._visits.begin(process, indication, self.hold, drive)

    def crashed(self, process: ProcessId) -> None:
        self._busy.discard(process)
        self._visits.end(process)
        if process in self._thinking:
            self._thinking.discard(process)
            self._left[process] += 1  # the request that the crash overtook is still to be made

    def recovered(self, process: ProcessId, drive: Drive) -> None:
        if process in self._left and self._next(process, drive):
            self._busy.add(process)

    def is_done(self) -> bool:
        return not self._busy


class InTurn(Clients):
    """One client after the other, each when the last one has left and the messages have settled: no
    contention.
    """

    def __init__(self, rounds: int = 1, pause: int = 100_000, hold: Span = 1_000) -> None:
        super().__init__(rounds, think=pause, hold=hold)
        self._turns: list[ProcessId] = []

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None:
        self._visits = Visits()
        self._turns = [client for _ in range(self.rounds) for client in clients]
        self._next_turn(drive)

    def _next_turn(self, drive: Drive) -> None:
        if self._turns:
            client = self._turns.pop(0)
            self._busy = {client}
            drive.ask(client, "acquire", after=self.think)
        else:
            self._busy = set()

    def asked(self, process: ProcessId, request: str, drive: Drive) -> None:
        if request == "write":
            self._visits.wrote(process, drive)
        elif request == "release":
            self._next_turn(drive)

    def crashed(self, process: ProcessId) -> None:
        self._busy.discard(process)
        self._visits.end(process)

    def recovered(self, process: ProcessId, drive: Drive) -> None:
        if not self._busy:
            self._next_turn(drive)


class Ask(NamedTuple):
    """One request of a script: who, when at the earliest, and how long it stays inside."""

    process: ProcessId
    at: int
    hold: int = 1_000


@dataclass
class Script:
    """The given requests and no others; the requests of one process come one after the other."""

    asks: Iterable[Ask]

    _left: dict[ProcessId, list[Ask]] = field(default_factory=dict, init=False, repr=False)
    _now: dict[ProcessId, Ask] = field(default_factory=dict, init=False, repr=False)
    _made: set[ProcessId] = field(
        default_factory=set, init=False, repr=False
    )  # whose present request has been made
    _visits: Visits = field(default_factory=Visits, init=False, repr=False)

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None:
        self._visits = Visits()
        self._left = {}
        self._now = {}
        self._made = set()
        for ask in sorted(self.asks, key=lambda each: each.at):
            self._left.setdefault(ask.process, []).append(ask)
        for process in sorted(self._left):
            self._next(process, drive)

    def _next(self, process: ProcessId, drive: Drive) -> None:
        self._now.pop(process, None)
        self._made.discard(process)
        if self._left.get(process):
            ask = self._now[process] = self._left[process].pop(0)
            drive.ask(process, "acquire", after=max(0, ask.at - drive.now))

    def asked(self, process: ProcessId, request: str, drive: Drive) -> None:
        if request == "acquire":
            self._made.add(process)
        elif request == "write":
            self._visits.wrote(process, drive)
        elif request == "release":
            self._next(process, drive)

    def indicated(self, process: ProcessId, indication: Indication, drive: Drive) -> None:
        if isinstance(indication, Granted) and process in self._now:
            self._visits.begin(process, indication, self._now[process].hold, drive)

    def crashed(self, process: ProcessId) -> None:
        self._visits.end(process)
        overtaken = self._now.pop(process, None)
        if overtaken is not None and process not in self._made:
            self._left[process].insert(0, overtaken)

    def recovered(self, process: ProcessId, drive: Drive) -> None:
        self._next(process, drive)

    def is_done(self) -> bool:
        return not self._now
