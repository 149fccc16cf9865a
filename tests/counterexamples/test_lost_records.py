"""Records of loans that a crash of the machine has lost: harmless after the leases of these loans,
and not before.

The holder is cut off, and all other machines crash.  Their next coordinator has a majority, and
nobody in it knows of the holder.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

import habemus.analysis.sweeps.sweep
from habemus.algorithms.mutex.elected_coordinator import ElectedCoordinatorLeased
from habemus.algorithms.mutex.elected_coordinator_members import ElectedCoordinatorLeasedMembers
from habemus.algorithms.mutex.elected_coordinator_participant import Loan
from habemus.analysis.numbers.ranges import SizeRange
from habemus.analysis.sweeps.seeded_setups import SeededSetups
from habemus.analysis.sweeps.sweep import SeedBatch, Tally, tally_of
from habemus.catalog.entries import Entry, entry_of, find
from habemus.runs.setup import Setup

LEASE_US = 1_000_000
FIRST = {3: 0, 5: 9}
"""By the number of processes, the first seed that sees a machine that is back too early."""
SEEDS = 3


class LosesRecords(ElectedCoordinatorLeased):
    name = ElectedCoordinatorLeased.name

    loan: Loan | None = None


class LosesRecordsOfMembers(ElectedCoordinatorLeasedMembers):
    name = ElectedCoordinatorLeasedMembers.name

    loan: Loan | None = None


@dataclass(frozen=True)
class MachinesCrash(SeededSetups):
    """All machines but one crash while that one is cut off, and come back after a time."""

    down_us: int = 0

    def setup(self, entry: Entry, seed: int) -> Setup:
        rng, size = random.Random(seed), self.sizes.low
        alone = rng.randint(1, size)
        others = [each for each in range(1, size + 1) if each != alone]
        cut = rng.randrange(20_000, 2_000_000)
        crash = cut + rng.randrange(100_000)
        faults = [("cut", f"{alone}|{','.join(map(str, others))}@{cut}")]
        for each in others:
            back = crash + self.down_us + rng.randrange(1, 5_000)
            faults += [("crash", f"{each}@{crash}"), ("recover", f"{each}@{back}")]
        return Setup(
            entry.name,
            size,
            seed=seed,
            requests=6,
            think="0..20ms",
            hold=rng.choice(("50ms", "300ms", "900ms")),
            delay=rng.choice(("1ms", "1..5ms")),
            options=(f"lease={LEASE_US}us",),
            faults=(*faults, ("heal", f"all@{crash + self.down_us + 3_000_000}")),
        )


def swept(
    mutant: type[ElectedCoordinatorLeased] | type[ElectedCoordinatorLeasedMembers],
    size: int,
    down_us: int,
    seeds: int,
    monkeypatch: pytest.MonkeyPatch,
) -> Tally:
    entry = replace(entry_of(mutant), box=find(mutant.name).box)
    monkeypatch.setattr(habemus.analysis.sweeps.sweep, "find", lambda _: entry)
    draw = MachinesCrash(SizeRange(size, size), crashes=True, down_us=down_us)
    return tally_of(SeedBatch(entry.name, draw, FIRST[size], seeds))


@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("mutant", [LosesRecords, LosesRecordsOfMembers])
def test_a_machine_that_is_back_too_early_is_seen_and_one_that_has_waited_is_safe(
    mutant: type[ElectedCoordinatorLeased] | type[ElectedCoordinatorLeasedMembers],
    size: int,
    times: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds = SEEDS * times
    early = swept(mutant, size, 0, seeds, monkeypatch)
    assert early.violated > 0
    assert {each for failure in early.failures for each in failure.properties} == {"ME1"}
    down = mutant.system(size, lease=LEASE_US).plans[1].unsynced()
    assert (down.variables, down.down) == (("loan",), LEASE_US * 11 // 10)
    late = swept(mutant, size, down.down, seeds, monkeypatch)
    assert (late.runs, late.violated, late.undecided) == (seeds, 0, 0)
    assert late.held["ME1"] == late.held["FENCE"] == seeds
