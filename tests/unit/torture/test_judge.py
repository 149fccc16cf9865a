"""The judge, on histories that were made up: each mistake that a lock can make is planted once, and
found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from habemus.core.properties import Verdict
from habemus.torture.history import Access, History, InjectedFault, Stay, Update
from habemus.torture.judge import (
    FEWEST_GRANTS,
    NS,
    PATIENCE_S,
    STALL_MARGIN_S,
    TortureClaim,
    duplicates,
    first_grants,
    judge,
    longest_outage,
    lost_updates,
    mismatches,
    overlaps,
    regressions,
    stale_writes,
)
from habemus.torture.schedule import CLIENT_KINDS, KINDS

LENIENT = TortureClaim(
    excludes=False, progresses=True, has_tokens=True, is_fenced=True, faults=("kill-node",)
)
LEASED = LENIENT._replace(lease_s=0.05)
STRICT = TortureClaim(
    excludes=True, progresses=True, has_tokens=False, is_fenced=True, faults=("kill-node",)
)
STEP = 1_000_000


def stay(
    client: str,
    number: int,
    asked: int,
    answered: int,
    left: int,
    token: int | None = None,
    lock: str = "a",
) -> Stay:
    return Stay(client, number, lock, asked, answered, "granted", token, left, "release")


def good_history(grants: int = FEWEST_GRANTS, *, tokens: bool = True) -> History:
    """Two clients take turns; each reads the value and writes the next."""
    history = History(
        0,
        (10 * grants + 10) * STEP,
        faults=[InjectedFault("kill-node", "node 1", 0, STEP)],
        healings=[STEP],
    )
    for turn in range(grants):
        start = 10 * turn * STEP
        client, token = "12"[turn % 2] + ".1", turn + 1 if tokens else None
        history.stays.append(stay(client, turn, start, start + 2 * STEP, start + 8 * STEP, token))
        history.updates.append(Update(client, turn, "a", start + 3 * STEP, start + 6 * STEP, turn))
        history.accesses.append(
            Access(start + 4 * STEP, "read", "a", client, turn, token, None, True)
        )
        history.accesses.append(
            Access(start + 5 * STEP, "write", "a", client, turn, token, turn, True)
        )
    return history


@pytest.mark.parametrize(("claim", "tokens"), [(LENIENT, True), (STRICT, False)])
def test_a_good_history_is_good(claim: TortureClaim, tokens: bool) -> None:
    judgement = judge(good_history(tokens=tokens), claim)
    assert judgement.verdict is Verdict.HOLDS
    assert judgement.violated == []
    assert judgement.lock_order.verdict is judgement.update_order.verdict is Verdict.HOLDS


# Two inside.


def two_inside(tokens: bool) -> History:
    """The tenth stay lasts until the middle of the eleventh."""
    history = good_history(tokens=tokens)
    history.stays[10] = history.stays[10]._replace(left=history.stays[11].asked + 4 * STEP)
    return history


def test_two_that_believe_are_found() -> None:
    history = two_inside(tokens=False)
    [(one, other)] = overlaps(history.grants)
    assert (one.number, other.number) == (10, 11)
    judgement = judge(history, STRICT)
    assert judgement.verdict is Verdict.VIOLATED
    assert judgement.violated == ["ME1"]
    assert judgement.lock_order.verdict is Verdict.VIOLATED


def test_two_inside_are_no_matter_of_tokens() -> None:
    assert judge(two_inside(tokens=True), STRICT._replace(has_tokens=True)).violated == ["ME1"]


def test_with_leases_two_may_believe() -> None:
    judgement = judge(two_inside(tokens=True), LENIENT)
    assert len(judgement.overlaps) == 1
    assert judgement.uncounted == ["ME1"]
    assert judgement.verdict is Verdict.HOLDS


# Excuses.


def fault(kind: str, client: str, began_ms: int, ended_ms: int | None) -> InjectedFault:
    ended = None if ended_ms is None else ended_ms * STEP
    return InjectedFault(kind, "", began_ms * STEP, ended, client)


def test_with_leases_two_may_not_believe_without_an_excuse() -> None:
    judgement = judge(two_inside(tokens=True), LEASED)
    assert (len(judgement.overlaps), len(judgement.unexcused)) == (1, 1)
    assert judgement.violated == ["ME1"]
    assert "without an excuse" in judgement.findings[0].why


@pytest.mark.parametrize("kind", ["pause-client", "cut-client"])
@pytest.mark.parametrize("client", ["1.1", "2.1"])
@pytest.mark.parametrize("ago_ms", [0, 45])
def test_a_fault_of_one_of_the_two_excuses_them_within_a_lease(
    kind: str, client: str, ago_ms: int
) -> None:
    """The lease is 50 ms, and its aftermath 55.  The overlap lasts from 112 to 114 ms."""
    history = two_inside(tokens=True)
    history.faults.append(fault(kind, client, 110 - ago_ms, 111 - ago_ms))
    judgement = judge(history, LEASED)
    assert (len(judgement.overlaps), judgement.excused) == (1, {kind: 1})
    assert judgement.verdict is Verdict.HOLDS
    history.faults[-1] = fault(kind, client, 55, 58)  # its aftermath ends within the overlap
    assert judge(history, LEASED).violated == ["ME1"]


@pytest.mark.parametrize(
    ("kind", "client"),
    [
        ("pause-client", "3.1"),  # another client
        ("pause-client", "1.2"),  # another process of the same number
        ("cut-client", "3.1"),
        ("close-client", "1.1"),  # a connection that closes says nothing of its client
        ("kill-client", "1.1"),
        ("pause-node", ""),
        ("kill-node", ""),
        ("cut", ""),
        ("drop", ""),
    ],
)
def test_no_other_fault_excuses_them(kind: str, client: str) -> None:
    history = two_inside(tokens=True)
    history.faults.append(fault(kind, client, 100, None))
    judgement = judge(history, LEASED)
    assert (len(judgement.unexcused), judgement.excused) == (1, {})
    assert judgement.violated == ["ME1"]


def test_a_fault_excuses_all_clients_where_the_card_says_that_it_may() -> None:
    history = two_inside(tokens=True)
    history.faults.append(fault("kill-node", "", 100, 101))
    assert judge(history, LEASED._replace(excuses=("kill-node",))).excused == {"kill-node": 1}
    assert judge(history, LEASED._replace(excuses=("pause-node",))).violated == ["ME1"]


def test_a_stall_excuses_an_overlap_and_is_counted() -> None:
    history = two_inside(tokens=True)
    history.stalls = [(100 * STEP, 113 * STEP)]
    judgement = judge(history, LEASED)
    assert (judgement.unexcused, judgement.excused) == ([], {"stall": 1})
    assert (judgement.stalls, judgement.stalled_s) == (1, 0.013)
    margin = round(STALL_MARGIN_S * NS)
    assert judgement.judged_s == (history.ended - 113 * STEP - margin) / NS
    history.stalls = [(114 * STEP + margin, 200 * STEP + margin)]
    assert judge(history, LEASED).violated == ["ME1"]


def test_ten_invented_overlaps_of_ten_are_found_beside_faults_of_all_kinds() -> None:
    """Every other client is paused or cut off all the time, and nodes are hit without a pause."""
    history = good_history()
    for kind in KINDS:
        history.faults.append(fault(kind, "" if kind not in CLIENT_KINDS else "3.1", 0, None))
    for place in range(5, 95, 9):
        later = history.stays[place + 1]
        history.stays[place] = history.stays[place]._replace(left=later.asked + 3 * STEP)
    judgement = judge(history, LEASED)
    assert len(judgement.overlaps) == len(judgement.unexcused) == 10
    assert judgement.violated == ["ME1"]
    assert "10 times" in judgement.findings[0].why


def test_a_run_with_an_excuse_at_all_times_shows_nothing_of_leases() -> None:
    history = good_history()
    history.faults.append(fault("kill-node", "", 0, None))
    judgement = judge(history, LEASED._replace(excuses=("kill-node",)))
    assert judgement.verdict is Verdict.UNDECIDED
    assert "always a fault" in judgement.findings[0].why


def test_without_fencing_they_may_not() -> None:
    judgement = judge(two_inside(tokens=True), LENIENT._replace(is_fenced=False))
    assert judgement.violated == ["ME1"]


def test_two_of_different_locks_may_be_inside() -> None:
    assert overlaps([stay("1.1", 1, 0, 1, 9), stay("2.1", 1, 0, 2, 8, lock="b")]) == []


def test_who_leaves_at_the_moment_at_which_the_next_is_let_in_was_not_beside_it() -> None:
    assert overlaps([stay("1.1", 1, 0, 1, 5), stay("2.1", 1, 0, 5, 8)]) == []


def test_every_pair_counts() -> None:
    assert (
        len(
            overlaps(
                [
                    stay("1.1", 1, 0, 1, 100),
                    stay("2.1", 1, 0, 5, 50),
                    stay("3.1", 1, 0, 10, 20),
                    stay("2.1", 2, 0, 60, 70),
                ]
            )
        )
        == 4
    )


# Writes.


def writes(*given: tuple[str, int | None, int], accepted: Sequence[bool] = ()) -> list[Access]:
    """Client, token and the value that it had read; the stay is the token."""
    return [
        Access(time, "write", "a", client, token or 0, token, value, not accepted or accepted[time])
        for time, (client, token, value) in enumerate(given)
    ]


def test_a_stale_write_that_was_accepted_is_found() -> None:
    [stale] = stale_writes(writes(("1.1", 5, 0), ("2.1", 6, 1), ("1.1", 5, 2), ("2.1", 6, 3))[:3])
    assert (stale.client, stale.token) == ("1.1", 5)


def test_it_is_found_without_tokens_and_with_equal_ones() -> None:
    """By who wrote: the first writes after the second has, and then the second after the first."""
    for token in (None, 7):
        found = stale_writes(
            writes(("1.1", token, 0), ("2.1", token, 1), ("1.1", token, 2), ("2.1", token, 3))
        )
        assert [each.client for each in found] == ["1.1", "2.1"]


def test_one_that_was_refused_is_not_stale() -> None:
    assert (
        stale_writes(
            writes(("1.1", 5, 0), ("2.1", 6, 1), ("1.1", 5, 2), accepted=(True, True, False))
        )
        == []
    )


def test_a_smaller_token_is_stale_at_its_first_write() -> None:
    assert len(stale_writes(writes(("2.1", 6, 0), ("1.1", 5, 1)))) == 1


def test_a_stale_write_violates_fence() -> None:
    history = good_history()
    late = next(each for each in history.accesses if each.kind == "write" and each.token == 3)
    history.accesses.insert(40, late._replace(value=history.accesses[39].value))
    judgement = judge(history, LENIENT)
    assert judgement.violated == ["FENCE"]
    assert "stale" in judgement.findings[1].why


def test_lost_updates_are_found() -> None:
    [lost] = lost_updates(writes(("1.1", 1, 0), ("2.1", 2, 1), ("1.1", 3, 1), ("2.1", 4, 2)))
    assert (lost.client, lost.token) == ("1.1", 3)
    assert lost_updates(writes(("1.1", 1, 0), ("2.1", 2, 5), accepted=(True, False))) == []


@pytest.mark.parametrize(("claim", "name"), [(LENIENT, "FENCE"), (STRICT, "ME1")])
def test_a_lost_update_is_a_violation(claim: TortureClaim, name: str) -> None:
    """Both read what was there after the tenth: every token is right, and nobody was seen inside
    beside another.
    """
    history = good_history(tokens=claim.has_tokens)
    place = next(
        place
        for place, each in enumerate(history.accesses)
        if each.kind == "write" and each.value == 11
    )
    history.accesses[place] = history.accesses[place]._replace(value=10)
    history.updates[11] = history.updates[11]._replace(value=10)
    judgement = judge(history, claim)
    assert len(judgement.lost) >= 1
    assert judgement.update_order.verdict is Verdict.VIOLATED
    assert judgement.violated == [name]


# Tokens.


def test_a_token_that_is_no_larger_is_found() -> None:
    grants = [
        stay("1.1", 1, 0, 10, 20, 5),
        stay("2.1", 1, 15, 30, 40, 6),
        stay("1.1", 2, 31, 50, 60, 6),
        stay("2.1", 2, 61, 70, 80, 4),
    ]
    assert [(one.token, other.token) for one, other in regressions(grants)] == [(6, 6), (6, 4)]
    assert [(one.number, other.number) for one, other in duplicates(grants)] == [(1, 2)]


def test_grants_with_small_tokens_are_named_in_the_order_of_their_requests() -> None:
    first, quick = stay("1.1", 2, 3, 10, 11, 4), stay("2.1", 1, 4, 5, 6, 3)
    grants = [stay("1.1", 1, 0, 1, 2, 9), quick, first]
    assert [other for _, other in regressions(grants)] == [first, quick]


def test_of_two_that_asked_at_one_time_either_may_have_the_larger_token() -> None:
    assert regressions([stay("1.1", 1, 0, 30, 40, 5), stay("2.1", 1, 0, 20, 25, 6)]) == []


def test_they_may_not_if_both_hear_of_their_grants_at_once() -> None:
    """Without leases, and in calm time with them: the one that hears last was granted last."""
    grants = [stay("1.1", 1, 0, 30, 40, 5), stay("2.1", 1, 0, 20, 25, 6)]
    assert [(one.token, other.token) for one, other in regressions(grants, lambda _: True)] == [
        (6, 5)
    ]
    for claim in (LEASED, STRICT._replace(has_tokens=True)):
        history = good_history()
        asked = history.stays[49].asked
        history.stays[50] = history.stays[50]._replace(asked=asked, token=50)
        history.stays[49] = history.stays[49]._replace(token=51)
        history.accesses = []
        judgement = judge(history, claim)
        assert [(one.token, other.token) for one, other in judgement.regressions] == [(51, 50)]
        assert "FENCE" in judgement.violated
        if claim is LEASED:  # it may have heard late
            client = history.stays[50].client
            history.faults.append(InjectedFault("pause-client", "", asked, None, client))
            assert judge(history, claim).regressions == []


def test_the_token_that_is_shown_is_the_one_that_was_granted() -> None:
    history = good_history()
    assert mismatches(history.grants, history.accesses) == []
    history.accesses[20] = history.accesses[20]._replace(token=12)
    [(granted, shown)] = mismatches(history.grants, history.accesses)
    assert (granted.token, shown.token) == (11, 12)
    judgement = judge(history, LENIENT)
    assert judgement.violated == ["FENCE"]
    assert "stay 10 of client 1.1 (token 11) showed 12" in judgement.findings[1].why


def test_locks_have_tokens_of_their_own() -> None:
    grants = [stay("1.1", 1, 0, 10, 20, 5), stay("2.1", 1, 15, 30, 40, 5, lock="b")]
    assert regressions(grants) == duplicates(grants) == []


def test_a_regression_violates_fence() -> None:
    history = good_history()
    history.stays[50] = history.stays[50]._replace(token=3)
    judgement = judge(history, LENIENT)
    assert judgement.violated == ["FENCE"]
    assert judgement.lock_order.verdict is Verdict.VIOLATED


# Random histories, against brute force.

times = st.integers(0, 12)
spans = st.integers(0, 6)
tokens = st.none() | st.integers(1, 6)
random_grants = st.lists(
    st.builds(
        lambda client, asked, waited, held, token, lock: stay(
            client, asked, asked, asked + waited, asked + waited + held, token, lock
        ),
        *(st.sampled_from(("1.1", "2.1", "3.1")), times, spans, spans, tokens),
        st.sampled_from("ab"),
    ),
    max_size=10,
)
random_writes = st.lists(
    st.builds(
        lambda lock, client, number, token, accepted: Access(
            0, "write", lock, client, number, token, 0, accepted
        ),
        *(st.sampled_from("ab"), st.sampled_from(("1.1", "2.1")), st.integers(1, 2), tokens),
        st.integers(0, 4).map(bool),
    ),
    max_size=12,
)


@given(random_grants)
def test_overlaps_are_those_of_brute_force(grants: list[Stay]) -> None:
    in_order = sorted(grants, key=lambda each: each.answered or 0)
    expected = [
        (one, other)
        for lock in dict.fromkeys(each.lock for each in grants)
        for place, other in enumerate(in_order)
        for one in in_order[:place]
        if one.lock == other.lock == lock and (one.left or 0) > (other.answered or 0)
    ]
    assert overlaps(grants) == expected


@given(random_writes)
def test_stale_writes_are_those_of_brute_force(given_writes: list[Access]) -> None:
    expected = []
    for lock in "ab":
        accepted = [each for each in given_writes if each.lock == lock and each.accepted]
        for place, write in enumerate(accepted):
            earlier = accepted[:place]
            own = [each.whose == write.whose for each in earlier]
            is_resumed = any(own) and not all(own[own.index(True) :])
            is_smaller = write.token is not None and any(
                each.token is not None and each.token > write.token for each in earlier
            )
            expected += [write] if is_resumed or is_smaller else []
    assert sorted(map(str, stale_writes(given_writes))) == sorted(map(str, expected))


@given(random_grants, st.sets(st.sampled_from(("1.1", "2.1", "3.1"))))
def test_tokens_are_judged_as_by_brute_force(grants: list[Stay], quick: set[str]) -> None:
    """Clients of `quick` hear of their grants at once."""
    with_token = [each for each in grants if each.token is not None]
    expected = []
    for each in with_token:
        since = each.answered if each.client in quick else each.asked
        before = [
            other.token or 0
            for other in with_token
            if other.lock == each.lock and (other.answered or 0) < (since or 0)
        ]
        if before and max(before) >= (each.token or 0):
            expected.append((max(before), str(each)))
    found = regressions(grants, lambda each: each.client in quick)
    assert sorted((one.token or 0, str(other)) for one, other in found) == sorted(expected)
    seen = [(each.lock, each.token) for each in with_token]
    again = [each for place, each in enumerate(seen) if each in seen[:place]]
    assert [(other.lock, other.token) for _, other in duplicates(grants)] == again
    assert all(one.token == other.token for one, other in duplicates(grants))


# Times.


def test_the_longest_outage_is_the_longest_wait_for_a_grant_of_anybody() -> None:
    waited = [
        stay("1.1", 1, 0, 10, 20),
        Stay(
            "2.1", 1, "a", 5, 50, "timeout"
        ),  # since 10 nobody has been let in, and this one waits
        Stay("2.1", 2, "a", 60, 90, "timeout"),  # between 50 and 60 nobody waits
        stay("3.1", 1, 80, 100, 110),
    ]
    assert longest_outage(waited) == (50 - 10) + (100 - 60)


def test_who_died_waits_no_longer() -> None:
    assert (
        longest_outage(
            [Stay("1.1", 1, "a", 30, left=40, ending="killed"), stay("2.1", 1, 90, 95, 99)]
        )
        == 10 + 5
    )


def test_first_grants_after_healings() -> None:
    grants = [stay("1.1", 1, 0, 10, 20), stay("1.1", 2, 20, 50, 60)]
    assert first_grants(grants, [5, 11, 49, 70], 100) == [5, 39, 1, 30]


# What shows nothing.


def test_too_few_grants_show_nothing() -> None:
    judgement = judge(good_history(FEWEST_GRANTS - 1), LENIENT)
    assert judgement.verdict is Verdict.UNDECIDED
    assert "only " in judgement.findings[0].why


def test_a_run_without_faults_shows_nothing() -> None:
    for missing in (("disk-full",), ("kill-node", "cut")):
        assert judge(good_history(), LENIENT._replace(faults=missing)).verdict is Verdict.UNDECIDED


def test_one_client_alone_shows_nothing() -> None:
    history = good_history()
    history.stays = [each._replace(client="1.1") for each in history.stays]
    assert judge(history, LENIENT).verdict is Verdict.UNDECIDED


def test_a_violation_is_one_however_few_grants_there_were() -> None:
    history = two_inside(tokens=False)
    history.stays = history.stays[:20]
    assert judge(history, STRICT).verdict is Verdict.VIOLATED


def test_nobody_let_in_after_a_healing_is_undecided_if_progress_is_claimed() -> None:
    history = good_history()
    history = replace(
        history, healings=[history.ended], ended=history.ended + round(PATIENCE_S * NS)
    )
    assert judge(history, LENIENT).verdict is Verdict.UNDECIDED
    assert judge(history, LENIENT._replace(progresses=False)).verdict is Verdict.HOLDS


def test_what_is_told_is_plain() -> None:
    plain = judge(two_inside(tokens=False), STRICT).plain()
    assert plain["believers_overlapping"] == 1
    assert plain["violated"] == ["ME1"]
    assert plain["faults_in_all"] == 1
