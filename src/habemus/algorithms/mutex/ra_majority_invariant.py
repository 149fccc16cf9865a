"""Why ra-majority keeps ME1, for every number of processes.

A process that is inside has the votes of more than half.  A voter that has voted for a request does
so until the request is released or has given the vote back, and two majorities have a voter in
common.
"""

from habemus.algorithms.mutex.ra_majority import (
    Release,
    Request,
    RicartAgrawalaMajority,
    Vote,
    Yield,
)
from habemus.algorithms.mutex.ricart_agrawala import HELD, RELEASED, WANTED
from habemus.core.invariants import (
    InTransit,
    Invariant,
    is_inside,
    is_waiting,
    opposite,
    same_link,
)

invariant = Invariant(RicartAgrawalaMajority, "ME1", assumes=("majority",))


@invariant.clause
def state_is_stage(p: RicartAgrawalaMajority) -> bool:
    return is_inside(p) == (p.state == HELD) and is_waiting(p) == (p.state == WANTED)


@invariant.clause
def holder_has_a_majority(p: RicartAgrawalaMajority) -> bool:
    return p.state != HELD or 2 * len(p.votes) > len(p.peers) + 1


@invariant.clause
def clock_has_seen_the_stamp(p: RicartAgrawalaMajority) -> bool:
    return p.clock >= p.stamp


def has_chosen(q: RicartAgrawalaMajority, p: RicartAgrawalaMajority) -> bool:
    return q.choice is not None and q.choice.process == p.me and q.choice.stamp == p.stamp


@invariant.clause
def voter_has_chosen_it(p: RicartAgrawalaMajority, q: RicartAgrawalaMajority) -> bool:
    return p.state == RELEASED or q.me not in p.votes or has_chosen(q, p)


@invariant.clause
def vote_is_of_its_choice(vote: InTransit[Vote]) -> bool:
    q: RicartAgrawalaMajority = vote.sender
    p: RicartAgrawalaMajority = vote.receiver
    if vote.stamp != p.stamp or p.state == RELEASED:
        return bool(vote.stamp <= p.stamp)
    return has_chosen(q, p) and q.me not in p.votes


@invariant.clause
def one_vote_for_a_request(one: InTransit[Vote], other: InTransit[Vote]) -> bool:
    p: RicartAgrawalaMajority = one.receiver
    return (
        not same_link(one, other)
        or one.stamp != p.stamp
        or other.stamp != p.stamp
        or p.state == RELEASED
    )


@invariant.clause
def request_was_made(request: InTransit[Request]) -> bool:
    p: RicartAgrawalaMajority = request.sender
    return bool(request.stamp <= p.stamp)


@invariant.clause
def queued_request_was_made(p: RicartAgrawalaMajority, q: RicartAgrawalaMajority) -> bool:
    return all(claim.stamp <= p.stamp for claim in q.queue if claim.process == p.me)


@invariant.clause
def chosen_request_was_made(p: RicartAgrawalaMajority, q: RicartAgrawalaMajority) -> bool:
    return q.choice is None or q.choice.process != p.me or q.choice.stamp <= p.stamp


@invariant.clause
def release_is_of_a_request_that_is_over(release: InTransit[Release]) -> bool:
    p: RicartAgrawalaMajority = release.sender
    return release.stamp < p.stamp or (release.stamp == p.stamp and p.state == RELEASED)


@invariant.clause
def vote_was_given_back(yielded: InTransit[Yield]) -> bool:
    p: RicartAgrawalaMajority = yielded.sender
    q: RicartAgrawalaMajority = yielded.receiver
    if yielded.stamp != p.stamp or p.state == RELEASED:
        return bool(yielded.stamp <= p.stamp)
    return has_chosen(q, p) and q.me not in p.votes


@invariant.clause
def one_yield_for_a_request(one: InTransit[Yield], other: InTransit[Yield]) -> bool:
    p: RicartAgrawalaMajority = one.sender
    return (
        not same_link(one, other)
        or one.stamp != p.stamp
        or other.stamp != p.stamp
        or p.state == RELEASED
    )


@invariant.clause
def vote_or_yield(vote: InTransit[Vote], yielded: InTransit[Yield]) -> bool:
    p: RicartAgrawalaMajority = vote.receiver
    return (
        not opposite(vote, yielded)
        or vote.stamp != p.stamp
        or yielded.stamp != p.stamp
        or p.state == RELEASED
    )
