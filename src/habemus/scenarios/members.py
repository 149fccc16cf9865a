"""Scenarios of members that change while a cluster runs."""

from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario

_SOURCE = "Schultz, Dardik, Tripakis 2022; Ongaro's thesis, 4.1"

SCENARIOS = (
    Scenario(
        "members-3-4-3",
        "A fourth member is added, the leader crashes, and the fourth is removed again",
        "1 leads 2 and 3, and adds 4, which has followed without a vote.  Now three of four are a"
        " majority.  1 crashes; the other three elect 2.  2 first writes the members anew in its"
        " own term, and then removes 4.  When 1 is back, it learns the new members with the first"
        " message of the leader.",
        Setup(
            "terms-members",
            4,
            options=("first=3", "changes=2", "movable=[4]"),
            asks=("1@1ms",),
            faults=(("crash", "1@300ms"), ("recover", "1@800ms")),
            until="1200ms",
        ),
        source=_SOURCE,
    ),
    Scenario(
        "members-leader-removed",
        "The leader removes itself, and resigns when the others have stored that",
        "1 leads and removes itself.  It leads on until both others have stored the new members;"
        " its own copy does not count.  Then it names 2 as its heir, which is elected at once, and"
        " 1 follows 2 without a vote.  So there is a new leader although the old one is up, which"
        " is what E4 rules out.",
        Setup(
            "terms-members",
            3,
            options=("changes=1", "movable=[1]"),
            asks=("1@1ms",),
            until="500ms",
        ),
        violates=("E4",),
        source=_SOURCE,
    ),
    Scenario(
        "members-lent",
        "A lock stays lent while its only member is replaced by another",
        "1 is the only member, and is inside.  2 is added: the loan that only 1 has recorded is"
        " recorded by 2 as well, and only then 1 may be removed.  2 takes over, knows the loan,"
        " and waits until 1 has left.  Had 2 not recorded it, both would be inside.",
        Setup(
            "elected-coordinator-members",
            2,
            options=('election_options={"first":1,"changes":2,"movable":[1,2]}',),
            asks=("1@5ms+600ms", "2@300ms+5ms"),
        ),
        source=_SOURCE,
    ),
)
