"""Why token-ring keeps ME1, for every number of processes: there is one token."""

from habemus.algorithms.mutex.token_ring import Token, TokenRing
from habemus.core.invariants import InTransit, Invariant, is_inside

invariant = Invariant(TokenRing, "ME1")


@invariant.initially
def one_begins(p: TokenRing, q: TokenRing) -> bool:
    return not p.has_token or not q.has_token or p.me == q.me


@invariant.clause
def inside_has_the_token(p: TokenRing) -> bool:
    return is_inside(p) == p.inside and (not p.inside or (p.has_token and p.wanted))


@invariant.clause
def one_has_the_token(p: TokenRing, q: TokenRing) -> bool:
    return not p.has_token or not q.has_token or p.me == q.me


@invariant.clause
def token_is_held_or_in_transit(p: TokenRing, token: InTransit[Token]) -> bool:
    return not p.has_token


@invariant.clause
def one_token_is_in_transit(one: InTransit[Token], other: InTransit[Token]) -> bool:
    return False
