"""Celery: a task that must not run twice at a time, also if it was delivered twice.

celery --app celery_once worker        # in examples/recipes
"""

from __future__ import annotations

import os
from typing import Any

import habemus
from celery import Celery

app: Any = Celery("celery_once", broker=os.environ.get("BROKER", "memory://"))
app.conf.result_backend = "cache+memory://"


@app.task(bind=True, max_retries=None)
def report(self: Any, name: str) -> int | None:
    """Write a report; try again later if it is being written."""
    with habemus.connect() as cluster:  # in the worker: connections must not be inherited
        lock = cluster.lock(f"reports/{name}")
        if not lock.acquire(blocking=False):
            raise self.retry(countdown=1)
        try:
            assert lock.lease is not None
            return lock.lease.token  # the writes carry it
        finally:
            lock.release()
