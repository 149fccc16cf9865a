"""The monitoring of one node: its meter, its pages, and the log of lost leases.

Pages, on an address of their own: `/metrics` for Prometheus; `/livez` answers 200 while the node
works at all, and should be restarted otherwise; `/readyz` answers 200 while clients can get locks
here and no lock would be lost with another node, and 503 with the reason otherwise.
"""

from __future__ import annotations

import asyncio
import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING

from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.log_limits import RateLimitedLog
from habemus.runtimes.live.monitoring.http_server import MonitoringServer, Page, PageSource
from habemus.runtimes.live.monitoring.logs import details
from habemus.runtimes.live.monitoring.meter import Meter
from habemus.runtimes.live.peers.tls import TlsContexts
from habemus.runtimes.live.sockets import is_loopback

if TYPE_CHECKING:
    from habemus.runtimes.live.clients.lock_queues import ClientRequest
    from habemus.runtimes.live.hosting.node import Node
    from habemus.runtimes.live.hosting.steps import Steps

TICK_SECONDS = 0.25
"""How often the delay of the event loop is measured."""


class Monitor:
    """Measures a node, if its settings ask for metrics, and logs what happens to its clients."""

    def __init__(self, node: Node, limited_log: RateLimitedLog) -> None:
        self._node = node
        self._limited_log = limited_log
        is_asked = node.settings.metrics is not None
        self.meter = Meter(node.lock_queues.locks) if is_asked else None
        self.address: Address | None = None
        self._server: MonitoringServer | None = None
        self._tick: asyncio.TimerHandle | None = None
        node.lock_queues.meter = self.meter
        node.lock_queues.lost = self._log_loss

    async def start(self, steps: Steps) -> None:
        """Serve the pages, if there is an address for them."""
        bind, meter = self._node.settings.metrics, self.meter
        if bind is None or meter is None:
            return
        from habemus.runtimes.live.monitoring.metrics import CONTENT_TYPE_LATEST, NodeMetrics

        metrics = NodeMetrics(self._node, meter)

        async def scraped() -> Page:
            return Page(HTTPStatus.OK, await metrics.text(), CONTENT_TYPE_LATEST)

        steps.measure(meter)
        self._server = MonitoringServer(
            {
                "/metrics": PageSource(scraped, is_public=False),
                "/livez": PageSource(self._livez),
                "/readyz": PageSource(self._readyz),
            },
            self._node.counts,
            self._limited_log,
            None if is_loopback(bind.host) else self._context(self._node.settings.tls),
        )
        self.address = await self._server.listen(bind)
        self._measure_loop(meter)

    @staticmethod
    def _context(tls: TlsContexts | None) -> ssl.SSLContext | None:
        return None if tls is None else tls.monitoring

    def use(self, tls: TlsContexts) -> None:
        """Use new certificates for new connections."""
        if self._server is not None and self._server.is_secured:
            self._server.use(tls.monitoring)

    async def close(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
        if self._server is not None:
            await self._server.close()

    async def _livez(self) -> Page:
        is_live = not self._node.failure.done()
        status = HTTPStatus.OK if is_live else HTTPStatus.SERVICE_UNAVAILABLE
        return Page(status, b"ok\n" if is_live else b"the node has failed; see its log\n")

    async def _readyz(self) -> Page:
        reasons = self._node.impediments()
        if reasons:
            return Page(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join([*reasons, ""]).encode())
        return Page(HTTPStatus.OK, b"ok\n")

    def _measure_loop(self, meter: Meter) -> None:
        """Measure how late the event loop is with a timer, again and again."""
        loop = asyncio.get_running_loop()

        def measure(due: float) -> None:
            late = max(0.0, loop.time() - due)
            meter.loop_delays.observe(round(late * 1e6))
            again()

        def again() -> None:
            due = loop.time() + TICK_SECONDS
            self._tick = loop.call_at(due, measure, due)

        again()

    def _log_loss(self, request: ClientRequest, cause: str, why: str) -> None:
        lock = request.held_lock
        name = "" if lock is None else lock.name
        if self.meter is not None:
            self.meter.lost_leases[cause] += 1
        self._limited_log.info(
            "client %s lost lock %r: %s",
            request.session.label,
            name,
            why,
            extra=details("lost", client=request.session.label, lock=name, cause=cause),
        )
