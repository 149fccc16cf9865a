"""The same search with numpy: a whole level of states at a time, over the same tables.

The states are the same integers, in arrays.  A level is expanded process by process: the numbers of
its components are looked up in tables of moves, every move adds its differences, and new states are
found by sorting and comparing neighbours.  A missing entry of a table is computed by the process
models, once, as in the search without numpy.

No predecessors are kept.  The path to a state is found backwards: a level is expanded again to see
which of its states leads there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from habemus.argument_names import argument
from habemus.core.model import ClientModel, Observer
from habemus.core.process import ProcessId
from habemus.core.system import System
from habemus.runtimes.checker.process_model import Bound, Move, ProcessModel
from habemus.runtimes.checker.search import (
    FOUND,
    INTERRUPTED,
    Extent,
    FoundViolation,
    Search,
    TooNarrow,
    Violation,
    without_collecting,
)

Numbers = NDArray[np.int64]

UNKNOWN = np.iinfo(np.int64).min
"""Entry of a table that is not computed yet."""

NOT_AFFORDED = UNKNOWN + 1
"""Entry of the table of prices where the budget is exhausted."""

AT_ONCE = 1 << 16
"""States that are expanded together: enough to be fast, few enough to stay in the caches."""


class TooWide(ValueError):
    """The states do not fit into machine words."""


class _Columns(NamedTuple):
    """The moves of one process, one after the other for each of its components."""

    first: Numbers  # by component
    many: Numbers  # by component; -1: not computed yet
    active: NDArray[np.bool_]  # by component
    delta: Numbers  # by move, like all that follow
    cost: Numbers  # the budget it takes from; -1: none
    places: list[Numbers]  # the first, second, ... other field that it changes; -1: no such
    tables: list[Numbers]  # and by which row of the differences of that field


class VectorisedSearch(Search):
    """Breadth-first search with numpy, level by level."""

    description = "breadth first, with numpy"
    bits: ClassVar[int] = 63  # a machine word without its sign

    def __init__(
        self,
        system: System,
        uses: Mapping[ProcessId, ClientModel],
        observer: Observer,
        bound: Bound,
        models: list[ProcessModel] | None = None,
    ) -> None:
        super().__init__(system, uses, observer, bound, models)
        if bound.synchronous:
            raise TooWide(
                "time passes for all processes at once, which the search with numpy does not do"
            )
        self._sorted_levels: list[Numbers] = []
        self._arrange()

    def _arrange(self) -> None:
        """Lay out the tables again: differences depend on the positions of the fields."""
        if sum(self._widths) > self.bits:
            raise TooWide(
                f"a state needs {sum(self._widths)} bits, and numpy has {self.bits}; use"
                f" {argument('search', 'breadth')}"
            )
        self._masks[0] = (1 << (self.bits - self._shifts[0])) - 1
        self._moves = [_MoveTable(self, place) for place in range(self._size)]
        self._differences = [_DifferenceTable(self, place) for place in range(self._size + 1)]
        self._prices = np.full((len(self.bound.costs), 1), UNKNOWN, np.int64)

    # The search.

    @without_collecting()
    def run(
        self,
        limit: int | None = None,
        stop_at_first: bool = True,
        progress: Callable[[Extent], None] | None = None,
    ) -> Extent:
        began = monotonic()
        extent = self.extent
        seen = np.sort(np.array(self.initials, np.int64))
        self._sorted_levels = [seen]
        try:
            while len(frontier := self._sorted_levels[-1]):
                found: list[Numbers] = []
                position = 0
                while position < len(frontier):
                    try:
                        found.append(self._following(frontier[position : position + AT_ONCE], seen))
                    except TooNarrow as narrow:
                        again = self._widened(narrow.place)
                        seen, found = again(seen), [again(each) for each in found]
                        frontier = self._sorted_levels[-1]
                        continue
                    position = min(position + AT_ONCE, len(frontier))
                    extent.states = len(seen)
                    extent.queue = len(frontier) - position + sum(map(len, found))
                    extent.seconds = monotonic() - began
                    if progress is not None:
                        progress(extent)
                following = _distinct(found)
                self._sorted_levels.append(following)
                seen = np.sort(
                    np.concatenate([seen, following]), kind="stable"
                )  # two sorted runs: merged, not sorted
                extent.states = len(seen)
                if stop_at_first and self.is_decided:
                    extent.stopped = FOUND
                    return extent
                if limit is not None and extent.states > limit:
                    extent.stopped = f"the limit of {limit:,} states was reached"
                    return extent
                self._depth += len(following) > 0
                extent.depth = self._depth
            extent.complete = True
            extent.queue = 0
        except KeyboardInterrupt:
            extent.stopped = INTERRUPTED
        finally:
            extent.states = len(seen)
            extent.seconds = monotonic() - began
        return extent

    def _following(self, states: Numbers, seen: Numbers) -> Numbers:
        """Return the new successors of some states, sorted."""
        before = self.extent.transitions
        try:
            found = _distinct([targets for _, targets in self._expanded_level(states, judge=True)])
        except TooNarrow:
            self.extent.transitions = before
            raise
        place = np.searchsorted(seen, found)
        place[place == len(seen)] = 0
        new: Numbers = found[seen[place] != found]
        return new

    def _expanded_level(self, states: Numbers, judge: bool) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield, for each process, the positions of states and the states after its moves."""
        numbers = [
            states >> shift & mask for shift, mask in zip(self._shifts, self._masks, strict=True)
        ]
        active = np.zeros(len(states), np.bool_)
        for place in range(self._size):
            table = self._moves[place].for_all(numbers[place])
            active |= table.active[numbers[place]]
            many, first = table.many[numbers[place]], table.first[numbers[place]]
            for turn in range(
                int(many.max(initial=0))
            ):  # the first move of each, the second of those that have one, ...
                origin = np.flatnonzero(many > turn)
                move = first[origin] + turn
                targets = states[origin] + table.delta[move]
                if self.bound.budgets:
                    origin, move, targets = self._paid(
                        table.cost[move], numbers[self._budget_field], origin, move, targets
                    )
                self._carry(table, states, numbers, origin, move, targets)
                if judge:
                    self.extent.transitions += len(targets)
                yield origin, targets
        if judge and not active.all():
            self._judge_rest(states[~active])

    def _carry(
        self,
        table: _Columns,
        states: Numbers,
        numbers: Sequence[Numbers],
        origin: NDArray[np.int64],
        move: Numbers,
        targets: Numbers,
    ) -> None:
        """Add to the targets the changes that moves make in fields of other processes."""
        left: NDArray[np.int64] | slice = slice(None)  # most moves change none, few more than one
        for places, rows in zip(table.places, table.tables, strict=True):
            changed = places[move[left]]
            some = np.flatnonzero(changed >= 0)
            if not len(some):
                return
            left, changed = (some if isinstance(left, slice) else left[some]), changed[some]
            for other in range(self._size + 1):
                which = left[changed == other]
                if len(which):
                    differences = self._differences[other]
                    row, number = rows[move[which]], numbers[other][origin[which]]
                    targets[which] += differences.looked_up(row, number, states, origin[which])

    def _paid(
        self,
        cost: Numbers,
        budgets: Numbers,
        origin: NDArray[np.int64],
        move: Numbers,
        targets: Numbers,
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Subtract the cost of moves from the budgets, and drop moves that cannot be paid."""
        costly = np.flatnonzero(cost >= 0)
        if not len(costly):
            return origin, move, targets
        if self._prices.shape[1] < len(self.budgets):
            self._prices = _grown(self._prices, len(self.budgets))
        which, left = cost[costly], budgets[origin[costly]]
        for kind, number in {
            *zip(
                which[self._prices[which, left] == UNKNOWN],
                left[self._prices[which, left] == UNKNOWN],
                strict=True,
            )
        }:
            price = self._spendings[self.bound.costs[kind]][int(number)]
            self._prices[kind, number] = NOT_AFFORDED if price is None else price
            if self._prices.shape[1] < len(self.budgets):
                self._prices = _grown(self._prices, len(self.budgets))
        prices = self._prices[which, left]
        targets[costly] += np.where(prices == NOT_AFFORDED, 0, prices)
        kept = np.ones(len(targets), np.bool_)
        kept[costly[prices == NOT_AFFORDED]] = False
        return origin[kept], move[kept], targets[kept]

    def _judge_rest(self, states: Numbers) -> None:
        self.resting += len(states)
        knowledge = states >> self._shifts[self._observer_field] & self._masks[self._observer_field]
        _, first = np.unique(knowledge, return_index=True)
        for position in sorted(first.tolist()):
            state = int(states[position])
            for name in self.at_rest(state):
                if name not in self.wrong:
                    self.wrong[name] = FoundViolation(name, state, "rest", self._depth)

    def _widened(self, place: int) -> Callable[[Numbers], Numbers]:
        groups = self._regrouped(place)
        self._arrange()

        def again(states: Numbers) -> Numbers:
            packed = np.zeros_like(states)
            for bits, distance in groups:
                # The field on top has more room than a machine word.
                moving = states & np.int64(bits & np.iinfo(np.int64).max)
                packed += moving << distance if distance >= 0 else moving >> -distance
            return packed

        self._sorted_levels = [again(level) for level in self._sorted_levels]
        self.move_packed(lambda state: int(again(np.array([state]))[0]))
        return again

    def make_room(self, place: int) -> None:
        self._widened(place)

    # Paths.

    def visited(self) -> list[int]:
        return [state for level in self._sorted_levels for state in level.tolist()]

    def path_to(self, state: int) -> list[int]:
        depth = next(depth for depth, level in enumerate(self._sorted_levels) if _has(level, state))
        path = [state]
        for level in reversed(self._sorted_levels[:depth]):
            path.append(self._parent(level, path[-1]))
        return path[::-1]

    def _parent(self, level: Numbers, state: int) -> int:
        for position in range(0, len(level), AT_ONCE):
            part = level[position : position + AT_ONCE]
            for origin, targets in self._expanded_level(part, judge=False):
                hits = np.flatnonzero(targets == state)
                if len(hits):
                    return int(part[origin[hits[0]]])
        raise LookupError("a state that no state of the level before leads to")


class _MoveTable:
    """The moves of a process as columns, which grow as components are found."""

    def __init__(self, search: VectorisedSearch, place: int) -> None:
        self._of = (search, place)
        self._rows: list[tuple[int, int, list[tuple[int, int]]]] = []
        self._columns = _Columns(
            _blank(1), np.full(1, -1, np.int64), np.zeros(1, np.bool_), _blank(0), _blank(0), [], []
        )

    def for_all(self, components: Numbers) -> _Columns:
        search, place = self._of
        columns = self._columns
        known = len(search.models[place].components)
        if len(columns.many) < known:
            longer = known + known // 2
            active = np.zeros(longer, np.bool_)
            active[: len(columns.active)] = columns.active
            columns = columns._replace(
                first=_longer(columns.first, longer, 0),
                many=_longer(columns.many, longer, -1),
                active=active,
            )
        missing = np.unique(components[columns.many[components] < 0]).tolist()
        if missing:
            for component in missing:
                moves = search.moves_of(place, component)
                columns.first[component] = len(self._rows)
                self._rows += [self._row(component, move) for move in moves]
                columns.active[component] = search.models[place].is_active(component)
                columns.many[component] = len(moves)
            columns = self._filled(columns)
        self._columns = columns
        return columns

    def _row(self, component: int, move: Move) -> tuple[int, int, list[tuple[int, int]]]:
        search, place = self._of
        changes = [(other, search._differences[other].row(bundle)) for other, bundle in move.sends]
        if move.seen:
            changes.append(
                (
                    search._observer_field,
                    search._differences[search._observer_field].row(
                        search.sights.number(move.seen)
                    ),
                )
            )
        return (
            search.difference(place, component, move.target),
            search.bound.costs.index(move.cost) if move.cost else -1,
            changes,
        )

    def _filled(self, columns: _Columns) -> _Columns:
        """Convert the rows that are not in the arrays yet."""
        done = len(columns.delta)
        fresh = self._rows[done:]
        slots = max(len(columns.places), max((len(changes) for _, _, changes in fresh), default=0))
        places, tables = list(columns.places), list(columns.tables)
        while len(places) < slots:
            places.append(np.full(done, -1, np.int64))
            tables.append(_blank(done))
        absent = (-1, 0)
        for slot in range(slots):
            pairs = [changes[slot] if slot < len(changes) else absent for _, _, changes in fresh]
            places[slot] = np.concatenate(
                [places[slot], np.array([each[0] for each in pairs], np.int64)]
            )
            tables[slot] = np.concatenate(
                [tables[slot], np.array([each[1] for each in pairs], np.int64)]
            )
        return columns._replace(
            delta=np.concatenate([columns.delta, np.array([row[0] for row in fresh], np.int64)]),
            cost=np.concatenate([columns.cost, np.array([row[1] for row in fresh], np.int64)]),
            places=places,
            tables=tables,
        )


class _DifferenceTable:
    """Differences that bundles of messages, or sights, make to one field.

    It has a row for each bundle or sight, and a column for each number in the field.
    """

    def __init__(self, search: VectorisedSearch, place: int) -> None:
        self._of = (search, place)
        self._rows: dict[int, int] = {}
        self._things: list[int] = []
        self._values = np.full((8, 64), UNKNOWN, np.int64)

    def row(self, thing: int) -> int:
        found = self._rows.get(thing)
        if found is None:
            found = self._rows[thing] = len(self._things)
            self._things.append(thing)
        return found

    def looked_up(
        self, rows: Numbers, numbers: Numbers, states: Numbers, origin: Numbers
    ) -> Numbers:
        self._make_room()
        found = self._values[rows, numbers]
        missing = np.flatnonzero(found == UNKNOWN)
        if not len(missing):
            return found
        for row, number in sorted(
            {*zip(rows[missing].tolist(), numbers[missing].tolist(), strict=True)}
        ):
            self._values[row, number] = self._difference(row, number, rows, numbers, states, origin)
        return self.looked_up(rows, numbers, states, origin)

    def _difference(
        self,
        row: int,
        number: int,
        rows: Numbers,
        numbers: Numbers,
        states: Numbers,
        origin: Numbers,
    ) -> int:
        search, place = self._of
        thing = self._things[row]
        if place < len(search.models):
            return search.difference(place, number, search.models[place].with_bundle(number, thing))
        try:
            after = search.observed(number, thing)
        except Violation as violation:
            where = np.flatnonzero((rows == row) & (numbers == number))[0]
            search.note(violation.names, int(states[origin[where]]))
            after = search.observed(number, thing)
        return search.difference(place, number, after)

    def _make_room(self) -> None:
        search, place = self._of
        rows, columns = self._values.shape
        wanted = (
            len(search.models[place].components)
            if place < len(search.models)
            else len(search.knowledge)
        )
        if len(self._things) > rows or wanted > columns:
            larger = np.full(
                (max(rows, 2 * len(self._things)), max(columns, wanted + wanted // 2)),
                UNKNOWN,
                np.int64,
            )
            larger[:rows, :columns] = self._values
            self._values = larger


def _blank(size: int) -> Numbers:
    return np.zeros(size, np.int64)


def _longer(array: Numbers, size: int, filling: int) -> Numbers:
    longer = np.full(size, filling, np.int64)
    longer[: len(array)] = array
    return longer


def _grown(table: Numbers, columns: int) -> Numbers:
    larger = np.full((table.shape[0], 2 * columns), UNKNOWN, np.int64)
    larger[:, : table.shape[1]] = table
    return larger


def _distinct(parts: Sequence[Numbers]) -> Numbers:
    """Return the elements of all parts, once each and sorted."""
    if not parts:
        return _blank(0)
    everything = np.sort(np.concatenate(parts))
    is_first = np.ones(len(everything), np.bool_)
    is_first[1:] = everything[1:] != everything[:-1]
    return everything[is_first]


def _has(level: Numbers, state: int) -> bool:
    place = int(np.searchsorted(level, state))
    return place < len(level) and int(level[place]) == state


__all__: list[Any] = ["TooWide", "VectorisedSearch"]
