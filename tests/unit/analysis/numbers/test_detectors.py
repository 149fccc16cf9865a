"""Detectors side by side: the delays are the same for all, and what is measured is what it is said
to be.
"""

from pathlib import Path
from random import Random

import pytest

from habemus.analysis.numbers.detectors import (
    FAMILIES,
    PATIENCE,
    DetectorQuality,
    DetectorSetting,
    OfLink,
    Trial,
    cells,
    check,
    measure,
    measured,
    save_plot,
)
from habemus.analysis.pictures.figures import check_picture
from habemus.catalog.detector import HOUR
from habemus.catalog.entries import entries, find
from habemus.core.events import Event
from habemus.runs.notation import option
from habemus.runtimes.sim.network import HeavyTail, Uniform
from habemus.runtimes.sim.simulation import Simulation

QUICK = Trial("heavy:1ms", "0", 3, 1, "2s")


def arrivals(trial: Trial, name: str, value: int) -> list[tuple[int, int, int]]:
    """When each heartbeat came: (time, from, to)."""
    varied, _, fixed = FAMILIES[name]
    system = find(name).system(
        trial.n, dict(option(text) for text in (f"{varied}={value}", *fixed))
    )
    simulation = Simulation(system, network=trial.network(0), seed=Random(name).randrange(1000))
    received: list[Event] = []
    simulation.observers.append(
        lambda event: received.append(event) if event.kind == "receive" else None
    )
    simulation.run(1_000_000)
    return sorted((event.time, event.peer or 0, event.process) for event in received)


def test_all_heartbeats_arrive_at_the_same_moments_whatever_the_detector_and_its_setting() -> None:
    for trial in (QUICK, Trial("exp:10ms", "10%", 3, 1, "2s")):
        seen = [
            arrivals(trial, name, value)
            for name in ("heartbeat", "adaptive", "phi-accrual")
            for value in FAMILIES[name][1][::4]
        ]
        assert len(seen[0]) > 200
        assert all(each == seen[0] for each in seen)


def test_the_delays_of_a_link_are_its_own_and_a_chance_of_loss_changes_none_of_them() -> None:
    def draws(key: str, loss: int) -> list[int]:
        sample = OfLink(HeavyTail(), loss, key, never=10**9).sampler(Random(7).getrandbits)
        return [sample(0) for _ in range(2_000)]

    reliable, lossy = draws("0 1>2", 0), draws("0 1>2", 100_000)
    assert reliable == draws("0 1>2", 0) != draws("0 2>1", 0)
    lost = lossy.count(10**9)
    assert 150 < lost < 250
    assert all(mine == other or other == 10**9 for mine, other in zip(reliable, lossy, strict=True))
    assert OfLink(Uniform(), 0, "", 9).longest == 1_000 and OfLink(Uniform(), 1, "", 9).longest == 9


def test_what_is_measured_with_constant_delays() -> None:
    """A heartbeat every 20 ms that takes 1 ms: no mistake, and the timeout counts from the last one
    that came.
    """
    trial = Trial("1ms", "0", 4, 3, "1s")
    point = measured(DetectorSetting(trial, "heartbeat", "timeout", 30_000, ("step=0",)))
    last = [trial.crash(seed) // 20_000 * 20_000 for seed in range(3)]
    expected = [sent + 1_000 + 30_000 - trial.crash(seed) for seed, sent in enumerate(last)]
    assert sorted(point.detections) == sorted(3 * expected)
    assert (point.mistakes, point.undetected, point.mistake_duration) == (0, 0, None)
    assert point.watched == sum(12 * trial.crash(seed) + 6 * PATIENCE for seed in range(3))
    assert point.least_rate == pytest.approx(HOUR / point.watched)


def test_a_timeout_shorter_than_the_period_is_wrong_in_each_period() -> None:
    point = measured(
        DetectorSetting(Trial("1ms", "0", 2, 1, "1s"), "heartbeat", "timeout", 15_000, ("step=0",))
    )
    assert point.mistakes_per_hour == pytest.approx(180_000, rel=0.05)
    assert point.mistake_duration == pytest.approx(
        5_000, rel=0.01
    )  # the last one was ended by the crash


@pytest.mark.parametrize("name", FAMILIES)
def test_the_patient_setting_is_slower_and_errs_less(name: str) -> None:
    every = cells(QUICK, [name])
    hasty, patient = measured(every[0]), measured(every[-1])
    assert hasty.mistakes > patient.mistakes
    assert hasty.detection_time is not None and patient.detection_time is not None
    assert hasty.detection_time < patient.detection_time or name == "eventually-perfect"


def test_every_detector_has_a_family() -> None:
    assert set(FAMILIES) == {
        name for name, entry in entries().items() if entry.problem.name == "detector"
    }
    for name in FAMILIES:
        assert check(name).name == name
    with pytest.raises(ValueError, match="not a failure detector"):
        check("bully")


@pytest.mark.parametrize(
    "trial",
    [
        Trial("soon", "0", 3, 1, "2s"),
        Trial("1ms", "2", 3, 1, "2s"),
        Trial("1ms", "0", 1, 1, "2s"),
        Trial("1ms", "0", 3, 1, "2ms"),
        Trial("1ms", "0", 3, 1, "later"),
    ],
)
def test_bad_conditions_are_refused(trial: Trial) -> None:
    with pytest.raises(ValueError):
        trial.check()


def test_the_picture_is_the_same_for_the_same_points(tmp_path: Path) -> None:
    points = [
        DetectorQuality("heartbeat", "timeout=1", (20_000, 30_000), 0, 5, 100, 5, HOUR),
        DetectorQuality("heartbeat", "timeout=2", (90_000,), 0, 0, 0, 0, HOUR),
        DetectorQuality("adaptive", "margin=1", (), 1, 0, 0, 0, HOUR),
    ]
    for name in ("one.svg", "two.svg"):
        save_plot(QUICK, points, tmp_path / name)
    one = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert one == (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert "mistakes per hour and pair" in one and "heartbeat" in one
    with pytest.raises(ValueError, match=r"must end in \.png or \.svg"):
        check_picture(tmp_path / "quality.pdf")


def test_points_come_in_the_order_of_the_cells() -> None:
    told: list[tuple[int, str]] = []
    every = cells(Trial("1ms", "0", 2, 1, "1s"), ["heartbeat"])[:3]
    points = measure(every, 1, lambda done, beside: told.append((done, beside)))
    assert [point.setting for point in points] == [cell.setting for cell in every]
    assert [done for done, _ in told] == [1, 2, 3]
