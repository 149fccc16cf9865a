"""Mutual exclusion: the interface of every mutex, and the applications that use one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from habemus.core import Indication, Process, ProcessId, Span, System, Timer, request
from habemus.core.application import Drive
from habemus.core.system import complete


class Granted(Indication):
    """The process has entered the critical section."""


class Resumed(Indication):
    """An application that has entered at another process goes on at this one."""


class MutexCosts(NamedTuple):
    """Costs of one uncontended entry and exit by the formula.  None: it depends.

    messages: the number of messages; not a whole number if it is an average over participants that
        pay differently.
    client_delay: the time from the request to the entry, in message times.
    sync_delay: the time from one exit to the next entry while others wait, in message times.
    """

    messages: float | None = None
    client_delay: int | None = None
    sync_delay: int | None = None


def average(total: int, entries: int) -> float:
    """Return an average, rounded as measurements are, so that the two can be compared."""
    return round(total / entries, 6)


class Mutex(Process):
    """Base class of algorithms for mutual exclusion."""

    indications: ClassVar[tuple[type[Indication], ...]] = (Granted,)
    name: ClassVar[str] = ""
    """Name of the algorithm in the catalog."""
    largest: ClassVar[int] = 3_000
    """Largest number of participants of a run.  Each knows all others, so memory grows with the
    square.
    """
    upkeep: ClassVar[tuple[str, ...]] = ()
    """Names of the messages that no entry causes.  They are counted separately, like those of
    components other than links.
    """
    duration: ClassVar[int | None] = None
    """Default duration of a run after its last fault, where the processes never become idle."""
    withdraws: ClassVar[bool] = False
    """Whether a release before the grant cancels the request.  Processes of other algorithms must
    enter before they can leave.
    """

    can_move: ClassVar[bool] = False
    """Whether an application that is inside can go on at another process: by the requests `move`,
    or `break_off`, and there `claim`.
    """

    sees_waiters: ClassVar[bool] = False
    """True if the process inside learns that others wait to enter."""

    @request
    @abstractmethod
    def acquire(self) -> None:
        """Request entry.  The application requests once and then waits for `Granted`."""

    @request
    @abstractmethod
    def release(self) -> None:
        """Leave the critical section."""

    @request
    def write(self, term: int, count: int) -> None:
        """Record that the application writes to the resource with its token.  The algorithm takes
        no part in it.

        term, count: the two parts of the token.
        """

    def runs_out(self) -> Timer | None:
        """Return the timer at whose expiry the process loses the lock unless it renews it; None
        where grants do not expire.
        """
        return None

    def is_wanted(self) -> bool:
        """Return whether this process knows that others wait for the lock it holds."""
        return False

    def confirmed_members(self) -> tuple[int, int] | None:
        """Return the term and version of the members that have recorded all that this process, as
        the coordinator, relies on.  None if there are none, or members do not change.
        """
        return None

    def granted(self) -> None:
        """Let the application enter."""
        self.indicate(Granted())

    def costs(self, size: int) -> MutexCosts:
        """Return the costs by formula for a number of participants; measurements must equal it."""
        return MutexCosts()

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return participants 1 to N, all of the same plan and all connected to each other."""
        plan = cls(**options)
        participants = range(1, size + 1)
        return System(
            dict.fromkeys(participants, plan), complete(participants), tuple(participants)
        )


@dataclass
class Visits:
    """Stays of applications inside.  An application with a token writes on entry and before it
    leaves.

    moves: how often an application goes on at the next process, each time after its stay there.
    """

    moves: int = 0
    clients: tuple[ProcessId, ...] = ()
    lined_up: Callable[[ProcessId], bool] = lambda _: False
    """Whether the next request of a process waits there already when the application leaves."""

    # by the tokens of applications that move, how often they have moved
    _moved: dict[tuple[int, int], int] = field(default_factory=dict, init=False)
    guests: set[ProcessId] = field(default_factory=set, init=False)
    """Processes at which an application is inside that entered at another one."""
    _tokens: dict[ProcessId, tuple[int, int]] = field(default_factory=dict, init=False)
    # durations of the stays in which nothing was written yet
    _holds: dict[ProcessId, Span] = field(default_factory=dict, init=False)

    def begin(
        self, process: ProcessId, indication: Granted | Resumed, hold: Span, drive: Drive
    ) -> None:
        token = getattr(indication, "token", None)  # only some locks give one
        if token is None:
            drive.ask(process, "release", after=hold)
        else:
            self._tokens[process] = token
            self._holds[process] = hold
            drive.ask(process, "write", *token, after=0)

    def resume(self, process: ProcessId, indication: Resumed, hold: Span, drive: Drive) -> None:
        """Begin the stay of a guest."""
        self.guests.add(process)
        self.begin(process, indication, hold, drive)

    def wrote(self, process: ProcessId, drive: Drive) -> None:
        if process in self._holds and self._moved.get(self._tokens[process], 0) < self.moves:
            place = self.clients.index(process) + 1
            to = self.clients[place % len(self.clients)]
            drive.ask(process, "move", to, after=self._holds.pop(process))
        elif process in self._holds:
            drive.ask(process, "write", *self._tokens[process], after=self._holds.pop(process))
        elif self._tokens.pop(process, None) is not None:
            drive.ask(process, "line_up" if self.lined_up(process) else "release", after=0)

    def move(self, process: ProcessId) -> bool:
        """End the stay of an application that moves; return whether it was a guest."""
        token = self._tokens.get(process)
        if token is not None:
            self._moved[token] = self._moved.get(token, 0) + 1
        return self.end(process)

    def end(self, process: ProcessId) -> bool:
        """End a stay; return whether it was that of a guest."""
        if not self._tokens and not self.guests:  # mostly so where locks give no tokens
            return False
        self._tokens.pop(process, None)
        self._holds.pop(process, None)
        is_guest = process in self.guests
        self.guests.discard(process)
        return is_guest


@dataclass
class Clients:
    """Clients that request a number of times: each thinks, requests, stays inside and leaves."""

    rounds: int = 1
    think: Span = (0, 10_000)
    hold: Span = 1_000
    moves: int = 0
    lines_up: bool = False
    """A request that follows without thinking waits at the process already."""

    _left: dict[ProcessId, int] = field(default_factory=dict, init=False, repr=False)
    _busy: set[ProcessId] = field(default_factory=set, init=False, repr=False)
    # clients whose next request is still to come
    _thinking: set[ProcessId] = field(default_factory=set, init=False, repr=False)
    _visits: Visits = field(default_factory=Visits, init=False, repr=False)

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None:
        self._visits = Visits(self.moves, clients, self._is_lined_up)
        self._left = dict.fromkeys(clients, self.rounds)
        self._busy = set()
        self._thinking = set()
        for client in clients:
            if self._next(client, drive):
                self._busy.add(client)

    def _is_lined_up(self, client: ProcessId) -> bool:
        return self.lines_up and self.think == 0 and self._left[client] > 0

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
        elif request in ("release", "move"):
            visits = self._visits
            is_guest = visits.end(process) if request == "release" else visits.move(process)
            if not is_guest and not self._next(process, drive):
                self._busy.discard(process)
        elif request == "write":
            self._visits.wrote(process, drive)
        elif request == "line_up":
            drive.ask(process, "release", after=0)

    def indicated(self, process: ProcessId, indication: Indication, drive: Drive) -> None:
        if isinstance(indication, Granted):
            self._visits.begin(process, indication, self.hold, drive)
        elif isinstance(indication, Resumed):
            self._visits.resume(process, indication, self.hold, drive)

    def crashed(self, process: ProcessId) -> None:
        self._busy.discard(process)
        self._visits.end(process)
        if process in self._thinking:
            self._thinking.discard(process)
            self._left[process] += 1  # the request that the crash preceded is still to be made

    def recovered(self, process: ProcessId, drive: Drive) -> None:
        if process in self._left and self._next(process, drive):
            self._busy.add(process)

    def is_done(self) -> bool:
        return not self._busy and not self._visits.guests


class InTurn(Clients):
    """Clients that request one after the other, so that there is no contention.

    Each requests when the last one has left and its messages have arrived.
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
    """One request of a script: its process, earliest time, and duration of the stay inside."""

    process: ProcessId
    at: int
    hold: int = 1_000


@dataclass
class Script:
    """Workload of given requests; those of one process are made one after the other."""

    asks: Iterable[Ask]
    moves: int = 0

    _left: dict[ProcessId, list[Ask]] = field(default_factory=dict, init=False, repr=False)
    _now: dict[ProcessId, Ask] = field(default_factory=dict, init=False, repr=False)
    # processes whose present request has been made
    _made: set[ProcessId] = field(default_factory=set, init=False, repr=False)
    _visits: Visits = field(default_factory=Visits, init=False, repr=False)

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None:
        self._visits = Visits(self.moves, clients)
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
        elif request in ("release", "move"):
            visits = self._visits
            is_guest = (visits.end if request == "release" else visits.move)(process)
            if not is_guest:
                self._next(process, drive)

    def indicated(self, process: ProcessId, indication: Indication, drive: Drive) -> None:
        if isinstance(indication, Granted) and process in self._now:
            self._visits.begin(process, indication, self._now[process].hold, drive)
        elif isinstance(indication, Resumed):
            self._visits.resume(process, indication, 1_000, drive)

    def crashed(self, process: ProcessId) -> None:
        self._visits.end(process)
        overtaken = self._now.pop(process, None)
        if overtaken is not None and process not in self._made:
            self._left[process].insert(0, overtaken)

    def recovered(self, process: ProcessId, drive: Drive) -> None:
        self._next(process, drive)

    def is_done(self) -> bool:
        return not self._now and not self._visits.guests
