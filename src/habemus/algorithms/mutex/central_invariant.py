"""Why central keeps ME1, for every number of processes.

There is one permission.  While it is in transit to a process, or in use there, or in transit back,
the coordinator has that process as the holder.
"""

from habemus.algorithms.mutex.central import Central, Grant, Release, Request
from habemus.core.invariants import InTransit, Invariant, is_inside

invariant = Invariant(Central, "ME1")


@invariant.initially
def all_know_the_coordinator(p: Central, q: Central) -> bool:
    return p.coordinator == q.coordinator


@invariant.clause
def coordinator_is_one(p: Central, q: Central) -> bool:
    return p.coordinator == q.coordinator


@invariant.clause
def request_goes_to_the_coordinator(request: InTransit[Request]) -> bool:
    p: Central = request.sender
    c: Central = request.receiver
    return c.me == p.coordinator


@invariant.clause
def inside_is_the_holder(p: Central, c: Central) -> bool:
    return not is_inside(p) or c.me != p.coordinator or c.holder == p.me


@invariant.clause
def grant_goes_to_the_holder(grant: InTransit[Grant]) -> bool:
    c: Central = grant.sender
    p: Central = grant.receiver
    return c.me == c.coordinator and c.holder == p.me and not is_inside(p)


@invariant.clause
def release_comes_from_the_holder(release: InTransit[Release]) -> bool:
    c: Central = release.receiver
    p: Central = release.sender
    return c.me == c.coordinator and c.holder == p.me and not is_inside(p)


@invariant.clause
def one_grant(one: InTransit[Grant], other: InTransit[Grant]) -> bool:
    return False


@invariant.clause
def one_release(one: InTransit[Release], other: InTransit[Release]) -> bool:
    return False


@invariant.clause
def grant_or_release(grant: InTransit[Grant], release: InTransit[Release]) -> bool:
    return False


@invariant.clause
def only_the_coordinator_queues(p: Central) -> bool:
    return p.me == p.coordinator or not p.waiting
