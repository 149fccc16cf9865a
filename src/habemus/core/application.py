"""The application above the processes, which drives a run.

A workload sends requests to the processes and reacts to their indications, as a user's program
would.  It acts through a `Drive`, so the same workload can drive any runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from habemus.core.process import ProcessId, Span
from habemus.core.values import Indication


class Drive(Protocol):
    """The interface of a runtime to a workload."""

    @property
    def now(self) -> int: ...

    def ask(
        self,
        process: ProcessId,
        request: str,
        *arguments: Any,
        after: Span,
        lasting: bool = False,
        only_if: Callable[[], bool] | None = None,
    ) -> None:
        """Call a request of the process later, unless the process is down by then.

        A request that is not `lasting` is also dropped if the process crashes and recovers in the
        meantime, because the application that meant to ask has crashed with it.

        only_if: the condition under which the request is made, at its time.
        """


class Workload(Protocol):
    """The behaviour of the application.  The runtime calls its methods between handlers."""

    def begin(self, clients: tuple[ProcessId, ...], drive: Drive) -> None: ...

    def asked(self, process: ProcessId, request: str, drive: Drive) -> None:
        """React to a request that has just been made."""

    def indicated(self, process: ProcessId, indication: Indication, drive: Drive) -> None: ...

    def crashed(self, process: ProcessId) -> None: ...

    def recovered(self, process: ProcessId, drive: Drive) -> None: ...

    def is_done(self) -> bool:
        """Whether all requests have been made and answered."""
