"""The conformance suite, for algorithms of the catalog and your own, schedules to play in tests,
and clusters for tests of programs.
"""

from habemus.testing.clusters import NodeProcesses
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
    "NodeProcesses",
    "Played",
    "check_detector",
    "check_election",
    "check_mutex",
    "entry_of",
    "play",
]
