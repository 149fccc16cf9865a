"""Comparisons as pictures, by matplotlib: one panel for each quantity, one line for each algorithm, its formula dashed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from habemus.analysis.compare import DEFAULT_LOAD, Comparison, Quantity, Row

HINT = "pip install 'habemus[plot]'"
ENDINGS = (".png", ".svg")
COLUMNS = 4
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d5563")
"""Of Okabe and Ito, which colour-blind people can tell apart; beyond that, the marks tell the lines apart."""
MARKS = "os^Dv"
UNITS = dict.fromkeys(("client_delay", "sync_delay", "wait", "turnaround"), ", message times")
AXES = {"n": "participants", "load": "load"}


def check_plot(comparison: Comparison, path: Path) -> None:
    """Refuses a plot that cannot be made, before the runs are."""
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"cannot tell what to write into {str(path)!r}: the name must end in {' or '.join(ENDINGS)}")
    if comparison.axis is None:
        raise ValueError("a plot needs something that varies, such as -n 2..20 or --load 0.1..10")
    _matplotlib()


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise ModuleNotFoundError(f"plots need the package matplotlib: {HINT}") from None
    return matplotlib


def save_plot(comparison: Comparison, rows: Sequence[Row], path: Path) -> None:
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    # Text stays text, and the same rows give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "habemus", "svg.fonttype": "none", "font.size": 9}):
        shown = [each for each in comparison.quantities if any(row.measured[each.name] is not None for row in rows)]
        columns = min(COLUMNS, len(shown))
        lines = -(-len(shown) // columns)
        figure = Figure(figsize=(3.6 * columns, 3 * lines + 0.3 + 0.22 * -(-len(comparison.algorithms) // columns)), layout="constrained")
        for place, quantity in enumerate(shown, 1):
            _draw(figure.add_subplot(lines, columns, place), comparison, quantity, rows)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
        figure.suptitle(_title(comparison), fontsize=10)
        date = {"Date": None} if path.suffix.lower() == ".svg" else {}
        figure.savefig(path, dpi=150, metadata=date)


def _title(comparison: Comparison) -> str:
    if comparison.is_election:
        return "one election, called by the first participant"
    fixed = f"{comparison.sizes.low} participants" if comparison.axis == "load" else f"load {(comparison.loads or DEFAULT_LOAD).low}"
    return f"{fixed}, {comparison.requests} requests each; dashed: the formula for an entry without contention; x: it stood still"


def _draw(axes: Any, comparison: Comparison, quantity: Quantity, rows: Sequence[Row]) -> None:
    for place, name in enumerate(comparison.algorithms):
        mine = [row for row in rows if row.algorithm == name]
        places = [float(row.n if comparison.axis == "n" else row.load or 0) for row in mine]
        colour = COLOURS[place % len(COLOURS)]
        mark = MARKS[place // len(COLOURS) % len(MARKS)]
        heights = [_height(row.measured[quantity.name]) for row in mine]
        axes.plot(places, heights, f"{mark}-", color=colour, ms=3.5, lw=1.1, label=name)
        stood_still = [index for index, row in enumerate(mine) if row.violated]
        axes.plot([places[index] for index in stood_still], [heights[index] for index in stood_still], "x", color=colour, ms=8)
        if quantity.formula is not None:
            formula = [_height(row.formula.get(quantity.formula)) for row in mine]
            axes.plot(places, formula, "--", color=colour, lw=0.8, alpha=0.7)
    axes.set_title(f"{quantity.title}{UNITS.get(quantity.name, '')}", fontsize=10)
    axes.set_xlabel(AXES[comparison.axis or "n"])
    if comparison.axis == "load":
        axes.set_xscale("log")
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)
    if quantity.name != "fairness":
        axes.set_ylim(bottom=0)
    axes.grid(color="#e9ecf0")
    axes.spines[["top", "right"]].set_visible(False)


def _height(value: float | None) -> float:
    return float("nan") if value is None else value
