"""Scenarios of failure detection."""

from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario

SCENARIOS = (
    Scenario(
        "gst",
        "Wild delays, then bounded ones: mistakes before, none after",
        "Until 300 ms messages take up to seconds, and processes that are up are suspected; each"
        " such mistake makes the interval longer.  After that delays are bounded: the last"
        " suspicions end and no new ones begin, except that 4 crashes at 600 ms and is rightly"
        " suspected by all.",
        Setup(
            "eventually-perfect",
            4,
            delay="gst:300ms:heavy:4ms:500..1500",
            faults=(("crash", "4@600ms"),),
        ),
        source="lecture notes on leader election, section 5.1",
    ),
)
