"""The sheet: the state shared by all parts that draw a picture."""

from __future__ import annotations

from collections import defaultdict

from habemus.core.process import ProcessId
from habemus.core.properties import Finding
from habemus.traces.diagram.columns import Columns
from habemus.traces.diagram.placing import LabelBox, Layout
from habemus.traces.diagram.scale import NOTE_HEIGHT, Scale
from habemus.traces.periods import DOWN, INSIDE, PAUSED, WAITING, Period
from habemus.traces.view import View
from habemus.traces.words import Words, moment, one_line

LAYERS = ("ground", "bands", "pauses", "lines", "bars", "arrows", "points", "marks", "labels")
"""Layers of the picture, from the bottom up."""

BAR = 6.0
"""Half the width of a bar on a process line."""

FOOT = 34.0
"""Length of the process lines after the last event."""


class Sheet:
    def __init__(
        self,
        view: View,
        words: Words,
        scale: Scale,
        columns: Columns,
        periods: list[Period],
    ) -> None:
        self.view = view
        self.trace = view.trace
        self.shown = view.shown
        self.processes = view.processes
        self.words = words
        self.scale = scale
        self.columns = columns
        self.periods = periods
        self.layout = Layout()
        self.bars = Layout()  # of their own: a name may stand on a bar, other labels may not
        self.layers: dict[str, list[str]] = {layer: [] for layer in LAYERS}
        self.seen: set[str] = set()  # what the legend has to explain
        self.bottom = scale.height + FOOT
        if view.left_out and view.left_out[-1][1] > max(view.shown, default=0):
            self.bottom += NOTE_HEIGHT
        self._bars: defaultdict[ProcessId, list[tuple[float, float]]] = defaultdict(list)
        for period in periods:
            if period.kind in (WAITING, INSIDE, PAUSED):
                self._bars[period.process].append(self.extent(period))

    def draw(self, layer: str, shape: str) -> None:
        self.layers[layer].append(shape)

    def x(self, process: ProcessId) -> float:
        return self.columns.x[process]

    def extent(self, period: Period) -> tuple[float, float]:
        """Return the beginning and the end of a period."""
        end = self.scale.height + FOOT / 2 if period.last is None else self.scale.y(period.last)
        if period.last is None and period.kind == DOWN:
            end = self.bottom
        return self.scale.y(period.first), end

    def touches(self, period: Period) -> bool:
        """Return whether a part of the period is shown."""
        last = len(self.trace.events) if period.last is None else period.last
        if any(first < period.first and last < end for first, end in self.view.left_out):
            return False
        top, bottom = self.extent(period)
        return bottom > top or period.first in self.shown or last in self.shown

    def is_free(self, box: LabelBox) -> bool:
        return self.layout.is_free(box) and self.bars.is_free(box)

    def half_width(self, process: ProcessId, y: float) -> float:
        """Return half the width of the shape on a process line, where arrows end."""
        return BAR if any(top <= y <= bottom for top, bottom in self._bars[process]) else 1.5

    def when(self, time: int) -> str:
        """Format a time as the axis counts it."""
        return moment(time - self.scale.origin(), self.words)

    def description(self, finding: Finding) -> str:
        when = None if finding.time is None else finding.time - self.scale.origin()
        return one_line(finding._replace(time=when), self.words)
