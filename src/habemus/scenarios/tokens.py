"""Scenarios of the mutual exclusion algorithms that are built around a token."""

from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario

# A message and its acknowledgement take 2 ms, so a process without an answer after 3 ms is down.
REPAIR = ("patience=3ms", "silence=15ms")

SCENARIOS = (
    Scenario(
        "suzuki-kasami-three",
        "Suzuki-Kasami: a process that wants the token asks all others",
        "1 has the token.  2 asks both others and gets it: three messages.  While 2 is inside,"
        " first 3 and then 1 ask.  When 2 leaves, it adds both to the token's queue, 1 before 3, by"
        " id and not by the time of asking.  The token goes to 1 and from there to 3, and 3 enters"
        " a second time without any message, because the token is still there.",
        Setup("suzuki-kasami", 3, asks=("2@1ms+6ms", "3@4ms+2ms", "1@6ms+2ms", "3@18ms+2ms")),
        source="Suzuki, Kasami 1985",
    ),
    Scenario(
        "raymond-tree",
        "Raymond: a request goes through the tree towards the token, and the token returns the same"
        " way",
        "The token is at the root, 1.  4 asks its parent 2, which asks 1 on its own behalf; the"
        " token comes down the same two edges.  While 4 is inside, 5 and 7 ask.  2 hears from 5"
        " first and asks 4; when the request of 7 reaches it by way of 3 and 1, it need not ask"
        " again.  So the token goes by 2 to 5, with a request to send it back, and then by 2, 1 and"
        " 3 to 7.",
        Setup("raymond", 7, asks=("4@1ms+8ms", "7@6ms+2ms", "5@6500us+2ms")),
        source="Raymond 1989",
    ),
    Scenario(
        "naimi-trehel-paths",
        "Naimi-Trehel: every process on the path of a request points at its sender",
        "All point at 1, which has the token and gives it to 2.  While 2 is inside, 3, 4 and"
        " 5 ask 1, and 1 forwards each request to the one that asked before: 3 queues behind 2, 4"
        " behind 3, 5 behind 4.  Then the token goes from one to the next, one message each.  At"
        " the end 3 asks again.  It points at 4, which sent the last request that it saw, and 4"
        " points at 5: two steps and the token.",
        Setup(
            "naimi-trehel",
            5,
            asks=("2@1ms+12ms", "3@4ms+2ms", "4@7ms+2ms", "5@10ms+2ms", "3@26ms+2ms"),
        ),
        source="Naimi, Trehel, Arnold 1996",
    ),
    Scenario(
        "ring-broken",
        "A crash anywhere breaks the plain ring",
        "3, which does not even want the token, crashes while it is elsewhere.  2 enters and then"
        " sends the token to 3, where it is lost: 1 waits for ever.",
        Setup("token-ring", 4, asks=("2@4500us+2ms", "1@6ms+2ms"), faults=(("crash", "3@3500us"),)),
        violates=("ME2-deadlock",),
        shows="crash",
        source="lecture notes on coordination, the section on failures",
    ),
    Scenario(
        "ring-repair-bystander",
        "The same crash, and the ring closes behind it",
        "3 crashes while the token is elsewhere.  2 enters, sends the token to 3 and gets no"
        " acknowledgement, so after 3 ms it sends the token, with a new epoch, to 4, and from there"
        " it comes to 1.  When 3 is back, it gets the token again in the next round.",
        Setup(
            "token-ring-repair",
            4,
            options=REPAIR,
            asks=("2@4500us+2ms", "1@6ms+2ms", "4@15500us+2ms"),
            faults=(("crash", "3@3500us"), ("recover", "3@11500us")),
        ),
    ),
    Scenario(
        "ring-repair-holder",
        "The holder crashes inside, and the lock lives on",
        "3 enters and leaves, then 2 enters and crashes inside, and the token with it.  15 ms after"
        " it last saw the token, 3 sends an inquiry round the ring.  4 and 1 pass it on; 2 does not"
        " answer and is skipped.  The inquiry returns to 3, so no process has the token, and 3"
        " makes one with a new epoch: 4 enters and then 1.",
        Setup(
            "token-ring-repair",
            4,
            options=REPAIR,
            asks=("3@500us+1ms", "2@4500us+4ms", "1@6500us+2ms", "4@6500us+2ms"),
            faults=(("crash", "2@Granted#1"),),
        ),
    ),
    Scenario(
        "ring-repair-slow",
        "The holder is only slow, and the ring makes a second token",
        "The run of ring-repair-holder, but 2 is only paused inside, for 25 ms.  3 cannot know"
        " that: it makes a new token, and 4 enters while 2 still believes itself inside.  When 2"
        " goes on, it leaves and passes its token on, and 3 refuses it, because its epoch is the"
        " older one: from then on there is one token again.  The epoch ends the mistake; nothing"
        " could have prevented it.",
        Setup(
            "token-ring-repair",
            4,
            options=REPAIR,
            asks=("3@500us+1ms", "2@4500us+4ms", "4@6500us+15ms"),
            faults=(("pause", "2@Granted#1+25ms"),),
        ),
        violates=("ME1",),
        shows="none",
    ),
)
