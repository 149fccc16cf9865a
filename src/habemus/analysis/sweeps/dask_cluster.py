"""Runs of a grid on a cluster of dask.distributed, by the same function that local processes run.

A batch whose worker dies is given to another worker. If workers die too often for the scheduler, or
if the whole cluster is lost, the journal still has every row that was returned.
"""

from __future__ import annotations

import logging
import re
import signal
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from habemus.analysis.sweeps.grid_rows import GridRow, RunBatches, rows_of
from habemus.analysis.sweeps.grid_sweep import Executor, WorkersDie, WorkersGone

HINT = "pip install '.[sweep]' in your clone"
MOST_LOCAL = 256
TO_CONNECT = "10s"
TO_FIND_A_WORKER_S = 30
DEATHS = 20
"""Number of workers that may die over one batch before the scheduler of a local cluster gives it
up.
"""
AHEAD = 3
"""Batches for each thread that are under way or wait: enough that no worker idles, few enough to be
abandoned.
"""


class BadCluster(ValueError):
    """An unreachable cluster, or one that cannot make our runs."""


def check(address: str) -> None:
    """Raise an exception for an invalid address of a cluster, before anything is started."""
    _local_size(address)
    _distributed()


def _local_size(address: str) -> int | None:
    """Return the number of workers that a local cluster is to have; None for an existing
    cluster.
    """
    if matched := re.fullmatch(r"local:(\d{1,6})", address):
        if not 1 <= int(matched[1]) <= MOST_LOCAL:
            raise BadCluster(f"{address}: a local cluster has 1 to {MOST_LOCAL} workers")
        return int(matched[1])
    if not re.fullmatch(r"(tcp|tls)://\S+:\d{1,5}", address):
        raise BadCluster(
            f"{address!r} does not name a cluster; write for example local:4 or tcp://10.0.0.5:8786"
        )
    return None


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ModuleNotFoundError(f"a cluster needs the package distributed: {HINT}") from None
    return distributed


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """Yield the workers of the cluster as an executor, as long as it is open."""
    size = _local_size(address)
    distributed = _distributed()
    for name in sorted(logging.root.manager.loggerDict):
        if name.startswith(("distributed", "tornado")):
            logging.getLogger(name).setLevel(
                logging.CRITICAL + 1
            )  # a worker that dies is no news: its work is done by others
    with ExitStack() as stack:
        if size is not None:
            address = stack.enter_context(_local(distributed, size))
        try:
            client = stack.enter_context(
                distributed.Client(address, timeout=TO_CONNECT, set_as_default=False)
            )
        except OSError:
            raise BadCluster(f"there is no cluster at {address}, or it does not answer") from None
        _check_workers(client, address)
        yield lambda batches: _rows(distributed, client, batches)


@contextmanager
def _local(distributed: Any, size: int) -> Iterator[str]:
    """Start local worker processes and a scheduler that only this machine can reach, without a
    dashboard.
    """
    import dask

    settings = {
        "distributed.scheduler.allowed-failures": DEATHS,
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        "distributed.logging": {
            "distributed": "critical",
            "distributed.nanny": "critical",
            "distributed.worker": "critical",
        },
    }
    with (
        tempfile.TemporaryDirectory(prefix="habemus-", ignore_cleanup_errors=True) as folder,
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=size,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            silence_logs=logging.CRITICAL,
            local_directory=folder,
            preload=[__name__],
        ) as started,
    ):
        yield started.scheduler_address


def dask_setup(_worker: object) -> None:
    """Ignore interrupts in every worker of a local cluster: an interrupt is for the process that
    hands out the work.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _check_workers(client: Any, address: str) -> None:
    """Raise an exception unless all workers have this version, so that rows do not depend on the
    worker.
    """
    try:
        client.wait_for_workers(1, timeout=TO_FIND_A_WORKER_S)
    except TimeoutError:
        raise BadCluster(f"the cluster at {address} has no workers") from None
    mine = version("habemus")
    try:
        theirs = client.run(_version)
    except Exception as reason:  # whatever keeps a worker from running our function
        raise BadCluster(f"the workers at {address} cannot run habemus: {_line(reason)}") from None
    for worker, found in sorted(theirs.items()):
        if found != mine:
            raise BadCluster(
                f"the worker {worker} has habemus {found or 'not installed'}, here it is {mine}"
            )


def _line(reason: Exception) -> str:
    return str(reason).partition("\n")[0]


def _version() -> str:
    try:
        return version("habemus")
    except PackageNotFoundError:
        return ""


def _rows(
    distributed: Any, client: Any, batches: RunBatches
) -> Generator[list[GridRow], None, None]:
    left = iter(batches)
    finished = distributed.as_completed(loop=client.loop)
    under_way: set[Any] = set()

    def hand_out() -> None:
        wanted = AHEAD * max(1, sum(client.nthreads().values()))
        while len(under_way) < wanted and (batch := next(left, None)) is not None:
            future = client.submit(rows_of, batch, pure=False)
            under_way.add(future)
            finished.add(future)

    try:
        hand_out()
        for future in finished:
            under_way.discard(future)
            yield future.result()
            hand_out()
    except distributed.scheduler.KilledWorker:
        raise WorkersDie("a worker of the cluster died") from None
    except (
        distributed.client.FutureCancelledError,
        distributed.comm.CommClosedError,
        OSError,
    ) as reason:
        raise WorkersGone(f"the cluster is lost ({_line(reason)})") from None
    finally:
        with suppress(Exception):  # of a cluster that is lost nothing can be taken back
            client.cancel(list(under_way), force=True)
