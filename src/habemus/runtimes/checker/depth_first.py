"""Depth-first search, which keeps the visited states and the current path only.

It needs the least memory and reaches deep states soon.  The paths that it finds are longer than
necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import monotonic

from habemus.core.model import ClientModel, Observer
from habemus.core.process import ProcessId
from habemus.core.system import System
from habemus.runtimes.checker.process_model import Bound
from habemus.runtimes.checker.search import (
    CHUNK,
    INTERRUPTED,
    Extent,
    FoundViolation,
    Search,
    TooNarrow,
    Violation,
)


class DepthFirstSearch(Search):
    description = "depth first"
    keeps_states = False

    def __init__(
        self,
        system: System,
        uses: Mapping[ProcessId, ClientModel],
        observer: Observer,
        bound: Bound,
    ) -> None:
        super().__init__(system, uses, observer, bound)
        self._visited: set[int] = set()
        self._paths: dict[int, list[int]] = {}  # to the states in which something is wrong

    def run(
        self,
        limit: int | None = None,
        stop_at_first: bool = True,
        progress: Callable[[Extent], None] | None = None,
    ) -> Extent:
        began = monotonic()
        while True:
            try:
                return self._once(limit, stop_at_first, progress, began)
            except TooNarrow as narrow:
                # The current path consists of states in the old packing: start over, with wider
                # fields and all tables filled.
                self.move_packed(self._widen(narrow.place))
                self.extent, self.resting, self._depth = Extent(), 0, 0
                self._visited.clear()
                self._paths.clear()
                self.wrong = dict(self._wrong_at_start)

    def _once(
        self,
        limit: int | None,
        stop_at_first: bool,
        progress: Callable[[Extent], None] | None,
        began: float,
    ) -> Extent:
        extent = self.extent
        try:
            for initial in self.initials:
                extent.stopped = self._down_from(initial, limit, stop_at_first, progress, began)
                if extent.stopped:
                    return extent
            extent.complete = True
        except KeyboardInterrupt:
            extent.stopped = INTERRUPTED
        finally:
            extent.states = len(self._visited)
            extent.seconds = monotonic() - began
        return extent

    def _down_from(
        self,
        initial: int,
        limit: int | None,
        stop_at_first: bool,
        progress: Callable[[Extent], None] | None,
        began: float,
    ) -> str:
        """Search downwards from a state; return why the search stopped, or nothing."""
        extent, path = self.extent, [initial]
        self._visited.add(initial)
        ways = [self._following(path)]
        while ways:
            target = next(ways[-1], None)
            if target is None:
                ways.pop()
                path.pop()
                continue
            extent.transitions += 1
            if target in self._visited:
                continue
            self._visited.add(target)
            path.append(target)
            ways.append(self._following(path))
            self._depth = extent.depth = max(self._depth, len(path) - 1)
            if stop_at_first and self.is_decided:
                return "a property is violated"
            if len(self._visited) % CHUNK == 0:
                extent.states, extent.queue, extent.seconds = (
                    len(self._visited),
                    len(path),
                    monotonic() - began,
                )
                if progress is not None:
                    progress(extent)
            if limit is not None and len(self._visited) > limit:
                return f"the limit of {limit:,} states was reached"
        return "a property is violated" if stop_at_first and self.is_decided else ""

    def _following(self, path: list[int]) -> Iterator[int]:
        """Return the successors of the last state of a path, noting violations."""
        state = path[-1]
        while True:
            try:
                targets = [step.target for step in self.steps(state)]
                break
            except Violation as violation:
                self._paths[state] = list(path)
                for name in violation.names:
                    self.wrong.setdefault(name, FoundViolation(name, state, "step", len(path)))
        if self.is_at_rest(state):
            self.resting += 1
            for name in self.at_rest(state):
                if name not in self.wrong:
                    self._paths[state] = list(path)
                    self.wrong[name] = FoundViolation(name, state, "rest", len(path) - 1)
        return iter(targets)

    def make_room(self, place: int) -> None:
        again = self._widen(place)
        self._visited = {again(each) for each in self._visited}
        self._paths = {
            again(each): [again(one) for one in way] for each, way in self._paths.items()
        }
        self.move_packed(again)

    def path_to(self, state: int) -> list[int]:
        return self._paths.get(state, [state])  # a violation at the start has no path


__all__ = ["DepthFirstSearch"]
