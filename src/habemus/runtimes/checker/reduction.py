"""Partial-order reduction: of steps that commute, only one order is explored.

A message whose receipt is quiet, that is, invisible from outside, can be received at once if its
receipt commutes with every other step of the receiver: in either order, the two lead to the same
component, with the same messages sent in the same order to each process.  Steps of different
processes always commute.

The steps that a process *may* take include receipts of messages that have not been sent yet, and
these are unknown.  Receipts are therefore judged by their class: the kind of message, the messages
sent in return, and the state of the application.  A class is used only while no receipt of it, in
any component that the search has reached, was found not to commute with another step there.  A
search that receives messages at once does not reach components in which they wait, so the first
states are explored without doing so.  When a class that was used turns out not to commute, the
search starts over without it.

This argument is no proof.  So the reduction is off by default, and tests compare it with the full
search on every algorithm and on every planted bug.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeAlias

from habemus.core.model import ClientModel, Observer
from habemus.core.process import ProcessId
from habemus.core.system import System
from habemus.runtimes.checker.merging import MergingSearch
from habemus.runtimes.checker.process_model import Bound, Label, Move
from habemus.runtimes.checker.search import Extent, Search

Class: TypeAlias = Hashable

LOOK = 30_000
"""States that are visited first, to see which receipts do not commute."""


class CannotReduce(ValueError):
    """The reduction does not apply; the message contains the reason."""


class _StartOver(Exception):
    """A class that was used turned out not to commute."""


class ReducedSearch(MergingSearch):
    """Breadth-first search over the states without quiet receipts, which are taken at once."""

    description = "breadth first, quiet receipts at once (validated, not proved)"

    def __init__(
        self,
        system: System,
        uses: Mapping[ProcessId, ClientModel],
        observer: Observer,
        bound: Bound,
    ) -> None:
        if bound.synchronous:
            raise CannotReduce("while time passes for all, no step is independent of the others")
        self.used: set[Class] = set()
        self.refuted: set[Class] = set()
        self.rounds = 1
        super().__init__(system, uses, observer, bound)
        self._uses = uses
        self._quiet: list[dict[int, list[tuple[Move, Class]]]] = [{} for _ in self.models]

    def run(
        self,
        limit: int | None = None,
        stop_at_first: bool = True,
        progress: Callable[[Extent], None] | None = None,
    ) -> Extent:
        self._look_around()
        while True:
            try:
                return super().run(limit, stop_at_first, progress)
            except _StartOver:
                self.rounds += 1
                self.used -= self.refuted
                self.extent = Extent()
                self.wrong = dict(self._wrong_at_start)
                self._fresh.clear()
                self.resting = 0

    def _look_around(self) -> None:
        """Visit the first states without reduction, and judge the receipts of their components."""
        around = Search(self.system, self._uses, self.observer, self.bound, self.models)
        around.run(LOOK, stop_at_first=False)
        for place in range(self._size):
            for component, _ in list(around.known_moves(place)):
                self._quiet_receipts(place, component)

    def standing_for(self, state: int) -> int:
        return self.settled(state)[-1]

    def settled(self, state: int) -> list[int]:
        """Return the states from this one on, one quiet receipt after the other, until none is
        left.
        """
        chain = [state]
        while (following := self._taken_at_once(chain[-1])) is not None:
            if following in chain:
                # round in a loop: nothing is left out, for the last state of the chain is visited
                break
            chain.append(following)
        return chain

    def _taken_at_once(self, state: int) -> int | None:
        """Return the state after the first quiet receipt."""
        numbers = self.unpacked(state)
        for place in range(self._size):
            for move, class_ in self._quiet_receipts(place, numbers[place]):
                if class_ in self.refuted:
                    continue
                target = state + self.difference(place, numbers[place], move.target)
                for changed, differences in self.changes(move):
                    target += differences[numbers[changed]]
                self.used.add(class_)
                return target
        return None

    def path_to(self, state: int) -> list[int]:
        """Return the path to a state, with the quiet receipts in between."""
        chain = super().path_to(state)
        path = [chain[0]]
        for following in chain[1:]:
            path += next(
                way
                for way in (self.settled(step.target) for step in self.steps(path[-1]))
                if way[-1] == following
            )
        return path

    def _quiet_receipts(self, place: int, component: int) -> list[tuple[Move, Class]]:
        known = self._quiet[place].get(component)
        if known is not None:
            return known
        moves = self.moves_of(place, component)
        found = []
        for move in moves:
            if (
                move.label.kind != "receive"
                or move.seen
                or move.label.choices
                or move.label.torn is not None
            ):
                continue
            class_ = self._class_of(place, component, move)
            others = [other for other in moves if other is not move]
            if all(self._makes_no_difference(place, move, other) for other in others):
                found.append((move, class_))
            elif class_ not in self.refuted:
                self.refuted.add(class_)
                if class_ in self.used:
                    raise _StartOver
        self._quiet[place][component] = found
        return found

    def _class_of(self, place: int, component: int, move: Move) -> Class:
        model = self.models[place]
        pending = move.label.what
        messages = model.messages
        sent = tuple(
            type(messages.values[number].message)
            for _, bundle in move.sends
            for number in messages.bundles.values[bundle]
        )
        return (
            type(model.stack.plan),
            pending.port,
            type(pending.message),
            sent,
            model.use_of(component),
        )

    def _makes_no_difference(self, place: int, move: Move, other: Move) -> bool:
        """Whether two moves commute."""
        after_move = self._same_event(place, move.target, other.label)
        after_other = self._same_event(place, other.target, move.label)
        if after_move is None or after_other is None or after_move.target != after_other.target:
            return False
        if move.seen + after_move.seen != other.seen + after_other.seen:
            return False
        return self._sent(move, after_move) == self._sent(other, after_other)

    def _same_event(self, place: int, component: int, label: Label) -> Move | None:
        return next((each for each in self.moves_of(place, component) if each.label == label), None)

    def _sent(self, first: Move, second: Move) -> dict[int, list[int]]:
        """Return the messages to each other process, in order if links are FIFO."""
        sent: dict[int, list[int]] = {}
        for move in (first, second):
            for to, bundle in move.sends:
                sent.setdefault(to, []).extend(self.models[to].messages.bundles.values[bundle])
        return sent if self.bound.fifo else {to: sorted(numbers) for to, numbers in sent.items()}


__all__ = ["CannotReduce", "ReducedSearch"]
