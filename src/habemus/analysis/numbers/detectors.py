"""Failure detectors side by side: how fast they see a crash against how often they are wrong.

Every detector can be made faster by letting it judge more hastily, so one number says nothing; each
gets a family of settings, from hasty to patient, and shows a curve.  All of them meet the same
delays: the k-th message from one process to another takes the same time, or is lost, whatever the
detector and its setting.  Detectors that send a heartbeat in every period so see the very same
arrivals, and only what they make of them differs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from habemus.analysis.pictures.figures import picture, plain_axes
from habemus.analysis.sweeps.workers import results
from habemus.catalog.detector import DETECTOR, HOUR
from habemus.catalog.entries import Entry, find
from habemus.catalog.problems import exact
from habemus.core.process import ProcessId
from habemus.problems.detector_monitor import DetectorMonitor
from habemus.runs import notation
from habemus.runtimes.sim.faults import Crash
from habemus.runtimes.sim.network import MILLION, Bits, Delay, Network, Sampler
from habemus.runtimes.sim.simulation import Record, Simulation

PERIOD = 20_000
"""Time from one heartbeat to the next, for all detectors that send them."""
TICK = 2_000
"""Length of a tick, for the detectors that count ticks."""
PATIENCE = 3_000_000
"""Time that the run goes on after the crash. A process that does not suspect by then counts as one
that never will.
"""

TICKS = (f"tick={TICK}", f"period={PERIOD // TICK}")

# No detector may grow more patient by its mistakes (step=0): the setting alone says how patient it
# is.
FAMILIES: dict[str, tuple[str, tuple[int, ...], tuple[str, ...]]] = {
    "eventually-perfect": (
        "period",
        (10_000, 15_000, 20_000, 30_000, 45_000, 70_000, 100_000, 150_000, 250_000, 400_000),
        ("step=0",),
    ),
    "heartbeat": (
        "timeout",
        (22_000, 26_000, 30_000, 35_000, 40_000, 47_000, 55_000, 65_000, 80_000, 120_000),
        (f"period={PERIOD}", "step=0"),
    ),
    "adaptive": ("margin", (1, 2, 4, 6, 8, 11, 14, 18, 24, 40), ("step=0", *TICKS)),
    "phi-accrual": ("threshold", (1, 2, 3, 4, 6, 8, 10, 12, 14, 16), ("least_deviation=1", *TICKS)),
    "swim": ("grace", (0, 1, 2, 3, 5), (f"period={PERIOD}",)),
}
"""The option that makes each detector hasty or patient, its values, and the options that stay."""


@dataclass(frozen=True)
class OfLink:
    """The delays of one link: drawn from the seed and the link alone, the k-th for the k-th
    message.
    """

    law: Delay
    loss: int  # in millionths
    key: str  # the seed and the link
    never: int  # longer than the run: so long takes what is lost

    @property
    def mean(self) -> int:
        return self.law.mean

    @property
    def longest(self) -> int:
        return self.never if self.loss else self.law.longest

    def sampler(self, bits: Bits) -> Sampler:
        own = random.Random(self.key)
        law = self.law.sampler(own.getrandbits)
        loss, never = self.loss, self.never

        def draw(now: int) -> int:
            is_lost = (
                own.getrandbits(32) * MILLION >> 32 < loss
            )  # drawn in any case, so that a chance changes no delay
            delay = law(now)
            return never if is_lost else delay

        return draw


@dataclass(frozen=True)
class Trial:
    """The conditions under which all detectors are measured."""

    delay: str
    loss: str
    n: int
    seeds: int
    crash_at: str

    def check(self) -> None:
        notation.delay(self.delay)
        notation.chance(self.loss)
        if not 2 <= self.n <= 50:
            raise ValueError(f"2 to 50 processes watch each other here, not {self.n}")
        if notation.time(self.crash_at) < 1_000_000:
            raise ValueError(
                f"--crash-at {self.crash_at}: before the crash detectors need at least 1s to learn"
                " what delays are like"
            )

    def crash(self, seed: int) -> int:
        """Return when the last process crashes: at any point between two heartbeats, the same for
        all detectors.
        """
        return notation.time(self.crash_at) + random.Random(f"crash {seed}").randrange(PERIOD)

    def network(self, seed: int) -> Network:
        law, loss = notation.delay(self.delay), notation.chance(self.loss)
        never = notation.time(self.crash_at) + PERIOD + PATIENCE + 1
        everybody = range(1, self.n + 1)
        links = {
            (a, b): OfLink(law, loss, f"{seed} {a}>{b}", never)
            for a in everybody
            for b in everybody
            if a != b
        }
        return Network(law, links=links)


@dataclass(frozen=True)
class DetectorSetting:
    """One detector with one setting."""

    trial: Trial
    detector: str
    option: str
    value: int
    fixed: tuple[str, ...]

    @property
    def setting(self) -> str:
        return f"{self.option}={self.value}"


@dataclass(frozen=True)
class DetectorQuality:
    """How good one setting of one detector was.  Times are in microseconds; a pair is one process
    that watches another.
    """

    detector: str
    setting: str
    detections: tuple[
        int, ...
    ]  # from each crash to the suspicion that stayed, for each process that was left
    undetected: int
    mistakes: int
    mistake_durations: int  # their sum
    ended_mistakes: int
    watched: int  # for how long, summed over pairs that were up

    @property
    def detection_time(self) -> float | None:
        return exact(sum(self.detections), len(self.detections)) if self.detections else None

    @property
    def mistakes_per_hour(self) -> float:
        return exact(self.mistakes * HOUR, self.watched)

    @property
    def least_rate(self) -> float:
        """Rate of a single mistake: fewer cannot be seen in so short a time."""
        return HOUR / self.watched

    @property
    def mistake_duration(self) -> float | None:
        return exact(self.mistake_durations, self.ended_mistakes) if self.ended_mistakes else None

    def plain(self) -> dict[str, Any]:
        return {
            "detector": self.detector,
            "setting": self.setting,
            "detection_time": self.detection_time,
            "longest_detection_time": max(self.detections, default=None),
            "undetected": self.undetected,
            "mistakes": self.mistakes,
            "mistakes_per_hour": self.mistakes_per_hour,
            "least_rate": self.least_rate,
            "mistake_duration": self.mistake_duration,
        }


def check(name: str) -> Entry:
    entry = find(name)
    if entry.problem is not DETECTOR:
        raise ValueError(
            f"{name} solves {entry.problem.title} and is not a failure detector; there are"
            f" {', '.join(FAMILIES)}"
        )
    if name not in FAMILIES:
        raise ValueError(
            f"{name} has no family of settings to compare; there are {', '.join(FAMILIES)}"
        )
    return entry


def cells(trial: Trial, names: Sequence[str]) -> list[DetectorSetting]:
    return [
        DetectorSetting(trial, name, option, value, fixed)
        for name in names
        for option, values, fixed in [FAMILIES[name]]
        for value in values
    ]


def measure(
    every: Sequence[DetectorSetting], jobs: int, update: Callable[[int, str], None]
) -> list[DetectorQuality]:
    """Return the quality of each setting, in their order."""
    found: dict[DetectorSetting, DetectorQuality] = {}
    for cell, point in results(measured, every, jobs):
        found[cell] = point
        update(len(found), f"{cell.detector} {cell.setting}")
    return [found[cell] for cell in every]


def measured(cell: DetectorSetting) -> DetectorQuality:
    trial, crashed = cell.trial, cell.trial.n
    options = dict(notation.option(text) for text in (cell.setting, *cell.fixed))
    system = find(cell.detector).system(trial.n, options)
    detections: list[int] = []
    undetected = mistakes = durations = ended = watched = 0
    for seed in range(trial.seeds):
        moment = trial.crash(seed)
        end = moment + PATIENCE
        monitor = DetectorMonitor(system.topology.processes, planned_end=end)
        faults = [Crash(crashed, moment)]
        simulation = Simulation(
            system, network=trial.network(seed), faults=faults, seed=seed, record=Record.REQUESTS
        )
        simulation.observers.append(monitor.observe)
        simulation.run(end)
        for since in _suspected_since(monitor, crashed):
            if since is None:
                undetected += 1
            else:
                detections.append(
                    max(0, since - moment)
                )  # a wrong suspicion that lasts costs no time
        mistakes += monitor.mistakes
        durations += sum(monitor.mistake_durations)
        ended += len(monitor.mistake_durations)
        watched += moment * trial.n * (trial.n - 1) + PATIENCE * (trial.n - 1) * (trial.n - 2)
    return DetectorQuality(
        cell.detector,
        cell.setting,
        tuple(detections),
        undetected,
        mistakes,
        durations,
        ended,
        watched,
    )


def _suspected_since(monitor: DetectorMonitor, crashed: ProcessId) -> Iterator[int | None]:
    """Return when the suspicions began that lasted to the end, by process that is still up."""
    for process in monitor.processes:
        if process != crashed:
            yield monitor.suspicions.get((process, crashed))


# Pictures.

COLOURS = {
    "eventually-perfect": "#d55e00",
    "heartbeat": "#4d5563",
    "adaptive": "#0072b2",
    "phi-accrual": "#009e73",
    "swim": "#cc79a7",
}
MARKS = {
    "eventually-perfect": "s",
    "heartbeat": "o",
    "adaptive": "^",
    "phi-accrual": "D",
    "swim": "v",
}


def save_plot(trial: Trial, points: Sequence[DetectorQuality], path: Path) -> None:
    """Plot the mean detection time against mistakes; settings without a mistake are below the line
    of a single one.
    """
    with picture(path, 7, 4.4) as figure:
        axes: Any = figure.add_subplot()
        least = max(point.least_rate for point in points)
        for name in dict.fromkeys(point.detector for point in points):
            _draw(
                axes,
                name,
                [
                    point
                    for point in points
                    if point.detector == name and point.detection_time is not None
                ],
                least / 2,
            )
        axes.axhline(least, color="#9aa3ad", lw=0.8, ls=":")
        axes.annotate(
            "one mistake in all the time watched; hollow: none",
            (1, least),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8,
            color="#4d5563",
        )
        axes.set_yscale("log")
        axes.set_xscale("log")
        _label_in_ms(
            axes, [point.detection_time / 1000 for point in points if point.detection_time]
        )
        axes.set_xlabel("mean detection time, ms")
        axes.set_ylabel("mistakes per hour and pair")
        lost = "" if notation.chance(trial.loss) == 0 else f", {trial.loss} lost"
        axes.set_title(
            f"delays {trial.delay}{lost}; a heartbeat every {PERIOD // 1000} ms; nearer to the"
            " lower left is better",
            fontsize=10,
        )
        plain_axes(axes)
        axes.legend(frameon=False)


def _label_in_ms(axes: Any, times: Sequence[float]) -> None:
    """Label an axis with round numbers instead of powers of ten, of which there would be two."""
    rounds = [step * 10**power for power in range(5) for step in (1, 2, 5)]
    low, high = min(times), max(times)
    shown = [each for each in rounds if low * 0.8 <= each <= high * 1.25]
    axes.set_xticks(shown, [f"{each:g}" for each in shown])
    axes.set_xticks([], minor=True)


def _draw(axes: Any, name: str, mine: Sequence[DetectorQuality], none: float) -> None:
    places = [(point.detection_time or 0) / 1000 for point in mine]
    heights = [point.mistakes_per_hour or none for point in mine]
    colour, mark = COLOURS[name], MARKS[name]
    axes.plot(places, heights, "-", color=colour, lw=1.1, marker=mark, ms=4.5, label=name)
    blank = [
        (place, height)
        for place, height, point in zip(places, heights, mine, strict=True)
        if not point.mistakes
    ]
    if blank:
        axes.plot(*zip(*blank, strict=True), mark, color=colour, mfc="white", ms=4.5)
