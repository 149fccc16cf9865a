"""Scenarios of elections on rings."""

from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario

SCENARIOS = (
    Scenario(
        "ring-anonymous-one",
        "One candidate among identical processes",
        "1 asks for votes.  Its request comes round, so it is elected and announces it; that comes"
        " round too, and it takes office.",
        Setup("ring-anonymous", 2, asks=("1@1ms",)),
        source="lecture notes on coordination, first table of the ring",
    ),
    Scenario(
        "ring-anonymous-two",
        "Two candidates at once, and both take office",
        "1 and 2 ask for votes at the same moment.  Each takes the other's request for its own,"
        " since nothing tells them apart, and so both are elected.  Both see exactly what the only"
        " candidate of ring-anonymous-one sees: no rule could make them differ.",
        Setup("ring-anonymous", 2, asks=("1@1ms", "2@1ms")),
        violates=("E1", "E3"),
        shows="none",
        source="lecture notes on coordination, second table of the ring",
    ),
    Scenario(
        "itai-rodeh-two",
        "Two candidates at once draw lots",
        "The same two identical processes as in ring-anonymous-two, but each draws an id, and they"
        " know that they are two.  Twice they draw the same, see it on the tokens that return,"
        " and draw again; then one has the larger.",
        Setup("itai-rodeh", 2, seed=1, asks=("1@1ms", "2@1ms")),
        source="Itai and Rodeh, 1990",
    ),
    Scenario(
        "ring-list-two",
        "A ring that collects ids: two lists go round, and both say the same",
        "2 and 3 call at once.  Each list grows by one id at each hop; when it is back with its"
        " first process it has all of them, and the smallest leads.  The notes stop there: here the"
        " choice goes round once more, so that all know it.",
        Setup("ring-list", 4, asks=("2@1ms", "3@1ms")),
        source="lecture notes on coordination, second ring algorithm",
    ),
    Scenario(
        "chang-roberts-worst",
        "Ids that decrease in the direction of travel, and all start",
        "Every id k gets as far as to the largest, which drops it: k messages.  Together that makes"
        " n(n+1)/2, here 55, and 10 more to announce the outcome.",
        Setup("chang-roberts", 10, options=("order=decreasing",), workload="burst"),
        source="Chang and Roberts, 1979, the worst case",
    ),
    Scenario(
        "chang-roberts-lone",
        "Only the smallest starts, and nothing comes of it",
        "In the plain form, 2 drops the id of 1 and puts nothing in its place.  1 waits for ever,"
        " although nothing has failed and the winner would announce itself.",
        Setup("chang-roberts-plain", 5, options=("order=increasing", "announce"), asks=("1@1ms",)),
        violates=("E2",),
        shows="none",
        source="lecture notes on coordination, the listing of Chang and Roberts read literally",
    ),
    Scenario(
        "franklin-rounds",
        "Neighbours drop out round by round",
        "Eight processes, the largest in the middle.  In each round every second of those that are"
        " left goes passive: first 1, 2, 3 and 4, then 5 and 6, then 7.  In the fourth round the id"
        " of 8 returns to it from both sides.  16 messages for each round, as many as a ring of"
        " eight can need, and 8 to announce.",
        Setup("franklin", 8, options=("order=[7,1,5,2,8,3,6,4]",), asks=("8@1ms",)),
        source="lecture notes on coordination, figure of Franklin's algorithm",
    ),
)
