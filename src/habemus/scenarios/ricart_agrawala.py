"""Scenarios of the variants of Ricart and Agrawala: what each of them buys, and what it breaks."""

from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario

_NOTES = "lecture notes on Ricart-Agrawala"

# One less urgent process and two that ask again as soon as they have left.
_LOAD = ("3.priority=1",)
_LOAD_LABELS = ("1=high 1", "2=high 2", "3=low")

SCENARIOS = (
    Scenario(
        "ra-timeout-crash",
        "A peer is dead, and the timeout lets the others go on",
        "1 has crashed.  2 waits for its reply for 10 ms, gives up and enters; so does 3, later. "
        " The timeout was right.",
        Setup(
            "ra-timeout",
            3,
            options=("timeout=10ms",),
            asks=("2@2ms+3ms", "3@20ms+3ms"),
            faults=(("crash", "1@1ms"),),
        ),
        source=f"{_NOTES}, special case 2",
    ),
    Scenario(
        "ra-timeout-slow",
        "A peer is only slow, and the timeout lets a second one in",
        "1 is inside and paused for 20 ms.  2 has waited 10 ms for its reply, believes it dead and"
        " enters: the same timeout as in ra-timeout-crash, and now it was wrong.  The missing reply"
        " was a refusal.",
        Setup(
            "ra-timeout",
            3,
            options=("timeout=10ms",),
            asks=("1@1ms+4ms", "2@4ms+3ms"),
            faults=(("pause", "1@Granted#1+20ms"),),
        ),
        violates=("ME1",),
        shows="none",
        source=f"{_NOTES}, special case 2",
    ),
    Scenario(
        "ra-majority-naive",
        "Two of three replies are a majority, twice",
        "1 and 2 ask at the same moment.  3 wants nothing and replies to both, so each of them has"
        " two of three and enters.",
        Setup("ra-majority-naive", 3, asks=("1@1ms+3ms", "2@1ms+3ms")),
        violates=("ME1",),
        shows="none",
        source=f"{_NOTES}, optimisation 1",
    ),
    Scenario(
        "ra-majority-votes",
        "The same two requests, but a reply is a vote",
        "1 and 2 ask at the same moment, and each votes for itself.  3 has only one vote.  By"
        " (stamp, id) 1 comes first: it gets the votes of 2 and 3, if need be after 2 has given"
        " them back, and 2 waits for its release.",
        Setup("ra-majority", 3, asks=("1@1ms+3ms", "2@1ms+3ms")),
        source=f"{_NOTES}, optimisation 1, made safe",
    ),
    Scenario(
        "ra-majority-split",
        "Split votes, and how they are gathered",
        "All four ask at the same moment and vote for themselves, so none has three of four"
        " votes.  2, 3 and 4 hear of the earlier request of 1 and ask themselves for their votes"
        " back.  Then all vote for 1, and so on in order of (stamp, id).",
        Setup("ra-majority", 4, asks=("1@1ms+3ms", "2@1ms+3ms", "3@1ms+3ms", "4@1ms+3ms")),
        source="Sanders 1987, yielding by stamp",
    ),
    Scenario(
        "ra-majority-crash",
        "Two of five are dead, and three are a majority",
        "4 and 5 have crashed.  If all replies were needed, none would ever enter again; three"
        " votes of five can still be gathered.",
        Setup(
            "ra-majority",
            5,
            asks=("1@2ms+3ms", "2@3ms+3ms", "3@4ms+3ms"),
            faults=(("crash", "4@1ms"), ("crash", "5@1ms")),
        ),
        source="Thomas 1979, majorities",
    ),
    Scenario(
        "ra-priority-starved",
        "One less urgent process, two urgent ones, and no end of requests",
        "1 and 2 ask again as soon as they have left, so one of them is always waiting or inside. "
        " 3 asked at the same moment as they did first, and makes way every time: it never has both"
        " replies at once.",
        Setup(
            "ra-priority",
            3,
            workload="burst",
            requests=120,
            initial=_LOAD,
            labels=_LOAD_LABELS,
            until="400ms",
        ),
        violates=("ME2-starvation",),
        shows="none",
        source=f"{_NOTES}, optimisation 2",
    ),
    Scenario(
        "ra-priority-aging",
        "The same load, with a handicap instead of a rank",
        "3 is placed 100 ticks later than its stamp.  After some 30 entries of 1 and 2 their clocks"
        " have passed that, their new requests come after it, and 3 enters; and so again, until all"
        " 360 requests have been served.",
        Setup(
            "ra-priority-aging",
            3,
            workload="burst",
            requests=120,
            initial=_LOAD,
            labels=_LOAD_LABELS,
        ),
        source=f"{_NOTES}, optimisation 2, with aging",
    ),
    Scenario(
        "ra-lossy",
        "Messages are lost, and no process enters any more",
        "The network loses three messages of ten.  Ricart and Agrawala never send a message again,"
        " so a request without a reply waits for ever.",
        Setup("ricart-agrawala", 3, seed=1, workload="burst", requests=2, loss="30%"),
        violates=("ME2-deadlock",),
        shows="lossy",
        source=f"{_NOTES}, optimisation 3",
    ),
    Scenario(
        "ra-reliable",
        "The same network, and perfect links below",
        "Three messages of ten are lost and three of ten come twice, in any order.  The links"
        " number, acknowledge and send again; the algorithm above them notices nothing but delay.",
        Setup(
            "ra-reliable",
            3,
            seed=1,
            workload="burst",
            requests=2,
            delay="500..1500",
            loss="30%",
            duplicate="30%",
        ),
        source=f"{_NOTES}, optimisation 3",
    ),
    Scenario(
        "roucairol-carvalho-kept",
        "A process that enters again asks no other",
        "1 asks 2 and 3 once, 4 messages, and then enters twice more without any message: no"
        " process has asked for the permissions that it keeps.",
        Setup("roucairol-carvalho", 3, asks=("1@1ms+2ms", "1@6ms+2ms", "1@9ms+2ms")),
        source="Carvalho, Roucairol 1983",
    ),
    Scenario(
        "roucairol-carvalho-again",
        "A permission is given away and asked for again",
        "1 has kept the permission of 2 and, when it wants to enter at 20 ms with stamp 7, asks"
        " only 3.  Meanwhile 2 asks with stamp 5, which goes first.  So 1 gives its permission to"
        " 2, and with it up that of 2, which it must now ask for after all.",
        Setup(
            "roucairol-carvalho", 3, asks=("1@1ms+2ms", "3@10ms+2ms", "1@20ms+2ms", "2@20ms+2ms")
        ),
        source="Carvalho, Roucairol 1983",
    ),
)
