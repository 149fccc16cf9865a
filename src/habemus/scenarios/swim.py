"""Scenarios of SWIM."""

from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario

SOURCE = "Das, Gupta, Motivala 2002"

SCENARIOS = (
    Scenario(
        "swim-indirect",
        "A cut link is not a failure: a third process asks on one's behalf",
        "1 and 2 cannot reach each other from the beginning.  Whenever one has pinged the other in"
        " vain it asks 3, which pings for it and returns the answer within the period: no process"
        " is ever doubted.",
        Setup("swim", 3, faults=(("cut", "1-2@0"),), until="200ms"),
        source=SOURCE,
    ),
    Scenario(
        "swim-crash",
        "A crash: no ping is answered, the doubt is not denied, and the news spread",
        "4 crashes at 50 ms.  The first process that pings it asks the others in vain and doubts"
        " it; the doubt travels on pings and answers.  No process denies it, so when the grace is"
        " over 4 counts as failed for all.",
        Setup("swim", 4, faults=(("crash", "4@50ms"),), until="500ms"),
        source=SOURCE,
    ),
    Scenario(
        "swim-denied",
        "A slow process is doubted, hears of it, and denies it in time",
        "2 is paused from 45 ms to 125 ms, and a process that pings it meanwhile doubts it.  When"
        " it goes on it finds the doubt in the pings that waited for it and begins a new"
        " incarnation, whose news undo the doubt everywhere: no mistake was made.",
        Setup("swim", 3, options=("grace=3",), faults=(("pause", "2@45ms+80ms"),), until="400ms"),
        source=SOURCE,
    ),
)
