"""gunicorn: one leader among the workers, which runs what must run once.

    gunicorn --config gunicorn_leader.py gunicorn_leader:application    # in examples/recipes

Every worker serves requests; one of them leads, and the next takes over when it ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

import habemus

leads = threading.Event()


def lead() -> None:
    """Wait until this worker leads; then work until the term ends."""
    with habemus.connect() as cluster:
        while True:
            try:
                with cluster.election("background").lead() as term:
                    leads.set()
                    while not term.lost:
                        threading.Event().wait(0.1)  # the work that must run once
            except habemus.LockLost:
                pass  # another worker may lead by now; queue up again
            finally:
                leads.clear()


def post_fork(server: Any, worker: Any) -> None:
    """Start the candidate in each worker: connections must not be inherited."""
    import gunicorn_leader  # gunicorn executes its configuration as another module than this

    threading.Thread(target=gunicorn_leader.lead, daemon=True).start()


def application(
    environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], Any]
) -> Iterable[bytes]:
    """Answer with the worker, and whether it leads."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {'leads' if leads.is_set() else 'follows'}\n".encode()]
