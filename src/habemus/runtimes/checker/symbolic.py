"""Symbolic search: sets of states are decision diagrams, never lists of states.

A set of global states is a *diagram*: a node for the first process has an edge for each of its
components, which leads to a node for the second process, and so on; every path from the top to the
bottom is a state.  Equal nodes are one node, so a set of millions of states may have some thousands
of nodes.  There is one diagram for each pair of knowledge of the observer and remaining budgets.

Diagrams suit this search, because the effect of a step is given separately for each process: the
component of the mover changes in one of a few ways, and each receiver gets a bundle of messages,
whatever its component is.  Steps that send the same to the same receivers and look alike from
outside are one *event*, and an event is fired on a whole diagram at once, from node to node.

A node is *saturated* when no event leads out of it that begins at its process or below.  Nodes are
saturated from the bottom upwards as they are made (Ciardo, Lüttgen, Siminiceanu: Saturation, 2001),
so most successors of an event have been found already when it is fired.  The union of two saturated
nodes is saturated, because the successors of a set are those of its parts.

There are no levels, so the depth of a state is unknown.  The search reports that a property is
violated; another search has to find a shortest path to the violation.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import NamedTuple, TypeAlias

from habemus.core.model import ClientModel, ExternalEvent, Observer
from habemus.core.process import ProcessId
from habemus.core.system import System
from habemus.runtimes.checker.process_model import Bound, ProcessModel, spent
from habemus.runtimes.checker.search import (
    FOUND,
    INTERRUPTED,
    SOMEWHERE,
    Extent,
    FoundViolation,
    Memo,
    Search,
    Violation,
    without_collecting,
)

Key: TypeAlias = tuple[int, tuple[tuple[int, int], ...], tuple[ExternalEvent, ...], str]
"""Key of an event: the process that moves, the bundles to others, the sights, and the cost."""

Edges: TypeAlias = dict[int, int]
"""Edges of a node: the node below, for each component of its process."""

BOTTOM = 0
"""The node below the last process: the set of the one empty tuple."""

AT_TOP = -1
"""Place at which an event begins that changes the knowledge or the budgets."""

EDGES_BETWEEN_LOOKS = 20_000
COMPONENT = 4
"""Edges that a component counts for, at least, because its moves take about as much memory.  A
component with many messages in flight takes more; a process that always sends has infinitely many
components.
"""
COUNTING = 20
"""The next count of states for a progress bar waits this many times as long as the last took."""


class SymbolicEvent:
    """All steps of a process with the same messages to the same receivers, sights and cost."""

    __slots__ = (
        "begins_at",
        "bit",
        "changes",
        "cost",
        "fired",
        "last",
        "mover",
        "sight",
        "targets",
    )

    def __init__(
        self,
        number: int,
        mover: int,
        changes: Mapping[int, Memo[int]],
        sight: int | None,
        cost: str,
    ) -> None:
        self.bit = 1 << number
        self.mover = mover
        self.changes = changes
        self.sight = sight
        self.cost = cost
        self.begins_at = AT_TOP if sight is not None or cost else min([mover, *changes])
        self.last = max([mover, *changes])  # the last process that it changes
        self.targets: dict[int, list[int]] = {}  # by the component of the mover
        self.fired: dict[int, int] = {}  # by node: where it leads from there


class ComponentMoves(NamedTuple):
    """The moves of a process in a component."""

    begin: list[
        tuple[SymbolicEvent, list[int]]
    ]  # the events that begin at it, with its components afterwards
    silently: list[int]  # the components after moves that send nothing and are invisible
    bits: int  # of all events but silent ones
    moves: int  # the number of moves without a cost
    costly: Counter[str]  # the number of moves with a cost, by cost


_FREE: Counter[str] = Counter()


class SymbolicSearch(Search):
    description = "by decision diagrams"
    keeps_states = False

    def __init__(
        self,
        system: System,
        uses: Mapping[ProcessId, ClientModel],
        observer: Observer,
        bound: Bound,
        models: list[ProcessModel] | None = None,
    ) -> None:
        super().__init__(system, uses, observer, bound, models)
        assert not bound.synchronous, (
            "time passes for all processes at once, which is not a step of one of them"
        )
        self._edges: list[Edges] = [{}]  # by the number of the node
        self._enabled: list[int] = [0]  # by node: the bits of the events that some state in it has
        self._places: list[int] = [self._size]  # by node: the place of its process
        self._nodes: list[dict[frozenset[tuple[int, int]], int]] = [{} for _ in self.models]
        self._unions: dict[tuple[int, int], int] = {}
        self._events: dict[Key, SymbolicEvent] = {}
        self._by_bit: list[SymbolicEvent] = []
        # The bits of the events that begin at each process, or last at the top, and have their
        # mover further down.
        self._begins: list[int] = [0] * (self._size + 1)
        self._among: dict[int, list[SymbolicEvent]] = {}
        places = range(self._size)
        self._component_moves = [Memo(partial(self.component_moves, place)) for place in places]
        self._bundled = [Memo(partial(self._bundled_at, place)) for place in places]
        # Edges of the first process, by knowledge of the observer and remaining budgets.
        self._top: dict[tuple[int, int], Edges] = {}
        self._rested: list[int] = []  # the knowledge in states at rest
        self._stored = 0  # edges
        self._next_look = 0
        self._look: Callable[[], None] = lambda: None
        self.extent.depth = None

    # The search.

    @without_collecting()
    def run(
        self,
        limit: int | None = None,
        stop_at_first: bool = True,
        progress: Callable[[Extent], None] | None = None,
    ) -> Extent:
        """Find the set of all states.

        The limit counts edges of diagrams, which take the memory.
        """
        began, extent = monotonic(), self.extent
        quiet_until = began

        def look() -> None:
            nonlocal quiet_until
            self._next_look = min(self._stored + EDGES_BETWEEN_LOOKS, limit or sys.maxsize)
            now = monotonic()
            if progress is not None and now >= quiet_until:
                self._count()
                extent.seconds = monotonic() - began
                progress(extent)
                quiet_until = now + COUNTING * (monotonic() - now)
            if limit is not None and self._stored >= limit:
                raise _Ended(f"the limit of {limit:,} edges in diagrams was reached")

        self._look = look
        try:
            self._saturate_all(stop_at_first)
            extent.complete = True
        except _Ended as ended:
            extent.stopped = str(ended)
        except KeyboardInterrupt:
            extent.stopped = INTERRUPTED
        finally:
            self._count()
            for knowledge in self._rested:
                self.note(self.observer.at_rest(self.knowledge.values[knowledge]))
            extent.seconds = monotonic() - began
        return extent

    def _saturate_all(self, stop_at_first: bool) -> None:
        pending: dict[tuple[int, int], Edges] = {}
        for state in self.initials:
            *components, knowledge, budgets = self.unpacked(state)
            node = BOTTOM
            for place in range(self._size - 1, 0, -1):
                node = self._saturated(place, {components[place]: node})
            self._put(pending, (knowledge, budgets), self._closed(0, {components[0]: node}))
        while pending:
            (knowledge, budgets), edges = pending.popitem()
            for event in self._some(self._bits(0, edges) & self._begins[AT_TOP]):
                left = self._budget_after(budgets, event.cost) if event.cost else budgets
                if left is None:
                    continue
                after = self._closed(0, self._image(event, 0, edges))
                # Only now is it known that this can be seen.
                known = (
                    knowledge
                    if event.sight is None
                    else self._seen_after(knowledge, event.sight, stop_at_first)
                )
                self._put(pending, (known, left), after)

    def _put(
        self, pending: dict[tuple[int, int], Edges], key: tuple[int, int], edges: Edges
    ) -> None:
        fresh = pending.get(key, {})
        self._merge(1, self._top.setdefault(key, {}), fresh, edges.items())
        if fresh:
            pending[key] = fresh

    def _seen_after(self, knowledge: int, sight: int, stop_at_first: bool) -> int:
        try:
            return self.observed(knowledge, sight)
        except Violation as violation:
            self.note(violation.names)
            if stop_at_first and self.is_decided:
                raise _Ended(FOUND) from None
            return self.observed(knowledge, sight)

    def _budget_after(self, budgets: int, cost: str) -> int | None:
        left = spent(self.budgets.values[budgets], cost, self.bound.kinds)
        return None if left is None else self.budgets.number(left)

    def note(self, names: Sequence[str], state: int = 0) -> None:
        for name in names:
            self.wrong.setdefault(name, FoundViolation(name, state, SOMEWHERE, 0))

    # Events.

    def component_moves(self, place: int, component: int) -> ComponentMoves:
        """Return the moves of a process in a component, as events."""
        self._store(
            COMPONENT + len(self.models[place].components.values[component].inbox) ** 2 // COMPONENT
        )
        moves = self.moves_of(place, component)
        silently: list[int] = []
        events: dict[int, SymbolicEvent] = {}
        for _, target, sends, seen, cost, _, _ in moves:
            if not (sends or seen or cost):
                silently.append(target)
                continue
            key = (place, sends, seen, cost)
            event = self._events.get(key) or self._new_event(key)
            events[event.bit] = event
            event.targets.setdefault(component, []).append(target)
        begin = [
            (event, event.targets[component])
            for event in events.values()
            if event.begins_at == place
        ]
        costly = (
            Counter([move.cost for move in moves if move.cost]) if self.bound.budgets else _FREE
        )
        return ComponentMoves(begin, silently, sum(events), len(moves) - costly.total(), costly)

    def _new_event(self, key: Key) -> SymbolicEvent:
        place, sends, seen, cost = key
        changes = {other: self._bundled[other][bundle] for other, bundle in sends}
        event = self._events[key] = SymbolicEvent(
            len(self._by_bit), place, changes, self.sights.number(seen) if seen else None, cost
        )
        self._by_bit.append(event)
        self._begins[event.begins_at] |= 0 if event.begins_at == place else event.bit
        return event

    def _some(self, bits: int) -> list[SymbolicEvent]:
        found = self._among.get(bits)
        if found is None:
            found = self._among[bits] = [event for event in self._by_bit if event.bit & bits]
        return found

    def _bundled_at(self, place: int, bundle: int) -> Memo[int]:
        return Memo(lambda component: self.models[place].with_bundle(component, bundle))

    # Nodes.

    def _node(self, place: int, key: frozenset[tuple[int, int]], edges: Edges, enabled: int) -> int:
        """Add a node and return its number."""
        number = self._nodes[place][key] = len(self._edges)
        self._edges.append(edges)
        self._enabled.append(enabled)
        self._places.append(place)
        self._store(len(edges))
        return number

    def _store(self, edges: int) -> None:
        self._stored += edges
        if self._stored >= self._next_look:
            self._look()

    def _union(self, place: int, one: int, other: int) -> int:
        if one == other:
            return one
        pair = (one, other) if one < other else (other, one)
        found = self._unions.get(pair)
        if found is None:
            more, less = self._edges[one], self._edges[other]
            if len(more) < len(less):
                more, less = less, more
            edges = more.copy()
            for component, node in less.items():
                before = edges.get(component)
                if before is None:
                    edges[component] = node
                elif before != node:
                    edges[component] = self._union(place + 1, before, node)
            key = frozenset(edges.items())
            found = self._nodes[place].get(key)
            if found is None:
                found = self._node(place, key, edges, self._enabled[one] | self._enabled[other])
            self._unions[pair] = found
        return found

    def _fired(self, event: SymbolicEvent, place: int, node: int) -> int:
        """Return the successors of an event for a node that has states with it.

        The result is not cached yet.
        """
        found = event.fired[node] = self._saturated(
            place, self._image(event, place, self._edges[node])
        )
        return found

    def _image(self, event: SymbolicEvent, place: int, edges: Edges) -> Edges:
        fired, bit, enabled = event.fired, event.bit, self._enabled
        is_last, below = place == event.last, place + 1
        after: Edges = {}
        if place == event.mover:
            targets = event.targets
            for component, node in edges.items():
                if component in targets:
                    reached = (
                        node if is_last else fired.get(node) or self._fired(event, below, node)
                    )
                    for target in targets[component]:
                        before = after.get(target)
                        after[target] = (
                            reached if before is None else self._union(below, before, reached)
                        )
        else:
            is_above = place < event.mover
            changed = event.changes.get(place)
            for component, node in edges.items():
                if is_above and not enabled[node] & bit:
                    continue
                reached = node if is_last else fired.get(node) or self._fired(event, below, node)
                target = component if changed is None else changed[component]
                before = after.get(target)
                after[target] = reached if before is None else self._union(below, before, reached)
        return after

    def _saturated(self, place: int, edges: Edges) -> int:
        """Return the node of these edges, with all successors of its events.

        The nodes below must be saturated.
        """
        key = frozenset(edges.items())
        found = self._nodes[place].get(key)
        if found is None:
            whole = self._closed(place, edges)
            full = frozenset(whole.items())
            found = self._nodes[place].get(full)
            if found is None:
                found = self._node(place, full, whole, self._bits(place, whole))
            self._nodes[place][key] = found
        return found

    def _closed(self, place: int, edges: Edges) -> Edges:
        """Return these edges and the successors of all events that begin here or below."""
        below, enabled, begins = place + 1, self._enabled, self._begins
        moves_in, among = self._component_moves[place], self._among
        whole = edges.copy()
        pending = edges.copy()  # what has come to a component since its events were last fired
        while pending:
            component, node = pending.popitem()
            begin, silently, _, _, _ = moves_in[component]
            reached: list[tuple[int, int]] = []
            for target in silently:
                if target not in whole:
                    whole[target] = pending[target] = node
                elif whole[target] != node:
                    reached.append((target, node))
            for event, targets in begin:
                after = event.fired.get(node) or self._fired(event, below, node)
                reached += [(target, after) for target in targets]
            begun = enabled[node] & begins[place]
            if begun:
                for event in among.get(begun) or self._some(begun):
                    reached.append(
                        (
                            event.changes[place][component],
                            event.fired.get(node) or self._fired(event, below, node),
                        )
                    )
            if reached:
                self._merge(below, whole, pending, reached)
        return whole

    def _merge(
        self, below: int, whole: Edges, pending: Edges, edges: Iterable[tuple[int, int]]
    ) -> None:
        """Add edges to those of a node, and new ones to the edges still to be processed."""
        for component, node in edges:
            before = whole.get(component)
            if before is None:
                whole[component] = pending[component] = node
            elif before != node:
                after = self._union(below, before, node)
                if after != before:
                    whole[component] = after
                    pending[component] = (
                        self._union(below, pending[component], node)
                        if component in pending
                        else node
                    )

    def _bits(self, place: int, edges: Edges) -> int:
        """Return the events that some state behind these edges has."""
        moves_in, enabled, bits = self._component_moves[place], self._enabled, 0
        for component, node in edges.items():
            bits |= moves_in[component].bits | enabled[node]
        return bits

    # Sizes of the sets.

    def _nodes_below_top(self) -> list[int]:
        """Return all nodes of the diagrams, each after those below it."""
        found = dict[int, None]()
        level = dict.fromkeys([node for edges in self._top.values() for node in edges.values()])
        while level and BOTTOM not in level:
            found |= level
            level = dict.fromkeys([below for node in level for below in self._edges[node].values()])
        return sorted(found)  # a node is made after those below it

    def _count(self) -> None:
        """Count the known states, the steps from them, and the states at rest."""
        known = {BOTTOM: Counts(1, 0, 1, _FREE)}
        for node in self._nodes_below_top():
            known[node] = self._counts(self._places[node], self._edges[node], known)
        at_top = {key: self._counts(0, edges, known) for key, edges in self._top.items()}
        self.extent.states = sum([each.states for each in at_top.values()])
        self.extent.transitions = sum([each.steps for each in at_top.values()])
        for (_, budgets), each in at_top.items():
            self.extent.transitions += sum(
                [
                    many
                    for kind, many in each.costly.items()
                    if self._budget_after(budgets, kind) is not None
                ]
            )
        self.resting = sum([each.rests for each in at_top.values()])
        self._rested = [knowledge for (knowledge, _), each in at_top.items() if each.rests]

    def _counts(self, place: int, edges: Edges, known: Mapping[int, Counts]) -> Counts:
        moves_in, is_active = self._component_moves[place], self.models[place].is_active
        states = steps = rests = 0
        costly: Counter[str] = Counter()
        for component, node in edges.items():
            below, doing = known[node], moves_in[component]
            states += below.states
            steps += below.steps + doing.moves * below.states
            if below.rests and not is_active(component):
                rests += below.rests
            if self.bound.budgets:
                costly += below.costly
                for kind, many in doing.costly.items():
                    costly[kind] += many * below.states
        return Counts(states, steps, rests, costly)


class Counts(NamedTuple):
    """Numbers of states and steps of a set of states."""

    states: int
    steps: int  # that lead from them and cost nothing
    rests: int  # states in which only voluntary steps are possible
    costly: Counter[str]  # steps with a cost, by cost


class _Ended(Exception):
    """The search ended early; the message contains the reason."""


__all__ = ["SymbolicSearch"]
