"""The search: visits every global state once, each encoded as one integer.

A global state consists of the number of a component for each process, the number of the knowledge
of the observer, and the number of the remaining budgets, packed side by side into one integer.  A
move adds a difference to each field that it changes.  All differences are cached, so the inner loop
adds integers and looks up a dictionary.  If a field becomes too narrow for its numbers, all states
are repacked with a wider one.

The search is breadth first, so the first path to a violation is a shortest one.  No state stores
its predecessor: paths are rarely needed, and then they are found backwards, level by level.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from time import monotonic
from typing import Any, ClassVar, NamedTuple, TypeVar

from habemus.core.model import ClientModel, ExternalEvent, Knowledge, Observer
from habemus.core.node import SetTimer
from habemus.core.process import ProcessId
from habemus.core.properties import NO_EXCEPTION
from habemus.core.system import System
from habemus.core.values import Timer
from habemus.runtimes.checker.process_model import (
    FAILED,
    Bound,
    Label,
    Move,
    Numbered,
    ProcessModel,
    process_models,
    spent,
)

FOUND = "a property is violated"
INTERRUPTED = "it was interrupted"

SOMEWHERE = "somewhere"
"""Value of `FoundViolation.how` where the search does not know the state of the violation."""

CHUNK = 20_000
"""States between two checks of the clock and the limits."""

FULL_SET = 1_258_000
"""Size at which a set is full.  One more integer would double its table of two million slots, so
another set is started.
"""

COMPACT = 60
"""Initial width of all fields together: integers of up to 60 bits take the least memory."""

Result = TypeVar("Result")

ROOM = 200
"""Bits above all fields, which cost nothing while they are not used."""

FULL = 0.8
"""Fill ratio above which a field is made wider together with another one: repacking is costly."""


@contextmanager
def without_collecting() -> Iterator[None]:
    """Disable garbage collection during a search, which keeps everything that it allocates."""
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # moves everything to the oldest generation, which is collected last
        if was_collecting:
            gc.enable()


class GlobalStep(NamedTuple):
    """A move in a global state, with the process that moves and the resulting state."""

    place: int  # of the process; -1 where time passes for all
    label: Label
    target: int
    seen: tuple[ExternalEvent, ...] = ()
    voluntary: bool = False


class FoundViolation(NamedTuple):
    """A violated property, and the state in which it is violated."""

    name: str
    state: int
    # "step": the next step violates it; "rest": no step is left; "start": the start violates it;
    # or SOMEWHERE.
    how: str
    depth: int


@dataclass
class Extent:
    """The extent of a search: the states and transitions that it has covered."""

    states: int = 0
    transitions: int = 0
    depth: int | None = 0  # None where the search does not know
    queue: int = 0
    seconds: float = 0.0
    complete: bool = False
    stopped: str = ""  # why, if it is not complete


class TooNarrow(Exception):
    """A number does not fit into its field."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place


class Violation(Exception):
    """An event violates properties for the first time."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = names


class Memo(dict[int, Result]):
    """The results of a function, each computed when it is first looked up."""

    def __init__(self, function: Callable[[int], Result]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, number: int) -> Result:
        found = self[number] = self._function(number)
        return found


class Search:
    """Breadth-first search of all behaviours of a system within a bound."""

    description: ClassVar[str] = "breadth first"
    """The kind of search, in words."""
    keeps_states: ClassVar[bool] = True
    """Whether all states and steps are available at the end, to search them for loops."""
    bits: ClassVar[int | None] = None
    """The width of a state at most; None: any."""

    def __init__(
        self,
        system: System,
        uses: Mapping[ProcessId, ClientModel],
        observer: Observer,
        bound: Bound,
        models: list[ProcessModel] | None = None,
    ) -> None:
        self.system = system
        self.bound = bound
        self.observer = observer
        # The models of another search have their tables filled.
        self.models: list[ProcessModel] = models or process_models(system, uses, bound)
        self.knowledge: Numbered[Knowledge] = Numbered()
        self.sights: Numbered[tuple[ExternalEvent, ...]] = Numbered()
        self.budgets: Numbered[tuple[int, ...]] = Numbered()
        self.extent = Extent()
        self.wrong: dict[str, FoundViolation] = {}
        # Whether a violation of this property ends a search that stops at the first one.
        self.decides: Callable[[str], bool] = lambda _: True
        self.shown: dict[str, int] = {}  # number of different events that each property is about
        self._seen: list[set[int]] = []
        self._levels: list[list[int]] = []  # the last of them is being visited
        self._fresh: dict[int, None] = {}  # the next level so far, in the order of discovery
        self._depth = 0  # of the level that is being visited
        self.resting = 0  # states in which only voluntary steps are possible
        self._size = len(self.models)
        self._observer_field, self._budget_field = self._size, self._size + 1
        self._sizes: list[Callable[[], int]] = [model.components.__len__ for model in self.models]
        self._sizes += [self.knowledge.__len__, self.budgets.__len__]
        knowledge, budgets = 6, 4 if bound.budgets else 0
        each = max(4, min(16, (COMPACT - knowledge - budgets) // self._size))
        self._widths = [each] * self._size + [knowledge, budgets]
        self._violations_of: dict[tuple[int, int], Sequence[str]] = {}
        self._at_rest: dict[int, Sequence[str]] = {}
        self._unfulfilled: dict[int, frozenset[tuple[str, ProcessId]]] = {}
        self._expanded: list[dict[int, list[Move]]] = [{} for _ in self.models]
        self._starts: dict[int, tuple[Label, ...]] = {}
        self._wrong_at_start: dict[str, FoundViolation] = {}
        self._pack_anew()
        self.initials: list[int] = self._initial_states()
        self.wrong |= self._wrong_at_start

    # Packing.

    def _pack_anew(self) -> None:
        """Lay out the fields, and drop all cached differences, which depend on the layout."""
        # The first process has the highest bits, with enough room that it never becomes too narrow.
        self._shifts = [sum(self._widths[place + 1 :]) for place in range(len(self._widths))]
        self._masks = [(1 << width) - 1 for width in self._widths]
        self._masks[0] = (1 << ROOM) - 1
        self._additions = [Memo(partial(self._additions_of, place)) for place in range(self._size)]
        self._sightings = Memo(lambda sight: Memo(partial(self._sighting, sight)))
        self._spendings = {cost: Memo(partial(self._spending, cost)) for cost in self.bound.costs}
        self._tables = [Memo(partial(self._packed, place)) for place in range(self._size)]

    def _widen(self, place: int) -> Callable[[int], int]:
        """Make a field wider; return the function that repacks a state."""
        groups = self._regrouped(place)
        return lambda state: sum([(state & bits) << distance for bits, distance in groups])

    def _regrouped(self, place: int) -> list[tuple[int, int]]:
        """Make a field wider, and those that are nearly full; return which bits of a state move how
        far.
        """
        shifts, masks = self._shifts, self._masks
        # The field on top has room beyond its width, so it may need more bits as well.
        for each in (place, 0):
            while self._sizes[each]() > 1 << self._widths[each]:
                self._widths[each] += 1
        for other, width in enumerate(self._widths):
            has_room = self.bits is None or sum(self._widths) < self.bits
            if has_room and width and self._sizes[other]() > FULL * (1 << width):
                self._widths[other] += 1
        self._narrow()
        self._pack_anew()
        together: dict[int, int] = {}
        for old, mask, new in zip(shifts, masks, self._shifts, strict=True):
            together[new - old] = together.get(new - old, 0) | mask << old
        return [(bits, distance) for distance, bits in together.items()]

    def _narrow(self) -> None:
        """Take bits from the emptiest fields until a state has no more than it may have."""
        while self.bits is not None and sum(self._widths) > self.bits:
            fill = {
                place: self._sizes[place]() / (1 << width)
                for place, width in enumerate(self._widths)
                if width > 1
            }
            emptiest = min(fill, key=fill.__getitem__)
            if fill[emptiest] > 0.5:
                return
            self._widths[emptiest] -= 1

    def move_packed(self, again: Callable[[int], int]) -> None:
        """Repack everything that refers to states."""
        self.initials = [again(state) for state in self.initials]
        self._starts = {again(state): labels for state, labels in self._starts.items()}
        self.wrong = {
            name: wrong._replace(state=again(wrong.state)) for name, wrong in self.wrong.items()
        }

    def unpacked(self, state: int) -> list[int]:
        return [
            state >> shift & mask for shift, mask in zip(self._shifts, self._masks, strict=True)
        ]

    def difference(self, place: int, before: int, after: int) -> int:
        if after > self._masks[place]:
            raise TooNarrow(place)
        return (after - before) << self._shifts[place]

    # Tables.

    def moves_of(self, place: int, component: int) -> list[Move]:
        """Return the moves of a process in a component."""
        known = self._expanded[place].get(component)
        if known is None:
            known = self._expanded[place][component] = self.models[place].moves(component)
        return known

    def changes(self, move: Move) -> tuple[tuple[int, dict[int, int]], ...]:
        """Return the other fields that a move changes, with the difference for each number."""
        fields: list[tuple[int, dict[int, int]]] = []
        fields += [(place, self._additions[place][bundle]) for place, bundle in move.sends]
        if move.seen:
            number = self.sights.number(move.seen)
            fields.append((self._observer_field, self._sightings[number]))
        return tuple(fields)

    def _additions_of(self, place: int, bundle: int) -> Memo[int]:
        return Memo(partial(self._addition, place, bundle))

    def _addition(self, place: int, bundle: int, component: int) -> int:
        """Return the difference that a bundle of messages makes to a component."""
        after = self.models[place].with_bundle(component, bundle)
        return self.difference(place, component, after)

    def _sighting(self, sight: int, knowledge: int) -> int:
        """Return the difference that an event makes to the knowledge of the observer."""
        return self.difference(self._observer_field, knowledge, self.observed(knowledge, sight))

    def _spending(self, cost: str, budgets: int) -> int | None:
        """Return the difference that a cost makes to budgets; None if one is exhausted."""
        less = spent(self.budgets.values[budgets], cost, self.bound.kinds)
        if less is None:
            return None
        return self.difference(self._budget_field, budgets, self.budgets.number(less))

    def _packed(self, place: int, component: int) -> _Packed:
        """Return the moves of a process in a component, as differences."""
        alone, to_one, to_many, faults = [], [], [], []
        for move in self.moves_of(place, component):
            delta = self.difference(place, component, move.target)
            changes = tuple(
                (self._shifts[other], self._masks[other], differences)
                for other, differences in self.changes(move)
            )
            if move.cost:
                faults.append((move.cost, delta, changes))
            elif not changes:
                alone.append(delta)
            elif len(changes) == 1:
                to_one.append((delta, *changes[0]))
            else:
                to_many.append((delta, changes))
        moves = len(alone) + len(to_one) + len(to_many)
        is_active = self.models[place].is_active(component)
        return _Packed(tuple(alone), tuple(to_one), tuple(to_many), moves, is_active, tuple(faults))

    def observed(self, knowledge: int, sight: int) -> int:
        """Return the knowledge of the observer after a sight.

        Raises `Violation` if it violates properties for the first time.
        """
        known = self.knowledge.values[knowledge]
        violated: list[str] = []
        for seen in self.sights.values[sight]:
            known, names = self._judged(known, seen)
            violated += names
            for name in self.observer.shown(seen):
                self.shown[name] = self.shown.get(name, 0) + 1
        if violated and (knowledge, sight) not in self._violations_of:
            self._violations_of[knowledge, sight] = violated
            news = [name for name in violated if name not in self.wrong]
            if news:
                raise Violation(news)
        return self.knowledge.number(known)

    def _judged(self, known: Knowledge, seen: ExternalEvent) -> tuple[Knowledge, Sequence[str]]:
        """Return the knowledge after an event, and the properties that the event violates."""
        if seen.kind == FAILED:
            return known, [NO_EXCEPTION.name]
        return self.observer.sees(known, seen)

    def _knowledge_in(self, state: int) -> int:
        return state >> self._shifts[self._observer_field] & self._masks[self._observer_field]

    def at_rest(self, state: int) -> Sequence[str]:
        knowledge = self._knowledge_in(state)
        names = self._at_rest.get(knowledge)
        if names is None:
            names = self._at_rest[knowledge] = tuple(
                self.observer.at_rest(self.knowledge.values[knowledge])
            )
        return names

    def unfulfilled(self, state: int) -> frozenset[tuple[str, ProcessId]]:
        """Return the pending obligations in a state."""
        knowledge = self._knowledge_in(state)
        found = self._unfulfilled.get(knowledge)
        if found is None:
            found = self._unfulfilled[knowledge] = frozenset(
                self.observer.unfulfilled(self.knowledge.values[knowledge])
            )
        return found

    def known_moves(self, place: int) -> Iterable[tuple[int, list[Move]]]:
        """Return the components of a process that the search has reached, with their moves."""
        return self._expanded[place].items()

    # The beginning.

    def _initial_states(self) -> list[int]:
        """Return the initial states; there are several if starts make choices."""
        first = self.knowledge.number(self.observer.first())
        budgets = (
            self.budgets.number(tuple(self.bound.budget(kind) for kind in self.bound.kinds))
            if self.bound.budgets
            else 0
        )
        found: dict[int, None] = {}
        self._starts = {}
        for moves in product(*(model.starts() for model in self.models)):
            fields = [move.target for move in moves]
            for move in moves:
                for place, bundle in move.sends:
                    fields[place] = self.models[place].with_bundle(fields[place], bundle)
            knowledge, violated = first, list[str]()
            for move in moves:
                if move.seen:
                    sight = self.sights.number(move.seen)
                    try:
                        knowledge = self.observed(knowledge, sight)
                    except Violation as violation:
                        violated += violation.names
                        knowledge = self.observed(knowledge, sight)
            for place, number in enumerate([*fields, knowledge, budgets]):
                if number > self._masks[place]:
                    self._widen(place)
                    return self._initial_states()
            state = sum(
                number << shift
                for number, shift in zip([*fields, knowledge, budgets], self._shifts, strict=True)
            )
            found[state] = None
            self._starts[state] = tuple(move.label for move in moves)
            self._wrong_at_start |= {
                name: FoundViolation(name, state, "start", 0) for name in violated
            }
        return list(found)

    def start_labels(self, state: int) -> tuple[Label, ...]:
        return self._starts[state]

    # The search.

    @without_collecting()
    def run(
        self,
        limit: int | None = None,
        stop_at_first: bool = True,
        progress: Callable[[Extent], None] | None = None,
    ) -> Extent:
        """Visit all states, or as many as the limits allow.

        An interrupt ends the search early; its extent so far stays valid.
        """
        began = monotonic()
        extent = self.extent
        self._seen, self._levels = [set()], []
        self._remember(list(self.initials))
        try:
            while self._levels[-1]:
                position = 0
                while position < len(self._levels[-1]):
                    position = self._visit(position)
                    extent.states = self._known + len(self._fresh)
                    extent.queue = len(self._fresh) + len(self._levels[-1]) - position
                    extent.seconds = monotonic() - began
                    if progress is not None:
                        progress(extent)
                    if stop_at_first and self.is_decided:
                        extent.stopped = FOUND
                    elif limit is not None and extent.states > limit:
                        extent.stopped = f"the limit of {limit:,} states was reached"
                    if extent.stopped:
                        return extent
                self._next_level()
                self._depth += bool(self._levels[-1])
                extent.depth = self._depth
            extent.complete = True
            extent.queue = 0
        except KeyboardInterrupt:
            extent.stopped = INTERRUPTED
        finally:
            self._next_level()
            extent.states = self._known
            extent.seconds = monotonic() - began
        return extent

    def _next_level(self) -> None:
        """Remove known states from the next level, all at once: most of its states are new."""
        fresh, self._fresh = list(self._fresh), {}
        for part in self._seen:
            if not part.isdisjoint(fresh):
                fresh = [state for state in fresh if state not in part]
        self._remember(fresh)

    def _remember(self, level: list[int]) -> None:
        if len(self._seen[-1]) + len(level) > FULL_SET:
            self._seen.append(set())
        self._seen[-1].update(level)
        self._levels.append(level)

    @property
    def _known(self) -> int:
        return sum(map(len, self._seen))

    def _visit(self, position: int) -> int:
        """Visit the next states of the level; return the position of the first that is left."""
        chunk = self._levels[-1][position : position + CHUNK]
        try:
            return position + self._expand(chunk)
        except Interrupted as interrupted:
            cause = interrupted.__cause__
            if isinstance(cause, Violation):
                self.note(cause.names, chunk[interrupted.done])
            else:
                assert isinstance(cause, TooNarrow)
                self._repack(self._widen(cause.place))
            return position + interrupted.done

    def _repack(self, again: Callable[[int], int]) -> None:
        """Repack all states once each, so that the levels and the set share the same integers."""
        levels = self._levels
        self._seen, self._levels = [set()], []
        for level in levels:
            self._remember([again(state) for state in level])
        self._fresh = {again(state): None for state in self._fresh}
        self.move_packed(again)

    def _expand(self, chunk: list[int]) -> int:
        """Visit a chunk of the level; return how many states are done.

        After an interruption, the current state is visited again; its successors are known by then.
        """
        at = [chunk[0], 0]  # the current state, and the transitions of those before it
        loop = inner_loop(self._size, bool(self.bound.budgets), self.bound.synchronous)
        try:
            loop(
                chunk,
                self._fresh,
                self._shifts,
                self._masks,
                self._tables,
                self._spendings,
                self._rest,
                self._after_time,
                at,
            )
        except (TooNarrow, Violation) as cause:
            raise Interrupted(chunk.index(at[0])) from cause
        finally:
            self.extent.transitions += at[1]
        return len(chunk)

    def _rest(self, state: int) -> None:
        self.resting += 1
        for name in self.at_rest(state):
            if name not in self.wrong:
                self.wrong[name] = FoundViolation(name, state, "rest", self._depth)

    @property
    def is_decided(self) -> bool:
        return any(map(self.decides, self.wrong))

    def note(self, names: Sequence[str], state: int) -> None:
        """Record that a step from this state violates properties."""
        for name in names:
            self.wrong.setdefault(name, FoundViolation(name, state, "step", self._depth + 1))

    def violating(self, state: int, name: str) -> int:
        """Return the state after the first step that violates a property."""
        while True:
            try:
                return next(
                    step.target
                    for step in self.steps(state)
                    if name in self.violations_of(state, step)
                )
            except Violation as another:
                self.note(another.names, state)

    def violations_of(self, state: int, step: GlobalStep) -> list[str]:
        """Return the properties that a step violates."""
        known = self.knowledge.values[self._knowledge_in(state)]
        violated: list[str] = []
        for seen in step.seen:
            known, names = self._judged(known, seen)
            violated += names
        return violated

    def _after_time(self, state: int) -> int | None:
        """Return the state when the next timer expires.

        None while a message is in flight or if no timer is set.
        """
        numbers = self.unpacked(state)
        waits = [
            model.next_timeout(number) for model, number in zip(self.models, numbers, strict=False)
        ]
        time = min((wait for wait in waits if wait is not None), default=0)
        if time == 0:
            return None
        for place, model in enumerate(self.models):
            if waits[place] is not None:
                state += self.difference(place, numbers[place], model.after(numbers[place], time))
        return state

    def make_room(self, place: int) -> None:
        """Make a field wider after the search."""
        self._repack(self._widen(place))

    def timers_set(self, state: int, step: GlobalStep) -> list[tuple[int, Timer]]:
        """Return the timers that a step sets, including those that were set before."""
        if step.place < 0:
            return []
        effects = self.models[step.place].effects(self.unpacked(state)[step.place], step.label)
        return [(effect.port, effect.timer) for effect in effects if isinstance(effect, SetTimer)]

    # The same steps with their labels, for counterexamples and fairness.

    def steps(self, state: int) -> Iterator[GlobalStep]:
        """Yield all steps from a state, in the order of the search."""
        numbers = self.unpacked(state)
        for place in range(self._size):
            for move in self.moves_of(place, numbers[place]):
                price: int | None = 0
                if move.cost:
                    price = self._spendings[move.cost][numbers[self._budget_field]]
                if price is None:
                    continue
                target = state + self.difference(place, numbers[place], move.target) + price
                for changed, differences in self.changes(move):
                    target += differences[numbers[changed]]
                yield GlobalStep(place, move.label, target, move.seen, move.voluntary)
        if self.bound.synchronous:
            later = self._after_time(state)
            if later is not None:
                yield GlobalStep(-1, Label("pass"), later)

    def visited(self) -> list[int]:
        """Return all states, in the order in which they were found."""
        return [state for level in self._levels for state in level]

    def path_to(self, state: int) -> list[int]:
        """Return the states from an initial state to this one."""
        depth = next(depth for depth, level in enumerate(self._levels) if state in level)
        path = [state]
        for level in reversed(self._levels[:depth]):
            path.append(next(before for before in level if self.leads_to(before, path[-1])))
        return path[::-1]

    def leads_to(self, state: int, target: int) -> bool:
        """Whether a step leads from one state to the other."""
        return any(step.target == target for step in self.steps(state))

    @property
    def handlers_run(self) -> int:
        return sum(model.steps for model in self.models)


class Interrupted(Exception):
    """The expansion of a chunk stopped after `done` states; the cause says why."""

    def __init__(self, done: int) -> None:
        super().__init__()
        self.done = done


class _Packed(NamedTuple):
    """The moves of a process in a component, as differences between states.

    They are grouped by the number of other fields that a move changes.  Such a field is given by
    its position and by the difference for each number in it.
    """

    alone: tuple[int, ...]
    to_one: tuple[tuple[int, int, int, dict[int, int]], ...]
    to_many: tuple[tuple[int, tuple[tuple[int, int, dict[int, int]], ...]], ...]
    moves: int  # how many these are
    is_active: bool  # a step that is not voluntary is possible
    faults: tuple[tuple[str, int, tuple[tuple[int, int, dict[int, int]], ...]], ...]


@cache
def inner_loop(size: int, budgets: bool, synchronous: bool) -> Callable[..., None]:
    """Generate the loop over the states of a level for that many processes: the hot path.

    The loop adds to `fresh` the state after each move of each process.
    """
    lines = [
        "def loop(chunk, fresh, shifts, masks, tables, spendings, rest, after_time, at):",
        *(
            f"    s{each}, m{each}, table{each} = shifts[{each}], masks[{each}], tables[{each}]"
            for each in range(size)
        ),
        f"    s{size}, m{size} = shifts[{size + 1}], masks[{size + 1}]",
        "    transitions = extra = 0",
        "    try:",
        "        for state in chunk:",
    ]
    for each in range(size):
        lines += [
            # The first process has the highest bits, so it needs no mask.
            (
                f"            alone, to_one, to_many, k{each}, a{each}, faults = table{each}[state"
                f" >> s{each}{f' & m{each}' if each else ''}]"
            ),
            "            for delta in alone: fresh[state + delta] = None",
            "            if to_one:",
            "                for delta, shift, mask, differences in to_one:",
            "                    fresh[state + delta + differences[state >> shift & mask]] = None",
            "            if to_many:",
            "                for delta, changes in to_many:",
            "                    target = state + delta",
            (
                "                    for shift, mask, differences in changes: target +="
                " differences[state >> shift & mask]"
            ),
            "                    fresh[target] = None",
        ]
        if budgets:
            lines += [
                "            for kind, delta, changes in faults:",
                f"                price = spendings[kind][state >> s{size} & m{size}]",
                "                if price is not None:",
                "                    target = state + delta + price",
                (
                    "                    for shift, mask, differences in changes: target +="
                    " differences[state >> shift & mask]"
                ),
                "                    fresh[target] = None",
                "                    extra += 1",
            ]
    if synchronous:
        lines += [
            "            target = after_time(state)",
            "            if target is not None:",
            "                fresh[target] = None",
            "                extra += 1",
        ]
    lines += [
        f"            if not ({' or '.join(f'a{each}' for each in range(size))}): rest(state)",
        f"            transitions += {' + '.join(f'k{each}' for each in range(size))} + extra",
        "            extra = 0",
        "    finally:",
        "        at[:] = state, transitions",
    ]
    scope: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"<search of {size} processes>", "exec"), scope)
    loop: Callable[..., None] = scope["loop"]
    return loop


__all__ = [
    "FOUND",
    "INTERRUPTED",
    "SOMEWHERE",
    "Extent",
    "FoundViolation",
    "GlobalStep",
    "Interrupted",
    "Search",
    "TooNarrow",
    "Violation",
    "without_collecting",
]
