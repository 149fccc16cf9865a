"""Why ricart-agrawala keeps ME1, for every number of processes.

A reply is a permission.  While p wants to enter or is inside, a process that has permitted it does
not enter: it wants nothing and its next stamp will be larger, or it wants to enter and goes later.
"""

from habemus.algorithms.mutex.ricart_agrawala import (
    HELD,
    RELEASED,
    WANTED,
    Reply,
    Request,
    RicartAgrawala,
)
from habemus.core.invariants import (
    InTransit,
    Invariant,
    is_inside,
    is_waiting,
    opposite,
    same_link,
)

invariant = Invariant(RicartAgrawala, "ME1")


def goes_first(p: RicartAgrawala, q: RicartAgrawala) -> bool:
    return (p.stamp, p.me) < (q.stamp, q.me)


def has_permitted(q: RicartAgrawala, p: RicartAgrawala) -> bool:
    """Return whether q does not enter before p has left."""
    return (q.state == RELEASED and q.clock >= p.stamp) or (q.state == WANTED and goes_first(p, q))


@invariant.clause
def state_is_stage(p: RicartAgrawala) -> bool:
    return is_inside(p) == (p.state == HELD) and is_waiting(p) == (p.state == WANTED)


@invariant.clause
def clock_has_seen_the_stamp(p: RicartAgrawala) -> bool:
    return p.state == RELEASED or p.clock >= p.stamp


@invariant.clause
def never_oneself(p: RicartAgrawala) -> bool:
    return p.me not in p.missing and p.me not in p.deferred


@invariant.clause
def request_is_open(request: InTransit[Request]) -> bool:
    p: RicartAgrawala = request.sender
    q: RicartAgrawala = request.receiver
    return (
        p.state == WANTED
        and request.stamp == p.stamp
        and q.me in p.missing
        and p.me not in q.deferred
    )


@invariant.clause
def request_is_the_only_one(one: InTransit[Request], other: InTransit[Request]) -> bool:
    return not same_link(one, other)


@invariant.clause
def request_is_not_answered(request: InTransit[Request], reply: InTransit[Reply]) -> bool:
    return not opposite(request, reply)


@invariant.clause
def deferred_request_waits(p: RicartAgrawala, q: RicartAgrawala) -> bool:
    return p.me not in q.deferred or (
        p.state == WANTED
        and q.me in p.missing
        and q.clock >= p.stamp
        and (q.state == HELD or (q.state == WANTED and goes_first(q, p)))
    )


@invariant.clause
def deferred_request_is_not_answered(reply: InTransit[Reply]) -> bool:
    return reply.receiver.me not in reply.sender.deferred


@invariant.clause
def reply_permits(reply: InTransit[Reply]) -> bool:
    q: RicartAgrawala = reply.sender
    p: RicartAgrawala = reply.receiver
    return p.state == WANTED and q.me in p.missing and has_permitted(q, p)


@invariant.clause
def reply_is_the_only_one(one: InTransit[Reply], other: InTransit[Reply]) -> bool:
    return not same_link(one, other)


@invariant.clause
def reply_was_a_permission(p: RicartAgrawala, q: RicartAgrawala) -> bool:
    return p.state == RELEASED or p.me == q.me or q.me in p.missing or has_permitted(q, p)


@invariant.clause
def holder_misses_no_reply(p: RicartAgrawala, q: RicartAgrawala) -> bool:
    return p.state != HELD or q.me not in p.missing
