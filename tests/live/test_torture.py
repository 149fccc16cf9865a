"""Torture, as short as it can be and still show something: real processes, real faults, real exit
codes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.program import command_line

from habemus.torture.history import History
from habemus.torture.judge import judge, lost_updates
from habemus.torture.plan import plan_of
from habemus.torture.run import history_in
from habemus.torture.schedule import is_asynchronous

PATIENCE = 120.0


def torture(folder: Path, words: str) -> tuple[int, dict[str, Any]]:
    command = command_line(f"torture {words} --json --folder", folder)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_the_default_stands_kills_pauses_and_cuts(tmp_path: Path) -> None:
    """With the lease of the default: no process of a busy machine stands still for so long."""
    words = "elected-coordinator-leased --nodes 3 --minutes 0.15 --seed 3"
    code, report = torture(tmp_path / "run", words)
    assert report["failures"] == []
    assert report["violated"] == [], report["why"]
    for never in ("stale_writes_accepted", "lost_updates", "token_regressions", "token_duplicates"):
        assert report[never] == 0
    assert report["properties"]["FENCE"] in (
        "holds",
        "undecided",
    )  # undecided if the machine was too slow for enough grants
    assert code == {"holds": 0, "undecided": 3}[report["verdict"]]
    assert report["grants"] > 0
    assert sum(report["faults"].values()) > 0
    written = json.loads((tmp_path / "run" / "report.json").read_text())
    assert written["grants"] == report["grants"]


def test_without_leases_nobody_is_inside_beside_another(tmp_path: Path) -> None:
    words = "ricart-agrawala --nodes 3 --minutes 0.12 --faults pause,cut --seed 1"
    code, report = torture(tmp_path / "run", words)
    assert (report["over"], report["beyond_card"], report["failures"]) == ("perfect", [], [])
    assert (report["violated"], report["believers_overlapping"], report["lost_updates"]) == (
        [],
        0,
        0,
    ), report["why"]
    assert code == {"holds": 0, "undecided": 3}[report["verdict"]]
    assert report["grants"] > 0
    assert report["faults"].keys() <= {
        "pause-node",
        "pause-client",
        "cut",
        "cut-one-way",
        "cut-client",
    }
    assert sum(report["faults"].values()) > 0


class Ended(NamedTuple):
    code: int
    report: dict[str, Any]
    err: str


def torture_until(
    is_seen: Callable[[History], object], folder: Path, algorithm: str, *arguments: str
) -> Ended:
    """Torture an algorithm until that is seen in its history, then end it by Ctrl-C."""
    command = ["torture", algorithm, "--nodes", "3", "--minutes", "2", *arguments]
    running = subprocess.Popen(
        [sys.executable, "-m", "habemus", *command, "--folder", str(folder), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while running.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            running.wait(0.5)
        if is_seen(
            history_in(folder, 0, time.monotonic_ns() - 1_000_000_000)
        ):  # by now all of it is written
            running.send_signal(signal.SIGINT)
            break
    out, err = running.communicate(timeout=PATIENCE)
    assert out, err
    return Ended(running.returncode, json.loads(out), err)


PLANTED = Path(__file__).with_name("planted.py")


def test_a_restart_that_forgets_everything_is_caught(tmp_path: Path) -> None:
    """The other planted bugs take longer, and luck: `make torture-campaign`."""
    algorithm = f"{PLANTED}:ForgetsAll"
    claim = plan_of(algorithm, nodes=3, clients=6, seconds=1, seed=0, faults=["kill-all"]).claim
    code, report, err = torture_until(
        lambda history: "FENCE" in judge(history, claim).violated,
        *(tmp_path, algorithm, "--clients", "6", "--locks", "2", "--faults", "kill-all"),
    )
    assert code == 1, err
    assert report["violated"] == ["FENCE"]
    assert report["token_regressions"] > 0


def test_a_node_with_a_damaged_memory_does_not_go_on_and_is_replaced(tmp_path: Path) -> None:
    code, report, err = torture_until(
        lambda history: any(fault.ended for fault in history.faults),
        *(tmp_path, "elected-coordinator-leased", "--faults", "disk-garble"),
    )
    assert (report["failures"], report["violated"], report["token_regressions"]) == ([], [], 0), err
    assert report["faults"]["disk-garble"] > 0
    assert code == {"holds": 0, "undecided": 3}[report["verdict"]]
    assert list(tmp_path.glob("data/*/memory.lost")), "the damaged file is kept"


def test_connections_close_leaders_resign_and_requests_are_cancelled(tmp_path: Path) -> None:
    """Clients of both kinds use the lock meanwhile, and no two hold it at a time."""

    def is_seen(history: History) -> bool:
        kinds = {fault.kind for fault in history.faults if fault.ended}
        outcomes = {stay.outcome for stay in history.stays if is_asynchronous(int(stay.client[0]))}
        return {"close-client", "stop-node"} <= kinds and {"cancelled", "granted"} <= outcomes

    code, report, err = torture_until(
        is_seen,
        *(tmp_path, "elected-coordinator-leased", "-o", "lease=2s"),
        *("--faults", "close-client,stop-node"),
    )
    assert report["failures"] == [], err
    assert {"close-client", "stop-node"} == report["faults"].keys()
    assert report["violated"] == [], report["why"]
    assert report["believers_overlapping_excused_by"].keys() <= {"stall"}
    assert code == {"holds": 0, "undecided": 3}[report["verdict"]]


def test_members_are_swapped_and_replaced_under_kills_and_cuts(tmp_path: Path) -> None:
    wanted = {"member-swap", "member-replace", "kill-node", "cut-one-way"}
    code, report, err = torture_until(
        lambda history: wanted <= {fault.kind for fault in history.faults if fault.ended},
        *(tmp_path, "elected-coordinator-leased-members", "--faults", ",".join(sorted(wanted))),
    )
    assert (report["failures"], report["violated"], report["token_regressions"]) == ([], [], 0), err
    assert report["faults"].keys() == wanted
    assert code == {"holds": 0, "undecided": 3}[report["verdict"]]
    assert "# configuration " in (tmp_path / "cluster.toml").read_text()


def test_a_lock_that_is_taken_back_is_caught_losing_updates(tmp_path: Path) -> None:
    code, report, err = torture_until(
        lambda history: lost_updates([each for each in history.accesses if each.kind == "write"]),
        *(
            tmp_path,
            "central-timeout",
            "--clients",
            "8",  # so that there is nearly always one inside to be paused
            "--minutes",
            "5",
            "--no-fencing",
            "-o",
            "timeout=100ms",
            "--faults",
            "pause-client",
        ),
    )
    assert code == 1, err
    assert "does not claim to tolerate pause-client" in err
    assert (report["verdict"], report["violated"]) == ("violated", ["ME1"])
    assert report["lost_updates"] > 0
    assert report["believers_overlapping"] > 0
    assert report["order_of_updates"] == "violated"


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere no process can be told to end with its parent"
)
def test_nothing_outlives_it_even_if_it_is_killed(tmp_path: Path) -> None:
    command = command_line(f"torture central --nodes 2 --clients 2 --folder {tmp_path}")
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while (
        not (children := children_of(running.pid)) or not (tmp_path / "client-2.1.jsonl").exists()
    ):
        assert running.poll() is None
        time.sleep(0.05)
    assert len(children) >= 4
    children[-1].send_signal(signal.SIGSTOP)  # one that stands still could not end by itself
    running.kill()
    running.wait()
    deadline = time.monotonic() + PATIENCE
    while any(child.is_alive() for child in children):
        assert time.monotonic() < deadline, "a process has outlived its torture"
        time.sleep(0.05)


class Process(NamedTuple):
    pid: int

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def is_alive(self) -> bool:
        try:
            return _stat(self.pid)[0] != "Z"  # one whose end nobody has looked at yet has ended
        except OSError:
            return False


def children_of(parent: int) -> list[Process]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                if int(_stat(int(folder.name))[1]) == parent:
                    found.append(Process(int(folder.name)))
    return found


def _stat(pid: int) -> list[str]:
    """State, parent and so on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def test_what_cannot_be_meant_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for arguments, reason in (
        (["bully"], "not a mutual exclusion algorithm"),
        (["central", "--faults", "fire"], "unknown fault 'fire'"),
        (["central", "--folder", str(tmp_path / "full")], "is not empty"),
    ):
        command = [sys.executable, "-m", "habemus", "torture", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert reason in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr


def test_locks_of_the_kernel_stand_kills_and_pauses(tmp_path: Path) -> None:
    code, report = torture(tmp_path / "run", "--engine local --minutes 0.07 --seed 1")
    assert report["failures"] == []
    assert report["engine"] == "local"
    assert report["violated"] == [], report["why"]
    assert report["grants"] > 0
    assert code in (0, 1)


def test_an_algorithm_or_an_engine_is_tortured() -> None:
    for words in ([], ["central", "--engine", "local"], ["--engine", "oracle"]):
        command = [sys.executable, "-m", "habemus", "torture", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
