"""Mutual exclusion by a central coordinator.

One process keeps a queue and hands out the only permission there is.

Source   Coulouris et al., Distributed Systems, 5th ed., 15.2; lecture notes on coordination (queue
         and states).
Assumes  reliable links, in any order; neither the coordinator nor a process that waits or is inside
         crashes.
Cost     3 messages per entry: request, grant, release; 4 with the release acknowledged.
Ensures  ME1, ME2; entry in order of arrival, not of asking (no ME3).
Differs  A release from a process other than the holder is ignored; the notes free the resource on
         any release.
"""

from collections.abc import Sequence
from typing import Any

from habemus.core import Const, Message, ProcessId, System, upon, whenever
from habemus.core.assumptions import Assumptions, Crashes
from habemus.core.system import complete
from habemus.problems.mutex import Mutex, MutexCosts


class Request(Message):
    pass


class Grant(Message):
    pass


class Release(Message):
    pass


class Released(Message):
    pass


class Central(Mutex):
    name = "central"
    shows = ("holder", "waiting")
    assumes = Assumptions(crashes=Crashes.IDLE)

    coordinator: Const[ProcessId] = 0
    acknowledged: Const[bool] = False
    waits: bool = False  # this participant has asked and not been let in yet
    holder: ProcessId | None = None  # who is inside, as the coordinator sees it
    waiting: list[ProcessId] = []  # who comes next, in order of arrival

    # A participant.

    def acquire(self) -> None:
        self.waits = True
        self.send(Request(), to=self.coordinator)

    @upon(Grant)
    def enter(self, sender: ProcessId, _: Grant) -> None:
        self.waits = False
        self.granted()

    def release(self) -> None:
        self.send(Release(), to=self.coordinator)

    @upon(Released)
    def know_it_is_free(self, sender: ProcessId, _: Released) -> None:
        pass

    # The coordinator.

    @upon(Request)
    def enqueue(self, sender: ProcessId, _: Request) -> None:
        self.waiting.append(sender)

    @upon(Release)
    def vacate(self, sender: ProcessId, _: Release) -> None:
        if sender == self.holder:
            self.holder = None
        if self.acknowledged:
            self.send(Released(), to=sender)

    def is_free_and_wanted(self) -> bool:
        return self.holder is None and bool(self.waiting)

    @whenever(is_free_and_wanted)
    def admit_next(self) -> None:
        self.holder = self.waiting.pop(0)
        self.send(Grant(), to=self.holder)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        if self.me == self.coordinator:
            return [self.holder] if self.holder is not None else []
        return [self.coordinator] if self.waits else []

    def costs(self, size: int) -> MutexCosts:
        return MutexCosts(messages=4 if self.acknowledged else 3, client_delay=2, sync_delay=2)

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return participants 1 to N and the coordinator 0, unless one of the participants is to be
        the coordinator.
        """
        plan = cls(**options)
        participants = range(1, size + 1)
        everybody = sorted({plan.coordinator, *participants})
        return System(
            dict.fromkeys(everybody, plan),
            complete(everybody),
            tuple(participants),
            {plan.coordinator: "coordinator"},
        )
