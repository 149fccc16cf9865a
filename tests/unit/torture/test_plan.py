"""What the cards say of faults, and what is made of what the user says."""

from __future__ import annotations

from typing import Any

import pytest

from habemus.torture.plan import BadPlan, Plan, kinds_of, plan_of
from habemus.torture.schedule import CLIENT_KINDS, KINDS


def planned(algorithm: str, **more: Any) -> Plan:
    return plan_of(algorithm, **{"nodes": 5, "clients": 4, "seconds": 1.0, "seed": 0, **more})


def test_one_word_stands_for_several_kinds() -> None:
    assert kinds_of(["kill", "cut-one-way", "cut"]) == (
        "kill-node",
        "kill-client",
        "cut-one-way",
        "cut",
        "cut-client",
    )
    assert kinds_of(["kill-all", "disk"]) == (
        "kill-majority",
        "kill-all",
        "disk-full",
        "disk-cut",
        "disk-garble",
        "disk-lost",
    )


def test_a_fault_that_there_is_not() -> None:
    with pytest.raises(BadPlan, match="unknown fault 'kil'; did you mean kill"):
        kinds_of(["kil"])


@pytest.mark.parametrize(
    ("algorithm", "over", "missing"),
    [
        ("elected-coordinator-leased", "", set()),
        ("elected-coordinator-unrecorded", "", set()),
        ("elected-coordinator", "", set()),
        ("quorum-yield", "perfect", set()),
        ("quorum-durable", "perfect", set()),
        ("ricart-agrawala", "perfect", {"kill-node"}),
        ("lamport", "perfect-fifo", {"kill-node"}),
        ("ra-majority", "perfect", {"kill-node"}),
        ("central", "perfect", {"kill-node"}),
        ("ra-reliable", "", {"kill-node"}),
        (
            "token-ring-repair",
            "perfect",
            {"pause-node", "pause-client", "cut", "cut-one-way", "cut-client"},
        ),
        (
            "central-timeout",
            "perfect",
            {"kill-node", "pause-node", "pause-client", "cut", "cut-one-way", "cut-client"},
        ),
    ],
)
def test_the_usual_faults_are_those_that_the_card_claims_to_stand(
    algorithm: str, over: str, missing: set[str]
) -> None:
    plan = planned(algorithm)
    assert plan.over == over
    if "kill-node" in missing:
        missing = {*missing, "stop-node"}
    if not planned(algorithm).lease_s:
        missing = {*missing, "close-client"}
    usual = ["kill", "stop-node", "pause", "cut", "close-client"]
    assert set(plan.kinds) == set(kinds_of(usual)) - missing
    assert plan.claim.beyond == ()
    asked = planned(algorithm, faults=usual)
    assert set(asked.claim.beyond) == missing
    assert any("does not claim" in warning for warning in asked.warnings()) == bool(missing)


def test_reliable_links_are_assumed_by_some_and_not_given_by_connections() -> None:
    plan = planned("quorum-yield", over="none", faults=["kill", "cut"])
    assert plan.over == ""
    assert set(plan.claim.beyond) == {"kill-node", "cut", "cut-one-way"}
    assert (
        "cut" in planned("lamport", over="perfect", faults=["cut"]).claim.beyond
    )  # which do not keep the order


def test_what_is_held_against_the_run() -> None:
    leased, strict, plain = (
        planned("elected-coordinator-leased"),
        planned("elected-coordinator"),
        planned("ricart-agrawala"),
    )
    assert (
        leased.claim.excludes,
        leased.claim.has_tokens,
        leased.claim.counts_me1,
        leased.lease_s,
    ) == (False, True, False, 10.0)
    assert (strict.claim.excludes, strict.claim.has_tokens, strict.lease_s) == (True, True, 0.0)
    assert (plain.claim.excludes, plain.claim.has_tokens, plain.claim.counts_me1) == (
        True,
        False,
        True,
    )
    assert planned("elected-coordinator-leased", is_fenced=False).claim.counts_me1
    assert leased.claim.excuses == ()
    forgetful = planned("elected-coordinator-unrecorded").claim
    assert set(forgetful.excuses) == set(KINDS) - set(CLIENT_KINDS)
    assert planned("central-timeout").claim.counts_me1
    assert not planned("quorum-durable").claim.progresses


def test_a_lock_without_a_lease_ends_with_the_connection_of_its_client() -> None:
    close = ["close-client"]
    assert planned("elected-coordinator-leased", faults=close).claim.beyond == ()
    assert planned("elected-coordinator", faults=close).claim.beyond == ("close-client",)


def test_options_are_those_of_the_live_default_and_what_is_said_instead() -> None:
    plan = planned("elected-coordinator-leased", options=["lease=500ms"])
    assert plan.lease_s == 0.5
    assert any(each.startswith("election_options=") for each in plan.options)
    assert planned("elected-coordinator", options=["lease=1s"]).claim.excludes is False


def test_members_change_where_the_algorithm_lets_them() -> None:
    plan = planned("elected-coordinator-leased-members", nodes=1, faults=["member-swap"])
    assert (plan.kinds, plan.claim.beyond) == (("member-swap",), ())


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"algorithm": "bully"}, "not a mutual exclusion algorithm"),
        ({"algorithm": "centrall"}, "did you mean central?"),
        ({"over": "wire"}, "unknown links 'wire'"),
        ({"options": ["leas=1s"]}, "did you mean lease?"),
        ({"faults": ["fire"]}, "unknown fault 'fire'"),
        (
            {"faults": ["disk"], "nodes": 2},
            "at least 3 nodes are needed to replace a lost memory, and --nodes is 2",
        ),
        (
            {"faults": ["member"], "nodes": 2, "algorithm": "elected-coordinator-leased-members"},
            "member-replace: at least 3 nodes",
        ),
        ({"faults": ["member-swap"]}, "elected-coordinator-leased has fixed members"),
        (
            {"faults": ["disk-lost"], "algorithm": "quorum-yield"},
            "quorum-yield cannot replace a node that lost its memory",
        ),
    ],
)
def test_what_cannot_be_meant(more: dict[str, Any], reason: str) -> None:
    with pytest.raises((ValueError, LookupError), match=reason):
        planned(**{"algorithm": "elected-coordinator-leased", **more})
