"""Clients in processes of their own, and what they are told to do there."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.live.rival import Absent, Client, Door

PATIENCE_SECONDS = 120.0
Job = Callable[[Client], Any]
_SPAWN = multiprocessing.get_context("spawn")


class Worker:
    """One client process; does one job after another, on the same connection."""

    def __init__(self, door: Door) -> None:
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(door, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def ready(self) -> None:
        """Waits until it is connected."""
        self.result()

    def begin(self, job: Job) -> None:
        self._pipe.send(job)

    def result(self) -> Any:
        if not self._pipe.poll(PATIENCE_SECONDS):
            raise TimeoutError("a client does not come to an end")
        failed, found = self._pipe.recv()
        if failed:
            raise Absent(found)
        return found

    def do(self, job: Job) -> Any:
        self.begin(job)
        return self.result()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def kill(self) -> int:
        """Ends it without a word; gives the time of that."""
        at = time.monotonic_ns()
        os.kill(self.pid, signal.SIGKILL)
        return at

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(door: Door, pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    job: Job = _nothing
    try:
        client = door.open()
        while True:
            pipe.send((False, job(client)))
            job = pipe.recv()
    except EOFError:
        pass
    except Exception as reason:  # whatever it is, the one who waits for it has to know
        pipe.send((True, f"{type(reason).__name__}: {reason}"))
    os._exit(0)  # without the farewells of client libraries


def _nothing(_: Client) -> None:
    pass


@dataclass
class Stays:
    """What one client saw, on the clock that all processes of the machine share: when it asked, was
    let in and left, in ns.
    """

    asked: array[int] = field(default_factory=lambda: array("q"))
    began: array[int] = field(default_factory=lambda: array("q"))
    ended: array[int] = field(default_factory=lambda: array("q"))


@dataclass(frozen=True)
class Cycles:
    """Acquire and release, again and again, from one time to another."""

    name: str
    begin_ns: int
    end_ns: int
    stay_seconds: float = 0.0

    def __call__(self, client: Client) -> Stays:
        lock = client.lock(self.name)
        acquire, release, now, end, stay = (
            lock.acquire,
            lock.release,
            time.monotonic_ns,
            self.end_ns,
            self.stay_seconds,
        )
        stays = Stays()
        asked_at, began_at, ended_at = stays.asked.append, stays.began.append, stays.ended.append
        time.sleep(max(0, self.begin_ns - now()) / 1e9)
        while (asked := now()) < end:
            acquire()
            began = now()
            if stay:
                time.sleep(stay)
            ended = now()
            release()
            asked_at(asked)
            began_at(began)
            ended_at(ended)
        return stays


@dataclass(frozen=True)
class FreshCycles:
    """Acquire and release locks whose names nobody has used before."""

    name: str
    begin_ns: int
    end_ns: int
    stay_seconds: float = 0.0

    def __call__(self, client: Client) -> Stays:
        stays = Stays()
        time.sleep(max(0, self.begin_ns - time.monotonic_ns()) / 1e9)
        while (asked := time.monotonic_ns()) < self.end_ns:
            lock = client.lock(f"{self.name}-{asked}")
            lock.acquire()
            began = time.monotonic_ns()
            if self.stay_seconds:
                time.sleep(self.stay_seconds)
            stays.ended.append(time.monotonic_ns())
            lock.release()
            stays.asked.append(asked)
            stays.began.append(began)
        return stays


@dataclass(frozen=True)
class Threads:
    """Several cycles at a time, each of a lock of its own."""

    cycles: tuple[Cycles, ...]

    def __call__(self, client: Client) -> list[Stays]:
        found: dict[int, Stays] = {}
        threads = [
            threading.Thread(
                target=lambda place, each: found.__setitem__(place, each(client)), args=given
            )
            for given in enumerate(self.cycles)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found[place] for place in range(len(self.cycles))]


@dataclass(frozen=True)
class Take:
    """Acquires once and gives the time of the grant; stays inside if told so."""

    name: str
    stays: bool = False

    def __call__(self, client: Client) -> int:
        lock = client.lock(self.name)
        lock.acquire()
        granted = time.monotonic_ns()
        if not self.stays:
            lock.release()
        return granted
