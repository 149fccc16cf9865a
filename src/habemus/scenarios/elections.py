"""Scenarios of leader election."""

from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario

_FLAPPING = Setup(
    "bully",
    5,
    options=("timeout=5ms", "patience=15ms"),
    asks=("5@0", "2@25ms", "3@75ms"),
    faults=(
        ("crash", "5@20ms"),
        ("recover", "5@50ms"),
        ("crash", "5@70ms"),
        ("recover", "5@100ms"),
    ),
)

_CALLS = {"bully": ("1@1ms", "2@1ms"), "bully-stable": ("1@1ms", "2@1ms"), "terms": ("1@1ms",)}


def _broken_link(
    name: str,
    algorithm: str,
    link: str,
    title: str,
    story: str,
    violates: tuple[str, ...],
    shows: str = "",
) -> Scenario:
    setup = Setup(algorithm, 3, asks=_CALLS.get(algorithm, ()), faults=(("cut", f"{link}@0"),))
    return Scenario(name, title, story, setup, violates, shows)


_ONE_WAY = (
    _broken_link(
        "one-way",
        "bully",
        "3>2",
        "One direction is cut: the bully has two leaders",
        "2 reaches 3, but 3 does not reach 2.  2 asks 3, never hears the answer, and makes itself"
        " leader; 3 objects, and 1 follows it again.  2 does not hear of that and leads for ever"
        " beside 3.",
        ("E1", "E3"),
        "lossy",
    ),
    _broken_link(
        "one-way-bully-stable",
        "bully-stable",
        "3>2",
        "One direction is cut: two leaders here too",
        "As with the plain bully: 2 does not hear that 3 is there, and the key has no part in it.",
        ("E1", "E3"),
        "lossy",
    ),
    _broken_link(
        "one-way-omega",
        "omega",
        "1>2",
        "One direction is cut: two leaders for ever, each by its own detector",
        "2 hears no answer from 1, suspects it, and leads; 1 knows nothing of it, and 3 follows 1. "
        " The detector assumes that processes that are up hear each other in the end, and so the"
        " election does.",
        ("E1", "E3"),
        "lossy",
    ),
    _broken_link(
        "one-way-omega-recovery",
        "omega-recovery",
        "1>2",
        "One direction is cut: two leaders for ever, each by the heartbeats it hears",
        "2 hears no heartbeat of 1 and takes itself for the first; 1 and 3 follow 1.",
        ("E1", "E3"),
        "lossy",
    ),
    _broken_link(
        "one-way-terms",
        "terms",
        "1>2",
        "One direction is cut: one leader, and a process without one",
        "1 leads.  2 does not hear its heartbeats and asks for an election again and again; 3,"
        " which hears 1, does not back it.  So 1 leads on undisturbed, and 2 knows of no leader.",
        ("E2",),
        "lossy",
    ),
)

_NO_TRIANGLE = (
    _broken_link(
        "no-triangle",
        "bully",
        "2-3",
        "Two of three cannot reach each other: the bully has two leaders",
        "1 reaches 2 and 3, which do not reach each other.  2 takes 3 for dead and makes itself"
        " leader; 3 leads as well.",
        ("E1", "E3"),
    ),
    _broken_link(
        "no-triangle-bully-stable",
        "bully-stable",
        "2-3",
        "Two of three cannot reach each other: two leaders here too",
        "As with the plain bully: each of 2 and 3 takes the other for dead.",
        ("E1", "E3"),
    ),
    _broken_link(
        "no-triangle-omega",
        "omega",
        "1-2",
        "Two of three cannot reach each other: each has its own first",
        "1 and 2 suspect each other, so both lead; 3 reaches both and follows 1.",
        ("E1", "E3"),
        "lossy",
    ),
    _broken_link(
        "no-triangle-omega-recovery",
        "omega-recovery",
        "1-2",
        "Two of three cannot reach each other: each has its own first",
        "1 and 2 do not hear each other, so both lead; 3 hears both and follows 1.",
        ("E1", "E3"),
    ),
    _broken_link(
        "no-triangle-terms",
        "terms",
        "1-2",
        "Two of three cannot reach each other: one leader, and a process without one",
        "1 leads with the vote of 3.  2 cannot hear 1, but 3 can and does not back 2: no second"
        " leader, and no leader for 2.",
        ("E2",),
    ),
)

SCENARIOS = (
    *_ONE_WAY,
    *_NO_TRIANGLE,
    Scenario(
        "bully-five",
        "The bully among five: 5 leads and fails, 4 wins",
        "5 leads and crashes.  2 and 3 notice and ask the larger ones; 4 answers both, and 3"
        " answers 2.  Then 1 notices and asks all; 2, 3 and 4 answer.  4 has asked 5, which does"
        " not answer, and so 4 announces itself to all others.",
        Setup(
            "bully",
            5,
            options=("timeout=5ms", "patience=15ms"),
            asks=("5@0", "2@15ms", "3@15ms", "1@16500us"),
            faults=(("crash", "5@10ms"),),
        ),
        source="lecture notes on coordination, the bully in seven steps",
    ),
    Scenario(
        "bully-impatient",
        "A timer that is shorter than the round trip makes two leaders",
        "4 asks 5, whose messages take 4 ms, and waits for 3 ms.  5 has made itself leader at once;"
        " 4 hears nothing in time and makes itself leader too.  Only the messages of 5, when they"
        " come, end that.",
        Setup(
            "bully",
            5,
            options=("timeout=3ms", "patience=15ms"),
            asks=("4@1ms",),
            faults=tuple(("slow", f"5>{other}@0=4ms") for other in range(1, 5)),
        ),
        violates=("E1",),
        shows="none",
        source="lecture notes on coordination, on the choice of the timer",
    ),
    Scenario(
        "bully-patient",
        "A timer that is much longer than the round trip makes the group wait",
        "5 is dead.  4 asks it and waits for 100 ms, although an answer would take 2 ms: one"
        " leader, and for 50 round trips none.  Compare bully-impatient, whose timer is too short.",
        Setup(
            "bully",
            5,
            options=("timeout=100ms", "patience=300ms"),
            asks=("4@1ms",),
            faults=(("crash", "5@0"),),
        ),
        source="lecture notes on coordination, on the choice of the timer",
    ),
    Scenario(
        "bully-replaced",
        "A crashed process is replaced by one with the same id: two leaders",
        "3 is dead, 2 has asked it, and its timer is about to expire.  A new process with the id 3"
        " starts: it is the largest, announces itself at once, and so does 2 a moment later.  The"
        " bully has one leader at a time only if no process is replaced during an election.",
        Setup(
            "bully",
            3,
            asks=("2@1ms",),
            faults=(("crash", "3@500us"), ("amnesia", "3@20500us")),
        ),
        violates=("E1", "E4"),
        source="lecture notes on coordination and agreement, E1 of the bully; Coulouris, 15.3",
    ),
    Scenario(
        "bully-flapping",
        "The strongest comes and goes, and takes over each time",
        "5 leads, crashes, and 4 is elected.  5 recovers and takes over although 4 leads well,"
        " and crashes again: each of its returns costs an election.",
        _FLAPPING,
        violates=("E4",),
        shows="recovery",
        source="lecture notes on coordination, on processes that are often away",
    ),
    Scenario(
        "bully-stable-flapping",
        "The strongest comes and goes, and is not elected again",
        "The same crashes as in bully-flapping.  5 has lost its rank by restarting: when it"
        " recovers it learns that 4 leads.",
        Setup(
            "bully-stable",
            5,
            options=_FLAPPING.options,
            asks=_FLAPPING.asks,
            faults=_FLAPPING.faults,
        ),
        source="lecture notes on coordination, on processes that are often away",
    ),
    Scenario(
        "omega-crash",
        "The leader of a detector's making dies, and the next smallest leads",
        "All follow 1, the smallest.  1 crashes; each detector notices at the end of its interval,"
        " and all follow 2.",
        Setup("omega", 4, faults=(("crash", "1@105ms"),)),
        source="lecture notes on leader election, algorithm 5.2",
    ),
    Scenario(
        "omega-unstable",
        "A process that keeps restarting loses to one that stays up",
        "1 leads first, having the smallest id.  It crashes and recovers three times; each time"
        " it counts one incarnation more, so 2, which has had one life only, leads from its first"
        " crash on.  (Just after each return 1 has heard of no other yet and names itself.)",
        Setup(
            "omega-recovery",
            4,
            faults=tuple(
                fault
                for turn in range(3)
                for fault in (
                    ("crash", f"1@{105 + 200 * turn}ms"),
                    ("recover", f"1@{205 + 200 * turn}ms"),
                )
            ),
        ),
        source="lecture notes on leader election, algorithm 5.3",
    ),
    Scenario(
        "omega-unheard",
        "The heartbeats of a process that is up too short never arrive",
        "The links are perfect: they send again until there is an answer.  But 1 crashes before its"
        " first heartbeat is out, and in its second life while the network loses what it sends.  A"
        " message arrives for certain only if both ends stay up, so no process hears of 1, and 2"
        " leads.",
        Setup(
            "omega-recovery",
            3,
            over="perfect",
            faults=(
                ("crash", "1@send#1"),
                ("cut", "1|2,3@29ms"),
                ("recover", "1@30ms"),
                ("crash", "1@32ms"),
                ("heal", "all@33ms"),
            ),
            until="70ms",
        ),
        source="lecture notes on leader election, the last remark on algorithm 5.3",
    ),
    Scenario(
        "gst-omega",
        "Wild delays, then bounded ones: many leaders, then one",
        "Until 300 ms messages take up to seconds; detectors suspect all others, and processes lead"
        " side by side.  After that delays are bounded: the intervals have grown long enough, the"
        " suspicions end, and all follow 1.",
        Setup("omega", 4, delay="gst:300ms:heavy:4ms:500..1500"),
        source="lecture notes on leader election, section 5.2",
    ),
    Scenario(
        "terms-partition",
        "The leader is cut off with a minority",
        "1 leads in term 1 and is cut off together with 2.  The other three elect a leader of a"
        " newer term; 1 and 2 are too few to elect a leader.  When the cut heals, the heartbeats of"
        " 1 carry an old term and are dropped, and 1 and 2 follow the new leader.",
        Setup("terms", 5, asks=("1@1ms",), faults=(("cut", "1,2|3,4,5@300ms"), ("heal", "all@1s"))),
        source="Ongaro, Ousterhout 2014",
    ),
    Scenario(
        "terms-weights",
        "Weights against split brain: one process outweighs two",
        "1 has weight 3 and leads; 2 and 3 have weight 1 each and are cut off from it.  They are"
        " more, but have 2 of 5: they elect no leader, and 1 goes on.  With equal weights they"
        " would have elected a leader of their own, as in terms-partition.",
        Setup(
            "terms",
            3,
            options=("weights=[3,1,1]",),
            asks=("1@1ms",),
            faults=(("cut", "1|2,3@300ms"), ("heal", "all@800ms")),
            until="1200ms",
        ),
        source="lecture notes on coordination, on split brain; Gifford 1979",
    ),
    Scenario(
        "terms-rejoin",
        "A process that rejoins after a partition leaves the leader alone",
        "5 is cut off and calls one election after the other, but without a majority behind its"
        " pre-vote it never reaches a new term.  Back again it follows 1 as before.",
        Setup("terms", 5, asks=("1@1ms",), faults=(("cut", "1,2,3,4|5@300ms"), ("heal", "all@1s"))),
        source="Ongaro's thesis, 9.6",
    ),
    Scenario(
        "terms-rejoin-no-prevote",
        "Without the pre-vote, a process that rejoins deposes a healthy leader",
        "5 is cut off and stands in one term after the other, alone.  When it is back its term"
        " is the newest of all: 1, which had led well, must step down, and there is a new"
        " election.",
        Setup(
            "terms",
            5,
            options=("prevote=false",),
            asks=("1@1ms",),
            faults=(("cut", "1,2,3,4|5@300ms"), ("heal", "all@1s")),
        ),
        violates=("E4",),
        shows="lossy",
        source="Ongaro's thesis, 9.6",
    ),
    Scenario(
        "terms-amnesia",
        "A vote that is forgotten can be given twice",
        "1 asks for votes in term 1 and has that of 2.  2 restarts without its memory, hears 3 ask"
        " for votes in the same term, and votes again: two leaders in term 1.  Stored votes (and no"
        " amnesia) are what makes the terms safe.",
        Setup(
            "terms",
            3,
            options=("prevote=false",),
            asks=("1@1ms", "3@1ms"),
            faults=(
                ("cut", "1-3@0"),
                ("slow", "3>2@0=5ms"),
                ("crash", "2@3ms"),
                ("amnesia", "2@4ms"),
            ),
            until="100ms",
        ),
        violates=("E1",),
    ),
)
