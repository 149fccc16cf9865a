"""Symmetry reduction: states that differ only by a permutation of processes are one.

Processes of the same plan may be exchanged if the algorithm uses their ids only to distinguish
them.  The search checks that: every step that is executed is executed for the renamed process too,
and must do the same, renamed.  If an algorithm compares ids, the first step that does so refuses
the search.  By induction over the steps, the verdicts on the visited states hold for all states
that they represent.

The search visits, of all equivalent states, the one with the smallest number.  It does not judge
loops, because the identity of the waiting process is lost.  Crashes are not allowed either: the
messages left of a step that a crash cuts short depend on the order of sending, which is an order of
ids.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import islice, permutations, product
from typing import Any

from habemus.core.model import ClientModel, Observer, PossibleRequest
from habemus.core.node import Broadcast, Chosen, Effect, Indicate, Send, SetTimer, State
from habemus.core.process import ProcessId
from habemus.core.shapes import Names, renamed_value
from habemus.core.system import System
from habemus.runtimes.checker.merging import MergingSearch
from habemus.runtimes.checker.process_model import (
    Bound,
    Component,
    PendingMessage,
    PendingTimer,
    ProcessModel,
    StepOutcome,
)
from habemus.runtimes.checker.search import TooNarrow

MOST = 720
"""Renamings that are tried for each state."""


class NotSymmetric(ValueError):
    """The processes are not interchangeable; the message contains the reason."""


class SymmetricSearch(MergingSearch):
    """Breadth-first search with one state for all that are equal up to renaming."""

    description = "breadth first, one state for all that are the same up to names"

    def __init__(
        self,
        system: System,
        uses: Mapping[ProcessId, ClientModel],
        observer: Observer,
        bound: Bound,
    ) -> None:
        if bound.order:
            raise NotSymmetric("happened-before is tracked by process ids")
        if bound.budget("crash"):
            raise NotSymmetric(
                "a crash in the middle of a step lets its messages reach some and not others, in"
                " the order of their names"
            )
        self._images: list[list[dict[int, int]]] = []
        self._knowledge_images: list[dict[int, int]] = []
        self._checked: set[tuple[int, int, Hashable]] = set()
        super().__init__(system, uses, observer, bound)
        if not hasattr(observer, "renamed"):
            raise NotSymmetric("the observer of this problem knows processes by their names")
        self.renamings: list[Names] = [
            names for names in _renamings(system) if any(old != new for old, new in names.items())
        ]
        if not self.renamings:
            raise NotSymmetric("no two processes have the same plan and the same neighbours")
        self._images = [[{} for _ in self.models] for _ in self.renamings]
        self._knowledge_images = [{} for _ in self.renamings]
        for place, model in enumerate(self.models):
            model.on_step = self._checking(place)
            model.recheck()
        self.initials = sorted({self.standing_for(state): None for state in self.initials})
        self._starts = {
            state: self._starts.get(state, next(iter(self._starts.values())))
            for state in self.initials
        }

    # Check that every step is the same for the renamed process.

    def _checking(self, place: int) -> Any:
        model = self.models[place]

        def check(state: int, key: Hashable, outcomes: Sequence[StepOutcome]) -> None:
            if (place, state, key) in self._checked:
                return
            self._checked.add((place, state, key))
            for names in self.renamings:
                other = self.models[model.places[names[model.process]]]
                image = other.states.number(renamed_state(model, model.states.values[state], names))
                theirs = other.outcomes_of(image, _renamed_key(key, names))
                mine = [
                    (
                        renamed_state(model, model.states.values[each.node], names),
                        _renamed_effects(each.effects, names, model.peers),
                        each.choices,
                    )
                    for each in outcomes
                ]
                found = [
                    (
                        other.states.values[each.node],
                        _renamed_effects(each.effects, {}, other.peers),
                        each.choices,
                    )
                    for each in theirs
                ]
                if mine != found:
                    raise NotSymmetric(
                        f"process {model.process} and process {other.process} do not do the same,"
                        f" with names exchanged, on {_description(key)}"
                    )

        return check

    # Representatives.

    def standing_for(self, state: int) -> int:
        """Return the smallest of the states that are equal up to renaming."""
        numbers = self.unpacked(state)
        best = state
        for index, names in enumerate(self.renamings):
            image = numbers[self._budget_field] << self._shifts[self._budget_field]
            image += (
                self._renamed_knowledge(index, numbers[self._observer_field], names)
                << self._shifts[self._observer_field]
            )
            for place, model in enumerate(self.models):
                target = model.places[names[model.process]]
                number = self._image(index, place, numbers[place], names)
                if number > self._masks[target]:
                    raise TooNarrow(target)
                image += number << self._shifts[target]
            best = min(best, image)
        return best

    def _image(self, index: int, place: int, number: int, names: Names) -> int:
        found = self._images[index][place].get(number)
        if found is None:
            model = self.models[place]
            other = self.models[model.places[names[model.process]]]
            found = self._images[index][place][number] = _renamed_component(
                model, other, model.components.values[number], names
            )
        return found

    def _renamed_knowledge(self, index: int, knowledge: int, names: Names) -> int:
        found = self._knowledge_images[index].get(knowledge)
        if found is None:
            renamed = self.observer.renamed(self.knowledge.values[knowledge], names)  # type: ignore[attr-defined]  # looked for above
            found = self._knowledge_images[index][knowledge] = self.knowledge.number(renamed)
        if found > self._masks[self._observer_field]:
            raise TooNarrow(self._observer_field)
        return found

    def path_to(self, state: int) -> list[int]:
        """Return a path of real steps whose states are equal, up to renaming, to those that were
        visited.
        """
        chain = super().path_to(state)
        path = [next(each for each in self._starts if self.standing_for(each) == chain[0])]
        for following in chain[1:]:
            path.append(
                next(
                    step.target
                    for step in self.steps(path[-1])
                    if self.standing_for(step.target) == following
                )
            )
        return path


def _renamings(system: System) -> Iterator[Names]:
    """Return all permutations of processes with equal plans, clients and neighbourhoods."""
    groups: dict[tuple[int, bool], list[ProcessId]] = {}
    for process, plan in system.plans.items():
        groups.setdefault((id(plan), process in system.clients), []).append(process)
    neighbours = {process: set(others) for process, others in system.topology.neighbours.items()}
    for images in islice(product(*(permutations(group) for group in groups.values())), MOST):
        names = {
            old: new
            for group, image in zip(groups.values(), images, strict=True)
            for old, new in zip(group, image, strict=True)
        }
        if all(
            {names[each] for each in others} == neighbours[names[process]]
            for process, others in neighbours.items()
        ):
            yield names


def renamed_state(model: ProcessModel, state: State, names: Names) -> State:
    parts = []
    for part, values in zip(model.stack.parts, state, strict=True):
        cls = type(part.plan)
        shapes = [cls.__variables__[name].shape for name in cls.__state_names__]
        parts.append(
            tuple(
                value if shape is None or shape.renamed is None else shape.renamed(value, names)
                for shape, value in zip(shapes, values, strict=True)
            )
        )
    return tuple(parts)


def _renamed_component(
    model: ProcessModel, other: ProcessModel, component: Component, names: Names
) -> int:
    messages = model.messages
    inbox: tuple[int, ...] = ()
    for number in component.inbox:
        pending = messages.values[number]
        inbox = other.with_message(inbox, messages.number(_renamed_message(pending, names)))
    timers = tuple(
        sorted(
            PendingTimer(each.port, renamed_value(each.timer, names), each.left)
            for each in model.timers.values[component.timers]
        )
    )
    return other.components.number(
        component._replace(
            node=other.states.number(
                renamed_state(model, model.states.values[component.node], names)
            ),
            inbox=inbox,
            timers=other.timers.number(timers),
            use=other.uses.number(model.uses.values[component.use]),
        )
    )


def _renamed_message(pending: PendingMessage, names: Names) -> PendingMessage:
    return pending._replace(
        sender=names.get(pending.sender, pending.sender),
        message=renamed_value(pending.message, names),
    )


def _renamed_key(key: Hashable, names: Names) -> Hashable:
    match key:
        case PossibleRequest() | str():
            return key
        case (int() as sender, int() as port, message):
            return (names.get(sender, sender), port, renamed_value(message, names))
        case (int() as port, timer):
            return (port, renamed_value(timer, names))
    raise AssertionError(f"an event of an unknown kind: {key!r}")


def _renamed_effects(
    effects: Sequence[Effect], names: Names, peers: Sequence[ProcessId]
) -> tuple[Any, ...]:
    """Return the messages to each receiver, in order, and the other effects, in order.

    The order of sends to different receivers does not matter.
    """
    sent: dict[ProcessId, list[Any]] = {}
    rest: list[Any] = []
    for effect in effects:
        match effect:
            case Send(port, to, message):
                sent.setdefault(names.get(to, to), []).append((port, renamed_value(message, names)))
            case Broadcast(port, message):
                for peer in peers:
                    sent.setdefault(names.get(peer, peer), []).append(
                        (port, renamed_value(message, names))
                    )
            case Indicate(indication):
                rest.append(renamed_value(indication, names))
            case SetTimer(port, timer, after):
                rest.append((port, renamed_value(timer, names), after))
            case Chosen():
                rest.append(effect)
            case _:
                rest.append((effect.port, renamed_value(effect.timer, names)))
    return tuple(sorted((to, tuple(messages)) for to, messages in sent.items())), tuple(rest)


def _description(key: Hashable) -> str:
    match key:
        case PossibleRequest() as asking:
            return asking.name
        case (int() as sender, int(), message):
            return f"{message!r} from {sender}"
        case (int(), timer):
            return f"timer {timer!r}"
    return str(key)


__all__ = ["NotSymmetric", "SymmetricSearch"]
