"""Comparisons: the load, measurements beside their formulas, the crossings, and the pictures."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from habemus.analysis.numbers.compare import (
    Comparison,
    ComparisonRow,
    Crossing,
    crossings,
    formula_of,
    jain,
    safe_mutexes,
    think,
)
from habemus.analysis.numbers.ranges import BadRange, SizeRange, loads
from habemus.analysis.pictures.plots import check_plot, save_plot
from habemus.catalog.entries import entries, find
from habemus.runs.setup import BadSetup

FIVE = SizeRange(5, 5)


def test_load_sets_the_think_time() -> None:
    """Mean think time = hold * N / load: at load 1 the demand is what one section can serve."""
    assert think(1_000, 5, Decimal(1)) == "0..10000"
    assert think(1_000, 5, Decimal("0.1")) == "0..100000"
    assert think(2_000, 10, Decimal(10)) == "0..4000"
    assert think(1_000, 1, Decimal(1000)) == "0..2"
    assert think(1_000, 8, Decimal("0.1")) == "0..160000", "no exponent, which is no time"


def test_measurements_equal_the_formulas_where_nobody_meets() -> None:
    comparison = Comparison(
        ("central", "ricart-agrawala", "lamport"), FIVE, loads("0.001"), requests=4
    )
    for row, messages in zip(comparison.measure(1), (3, 8, 12), strict=True):
        assert row.measured["messages_per_entry"] == row.formula["messages"] == messages
        assert row.measured["client_delay"] == row.formula["client_delay"] == 2
        assert row.measured["wait"] == 2
        assert row.entries == 20
        assert row.violated == ()


def test_load_makes_them_wait() -> None:
    rows = Comparison(("central",), FIVE, loads("0.01..10"), points=3).measure(1)
    waits, throughputs = (
        [row.measured[name] or 0 for row in rows] for name in ("wait", "throughput")
    )
    assert waits == sorted(waits) and waits[-1] > 4 * waits[0]
    assert throughputs == sorted(throughputs)
    # One inside for one message time, two message times to hand over: a third of an entry in each,
    # and a little less.
    assert 0.3 < throughputs[-1] < 0.34
    assert rows[-1].measured["sync_delay"] == 2


def test_overtaking_and_fairness() -> None:
    ring, queue = Comparison(("token-ring", "central"), FIVE, loads("10")).measure(1)
    assert ring.measured["largest_overtaking"] == queue.measured["largest_overtaking"] == 4
    assert (ring.measured["fairness"] or 0) > 0.99
    assert jain([4, 4, 4]) == 1
    assert jain([6, 0, 0]) == pytest.approx(1 / 3)
    assert jain([0, 0]) is None


def test_fairness_is_taken_while_all_still_ask() -> None:
    """In the end all have entered equally often, whoever had to wait: an index of all entries would
    always be 1.
    """
    [row] = Comparison(("ra-priority",), SizeRange(3, 3), loads("100")).measure(1)
    assert row.entries == 60
    assert 0.9 < (row.measured["fairness"] or 0) < 1


def test_the_same_seed_gives_the_same_rows_whoever_works() -> None:
    comparison = Comparison(
        ("raymond", "suzuki-kasami"), SizeRange(3, 5), loads("1"), requests=3, seed=4
    )
    rows = comparison.measure(1)
    assert rows == comparison.measure(2)
    assert [(row.n, row.algorithm) for row in rows] == [
        (n, name) for n in (3, 4, 5) for name in ("raymond", "suzuki-kasami")
    ]
    assert rows != replace(comparison, seed=5).measure(1)


def test_elections() -> None:
    rows = Comparison(("bully", "chang-roberts"), SizeRange(3, 8), points=2).measure(1)
    assert [
        (row.measured["messages"], row.formula["messages"])
        for row in rows
        if row.algorithm == "bully"
    ] == [(9, 9), (69, 69)]
    assert all(row.measured["turnaround"] == row.formula["turnaround"] for row in rows)
    assert all(row.load is None for row in rows)


def test_voting_crosses_asking_everybody() -> None:
    """Grids need 3(K-1) messages with K = 2 sqrt(N) - 1: fewer than 2(N-1) beyond N = 4."""
    comparison = Comparison(
        ("maekawa-sanders", "ricart-agrawala"), SizeRange(2, 9), loads("0.001"), requests=2
    )
    assert crossings(comparison, comparison.measure(1)) == [
        Crossing("maekawa-sanders", "ricart-agrawala", 5, 5)
    ]
    assert formula_of(find("maekawa-sanders"), 4) == formula_of(find("ricart-agrawala"), 4) == 6
    assert formula_of(find("maekawa-sanders"), 7) == 6  # a plane: K = 3
    assert crossings(replace(comparison, sizes=FIVE), []) == []


def test_no_crossing_in_sight() -> None:
    comparison = Comparison(
        ("maekawa-sanders", "ricart-agrawala"), SizeRange(2, 3), loads("0.001"), requests=1
    )
    assert crossings(comparison, comparison.measure(1)) == [
        Crossing("maekawa-sanders", "ricart-agrawala", None, None)
    ]


def test_whoever_deadlocks_is_said_to() -> None:
    [row] = Comparison(("maekawa",), FIVE, loads("100")).measure(1)
    assert row.violated == ("ME2-deadlock",)
    assert row.broken_claims == ()


def test_default_is_all_that_is_safe() -> None:
    assert "ricart-agrawala" in safe_mutexes()
    assert not any(entries()[name].unsafe for name in safe_mutexes())


@pytest.mark.parametrize(
    ("comparison", "said"),
    [
        (Comparison(("heartbeat",), FIVE), "detectors cannot be compared yet"),
        (Comparison(("central", "heartbeat"), FIVE), "detectors cannot be compared yet"),
        (Comparison(("central", "bully"), FIVE), "one problem"),
        (Comparison(("bully",), FIVE, loads("1")), "no load"),
        (Comparison(("central",), FIVE, requests=0), "at least once"),
        (Comparison(("central",), FIVE, hold="0"), "at least 1us"),
        (Comparison(("central",), FIVE, hold="1ms..2ms"), "one time"),
        (Comparison(("central",), SizeRange(2, 5_000)), "1 to 3000"),
    ],
)
def test_what_cannot_be_compared(comparison: Comparison, said: str) -> None:
    with pytest.raises(BadSetup, match=said):
        comparison.check()


def test_only_one_thing_varies() -> None:
    with pytest.raises(BadRange, match="not to both"):
        Comparison(("central",), SizeRange(2, 5), loads("1..2")).check()


def test_plots(tmp_path: Path) -> None:
    comparison = Comparison(("central", "maekawa"), FIVE, loads("0.1..10"), points=3, requests=5)
    rows = comparison.measure(1)
    for name in ("one.svg", "two.svg", "one.png"):
        check_plot(comparison, tmp_path / name)
        save_plot(comparison, rows, tmp_path / name)
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "two.svg").read_text()
    assert "maekawa" in text and "sync delay" in text and "5 participants" in text
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_plots_of_elections(tmp_path: Path) -> None:
    comparison = Comparison(("bully",), SizeRange(3, 4))
    save_plot(comparison, comparison.measure(1), tmp_path / "bully.svg")
    assert "turnaround" in (tmp_path / "bully.svg").read_text()


def test_plots_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    varying = Comparison(("central",), SizeRange(2, 5))
    with pytest.raises(ValueError, match=r"must end in \.png or \.svg"):
        check_plot(varying, Path("x.bmp"))
    with pytest.raises(ValueError, match="something that varies"):
        check_plot(replace(varying, sizes=FIVE), Path("x.svg"))
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[plot\]'"):
        check_plot(varying, Path("x.svg"))


def test_rows_as_json() -> None:
    comparison = Comparison(("central",), FIVE, requests=2)
    [row] = comparison.measure(1)
    assert isinstance(row, ComparisonRow)
    plain = row.plain(comparison.quantities)
    assert plain["messages_per_entry_by_formula"] == 3
    assert plain["load"] == 0.5
    assert plain["command"].startswith("habemus run central -n 5 --requests 2 --think 0..20000")


def test_a_row_of_several_runs_is_their_mean_and_keeps_the_range() -> None:
    one = Comparison(("central",), FIVE, loads("1"), requests=5)
    singles = [
        row.measured["wait"] or 0
        for seed in (0, 1, 2)
        for row in replace(one, seed=seed).measure(1)
    ]
    [mean] = replace(one, repeats=3).measure(1)
    assert len(set(singles)) == 3
    assert mean.measured["wait"] == pytest.approx(sum(singles) / 3, abs=1e-5)
    assert mean.ranges["wait"] == (min(singles), max(singles))
    assert mean.plain(one.quantities)["ranges"]["wait"] == [min(singles), max(singles)]


def test_a_processing_time_loads_the_coordinator_and_not_the_ring() -> None:
    rows = Comparison(
        ("central", "token-ring"), SizeRange(3, 9), loads("5"), 2, 5, processing="400us"
    ).measure(1)
    load = {(row.algorithm, row.n): row.measured["busiest_load"] or 0 for row in rows}
    assert load["central", 3] == pytest.approx(load["central", 9], rel=0.1)
    assert load["token-ring", 9] < load["token-ring", 3] / 2 < load["central", 3]
    with pytest.raises(BadSetup, match="processing time is for mutual exclusion"):
        Comparison(("bully",), FIVE, processing="1ms").check()
