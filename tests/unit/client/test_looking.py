"""Several threads may look at one lease at the same time."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.backends import session_of
from tests.unit.client.conftest import PATIENCE, FakeNode, grants, line

import habemus


def answers_beats(said: list[Any]) -> bytes:
    return line("alive", said[1], [[1, None]]) if said[0] == "alive" else grants(said)


@pytest.mark.skipif(not hasattr(select, "poll"), reason="there is no poll(2)")
def test_a_thread_looks_at_a_lease_at_which_another_one_looks(
    fake_node: Callable[..., FakeNode],
) -> None:
    """An object of poll(2) serves one thread at a time, and raises in the other one."""
    with habemus.connect(fake_node(answers_beats).place) as cluster:
        lease = cluster.lock("x").acquire()
        connection = session_of(lease)._connections[lease._id]
        polls = [each for each in vars(connection).values() if hasattr(each, "poll")]
        assert polls
        for poll in polls:
            other = threading.Thread(target=poll.poll)
            other.start()
            with pytest.raises(RuntimeError, match="concurrent"):
                while other.is_alive():
                    poll.poll(0)
            lease.check()
            connection.say("alive", 1)
            other.join(PATIENCE)
            lease.check()
