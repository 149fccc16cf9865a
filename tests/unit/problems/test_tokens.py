"""TOKEN: tokens of grants strictly increase, in the order that requests and entries give them."""

from habemus.core.events import Event
from habemus.core.properties import Finding, Verdict
from habemus.problems.fencing import GrantedWithToken, Token
from habemus.problems.tokens import IssuedToken, TokenMonitor, judge_tokens, not_larger, repeated


def grant(asked: int, granted: int, *token: int, holder: str = "somebody") -> IssuedToken:
    return IssuedToken(asked, granted, token, holder)


def verdict(*grants: IssuedToken) -> Verdict | None:
    found = judge_tokens(grants)
    return None if found is None else found.verdict


def test_tokens_that_increase() -> None:
    assert verdict(grant(0, 1, 7), grant(2, 3, 8), grant(4, 5, 25_769_803_780)) is Verdict.HOLDS
    assert verdict(grant(4, 5, 2, 1), grant(0, 1, 1, 1), grant(2, 3, 1, 9)) is Verdict.HOLDS, (
        "in whichever order they are given"
    )


def test_no_grant_shows_nothing() -> None:
    assert judge_tokens([]) is None


def test_a_token_that_goes_back() -> None:
    found = judge_tokens([grant(0, 1, 2, 1, holder="1"), grant(2, 3, 1, 1, holder="2")])
    assert found == Finding(
        "TOKEN",
        Verdict.VIOLATED,
        "2 has the token 1.1, although 1 had 2.1 before it was asked for",
    )


def test_the_largest_before_counts_and_not_the_last() -> None:
    """The second was asked for before the first was granted; the third was not."""
    assert verdict(grant(1, 3, 9), grant(2, 4, 5), grant(5, 6, 7)) is Verdict.VIOLATED


def test_requests_that_overlap_may_be_granted_in_either_order() -> None:
    assert verdict(grant(0, 3, 2), grant(1, 4, 1)) is Verdict.HOLDS
    assert verdict(grant(0, 3, 2), grant(3, 4, 1)) is Verdict.HOLDS, "at one moment they overlap"
    assert verdict(grant(0, 3, 2), grant(4, 5, 1)) is Verdict.VIOLATED


def test_no_two_grants_have_the_same_token() -> None:
    found = judge_tokens([grant(0, 3, 7, holder="a"), grant(1, 4, 7, holder="b")])
    assert found == Finding("TOKEN", Verdict.VIOLATED, "b has the token 7 that a has, too")
    later = judge_tokens([grant(0, 1, 7, holder="a"), grant(2, 3, 7, holder="b")])
    assert later == found, "asked for later or not"


# Events.


def asks(time: int, process: int) -> Event:
    return Event(time, process, "request", "acquire")


def enters(time: int, process: int, token: Token, part: str = "") -> Event:
    return Event(time, process, "indicate", "Granted", GrantedWithToken(token), part=part)


def judged(*events: Event) -> Finding | None:
    monitor = TokenMonitor(label=lambda process: f"p{process}")
    for event in events:
        monitor.observe(event)
    return monitor.finding()


def test_events_of_one_moment_have_the_order_of_the_run() -> None:
    found = judged(asks(0, 1), enters(5_000, 1, (2, 1)), asks(5_000, 2), enters(5_000, 2, (1, 4)))
    why = (
        "p2, which entered at 5 ms, has the token 1.4, although p1, which entered at 5 ms, had"
        " 2.1 before it was asked for"
    )
    assert found == Finding("TOKEN", Verdict.VIOLATED, why, 5_000, (1, 2))
    late = judged(asks(0, 1), asks(0, 2), enters(5_000, 1, (2, 1)), enters(6_000, 2, (1, 4)))
    assert late is not None and late.verdict is Verdict.HOLDS, "its grant was under way for long"


def test_a_request_is_over_when_it_is_made_anew() -> None:
    """The process crashed while it waited, and asked again."""
    again = (
        asks(0, 2),
        Event(1, 2, "crash"),
        asks(2, 1),
        enters(3, 1, (1, 2)),
        Event(4, 2, "recover"),
        asks(5, 2),
        enters(6, 2, (1, 1)),
    )
    found = judged(*again)
    assert found is not None and found.verdict is Verdict.VIOLATED


def test_grants_of_components_and_grants_without_a_token_are_none() -> None:
    assert (
        judged(asks(0, 1), enters(1, 1, (1, 1), part=".lock"), Event(2, 1, "indicate", "Granted"))
        is None
    )


def test_all_grants_that_are_not_larger_are_found() -> None:
    grants = [grant(0, 1, 5), grant(4, 6, 5), grant(2, 3, 7), grant(8, 9, 1), grant(8, 9, 8)]
    assert list(not_larger(grants)) == [(2, 1), (2, 3)]


def test_of_the_grants_with_the_largest_token_the_first_counts() -> None:
    grants = [grant(0, 2, 5), grant(0, 1, 5), grant(3, 4, 5)]
    assert list(not_larger(grants)) == [(1, 2)]


def test_all_tokens_that_are_repeated_are_found() -> None:
    assert list(repeated([5, 6, 5, 7, 6, 5])) == [(0, 2), (1, 4), (0, 5)]
    assert list(repeated([5, 6, 7])) == []
