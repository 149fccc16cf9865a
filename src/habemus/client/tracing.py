"""Spans of OpenTelemetry for acquiring and holding a lock, in programs that use it.

Nothing is imported here: if the program has imported `opentelemetry.trace`, its tracer is used.
`habemus.acquire` lasts from the request to the grant, as a child of the current span.
`habemus.hold` lasts from the grant to the release or the loss of the lock, which is an error.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from habemus.client.lease import RELEASED

if TYPE_CHECKING:
    from habemus.client.lease import Lease
    from habemus.client.protocol import AcquireRequest


TRACE = "opentelemetry.trace"
"""The module that a program imports to use OpenTelemetry."""


class LockSpans:
    """The spans of one lock: used by `with` around the request, then `hold` when it is granted."""

    def __init__(self, trace: Any, request: AcquireRequest) -> None:
        self._trace = trace
        self._tracer = trace.get_tracer("habemus")
        self._attributes: dict[str, str | int] = {
            "habemus.lock": request.name,
            "habemus.service": request.service,
        }
        self._acquiring: Any = None

    def __enter__(self) -> LockSpans:
        self._acquiring = self._tracer.start_as_current_span(
            "habemus.acquire", attributes=self._attributes
        )
        self._acquiring.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """End the span of the request; an exception becomes its error."""
        self._acquiring.__exit__(*error)

    def hold(self, lease: Lease) -> None:
        """Begin the span of the hold, which the end of the lease ends."""
        if lease.token is not None:
            self._attributes["habemus.token"] = lease.token
            self._trace.get_current_span().set_attribute("habemus.token", lease.token)
        span = self._tracer.start_span("habemus.hold", attributes=self._attributes)

        def end(why: str) -> None:
            if why != RELEASED:
                span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, why))
            span.end()

        lease._call_at_end(end)


def spans_of(request: AcquireRequest) -> LockSpans | None:
    """Return the spans of a request; None if the program does not use OpenTelemetry."""
    trace = sys.modules.get(TRACE)
    return None if trace is None else LockSpans(trace, request)
