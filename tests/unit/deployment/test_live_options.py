"""Live defaults: no service runs on times that were chosen for simulations."""

from __future__ import annotations

import pytest

from habemus.catalog.entries import entries, find
from habemus.core.process import Process
from habemus.deployment.services import ELECTION_OPTIONS, LIVE_OPTIONS, live_options, services_of

SHORTEST_US = 50_000
"""A scheduler or a disk delays a live step by that much now and then."""
TIMES = ("lease", "patience", "period", "timeout", "silence", "every")


def times_of(plan: Process) -> dict[str, int]:
    """The times of a plan in microseconds, of spans the shortest; 0 and None stand for none."""
    variables = type(plan).__variables__
    found = {name: value for name in TIMES if name in variables and (value := getattr(plan, name))}
    tick = getattr(plan, "tick", 1)  # some count in ticks
    return {
        name: tick * (value if isinstance(value, int) else value[0])
        for name, value in found.items()
    }


def live_plans(algorithm: str, *options: str) -> list[Process]:
    services = services_of("it", algorithm, live_options(algorithm, options), "", range(1, 4))
    return [plan for service in services for plan in service.system.plans.values()]


@pytest.mark.parametrize("algorithm", sorted(entries()))
def test_no_service_runs_on_times_of_simulations(algorithm: str) -> None:
    for plan in live_plans(algorithm):
        assert all(time >= SHORTEST_US for time in times_of(plan).values()), times_of(plan)


@pytest.mark.parametrize(
    ("algorithm", "election"),
    [
        (name, election)
        for name in LIVE_OPTIONS
        if name.startswith("elected-coordinator")
        for election in (
            ["terms-members"]
            if name.endswith("-members")  # it has this one only
            else sorted({*ELECTION_OPTIONS} - {"terms-members"})
        )
    ],
)
def test_the_election_below_has_live_times_as_well(algorithm: str, election: str) -> None:
    first = live_plans(algorithm, f"elected_by={election}")[0]
    plan = getattr(first, "election", first)  # a shared one is a service of its own
    assert getattr(type(plan), "name", "") == election
    assert times_of(plan) == times_of(live_plans(election)[0])


def test_what_is_given_comes_first() -> None:
    given = live_options(
        "elected-coordinator-leased", ["lease=500ms", 'election_options={"period": 7}']
    )
    assert "lease=500ms" in given and "lease=2s" not in given
    assert [each for each in given if each.startswith("election_options")] == [
        'election_options={"period": 7}'
    ]


def test_a_token_ring_waits_longer_than_a_busy_machine_stands_still() -> None:
    """Its ME1 holds only as long as every message is acknowledged within its patience."""
    assert times_of(live_plans("token-ring-repair")[0]) == {
        "patience": 1_000_000,
        "silence": 4_000_000,
    }
    assert (
        find("token-ring-repair").algorithm.__variables__["patience"].default == 20_000
    )  # in simulations
