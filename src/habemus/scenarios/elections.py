"""Scenarios of leader election."""

from habemus.catalog.setup import Setup
from habemus.scenarios.scenario import Scenario

_FLAPPING = Setup(
    "bully",
    5,
    options=("timeout=5ms", "patience=15ms"),
    asks=("5@0", "2@25ms", "3@75ms"),
    faults=(("crash", "5@20ms"), ("recover", "5@50ms"), ("crash", "5@70ms"), ("recover", "5@100ms")),
)

SCENARIOS = (
    Scenario(
        "bully-five",
        "The bully among five: 5 leads and fails, 4 wins",
        "5 leads and crashes.  2 and 3 notice and ask the larger ones; 4 answers both, and 3 answers 2.  Then 1 notices and asks all; 2, "
        "3 and 4 answer.  4 has asked 5, which does not answer, and so 4 announces itself to everybody.",
        Setup(
            "bully",
            5,
            options=("timeout=5ms", "patience=15ms"),
            asks=("5@0", "2@15ms", "3@15ms", "1@16500us"),
            faults=(("crash", "5@10ms"),),
        ),
        source="lecture notes on coordination, the bully in seven steps",
    ),
    Scenario(
        "bully-impatient",
        "A timer that is shorter than the round trip makes two leaders",
        "4 asks 5, whose messages take 4 ms, and waits for 3 ms.  5 has made itself leader at once; 4 hears nothing in time and makes itself "
        "leader too.  Only the messages of 5, when they come, end that.",
        Setup(
            "bully",
            5,
            options=("timeout=3ms", "patience=15ms"),
            asks=("4@1ms",),
            faults=tuple(("slow", f"5>{other}@0=4ms") for other in range(1, 5)),
        ),
        violates=("E1",),
        source="lecture notes on coordination, on the choice of the timer",
    ),
    Scenario(
        "bully-flapping",
        "The strongest comes and goes, and takes over each time",
        "5 leads, crashes, and 4 is elected.  5 comes back and takes over although 4 leads well, and crashes again: each of its returns "
        "costs an election.",
        _FLAPPING,
        violates=("E4",),
        source="lecture notes on coordination, on processes that are often away",
    ),
    Scenario(
        "bully-stable-flapping",
        "The strongest comes and goes, and is not elected again",
        "The same crashes as in bully-flapping.  5 has lost its rank by restarting: when it comes back it learns that 4 leads.",
        Setup("bully-stable", 5, options=_FLAPPING.options, asks=_FLAPPING.asks, faults=_FLAPPING.faults),
        source="lecture notes on coordination, on processes that are often away",
    ),
)
