"""Scenarios of mutual exclusion by quorums and by voting sets.

The coordinators of a quorum are the processes 101, 102, ..., called c1, c2, ....  Who reaches which
coordinator first is decided by slow links.
"""

from dataclasses import replace

from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario


def slow(
    participant: int, coordinators: range | tuple[int, ...], delay: str
) -> tuple[tuple[str, str], ...]:
    return tuple(
        ("slow", f"{participant}>{100 + coordinator}@0={delay}") for coordinator in coordinators
    )


SUCCESS = Setup(
    "quorum",
    2,
    asks=("1@1ms+3ms", "2@2ms+2ms"),
    faults=(*slow(1, (3,), "4ms"), ("slow", "1>103@4ms=1ms")),
)

RESTART_OF_THREE = Setup(
    "quorum",
    2,
    asks=("1@1ms+10ms", "2@1500us+3ms"),
    faults=(
        ("crash", "102@4ms"),
        ("recover", "102@5ms"),
        *slow(1, (3,), "3ms"),
        *slow(2, (2,), "6ms"),
    ),
)

RESTART_OF_SEVEN = Setup(
    "quorum",
    2,
    options=("coordinators=7", "quorum=4"),
    asks=("1@1ms+10ms", "2@1ms+3ms"),
    faults=(
        ("crash", "104@4ms"),
        ("recover", "104@5ms"),
        *slow(1, range(5, 8), "3ms"),
        *slow(2, range(1, 4), "3ms"),
        *slow(2, (4,), "6ms"),
    ),
)

SPLIT = Setup(
    "quorum",
    3,
    asks=("1@1ms+2ms", "2@1ms+2ms", "3@1ms+2ms"),
    faults=(*slow(1, (2, 3), "3ms"), *slow(2, (1, 3), "3ms"), *slow(3, (1, 2), "3ms")),
)

CYCLE = Setup(
    "maekawa",
    3,
    options=("sets=[[1,2],[2,3],[3,1]]",),
    asks=("1@1ms+2ms", "2@1ms+2ms", "3@1ms+2ms"),
)

NOTES = "lecture notes on coordination, the section on quorums"

OVERTAKEN = Setup(
    "quorum-any-release",
    3,
    asks=("1@1ms+3ms", "2@1200us+3ms", "3@1300us+3ms"),
    faults=(*slow(1, (3,), "1500us"), *slow(2, (1,), "2ms")),
)

LATE_GRANT = Setup(
    "quorum-unnumbered",
    2,
    asks=("1@1ms+1ms", "2@4500us+4ms", "1@5ms+3ms"),
    faults=(
        ("slow", "103>1@0=5ms"),
        ("slow", "103>1@4ms=1ms"),
        ("slow", "1>102@4500us=3ms"),
        *slow(2, (1,), "3ms"),
    ),
)

SCENARIOS = (
    Scenario(
        "quorum-success",
        "Two participants, three coordinators, two grants needed",
        "1 is first at c1 and c2, 2 is first at c3.  1 has two grants and enters; 2 has one and"
        " waits.  When 1 leaves, c3 drops it from its queue, and c1 and c2 grant 2, which then has"
        " all three.",
        SUCCESS,
        source=f"{NOTES}, the run that succeeds",
    ),
    Scenario(
        "quorum-amnesia-3",
        "A coordinator forgets its grant: three coordinators, two grants needed",
        "1 enters with the grants of c1 and c2; 2 has that of c3.  c2 restarts and no longer knows"
        " that it has granted 1.  Then the request of 2 reaches it, it grants 2, and 2 enters with"
        " c2 and c3.  c2 was the only coordinator that both quorums share.",
        RESTART_OF_THREE,
        violates=("ME1",),
        shows="recovery",
        source=f"{NOTES}, the run with a restart",
    ),
    Scenario(
        "quorum-amnesia-7",
        "A coordinator forgets its grant: seven coordinators, four grants needed",
        "1 enters with the grants of c1 to c4; 2 has those of c5 to c7.  c4, the only coordinator"
        " that both quorums share, restarts, grants 2, and 2 enters too.  More coordinators do not"
        " help while two quorums may share a single one.",
        RESTART_OF_SEVEN,
        violates=("ME1",),
        source=f"{NOTES}, the same with n = 7 and m = 4",
    ),
    Scenario(
        "quorum-any-release",
        "Any release frees a coordinator, and two enter",
        "1 enters with the grants of c1 and c2; c3 has granted 2.  1 leaves and releases at all"
        " three.  c3 takes that for the end of its grant, and grants 3, while 2 still counts on"
        " it.  c1 grants 3 and c2 grants 2: both have two grants, and both enter.",
        OVERTAKEN,
        violates=("ME1",),
        shows="none",
        source="older lecture notes on coordination, the coordinator of a quorum",
    ),
    Scenario(
        "quorum-own-release",
        "Only the release of the process that was granted frees a coordinator",
        "The same requests at the same moments.  c3 ignores the release of 1, which it has not"
        " granted, and 3 waits until 2 has left.",
        replace(OVERTAKEN, algorithm="quorum"),
        source=f"{NOTES}, the release rule",
    ),
    Scenario(
        "quorum-unnumbered",
        "Requests without numbers: a late grant is taken for a new one",
        "1 enters with c1 and c2 and leaves before the grant of c3 arrives.  c3 hears of the"
        " release and grants 2 next, which enters with c2 and c3.  1 asks again, the old grant"
        " of c3 arrives, and with that of c1 it has two.",
        LATE_GRANT,
        violates=("ME1",),
        shows="none",
        source=f"{NOTES}, its footnote on numbers of requests",
    ),
    Scenario(
        "quorum-numbered",
        "The same late grant carries the number of an old request",
        "1 sees that the grant of c3 answers its first request, and waits until 2 has left.",
        replace(LATE_GRANT, algorithm="quorum"),
        source=f"{NOTES}, its footnote on numbers of requests",
    ),
    Scenario(
        "quorum-durable-3",
        "The same restart with the grant in stable memory: three coordinators",
        "As in quorum-amnesia-3, but c2 stores its grant before it sends it.  After the restart it"
        " still knows that 1 has it, so 2 waits in its queue until 1 has left.",
        replace(RESTART_OF_THREE, algorithm="quorum-durable"),
        source=f"{NOTES}, the run with a restart",
    ),
    Scenario(
        "quorum-durable-7",
        "The same restart with the grant in stable memory: seven coordinators",
        "As in quorum-amnesia-7, but c4 stores its grant before it sends it, and 2 waits until 1"
        " has left.",
        replace(RESTART_OF_SEVEN, algorithm="quorum-durable"),
        source=f"{NOTES}, the same with n = 7 and m = 4",
    ),
    Scenario(
        "quorum-durable-queue",
        "A coordinator recovers with its queue",
        "1 is inside, 2 and 3 wait in the queue of the only coordinator, and it crashes.  1 leaves,"
        " and its release is lost.  The coordinator recovers with its grant and its queue and"
        " asks all what they want; 1 releases again, and 2 and 3 enter in the order of the"
        " queue.",
        Setup(
            "quorum-durable",
            3,
            options=("coordinators=1",),
            asks=("1@1ms+6ms", "2@2ms+2ms", "3@3ms+2ms"),
            faults=(("crash", "101@6ms"), ("recover", "101@12ms")),
        ),
    ),
    Scenario(
        "quorum-durable-torn",
        "A coordinator crashes between storing its grant and sending it",
        "c1 stores that it grants 1 and is dead before the grant is out.  When it recovers, it"
        " cannot know whether the grant was sent, so it sends it again.  1 enters, then 2.",
        Setup(
            "quorum-durable",
            2,
            options=("coordinators=1",),
            asks=("1@1ms+2ms", "2@3ms+2ms"),
            faults=(("crash", "101@send#1"), ("recover", "101@6ms")),
        ),
    ),
    Scenario(
        "quorum-split",
        "Each of three participants has one grant, and none has two",
        "1 is first at c1, 2 at c2 and 3 at c3.  Each waits for grants that the others hold, for"
        " ever.",
        SPLIT,
        violates=("ME2-deadlock",),
        shows="none",
        source=f"{NOTES}, its list of drawbacks",
    ),
    Scenario(
        "quorum-durable-split",
        "Stable memory does not help against split grants",
        "As in quorum-split: no process crashes, and each participant waits for grants that the"
        " others hold.",
        replace(SPLIT, algorithm="quorum-durable"),
        violates=("ME2-deadlock",),
        shows="none",
    ),
    Scenario(
        "quorum-split-retry",
        "Split grants, cured by giving up after a random time",
        "As in quorum-split, but the first whose time runs out gives its grant back and asks anew. "
        " The next in that queue has two then and enters, and so on.",
        replace(SPLIT, algorithm="quorum-retry"),
        source=f"{NOTES}, its list of drawbacks",
    ),
    Scenario(
        "quorum-split-yield",
        "Split grants, cured by yielding to the earliest request",
        "As in quorum-split, but c2 and c3 have granted later requests than that of 1 and ask for"
        " their grants back.  2 and 3 have been put off by the other coordinators, so they yield. "
        " 1 enters, then 2, then 3, without any timer.",
        replace(SPLIT, algorithm="quorum-yield"),
    ),
    Scenario(
        "quorum-retry-starved",
        "A participant that gives up too early never enters",
        "The links from 1 to the coordinators are so slow that its time always runs out before the"
        " grants can reach it.  It asks again and again, while 2 and 3 enter as often as they"
        " like.",
        Setup(
            "quorum-retry",
            3,
            options=("patience=4ms..5ms",),
            requests=80,
            think="1ms",
            faults=slow(1, range(1, 4), "5ms"),
            until="2s",
        ),
        violates=("ME2-starvation",),
        shows="none",
        source=f"{NOTES}, its list of drawbacks",
    ),
    Scenario(
        "maekawa-cycle",
        "Three voting sets in a cycle, and all ask at once",
        "The voting sets are {1, 2}, {2, 3} and {3, 1}.  Each process votes for itself first and"
        " then waits for the vote of the next one, for ever.",
        CYCLE,
        violates=("ME2-deadlock",),
        shows="none",
        source="Coulouris et al., Distributed Systems, 5th ed., 15.2",
    ),
    Scenario(
        "maekawa-sanders-cycle",
        "Three voting sets in a cycle, and the votes are given back",
        "As in maekawa-cycle, but 2 and 3 have voted for themselves when the earlier requests of 1"
        " and 2 come, and ask themselves for their votes back.  3 has been put off by 1, so it"
        " yields, and votes for 2.  2 enters, then 1, then 3.",
        replace(CYCLE, algorithm="maekawa-sanders"),
    ),
)
