"""The application of a run: passes requests of the workload on, and ends the run with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from habemus.core.application import Workload
from habemus.core.process import ProcessId, Span
from habemus.runtimes.sim.calendar import Calendar
from habemus.runtimes.sim.network import Network

Ask: TypeAlias = tuple[ProcessId, str, tuple[Any, ...], int | None]
"""Control: process, request, arguments, and in which of its lives (None: any).

The most frequent control event by far, so it is a plain tuple.
"""


class AskIf(NamedTuple):
    """Control: ask, if a condition holds at that moment."""

    ask: Ask
    is_due: Callable[[], bool]


class Stop(NamedTuple):
    """Control: end the run, unless a crashed process will recover and ask again."""

    reason: str
    run: int | None = None  # the call of run() that it belongs to; None: any


class Application:
    """The workload of a run, or none, and what it may do: a `habemus.core.application.Drive`."""

    __slots__ = ("_calendar", "_grace", "_is_begun", "is_stopping", "lives", "workload")

    def __init__(
        self,
        workload: Workload | None,
        processes: tuple[ProcessId, ...],
        calendar: Calendar,
        network: Network,
    ) -> None:
        self.workload = workload
        self.lives = dict.fromkeys(processes, 0)  # how often each process has crashed
        self._calendar = calendar
        self._grace = 10 * max(network.delay.longest, 1)  # lets the last messages arrive
        self._is_begun = False
        self.is_stopping = False

    @property
    def now(self) -> int:
        return self._calendar.now

    def ask(
        self,
        process: ProcessId,
        request: str,
        *arguments: Any,
        after: Span,
        lasting: bool = False,
        only_if: Callable[[], bool] | None = None,
    ) -> None:
        """Schedule a request; see `habemus.core.application.Drive`."""
        delay = after if after.__class__ is int else self._calendar.draw(after)
        life = None if lasting else self.lives[process]
        ask: Ask = (process, request, arguments, life)
        self._calendar.schedule(delay, ask if only_if is None else AskIf(ask, only_if))

    def begin(self, clients: tuple[ProcessId, ...]) -> None:
        if self.workload is not None:
            self.workload.begin(clients, self)
            self._is_begun = True
            self.stop_if_done()

    def crashed(self, process: ProcessId) -> None:
        self.lives[process] += 1
        if self.workload is not None:
            self.workload.crashed(process)
            self.stop_if_done()

    def recovered(self, process: ProcessId) -> None:
        if self.workload is not None:
            self.workload.recovered(process, self)
            self.stop_if_done()

    def stop_if_done(self) -> None:
        workload = self.workload
        if self._is_begun and not self.is_stopping and workload is not None and workload.is_done():
            self.schedule_stop()

    def schedule_stop(self) -> None:
        self.is_stopping = True
        self._calendar.schedule(self._grace, Stop("done"))

    def keeps_going(self, *, recoveries_are_due: bool) -> bool:
        """Whether the run continues: a process has recovered and asks again, or will."""
        if self.workload is None or (self.workload.is_done() and not recoveries_are_due):
            return False
        self.is_stopping = False
        return True

    def continue_after_stop(self) -> None:
        """Let the run go on after its end, for as long as the last messages may take."""
        self.is_stopping = False
        self.stop_if_done()

    def reset(self) -> None:
        self._is_begun = self.is_stopping = False
        self.lives.update(dict.fromkeys(self.lives, 0))
