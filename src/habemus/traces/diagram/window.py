"""Windows: what a picture shows of a trace that does not fit, even folded."""

from __future__ import annotations

from dataclasses import replace

from habemus.traces.diagram.scale import NOTE_HEIGHT, Scale
from habemus.traces.view import View

BEGINNING = 0.3
"""Share of the height for the beginning of the run, before the window."""
AFTERWARDS = 0.2
"""Share of the height for what follows the violation."""


def leave_out(view: View, scale: Scale, height: float) -> View:
    """Return the view of the beginning and of a window around the first violation.

    Without a violation, the window is at the end.  The scale is that of the whole view.
    """
    events = view.trace.events
    if scale.height <= height:
        return view
    height -= 2 * NOTE_HEIGHT
    times = [
        finding.time
        for finding in view.trace.violations
        if finding.time is not None and view.covers(finding.time)
    ]
    later = [y for y in map(scale.at, times) if y > BEGINNING * height]
    focus = min(later, default=scale.height)
    end = min(scale.height, max(focus + AFTERWARDS * height, height))
    begin = end - (1 - BEGINNING) * height
    ys = [(scale.y(index), index) for index in sorted(view.shown)]
    top = max((events[index].time for y, index in ys if y <= BEGINNING * height), default=0)
    resume = min((events[index].time for y, index in ys if begin <= y), default=0)
    stop = max((events[index].time for y, index in ys if y <= end), default=0)
    stretches = []
    for after, before in ((top, resume), (stop, events[-1].time + 1)):
        inside = [index for _, index in ys if after < events[index].time < before]
        if inside:
            stretches.append((min(inside), max(inside)))
    dropped = {index for first, last in stretches for index in range(first, last + 1)}
    return replace(view, shown=view.shown - dropped, left_out=tuple(stretches))
