"""The gRPC server that printer and client share: addresses, reflection, health and limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from habemus.printing.wire import distributed_printing_pb2 as pb2
from habemus.runtimes.live.cluster_file import Address
from habemus.runtimes.live.sockets import is_loopback

PRINTING, MUTUAL_EXCLUSION = (
    pb2.DESCRIPTOR.services_by_name[name] for name in ("PrintingService", "MutualExclusionService")
)

LARGEST_STAMP = (1 << 63) - (1 << 32)
"""A stamp has 63 bits on the wire, and a clock goes on from the largest that it has seen: this
leaves it room to tick.
"""
CALLS_AT_ONCE = 1_000
"""Most concurrent calls of one server; more are refused."""
MESSAGE_LIMIT = 1 << 20
"""Bytes."""

CHANNEL = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),  # peers are named by their addresses
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
)
"""Options of outgoing channels: a peer that restarts is found within a second."""


class CannotServe(ValueError):
    """Address on which the server cannot listen, or must not."""


def address(text: str) -> Address:
    """Parse `host:port`."""
    matched = re.fullmatch(r"(?:\[([0-9a-fA-F:.%]+)\]|([^\s:\[\]/=,]+)):([0-9]{1,5})", text.strip())
    if matched is None or not 0 < int(matched[3]) < 65_536:
        raise CannotServe(
            f"{text!r} is not an address; use for example 127.0.0.1:50051, host.example:50051"
            " or [::1]:50051"
        )
    return Address(matched[1] or matched[2], int(matched[3]))


def check_exposure(addresses: Iterable[Address], insecure: bool) -> None:
    """Raise CannotServe for addresses of other machines without --insecure.

    The protocol has neither encryption nor authentication.
    """
    for each in addresses:
        if not insecure and not is_loopback(each.host):
            raise CannotServe(
                f"{each} is not a loopback address, and the protocol has neither encryption nor"
                " authentication; use --insecure if every host that reaches it may print"
            )


def is_stamp(number: int) -> bool:
    """Return whether a Lamport clock can have this value."""
    return 0 <= number <= LARGEST_STAMP


class Server:
    """gRPC server of the named services, with reflection and health.  It has its port when it is
    made, and answers when it is started.
    """

    def __init__(
        self, at: Address, services: Mapping[str, Callable[[grpc.aio.Server], None]]
    ) -> None:
        # Without the first option two programs could listen on one port, and each would get some of
        # the calls.
        options = (("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", MESSAGE_LIMIT))
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=CALLS_AT_ONCE)
        for add in services.values():
            add(self._server)
        self._names = tuple(services)
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(
            (*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server
        )
        try:
            port = self._server.add_insecure_port(str(at))
        except RuntimeError:
            port = 0
        if not port:
            raise CannotServe(
                f"cannot listen on {at}: the port is in use, or the address is not local"
            )
        self.address = Address(at.host, port)

    async def start(self) -> None:
        await self._server.start()
        for name in (health.OVERALL_HEALTH, *self._names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace_seconds: float) -> None:
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_seconds)
