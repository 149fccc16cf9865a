"""A search that follows a run over an abstract component, with the real component in its place.

The steps of the algorithm above are given: their processes, kinds and messages, in this order.
Between them the real component may take any steps.  Where the abstract component has indicated
something, the real one must too, and it may indicate more.  On links that keep the order, messages
that are in the way of others may arrive too.  Terms, tokens and the like may have other values,
so messages are compared by type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from habemus.core.node import Broadcast, Send
from habemus.runtimes.checker.counterexample import step_between
from habemus.runtimes.checker.process_model import PendingMessage, PendingTimer
from habemus.runtimes.checker.search import GlobalStep, Search, TooNarrow, Violation

INDICATION = "indication"


class GuidingStep(NamedTuple):
    """A step that the algorithm above notices."""

    place: int
    kind: str  # of the label, or an indication of the component
    name: str = ""  # of the request, message or timer
    sender: int | None = None
    torn: bool = False


class GuidedSearch:
    """Search for a violation of a property along the steps of another search."""

    def __init__(self, search: Search, guide: Sequence[GuidingStep], part: str) -> None:
        self.search = search
        self.guide = guide
        self.part = part  # the path of the component
        self.states = 0  # visited
        self._at_once = True  # messages of the component are received before all other steps
        # On links that keep the order, messages of the component may be behind others.
        self._extra = (INDICATION, "receive") if search.bound.fifo else (INDICATION,)

    def path_to(self, name: str, limit: int) -> list[int] | None:
        """Return a path to a violation of the property; None if none was found in so many states.

        At first messages of the component that the algorithm above does not notice are received at
        once, since most elections come to an end if all messages arrive; then at any moment.
        """
        for self._at_once in (True, False):
            while True:
                try:
                    found = self._path_to(name, limit // 2)
                    break
                except TooNarrow as narrow:
                    self.search.make_room(narrow.place)
            if found is not None:
                return found
        return None

    def _path_to(self, name: str, limit: int) -> list[int] | None:
        """Visit the positions of the guide in turn, one state of each: the most advanced may be a
        dead end, in which another leader than that of the guide was elected.  Of the states of a
        position those with the fewest deviations from the guide come first, of these the deepest.
        """
        before: dict[tuple[int, int], tuple[int, int] | None] = {}
        heaps: list[list[tuple[int, int, int, int]]] = [[] for _ in range(len(self.guide) + 1)]
        for state in self.search.initials:
            before[state, 0] = None
            heappush(heaps[0], (0, 0, len(before), state))
        while any(heaps) and len(before) <= limit:
            for position in reversed(range(len(heaps))):
                if not heaps[position]:
                    continue
                deviations, depth, _, state = heappop(heaps[position])
                here = (state, position)
                for step, after, deviates in self._steps(state, position):
                    there = (step.target, after)
                    if name in self.search.violations_of(state, step):
                        before.setdefault(there, here)
                        self.states += len(before)
                        return [*_path(before, here), step.target]
                    if there not in before:
                        before[there] = here
                        ranked = (deviations + deviates, depth - 1, len(before), step.target)
                        heappush(heaps[after], ranked)
        self.states += len(before)
        return None

    def _steps(self, state: int, position: int) -> Iterator[tuple[GlobalStep, int, bool]]:
        """Yield the steps that the guide allows, with the position in the guide afterwards, and
        whether they deviate from it.
        """
        wanted = self.guide[position] if position < len(self.guide) else None
        steps = [
            (step, noticed_step(self.search, state, step, self.part))
            for step in _all_steps(self.search, state)
        ]
        unnoticed = [each for each in steps if each[1] is None and each[0].label.kind == "receive"]
        for step, noticed in unnoticed[:1] if self._at_once and unnoticed else steps:
            if noticed is not None and noticed == wanted:
                yield step, position + 1, False
            if noticed is None or noticed.kind in self._extra:
                yield step, position, noticed is not None or step.label.kind == "timer"


def _all_steps(search: Search, state: int) -> list[GlobalStep]:
    """Return all steps, whatever they violate."""
    while True:
        try:
            return list(search.steps(state))
        except Violation as violation:
            search.note(violation.names, state)


def _path(
    before: dict[tuple[int, int], tuple[int, int] | None], last: tuple[int, int]
) -> list[int]:
    path: list[int] = []
    at: tuple[int, int] | None = last
    while at is not None:
        path.append(at[0])
        at = before[at]
    return path[::-1]


def guide_of(search: Search, path: Sequence[int], part: str) -> list[GuidingStep]:
    """Return the steps along a path that the algorithm above the component notices."""
    steps = (
        noticed_step(search, state, step_between(search, state, target), part)
        for state, target in pairwise(path)
    )
    return [step for step in steps if step is not None]


def noticed_step(search: Search, state: int, step: GlobalStep, part: str) -> GuidingStep | None:
    """Return the step as the algorithm above the component notices it; None if it does not."""
    label, place = step.label, step.place
    what = label.what
    torn = label.torn is not None
    if place < 0:
        return None
    if isinstance(what, PendingMessage | PendingTimer) and _is_in(
        search.models[place].paths()[what.port], part
    ):
        is_noticed = torn or _reaches_above(search, state, step, part)
        return GuidingStep(place, INDICATION, torn=torn) if is_noticed else None
    if isinstance(what, PendingMessage):
        return GuidingStep(place, label.kind, type(what.message).__name__, what.sender, torn)
    if isinstance(what, PendingTimer):
        return GuidingStep(place, label.kind, type(what.timer).__name__, None, torn)
    return GuidingStep(place, label.kind, what.name if what is not None else "", None, torn)


def _is_in(path: str, part: str) -> bool:
    return path == part or path.startswith(f"{part}.")


def _reaches_above(search: Search, state: int, step: GlobalStep, part: str) -> bool:
    """Whether a step of the component changes, or sends something for, the algorithm above it."""
    model = search.models[step.place]
    before = search.unpacked(state)[step.place]
    after = search.unpacked(step.target)[step.place]
    paths = model.paths()
    above = [port for port, path in enumerate(paths) if not _is_in(path, part)]
    if any(model.state_of(before)[port] != model.state_of(after)[port] for port in above):
        return True
    return any(
        effect.port in above
        for effect in model.effects(before, step.label)
        if isinstance(effect, Send | Broadcast)
    )


__all__ = ["GuidedSearch", "GuidingStep", "guide_of"]
