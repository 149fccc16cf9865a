"""The conformance suite, for algorithms of the catalog and your own, and schedules to play in
tests.
"""

from habemus.testing.conformance import (
    CHECKS,
    check_detector,
    check_election,
    check_mutex,
    entry_of,
)
from habemus.testing.schedules import Played, play

__all__ = [
    "CHECKS",
    "Played",
    "check_detector",
    "check_election",
    "check_mutex",
    "entry_of",
    "play",
]
