"""The application above the processes: what drives a run.

A workload asks the processes for something and reacts to their indications, as a user's program
would. It is told what happens and acts through a `Drive`, so the same workload can drive any
runtime.
"""

from __future__ import annotations

from typing import Any, Protocol

from habemus.core.process import ProcessId, Span
from habemus.core.values import Indication


class Drive(Protocol):
    """What a runtime lets a workload do."""

    @property
    def now(self) -> int: ...

    def ask(
        self, process: ProcessId, request: str, *arguments: Any, after: Span, lasting: bool = False
    ) -> None:
        """Call a request of the process on top, later; nothing happens if it is down by then.

        Unless it is lasting, nothing happens either if it has crashed in the meantime and come
        back: the application that meant to ask has died with it.
        """


class Workload(Protocol):
    """The application's behaviour.  All methods are called by the runtime, never during a handler."""

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None: ...

    def asked(self, process: ProcessId, request: str, drive: Drive) -> None:
        """The request has just been made."""

    def indicated(self, process: ProcessId, indication: Indication, drive: Drive) -> None: ...

    def crashed(self, process: ProcessId) -> None: ...

    def recovered(self, process: ProcessId, drive: Drive) -> None: ...

    def is_done(self) -> bool:
        """Whether everything that was to be asked has been asked and answered."""
