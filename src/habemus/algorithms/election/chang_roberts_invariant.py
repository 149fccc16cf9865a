"""Why chang-roberts keeps E1, on a ring of any size, with the ids in any order.

A candidate has beaten every process between its own and the one that it is sent to.
"""

from habemus.algorithms.election.chang_roberts import Candidate, ChangRoberts
from habemus.core.invariants import InTransit, Invariant, between, is_leader, is_next

invariant = Invariant(ChangRoberts, "E1", assumes=("ring",))


@invariant.clause
def leader_is_the_largest(p: ChangRoberts, q: ChangRoberts) -> bool:
    return not is_leader(p) or q.me <= p.me


@invariant.clause
def candidate_goes_to_the_right(candidate: InTransit[Candidate]) -> bool:
    return is_next(candidate.sender, candidate.receiver)


@invariant.clause
def candidate_has_beaten_those_behind(
    candidate: InTransit[Candidate], owner: ChangRoberts, p: ChangRoberts
) -> bool:
    if candidate.process != owner.me:
        return True
    if candidate.receiver.me == owner.me:
        return p.me <= owner.me
    return not between(owner, p, candidate.receiver) or p.me < owner.me
