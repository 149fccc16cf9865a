"""Why roucairol-carvalho keeps ME1, for every number of processes.

Between any two processes there is at most one permission, and it is with one of them or in transit.
"""

from habemus.algorithms.mutex.ricart_agrawala import HELD, RELEASED, WANTED, Reply, Request
from habemus.algorithms.mutex.roucairol_carvalho import RoucairolCarvalho
from habemus.core.invariants import (
    InTransit,
    Invariant,
    is_inside,
    is_waiting,
    opposite,
    same_link,
)

invariant = Invariant(RoucairolCarvalho, "ME1")


@invariant.clause
def state_is_stage(p: RoucairolCarvalho) -> bool:
    return is_inside(p) == (p.state == HELD) and is_waiting(p) == (p.state == WANTED)


def goes_first(p: RoucairolCarvalho, q: RoucairolCarvalho) -> bool:
    return (p.stamp, p.me) < (q.stamp, q.me)


@invariant.clause
def never_oneself(p: RoucairolCarvalho) -> bool:
    return p.me not in p.permitted and p.me not in p.deferred


@invariant.clause
def one_has_the_permission(p: RoucairolCarvalho, q: RoucairolCarvalho) -> bool:
    return q.me not in p.permitted or p.me not in q.permitted


@invariant.clause
def holder_has_every_permission(p: RoucairolCarvalho, q: RoucairolCarvalho) -> bool:
    return p.state != HELD or p.me == q.me or q.me in p.permitted


@invariant.clause
def reply_carries_the_permission(reply: InTransit[Reply]) -> bool:
    q: RoucairolCarvalho = reply.sender
    p: RoucairolCarvalho = reply.receiver
    return (
        p.me != q.me
        and p.state == WANTED
        and p.me not in q.permitted
        and q.me not in p.permitted
        and p.me not in q.deferred
        and q.clock >= p.stamp
    )


@invariant.clause
def one_reply(one: InTransit[Reply], other: InTransit[Reply]) -> bool:
    return not same_link(one, other) and not opposite(one, other)


@invariant.clause
def request_is_open(request: InTransit[Request]) -> bool:
    p: RoucairolCarvalho = request.sender
    q: RoucairolCarvalho = request.receiver
    return (
        p.me != q.me
        and p.state == WANTED
        and request.stamp == p.stamp
        and q.me not in p.permitted
        and p.me not in q.deferred
    )


@invariant.clause
def one_request(one: InTransit[Request], other: InTransit[Request]) -> bool:
    return not same_link(one, other)


@invariant.clause
def request_is_not_answered(request: InTransit[Request], reply: InTransit[Reply]) -> bool:
    return not opposite(request, reply)


@invariant.clause
def request_goes_after_that_of_a_reply_before_it(
    request: InTransit[Request], reply: InTransit[Reply]
) -> bool:
    """A process that has permitted another, and asks it then, goes second."""
    return not same_link(request, reply) or goes_first(request.receiver, request.sender)


@invariant.clause
def deferred_request_waits(p: RoucairolCarvalho, q: RoucairolCarvalho) -> bool:
    return p.me not in q.deferred or (
        p.state == WANTED and q.me not in p.permitted and q.clock >= p.stamp and q.state != RELEASED
    )
