"""Resources of nodes: a leak is found, and what goes up and down is not one."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from habemus.core.properties import Verdict
from habemus.torture.resources import NS, ResourceSample, judge_resources

MB = 1_000_000


def hour(
    memory: Callable[[float], float] = lambda _: 40 * MB,
    descriptors: Callable[[float], float] = lambda _: 30,
    disk: Callable[[float], float] = lambda _: 0.2 * MB,
    pid: Callable[[float], int] = lambda _: 100,
) -> list[ResourceSample]:
    """Return an hour of samples of three nodes; the functions take hours."""
    draw = Random(1)
    return [
        ResourceSample(
            second * NS,
            node,
            pid(second / 3_600),
            round(memory(second / 3_600) + draw.uniform(0, MB / 2)),
            round(descriptors(second / 3_600)) + draw.randrange(4),
            round(disk(second / 3_600)),
        )
        for second in range(0, 3_600, 10)
        for node in (1, 2, 3)
    ]


def verdicts(samples: list[ResourceSample]) -> dict[str, Verdict]:
    return {finding.name: finding.verdict for finding in judge_resources(samples)}


def test_flat_resources_hold() -> None:
    samples = hour(memory=lambda t: 40 * MB - 10 * MB * max(0, 0.2 - t) / 0.2)  # it settles
    assert set(verdicts(samples).values()) == {Verdict.HOLDS}


@pytest.mark.parametrize(
    ("name", "samples"),
    [
        ("MEMORY", hour(memory=lambda t: 40 * MB + 6 * MB * t)),
        ("DESCRIPTORS", hour(descriptors=lambda t: 30 + 30 * t)),
        ("DISK", hour(disk=lambda t: 0.2 * MB + 12 * MB * t)),
    ],
)
def test_a_leak_is_found(name: str, samples: list[ResourceSample]) -> None:
    found = verdicts(samples)
    assert found.pop(name) is Verdict.VIOLATED
    assert set(found.values()) == {Verdict.HOLDS}


def test_a_file_that_is_rewritten_is_not_a_leak() -> None:
    quickly = hour(disk=lambda t: 0.1 * MB + (t * 3_600 % 300) / 300 * MB)
    slowly = hour(disk=lambda t: 4 * MB * t)  # it has not reached the size at which it is rewritten
    assert verdicts(quickly)["DISK"] is verdicts(slowly)["DISK"] is Verdict.HOLDS


def test_short_lives_are_not_judged_but_their_disk_is() -> None:
    found = verdicts(hour(pid=lambda t: 100 + round(t * 30)))
    assert found["MEMORY"] is found["DESCRIPTORS"] is Verdict.UNDECIDED
    assert found["DISK"] is Verdict.HOLDS


def test_a_pid_that_comes_again_is_another_life() -> None:
    """Pids come round: a node that is killed all the time gets one twice in an hour."""
    found = verdicts(hour(pid=lambda t: 100 + round(t * 30) % 3))
    assert found["MEMORY"] is found["DESCRIPTORS"] is Verdict.UNDECIDED


def test_nothing_watched_is_undecided() -> None:
    assert set(verdicts([]).values()) == {Verdict.UNDECIDED}


def test_the_nodes_of_ten_minutes_are_judged() -> None:
    watched = [each for each in hour() if 10 * NS <= each.time < 590 * NS]
    assert set(verdicts(watched).values()) == {Verdict.HOLDS}
    short = [each for each in watched if each.time < 500 * NS]
    assert set(verdicts(short).values()) == {Verdict.UNDECIDED}
