"""kill -9 of a client in each of its states: the others of ours wait for it, in so many words, and
go on when it is back.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live.conftest import PATIENCE
from tests.live.printing.another import Job, Receipt, serving
from tests.live.printing.programs import Office, Program


class Press:
    """A printer whose jobs end when the test says so."""

    def __init__(self) -> None:
        self._sheets = threading.Semaphore(0)
        self._arrived: queue.Queue[str] = queue.Queue()
        self.server, self.port = serving(0, "PrintingService", {"SendToPrinter": (self.print, Job)})

    def print(self, job: Any) -> Any:
        self._arrived.put(job.message_content)
        assert self._sheets.acquire(timeout=PATIENCE)
        return Receipt(
            success=True, confirmation_message="done", lamport_timestamp=job.lamport_timestamp
        )

    def arrived(self) -> str:
        return self._arrived.get(timeout=PATIENCE)

    def is_idle(self) -> bool:
        return self._arrived.empty()

    def finish(self) -> None:
        self._sheets.release()


@pytest.fixture
def press() -> Iterator[Press]:
    made = Press()
    yield made
    for _ in range(10):
        made.finish()
    made.server.stop(0)


def client(here: Office, me: int, *more: str) -> Program:
    program = here.client(me, *more)
    program.hear(f"client {me} listens")
    return program


def test_ours_wait_for_a_killed_client_and_go_on_when_it_is_back(
    office: Callable[..., Office], press: Press
) -> None:
    here = office((1, 2, 3))
    here.printer_port = press.port
    clients = {me: client(here, me) for me in here.ids}

    # RELEASED: 3 wanted nothing.
    clients[3].kill()
    clients[1].type("first")
    assert f"cannot be reached at 127.0.0.1:{here.ports[3]}" in clients[1].hear("client 3")
    assert press.is_idle()
    clients[3] = client(here, 3)
    assert press.arrived() == "first"

    # WANTED: 2 waits for 1, which is inside.
    clients[2].type("second")
    assert clients[2].hear("WANTED")
    clients[2].kill()
    press.finish()
    assert clients[1].hear("printed 'first'")
    clients[3].type("third")
    assert clients[3].hear("client 2 cannot be reached")
    assert press.is_idle()
    clients[2] = client(here, 2)
    assert press.arrived() == "third"

    # HELD: 3 is inside.  Its paper comes out all the same, and nobody knows.
    clients[1].type("fourth")
    assert clients[1].hear("WANTED")
    clients[3].kill()
    assert clients[1].hear("client 3 cannot be reached")
    press.finish()
    assert press.is_idle()
    clients[3] = client(here, 3)
    assert press.arrived() == "fourth"
    press.finish()
    assert clients[1].hear("printed 'fourth'")
    for each in clients.values():
        assert each.end() == 0


def test_what_another_client_does_when_one_of_ours_is_killed_inside(
    office: Callable[..., Office], press: Press
) -> None:
    """It counts the broken call as a reply and prints; ours waits, unless it was told to
    give up.
    """
    here = office((1, 2, 3))
    here.printer_port = press.port
    inside, waiting = client(here, 1), client(here, 2)
    stranger = here.another(3, 1)
    stranger.hear("holds 1")
    assert press.arrived() == "page 1 of 3"
    press.finish()
    stranger.hear("printed 1")
    inside.type("inside")
    assert press.arrived() == "inside"
    stranger.kill()
    stranger = here.another(3, 1)
    stranger.hear("asks 1")
    # Only now, so that its request is the later one: else it defers that of the stranger.
    waiting.type("waiting")
    assert waiting.hear("WANTED")
    inside.kill()
    stranger.hear("holds 1")
    assert press.arrived() == "page 1 of 3"  # beside the paper of the dead
    assert waiting.hear("client 1 cannot be reached")
    assert waiting.says_nothing_of("HELD")


def test_whoever_is_told_to_give_up_goes_on_without_the_dead_and_says_so(
    office: Callable[..., Office], press: Press, tmp_path: Path
) -> None:
    here = office((1, 2), folder=tmp_path)
    here.printer_port = press.port
    dead = client(here, 1, "--give-up", "0.2")
    dead.kill()
    alive = here.client(2, "--give-up", "0.2", "--json", "--leave", "alone")
    assert alive.hear("WARNING: --give-up 0.2")
    assert alive.hear("WARNING: entering without the reply of 1")
    assert press.arrived() == "alone"
    press.finish()
    assert alive.wait() == 0
    assert alive.document()["gave_up"] == 1
