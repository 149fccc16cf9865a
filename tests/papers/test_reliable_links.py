"""Every algorithm that assumes reliable links keeps its claims over perfect links on a network that
loses and copies messages.
"""

from dataclasses import replace

import pytest

from habemus.catalog.entries import entries
from habemus.problems.mutex import Mutex
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute

SEEDS = 6
NAMES = [
    name
    for name, entry in entries().items()
    if issubclass(entry.algorithm, Mutex)
    and "reliable links" in entry.box.sections["Assumes"]
    and "ME1" in entry.box.ensures
]


def setup(name: str, seed: int, over: str) -> Setup:
    workload = "steady" if seed % 2 else "burst"
    calm = Setup(
        name,
        3,
        seed=seed,
        workload=workload,
        requests=2,
        delay="500..1500",
        over=over,
        until="60s",
        events=20_000,
    )
    return replace(calm, loss="0.3", duplicate="0.3")


def test_there_are_such_algorithms() -> None:
    assert len(NAMES) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_claims_survive_loss_and_copies(name: str) -> None:
    entry = entries()[name]
    over = "perfect-fifo" if entry.assumes.fifo else "perfect"
    for seed in range(SEEDS):
        run = setup(name, seed, over)
        report = execute(run, keep=False)
        claimed = [
            finding
            for finding in report.counted
            if finding.name.partition("-")[0] in entry.box.ensures
        ]
        assert claimed
        for finding in claimed:
            assert finding.verdict.value != "violated", (
                f"{run.command()}: {finding.name}: {finding.why}"
            )
            if "ME2" in entry.box.ensures:
                assert finding.verdict.value == "holds", (
                    f"{run.command()}: {finding.name}: {finding.why}"
                )


def test_without_such_links_they_do_not() -> None:
    """The same network without the links breaks most of them, so the test above is not passed on
    nothing.
    """
    broken = [
        name
        for name in NAMES
        if any(execute(setup(name, seed, ""), keep=False).violated for seed in range(2))
    ]
    assert len(broken) > len(NAMES) // 2
