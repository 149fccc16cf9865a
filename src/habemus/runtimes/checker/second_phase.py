"""Liveness under eventual synchrony: the second phase of a search, in which timers run on.

The first phase is the search within its bound.  At some moment the system becomes synchronous, and
no fault occurs any more.  From then on time passes only while no message is in flight and no
application is inside the critical section, and timers expire in the order of their lengths,
without a limit on their number.  Timers that were set before are due at once, in any order, unless
the first phase knew the time that they have left.

A state is followed only while it has a pending obligation, so counters that grow with every timeout
do no harm as long as every run fulfils its obligations in the end.  If the properties are about the
end of a run, every state is followed.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from time import monotonic
from typing import NamedTuple

from habemus.core.model import ClientModel, ExternalEvent, Knowledge, Observer
from habemus.core.process import ProcessId
from habemus.core.system import System
from habemus.runtimes.checker.fairness import has_endless_messages
from habemus.runtimes.checker.process_model import (
    FAILED,
    Bound,
    Component,
    Label,
    Move,
    Numbered,
    PendingTimer,
    process_models,
)
from habemus.runtimes.checker.search import INTERRUPTED, GlobalStep, Search

BITS = 24
"""Width of one field of a packed state."""
MASK = (1 << BITS) - 1
AT_ONCE = 5_000
"""States between two reports of progress."""

DRAWS_GO_ON = "random draws can go on"

Obligation = tuple[str, ProcessId]
Replant = Callable[[ProcessId, tuple[PendingTimer, ...]], tuple[PendingTimer, ...]]
"""Function that changes the timers of a process when the second phase begins."""


class _Fields(NamedTuple):
    """The moves of a process in a component."""

    urgent: list[Move]  # receipts, and steps of the application that it makes before time passes
    voluntary: list[Move]
    due: list[Move]  # timers
    wait: int | None  # time until its next timer expires; None: it has none


class SecondPhase:
    """The graph of the second phase, with its states numbered in the order of discovery."""

    def __init__(
        self,
        first: Search,
        system: System,
        uses: Mapping[ProcessId, ClientModel],
        observer: Observer,
        *,
        everything: bool = False,
        asking: bool = False,
        replant: Replant | None = None,
        up: ProcessId | None = None,
        draws: int | None = None,
    ) -> None:
        """`everything`: follow states without pending obligations too.  `asking`: applications make
        new requests in the second phase, because they ask without end.  `up`: a process that is up
        when the second phase begins.  `draws`: states are followed until so many steps have drawn
        at random; None: for ever.
        """
        self.first = first
        self.system = system
        self.observer = observer
        self.bound = Bound(fifo=first.bound.fifo, merging=first.bound.merging, synchronous=True)
        self.models = process_models(system, uses, self.bound)
        self.knowledge: Numbered[Knowledge] = Numbered()
        self.sights: Numbered[tuple[ExternalEvent, ...]] = Numbered()
        self.everything = everything
        self.asking = asking
        self.replant = replant
        self.up = up
        self.draws = draws
        self.states: list[int] = []
        self.origins: dict[int, int] = {}  # of states in which it begins, those of the first phase
        self.complete = False
        self.stopped = ""
        self.seconds = 0.0
        self._size = len(self.models)
        self._positions: dict[int, int] = {}
        self._frontier: deque[int] = deque()  # states to expand
        self._after_a_draw: deque[int] = deque()  # states to expand when these are done
        self._drawn = 0  # draws that lead to the frontier
        self._expanded = 0  # how many states are
        self._edges = array("q")  # targets, of all expanded states one after the other
        self._first_edge = array("q")  # by state; -1: it is not expanded
        self._last_edge = array("q")
        self._fields: list[dict[int, _Fields]] = [{} for _ in self.models]
        self._bundled: list[dict[tuple[int, int], int]] = [{} for _ in self.models]
        self._observed: dict[tuple[int, int], int] = {}
        self._unfulfilled: list[frozenset[Obligation]] = []
        bound = first.bound
        self.quiet = not (
            bound.receipts_by_name or bound.draws_are_bounded or has_endless_messages(first)
        )
        self._begun: list[dict[int, int | None]] = [{} for _ in self.models]

    # The beginning.

    def begin_at(self, states: Sequence[int]) -> None:
        """Begin the second phase in these states of the first.

        If every message is received in the end, it begins where none is in flight and no
        application is inside: a run of the first phase leads there from every other state.
        """
        known: dict[int, int] = {}
        for state in states:
            *numbers, knowledge, _ = self.first.unpacked(state)
            begun: list[int] = []
            for place, number in enumerate(numbers):
                component = self._begun[place].get(number, -1)
                if component == -1:
                    component = self._begun[place][number] = self._component(place, number)
                if component is None:
                    break
                begun.append(component)
            else:
                translated = known.get(knowledge)
                if translated is None:
                    value = self.first.knowledge.values[knowledge]
                    translated = known[knowledge] = self._known(self.observer.pending(value))
                if self.everything or self._unfulfilled[translated]:
                    packed = self._packed(begun, translated)
                    if packed not in self.origins:
                        self.origins[packed] = state
                        self._frontier.append(self._number(packed))

    def _component(self, place: int, number: int) -> int | None:
        """Return the component of the second phase for one of the first; None if it does not begin
        there.
        """
        before, after = self.first.models[place], self.models[place]
        component = before.components.values[number]
        if not component.up and self.up == before.process:
            return None
        if component.up and component.inbox and self.quiet:
            return None
        inbox: tuple[int, ...] = ()
        for message in component.inbox if component.up else ():
            value = before.messages.values[message]._replace(known=0)
            inbox = after.with_message(inbox, after.messages.number(value))
        pending = before.timers.values[component.timers]
        if self.replant is not None and component.up:
            pending = self.replant(after.process, pending)
        found = after.components.number(
            Component(
                after.states.number(before.states.values[component.node]),
                inbox,
                after.timers.number(tuple(sorted(pending))),
                after.uses.number(before.uses.values[component.use]),
                component.up,
            )
        )
        is_quiet = not self._fields_of(place, found).urgent
        return found if is_quiet or not self.quiet else None

    # States.

    def _packed(self, numbers: Sequence[int], knowledge: int) -> int:
        state = knowledge
        for number in numbers:
            state = state << BITS | number
        return state

    def unpacked(self, state: int) -> list[int]:
        """Return the components of a state, and the number of the knowledge."""
        numbers = [state >> BITS * place & MASK for place in reversed(range(self._size))]
        return [*numbers, state >> BITS * self._size]

    def _number(self, state: int) -> int:
        position = self._positions.get(state)
        if position is None:
            position = self._positions[state] = len(self.states)
            self.states.append(state)
            self._first_edge.append(-1)
            self._last_edge.append(-1)
        return position

    def _known(self, knowledge: Knowledge) -> int:
        number = self.knowledge.number(knowledge)
        if number == len(self._unfulfilled):
            self._unfulfilled.append(frozenset(self.observer.unfulfilled(knowledge)))
        return number

    def unfulfilled(self, position: int) -> frozenset[Obligation]:
        """Return the pending obligations in a state."""
        return self._unfulfilled[self.states[position] >> BITS * self._size]

    def at_rest(self, position: int) -> Sequence[str]:
        """Return the properties that are violated if the state is the end of a run."""
        knowledge = self.states[position] >> BITS * self._size
        return self.observer.at_rest(self.knowledge.values[knowledge])

    def shown(self) -> set[str]:
        """Return the properties about events that have happened."""
        return {
            name
            for sight in self.sights.values
            for seen in sight
            for name in self.observer.shown(seen)
        }

    def following(self, position: int) -> Sequence[int]:
        return self._edges[self._first_edge[position] : self._last_edge[position]]

    def position_of(self, state: int) -> int:
        return self._positions[state]

    def is_expanded(self, position: int) -> bool:
        return self._first_edge[position] >= 0

    @property
    def beginnings(self) -> list[int]:
        """The positions of the states in which the phase begins."""
        return [self._positions[state] for state in self.origins]

    def has_timers(self, position: int) -> bool:
        """Return whether a timer is set in a state."""
        return any(
            model.components.values[number].timers
            for model, number in zip(
                self.models, self.unpacked(self.states[position]), strict=False
            )
        )

    # Steps.

    def _fields_of(self, place: int, number: int) -> _Fields:
        found = self._fields[place].get(number)
        if found is None:
            model = self.models[place]
            moves = model.moves(number)
            timers = [move for move in moves if move.label.kind == "timer"]
            others = [move for move in moves if move.label.kind != "timer"]
            found = self._fields[place][number] = _Fields(
                [move for move in others if not move.voluntary],
                [move for move in others if move.voluntary] if self.asking else [],
                timers,
                model.next_timeout(number),
            )
        return found

    def _moves(self, numbers: Sequence[int]) -> list[tuple[int, Move]]:
        """Return the moves in a state, with their places; none if time passes."""
        fields = [self._fields_of(place, numbers[place]) for place in range(self._size)]
        moves = [(place, move) for place, each in enumerate(fields) for move in each.urgent]
        if not moves:
            moves = [(place, move) for place, each in enumerate(fields) for move in each.due]
        return moves + [
            (place, move) for place, each in enumerate(fields) for move in each.voluntary
        ]

    def _after_time(self, numbers: Sequence[int]) -> list[int] | None:
        """Return the components when the next timer expires; None if no timer is set."""
        waits = [self._fields_of(place, numbers[place]).wait for place in range(self._size)]
        time = min((wait for wait in waits if wait is not None), default=0)
        if time == 0:
            return None
        return [
            numbers[place] if waits[place] is None else model.after(numbers[place], time)
            for place, model in enumerate(self.models)
        ]

    def _target(self, place: int, move: Move, numbers: Sequence[int], knowledge: int) -> int:
        after = list(numbers)
        after[place] = move.target
        for other, bundle in move.sends:
            table = self._bundled[other]
            received = table.get((after[other], bundle))
            if received is None:
                received = self.models[other].with_bundle(after[other], bundle)
                table[after[other], bundle] = received
            after[other] = received
        return self._packed(after, self._seen(knowledge, move.seen) if move.seen else knowledge)

    def _seen(self, knowledge: int, seen: tuple[ExternalEvent, ...]) -> int:
        sight = self.sights.number(seen)
        found = self._observed.get((knowledge, sight))
        if found is None:
            known = self.knowledge.values[knowledge]
            for event in seen:
                if event.kind == FAILED:
                    raise self._failure(event)
                known, _ = self.observer.sees(known, event)
            found = self._observed[knowledge, sight] = self._known(self.observer.pending(known))
        return found

    def _failure(self, event: ExternalEvent) -> Exception | SystemExit:
        """Return the exception that a handler has raised."""
        model = next(model for model in self.models if model.process == event.process)
        return model.failures[event.name]

    def steps(self, state: int) -> Iterator[GlobalStep]:
        """Yield all steps from a state."""
        *numbers, knowledge = self.unpacked(state)
        moves = self._moves(numbers)
        for place, move in moves:
            target = self._target(place, move, numbers, knowledge)
            yield GlobalStep(place, move.label, target, move.seen, move.voluntary)
        if all(move.voluntary for _, move in moves):
            later = self._after_time(numbers)
            if later is not None:
                yield GlobalStep(-1, Label("pass"), self._packed(later, knowledge))

    # The search.

    def run(self, limit: int, progress: Callable[[int, int], None] | None = None) -> None:
        """Follow all states, or as many as the limits allow; call it again to go on."""
        began = monotonic() - self.seconds
        self.stopped = ""
        try:
            while self._frontier and (self.draws is None or self._drawn <= self.draws):
                self._follow(limit, progress)
                if self.stopped:
                    return
                self._frontier, self._after_a_draw = self._after_a_draw, deque()
                self._drawn += 1
            self.complete = all(map(self.is_expanded, self._frontier))
            self.stopped = "" if self.complete else DRAWS_GO_ON
        except KeyboardInterrupt:
            self.stopped = INTERRUPTED
        finally:
            self.seconds = monotonic() - began

    def _follow(self, limit: int, progress: Callable[[int, int], None] | None) -> None:
        """Follow the states that no further draw leads to."""
        while self._frontier:
            if self._expanded % AT_ONCE == 0 and progress is not None:
                progress(self._expanded, len(self.states))
            if len(self.states) > limit:
                self.stopped = f"the limit of {limit:,} states was reached"
                return
            position = self._frontier.popleft()
            if not self.is_expanded(position):
                self._expand(position)

    def _expand(self, position: int) -> None:
        """Expand a state.  States after a draw are followed later than others."""
        state = self.states[position]
        self._first_edge[position] = len(self._edges)
        found: dict[int, None] = {}
        if self.everything or self._unfulfilled[state >> BITS * self._size]:
            for step in self.steps(state):
                known = len(self.states)
                target = self._number(step.target)
                found[target] = None
                if self.draws is not None and step.label.choices:
                    self._after_a_draw.append(target)
                elif target == known or (self.draws is not None and not self.is_expanded(target)):
                    self._frontier.append(target)
            self._edges.extend(found)
        self._last_edge[position] = len(self._edges)
        self._expanded += 1

    def path_to(self, position: int) -> list[int]:
        """Return the states from a beginning of the phase to this one."""
        came = array("L", [0]) * len(self.states)
        beginnings = self.beginnings
        reached = bytearray(len(self.states))
        for each in beginnings:
            reached[each] = 1
        queue = beginnings
        for at in queue:
            if at == position:
                break
            for target in self.following(at) if self.is_expanded(at) else ():
                if not reached[target]:
                    reached[target] = 1
                    came[target] = at
                    queue.append(target)
        path = [position]
        while self.states[path[-1]] not in self.origins:
            path.append(came[path[-1]])
        return [self.states[each] for each in reversed(path)]


def step_key(step: GlobalStep) -> Hashable:
    """Return the event of a step, without the outcome of its random choices."""
    return (step.place, step.label.kind, step.label.what)


__all__ = ["DRAWS_GO_ON", "Obligation", "Replant", "SecondPhase", "step_key"]
