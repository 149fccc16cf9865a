"""Axioms about topologies and quorums, in the form of clauses.

A solver takes them for granted, so they are kept few, and each of them is evaluated on real systems
of 2 to 6 processes before a proof.
"""

from __future__ import annotations

from collections.abc import Mapping

from habemus.core.invariants import Clause, between, is_next, towards
from habemus.core.process import Process


def between_are_three(a: Process, b: Process, c: Process) -> bool:
    return not between(a, b, c) or (a.me != b.me and b.me != c.me and a.me != c.me)


def between_turns(a: Process, b: Process, c: Process) -> bool:
    return not between(a, b, c) or between(b, c, a)


def between_has_one_direction(a: Process, b: Process, c: Process) -> bool:
    return not between(a, b, c) or not between(a, c, b)


def between_or_beyond(a: Process, b: Process, c: Process) -> bool:
    return between(a, b, c) or between(a, c, b) or a.me == b.me or b.me == c.me or a.me == c.me


def between_goes_on(a: Process, b: Process, c: Process, d: Process) -> bool:
    return not (between(a, b, c) and between(a, c, d)) or between(a, b, d)


def next_is_before_all_others(a: Process, b: Process, c: Process) -> bool:
    return not is_next(a, b) or c.me == a.me or c.me == b.me or between(a, b, c)


def first_hop_is_a_neighbour(a: Process, b: Process) -> bool:
    return a.me == b.me or towards(a, b) in a.peers


def neighbour_is_the_first_hop(a: Process, b: Process) -> bool:
    return b.me not in a.peers or towards(a, b) == b.me


def neighbours_are_mutual(a: Process, b: Process) -> bool:
    return b.me not in a.peers or a.me in b.peers


def neighbours_are_on_one_side(a: Process, b: Process, c: Process) -> bool:
    """Seen from another process, two neighbours in a tree are in the same direction."""
    return b.me not in c.peers or a.me == b.me or a.me == c.me or towards(a, b) == towards(a, c)


AXIOMS: Mapping[str, tuple[Clause, ...]] = {
    "ring": (
        between_are_three,
        between_turns,
        between_has_one_direction,
        between_or_beyond,
        between_goes_on,
        next_is_before_all_others,
    ),
    "tree": (
        first_hop_is_a_neighbour,
        neighbour_is_the_first_hop,
        neighbours_are_mutual,
        neighbours_are_on_one_side,
    ),
}
