"""`habemus bench live`: what is measured, and what stops it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from habemus.bench.by_hand import HAND_MADE
from habemus.bench.live import SLICES, BenchFailed, LiveBench, Measured


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "habemus", "bench", "live", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_local_locks_are_measured_beside_flock() -> None:
    done = bench("--only", "local", "--rounds", "1", "--seconds", "0.05", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["systems"]["local"]
    # A busy machine may give a client no processor time that the clock shows.
    times = {name: value for name, value in found.items() if not name.startswith("cpu_")}
    assert all(value is not None and value != 0 for value in times.values()), found
    assert found["cycles_per_second"] > 100


def test_the_shortest_measurement_has_one_cycle_of_each_client() -> None:
    done = bench("--only", "local", "--rounds", "1", "--seconds", "1e-9", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["systems"]["local"]["cycles_per_second"] > 0


def test_a_name_that_is_not_known_is_refused() -> None:
    done = bench("--only", "oracle")
    assert done.returncode == 2
    assert "unknown 'oracle'; use habemus, local" in done.stderr
    assert "Traceback" not in done.stderr


def test_medians_and_overhead() -> None:
    found = Measured(cycles=[100, 200, 100], overhead=[10, 4, 12, 900, 5]).plain()
    assert found["cycles_per_second"] == 100
    assert found["overhead_percent"] == 10.0
    assert found["overhead_quartiles_percent"] == [4.5, 456.0]
    assert found["cpu_overhead_percent"] is None
    assert found["cpu_overhead_quartiles_percent"] is None
    assert found["failover_s"] is None


def test_tokens_that_do_not_grow_stop_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = LiveBench(["local"], 1, 0.05, 1, syncs=False)
    made.results["local"] = Measured()
    answers = iter([[[1, 1, 5]], [[2, 1, 4]], [], []])
    monkeypatch.setattr("habemus.bench.live.BenchClient.answer", lambda _: next(answers, "ready"))
    monkeypatch.setattr("habemus.bench.live.BenchClient.__init__", lambda *_: None)
    monkeypatch.setattr("habemus.bench.live.BenchClient.ask", lambda *_: None)
    monkeypatch.setattr("habemus.bench.live.BenchClient.kill", lambda *_: 0)
    with pytest.raises(BenchFailed, match="tokens do not grow"):
        made._measure_handovers("local", f"local://{tmp_path}")


class CoarseClock:
    """A client on a machine whose clocks stand still during a turn."""

    def __init__(self, *_: object) -> None:
        self.asked = ""

    def ask(self, what: str, name: str, seconds: float) -> None:
        self.asked = what

    def answer(self) -> list[Any]:
        return [[5, 0, 1]] if self.asked == "contend" else [100, 0.01, 7.0, 9.0, 0.0]

    def kill(self) -> int:
        return 0


def test_times_that_the_clock_does_not_show_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("habemus.bench.live.BenchClient", CoarseClock)
    made = LiveBench(["local"], 1, 0.05, 1, syncs=False)
    found = made.results["local"] = Measured()
    made._measure_cycles({"local": "local:///locks"})
    made.results["habemus"] = found
    made._measure_handovers("habemus", "nodes")
    assert found.plain()["overhead_percent"] == 0
    assert found.plain()["cpu_overhead_percent"] is None
    assert found.plain()["handovers_per_second"] is None


def test_flock_by_hand_counts(tmp_path: Path) -> None:
    locks = HAND_MADE["local"](f"local://{tmp_path}")
    with locks.lock("x") as first:
        pass
    with locks.lock("x") as second:
        assert (first, second) == (1, 2)


class WarmingServer:
    """A server that grants more cycles in each turn than in the one before."""

    def __init__(self) -> None:
        self.turns = 0


class FakeClient:
    def __init__(self, server: WarmingServer) -> None:
        self.server = server

    def ask(self, what: str, name: str, seconds: float) -> None:
        self.server.turns += 1

    def answer(self) -> list[float]:
        turns = self.server.turns
        return [100 * turns, 1.0, 1_000.0 / turns, 7.0, 3.0]


def test_a_server_that_warms_up_favours_no_client() -> None:
    server = WarmingServer()
    clients: Any = [FakeClient(server), FakeClient(server)]
    first, second = LiveBench([], 1, 1.0, 1, syncs=False)._turns(clients)
    assert len(first) == len(second) == SLICES
    for turns in zip(*((turn.cycles for turn in own) for own in (first, second)), strict=True):
        assert turns[0] != turns[1]
    assert sum(turn.cycles for turn in first) == sum(turn.cycles for turn in second)
    is_slower = [a.median_us > b.median_us for a, b in zip(first, second, strict=True)]
    assert is_slower.count(True) == is_slower.count(False)
