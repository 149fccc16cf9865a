"""For tests: the conformance suite that every algorithm of the catalog passes, open to everybody's own, and schedules to play."""

from habemus.testing.conformance import CHECKS, entry_of
from habemus.testing.schedules import Played, play

__all__ = ["CHECKS", "Played", "entry_of", "play"]
