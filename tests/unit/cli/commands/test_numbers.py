"""`habemus numbers`, as a person meets it."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from shlex import split

import pytest
from tests.unit.cli.conftest import Habemus

from habemus.cli.commands.numbers import numbers


@pytest.fixture
def habemus(here: Habemus) -> Habemus:
    return partial(here, "numbers")


def test_each_command_has_an_example_and_json() -> None:
    assert sorted(numbers.commands) == ["growth", "pv", "timeout"]
    for command in numbers.commands.values():
        assert "Example: habemus numbers " in (command.epilog or "")
        assert any("--json" in parameter.opts for parameter in command.params)


def test_pv(habemus: Habemus) -> None:
    done = habemus("pv", "-n", "32", "-m", "24", "-p", "1e-4")
    assert done.returncode == 0
    assert "7.35e-59" in done.stdout and "1.00e-64" in done.stdout
    assert "C(24, 16) = 735,471" in done.stdout.replace("\n", " ")
    row = json.loads(habemus("pv", "-n", "32", "-m", "24", "-p", "1e-4", "--json").stdout)["rows"][
        0
    ]
    assert f"{row['pv']:.3g}" == "7.35e-59" and row["pv_digits"].startswith("7.349174166")
    assert (row["whole_intersection"], row["whole_intersection_log10"], row["shared"]) == (
        1e-64,
        -64,
        16,
    )
    assert row["simulated"] is None


def test_pv_without_m_tells_all(habemus: Habemus) -> None:
    rows = json.loads(habemus("pv", "-n", "7", "-p", "0.1", "-p", "1%", "--json").stdout)["rows"]
    assert [(row["m"], row["p"]) for row in rows] == [
        (m, p) for p in (0.1, 0.01) for m in (4, 5, 6, 7)
    ]


def test_pv_target(habemus: Habemus) -> None:
    done = habemus("pv", "-n", "32", "-p", "1e-4", "--target", "1e-12")
    assert done.returncode == 0
    assert (
        "P = 0.0001: m = 18 (m = 17 has 1.36e-6); then 14 of the 32 coordinators may be down"
        in done.stdout
    )
    impossible = habemus("pv", "-n", "3", "-p", "0.5", "-p", "1e-9", "--target", "1e-9", "--json")
    assert impossible.returncode == 1
    assert json.loads(impossible.stdout)["target"] == {
        "chance": 1e-9,
        "case": "worst",
        "m": [None, 3],
    }


def test_pv_by_runs(habemus: Habemus, tmp_path: Path) -> None:
    arguments = split("pv -n 5 -m 3 -m 4 -p 0.3 -p 1e-6 --simulate 125 --jobs 1")
    done = habemus(*arguments, "--plot", "pv.svg")
    assert done.returncode == 0
    assert done.stderr == "saved pv.svg\n"
    assert "runs of quorum, case worst" in done.stdout and "of 4 intervals" in done.stdout
    assert "a run with a violation:\n  habemus run quorum -n 2" in done.stdout
    picture = (tmp_path / "pv.svg").read_text(encoding="utf-8")
    assert "P, the chance that a coordinator restarts" in picture and "m = 4" in picture
    rows = json.loads(habemus(*arguments, "--json").stdout)["rows"]
    assert [row["simulated"]["how"] for row in rows] == ["plain", "plain", "weighted", "weighted"]
    for row in rows:
        assert row["simulated"]["theory"] == row["pv"]
        assert row["simulated"]["low"] <= row["simulated"]["estimate"] <= row["simulated"]["high"]
        assert row["simulated"]["variance_of_estimate"] > 0
    given = json.loads(habemus(*arguments, "--case", "given", "--json").stdout)["rows"]
    assert [row["simulated"]["theory"] for row in given] == [
        row["whole_intersection"] for row in given
    ]


@pytest.mark.parametrize("chances", [("0", "1"), ("1",), ("1e-30", "0.123456789")])
def test_pv_at_the_edges(habemus: Habemus, tmp_path: Path, chances: tuple[str, ...]) -> None:
    named = [word for chance in chances for word in ("-p", chance)]
    done = habemus("pv", "-n", "41", *named, "--plot", "pv.svg")
    assert (done.returncode, done.stderr) == (0, "saved pv.svg\n")
    assert (
        habemus("pv", "-n", "3", "-m", "2", *named, "--simulate", "5", "--jobs", "1").returncode
        == 0
    )


def test_runs_that_refute_the_theory_are_not_as_wanted(
    habemus: Habemus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("habemus.analysis.numbers.violation.is_violated", lambda cell, setup: False)
    done = habemus("pv", "-n", "5", "-m", "3", "-p", "0.3", "--simulate", "60", "--jobs", "1")
    assert done.returncode == 1
    assert "the runs contradict the theory" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            "-n 3 -p 0 --plot none.svg",
            "a plot needs a P above 0: without restarts there is no violation to draw",
        ),
        ("-n 3 -m 2 -p 0.1 --plot missing/pv.svg", "missing/pv.svg: No such file or directory"),
        (
            "-n 32 -m 16 -p 0.1",
            (
                "m = 16 of n = 32 coordinators are not a quorum: two such groups need not overlap;"
                " use 17 to 32"
            ),
        ),
        ("-n 32 -m 33 -p 0.1", "m = 33 is more than the n = 32 coordinators; use 17 to 32"),
        ("-n 0 -p 0.1", "there are 1 to 500 coordinators, not n = 0"),
        ("-n 3 -m 2 -p 1.5", "P = 1.5 is not a probability between 0 and 1"),
        ("-n 3 -m 2 -p x", "P = x is not a probability; write for example 1e-4 or 0.01%"),
        ("-n 3 -p 0.1 --target 2", "--target = 2 is not a probability between 0 and 1"),
        (
            "-n 3 -p 0.1 --target 0",
            "--target 0: a violation is impossible only with P = 0; give a target above 0",
        ),
        (
            "-n 3 -m 2 -p 0.1 --target 0.1",
            "--target and -m exclude each other: --target finds m",
        ),
        (
            "-n 3 -m 2 -p 0.1 --plot x.pdf",
            "cannot tell what to write into 'x.pdf': the name must end in .png or .svg",
        ),
    ],
)
def test_pv_refuses(habemus: Habemus, arguments: str, line: str) -> None:
    done = habemus("pv", *arguments.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"habemus: {line}\n")


def test_timeout_of_a_file(habemus: Habemus, tmp_path: Path) -> None:
    (tmp_path / "delays.txt").write_text("1ms\n2ms\n2ms\n9ms\n", encoding="utf-8")
    arguments = ("timeout", "--delays", "delays.txt", "-C", "10", "-E", "1", "--no-detectors")
    done = habemus(*arguments, "--plot", "cost.png")
    assert done.returncode == 0
    assert (
        "timeout 2 ms: cost 4.5, probability of a mistake 0.25 (1 of 4 delays are longer"
        in done.stdout
    )
    assert (tmp_path / "cost.png").stat().st_size > 5_000
    document = json.loads(habemus(*arguments, "--json").stdout)
    assert (document["timeout"], document["p"], document["cost"], document["detectors"]) == (
        2_000,
        0.25,
        4.5,
        {},
    )
    assert document["curve"][0] == {
        "timeout": 0,
        "mistakes": 4,
        "p": 1.0,
        "p_at_most": 1.0,
        "cost": 10.0,
    }
    last = habemus(*arguments, "-C", "1000").stdout
    assert "This is the longest delay of the sample" in last
    assert "do not wait at all: cost 1" in habemus(*arguments, "-C", "1").stdout


ONE_SOURCE = "give exactly one source of delays: --delays FILE, --delay LAW or --live CLUSTER"


def test_timeout_with_detectors(habemus: Habemus, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"heartbeat": ("timeout", (30_000, 60_000), ("step=0",)), "swim": ("grace", (1,), ())}
    monkeypatch.setattr("habemus.analysis.numbers.timeouts.FAMILIES", few)
    monkeypatch.setattr("habemus.analysis.numbers.detectors.FAMILIES", few)
    arguments = split("timeout --delay exp:10ms --draws 500 -C 100 -E 1 --seeds 1 --jobs 1")
    done = habemus(*arguments, "--plot", "cost.svg")
    assert done.returncode == 0
    assert "detector   cheapest setting  detection ms  mistakes per heartbeat" in done.stdout
    found = json.loads(habemus(*arguments, "--json").stdout)["detectors"]
    assert {name: len(settings) for name, settings in found.items()} == {"heartbeat": 2, "swim": 1}
    assert found["heartbeat"][0]["cost"] <= found["heartbeat"][1]["cost"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("-C 1 -E 1", ONE_SOURCE),
        ("--delays a --delay 1ms -C 1 -E 1", ONE_SOURCE),
        ("--delays missing.txt -C 1 -E 1", "missing.txt: No such file or directory"),
        (
            "--delays negative.txt -C 1 -E 1",
            "negative.txt, line 2: a delay cannot be negative, as '-5' is",
        ),
        ("--delays . -C 1 -E 1", ".: Is a directory"),
        (
            "--delay 1ms -C -1 -E 1",
            "the cost C of a mistake is 0 or a number from 1e-30 to 1e30, not -1",
        ),
        (
            "--delay 1ms -C 1 -E 0",
            "if waiting costs nothing, wait for ever: the cost E of waiting is more than 0",
        ),
        ("--delay soon -C 1 -E 1", "'soon' is not a time; write for example 5000, 5ms or 2s"),
        (
            "--delay 1ms -E 1",
            "Missing option '-C' / '--mistake'. Example: habemus numbers timeout --delay heavy:1ms"
            " -C 100 -E 1 --plot cost.svg",
        ),
    ],
)
def test_timeout_refuses(habemus: Habemus, tmp_path: Path, arguments: str, line: str) -> None:
    (tmp_path / "negative.txt").write_text("1\n-5\n", encoding="utf-8")
    done = habemus("timeout", *arguments.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"habemus: {line}\n")


def test_growth(habemus: Habemus, tmp_path: Path) -> None:
    arguments = split("growth ricart-agrawala maekawa -n 4..36 --points 5 --jobs 1")
    done = habemus(*arguments, "--plot", "growth.svg")
    assert done.returncode == 0
    assert "ricart-agrawala  messages per entry  2 n - 2" in done.stdout
    picture = (tmp_path / "growth.svg").read_text(encoding="utf-8")
    assert "2 n - 2" in picture and "the law that was fitted" in picture
    found = json.loads(habemus(*arguments, "--json").stdout)
    assert [(line["algorithm"], line["quantity"]) for line in found][:2] == [
        ("ricart-agrawala", "messages_per_entry"),
        ("ricart-agrawala", "bytes_per_entry"),
    ]
    assert found[0]["fit"] == {
        "law": "n",
        "slope": 2.0,
        "intercept": -2.0,
        "error": 0.0,
        "text": "2 n - 2",
    }
    assert found[0]["measured"] == found[0]["by_formula"] == [6, 22, 38, 54, 70]
    assert found[3]["fit"]["law"] == "sqrt n"


def test_growth_that_differs_from_the_formula_is_not_as_wanted(
    habemus: Habemus, monkeypatch: pytest.MonkeyPatch
) -> None:
    from habemus.algorithms.mutex.central import Central
    from habemus.problems.mutex import MutexCosts

    monkeypatch.setattr(Central, "costs", lambda self, size: MutexCosts(messages=4))
    assert habemus("growth", "central", "-n", "2..5", "--jobs", "1").returncode == 1
    assert (
        habemus("growth", "central", "-n", "2..5", "--jobs", "1", "--delay", "500..1500").returncode
        == 0
    )


def test_growth_of_elections(habemus: Habemus) -> None:
    done = habemus("growth", "bully", "chang-roberts", "-n", "3..8", "--repeat", "3", "--jobs", "1")
    assert done.returncode == 0
    assert "turnaround" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("central -n 5", "a law needs at least 4 sizes; give a longer range to -n, such as 2..40"),
        (
            "central bully",
            (
                "only algorithms of one problem can be compared, not mutual exclusion (central) and"
                " leader election (bully)"
            ),
        ),
        ("bully --load 1", "an election has no load; leave --load out"),
        (
            "central --plot growth",
            "cannot tell what to write into 'growth': the name must end in .png or .svg",
        ),
    ],
)
def test_growth_refuses(habemus: Habemus, arguments: str, line: str) -> None:
    done = habemus("growth", *arguments.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"habemus: {line}\n")


def test_the_program_itself_with_two_workers(tmp_path: Path) -> None:
    arguments = ["numbers", "pv", "-n", "3", "-m", "2", "-p", "0.2", "--simulate", "120", "--json"]
    told = []
    for jobs in ("1", "2"):
        command = [sys.executable, "-W", "error", "-m", "habemus", *arguments, "--jobs", jobs]
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        told.append(json.loads(done.stdout))
    assert told[0] == told[1]


def test_no_command_is_wrong_use(habemus: Habemus) -> None:
    assert habemus().returncode == 2
    assert habemus("nonsense").returncode == 2
