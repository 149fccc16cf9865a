"""Why suzuki-kasami keeps ME1, for every number of processes: there is one token.

That does not depend on the numbers of requests, nor on the queue that the token carries.
"""

from habemus.algorithms.mutex.suzuki_kasami import SuzukiKasami, Token
from habemus.core.invariants import InTransit, Invariant, is_inside

invariant = Invariant(SuzukiKasami, "ME1")


@invariant.initially
def one_begins(p: SuzukiKasami, q: SuzukiKasami) -> bool:
    return not p.has_token or not q.has_token or p.me == q.me


@invariant.clause
def inside_has_the_token(p: SuzukiKasami) -> bool:
    return is_inside(p) == p.inside and (not p.inside or (p.has_token and p.wanted))


@invariant.clause
def one_has_the_token(p: SuzukiKasami, q: SuzukiKasami) -> bool:
    return not p.has_token or not q.has_token or p.me == q.me


@invariant.clause
def token_is_held_or_in_transit(p: SuzukiKasami, token: InTransit[Token]) -> bool:
    return not p.has_token


@invariant.clause
def one_token_is_in_transit(one: InTransit[Token], other: InTransit[Token]) -> bool:
    return False
