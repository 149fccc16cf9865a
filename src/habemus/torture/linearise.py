"""Linearisability: search for a sequential order of concurrent operations.

The search of Wing and Gong (Testing and verifying concurrent objects, JPDC 17, 1993) with the
memory that Lowe added to it: an operation may come next if it was invoked before every other that
is left had returned, and if the model allows it; what was tried before in the same state, with the
same operations left, is not tried again.

An operation whose outcome is unknown, because its client died, may have taken effect at any moment
since, or never.  Those with the same effect are interchangeable, so the one that was invoked first
is tried for all of them.

The number of steps is limited; a search that reaches the limit is undecided.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple, Protocol

from habemus.core.properties import Verdict

STEPS_EACH = 20
"""Limit of search steps for each operation."""


class Operation(NamedTuple):
    invoked: int
    returned: int | None  # None: unknown whether it took effect
    action: Any
    title: str = ""


class SequentialModel(Protocol):
    """Sequential specification of an object."""

    @property
    def initial(self) -> Hashable: ...

    def apply(self, state: Any, action: Any, latest: float) -> Hashable | None:
        """Return the next state, or None if the action cannot come next.

        The action took effect at `latest` or before.
        """
        ...


class OrderOutcome(NamedTuple):
    verdict: Verdict
    why: str


class _Point(NamedTuple):
    """A partial order: the operations placed so far."""

    first: int  # everything before it has been placed
    beyond: frozenset[int]  # and these
    taken: tuple[tuple[Hashable, int], ...]  # of the unknown operations, how many of each action
    state: Hashable


def linearise(
    operations: Sequence[Operation], model: SequentialModel, limit: int | None = None
) -> OrderOutcome:
    return _Search(operations, model).outcome(limit or 1_000 + STEPS_EACH * len(operations))


class _Search:
    def __init__(self, operations: Sequence[Operation], model: SequentialModel) -> None:
        self._model = model
        self._known = sorted(
            (each for each in operations if each.returned is not None),
            key=lambda each: each.invoked,
        )
        self._unknown: dict[Hashable, list[int]] = {}  # when those of an action were invoked
        for each in sorted(
            (each for each in operations if each.returned is None), key=lambda each: each.invoked
        ):
            self._unknown.setdefault(each.action, []).append(each.invoked)

    def outcome(self, limit: int) -> OrderOutcome:
        start = _Point(0, frozenset(), (), self._model.initial)
        seen = {start}
        deepest = start
        stack = [self._next(start)]
        while stack:
            point = next(stack[-1], None)
            if point is None:
                stack.pop()
                continue
            if point in seen:
                continue
            if point.first == len(self._known):
                return OrderOutcome(Verdict.HOLDS, f"{len(self._known)} operations have an order")
            if len(seen) >= limit:
                return OrderOutcome(
                    Verdict.UNDECIDED,
                    f"no order of {len(self._known)} operations was found in {limit} steps",
                )
            seen.add(point)
            if (point.first, len(point.beyond)) > (deepest.first, len(deepest.beyond)):
                deepest = point
            stack.append(self._next(point))
        if not self._known:
            return OrderOutcome(Verdict.HOLDS, "no operation to order")
        return OrderOutcome(
            Verdict.VIOLATED,
            "no order explains"
            f" {self._known[deepest.first].title or self._known[deepest.first].action}",
        )

    def _next(self, point: _Point) -> Iterator[_Point]:
        """Yield the points after one more operation; known operations first, because unknown ones
        are rarely needed.
        """
        open_ones, latest = self._open(point)
        for index in open_ones:
            state = self._model.apply(point.state, self._known[index].action, latest)
            if state is not None:
                yield self._placed(point, index, state)
        taken = dict(point.taken)
        for action, invoked in self._unknown.items():
            so_many = taken.get(action, 0)
            if so_many < bisect_right(invoked, latest):
                state = self._model.apply(point.state, action, latest)
                if state is not None:
                    counted = tuple(sorted({**taken, action: so_many + 1}.items(), key=repr))
                    yield _Point(point.first, point.beyond, counted, state)

    def _open(self, point: _Point) -> tuple[list[int], float]:
        """Return the known operations that may come next, sorted by return time, and the latest
        time at which they took effect.
        """
        latest: float = inf
        found: list[tuple[int, int]] = []
        index = point.first
        while index < len(self._known) and self._known[index].invoked <= latest:
            if index not in point.beyond:
                returned = self._known[index].returned
                assert returned is not None
                latest = min(latest, returned)
                found.append((returned, index))
            index += 1
        return [index for _, index in sorted(found) if self._known[index].invoked <= latest], latest

    def _placed(self, point: _Point, index: int, state: Hashable) -> _Point:
        if index != point.first:
            return _Point(point.first, point.beyond | {index}, point.taken, state)
        first, beyond = index + 1, set(point.beyond)
        while first in beyond:
            beyond.remove(first)
            first += 1
        return _Point(first, frozenset(beyond), point.taken, state)


# Models.


class LockEntry(NamedTuple):
    """A grant."""

    token: int | None
    left: int  # when the holder left, at the earliest


class LockModel:
    """A lock: each grant comes after the release of the one before, unless leases expire, and has a
    larger token.

    A client that died while it waited may have been granted the lock for a moment.  Such a grant
    only excludes others, so an order with it implies an order without it.
    """

    def __init__(self, *, is_leased: bool) -> None:
        self._is_leased = is_leased
        self.initial: LockEntry = LockEntry(None, 0)

    def apply(self, state: LockEntry, action: LockEntry, latest: float) -> LockEntry | None:
        if not self._is_leased and state.left > latest:
            return None
        if action.token is not None and state.token is not None and action.token <= state.token:
            return None
        return action


class Counter:
    """A number that is read and written back, one larger, as one operation.  The action is the
    number that was read.
    """

    initial = 0

    def apply(self, state: int, action: int, latest: float) -> int | None:
        return state + 1 if action == state else None
