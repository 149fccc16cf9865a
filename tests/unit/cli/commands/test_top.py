"""`habemus top`: which locks come first, and what is said of them."""

from __future__ import annotations

import pytest
from tests.unit.operations.test_cluster_view import lock, status, told

from habemus.cli.commands.top import ORDERS, heading, plain, row_of, say
from habemus.operations.cluster_view import ClusterView, cluster_view


def view() -> ClusterView:
    quiet = {**lock("a/1", 3 << 32 | 7, name="quiet"), "held_ms": 7_200_000}
    wanted = {
        **lock("b/2", 3 << 32 | 8, ("c/3", "d/4"), name="wanted"),
        "held_ms": 10,
        "waited_ms": [500, 90_000],
    }
    old = lock(waiting=("e/5",), name="old")  # of a node that does not report times
    return cluster_view(told(n1=status(1, locks=[quiet, wanted]), n2=status(2, locks=[old])))


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("waiting", ["wanted", "old", "quiet"]),
        ("wait", ["wanted", "old", "quiet"]),
        ("held", ["quiet", "wanted", "old"]),
        ("name", ["old", "quiet", "wanted"]),
    ],
)
def test_orders(order: str, names: list[str]) -> None:
    assert [each.name for each in sorted(view().locks, key=ORDERS[order])] == names


def test_rows_and_document(capsys: pytest.CaptureFixture[str]) -> None:
    seen = view()
    first = sorted(seen.locks, key=ORDERS["waiting"])[:1]
    assert row_of(first[0]) == ["wanted", "b/2", "1", "3.8", "0.0 s", "2", "2 min", "c/3"]
    found = plain(seen, first)
    assert (found["held"], found["waiting"], found["locks"][0]["longest_wait_ms"]) == (2, 3, 90_000)
    assert "2 locks held, 3 requests waiting" in heading(seen)
    say(seen, first)
    assert capsys.readouterr().out.endswith("and 2 more\n")
