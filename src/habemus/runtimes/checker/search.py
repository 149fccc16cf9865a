"""The search: every global state once, each as one integer.

A global state is the number of a component for each process, the number of what the observer knows,
and the number of the budgets that are left, packed side by side into one integer.  A move adds a
difference to each of the fields that it changes, and all differences are known from the second time
on: the inner loop adds integers and asks a dictionary.  If a field becomes too narrow for its
numbers, all states are packed anew with a wider one.

Breadth first, so that the first way to a violation is a shortest one.  No state remembers where it
was reached from: ways are rarely asked for, and then they are found backwards, from level to level.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product
from time import monotonic
from typing import Any, ClassVar, NamedTuple

from habemus.core.model import ClientModel, ExternalEvent, Knowledge, Observer
from habemus.core.node import SetTimer
from habemus.core.process import ProcessId
from habemus.core.system import System
from habemus.core.values import Timer
from habemus.runtimes.checker.process_model import (
    BUDGETS,
    COSTS,
    Bound,
    Label,
    Move,
    Numbered,
    ProcessModel,
    process_models,
    spent,
)

INTERRUPTED = "it was interrupted"

SOMEWHERE = "somewhere"
"""How something is wrong that is known to be so, and no more."""

CHUNK = 20_000
"""States between two looks at the clock and the limits."""

FULL_SET = 1_258_000
"""So many integers fit into a set of two million places.  The next one would make it twice as
large, so another set is begun.
"""

COMPACT = 60
"""Integers of so many bits are the smallest that Python has for this: all fields together begin
with as many.
"""

ROOM = 200
"""Bits above all fields, which cost nothing while they are not used."""

FULL = 0.8
"""A field that is so full is made wider when another one has to be: packing all states anew is
costly.
"""


@contextmanager
def without_collecting() -> Iterator[None]:
    """Nothing that a search keeps is garbage, so nobody looks for it, neither meanwhile nor right
    afterwards.
    """
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # among what is old, which is looked through last
        if was_collecting:
            gc.enable()


class GlobalStep(NamedTuple):
    """A move in a global state: whose it is, and where it leads."""

    place: int  # of the process; -1 where time passes for all
    label: Label
    target: int
    seen: tuple[ExternalEvent, ...] = ()
    voluntary: bool = False


class FoundViolation(NamedTuple):
    """A property that is violated, and where."""

    name: str
    state: int
    # "step": the next step violates it; "rest": nothing happens any more; "start": it has happened
    # already; or SOMEWHERE
    how: str
    depth: int


@dataclass
class Extent:
    """What a search has covered."""

    states: int = 0
    transitions: int = 0
    depth: int | None = 0  # None where the search does not know
    queue: int = 0
    seconds: float = 0.0
    complete: bool = False
    stopped: str = ""  # why, if it is not complete


class TooNarrow(Exception):
    """A number does not fit into its field any more."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place


class Violation(Exception):
    """An event violates properties, and that is seen for the first time."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = names


class Search:
    """All that can happen in a system within a bound."""

    description: ClassVar[str] = "breadth first"
    """How it searches, in words."""
    keeps_states: ClassVar[bool] = True
    """Whether every state and the ways between them are there at the end, to be looked through for
    loops.
    """

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
        self.models: list[ProcessModel] = models or process_models(
            system, uses, bound
        )  # those of another search have their tables filled
        self.knowledge: Numbered[Knowledge] = Numbered()
        self.sights: Numbered[tuple[ExternalEvent, ...]] = Numbered()
        self.budgets: Numbered[tuple[int, ...]] = Numbered()
        self.extent = Extent()
        self.wrong: dict[str, FoundViolation] = {}
        self.decides: Callable[[str], bool] = lambda _: (
            True
        )  # whether a violation of this property ends the search, if one does
        self.shown: dict[
            str, int
        ] = {}  # how many different events each property was seen to be about
        self._seen: list[set[int]] = []
        self._levels: list[list[int]] = []  # the last of them is being visited
        self._fresh: dict[
            int, None
        ] = {}  # the next one, as far as it is known, and in the order in which it was found
        self._depth = 0  # of the level that is being visited
        self.resting = 0  # states in which nothing is bound to happen
        self._size = len(self.models)
        self._observer_field, self._budget_field = self._size, self._size + 1
        self._sizes: list[Callable[[], int]] = [model.components.__len__ for model in self.models]
        self._sizes += [self.knowledge.__len__, self.budgets.__len__]
        watch, purse = 6, 4 if bound.budgets else 0
        self._widths = [max(4, min(16, (COMPACT - watch - purse) // self._size))] * self._size + [
            watch,
            purse,
        ]
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
        """Lays out the fields and forgets all differences, which depend on where the fields are."""
        # The first process is on top and has all the room there is, so that its field never becomes
        # too narrow.
        self._shifts = [sum(self._widths[place + 1 :]) for place in range(len(self._widths))]
        self._masks = [(1 << width) - 1 for width in self._widths]
        self._masks[0] = (1 << ROOM) - 1
        self._additions: list[dict[int, _Additions]] = [{} for _ in range(self._size)]
        self._sightings: dict[int, _Sightings] = {}
        self._spendings = {cost: _Spending(self, cost) for cost in COSTS}
        self._tables = [_Table(self, place) for place in range(self._size)]

    def _widen(self, place: int) -> Callable[[int], int]:
        """Makes a field wider; gives the function that packs a state anew."""
        groups = self._regrouped(place)
        return lambda state: sum([(state & bits) << distance for bits, distance in groups])

    def _regrouped(self, place: int) -> list[tuple[int, int]]:
        """Makes one field wider, and those that are nearly full; gives which bits of a state move
        by how much.
        """
        shifts, masks = self._shifts, self._masks
        while self._sizes[place]() > 1 << self._widths[place]:
            self._widths[place] += 1
        for other, width in enumerate(self._widths):
            if width and self._sizes[other]() > FULL * (1 << width):
                self._widths[other] += 1
        self._pack_anew()
        together: dict[int, int] = {}
        for old, mask, new in zip(shifts, masks, self._shifts, strict=True):
            together[new - old] = together.get(new - old, 0) | mask << old
        return [(bits, distance) for distance, bits in together.items()]

    def move_packed(self, again: Callable[[int], int]) -> None:
        """Packs anew what is known by its state."""
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
        """What a process can do in a component."""
        known = self._expanded[place].get(component)
        if known is None:
            known = self._expanded[place][component] = self.models[place].moves(component)
        return known

    def changes(self, move: Move) -> tuple[tuple[int, dict[int, int]], ...]:
        """The fields other than the mover's own that a move changes, with the difference for each
        number there.
        """
        fields: list[tuple[int, dict[int, int]]] = []
        for place, bundle in move.sends:
            additions = self._additions[place].get(bundle)
            if additions is None:
                additions = self._additions[place][bundle] = _Additions(self, place, bundle)
            fields.append((place, additions))
        if move.seen:
            number = self.sights.number(move.seen)
            sightings = self._sightings.get(number)
            if sightings is None:
                sightings = self._sightings[number] = _Sightings(self, number)
            fields.append((self._observer_field, sightings))
        return tuple(fields)

    def observed(self, knowledge: int, sight: int) -> int:
        """What the observer knows after it has seen something; raises what is violated by that, the
        first time.
        """
        known = self.knowledge.values[knowledge]
        violated: list[str] = []
        for seen in self.sights.values[sight]:
            known, names = self.observer.sees(known, seen)
            violated += names
            for name in self.observer.shown(seen):
                self.shown[name] = self.shown.get(name, 0) + 1
        if violated and (knowledge, sight) not in self._violations_of:
            self._violations_of[knowledge, sight] = violated
            news = [name for name in violated if name not in self.wrong]
            if news:
                raise Violation(news)
        return self.knowledge.number(known)

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
        """Who lacks what it is owed in a state."""
        knowledge = self._knowledge_in(state)
        found = self._unfulfilled.get(knowledge)
        if found is None:
            found = self._unfulfilled[knowledge] = frozenset(
                self.observer.unfulfilled(self.knowledge.values[knowledge])
            )
        return found

    def known_moves(self, place: int) -> Iterable[tuple[int, list[Move]]]:
        """The components of a process that the search has come to, with their moves."""
        return self._expanded[place].items()

    # The beginning.

    def _initial_states(self) -> list[int]:
        """All ways to start, at once; more than one where a start makes choices."""
        first = self.knowledge.number(self.observer.first())
        purse = (
            self.budgets.number(tuple(self.bound.budget(kind) for kind in BUDGETS))
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
            for place, number in enumerate([*fields, knowledge, purse]):
                if number > self._masks[place]:
                    self._widen(place)
                    return self._initial_states()
            state = sum(
                number << shift
                for number, shift in zip([*fields, knowledge, purse], self._shifts, strict=True)
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
        """Visits all states, or as many as the limits allow.  An interrupt ends it early, and what
        was covered stands.
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
                        extent.stopped = "a property is violated"
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
        """Most of what a level leads to is new, so what is not is looked for only at its end, all
        at once.
        """
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
        """Visits the next states of the level; gives the position of the first that is left."""
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
        """Packs all states anew, once each: the levels have the same integers as the set, not equal
        ones.
        """
        levels = self._levels
        self._seen, self._levels = [set()], []
        for level in levels:
            self._remember([again(state) for state in level])
        self._fresh = {again(state): None for state in self._fresh}
        self.move_packed(again)

    def _expand(self, chunk: list[int]) -> int:
        """Visits some states of the level.  If it is interrupted, the state in hand is visited
        again: what it has led to is known.
        """
        at = [chunk[0], 0]  # the state in hand, and the transitions of those before it
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
        """A step from this state violates properties by being seen."""
        for name in names:
            self.wrong.setdefault(name, FoundViolation(name, state, "step", self._depth + 1))

    def violating(self, state: int, name: str) -> int:
        """Where the first step leads that violates a property by being seen."""
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
        """What a step violates by being seen."""
        known = self.knowledge.values[self._knowledge_in(state)]
        violated: list[str] = []
        for seen in step.seen:
            known, names = self.observer.sees(known, seen)
            violated += names
        return violated

    def _after_time(self, state: int) -> int | None:
        """The state when time has passed until the next timer runs out; None while something is
        under way or no timer is set.
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
        """Makes a field wider, after the search."""
        self._repack(self._widen(place))

    def timers_set(self, state: int, step: GlobalStep) -> list[tuple[int, Timer]]:
        """The timers that a step sets, whether they were set or not."""
        if step.place < 0:
            return []
        effects = self.models[step.place].effects(self.unpacked(state)[step.place], step.label)
        return [(effect.port, effect.timer) for effect in effects if isinstance(effect, SetTimer)]

    # For whoever looks closer: the same steps, with what they are.

    def steps(self, state: int) -> Iterator[GlobalStep]:
        """All steps from a state, in the order of the search."""
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

    def is_at_rest(self, state: int) -> bool:
        numbers = self.unpacked(state)
        return not any(
            model.is_active(number) for model, number in zip(self.models, numbers, strict=False)
        )

    def visited(self) -> list[int]:
        """All states, in the order in which they were found."""
        return [state for level in self._levels for state in level]

    def path_to(self, state: int) -> list[int]:
        """The states from the beginning to this one."""
        depth = next(depth for depth, level in enumerate(self._levels) if state in level)
        path = [state]
        for level in reversed(self._levels[:depth]):
            path.append(next(before for before in level if self.leads_to(before, path[-1])))
        return path[::-1]

    def leads_to(self, state: int, target: int) -> bool:
        """Whether a step leads from the one state to the other."""
        return any(step.target == target for step in self.steps(state))

    @property
    def handlers_run(self) -> int:
        return sum(model.steps for model in self.models)


class Interrupted(Exception):
    """Something has to be seen to before the search goes on, from the state after those that are
    done.
    """

    def __init__(self, done: int) -> None:
        super().__init__()
        self.done = done


class _Additions(dict[int, int]):
    """By the component of the receiver: the difference that a bundle of messages makes to the
    state.
    """

    def __init__(self, search: Search, place: int, bundle: int) -> None:
        super().__init__()
        self._of = (search, place, bundle)

    def __missing__(self, component: int) -> int:
        search, place, bundle = self._of
        after = search.models[place].with_bundle(component, bundle)
        found = self[component] = search.difference(place, component, after)
        return found


class _Sightings(dict[int, int]):
    """By what the observer knows: the difference that an event makes to that."""

    def __init__(self, search: Search, sight: int) -> None:
        super().__init__()
        self._of = (search, sight)

    def __missing__(self, knowledge: int) -> int:
        search, sight = self._of
        after = search.observed(knowledge, sight)
        found = self[knowledge] = search.difference(search._observer_field, knowledge, after)
        return found


class _Spending(dict[int, "int | None"]):
    """By the budgets left: the difference that a cost makes, or None where too little is left for
    it.
    """

    def __init__(self, search: Search, cost: str) -> None:
        super().__init__()
        self._of = (search, cost)

    def __missing__(self, purse: int) -> int | None:
        search, cost = self._of
        less = spent(search.budgets.values[purse], cost)
        found = self[purse] = (
            None
            if less is None
            else search.difference(search._budget_field, purse, search.budgets.number(less))
        )
        return found


class _Packed(NamedTuple):
    """What a process can do in a component, as differences between states; sorted by how many other
    fields a move changes.

    Such a field is given by where it is, and by the difference for each number there.
    """

    alone: tuple[int, ...]
    to_one: tuple[tuple[int, int, int, dict[int, int]], ...]
    to_many: tuple[tuple[int, tuple[tuple[int, int, dict[int, int]], ...]], ...]
    moves: int  # how many these are
    is_active: bool  # something is bound to happen
    faults: tuple[tuple[str, int, tuple[tuple[int, int, dict[int, int]], ...]], ...]


class _Table(dict[int, _Packed]):
    """By the component of a process: what it can do."""

    def __init__(self, search: Search, place: int) -> None:
        super().__init__()
        self._of = (search, place)

    def __missing__(self, component: int) -> _Packed:
        search, place = self._of
        alone, to_one, to_many, faults = [], [], [], []
        for move in search.moves_of(place, component):
            delta = search.difference(place, component, move.target)
            changes = tuple(
                (search._shifts[other], search._masks[other], differences)
                for other, differences in search.changes(move)
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
        is_active = search.models[place].is_active(component)
        found = self[component] = _Packed(
            tuple(alone), tuple(to_one), tuple(to_many), moves, is_active, tuple(faults)
        )
        return found


@cache
def inner_loop(size: int, budgets: bool, synchronous: bool) -> Callable[..., None]:
    """The loop over the states of a level, written out for so many processes: this is where all the
    time goes.

    For each process in turn: its moves in its component, and the state that each leads to, into
    `fresh`.
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
            # The first process is on top.
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
