"""Contenders take turns: one short round of each, then the next round, so that a busy machine
disturbs all alike.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.live import judging
from benchmarks.live.judging import Sample
from benchmarks.live.peers.limits import CarelessDoor
from benchmarks.live.rival import Absent, Door, Service, on_cores, spent_ns
from benchmarks.live.worker import Cycles, FreshCycles, Threads, Worker

LEAD_NS = 30_000_000
"""Between telling clients when to begin and that moment."""
SETTLE_SECONDS = 0.3
STAY_SECONDS = 0.001
"""Inside the lock, in the round in which only the locks are judged: long enough for another one to
come in if it could.
"""
ONE_CORE = frozenset({0})


class Blind(Exception):
    """The benchmark would not have noticed two clients inside at once."""


@dataclass(frozen=True)
class Contender:
    name: str
    service: Service
    doors: Callable[
        [], Sequence[Door]
    ]  # one for each client process; asked for when the service is up


class Target(NamedTuple):
    who: str
    against: str
    least: float
    by: str = "per_second"  # or p99_us or cpu_us, of which less is better


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    unit: str
    contenders: Sequence[Contender]
    targets: Sequence[Target]
    threads: int = (
        0  # for each client process, each with a lock of its own; 0: all clients want the same lock
    )
    fresh: bool = False  # each cycle takes a lock of another name, which was never used
    cores: frozenset[int] | None = None
    bounds: Mapping[str, int] = field(default_factory=dict)
    """The bound on overtaking of the contenders that have one."""


@dataclass
class Result:
    case: Case
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    judged: dict[str, Sample] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def overlaps_of(self, name: str) -> int:
        return sum(each.overlaps for each in (self.judged[name], *self.samples[name]))

    @property
    def overlaps(self) -> int:
        return sum(map(self.overlaps_of, self.samples))

    def ratio(self, target: Target) -> float | None:
        """The median over the rounds, in each of which both took their turns; None if one was
        absent.
        """
        if target.who not in self.samples or target.against not in self.samples:
            return None
        pairs = zip(self.samples[target.who], self.samples[target.against], strict=True)
        if target.by == "p99_us":
            return median(theirs.p99_us / ours.p99_us for ours, theirs in pairs)
        if target.by == "cpu_us":
            return median(theirs.cpu_us / ours.cpu_us for ours, theirs in pairs)
        return median(ours.per_second / max(theirs.per_second, 1) for ours, theirs in pairs)


def measure(case: Case, rounds: int, seconds: float) -> Result:
    result = Result(case)
    with on_cores(case.cores), ExitStack() as stack:
        up = _started(case, result, stack)
        for number in range(rounds + 1):
            for name, (service, workers) in up.items():
                pids = [*service.pids(), *(worker.pid for worker in workers)]
                before = spent_ns(pids)
                sample = _round(case, workers, seconds, stay=0.0 if number else STAY_SECONDS)
                sample = sample._replace(
                    cpu_us=(spent_ns(pids) - before) / 1_000 / max(sample.stays, 1)
                )
                if number:
                    result.samples.setdefault(name, []).append(sample)
                else:  # the first round warms up, and shows whether the lock locks
                    result.judged[name] = sample
    return result


def _started(
    case: Case, result: Result, stack: ExitStack
) -> dict[str, tuple[Service, list[Worker]]]:
    up: dict[str, tuple[Service, list[Worker]]] = {}
    services = {id(each.service): each.service for each in case.contenders}
    reasons = {key: start(service, stack) for key, service in services.items()}
    for contender in case.contenders:
        reason = reasons[id(contender.service)]
        if not reason:
            workers: list[Worker] = []
            try:
                for door in contender.doors():
                    workers.append(Worker(door))
                    stack.callback(workers[-1].close)
                for worker in workers:
                    worker.ready()
                up[contender.name] = (contender.service, workers)
            except Absent as failure:
                reason = str(failure)
        if reason:
            result.absent[contender.name] = reason
    time.sleep(SETTLE_SECONDS)
    return up


def start(service: Service, stack: ExitStack) -> str:
    """Starts it until the stack ends; gives the reason if it cannot be had."""
    folder = Path(
        stack.enter_context(
            tempfile.TemporaryDirectory(prefix="habemus-bench-", ignore_cleanup_errors=True)
        )
    )
    stack.callback(service.stop)
    try:
        service.start(folder)
    except (Absent, ModuleNotFoundError) as reason:
        return str(reason)
    return ""


@contextmanager
def running(service: Service) -> Iterator[str]:
    with ExitStack() as stack:
        yield start(service, stack)


def _round(case: Case, workers: Sequence[Worker], seconds: float, stay: float) -> Sample:
    begin = time.monotonic_ns() + LEAD_NS
    end = begin + int(seconds * 1e9)
    job: Any
    for number, worker in enumerate(workers):
        if case.threads:
            job = Threads(
                tuple(
                    Cycles(f"bench-{number}-{each}", begin, end, stay)
                    for each in range(case.threads)
                )
            )
        else:
            job = (FreshCycles if case.fresh else Cycles)("bench", begin, end, stay)
        worker.begin(job)
    found = [worker.result() for worker in workers]
    if case.threads:
        return judging.many_locks([stays for each in found for stays in each], seconds)
    if len(workers) == 1:
        return judging.uncontended(found[0], seconds)
    return judging.contended(found, end, seconds)


def careless_overlaps(clients: int, seconds: float) -> int:
    """How often clients are seen to overlap that give back their lock too early; `Blind` if
    never.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="habemus-bench-"))
        workers = [Worker(CarelessDoor(folder)) for _ in range(clients)]
        for worker in workers:
            stack.callback(worker.close)
            worker.ready()
        begin = time.monotonic_ns() + LEAD_NS
        for worker in workers:
            worker.begin(Cycles("control", begin, begin + int(seconds * 1e9), STAY_SECONDS))
        found = judging.overlaps([worker.result() for worker in workers])
    if not found:
        raise Blind(
            f"{clients} clients that give back their lock too early were not seen to overlap:"
            " whatever else is seen means nothing"
        )
    return found
