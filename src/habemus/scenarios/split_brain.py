"""Scenarios of the elected coordinator: two sides of a cut, and what becomes of those inside when
their coordinator goes.
"""

from dataclasses import replace

from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario

# Heartbeats are rare here, so that the pictures are not full of them.
CALM = ('election_options={"period": 40000, "patience": [60000, 90000]}',)

CUT = ("cut", "1,2|3,4,5@25ms")

TWO_IN = Setup(
    "elected-coordinator-bully",
    5,
    options=("lease=60ms",),
    asks=("4@10ms+160ms", "1@26ms+10ms"),
    faults=(CUT,),
)

RECORDED = Setup(
    "elected-coordinator",
    5,
    options=CALM,
    asks=("4@10ms+40ms", "2@30ms+5ms", "3@35ms+5ms"),
    faults=(CUT, ("heal", "all@160ms")),
)

FENCED = Setup(
    "elected-coordinator-leased",
    5,
    seed=5,
    options=(*CALM, "lease=60ms"),
    asks=("2@10ms+30ms", "4@30ms+110ms"),
    faults=(("pause", "2@20ms+200ms"), CUT),
)

UNRECORDED = Setup(
    "elected-coordinator-unrecorded",
    5,
    options=(*CALM, "lease=60ms"),
    asks=("2@10ms+200ms", "3@35ms+60ms"),
    faults=(CUT,),
)

TAKE_OVER = Setup(
    "elected-coordinator",
    3,
    options=CALM,
    asks=("2@10ms+150ms", "3@20ms+10ms"),
    faults=(("crash", "1@30ms"),),
)

HOLDER_CRASH = Setup(
    "elected-coordinator",
    3,
    options=CALM,
    asks=("2@10ms+150ms", "3@20ms+10ms"),
    faults=(("crash", "2@30ms"),),
    until="400ms",
)


# Without messages of the election, so that the loan is all there is to see.
STANDING = Setup(
    "elected-coordinator-leased",
    3,
    options=('election_options={"period": 400000, "patience": [600000, 900000]}', "lease=60ms"),
    asks=("2@10ms+2ms", "2@14ms+2ms", "2@18ms+4ms", "3@20ms+2ms", "1@22ms+2ms"),
    until="60ms",
)

HALF_USED = replace(
    STANDING,
    asks=("2@10ms+2ms", "2@14ms+2ms", "2@18ms+9ms", "2@30ms+2ms", "3@70ms+2ms"),
    faults=(("crash", "2@21ms"), ("recover", "2@26ms")),
    until="100ms",
)


def _pace(one: int, other: int, moment: str, delay: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return faults that set the delay between two processes from a moment on."""
    return ("slow", f"{one}>{other}@{moment}={delay}"), ("slow", f"{other}>{one}@{moment}={delay}")


# 3 hears of nothing until 2 has forgotten its vote for 1, which is paused inside.
FORGETFUL = Setup(
    "elected-coordinator",
    3,
    options=CALM,
    asks=("1@20ms+70ms", "3@150ms+30ms"),
    faults=(
        *_pace(1, 3, "0", "1s"),
        *_pace(2, 3, "0", "1s"),
        ("pause", "1@60ms+140ms"),
        ("crash", "2@60ms"),
        ("amnesia", "2@61ms"),
        *_pace(2, 3, "70ms", "1ms"),
    ),
    until="250ms",
)

FORGETFUL_UNRECORDED = replace(
    FORGETFUL,
    algorithm="elected-coordinator-unrecorded",
    asks=("1@60ms+100ms", "3@160ms+30ms"),
    faults=(
        *_pace(1, 3, "0", "1s"),
        *_pace(2, 3, "0", "1s"),
        *_pace(
            1, 3, "50ms", "1ms"
        ),  # without records the first coordinator needs an answer of every process once
        *_pace(1, 3, "58ms", "1s"),
        ("pause", "1@70ms+230ms"),
        ("crash", "2@70ms"),
        ("amnesia", "2@71ms"),
        *_pace(2, 3, "75ms", "1ms"),
    ),
    until="350ms",
)

SCENARIOS = (
    Scenario(
        "split-brain-two-in",
        "Two leaders by the bully, each coordinating the lock",
        "5 leads and has let 4 in.  The network is cut.  1 asks, gets no answer, and calls an"
        " election; of the two on its side 2 is the larger.  2 waits until any lease that it has"
        " not heard of must have run out and lets 1 in.  But 5 is alive and renews the lease of 4:"
        " two are inside, both with the token 0.1, and the resource takes what either writes.",
        TWO_IN,
        violates=("ME1",),
        shows="lossy",
    ),
    Scenario(
        "split-brain-recorded",
        "The same cut, with terms below and grants recorded by a majority",
        "1 leads, and 4 is inside, when the network is cut.  2 asks 1, which finds no majority to"
        " record its grant: the minority side waits.  The other side elects a leader of a newer"
        " term.  It learns from the records that 4 is inside, and from 4 when it leaves, and lets 3"
        " in.  When the cut is mended 1 and 2 hear of the new term, and 2 enters.",
        RECORDED,
    ),
    Scenario(
        "split-brain-fenced",
        "A holder on the minority side sleeps through the end of its lease",
        "1 leads and has let 2 in, with token 1.1.  2 stops, and the network is cut.  The other"
        " side elects a new leader, which learns of 2 from the records, waits until its lease has"
        " run out, and lets 4 in, with a token of its own, newer term.  2 wakes up, believes itself"
        " inside as before, and writes.  Two believe, but the resource has seen the newer token and"
        " refuses the write.",
        FENCED,
        violates=("ME1",),
        shows="lossy",
    ),
    Scenario(
        "split-brain-unrecorded",
        "The same cut, with leases that are not recorded",
        "2 is inside by a lease when the network is cut, and 1, on its side, goes on renewing that."
        "  The other side elects a new leader, which knows nothing of 2.  It waits until any lease"
        " that 1 gave before the cut has run out and lets 3 in: two are inside, although no process"
        " was paused.  But 3 has written with the token of a newer term, so what 2 writes is"
        " refused.",
        UNRECORDED,
        violates=("ME1",),
        shows="lossy",
    ),
    Scenario(
        "elected-one-way",
        "One direction is cut: the lease ends, and the lock moves on",
        "The link from the coordinator 1 to 2 loses everything, so 2 never hears of its grant, as"
        " in central-one-way.  But the grant is a lease: it ends, and 3 enters.  When the link is"
        " whole again, 2 enters too.",
        Setup(
            "elected-coordinator-leased",
            3,
            asks=("2@300ms+5ms", "3@310ms+5ms"),
            faults=(("cut", "1>2@250ms"), ("heal", "1>2@700ms")),
        ),
        source="lecture notes on coordination and agreement, on asymmetric connections",
    ),
    Scenario(
        "coordinator-crash-recorded",
        "The coordinator crashes while one is inside and another waits",
        "1 leads, 2 is inside, 3 waits, and 1 crashes.  The new leader learns from the records of a"
        " majority that 2 is inside, and from 3 that it waits, and has nothing to wait for but the"
        " release of 2.",
        TAKE_OVER,
    ),
    Scenario(
        "coordinator-crash-plain",
        "The same without records: the node that is down blocks the lock",
        "The coordinator lends to 3 and crashes when 3 has left.  The new leader cannot know"
        " whether 1 had not let itself in before it crashed, so it waits for the answer of 1, and 2"
        " with it.",
        Setup(
            "elected-coordinator-plain",
            3,
            options=CALM,
            asks=("3@10ms+10ms", "2@35ms+10ms"),
            faults=(("crash", "1@30ms"),),
            until="400ms",
        ),
        violates=("ME2-deadlock",),
        shows="crash",
    ),
    Scenario(
        "borrower-crash-unleased",
        "The node of the one inside goes down, and without a lease all processes wait",
        "2 crashes inside.  No process can tell whether it is dead or only slow, so the coordinator"
        " asks it again and again, and lets no other in until it has answered: 3 waits, if need"
        " be for ever.",
        HOLDER_CRASH,
        violates=("ME2-deadlock",),
        shows="crash",
    ),
    Scenario(
        "borrower-crash-back",
        "The node of the one inside crashes and recovers",
        "As in borrower-crash-unleased, but 2 recovers.  Its application died with it, so when"
        " the coordinator asks again 2 answers that it is no longer inside, and 3 enters.",
        replace(HOLDER_CRASH, faults=(*HOLDER_CRASH.faults, ("recover", "2@140ms"))),
    ),
    Scenario(
        "borrower-crash-leased",
        "The node of the one inside goes down, and the lock moves on with the lease",
        "As in borrower-crash-unleased, but 2 had the lock by a lease.  When that has run out the"
        " coordinator lets 3 in.",
        replace(
            HOLDER_CRASH, algorithm="elected-coordinator-leased", options=(*CALM, "lease=60ms")
        ),
    ),
    Scenario(
        "loan-recalled",
        "A loan stays with its borrower until another process waits",
        "2 borrows the lock with a block of tokens.  It enters three times, each time with the next"
        " token, and sends no message for the second and the third.  3 asks, and 1 recalls the"
        " loan.  2 gives it back when it leaves, and says how many tokens it has used, so 3 gets"
        " the next one.  1 itself waits by then: the grant to 3 says so, and no recall is needed.",
        STANDING,
    ),
    Scenario(
        "borrower-crash-block",
        "The borrower crashes with a part of its tokens used",
        "2 has used three tokens of its block when it crashes inside.  It recovers, has no loan any"
        " more, and asks for one.  1 does not know how many tokens were used, so it lends none of"
        " that block: the next entry has the first token of a new block, larger than all before.",
        HALF_USED,
    ),
    Scenario(
        "elected-coordinator-amnesia",
        "A process that has forgotten its vote elects a second coordinator of the same term",
        "1 leads by the vote of 2, and is inside by a grant that 2 has recorded; 3 has heard of"
        " nothing.  2 crashes and recovers without its memory.  2 and 3 are a majority that knows"
        " of no term and of no grant, and elect a coordinator of term 1 once more.  3 enters with"
        " the token 1.1 that 1 has, and the resource takes what either writes.",
        FORGETFUL,
        violates=("ME1", "FENCE", "TOKEN"),
        shows="amnesia",
    ),
    Scenario(
        "elected-coordinator-leased-amnesia",
        "The same with leases: a lease that 1 sleeps through, and its token once more",
        "As in elected-coordinator-amnesia.  With leases two may believe themselves inside, and the"
        " token should decide; but both have the same.",
        replace(FORGETFUL, algorithm="elected-coordinator-leased"),
        violates=("ME1", "FENCE"),
        shows="amnesia",
    ),
    Scenario(
        "elected-coordinator-members-amnesia",
        "The same among members that may change",
        "As in elected-coordinator-amnesia: 2 has forgotten its vote and the grant that it had"
        " recorded, but not who the members are.",
        replace(FORGETFUL, algorithm="elected-coordinator-members"),
        violates=("ME1", "FENCE", "TOKEN"),
        shows="amnesia",
    ),
    Scenario(
        "elected-coordinator-leased-members-amnesia",
        "The same with leases, among members that may change",
        "As in elected-coordinator-leased-amnesia, among members that may change.",
        replace(FORGETFUL, algorithm="elected-coordinator-leased-members"),
        violates=("ME1", "FENCE"),
        shows="amnesia",
    ),
    Scenario(
        "elected-coordinator-unrecorded-amnesia",
        "The same with leases that are not recorded",
        "As in elected-coordinator-leased-amnesia: the second coordinator of term 1 waits for the"
        " longest lease to run out, and counts its grants from 1.",
        FORGETFUL_UNRECORDED,
        violates=("ME1", "FENCE"),
        shows="amnesia",
    ),
)
