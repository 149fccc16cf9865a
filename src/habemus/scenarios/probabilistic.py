"""Scenarios of the probabilistic election."""

from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario

SOURCE = "Gupta, van Renesse, Birman 2000"

SCENARIOS = (
    Scenario(
        "probabilistic-missed",
        "A rumour that did not reach all processes: two leaders",
        "Eight processes, each of which tells only two others.  6 and 8 stand, but some never hear"
        " of them, go on to the next round and draw others along; there again the better of two"
        " candidates is not heard of by all.  In the end 4 and 7 both lead, and one process still"
        " follows the candidate of the first round.",
        Setup("probabilistic", 8, seed=1, options=("fanout=2", "candidates=3"), asks=("1@0",)),
        violates=("E1", "E3"),
        shows="none",
        source=SOURCE,
    ),
    Scenario(
        "probabilistic-told",
        "The same, but each process tells four others: all agree",
        "Each of the eight processes tells four others instead of two, and the best candidate"
        " becomes known to all.",
        Setup("probabilistic", 8, seed=1, options=("fanout=4", "candidates=3"), asks=("1@0",)),
        source=SOURCE,
    ),
)
