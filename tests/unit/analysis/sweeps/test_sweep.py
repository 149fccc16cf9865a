"""Sweeps: the tallies, that they find planted bugs, and that workers do not change them."""

from collections.abc import Callable

import pytest

import habemus.analysis.sweeps.seeded_setups
import habemus.analysis.sweeps.sweep
from habemus.algorithms.mutex.central import Central, Grant, Request
from habemus.analysis.numbers.ranges import SizeRange
from habemus.analysis.sweeps.seeded_setups import SeededSetups
from habemus.analysis.sweeps.sweep import AT_ONCE, BROKEN, SeedBatch, Sweep, Tally, tally_of
from habemus.catalog.entries import Entry, entry_of, find
from habemus.core import ProcessId, upon
from habemus.core.properties import Verdict

DRAW = SeededSetups(SizeRange(2, 4))


class Careless(Central):
    """A coordinator that lets in whoever asks.

    Source   a planted bug.
    Assumes  reliable links; no process crashes.
    Ensures  ME1, ME2.
    """

    @upon(Request)
    def enqueue(self, sender: ProcessId, _: Request) -> None:
        self.send(Grant(), to=sender)


class Modest(Careless):
    """The same, which claims less.

    Source   a planted bug.
    Assumes  reliable links; no process crashes.
    Ensures  ME2; not ME1.
    """


class Clumsy(Central):
    """A coordinator that stumbles over the second one who waits.

    Source   a planted bug.
    Assumes  reliable links; no process crashes.
    Ensures  ME1, ME2.
    """

    @upon(Request)
    def enqueue(self, sender: ProcessId, _: Request) -> None:
        self.waiting.append(sender)
        if len(self.waiting) > 1:
            self.waiting[9] = sender


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Central]], str]:
    def plant(algorithm: type[Central]) -> str:
        entry = entry_of(algorithm)
        known: Callable[[str], Entry] = lambda name: entry if name == entry.name else find(name)  # noqa: E731
        monkeypatch.setattr(habemus.analysis.sweeps.sweep, "find", known)
        return entry.name

    return plant


def test_right_algorithms_hold() -> None:
    sweep = Sweep(("central", "ricart-agrawala"), DRAW, 24)
    sweep.run(1)
    assert sweep.verdict is Verdict.HOLDS
    assert sweep.made == sweep.planned == 48
    for tally in sweep.tallies.values():
        assert (tally.violated, tally.undecided, tally.failures) == (0, 0, [])
        assert tally.entries == sum(
            DRAW.setup(find(tally.algorithm), seed).n * 3 for seed in range(24)
        )
        assert tally.held["ME1"] == 24


def test_a_planted_bug_is_found_with_its_command(planted: Callable[[type[Central]], str]) -> None:
    name = planted(Careless)
    sweep = Sweep((name,), DRAW, 24)
    sweep.run(1)
    tally = sweep.tallies[name]
    assert sweep.verdict is Verdict.VIOLATED
    assert tally.violated >= 12, "every burst lets two in"
    first = tally.failures[0]
    assert first.properties == ("ME1",)
    assert first.seed == min(failure.seed for failure in tally.failures)
    assert first.command == DRAW.setup(entry_of(Careless), first.seed).command()
    assert "was inside since" in first.why
    assert tally.plain()["first_failing_command"] == first.command


def test_what_is_not_claimed_is_counted_and_does_not_fail(
    planted: Callable[[type[Central]], str],
) -> None:
    name = planted(Modest)
    sweep = Sweep((name,), DRAW, 24)
    sweep.run(1)
    assert sweep.verdict is Verdict.HOLDS
    assert sweep.tallies[name].unclaimed["ME1"] >= 12


def test_a_handler_that_raises_is_a_failure(planted: Callable[[type[Central]], str]) -> None:
    name = planted(Clumsy)
    sweep = Sweep((name,), DRAW, 8)
    sweep.run(1)
    assert sweep.verdict is Verdict.VIOLATED
    assert sweep.tallies[name].failures[0].properties == (BROKEN,)
    assert "IndexError" in sweep.tallies[name].failures[0].why


def test_a_run_that_is_cut_off_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(habemus.analysis.sweeps.seeded_setups, "EVENTS", 20)
    sweep = Sweep(("central",), DRAW, 8)
    sweep.run(1)
    tally = sweep.tallies["central"]
    assert sweep.verdict is Verdict.UNDECIDED
    assert tally.violated == 0
    assert tally.undecided == len(tally.open) > 0
    assert "ME2-deadlock" in tally.open[0].properties


def test_a_claim_that_no_run_showed_is_undecided() -> None:
    sweep = Sweep(("heartbeat",), SeededSetups(SizeRange(2, 2)), 1)
    sweep.run(1)
    assert sweep.tallies["heartbeat"].never_held == ["completeness"]  # nobody crashed
    assert sweep.verdict is Verdict.UNDECIDED


def test_tallies_add_up_in_any_order() -> None:
    batches = [SeedBatch("maekawa", DRAW, first, 6) for first in (0, 6, 12)]
    forward, backward = Tally("maekawa"), Tally("maekawa")
    for batch in batches:
        forward.add(tally_of(batch))
    for batch in reversed(batches):
        backward.add(tally_of(batch))
    assert forward == backward == tally_of(SeedBatch("maekawa", DRAW, 0, 18))
    assert forward.unclaimed["ME2-deadlock"] > 0


def test_workers_do_not_change_the_results() -> None:
    alone = Sweep(
        ("central", "quorum-durable"),
        SeededSetups(SizeRange(2, 4), crashes=True),
        AT_ONCE + 5,
        first=100,
    )
    together = Sweep(
        ("central", "quorum-durable"),
        SeededSetups(SizeRange(2, 4), crashes=True),
        AT_ONCE + 5,
        first=100,
    )
    alone.run(1)
    together.run(2)
    assert alone.plain() == together.plain()
    assert alone.made == 2 * (AT_ONCE + 5)


def test_an_interrupt_leaves_what_was_covered() -> None:
    def interrupt(_done: int, _beside: str) -> None:
        raise KeyboardInterrupt

    sweep = Sweep(("central", "lamport"), DRAW, 3 * AT_ONCE)
    sweep.run(1, interrupt)
    assert sweep.broken_off == "interrupted"
    assert sweep.made == AT_ONCE < sweep.planned
    assert sweep.verdict is Verdict.UNDECIDED
    assert sweep.plain()["complete"] is False


def test_all_algorithms_advance_together() -> None:
    batches = Sweep(("central", "lamport"), DRAW, AT_ONCE + 1, first=7).batches()
    assert [(batch.algorithm, batch.first, batch.size) for batch in batches] == [
        ("central", 7, AT_ONCE),
        ("lamport", 7, AT_ONCE),
        ("central", 7 + AT_ONCE, 1),
        ("lamport", 7 + AT_ONCE, 1),
    ]
