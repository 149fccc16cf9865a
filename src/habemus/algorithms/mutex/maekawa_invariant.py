"""Why maekawa keeps ME1, with any voting sets of which any two have a process in common.

A process that is inside has every vote of its set, and a voter has one vote: it has voted for that
process, until a release of it arrives.
"""

from habemus.algorithms.mutex.maekawa import Maekawa, Release, Request, Vote
from habemus.algorithms.mutex.ricart_agrawala import HELD, RELEASED, WANTED
from habemus.core.invariants import (
    InTransit,
    Invariant,
    is_inside,
    is_waiting,
    opposite,
    same_link,
)

invariant = Invariant(Maekawa, "ME1", assumes=("intersection",))


@invariant.clause
def state_is_stage(p: Maekawa) -> bool:
    return is_inside(p) == (p.state == HELD) and is_waiting(p) == (p.state == WANTED)


@invariant.clause
def holder_has_every_vote(p: Maekawa, q: Maekawa) -> bool:
    return p.state != HELD or q.me not in p.voters or q.me in p.votes


@invariant.clause
def votes_are_of_voters(p: Maekawa, q: Maekawa) -> bool:
    return q.me not in p.votes or q.me in p.voters


@invariant.clause
def voter_has_voted_for_it(p: Maekawa, q: Maekawa) -> bool:
    return p.state == RELEASED or q.me not in p.votes or q.voted_for == p.me


@invariant.clause
def vote_is_given(vote: InTransit[Vote]) -> bool:
    q: Maekawa = vote.sender
    p: Maekawa = vote.receiver
    return (
        p.state == WANTED
        and q.me in p.voters
        and q.voted_for == p.me
        and q.me not in p.votes
        and p.me not in q.queue
    )


@invariant.clause
def one_vote(one: InTransit[Vote], other: InTransit[Vote]) -> bool:
    return not same_link(one, other)


@invariant.clause
def request_is_open(request: InTransit[Request]) -> bool:
    p: Maekawa = request.sender
    q: Maekawa = request.receiver
    return p.state == WANTED and q.me in p.voters and q.me not in p.votes and p.me not in q.queue


@invariant.clause
def one_request(one: InTransit[Request], other: InTransit[Request]) -> bool:
    return not same_link(one, other)


@invariant.clause
def request_has_no_vote(request: InTransit[Request], vote: InTransit[Vote]) -> bool:
    return not opposite(request, vote)


@invariant.clause
def queued_request_is_open(p: Maekawa, q: Maekawa) -> bool:
    return p.me not in q.queue or (
        p.state == WANTED and q.me in p.voters and q.me not in p.votes and q.queue.count(p.me) == 1
    )


@invariant.clause
def release_gives_the_vote_back(release: InTransit[Release]) -> bool:
    p: Maekawa = release.sender
    q: Maekawa = release.receiver
    return q.voted_for == p.me and (p.state == RELEASED or q.me not in p.votes)


@invariant.clause
def one_release(one: InTransit[Release], other: InTransit[Release]) -> bool:
    return not same_link(one, other)


@invariant.clause
def release_has_no_vote(release: InTransit[Release], vote: InTransit[Vote]) -> bool:
    return not opposite(release, vote)
