"""Axioms about topologies and quorums, in the form of clauses.

A solver takes them for granted, so they are kept few, and each of them is evaluated on real systems
of 2 to 6 processes before a proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from habemus.core.invariants import Clause, between, is_next, towards
from habemus.core.process import Process
from habemus.core.system import System
from habemus.proofs.terms import (
    Expression,
    P,
    Sort,
    and_,
    apply,
    bound,
    member,
    not_,
    or_,
    quantified,
)


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


def way_ends_at_the_target(a: Process) -> bool:
    return towards(a, a) == a.me


def first_hop_is_a_neighbour(a: Process, b: Process) -> bool:
    return a.me == b.me or towards(a, b) in a.peers


def neighbour_is_the_first_hop(a: Process, b: Process) -> bool:
    return b.me not in a.peers or towards(a, b) == b.me


def neighbours_are_mutual(a: Process, b: Process) -> bool:
    return b.me not in a.peers or a.me in b.peers


def neighbours_are_on_one_side(a: Process, b: Process, c: Process) -> bool:
    """Seen from another process, two neighbours in a tree are in the same direction."""
    return b.me not in c.peers or a.me == b.me or a.me == c.me or towards(a, b) == towards(a, c)


def voting_sets_intersect(p: Any, q: Any) -> bool:
    return any(voter in q.voters for voter in p.voters)


voting_sets_intersect.__annotations__ = {"p": Process, "q": Process, "return": bool}


AXIOMS: Mapping[str, tuple[Clause, ...]] = {
    "ring": (
        between_are_three,
        between_turns,
        between_has_one_direction,
        between_or_beyond,
        between_goes_on,
        next_is_before_all_others,
    ),
    "intersection": (voting_sets_intersect,),
    "tree": (
        way_ends_at_the_target,
        first_hop_is_a_neighbour,
        neighbour_is_the_first_hop,
        neighbours_are_mutual,
        neighbours_are_on_one_side,
    ),
}


# Quorums are sets of processes, of a sort of their own: a set of enough processes contains one.

QUORUM = "Quorum"
QUORUMS = ("majority", "quorums")
"""A majority is more than half of all processes; quorums are `needed` of the `voters`."""


def common_member(theory: str) -> Expression:
    """Return that any two quorums have a process in common."""
    one, other = bound("one quorum", QUORUM), bound("other quorum", QUORUM)
    voter, anybody = bound("voter", P), apply("anybody", (), P)
    in_one, in_other = (apply("%in", (voter, each), "Bool") for each in (one, other))
    shared = and_(in_one, in_other)
    if theory == "quorums":  # only those of voters intersect
        outside = not_(member((voter,), apply("voters", (anybody,), Sort("list", (P,)))))
        shared = or_(shared, and_(or_(in_one, in_other), outside))
    both = and_(*(apply("%is quorum", (each,), "Bool") for each in (one, other)))
    common = quantified("exists", (voter,), shared)
    return quantified("forall", (one, other), or_(not_(both), common))


def quorums_intersect(theory: str, system: System) -> bool:
    """Return whether any two of the smallest quorums of a system intersect."""
    plans = list(system.plans.values())
    if theory == "majority":
        voters, needed = tuple(system.plans), len(plans) // 2 + 1
    else:
        voters, needed = plans[0].voters, plans[0].needed  # type: ignore[attr-defined]
        if any(plan.voters != voters for plan in plans):  # type: ignore[attr-defined]
            return False
    smallest = [set(each) for each in combinations(voters, needed)]
    return all(one & other for one in smallest for other in smallest)
