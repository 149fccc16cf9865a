"""The violation probability and the cost of timeouts as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from habemus.analysis.numbers.detectors import COLOURS as DETECTOR_COLOURS
from habemus.analysis.numbers.detectors import MARKS as DETECTOR_MARKS
from habemus.analysis.numbers.timeouts import (
    MS,
    DetectorCost,
    Sample,
    TimeoutCosts,
    cheapest,
    curve,
)
from habemus.analysis.numbers.violation import (
    LEAST_CHANCE,
    Experiment,
    ViolationQuery,
    chance,
    log10,
    quorums,
)
from habemus.analysis.pictures.figures import picture, plain_axes
from habemus.analysis.pictures.plots import COLOURS

MOST = 6
"""Lines in one panel; of more, some are drawn."""
POINTS = 60
STEPS = 25
STYLES = {"worst": "-", "given": "--"}

# How likely a violation is.


def save_violation(cells: Sequence[ViolationQuery], made: Sequence[Experiment], path: Path) -> None:
    """Plot the probability over m for each P, and over P for each m, with the results and intervals
    of runs.
    """
    chances = _some(sorted({cell.p for cell in cells if cell.p}))
    sizes = _some(sorted({cell.m for cell in cells}))
    n = cells[0].n
    if not chances:
        raise ValueError("a plot needs a P above 0: without restarts there is no violation to draw")
    with picture(path, 9, 4.2) as figure:
        over_m, over_p = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
        places = _some(list(quorums(n)), POINTS)
        for colour, p in zip(COLOURS, chances, strict=False):
            _curves(over_m, places, [(n, m, p) for m in places], colour, f"P = {float(p):g}")
            _shown(over_m, [(each.cell.m, each) for each in made if each.cell.p == p], colour)
        tried = _chances(chances)
        for colour, m in zip(COLOURS, sizes, strict=False):
            _curves(
                over_p, [float(p) for p in tried], [(n, m, p) for p in tried], colour, f"m = {m}"
            )
            _shown(
                over_p, [(float(each.cell.p), each) for each in made if each.cell.m == m], colour
            )
        over_m.set_xlabel("m, the size of a quorum")
        over_m.xaxis.get_major_locator().set_params(integer=True)
        over_p.set_xlabel("P, the chance that a coordinator restarts")
        over_p.set_xscale("log")
        for axes in (over_m, over_p):
            axes.yaxis.get_major_locator().set_params(integer=True)
            axes.yaxis.set_major_formatter(_power)
            axes.set_ylabel("chance of a violation")
            axes.legend(frameon=False, fontsize=8)
            plain_axes(axes)
        runs = "; dots: runs, with 95 % intervals" if made else ""
        figure.suptitle(
            f"{n} coordinators; solid: any 2m-n of m restart, the worst case; dashed: a given"
            f" intersection does{runs}",
            fontsize=10,
        )


def _some(values: Sequence[Any], most: int = MOST) -> list[Any]:
    """Return at most that many of them, evenly spread, with both ends."""
    if len(values) <= most:
        return list(values)
    return [values[step * (len(values) - 1) // (most - 1)] for step in range(most)]


def _chances(given: Sequence[Fraction]) -> list[Fraction]:
    """Return chances from a tenth of the least to at least a half, evenly on a logarithmic scale,
    each a short number.
    """
    low, high = max(float(min(given)) / 10, float(LEAST_CHANCE)), max(0.5, float(max(given)))
    return [chance(f"{low * (high / low) ** (step / (STEPS - 1)):.3g}") for step in range(STEPS)]


def _power(height: float, _place: int) -> str:
    if height > 0:
        return ""  # there is no such chance
    return f"{10**height:g}" if height > -4 else f"1e{height:g}"


def _curves(
    axes: Any,
    places: Sequence[float],
    numbers: Sequence[tuple[int, int, Fraction]],
    colour: str,
    label: str,
) -> None:
    for case, style in STYLES.items():
        heights = [log10(ViolationQuery(n, m, p, case).probability) for n, m, p in numbers]
        axes.plot(
            places, heights, style, color=colour, lw=1.2, label=label if case == "worst" else None
        )


def _shown(axes: Any, made: Sequence[tuple[float, Experiment]], colour: str) -> None:
    for place, experiment in made:
        low, high = experiment.interval()
        seen = experiment.estimate or high
        bottom, middle, top = (
            log10(value) or 0.0 for value in (max(low, high / 1_000), seen, high)
        )
        filled = colour if experiment.estimate else "white"
        axes.errorbar(
            [place],
            [middle],
            [[middle - bottom], [top - middle]],
            fmt="o",
            ms=4,
            color=colour,
            mfc=filled,
            lw=1,
            capsize=2,
        )


# Which timeout.


def save_timeouts(
    sample: Sample, costs: TimeoutCosts, found: Mapping[str, Sequence[DetectorCost]], path: Path
) -> None:
    """Plot the expected cost over the timeout, and the settings of the detectors by their detection
    time.
    """
    best = cheapest(sample, costs)
    drawn = [each for each in curve(sample, costs, 400) if each.timeout]
    with picture(path, 7, 4.4) as figure:
        axes = figure.add_subplot()
        places = [each.timeout / MS for each in drawn]
        axes.plot(
            places,
            [each.cost for each in drawn],
            color="black",
            lw=1.6,
            label="a timeout T:  E T + C p(T)",
        )
        axes.plot(
            places,
            [costs.of(each.timeout, 0) for each in drawn],
            ":",
            color="#4d5563",
            lw=1,
            label="waiting:  E T",
        )
        axes.plot(
            places,
            [costs.of(0, each.share) for each in drawn],
            "--",
            color="#4d5563",
            lw=1,
            label="mistakes:  C p(T)",
        )
        if best.timeout:
            axes.plot([best.timeout / MS], [best.cost], "o", color="black", ms=6)
            axes.annotate(
                f"{best.timeout / MS:g} ms",
                (best.timeout / MS, best.cost),
                (0, -14),
                textcoords="offset points",
                ha="center",
            )
        for name, outcomes in found.items():
            seen = sorted(
                (each.point.detection_time / MS, each.cost)
                for each in outcomes
                if each.cost is not None and each.point.detection_time
            )
            if seen:
                axes.plot(
                    *zip(*seen, strict=True),
                    DETECTOR_MARKS[name],
                    color=DETECTOR_COLOURS[name],
                    ms=4,
                    label=name,
                )
        axes.set_xscale("log")
        axes.set_xlim(left=max(1, sample.quantile(0.01)) / MS / 2)
        axes.set_ylim(0, 3 * max(best.cost, costs.of(0, 1) / 3))
        axes.set_xlabel("timeout, or mean detection time, ms")
        axes.xaxis.set_major_formatter(lambda place, _: f"{place:g}")
        axes.set_ylabel("expected cost")
        prices = f"a mistake costs {float(costs.mistake):g}, a millisecond {float(costs.waiting):g}"
        axes.set_title(f"{len(sample.delays):,} delays of {sample.origin}; {prices}", fontsize=10)
        axes.legend(frameon=False, fontsize=8)
        plain_axes(axes)
