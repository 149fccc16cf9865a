"""Scenarios of Lamport's mutual exclusion: why it needs links that keep the order."""

from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario

# What 1 sends to 2 is slow until 2 ms, so that its request, sent at 1 ms, takes longer than its
# acknowledgement, sent at 2.2 ms.
_ASKS = ("1@1ms+3ms", "2@1200us+9ms")
_SLOW = (("slow", "1>2@0=6ms"), ("slow", "1>2@2ms=1ms"))

SCENARIOS = (
    Scenario(
        "lamport-not-fifo",
        "An acknowledgement overtakes a request, and two enter",
        "1 and 2 ask with stamp 1, so 1 comes first, and enters when it hears the later request of"
        " 2.  Its own request to 2 is slow.  Its acknowledgement is not: 2 has now heard something"
        " later from 1, knows of no earlier request, and enters as well.",
        Setup("lamport", 2, asks=_ASKS, faults=_SLOW, fifo=False),
        violates=("ME1",),
        shows="unordered",
        source=(
            "Lamport 1978, the assumption that messages arrive in the order in which they were sent"
        ),
    ),
    Scenario(
        "lamport-fifo",
        "The same delays over links that keep the order",
        "The acknowledgement and the release wait behind the request.  When 2 hears the"
        " acknowledgement it knows that 1 comes first.",
        Setup("lamport", 2, asks=_ASKS, faults=_SLOW),
        source="Lamport 1978",
    ),
)
