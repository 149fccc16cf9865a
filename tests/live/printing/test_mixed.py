"""Groups of our clients and another's, hundreds of jobs: never two at the printer at once, by the
printer's own record.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from tests.live.conftest import PATIENCE
from tests.live.printing.another import Job, Receipt, serving
from tests.live.printing.programs import Office

JOBS = 25


def never_two(jobs: list[dict[str, Any]]) -> bool:
    in_order = sorted(jobs, key=lambda job: int(job["began_us"]))
    return all(one["ended_us"] <= other["began_us"] for one, other in pairwise(in_order))


@pytest.mark.parametrize(("ours", "others"), [((1, 2), (3,)), ((2,), (1, 3)), ((1, 3, 40), (2, 7))])
def test_mixed_groups_never_print_two_at_once(
    office: Callable[..., Office], ours: tuple[int, ...], others: tuple[int, ...]
) -> None:
    here = office(sorted((*ours, *others)))
    total = JOBS * len(here.ids)
    printer = here.printer("--seconds", "0.003..0.005", "--watch", "--jobs", str(total), "--json")
    clients = [here.client(me, "--every", "0", "--jobs", str(JOBS), "--json") for me in ours]
    strangers = [here.another(me, JOBS) for me in others]
    assert printer.wait() == 0
    document = printer.document()
    assert (
        document["printed"] == total and document["overlapping"] == 0 and document["overlaps"] == []
    )
    assert len(document["jobs"]) == total and never_two(document["jobs"])
    assert Counter(job["client"] for job in document["jobs"]) == dict.fromkeys(here.ids, JOBS)
    for stranger in strangers:
        stranger.hear(f"printed {JOBS}")
    for client in clients:
        client.hear(f"has printed {JOBS} of {JOBS}")
    for client in clients:
        assert client.end() == 0
        said = client.document()
        assert said["printed"] == JOBS and said["gave_up"] == 0


def test_another_that_counts_silence_as_a_reply_prints_over_our_job_and_the_printer_says_so(
    office: Callable[..., Office],
) -> None:
    """The unsafe rule of the notes, on the wire.  So the check above is able to fail."""
    here = office((1, 2))
    printer = here.printer("--seconds", "600", "--watch", "--json")
    client = here.client(1, "--give-up", "0", "a long page")  # 2 is not there yet
    assert (
        client.hear("WARNING: --give-up")
        and client.hear("WARNING: entering without the reply of 2")
        and client.hear("HELD")
    )
    here.another(2, 1, give_up=0.2).hear("holds 1")
    assert "request 1 of client 2 began while request 1 of client 1" in printer.hear("OVERLAP")
    assert printer.end() == 1
    document = printer.document()
    assert document["overlapping"] == 1
    assert not never_two(
        [{**job, "ended_us": job["began_us"] + 600_000_000} for job in document["overlaps"][0]]
    )


class HeldPrinter:
    """A printer that keeps each job until it is told to let it go, and sees two at once."""

    def __init__(self, port: int) -> None:
        self.began: queue.Queue[int] = queue.Queue()  # clients, as their jobs come in
        self.inside: Counter[int] = Counter()
        self.overlaps = 0
        self._may_end: defaultdict[int, threading.Semaphore] = defaultdict(
            lambda: threading.Semaphore(0)
        )
        self.server, _ = serving(port, "PrintingService", {"SendToPrinter": (self._print, Job)})

    def _print(self, job: Any) -> Any:
        self.overlaps += self.inside.total() > 0
        self.inside[job.client_id] += 1
        self.began.put(job.client_id)
        self._may_end[job.client_id].acquire(timeout=PATIENCE)
        self.inside[job.client_id] -= 1
        return Receipt(success=True, confirmation_message="printed")

    def let_go(self, client: int) -> None:
        self._may_end[client].release()

    def next(self) -> int:
        return self.began.get(timeout=PATIENCE)


@pytest.mark.parametrize(("notices", "overlaps"), [("yes", 1), ("no", 0)])
def test_one_that_counts_releases_as_permissions_overlaps_only_with_notices(
    office: Callable[..., Office], notices: str, overlaps: int
) -> None:
    """Client 1 leaves while 2 and then 3 wait.  Its reply and its notice are two permissions for 3,
    which needs two.
    """
    here = office((1, 2, 3))
    printer = HeldPrinter(here.printer_port)
    try:
        ours = {me: here.client(me, "--notices", notices) for me in (1, 2)}
        stranger = here.another(3, 1, dialect="counting")
        for client in ours.values():
            client.hear("listens")
        stranger.hear("ready")
        ours[1].type("first")
        assert printer.next() == 1
        ours[2].type("second")
        ours[2].hear("waits for 1")
        stranger.type("")  # now it may ask
        stranger.hear("asks 1")
        printer.let_go(1)
        assert {printer.next(), *([printer.next()] if overlaps else [])} == (
            {2, 3} if overlaps else {2}
        )
        printer.let_go(2)
        if not overlaps:
            assert printer.next() == 3
        printer.let_go(3)
        stranger.hear("printed 1")
        assert printer.overlaps == overlaps
    finally:
        printer.server.stop(None)
