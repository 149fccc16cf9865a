"""Ranges as they are written, and the points that are taken of them."""

from decimal import Decimal

import pytest

from habemus.analysis.numbers.ranges import BadRange, Loads, SizeRange, loads, sizes


def test_sizes() -> None:
    assert sizes("5") == SizeRange(5, 5)
    assert sizes("2..20") == SizeRange(2, 20)


def test_loads() -> None:
    assert loads("0.5") == Loads(Decimal("0.5"), Decimal("0.5"))
    assert loads("0.1..10") == Loads(Decimal("0.1"), Decimal(10))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "write for example 5 or 2..20"),
        ("many", "write for example 5 or 2..20"),
        ("2..", "write for example 5 or 2..20"),
        ("2...5", "write for example 5 or 2..20"),
        ("1.5", "write for example 5 or 2..20"),
        ("-1", "write for example 5 or 2..20"),
        ("9..2", "write 2..9"),
        ("0..3", "1 to 1000000 participants"),
        ("2..2000000", "1 to 1000000 participants"),
    ],
)
def test_bad_sizes(text: str, said: str) -> None:
    with pytest.raises(BadRange, match=said.replace(".", r"\.")):
        sizes(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fast", "0.5 or 0.1..10"),
        ("0", "a load is 0.001 to 1000"),
        ("1..0.5", "write 0.5..1"),
        ("1..5000", "a load is 0.001 to 1000"),
    ],
)
def test_bad_loads(text: str, said: str) -> None:
    with pytest.raises(BadRange, match=said.replace(".", r"\.")):
        loads(text)


def test_few_sizes_are_all_taken_and_many_are_spread_evenly() -> None:
    assert SizeRange(2, 5).spread(8) == [2, 3, 4, 5]
    assert SizeRange(1, 9).spread(5) == [1, 3, 5, 7, 9]
    spread = SizeRange(2, 50).spread(8)
    assert (spread[0], spread[-1], len(set(spread))) == (2, 50, 8)


def test_loads_are_spread_by_ratio() -> None:
    assert Loads(Decimal("0.1"), Decimal(10)).spread(3) == [Decimal("0.1"), Decimal(1), Decimal(10)]
    assert Loads(Decimal(2), Decimal(2)).spread(8) == [Decimal(2)]
