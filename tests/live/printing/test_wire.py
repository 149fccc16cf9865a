"""What clients of ours say on the wire, and what they do when somebody else says what he should
not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from tests.live.conftest import PATIENCE
from tests.ports import reserved_ports

from habemus.algorithms.mutex.ricart_agrawala import HELD, RELEASED, WANTED
from habemus.core.properties import Verdict
from habemus.deployment.services import judged, replayed
from habemus.printing import client as client_module
from habemus.printing.client import Printed, PrintingClient, is_up
from habemus.printing.group import Group
from habemus.printing.printer import Printer
from habemus.printing.serving import LARGEST_STAMP
from habemus.printing.transport import NUMBER
from habemus.printing.wire import distributed_printing_pb2 as pb2
from habemus.printing.wire import distributed_printing_pb2_grpc as stubs
from habemus.runs.setup import Setup
from habemus.runtimes.live.cluster_file import Address
from habemus.scenarios import find
from habemus.traces import Trace
from habemus.traces.merge import merge, read_record

HUGE = (1 << 63) - 1


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.001)


def perform(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(play(), PATIENCE))


class Press:
    """A printer whose jobs end when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[pb2.PrintRequest] = []
        self.sheets = asyncio.Semaphore(0)
        self.success = True

    async def SendToPrinter(self, job: pb2.PrintRequest, _context: Any) -> pb2.PrintResponse:
        self.jobs.append(job)
        await self.sheets.acquire()
        return pb2.PrintResponse(
            success=self.success, confirmation_message="done", lamport_timestamp=HUGE
        )


class Peer:
    """A peer that does what the test says: it answers with what `answers` gives."""

    def __init__(self) -> None:
        self.asked: list[pb2.AccessRequest] = []
        self.released: list[pb2.AccessRelease] = []
        self.answers: asyncio.Queue[pb2.AccessResponse] = asyncio.Queue()

    async def RequestAccess(self, asked: pb2.AccessRequest, _context: Any) -> pb2.AccessResponse:
        self.asked.append(asked)
        return await self.answers.get()

    async def ReleaseAccess(self, left: pb2.AccessRelease, _context: Any) -> Any:
        self.released.append(left)
        return stubs.google_dot_protobuf_dot_empty__pb2.Empty()

    def grant(self, stamp: int) -> None:
        self.answers.put_nowait(pb2.AccessResponse(access_granted=True, lamport_timestamp=stamp))

    def refuse(self) -> None:
        self.answers.put_nowait(pb2.AccessResponse(access_granted=False, lamport_timestamp=HUGE))


class Stage:
    """Everything of one test in one event loop; what was begun is ended with it."""

    def __init__(self) -> None:
        self.press = Press()
        self.told: list[tuple[str, dict[str, Any]]] = []
        self._endings: list[Callable[[], Awaitable[Any]]] = []
        self.printer_port = 0

    async def __aenter__(self) -> Stage:
        self.printer_port = await self.serve(
            lambda server: stubs.add_PrintingServiceServicer_to_server(self.press, server)
        )
        return self

    async def end_printer(self) -> None:
        await self._endings.pop(0)()

    async def __aexit__(self, *_: object) -> None:
        for end in reversed(self._endings):
            await end()

    async def serve(self, add: Callable[[grpc.aio.Server], None], port: int = 0) -> int:
        server = grpc.aio.server()
        add(server)
        port = server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        self._endings.append(lambda: server.stop(0))
        return port

    async def peer(self, port: int = 0) -> tuple[Peer, int]:
        made = Peer()
        return made, await self.serve(
            lambda server: stubs.add_MutualExclusionServiceServicer_to_server(made, server), port
        )

    async def client(
        self,
        me: int,
        port: int,
        peers: dict[int, int],
        record: Path | None = None,
        setup: Setup | None = None,
    ) -> PrintingClient:
        group = Group(
            me, {peer: Address("127.0.0.1", at) for peer, at in peers.items()}, setup=setup
        )
        made = PrintingClient(
            group,
            Address("127.0.0.1", port),
            Address("127.0.0.1", self.printer_port),
            self.tell,
            record,
        )
        await made.start()
        self._endings.append(made.stop)
        return made

    async def trio(
        self, record: Path | None = None, setup: Setup | None = None
    ) -> list[PrintingClient]:
        ports = dict(zip((1, 2, 3), reserved_ports(3), strict=True))
        others = {me: {peer: port for peer, port in ports.items() if peer != me} for me in ports}
        return [await self.client(me, ports[me], others[me], record, setup) for me in ports]

    def tell(self, what: str, /, **fields: Any) -> None:
        self.told.append((what, fields))

    def was_told(self, what: str) -> bool:
        return any(each == what for each, _ in self.told)

    def begin(self, client: PrintingClient, text: str) -> asyncio.Task[Printed]:
        task = asyncio.get_running_loop().create_task(client.print(text))
        self._endings.append(lambda: _ended(task))
        return task

    def stub(self, client: PrintingClient) -> Any:
        channel = grpc.aio.insecure_channel(str(client.address))
        self._endings.append(channel.close)
        return stubs.MutualExclusionServiceStub(channel)


async def _ended(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait((task,))


def access(client: int, stamp: int, number: int = 1) -> pb2.AccessRequest:
    return pb2.AccessRequest(client_id=client, lamport_timestamp=stamp, request_number=number)


# The worked example.


class Relay:
    """The way from A to C, which opens when the test says so: B's reply must come first."""

    def __init__(self, to: int) -> None:
        self.opened = asyncio.Event()
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{to}")
        self.stub = stubs.MutualExclusionServiceStub(self.channel)

    async def RequestAccess(self, asked: pb2.AccessRequest, context: Any) -> Any:
        await self.opened.wait()
        call = self.stub.RequestAccess(asked, metadata=_numbers(context.invocation_metadata()))
        answer = await call
        context.set_trailing_metadata(_numbers(await call.trailing_metadata()))
        return answer

    async def ReleaseAccess(self, left: pb2.AccessRelease, context: Any) -> Any:
        return await self.stub.ReleaseAccess(left, metadata=_numbers(context.invocation_metadata()))


def _numbers(metadata: Any) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in metadata or () if key == NUMBER)


def sent(trace: Trace) -> dict[int, list[tuple[str, Any, int | None]]]:
    """By process, in order: what it sent, with the stamps, and to whom."""
    return {
        process: [
            (event.name, dict(event.fields()), event.peer)
            for event in trace.events
            if event.process == process and event.kind == "send"
        ]
        for process in trace.processes
    }


def test_the_worked_example_has_the_stamps_of_the_simulator(tmp_path: Path) -> None:
    scenario = find("ra-three")
    setup = replace(
        Setup("ricart-agrawala", 3),
        **{name: getattr(scenario.setup, name) for name in ("options", "initial", "labels")},
    )

    async def play() -> None:
        async with Stage() as stage:
            ports = reserved_ports(3)
            relay = Relay(ports[2])
            relay_port = await stage.serve(
                lambda server: stubs.add_MutualExclusionServiceServicer_to_server(relay, server)
            )
            a = await stage.client(1, ports[0], {2: ports[1], 3: relay_port}, tmp_path, setup)
            b = await stage.client(2, ports[1], {1: ports[0], 3: ports[2]}, tmp_path, setup)
            c = await stage.client(3, ports[2], {1: ports[0], 2: ports[1]}, tmp_path, setup)
            assert [each.process.clock for each in (a, b, c)] == [5, 3, 7]
            printing = [stage.begin(a, "of A")]
            await until(lambda: a.process.missing == {3})
            relay.opened.set()
            await until(lambda: len(stage.press.jobs) == 1)
            printing.append(stage.begin(b, "of B"))
            await until(lambda: a.process.deferred == {2} and b.process.missing == {1})
            assert (a.process.clock, c.process.clock) == (10, 9)
            stage.press.sheets.release()
            await until(
                lambda: b.process.clock == 13 and c.process.clock == 12
            )  # both have the notice, and B the reply
            stage.press.sheets.release()
            done = await asyncio.gather(*printing)
            assert [each.stamp for each in done] == [6, 8]
            await until(lambda: a.process.clock == c.process.clock == 15)
            await relay.channel.close()

    perform(play)
    trace = merge([read_record(file) for file in sorted(tmp_path.glob("*.jsonl"))])
    simulated = scenario.run().report.trace
    assert simulated is not None
    assert sent(trace) == sent(simulated)
    assert [message for message, _, _ in sent(trace)[1]] == [
        "Request",
        "Request",
        "Reply",
        "Release",
        "Release",
    ]
    report = judged(trace)
    assert report.verdict is Verdict.HOLDS
    assert {finding.name: finding.verdict for finding in report.findings}["ME3"] is Verdict.HOLDS
    assert replayed(trace) > 10
    assert trace.labels == {1: "A", 2: "B", 3: "C"}


# Deferred replies are calls that do not return.


def test_a_call_is_held_until_the_callee_has_left() -> None:
    async def play() -> None:
        async with Stage() as stage:
            peer, port = await stage.peer()
            client = await stage.client(1, 0, {2: port})
            printing = stage.begin(client, "page")
            await until(lambda: len(peer.asked) == 1)
            peer.grant(4)
            await until(lambda: len(stage.press.jobs) == 1)
            assert client.process.state == HELD
            stub = stage.stub(client)
            given_up = stub.RequestAccess(access(2, 6))
            await until(lambda: client.process.clock == 7)
            given_up.cancel()
            held = stub.RequestAccess(access(2, 7))
            await until(lambda: client.process.clock == 8)
            assert client.process.deferred == {2} and not held.done()
            stage.press.sheets.release()
            answer = await held
            assert answer.access_granted and answer.lamport_timestamp == 9
            assert (await printing).success
            assert client.process.clock == 9  # the printer's stamp is not of the algorithm
            await until(lambda: len(peer.released) == 1)
            assert (peer.released[0].client_id, peer.released[0].lamport_timestamp) == (1, 9)

    perform(play)


def test_a_request_goes_out_once_and_its_numbers_are_counted() -> None:
    async def play() -> None:
        async with Stage() as stage:
            peer, port = await stage.peer()
            client = await stage.client(7, 0, {2: port})
            for number in (1, 2):
                peer.grant(0)
                stage.press.sheets.release()
                assert (await client.print(f"page {number}")).request == number
            assert [
                (each.client_id, each.lamport_timestamp, each.request_number) for each in peer.asked
            ] == [(7, 1, 1), (7, 4, 2)]
            assert [
                (each.client_id, each.message_content, each.request_number)
                for each in stage.press.jobs
            ] == [
                (7, "page 1", 1),
                (7, "page 2", 2),
            ]

    perform(play)


# What nobody in the group can have sent.


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (access(9, 5), "unknown"),
        (access(-1, 5), "unknown"),
        (access(1, 5), "same-id"),
        (access(2, -1), "strange-stamp"),
        (access(2, -(1 << 63)), "strange-stamp"),
        (access(2, LARGEST_STAMP + 1), "strange-stamp"),
        (access(2, HUGE), "strange-stamp"),
    ],
)
def test_what_cannot_come_from_the_group_is_refused_and_changes_nothing(
    asked: pb2.AccessRequest, complaint: str
) -> None:
    async def play() -> None:
        async with Stage() as stage:
            peer, port = await stage.peer()
            client = await stage.client(1, 0, {2: port})
            stub = stage.stub(client)
            before = client.process.clock
            for _ in range(3):
                answer = await stub.RequestAccess(asked)
                assert not answer.access_granted and answer.lamport_timestamp == before
                await stub.ReleaseAccess(
                    pb2.AccessRelease(
                        client_id=asked.client_id, lamport_timestamp=asked.lamport_timestamp
                    )
                )
            assert client.process.clock == before
            assert [what for what, _ in stage.told] == [complaint]
            good = await stub.RequestAccess(
                access(2, LARGEST_STAMP)
            )  # and the largest that is taken does not break the clock
            assert good.access_granted and good.lamport_timestamp == LARGEST_STAMP + 1
            peer.grant(0)
            stage.press.sheets.release()
            assert (await client.print("page")).success

    perform(play)


def test_a_stamp_of_0_is_a_stamp() -> None:
    """A peer whose clock begins at 0 and is not ticked first is of the group all the same."""

    async def play() -> None:
        async with Stage() as stage:
            client = await stage.client(1, 0, {2: reserved_ports(1)[0]})
            assert (await stage.stub(client).RequestAccess(access(2, 0))).access_granted

    perform(play)


@pytest.mark.parametrize("stamp", [-5, HUGE])
def test_a_reply_with_an_impossible_stamp_is_a_reply_and_leaves_the_clock_alone(stamp: int) -> None:
    async def play() -> None:
        async with Stage() as stage:
            peer, port = await stage.peer()
            client = await stage.client(1, 0, {2: port})
            peer.grant(stamp)
            stage.press.sheets.release()
            assert (await client.print("page")).success
            assert client.process.clock == 3  # asked, replied, left
            assert stage.was_told("strange-stamp")

    perform(play)


# Peers that do not grant.


def test_only_granted_is_a_reply_and_a_refusal_is_asked_again_with_the_same_stamp() -> None:
    async def play() -> None:
        async with Stage() as stage:
            peer, port = await stage.peer()
            client = await stage.client(1, 0, {2: port})
            printing = stage.begin(client, "page")
            peer.refuse()
            peer.refuse()
            await until(lambda: len(peer.asked) == 3)
            assert client.process.state == WANTED and not stage.press.jobs
            assert [what for what, _ in stage.told if what != "state"] == ["refuses"]
            assert {(each.lamport_timestamp, each.request_number) for each in peer.asked} == {
                (1, 1)
            }
            assert client.process.clock == 1
            peer.grant(2)
            stage.press.sheets.release()
            assert (await printing).success

    perform(play)


def test_a_slow_peer_is_waited_for_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "REMIND_SECONDS", 0.01)

    async def play() -> None:
        async with Stage() as stage:
            quick, quick_port = await stage.peer()
            slow, slow_port = await stage.peer()
            nobody = reserved_ports(1)[0]
            client = await stage.client(5, 0, {2: quick_port, 9: slow_port, 11: nobody})
            stage.begin(client, "page")
            quick.grant(2)
            await until(lambda: ("waiting", {"clients": [9, 11], "away": [11]}) in stage.told)
            assert (
                "unreachable",
                {"client": 11, "place": Address("127.0.0.1", nobody), "why": "UNAVAILABLE"},
            ) in stage.told
            assert len(slow.asked) == 1 and client.process.state == WANTED and not stage.press.jobs

    perform(play)


def test_an_address_where_something_else_listens_is_no_peer() -> None:
    async def play() -> None:
        async with Stage() as stage:
            client = await stage.client(1, 0, {2: stage.printer_port})
            stage.begin(client, "page")
            await until(lambda: stage.was_told("fails"))
            assert [fields["why"] for what, fields in stage.told if what == "fails"] == [
                "UNIMPLEMENTED"
            ]
            assert client.process.state == WANTED

    perform(play)


async def _restarted_peer(stage: Stage) -> tuple[PrintingClient, Peer, Any, asyncio.Task[Any]]:
    """2 replies to the request of 1, restarts with its clock at 0, and asks with 1 while 3 has not
    replied to 1 yet.
    """
    two, port_2 = await stage.peer()
    three, port_3 = await stage.peer()
    client = await stage.client(1, 0, {2: port_2, 3: port_3})
    stub = stage.stub(client)
    assert (await stub.RequestAccess(access(3, 40))).access_granted
    printing = stage.begin(client, "page")
    two.grant(43)
    await until(lambda: client.process.missing == {3})
    assert client.process.stamp == 42
    asking = asyncio.ensure_future(stub.RequestAccess(access(2, 1)))
    stage._endings.append(lambda: _ended(asking))
    return client, three, printing, asking


def test_a_peer_that_has_lost_its_clock_goes_after_the_request_that_it_has_replied_to() -> None:
    async def play() -> None:
        async with Stage() as stage:
            client, three, printing, asking = await _restarted_peer(stage)
            await until(lambda: stage.was_told("forgetful"))
            three.grant(43)
            await until(lambda: len(stage.press.jobs) == 1)
            assert client.process.state == HELD and not asking.done()
            stage.press.sheets.release()
            assert (await printing).success
            assert (await asking).access_granted
            assert client.process.state == RELEASED

    perform(play)


def test_without_that_guard_both_would_have_every_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """The algorithm alone, which assumes that nobody crashes, lets it in: the guard is what keeps
    it out.
    """
    monkeypatch.setattr(PrintingClient, "_has_forgotten", lambda *_: False)

    async def play() -> None:
        async with Stage() as stage:
            client, three, _, asking = await _restarted_peer(stage)
            assert (await asking).access_granted
            three.grant(43)
            await until(lambda: client.process.state == HELD)

    perform(play)


def test_a_request_that_is_repeated_because_the_connection_broke_is_one_request(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        async with Stage() as stage:
            client = await stage.client(1, 0, {2: reserved_ports(1)[0]}, tmp_path)
            stub = stage.stub(client)
            answers = [
                await stub.RequestAccess(access(2, 5), metadata=((NUMBER, "4294967297"),))
                for _ in range(3)
            ]
            assert {answer.lamport_timestamp for answer in answers} == {6}
            assert client.process.clock == 6
            again = await stub.RequestAccess(
                access(2, 5), metadata=((NUMBER, "8589934593"),)
            )  # another life: another request
            assert again.lamport_timestamp == 7

    perform(play)
    [record] = [read_record(file) for file in tmp_path.glob("*.jsonl")]
    assert [event.kind for _, event in record.events] == [
        "start",
        "receive",
        "send",
        "receive",
        "send",
    ]


# The printer.


def test_a_job_that_is_not_printed_is_told_and_the_others_go_on() -> None:
    async def play() -> None:
        async with Stage() as stage:
            peer, port = await stage.peer()
            stage.press.success = False
            stage.press.sheets.release()
            client = await stage.client(1, 0, {2: port})
            peer.grant(0)
            assert not (await client.print("page")).success
            peer.grant(0)
            printing = stage.begin(client, "another")
            await until(lambda: len(stage.press.jobs) == 2)
            await stage.end_printer()
            done = await printing
            assert (done.success, client.process.state) == (False, RELEASED)
            assert stage.was_told("no-printer")

    perform(play)


def test_nobody_is_asked_before_the_printer_is_there() -> None:
    async def play() -> None:
        async with Stage() as stage:
            peer, port = await stage.peer()
            stage.printer_port = reserved_ports(1)[0]
            client = await stage.client(1, 0, {2: port})
            printing = stage.begin(client, "page")
            await until(lambda: stage.was_told("printer-away"))
            assert client.process.state == RELEASED and not peer.asked
            await stage.serve(
                lambda server: stubs.add_PrintingServiceServicer_to_server(stage.press, server),
                stage.printer_port,
            )
            peer.grant(0)
            stage.press.sheets.release()
            assert (await printing).success

    perform(play)


def test_the_printer_prints_to_the_end_for_a_client_that_has_gone_and_keeps_its_clock() -> None:
    async def play() -> None:
        told: list[str] = []

        def tell(what: str, /, **fields: Any) -> None:
            told.append(what)

        printer = Printer(
            Address("127.0.0.1", 0), 200_000, tell, lambda **fields: f"{fields}", end_after=2
        )
        await printer.start()
        async with grpc.aio.insecure_channel(str(printer.address)) as channel:
            stub = stubs.PrintingServiceStub(channel)
            gone = asyncio.ensure_future(
                stub.SendToPrinter(
                    pb2.PrintRequest(client_id=1, message_content="\x1b[2J", lamport_timestamp=HUGE)
                )
            )
            await until(lambda: told == ["job"])
            gone.cancel()
            answer = await stub.SendToPrinter(
                pb2.PrintRequest(client_id=2, lamport_timestamp=7, request_number=3)
            )
            assert (
                answer.success and answer.lamport_timestamp == 8
            )  # what no clock can read has not moved the printer's
            await printer.done.wait()
        await printer.stop()
        assert (printer.printed, printer.overlapping) == (2, 1)
        assert [job.text for job in printer.jobs] == ["\\x1b[2J", ""]

    perform(play)


# Any gRPC client: what is there is learnt from the server alone.


def call_by_reflection(place: str, name: str, method: str, fields: dict[str, Any]) -> Any:
    service = f"distributed_printing.{name}"
    with grpc.insecure_channel(place) as channel:
        database: Any = ProtoReflectionDescriptorDatabase(channel)
        assert service in database.get_services()
        pool = descriptor_pool.DescriptorPool(database)
        found = pool.FindServiceByName(service).FindMethodByName(method)
        request, response = (
            message_factory.GetMessageClass(each) for each in (found.input_type, found.output_type)
        )
        path = f"/{service}/{method}"
        call = channel.unary_unary(
            path,
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return call(request(**fields), timeout=PATIENCE)


def test_a_generic_client_can_call_everything_by_reflection_and_ask_for_health() -> None:
    async def play() -> None:
        async with Stage() as stage:
            client = await stage.client(1, 0, {2: reserved_ports(1)[0]})
            printer = Printer(
                Address("127.0.0.1", 0),
                0,
                stage.tell,
                lambda **fields: f"printed {fields['request']}",
            )
            await printer.start()
            client_place, printer_place = str(client.address), str(printer.address)
            job = {"client_id": 2, "message_content": "hello", "request_number": 3}
            cases: list[tuple[str, str, str, dict[str, Any]]] = [
                (
                    client_place,
                    "MutualExclusionService",
                    "RequestAccess",
                    {"client_id": 2, "lamport_timestamp": 4},
                ),
                (
                    client_place,
                    "MutualExclusionService",
                    "ReleaseAccess",
                    {"client_id": 2, "lamport_timestamp": 8},
                ),
                (printer_place, "PrintingService", "SendToPrinter", job),
            ]
            answers = [await asyncio.to_thread(call_by_reflection, *case) for case in cases]
            assert answers[0].access_granted and answers[0].lamport_timestamp == 5
            assert client.process.clock == 9
            assert answers[2].success and answers[2].confirmation_message == "printed 3"
            for place, name in (
                (client.address, "MutualExclusionService"),
                (printer.address, "PrintingService"),
            ):
                async with grpc.aio.insecure_channel(str(place)) as channel:
                    for service in ("", f"distributed_printing.{name}"):
                        health = await health_pb2_grpc.HealthStub(channel).Check(
                            health_pb2.HealthCheckRequest(service=service)
                        )
                        assert health.status == health_pb2.HealthCheckResponse.SERVING
            assert await is_up(client.address) and not await is_up(
                Address("127.0.0.1", reserved_ports(1)[0])
            )
            await printer.stop()

    perform(play)


def test_the_descriptors_on_the_wire_are_those_of_the_description() -> None:
    """Names of services, methods and fields, their numbers and types, as the description of the
    wire has them.
    """
    file = descriptor_pb2.FileDescriptorProto()
    pb2.DESCRIPTOR.CopyToProto(file)
    assert file.package == "distributed_printing"
    methods = {
        f"{service.name}.{method.name}" for service in file.service for method in service.method
    }
    assert methods == {
        "PrintingService.SendToPrinter",
        "MutualExclusionService.RequestAccess",
        "MutualExclusionService.ReleaseAccess",
    }
    access_fields = [(1, "client_id", 5), (2, "lamport_timestamp", 3), (3, "request_number", 5)]
    assert {
        message.name: [(field.number, field.name, field.type) for field in message.field]
        for message in file.message_type
    } == {
        "PrintRequest": [
            (1, "client_id", 5),
            (2, "message_content", 9),
            (3, "lamport_timestamp", 3),
            (4, "request_number", 5),
        ],
        "PrintResponse": [
            (1, "success", 8),
            (2, "confirmation_message", 9),
            (3, "lamport_timestamp", 3),
        ],
        "AccessRequest": access_fields,
        "AccessResponse": [(1, "access_granted", 8), (2, "lamport_timestamp", 3)],
        "AccessRelease": access_fields,
    }
