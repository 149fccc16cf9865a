"""The requests that a setup describes, checked."""

from __future__ import annotations

from habemus.core.system import System
from habemus.problems.mutex import Ask
from habemus.runs import notation
from habemus.runs.setup import MOST_REQUESTS, BadSetup, Setup


def asks_of(setup: Setup, system: System) -> list[Ask]:
    """Return the asks of a setup; raise `BadSetup` if its requests are invalid."""
    if setup.requests < 0:
        raise BadSetup(f"the number of requests is 0 or more, not {setup.requests}")
    if setup.requests * setup.n > MOST_REQUESTS:
        raise BadSetup(
            f"a run has up to {MOST_REQUESTS} requests, not {setup.n} times {setup.requests}"
        )
    asks = [notation.ask(text) for text in setup.asks]
    for one in asks:
        if one.process not in system.clients:
            raise BadSetup(
                f"process {one.process} is not a participant; there are {system.clients[0]} to"
                f" {system.clients[-1]}"
            )
    return asks
