"""Scenarios of applications that go on at another process with their lock."""

from dataclasses import replace

from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario

_MOVE = Setup(
    "elected-coordinator-leased",
    3,
    options=(
        'election_options={"period": 400000, "patience": [600000, 900000]}',
        "lease=60ms",
        "moves=1",
    ),
    asks=("2@10ms+10ms", "3@15ms+5ms"),
)

SCENARIOS = (
    Scenario(
        "stay-moves",
        "An application moves to another process, and its lock with it",
        "2 is inside, and an application of 3 waits.  That of 2 goes on at 3, as when its node"
        " shuts down.  3 claims the loan that has its token, and 1 lends to 3 in the place of 2."
        "  2 records that, and is out of it.  The application shows the token that it had.  When"
        " it has left, 3 asks for the other one, which enters and moves to 1.",
        _MOVE,
    ),
    Scenario(
        "stay-outlives-crash",
        "The process of the one inside crashes, and its application goes on at another one",
        "As in stay-moves, but 2 crashes when its application has left it.  The coordinator knows"
        " the loan and lends it to 3.",
        replace(_MOVE, faults=(("crash", "2@23.5ms"),)),
    ),
)
