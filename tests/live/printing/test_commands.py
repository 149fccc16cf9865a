"""`habemus printer` and `habemus print` as a person meets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from tests.live.printing.programs import Office

from habemus.cli import run

PEERS = ("--peers", "2=127.0.0.1:50053")
ME = ("print", "--id", "1", "--port", "0")


@pytest.fixture
def taken_port() -> Iterator[int]:
    """By a server that would share it, as gRPC servers do unless told otherwise."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(None)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["printer", "--port", "TAKEN"], "cannot listen on 127.0.0.1:TAKEN: the port is in use"),
        (["printer", "--host", "0.0.0.0", "--port", "0"], "use --insecure"),
        (["printer", "--seconds", "fast"], "'fast' is not a number of seconds"),
        (["printer", "--seconds", "3..2"], "is not a number of seconds"),
        (["printer", "--port", "70000"], "70000 is not in the range"),
        ([*ME], "Missing option '--peers'"),
        ([*ME[:3], "--port", "TAKEN", *PEERS], "cannot listen on 127.0.0.1:TAKEN"),
        ([*ME, "--peers", "1=127.0.0.1:50053"], "client 1 (--id) is in --peers as well"),
        ([*ME, "--peers", "2=127.0.0.1:50053,2=127.0.0.1:50054"], "peer 2 is given twice"),
        ([*ME, "--peers", "two"], "'two' is not a peer"),
        (["print", "--id", "-1", "--port", "0", *PEERS], "is not the id of a client"),
        ([*ME, *PEERS, "--without", "3"], "--without 3: unknown peer; --peers has 2"),
        ([*ME, *PEERS, "--printer", "nowhere"], "'nowhere' is not an address"),
        ([*ME, "--peers", "2=10.0.0.1:50053"], "use --insecure"),
        ([*ME, *PEERS, "--printer", "10.0.0.1:50051"], "use --insecure"),
        ([*ME, *PEERS, "--every", "1", "text"], "TEXT and --every exclude each other"),
        ([*ME, *PEERS, "--jobs", "3"], "--jobs needs --every"),
        ([*ME, *PEERS, "--give-up", "1..2"], "one number of seconds"),
        (["print", "--id", "1", "--port", "50053", *PEERS], "is the address of this client"),
    ],
)
def test_bad_use_gets_one_line_and_code_2(
    arguments: list[str], why: str, taken_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([each.replace("TAKEN", str(taken_port)) for each in arguments])
    said = capsys.readouterr()
    assert code == 2
    assert why.replace("TAKEN", str(taken_port)) in said.err
    assert said.err.count("\n") == 1 and said.out == ""


def test_a_client_alone_reads_lines_prints_them_and_leaves_at_the_end_of_its_input(
    office: Callable[..., Office],
) -> None:
    """Its only peer is down, and the user has said so."""
    here = office((1, 2))
    printer = here.printer("--seconds", "0", "--jobs", "2", "--watch", "--lang", "pt")
    client = here.client(1, "--without", "2", "--lang", "pt")
    client.hear("o grupo é 1")
    client.type("uma página")
    assert (
        client.hear("imprimiu")
        == "o cliente 1 imprimiu 'uma página' (impresso o pedido 1 do cliente 1)"
    )
    client.type("")
    while (shown := client.hear("relógio")) != "cliente 1: RELEASED, relógio 2":
        assert shown == "cliente 1: HELD, relógio 1"  # it has printed, and is about to leave
        client.type("")
    client.type("outra")
    assert printer.wait() == 0
    assert printer.printed == [
        "[cliente 1, pedido 1, carimbo 1] uma página\n",
        "[cliente 1, pedido 2, carimbo 3] outra\n",
    ]
    assert client.process.stdin is not None
    client.process.stdin.close()
    assert client.wait() == 0
    assert "sai; imprimiu 2 de 2" in client.hear("sai")


def test_whoever_answers_is_in_the_group_whatever_the_user_says(
    office: Callable[..., Office],
) -> None:
    here = office((1, 2))
    here.client(2).hear("listens")
    claiming = here.client(1, "--without", "2", "--leave", "text")
    assert claiming.wait() == 2
    answered = (
        f"habemus: --without 2: the peer answers at 127.0.0.1:{here.ports[2]}, so it is not down"
    )
    assert claiming.hear("habemus:").startswith(answered)


def test_a_job_that_the_printer_did_not_take_is_told_by_the_exit_code(
    office: Callable[..., Office],
) -> None:
    here = office((1, 2))
    printer = here.printer("--seconds", "600")
    client = here.client(1, "--without", "2", "--leave", "--json", "text")
    printer.hear("[client 1, request 1, stamp 1] text")
    printer.kill()
    assert client.wait() == 1
    assert client.document()["jobs"][0]["said"] == "UNAVAILABLE"
    assert client.hear("did not print: UNAVAILABLE")


def test_a_client_that_is_told_to_end_finishes_the_job_that_is_in_the_printer(
    office: Callable[..., Office],
) -> None:
    here = office((1, 2))
    printer = here.printer("--seconds", "0.5", "--jobs", "1")
    client = here.client(1, "--without", "2", "one", "two")
    client.hear("HELD")
    assert client.end() == 1  # one of two
    assert client.hear("leaves") == "client 1 leaves; 1 of 2 printed, clock 2"
    assert printer.wait() == 0
