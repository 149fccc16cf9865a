"""Scenarios of mutual exclusion."""

from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario

SCENARIOS = (
    Scenario(
        "central-three",
        "Three participants and a coordinator",
        "Part 1 enters at once.  Part 2 asks while 1 is inside and part 3 asks while 2 waits; the"
        " coordinator's queue goes through the states of the notes' diagram: [], [2], [2, 3],"
        " [3], [].",
        Setup(
            "central", 3, options=("acknowledged",), asks=("1@1ms+4ms", "2@4ms+3ms", "3@6ms+3ms")
        ),
        source="lecture notes on coordination, first diagram",
    ),
    Scenario(
        "central-one-way",
        "One direction is cut: the grant is lost, and all wait",
        "The link from the coordinator to 2 loses everything, the link from 2 does not.  The"
        " coordinator admits 2, which never hears of it, and 1 waits behind it: a link that is half"
        " alive is worse for this lock than one that is cut, because nothing looks broken.",
        Setup(
            "central",
            3,
            asks=("2@1ms", "1@5ms"),
            faults=(("cut", "0>2@0"),),
        ),
        violates=("ME2-deadlock",),
        source="lecture notes on coordination, on links that fail in one direction",
    ),
    Scenario(
        "ra-one-way",
        "One direction is cut: a reply is lost, and two wait for each other",
        "The link from 2 to 1 loses everything.  1 asks and never gets the reply of 2.  Then 2"
        " asks: its request does not reach 1 either, and without the reply of 1 it waits too,"
        " although no process is inside.",
        Setup(
            "ricart-agrawala",
            3,
            asks=("1@1ms+2ms", "2@6ms+2ms"),
            faults=(("cut", "2>1@0"),),
        ),
        violates=("ME2-deadlock",),
        source="lecture notes on coordination and agreement, on asymmetric connections",
    ),
    Scenario(
        "ring-one-way",
        "One direction is cut: the token is lost with the link",
        "The ring needs each link in one direction only, and this one is cut: 2 passes the token on"
        " to 3, and it is gone.",
        Setup(
            "token-ring",
            3,
            asks=("2@500us+1ms", "3@1500us+2ms"),
            faults=(("cut", "2>3@0"),),
        ),
        violates=("ME2-deadlock",),
        source="lecture notes on coordination and agreement, on asymmetric connections",
    ),
    Scenario(
        "central-holder-crash",
        "The holder crashes, and the timeout frees the lock",
        "2 crashes inside.  The coordinator takes its grant back after 10 ms and admits 3: the"
        " timeout was right.",
        Setup(
            "central-timeout",
            3,
            asks=("1@1ms+4ms", "2@4ms+3ms", "3@6ms+3ms"),
            faults=(("crash", "2@Granted#1"),),
        ),
        source="lecture notes on coordination, second diagram",
    ),
    Scenario(
        "central-holder-slow",
        "The holder is only slow, and the timeout lets a second one in",
        "2 is paused inside for 20 ms.  The coordinator takes its grant back after 10 ms and admits"
        " 3, while 2 still believes itself inside: the same timeout as in central-holder-crash, and"
        " now it was wrong.",
        Setup(
            "central-timeout",
            3,
            asks=("1@1ms+4ms", "2@4ms+3ms", "3@6ms+15ms"),
            faults=(("pause", "2@Granted#1+20ms"),),
        ),
        violates=("ME1",),
        shows="none",
        source="lecture notes on coordination, third diagram",
    ),
    Scenario(
        "central-told-outside",
        "Entry in order of arrival is not entry in order of asking",
        "1 asks at 1 ms, over a slow link.  Its application calls 2 on the telephone, and then 2"
        " asks.  The request of 2 arrives first, and 2 enters first, although the request of 1"
        " happened before its own.  No message of the algorithm shows that, so ME3 is broken only"
        " in the reading in which applications tell each other.",
        Setup(
            "central",
            2,
            asks=("1@1ms+2ms", "2@3ms+2ms"),
            faults=(("slow", "1>0@0=5ms"),),
            order="outside",
        ),
        violates=("ME3",),
        source="lecture notes on coordination, the properties of mutual exclusion",
    ),
    Scenario(
        "ring-told-outside",
        "Entry in order of the ring is not entry in order of asking",
        "The token has just left 1 when 1 asks.  Its application tells that of 3, which then asks,"
        " and the token comes to 3 first.",
        Setup("token-ring", 3, asks=("1@500us+2ms", "3@1500us+2ms"), order="outside"),
        violates=("ME3",),
        source="lecture notes on coordination, the properties of mutual exclusion",
    ),
    Scenario(
        "ring-four",
        "A token ring of four, of which only 1 and 3 use the token",
        "The token goes round; 2 and 4 pass it on at once, 3 enters, then 1, then 3 again.",
        Setup("token-ring", 4, asks=("3@1500us+2ms", "1@2ms+2ms", "3@8ms+2ms")),
        source="lecture notes on coordination, diagram of the ring",
    ),
    Scenario(
        "ra-three",
        "The worked example of Ricart-Agrawala: A, B and C with clocks 5, 3 and 7",
        "A asks with stamp 6; B replies with 7 and C with 8.  While A is inside, B asks with 8; C"
        " replies with 9 and A keeps its reply back.  A's clock reads 10 after B's request, so its"
        " release is stamped 11 (the notes write 9, which breaks the clock rule).  Then B enters.",
        Setup(
            "ricart-agrawala",
            3,
            options=("notices",),
            initial=("1.clock=5", "2.clock=3", "3.clock=7"),
            asks=("1@1ms+5ms", "2@4500us+2ms"),
            # B's reply must reach A before C's, and B's request A after both.
            faults=(("slow", "1>3@0=1200us"),),
            labels=("1=A", "2=B", "3=C"),
        ),
        source="lecture notes on Ricart-Agrawala, step by step",
    ),
    Scenario(
        "ra-tie",
        "Equal stamps: the id decides",
        "1 and 2 ask at the same moment with stamp 10.  Both have the same claim; 1 goes first"
        " because its id is smaller.",
        Setup(
            "ricart-agrawala",
            2,
            initial=("1.clock=9", "2.clock=9"),
            asks=("1@1ms+2ms", "2@1ms+2ms"),
        ),
        source="lecture notes on Ricart-Agrawala, special case 1",
    ),
    Scenario(
        "ra-order",
        "Stamps 10, 11, 12: the smallest goes first",
        "A, B and C ask at the same moment with stamps 10, 11 and 12 and enter in this order.",
        Setup(
            "ricart-agrawala",
            3,
            initial=("1.clock=9", "2.clock=10", "3.clock=11"),
            asks=("1@1ms+2ms", "2@1ms+2ms", "3@1ms+2ms"),
            labels=("1=A", "2=B", "3=C"),
        ),
        source="lecture notes on Ricart-Agrawala, special case 3",
    ),
)
