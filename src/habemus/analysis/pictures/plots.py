"""Comparisons as pictures, by matplotlib: one panel for each quantity, one line for each algorithm,
its formula dashed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from habemus.analysis.numbers.compare import DEFAULT_LOAD, Comparison, ComparisonRow, Quantity
from habemus.analysis.numbers.growth import Growth, Line
from habemus.analysis.pictures.figures import check_picture, picture, plain_axes
from habemus.argument_names import argument

COLUMNS = 4
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d5563")
"""Colours of Okabe and Ito, which colour-blind people can tell apart; beyond these, the marks
distinguish the lines.
"""
MARKS = "os^Dv"
UNITS = {
    **dict.fromkeys(("client_delay", "sync_delay", "wait", "turnaround"), "message times"),
    **dict.fromkeys(("messages_per_entry", "messages", "busiest_receives"), "messages"),
    **dict.fromkeys(("bytes_per_entry", "bytes"), "bytes"),
    "throughput": "entries per message time",
    "fairness": "Jain's index",
    "largest_overtaking": "entries of others",
    "busiest_share": "share of all messages",
    "busiest_load": "share of the time",
}
AXES = {"n": "participants", "load": "load"}


def check_plot(comparison: Comparison, path: Path) -> None:
    """Raise an exception if the plot is impossible, before the runs are made."""
    check_picture(path)
    if comparison.axis is None:
        raise ValueError(
            f"a plot needs something that varies, such as {argument('n', '2..20')} or"
            f" {argument('load', '0.1..10')}"
        )


def save_plot(
    comparison: Comparison, rows: Sequence[ComparisonRow], path: Path, lines: Sequence[Line] = ()
) -> None:
    """Plot a comparison; with `lines`, also the fitted laws, dotted and written beside
    each panel.
    """
    shown = [
        each
        for each in comparison.quantities
        if any(row.measured[each.name] is not None for row in rows)
    ]
    columns = min(COLUMNS, len(shown))
    down = -(-len(shown) // columns)
    with picture(
        path, 3.6 * columns, 3 * down + 0.3 + 0.22 * -(-len(comparison.algorithms) // columns)
    ) as figure:
        for place, quantity in enumerate(shown, 1):
            axes = figure.add_subplot(down, columns, place)
            _draw(axes, comparison, quantity, rows)
            _draw_laws(axes, comparison, [line for line in lines if line.quantity == quantity])
        handles, labels = figure.axes[0].get_legend_handles_labels()
        named = [
            (handle, label)
            for handle, label in zip(handles, labels, strict=True)
            if label in comparison.algorithms
        ]
        figure.legend(
            *zip(*named, strict=True), loc="outside lower center", ncols=columns, frameon=False
        )
        figure.suptitle(_title(comparison), fontsize=10)


def _draw_laws(axes: Any, comparison: Comparison, lines: Sequence[Line]) -> None:
    drawn = []
    for line in lines:
        colour = COLOURS[comparison.algorithms.index(line.algorithm) % len(COLOURS)]
        drawn += axes.plot(
            line.sizes, line.fitted(), ":", color=colour, lw=1.6, label=f"{line.best}"
        )
    if drawn:
        axes.legend(handles=drawn, fontsize=7, frameon=False, loc="upper left")
        axes.set_ylim(top=axes.get_ylim()[1] * (1 + 0.09 * len(drawn)))  # room for what is written


def _title(comparison: Comparison) -> str:
    bars = (
        f"; points: means of {comparison.repeats} runs, bars: least to greatest"
        if comparison.repeats > 1
        else ""
    )
    return f"{_conditions(comparison)}{bars}"


def _conditions(comparison: Comparison) -> str:
    if comparison.is_election:
        laws = (
            "; dashed: the formula; dotted: the law that was fitted"
            if isinstance(comparison, Growth)
            else ""
        )
        return f"one election, called by the first participant{laws}"
    if isinstance(comparison, Growth) and comparison.loads is None:
        return "entries without contention; dashed: the formula; dotted: the law that was fitted"
    fixed = (
        f"{comparison.sizes.low} participants"
        if comparison.axis == "load"
        else f"load {(comparison.loads or DEFAULT_LOAD).low}"
    )
    return (
        f"{fixed}, {comparison.requests} requests each; dashed: the formula for an entry without"
        " contention; x: no progress"
    )


def _draw(
    axes: Any, comparison: Comparison, quantity: Quantity, rows: Sequence[ComparisonRow]
) -> None:
    for place, name in enumerate(comparison.algorithms):
        mine = [row for row in rows if row.algorithm == name]
        places = [float(row.n if comparison.axis == "n" else row.load or 0) for row in mine]
        colour = COLOURS[place % len(COLOURS)]
        mark = MARKS[place // len(COLOURS) % len(MARKS)]
        heights = [_height(row.measured[quantity.name]) for row in mine]
        axes.plot(places, heights, f"{mark}-", color=colour, ms=3.5, lw=1.1, label=name)
        if comparison.repeats > 1:
            _draw_ranges(axes, places, mine, quantity, colour)
        stood_still = [index for index, row in enumerate(mine) if row.violated]
        axes.plot(
            [places[index] for index in stood_still],
            [heights[index] for index in stood_still],
            "x",
            color=colour,
            ms=8,
        )
        if quantity.formula is not None:
            formula = [_height(row.formula.get(quantity.formula)) for row in mine]
            axes.plot(places, formula, "--", color=colour, lw=0.8, alpha=0.7)
    axes.set_title(quantity.title, fontsize=10)
    axes.set_ylabel(UNITS[quantity.name])
    axes.set_xlabel(AXES[comparison.axis or "n"])
    if comparison.axis == "load":
        axes.set_xscale("log")
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylim(bottom=0, top=1.05 if quantity.name == "fairness" else None)
    plain_axes(axes)


def _draw_ranges(
    axes: Any,
    places: Sequence[float],
    rows: Sequence[ComparisonRow],
    quantity: Quantity,
    colour: str,
) -> None:
    """Draw a bar from the smallest to the largest value of each mean."""
    known = [
        (place, row.ranges[quantity.name])
        for place, row in zip(places, rows, strict=True)
        if quantity.name in row.ranges
    ]
    if known:
        axes.vlines(
            [place for place, _ in known],
            [low for _, (low, _) in known],
            [high for _, (_, high) in known],
            color=colour,
            lw=2.5,
            alpha=0.35,
        )


def _height(value: float | None) -> float:
    return float("nan") if value is None else value
