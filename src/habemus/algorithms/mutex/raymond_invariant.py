"""Why raymond keeps ME1, in every tree: all pointers lead to the one token."""

from habemus.algorithms.mutex.raymond import Raymond, Request, Token
from habemus.core.invariants import InTransit, Invariant, is_inside, towards

invariant = Invariant(Raymond, "ME1", assumes=("tree",))


@invariant.initially
def pointer_begins_at_a_neighbour(p: Raymond) -> bool:
    return p.holder == p.me or p.holder in p.peers


@invariant.initially
def all_point_to_one(p: Raymond, q: Raymond) -> bool:
    return q.holder != q.me or p.holder == towards(p, q)


@invariant.clause
def inside_has_the_token(p: Raymond) -> bool:
    return is_inside(p) == p.inside and (not p.inside or p.holder == p.me)


@invariant.clause
def pointers_lead_to_its_holder(p: Raymond, q: Raymond) -> bool:
    return q.holder != q.me or p.holder == towards(p, q)


@invariant.clause
def pointers_lead_to_its_receiver(p: Raymond, token: InTransit[Token]) -> bool:
    if p.me == token.receiver.me:
        sender: Raymond = token.sender
        return p.holder == sender.me
    return p.holder == towards(p, token.receiver)


@invariant.clause
def token_goes_to_a_neighbour(token: InTransit[Token]) -> bool:
    p: Raymond = token.sender
    return token.receiver.me in p.peers


@invariant.clause
def one_token_is_in_transit(one: InTransit[Token], other: InTransit[Token]) -> bool:
    return False


@invariant.clause
def pointer_is_to_a_neighbour(p: Raymond) -> bool:
    return p.holder == p.me or p.holder in p.peers


@invariant.clause
def request_comes_from_a_neighbour(request: InTransit[Request]) -> bool:
    p: Raymond = request.sender
    return request.receiver.me in p.peers


@invariant.clause
def queue_has_neighbours(p: Raymond, q: Raymond) -> bool:
    return q.me not in p.queue or q.me == p.me or q.me in p.peers
