"""Scenarios of elections on networks of any shape."""

from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario

TWO_LOBES = (
    "edges=[[1,11],[1,12],[2,6],[2,10],[3,8],[3,9],[4,10],[4,11],[4,12],[5,9],[6,8],[6,9],[7,11],"
    "[8,9],[11,12]]"
)
"""Twelve processes in two groups that only the link between 2 and 10 connects."""

SCENARIOS = (
    Scenario(
        "yo-yo-graph",
        "A network of twelve, elected by Yo-Yo",
        "1 and 2 call; the others are woken.  Of six sources two are left after the first stage: 1,"
        " and 2 on the other side of the link 2-10.  In the second stage they meet at 4, and 1"
        " wins.",
        Setup("yo-yo", 12, options=(TWO_LOBES, "patience=5ms"), asks=("1@1ms", "2@1ms")),
        source="lecture notes on coordination, figure of Yo-Yo",
    ),
    Scenario(
        "yo-yo-cut",
        "The same network with its bridge cut elects two",
        "The link between 2 and 10 is cut from the start.  Each side takes the silent neighbour for"
        " gone and elects its own smallest: 1 here and 2 there.",
        Setup(
            "yo-yo",
            12,
            options=(TWO_LOBES, "patience=5ms"),
            asks=("1@1ms", "2@1ms"),
            faults=(("cut", "2-10@0"),),
        ),
        violates=("E1", "E3"),
        shows="lossy",
        source=(
            "lecture notes on coordination, what happens when the channel between 2 and 10 fails"
        ),
    ),
)
