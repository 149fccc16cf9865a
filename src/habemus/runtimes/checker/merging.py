"""Searches in which one state stands for many: they differ only in which."""

from __future__ import annotations

from abc import abstractmethod

from habemus.runtimes.checker.search import Interrupted, Search, TooNarrow, Violation


class MergingSearch(Search):
    """Breadth first, over the states that stand for others.  Slower for each state, so it pays where they are far fewer."""

    keeps_states = False

    @abstractmethod
    def standing_for(self, state: int) -> int:
        """The state that is visited in the place of another."""

    def _expand(self, position: int, end: int) -> int:
        fresh, parents = self._fresh, self.parents
        try:
            for state in self._frontier[position:end]:
                made = 0
                for step in self.steps(state):
                    made += 1
                    target = self.standing_for(step.target)
                    if target not in fresh and target not in parents:
                        fresh[target] = state
                self.extent.transitions += made
                if self.is_at_rest(state):
                    self._rest(state)
                position += 1
        except (TooNarrow, Violation) as cause:
            raise Interrupted(position) from cause
        return position
