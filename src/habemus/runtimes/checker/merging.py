"""Searches that visit one representative of many equivalent states."""

from __future__ import annotations

from abc import abstractmethod

from habemus.runtimes.checker.search import Interrupted, Search, TooNarrow, Violation


class MergingSearch(Search):
    """Breadth-first search over representatives.

    Each state costs more, so it pays where representatives are far fewer than states.
    """

    keeps_states = False

    @abstractmethod
    def standing_for(self, state: int) -> int:
        """Return the representative of a state."""

    def leads_to(self, state: int, target: int) -> bool:
        return any(self.standing_for(step.target) == target for step in self.steps(state))

    def _expand(self, chunk: list[int]) -> int:
        fresh, seen = self._fresh, self._seen
        done = 0
        try:
            for state in chunk:
                made = 0
                for step in self.steps(state):
                    made += 1
                    target = self.standing_for(step.target)
                    if not any(target in part for part in seen):
                        fresh[target] = None
                self.extent.transitions += made
                if self.is_at_rest(state):
                    self._rest(state)
                done += 1
        except (TooNarrow, Violation) as cause:
            raise Interrupted(done) from cause
        return done
