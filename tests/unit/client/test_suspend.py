"""A machine that was suspended: what expired meanwhile has expired, for clients, keepers and
guards.
"""

from __future__ import annotations

import fcntl
import mmap
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.conftest import PATIENCE, FakeNode, grants, line

import habemus
from habemus import boottime
from habemus.supervise.process_tree import Guard, now_us, wait_ms

HOUR = 3_600


class Machine:
    """Sleeps when it is told to: its clock has gone on, its timers have not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._asleep = mmap.mmap(-1, 8)  # shared with the guard, which is a process of its own
        nanoseconds, seconds = boottime.nanoseconds, boottime.seconds
        monkeypatch.setattr(
            boottime, "nanoseconds", lambda: nanoseconds() + self._slept() * 1_000_000_000
        )
        monkeypatch.setattr(boottime, "seconds", lambda: seconds() + self._slept())

    def _slept(self) -> int:
        slept: int = struct.unpack("q", self._asleep[:])[0]
        return slept

    def sleep(self, seconds: int) -> None:
        self._asleep[:] = struct.pack("q", self._slept() + seconds)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def for_an_hour(said: list[Any]) -> bytes:
    if said[0] == "request":
        return line("granted", said[1], 7, HOUR * 1_000, said[6], said[3][0])
    return grants(said)


def test_a_lease_that_expired_while_the_machine_slept_is_lost(
    fake_node: Callable[..., FakeNode], machine: Machine
) -> None:
    with habemus.connect(fake_node(for_an_hour).place) as cluster:
        lease = cluster.lock("x", PATIENCE).acquire()
        machine.sleep(HOUR // 2)
        assert lease.held
        assert lease.remaining <= HOUR // 2
        machine.sleep(HOUR)
        assert lease.lost
        assert lease.remaining == 0
        with pytest.raises(habemus.LockLost, match="not renewed in time"):
            lease.check()


def test_the_keeper_notices_after_the_resume(
    fake_node: Callable[..., FakeNode], machine: Machine
) -> None:
    told = threading.Event()
    with habemus.connect(fake_node(for_an_hour).place) as cluster:
        lease = cluster.lock("x", PATIENCE, on_lost=lambda _: told.set()).acquire()
        lease._session.hurry()
        machine.sleep(2 * HOUR)
        assert told.wait(PATIENCE)


def test_a_listener_that_fails_does_not_end_the_keeper(
    fake_node: Callable[..., FakeNode], machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[str] = []
    monkeypatch.setattr(
        threading, "excepthook", lambda report: reported.append(str(report.exc_value))
    )
    told = threading.Event()

    def fail(_: habemus.Lease) -> None:
        raise ZeroDivisionError("in the listener")

    with habemus.connect(fake_node(for_an_hour).place) as cluster:
        cluster.lock("x", PATIENCE, on_lost=fail).acquire()
        lease = cluster.lock("y", PATIENCE, on_lost=lambda _: told.set()).acquire()
        lease._session.hurry()
        machine.sleep(2 * HOUR)
        assert told.wait(PATIENCE)
        assert reported == ["in the listener"]


def is_asleep(guard: Guard) -> bool:
    """Return whether the guard has read what it was told, and waits for the time or for more."""
    unread: int = struct.unpack("i", fcntl.ioctl(guard._told, termios.FIONREAD, b"\0" * 4))[0]
    state = Path(f"/proc/{guard._process}/stat").read_text().rpartition(") ")[2][0]
    return unread == 0 and state == "S"


def test_the_guard_ends_the_command_after_the_resume(machine: Machine) -> None:
    with subprocess.Popen(["sleep", str(HOUR)], process_group=0) as command:
        guard = Guard(command.pid, now_us() + HOUR * 1_000_000, None)
        try:
            guard.move_to(now_us() + HOUR * 1_000_000)
            while not is_asleep(guard):
                pass
            machine.sleep(2 * HOUR)
            assert command.wait(PATIENCE) == -signal.SIGKILL
        finally:
            command.kill()
            guard.dismiss()


def test_the_guard_hears_of_a_renewal_before_it_looks_at_the_clock(machine: Machine) -> None:
    with subprocess.Popen(["sleep", str(HOUR)], process_group=0) as command:
        guard = Guard(command.pid, now_us() + HOUR * 1_000_000, None)
        try:
            guard.move_to(now_us() + 10 * HOUR * 1_000_000)
            machine.sleep(2 * HOUR)
            with pytest.raises(subprocess.TimeoutExpired):
                command.wait(2 * boottime.LONGEST_WAIT)
        finally:
            guard.dismiss()
            command.kill()


def test_no_wait_is_longer_than_the_clock_may_be_left_unread(machine: Machine) -> None:
    longest = round(boottime.LONGEST_WAIT * 1_000)
    now = now_us()
    assert wait_ms([now + HOUR * 1_000_000, None]) == longest
    assert wait_ms([None]) is None
    assert wait_ms([now - 1]) == 1
