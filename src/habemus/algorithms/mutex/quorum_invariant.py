"""Why quorum keeps ME1, for every number of participants and coordinators.

A process that is inside has the grants of a quorum.  A coordinator that has granted a request keeps
it as its holder until that request has ended, and two quorums have a coordinator in common.
"""

from habemus.algorithms.mutex.quorum import Grant, Quorum, Release, Request
from habemus.algorithms.mutex.ricart_agrawala import HELD, RELEASED, WANTED
from habemus.core.invariants import InTransit, Invariant, is_inside, is_waiting

invariant = Invariant(Quorum, "ME1", assumes=("quorums",))


@invariant.initially
def all_know_the_same_coordinators(p: Quorum, q: Quorum, c: Quorum) -> bool:
    return c.me not in p.voters or c.me in q.voters


@invariant.clause
def coordinators_are_the_same(p: Quorum, q: Quorum, c: Quorum) -> bool:
    return c.me not in p.voters or c.me in q.voters


@invariant.clause
def state_is_stage(p: Quorum) -> bool:
    return is_inside(p) == (p.state == HELD) and is_waiting(p) == (p.state == WANTED)


@invariant.clause
def holder_has_a_quorum(p: Quorum) -> bool:
    return p.state != HELD or len(p.grants) >= p.needed


@invariant.clause
def grants_are_of_coordinators(p: Quorum, c: Quorum) -> bool:
    return c.me not in p.grants or c.me in p.voters


@invariant.clause
def coordinator_has_granted(p: Quorum, c: Quorum) -> bool:
    return p.state == RELEASED or c.me not in p.grants or c.holder == (p.me, p.number)


@invariant.clause
def grant_is_given(grant: InTransit[Grant]) -> bool:
    c: Quorum = grant.sender
    p: Quorum = grant.receiver
    return (
        c.me in p.voters
        and grant.number <= p.number
        and (grant.number != p.number or p.state != WANTED or c.holder == (p.me, p.number))
    )


@invariant.clause
def request_was_made(request: InTransit[Request]) -> bool:
    p: Quorum = request.sender
    c: Quorum = request.receiver
    return c.me in p.voters and request.number <= p.number


@invariant.clause
def release_is_of_a_request_that_is_over(release: InTransit[Release]) -> bool:
    p: Quorum = release.sender
    return release.number < p.number or (release.number == p.number and p.state == RELEASED)


@invariant.clause
def queued_request_was_made(p: Quorum, c: Quorum) -> bool:
    return all(
        number <= p.number and c.me in p.voters for process, number in c.queue if process == p.me
    )


@invariant.clause
def granted_request_was_made(p: Quorum, c: Quorum) -> bool:
    return c.holder is None or c.holder[0] != p.me or c.holder[1] <= p.number
