"""Read-write locks between processes that are killed at any moment."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tests.live.conftest import PATIENCE, until
from tests.live.nodes import DEFAULT, Nodes

PROGRAM = Path(__file__).with_name("reading_and_writing.py")
WORKERS = 4
KILLS = 6


@pytest.fixture(params=["own", "local"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "local":
        yield f"local://{tmp_path}/locks"
        return
    nodes = Nodes(tmp_path, DEFAULT)
    yield str(nodes.file)
    nodes.close()


def conflicts(lines: list[str]) -> list[str]:
    """Return the entries that a read-write lock must not allow, or whose token is not larger than
    that of a writer before it.
    """
    inside: dict[str, str] = {}
    dead: set[str] = set()
    written = 0
    found = []
    for line in lines:
        process, token, kind, what = line.split()
        if process in dead:
            continue
        if what == "begin":
            if inside and (kind == "write" or "write" in inside.values()):
                found.append(f"{line} beside {inside}")
            if int(token) <= written:
                found.append(f"{line} after a writer with {written}")
            written = int(token) if kind == "write" else written
            inside[process] = kind
        else:
            inside.pop(process, None)
            if what == "killed":
                dead.add(process)
    return found


def test_the_judge_sees_conflicts() -> None:
    fine = ["1 1 read begin", "2 2 read begin", "1 1 read end", "2 2 read end", "1 3 write begin"]
    assert not conflicts(fine)
    assert conflicts([*fine, "2 4 read begin"])
    assert conflicts([*fine, "2 4 write begin"])
    assert not conflicts([*fine, "1 0 - killed", "2 4 read begin"])
    assert conflicts([*fine, "1 3 write end", "2 3 read begin"]), "an old token"


def test_processes_that_are_killed(url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    draw = random.Random(7)
    processes: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        command = [sys.executable, str(PROGRAM), url, str(log), str(draw.randrange(10**6))]
        processes.append(subprocess.Popen(command))

    def lines() -> list[str]:
        return log.read_text().splitlines() if log.exists() else []

    def writes_of(process: subprocess.Popen[bytes]) -> int:
        return sum(each.startswith(f"{process.pid} ") for each in lines())

    try:
        for _ in range(WORKERS):
            start()
        for _ in range(KILLS):
            for process in processes:
                until(lambda process=process: writes_of(process) > 10)  # type: ignore[misc]
            victim = processes.pop(draw.randrange(WORKERS))
            with log.open("ab", 0) as file:
                file.write(f"{victim.pid} 0 - killed\n".encode())
            victim.kill()
            victim.wait(PATIENCE)
            start()
        until(lambda: writes_of(processes[-1]) > 10)
        seen = lines()  # before the rest are killed, whose last lines say nothing of that
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert not conflicts(seen)
    assert any("read begin" in one and "read begin" in two for one, two in pairwise(seen)), (
        "readers were never inside together"
    )
