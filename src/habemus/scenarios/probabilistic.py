"""Scenarios of the probabilistic election."""

from habemus.catalog.setup import Setup
from habemus.scenarios.scenario import Scenario

SOURCE = "Gupta, van Renesse, Birman 2000"

SCENARIOS = (
    Scenario(
        "probabilistic-missed",
        "A rumour that did not reach everybody: two leaders",
        "Eight processes, each of which tells only two others.  In the first round nobody stands; in the second three do, and the "
        "rumour of the best one misses some: they take another for the leader, and one of them itself.",
        Setup("probabilistic", 8, seed=1, options=("fanout=2", "candidates=3"), asks=("1@0",)),
        violates=("E1", "E3"),
        source=SOURCE,
    ),
    Scenario(
        "probabilistic-told",
        "The same with four told by each: all agree",
        "Each of the eight processes tells four others instead of two, and the best candidate becomes known to all.",
        Setup("probabilistic", 8, seed=1, options=("fanout=4", "candidates=3"), asks=("1@0",)),
        source=SOURCE,
    ),
)
