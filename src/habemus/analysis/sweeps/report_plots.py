"""Costs of a sweep as pictures for its report: a row of panels for each axis, a column for each
quantity.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from habemus.analysis.pictures.figures import matplotlib_for
from habemus.analysis.pictures.plots import COLOURS, MARKS
from habemus.analysis.sweeps.report import AXES, QUANTITIES, ReportQuantity, Survey, number

PANEL_IN = (3.0, 2.35)
FULL_WIDTH_PT = 4 * PANEL_IN[0] * 72
NAMES_AT_MOST = 12
"""Largest number of names under an axis; of more, some."""
LONGEST_NAME = 24
INK, PALE = "#2b313b", "#e6e9ee"


def check() -> None:
    """Raise an exception if pictures cannot be made."""
    matplotlib_for("reports")


def pictures(survey: Survey) -> dict[str, str]:
    """Return the SVG of each problem that has something to show, by its name."""
    found = {}
    for problem, algorithms in survey.problems().items():
        shown = [
            each
            for each in QUANTITIES.get(problem, ())
            if any(key[0] in algorithms and key[3] == each.name for key in survey.costs)
        ]
        if shown:
            found[problem] = _picture(survey, algorithms, shown, problem)
    return found


def _picture(
    survey: Survey, algorithms: Sequence[str], quantities: Sequence[ReportQuantity], salt: str
) -> str:
    matplotlib = matplotlib_for("reports")
    from matplotlib.figure import Figure

    axes = survey.varied() or {"n": survey.values["n"]}
    settings: Any = {
        "svg.hashsalt": salt,
        "svg.fonttype": "none",
        "text.parse_math": False,
        "font.size": 8.5,
        "font.family": "sans-serif",
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": "#9aa3b0",
        "xtick.color": INK,
        "ytick.color": INK,
    }
    # The same rows give the same picture, and its text stays text.
    with matplotlib.rc_context(settings):
        size = (
            PANEL_IN[0] * len(quantities),
            PANEL_IN[1] * len(axes) + 0.35 + 0.2 * -(-len(algorithms) // 5),
        )
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(axes), len(quantities), sharey="col", squeeze=False)
        for line, (axis, values) in enumerate(axes.items()):
            for column, quantity in enumerate(quantities):
                panel = panels[line][column]
                _draw(panel, survey, algorithms, axis, values, quantity)
                if line == 0:
                    panel.set_title(
                        quantity.title, fontsize=9.5, fontweight="bold", loc="left", pad=9
                    )
        for panel in panels[0]:
            # When all are drawn, as the panels of a column share it.
            panel.set_ylim(0, None if panel.dataLim.y1 > 0 else 1)
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside upper left",
            ncols=min(5, len(labels)),
            frameon=False,
            handlelength=1,
            columnspacing=1.6,
            fontsize=9.5,
        )
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    return _inline(drawn.getvalue(), salt)


def _draw(
    panel: Any,
    survey: Survey,
    algorithms: Sequence[str],
    axis: str,
    values: Sequence[str],
    quantity: ReportQuantity,
) -> None:
    numbers = [number(value) for value in values]
    measured = None not in numbers
    places = (
        [float(each) for each in numbers if each is not None]
        if measured
        else [float(place) for place in range(len(values))]
    )
    for turn, name in enumerate(algorithms):
        colour, mark = COLOURS[turn % len(COLOURS)], MARKS[turn // len(COLOURS) % len(MARKS)]
        heights = [_mean(survey, name, axis, value, quantity.name) for value in values]
        # Between numbers there may be something; between names there is nothing, and the line only
        # leads the eye.
        panel.plot(
            places,
            heights,
            "-",
            color=colour,
            lw=1.3 if measured else 0.9,
            alpha=1 if measured else 0.4,
        )
        panel.plot(places, heights, mark, color=colour, ms=4, label=_text(name))
        _draw_margins(panel, survey, name, axis, values, places, quantity.name, colour)
        if quantity.formula is not None and axis == "n":
            formula = [_mean(survey, name, axis, value, quantity.formula) for value in values]
            panel.plot(places, formula, "--", color=colour, lw=0.9, alpha=0.75)
    if measured:
        if axis == "load" and min(places) > 0:
            panel.set_xscale("log")
            panel.minorticks_off()
        every = -(-len(values) // NAMES_AT_MOST)
        panel.set_xticks(places[::every], [_text(value) for value in values[::every]])
    else:
        every = -(-len(values) // NAMES_AT_MOST)
        crowded = sum(map(len, values)) > 34
        panel.set_xticks(
            places[::every],
            [_text(value) for value in values[::every]],
            rotation=25 if crowded else 0,
            ha="right" if crowded else "center",
        )
        panel.set_xlim(-0.35, len(values) - 0.65)
    panel.set_xlabel(AXES[axis])
    panel.margins(x=0.06)
    panel.grid(color=PALE, lw=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(length=0, labelleft=True)
    panel.spines[["top", "right"]].set_visible(False)


def _draw_margins(
    panel: Any,
    survey: Survey,
    name: str,
    axis: str,
    values: Sequence[str],
    places: Sequence[float],
    column: str,
    colour: str,
) -> None:
    """Draw the 95 % interval of each mean, where runs differ."""
    for place, value in zip(places, values, strict=True):
        mean = survey.costs.get((name, axis, value, column))
        if mean is not None and mean.value is not None and mean.margin > 0:
            low, high = mean.value - mean.margin, mean.value + mean.margin
            panel.vlines(place, max(0.0, low), high, color=colour, lw=2.2, alpha=0.35)


def _mean(survey: Survey, name: str, axis: str, value: str, column: str) -> float:
    mean = survey.costs.get((name, axis, value, column))
    found = None if mean is None else mean.value
    return float("nan") if found is None else found


def _text(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def _inline(svg: str, salt: str) -> str:
    """Return an SVG for a page: without prologue and references to other places, and with unique
    ids.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{salt}-", svg)
    found = re.match(r'<svg\b[^>]*?viewBox="(\S+ \S+ (\S+) \S+)"[^>]*>', svg)
    assert found is not None
    # A picture of fewer quantities is narrower, so that its letters are as large as those of the
    # others.
    width = float(found[2])
    size = f"width:{100 * width / FULL_WIDTH_PT:.1f}%;min-width:{0.95 * width:.0f}px"
    opening = (
        f'<svg viewBox="{found[1]}" style="{size}" role="img"'
        ' xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    return opening + svg[found.end() :]
