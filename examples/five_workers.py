"""Five processes add to one number in a file, and none of it gets lost.

Run it by itself and it starts a cluster for itself.  If the cluster that HABEMUS_CLUSTER names, or
that of `habemus up`, is up, it uses that one.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import habemus

TIMES = 20


def add_one(total: Path) -> None:
    """What must not be done by two at the same time."""
    total.write_text(str(int(total.read_text()) + 1))


def work(total: Path) -> None:
    with habemus.connect() as cluster:
        for _ in range(TIMES):
            with cluster.lock("total", timeout=60) as lease:
                add_one(total)
                lease.check()  # raises LockLost if another may hold it


async def work_in_tasks(total: Path) -> None:
    """The same for programs with an event loop: each task waits for the lock, and none holds up the
    others.
    """

    async def task(cluster: habemus.AsyncCluster) -> None:
        async with cluster.lock("total", timeout=60):
            add_one(total)

    async with habemus.connect() as cluster:
        await asyncio.gather(*(task(cluster) for _ in range(TIMES)))


def is_cluster_up() -> bool:
    try:
        with habemus.connect():
            return True
    except habemus.Unreachable:
        return False


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        total = Path(folder, "total")
        total.write_text("0")
        workers = [
            subprocess.Popen([sys.executable, __file__, kind, str(total)])
            for kind in ("blocking",) * 4 + ("tasks",)
        ]
        codes = [worker.wait() for worker in workers]
        print(f"five workers, {TIMES} times each: {total.read_text()}")
        sys.exit(any(codes) or int(total.read_text()) != 5 * TIMES)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        kind, file = sys.argv[1], Path(sys.argv[2])
        asyncio.run(work_in_tasks(file)) if kind == "tasks" else work(file)
    elif is_cluster_up():
        main()
    else:
        sys.exit(
            subprocess.run(
                [sys.executable, "-m", "habemus", "up", "-n", "3", "--", sys.executable, __file__],
                check=False,
            ).returncode
        )
