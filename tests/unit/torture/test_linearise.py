"""The search for an order: what it must find, what it must not, and what it compares itself
with.
"""

from __future__ import annotations

from itertools import permutations
from math import inf
from random import Random

import pytest

from habemus.core.properties import Verdict
from habemus.torture.linearise import (
    Counter,
    LockEntry,
    LockModel,
    Operation,
    SequentialModel,
    linearise,
)


def updates(*given: tuple[int, int | None, int]) -> list[Operation]:
    return [Operation(*each) for each in given]


def verdict(operations: list[Operation], model: SequentialModel) -> Verdict:
    return linearise(operations, model).verdict


def test_concurrent_operations_may_come_in_any_order() -> None:
    assert verdict(updates((0, 10, 1), (0, 10, 0)), Counter()) is Verdict.HOLDS
    assert verdict(updates((0, 4, 1), (5, 10, 0)), Counter()) is Verdict.VIOLATED


def test_two_that_read_the_same_value_are_no_counter() -> None:
    found = linearise(updates((0, 10, 0), (0, 10, 0)), Counter())
    assert found.verdict is Verdict.VIOLATED


def test_one_whose_outcome_is_unknown_explains_a_value_or_is_left_out() -> None:
    after = [(20, 30, 1), (31, 40, 2)]
    assert verdict(updates((0, None, 0), *after), Counter()) is Verdict.HOLDS  # it took effect
    assert verdict(updates((0, None, 0), (20, 30, 0)), Counter()) is Verdict.HOLDS  # it did not
    assert verdict(updates(*after), Counter()) is Verdict.VIOLATED  # somebody must have written
    assert verdict(updates((35, None, 0), *after), Counter()) is Verdict.VIOLATED  # but not so late
    assert (
        verdict(updates((0, None, 0), (20, 30, 0), (31, 40, 2)), Counter()) is Verdict.VIOLATED
    )  # and not both


def test_an_unknown_one_may_take_effect_late() -> None:
    assert verdict(updates((0, 5, 0), (6, None, 1), (7, 10, 1)), Counter()) is Verdict.HOLDS
    assert verdict(updates((0, 5, 0), (1, None, 1), (7, 10, 2)), Counter()) is Verdict.HOLDS


def test_the_lock_without_leases() -> None:
    def entries(*given: tuple[int, int, int]) -> list[Operation]:
        return [
            Operation(asked, answered, LockEntry(None, left)) for asked, answered, left in given
        ]

    strict = LockModel(is_leased=False)
    assert verdict(entries((0, 1, 5), (0, 6, 9)), strict) is Verdict.HOLDS
    assert verdict(entries((0, 1, 5), (0, 4, 9)), strict) is Verdict.VIOLATED
    assert verdict(entries((0, 1, 5), (0, 4, 9)), LockModel(is_leased=True)) is Verdict.HOLDS


def test_tokens_grow_in_some_order() -> None:
    leased = LockModel(is_leased=True)
    assert (
        verdict([Operation(0, 10, LockEntry(2, 20)), Operation(0, 10, LockEntry(1, 20))], leased)
        is Verdict.HOLDS
    )
    assert (
        verdict([Operation(0, 4, LockEntry(2, 20)), Operation(5, 10, LockEntry(1, 20))], leased)
        is Verdict.VIOLATED
    )


def test_a_search_that_is_cut_off_has_shown_nothing() -> None:
    many = updates(*((0, 100, value) for value in reversed(range(12))))
    assert linearise(many, Counter(), limit=5).verdict is Verdict.UNDECIDED
    assert linearise(many, Counter()).verdict is Verdict.HOLDS


def test_ten_thousand_operations_are_no_matter() -> None:
    long = updates(*((10 * value, 10 * value + 15, value) for value in range(10_000)))
    assert verdict(long, Counter()) is Verdict.HOLDS
    assert verdict([*long[:-1], Operation(99_990, 100_005, 3)], Counter()) is Verdict.VIOLATED


def by_trying(operations: list[Operation], model: Counter | LockModel) -> bool:
    """All orders of all choices of unknown operations, one by one."""
    known = [each for each in operations if each.returned is not None]
    unknown = [each for each in operations if each.returned is None]
    for mask in range(1 << len(unknown)):
        chosen = known + [each for index, each in enumerate(unknown) if mask >> index & 1]
        if any(_fits(order, model) for order in permutations(chosen)):
            return True
    return False


def _fits(order: tuple[Operation, ...], model: Counter | LockModel) -> bool:
    state = model.initial
    for place, each in enumerate(order):
        latest = min(
            (other.returned for other in order[place:] if other.returned is not None), default=inf
        )
        if each.invoked > latest:
            return False
        found = model.apply(state, each.action, latest)  # type: ignore[arg-type]  # a model has its own state
        if found is None:
            return False
        state = found
    return True


@pytest.mark.parametrize("kind", ["counter", "strict", "leased"])
def test_it_agrees_with_trying_everything(kind: str) -> None:
    draw = Random(kind)
    seen = set()
    for _ in range(400):
        operations: list[Operation] = []
        for index in range(draw.randint(1, 5)):
            invoked = draw.randrange(12)
            returned = invoked + draw.randrange(8)
            if kind == "counter":
                operations.append(
                    Operation(invoked, returned if draw.random() < 0.7 else None, draw.randrange(3))
                )
            else:
                token = draw.randrange(5) if kind == "leased" else None
                operations.append(
                    Operation(
                        invoked,
                        returned,
                        LockEntry(token, returned + draw.randrange(5)),
                        str(index),
                    )
                )
        model: Counter | LockModel = (
            Counter() if kind == "counter" else LockModel(is_leased=kind == "leased")
        )
        expected = by_trying(operations, model)
        assert verdict(operations, model) is (Verdict.HOLDS if expected else Verdict.VIOLATED), (
            operations
        )
        seen.add(expected)
    assert seen == {True, False}
