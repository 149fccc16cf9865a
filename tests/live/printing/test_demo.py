"""The demonstration of the printing system, as `make demo` runs it, and the fence that it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from tests.live.conftest import PATIENCE
from tests.live.printing.programs import Office

import habemus
from habemus.printing.wire import distributed_printing_pb2 as pb2
from habemus.printing.wire import distributed_printing_pb2_grpc as stubs

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "printing"


def test_the_demo(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "demo.py"), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,  # for all its programs
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout
    assert "Traceback" not in done.stderr
    assert 40 <= shown.count("\n") <= 70
    assert max(map(len, shown.replace(str(tmp_path), "build/demo").splitlines())) <= 100
    clients, workers = shown.split("\n\n")[:2]
    assert (
        len(re.findall(r"client \d asked at +\d+ on its clock, waited for .*client", clients)) == 6
    )
    assert "ME1             holds     6 entries, never two at once" in clients
    assert len(re.findall(r"printed with token", " ".join(workers.split()))) == 7
    assert re.search(r"REFUSED by the fence, token \d+\.\d+ is older", " ".join(workers.split()))
    assert "ME1             violated" in workers and "FENCE           holds" in workers
    assert shown.count("same: the algorithm alone repeats all") == 2
    assert "The printer printed 13 pages, never two at once." in shown
    for name in ("clients", "workers"):
        assert (tmp_path / f"{name}.svg").stat().st_size > 1_000
        assert habemus.load_trace(tmp_path / f"{name}.json").events


def test_make_demo_runs_the_demo() -> None:
    planned = subprocess.run(
        ["make", "demo", "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert ".venv/bin/python examples/printing/demo.py build/demo" in planned.splitlines()


@pytest.fixture
def fence(office: Callable[..., Office], tmp_path: Path) -> Callable[[], str]:
    """Start fences before one printer, and return their addresses."""
    here = office((1,))
    here.printer("--seconds", "0")

    def start() -> str:
        program = here.start(str(EXAMPLES / "fence.py"), here.printer_place, str(tmp_path))
        return program.hear("127.0.0.1:")

    return start


def sent(address: str, token: int) -> pb2.PrintResponse:
    with grpc.insecure_channel(address) as channel:
        job = pb2.PrintRequest(
            client_id=1, message_content=f"page {token}", lamport_timestamp=token
        )
        answer: pb2.PrintResponse = stubs.PrintingServiceStub(channel).SendToPrinter(job)
        return answer


def test_the_fence_refuses_a_token_older_than_one_before_it(fence: Callable[[], str]) -> None:
    address = fence()
    assert [sent(address, token).success for token in (4, 4, 6)] == [True, True, True]
    refusal = sent(address, 5)
    assert not refusal.success and refusal.lamport_timestamp == 6
    assert sent(address, 6).success


def test_a_fence_that_restarts_remembers_the_newest_token(fence: Callable[[], str]) -> None:
    assert sent(fence(), 6).success
    assert not sent(fence(), 5).success
