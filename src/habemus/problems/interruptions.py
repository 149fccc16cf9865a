"""Applications that stop waiting, and leaders that step down, above any workload.

Clients of a live lock withdraw at their timeout, and a live node resigns when it shuts down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from habemus.core import Indication, ProcessId, Span
from habemus.core.application import Drive, Workload
from habemus.problems.mutex import Granted


class Resigning(NamedTuple):
    """A process that resigns, if it leads at that time."""

    process: ProcessId
    at: int


@dataclass
class InterruptedWorkload:
    """A workload with interruptions.

    give_up: how long an application waits for a lock; None: until it is granted.
    resignings: who resigns when, in favour of the next process.
    """

    workload: Workload
    give_up: Span | None = None
    resignings: Sequence[Resigning] = ()

    # the requests that wait, numbered: one that is made later is another one
    _waiting: dict[ProcessId, int] = field(default_factory=dict, init=False, repr=False)
    _made: int = field(default=0, init=False, repr=False)

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None:
        self._waiting, self._made = {}, 0
        self.workload.begin(clients, drive)
        for process, at in self.resignings:
            heir = clients[(clients.index(process) + 1) % len(clients)]
            drive.ask(process, "resign", heir, after=at, lasting=True)

    def asked(self, process: ProcessId, request: str, drive: Drive) -> None:
        if request == "acquire":
            self._made += 1
            self._waiting[process] = self._made
            if self.give_up is not None:
                waits = partial(self._waits, process, self._made)
                drive.ask(process, "release", after=self.give_up, only_if=waits)
        elif request == "release":
            self._waiting.pop(process, None)
        self.workload.asked(process, request, drive)

    def _waits(self, process: ProcessId, number: int) -> bool:
        return self._waiting.get(process) == number

    def indicated(self, process: ProcessId, indication: Indication, drive: Drive) -> None:
        if isinstance(indication, Granted):
            self._waiting.pop(process, None)
        self.workload.indicated(process, indication, drive)

    def crashed(self, process: ProcessId) -> None:
        self._waiting.pop(process, None)
        self.workload.crashed(process)

    def recovered(self, process: ProcessId, drive: Drive) -> None:
        self.workload.recovered(process, drive)

    def is_done(self) -> bool:
        return self.workload.is_done()
