"""Work on several cores. The result depends on the work alone, never on the number or speed of
workers.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TypeVar

from habemus.argument_names import FLAGS, argument

Task = TypeVar("Task")
Result = TypeVar("Result")


def cores() -> int:
    """Return the number of cores that this process may use, which can be fewer than the machine
    has.
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


WORTH_IT = 12
"""Least number of tasks for which starting workers is worth the time."""


def jobs_for(pieces: int, wanted: int | None) -> int:
    """Return the number of workers to start if the user does not say."""
    return wanted or (cores() if pieces > WORTH_IT else 1)


def results(
    work: Callable[[Task], Result], tasks: Sequence[Task], jobs: int
) -> Iterator[tuple[Task, Result]]:
    """Yield each task with its result, in the order in which they are finished.

    `work` is a function of a module. A caller that leaves the loop early, by an interrupt for
    example, waits only for the tasks in progress.  `ChildProcessError`: a worker was killed.
    """
    if jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, work(task)
        return
    # Workers start from nothing rather than as copies of this process, whatever threads it has; so
    # it is everywhere the same.
    pool = ProcessPoolExecutor(
        min(jobs, len(tasks)),
        multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(FLAGS.are_named,),
    )
    left = iter(tasks)
    under_way: dict[Future[Result], Task] = {}
    try:
        while True:
            # Few at a time are handed out, so that few are left to wait for if it is broken off.
            for task in islice(left, 2 * jobs - len(under_way)):
                under_way[pool.submit(work, task)] = task
            if not under_way:
                return
            for done in wait(under_way, return_when=FIRST_COMPLETED).done:
                yield under_way.pop(done), done.result()
    except BrokenProcessPool as broken:
        raise ChildProcessError(
            "a worker process was killed, perhaps for lack of memory; use fewer with"
            f" {argument('jobs')}"
        ) from broken
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(flags_are_named: bool) -> None:
    FLAGS.are_named = flags_are_named
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that hands out the work ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End a worker when its parent is killed; it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
