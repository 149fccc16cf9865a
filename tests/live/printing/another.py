"""A client as others would write it, from the description of the wire alone: gRPC, threads, and
nothing of habemus.

    another.py ID PORT ID=HOST:PORT,... PRINTER JOBS GIVE_UP_SECONDS [counting]

It counts a call that fails or takes too long as a reply, as such programs do.  Before its first job
it waits until all others listen, for else it would take them for dead.  It says `ready`, `asks K`,
`holds K`, `printed K`, a line each, and stays until its standard input ends.

With `counting` it speaks another dialect: a peer that has to wait is answered `access_granted =
false`, and the release notice is its permission.  It counts permissions, and enters when there are
as many as peers.
"""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "distributed_printing"
INT32, INT64, STRING, BOOL = 5, 3, 9, 8
FIELDS = {
    "Job": (
        ("client_id", INT32),
        ("message_content", STRING),
        ("lamport_timestamp", INT64),
        ("request_number", INT32),
    ),
    "Receipt": (("success", BOOL), ("confirmation_message", STRING), ("lamport_timestamp", INT64)),
    "Access": (("client_id", INT32), ("lamport_timestamp", INT64), ("request_number", INT32)),
    "Answer": (("access_granted", BOOL), ("lamport_timestamp", INT64)),
    "Nothing": (),
}


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="another.proto", package=f"another.{PACKAGE}", syntax="proto3"
    )
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, start=1):
            message.field.add(name=field, number=number, type=kind, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"another.{PACKAGE}.{name}")
        )
        for name in FIELDS
    }


MESSAGES = _messages()
Job, Receipt, Access, Answer, Nothing = (MESSAGES[name] for name in FIELDS)


def method(channel: grpc.Channel, service: str, name: str, answer: Any) -> Any:
    return channel.unary_unary(
        f"/{PACKAGE}.{service}/{name}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=answer.FromString,
    )


def serving(
    port: int, service: str, methods: dict[str, tuple[Any, Any]], threads: int = 32
) -> tuple[grpc.Server, int]:
    """A server in threads; each method has a function of its message, and that message's type."""
    server = grpc.server(ThreadPoolExecutor(threads), options=(("grpc.so_reuseport", 0),))
    handlers: dict[str, Any] = {
        name: grpc.unary_unary_rpc_method_handler(
            lambda message, _context, act=act: act(message),
            request_deserializer=kind.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
        for name, (act, kind) in methods.items()
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(f"{PACKAGE}.{service}", handlers),)
    )
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, port


class Another:
    def __init__(
        self, me: int, port: int, peers: dict[int, str], printer: str, give_up: float
    ) -> None:
        self.me = me
        self.give_up = give_up
        self.lock = threading.Condition()
        self.state, self.clock, self.stamp, self.number = "RELEASED", 0, 0, 0
        self.channels = {peer: grpc.insecure_channel(place) for peer, place in peers.items()}
        self.printer = grpc.insecure_channel(printer)
        self.calls = ThreadPoolExecutor(32)
        methods = {"RequestAccess": (self.asked, Access), "ReleaseAccess": (self.told, Access)}
        self.server, self.port = serving(port, "MutualExclusionService", methods)

    def asked(self, request: Any) -> Any:
        with self.lock:
            self.clock = max(self.clock, request.lamport_timestamp) + 1
            its = (request.lamport_timestamp, request.client_id)
            while self.state == "HELD" or (self.state == "WANTED" and (self.stamp, self.me) < its):
                self.lock.wait()
            return Answer(access_granted=True, lamport_timestamp=self.clock)

    def told(self, release: Any) -> Any:
        with self.lock:
            self.clock = max(self.clock, release.lamport_timestamp) + 1
        return Nothing()

    def ask(self, channel: grpc.Channel, request: Any) -> None:
        try:
            answer = method(channel, "MutualExclusionService", "RequestAccess", Answer)(
                request, timeout=self.give_up
            )
        except grpc.RpcError:
            return  # "dead": counted as a reply
        with self.lock:
            self.clock = max(self.clock, answer.lamport_timestamp) + 1

    def enter(self, request: Any) -> None:
        list(self.calls.map(lambda channel: self.ask(channel, request), self.channels.values()))

    def print(self, text: str) -> None:
        with self.lock:
            self.clock += 1
            self.number += 1
            self.state, self.stamp = "WANTED", self.clock
        say(f"asks {self.number}")
        self.enter(
            Access(client_id=self.me, lamport_timestamp=self.stamp, request_number=self.number)
        )
        with self.lock:
            self.state = "HELD"
        say(f"holds {self.number}")
        job = Job(
            client_id=self.me,
            message_content=text,
            lamport_timestamp=self.clock,
            request_number=self.number,
        )
        receipt = method(self.printer, "PrintingService", "SendToPrinter", Receipt)(job)
        with self.lock:
            self.clock = max(self.clock, receipt.lamport_timestamp) + 1
            self.state = "RELEASED"
            release = Access(
                client_id=self.me, lamport_timestamp=self.clock, request_number=self.number
            )
            self.lock.notify_all()
        for channel in self.channels.values():
            method(channel, "MutualExclusionService", "ReleaseAccess", Nothing).future(release)
        say(f"printed {self.number}")


class Counting(Another):
    """The dialect in which every release is a permission.  It says `permission K` for each."""

    permissions = 0

    def asked(self, request: Any) -> Any:
        with self.lock:
            self.clock = max(self.clock, request.lamport_timestamp) + 1
            its = (request.lamport_timestamp, request.client_id)
            waits = self.state == "HELD" or (self.state == "WANTED" and (self.stamp, self.me) < its)
            return Answer(access_granted=not waits, lamport_timestamp=self.clock)

    def told(self, release: Any) -> Any:
        self.permit()
        return super().told(release)

    def ask(self, channel: grpc.Channel, request: Any) -> None:
        answer = method(channel, "MutualExclusionService", "RequestAccess", Answer)(request)
        if answer.access_granted:
            self.permit()

    def permit(self) -> None:
        with self.lock:
            if self.state == "WANTED":
                self.permissions += 1
                say(f"permission {self.permissions}")
                self.lock.notify_all()

    def enter(self, request: Any) -> None:
        for channel in self.channels.values():
            self.calls.submit(self.ask, channel, request)
        with self.lock:
            self.lock.wait_for(lambda: self.permissions >= len(self.channels))
            self.permissions = 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(
    me: str, port: str, peers: str, printer: str, jobs: str, give_up: str, dialect: str = ""
) -> None:
    others = {int(who): place for who, place in (each.split("=") for each in peers.split(","))}
    client = (Counting if dialect else Another)(int(me), int(port), others, printer, float(give_up))
    say("ready")
    for channel in client.channels.values():
        grpc.channel_ready_future(channel).result(60)
    if dialect:
        sys.stdin.readline()  # told to begin
    for number in range(1, int(jobs) + 1):
        client.print(f"page {number} of {me}")
    sys.stdin.read()
    client.server.stop(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
