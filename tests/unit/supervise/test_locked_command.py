"""`habemus lock`: the moments that cannot be met by chance."""

from __future__ import annotations

import os
import select
import subprocess
import time
from typing import Any

import pytest

from habemus.supervise import process_tree as ending
from habemus.supervise.locked_command import LockRequest, _asked
from habemus.supervise.process_tree import ProcessTree

PATIENCE = 30.0


class Line:
    """A connection on which everything was said while nobody listened."""

    def __init__(self, *heard: list[Any]) -> None:
        self._heard = list(heard)
        self._read, self._written = os.pipe()
        os.write(self._written, b"!")

    def fileno(self) -> int:
        return self._read

    def send(self, line: bytes) -> None:
        pass

    def heard(self) -> list[list[Any]]:
        heard, self._heard = self._heard[:1], self._heard[1:]
        return heard

    def close(self) -> None:
        os.close(self._read)
        os.close(self._written)

    def lease_ms(self, service: str) -> int | None:
        return None

    def moves(self, service: str) -> bool:
        return False


@pytest.mark.parametrize(
    ("more", "is_worth_something"),
    [((), True), ((["lost", 1, "an operator"],), False), ((["lost", 2, ""],), True)],
)
def test_a_grant_that_is_lost_already_starts_no_command(
    more: tuple[list[Any], ...], is_worth_something: bool
) -> None:
    """Who stood still while it waited hears both at once."""
    line = Line(["granted", 1, 7, None, 0, "x"], *more)
    grant = _asked(line, LockRequest("x", ["true"]), None)
    line.close()
    assert (grant is not None) is is_worth_something


def test_whoever_has_left_the_group_is_looked_up_before_anybody_is_asked_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A shell ends at once when it is asked to, and then nobody knows any more whom it had
    started.
    """
    quick = ending.children

    def slow(process: int) -> list[int]:
        time.sleep(0.2)
        return quick(process)

    monkeypatch.setattr(ending, "children", slow)
    script = "setsid sleep 60 & echo $!; wait"
    with subprocess.Popen(
        ["sh", "-c", script], stdout=subprocess.PIPE, text=True, process_group=0
    ) as command:
        assert command.stdout is not None
        child = os.pidfd_open(int(command.stdout.readline()))
        while os.getpgid(quick(command.pid)[0]) == command.pid:
            time.sleep(0.001)  # until it has left
        family = ProcessTree(command.pid)
        assert not family.is_gone()
        family.ask_to_end()
        assert select.select([child], [], [], PATIENCE)[0]
        os.close(child)
        command.wait(PATIENCE)
        assert family.is_gone()
