"""APScheduler: the same schedule in several processes, each run by one of them.

python examples/recipes/apscheduler_once.py
"""

from __future__ import annotations

import os
import time

import habemus
from apscheduler.schedulers.background import BackgroundScheduler

cluster = habemus.connect()


def tick() -> None:
    """Do nothing if another process is at it."""
    held = cluster.try_lock("tick")
    if held is not None:
        with held as lease:
            print(os.getpid(), lease.token, flush=True)
            time.sleep(0.05)


if __name__ == "__main__":
    scheduler = BackgroundScheduler()
    scheduler.add_job(tick, "interval", seconds=0.1, max_instances=1)
    scheduler.start()
    time.sleep(float(os.environ.get("SECONDS_TO_RUN", "10")))
    scheduler.shutdown()
    cluster.close()
