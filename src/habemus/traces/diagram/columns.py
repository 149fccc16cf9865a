"""Columns: one for each process, as far apart as the labels between them need."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from habemus.core.process import ProcessId

LEFT = 60.0
"""Room for the time axis."""
LEAST_WIDTH = 600.0
NARROWEST = 44.0


class Columns:
    def __init__(
        self,
        processes: Sequence[ProcessId],
        labels: Sequence[float],
        left: float,
        right: float,
        width: float | None,
        whole: float = 0.0,
    ) -> None:
        """Space the columns.

        `labels` are the widths of the labels between the columns, `left` and `right` the space
        before the first column and after the last one.  `whole` is the width that must not be cut
        where there are few columns.
        """
        between = max(1, len(processes) - 1)
        if width is None:
            few = len(processes) <= 8
            least, most = (
                (120.0, 210.0) if few else (92.0, 150.0) if len(processes) <= 16 else (62.0, 96.0)
            )
            usual = sorted(labels)[int(len(labels) * 0.9)] if labels else 0.0
            self.gap = min(max(usual + 42, least, whole if few else 0.0), most)
            self.gap = max(self.gap, min((LEAST_WIDTH - LEFT - left - right) / between, 240.0))
        else:
            self.gap = max((width - LEFT - left - right) / between, NARROWEST)
        self.x = {
            process: LEFT + left + index * self.gap for index, process in enumerate(processes)
        }
        self.left = LEFT
        self.last = max(self.x.values(), default=LEFT + left)
        self.width = max(self.last + right, width or LEAST_WIDTH)

    def between(self, one: float, other: float) -> list[tuple[float, float]]:
        """Return the gaps between neighbouring columns that lie between two points, from left to
        right.
        """
        low, high = sorted((one, other))
        places = sorted(self.x.values())
        edges = [low, *(x for x in places if low + 1 < x < high - 1), high]
        return list(pairwise(edges))
