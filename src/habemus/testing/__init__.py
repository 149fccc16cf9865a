"""For tests: the conformance suite that every algorithm of the catalog passes, open to everybody's own."""

from habemus.testing.conformance import CHECKS, entry_of

__all__ = ["CHECKS", "entry_of"]
