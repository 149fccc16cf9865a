"""`compare`, `faults`, `sweep` and the voting sets, as a person meets them."""

import json
import subprocess
import sys
from pathlib import Path
from shlex import split

import pytest
from tests.unit.cli.conftest import Habemus

from habemus.cli import main


def test_compare(habemus: Habemus, tmp_path: Path) -> None:
    arguments = split(
        "compare ricart-agrawala maekawa-sanders -n 4..6 --load 0.01 --requests 3 --jobs 1"
    )
    done = habemus(*arguments, "--plot", "growth.svg")
    assert done.returncode == 0
    assert (
        "maekawa-sanders needs fewer messages than ricart-agrawala: by the formulas from N = 5 on"
        in done.stdout
    )
    assert done.stderr == "saved growth.svg\n"
    assert (tmp_path / "growth.svg").stat().st_size > 5_000
    document = json.loads(habemus(*arguments, "--json").stdout)
    assert document["over"] == "n"
    assert [row["n"] for row in document["rows"]] == [4, 4, 5, 5, 6, 6]
    assert {
        "algorithm",
        "messages_per_entry",
        "messages_per_entry_by_formula",
        "sync_delay",
        "fairness",
        "command",
    } <= document["rows"][0].keys()
    assert document["crossings"] == [
        {"cheaper": "maekawa-sanders", "than": "ricart-agrawala", "by_formula": 5, "measured": 5}
    ]


def test_sweep(habemus: Habemus) -> None:
    done = habemus(
        "sweep", "quorum-durable", "maekawa", "--seeds", "20", "--crashes", "--json", "--jobs", "1"
    )
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert document["complete"] is True
    durable, maekawa = document["rows"]
    assert (
        durable["runs"],
        durable["runs_with_crashes"],
        durable["violated"],
        durable["undecided"],
    ) == (20, 20, 0, 0)
    assert (maekawa["runs_with_crashes"], maekawa["unsafe"], maekawa["first_failing_command"]) == (
        0,
        True,
        None,
    )
    assert maekawa["violated_but_not_claimed"]["ME2-deadlock"] > 0
    assert durable["runs_with_cuts"] == 0


def test_sweep_in_words_and_by_two_workers(habemus: Habemus) -> None:
    done = habemus("sweep", "central", "--seeds", "45", "--jobs", "2")
    assert done.returncode == 0
    assert "holds: 45 runs, 45 of each algorithm; 45 hold\n" in done.stdout
    assert done.stderr == ""
    one = habemus("sweep", "central", "--seeds", "1", "--jobs", "1").stdout
    assert "holds: 1 run, 1 of each algorithm; 1 holds\n" in one


def test_faults(habemus: Habemus, tmp_path: Path) -> None:
    done = habemus("faults", "central", "--diagrams", "pictures", "--json")
    assert done.returncode == 0
    cells = json.loads(done.stdout)
    assert [cell["role"] for cell in cells] == ["holder", "center", "waiting", "bystander"]
    assert [cell["others"] for cell in cells] == ["blocked", "blocked", "blocked", "go on"]
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == sorted(
        f"central-{cell['role']}.svg" for cell in cells
    )


def test_faults_in_words(habemus: Habemus) -> None:
    words = habemus("faults", "central", "--recover").stdout
    assert "the one inside (1) crashes: blocked" in words
    assert "habemus run central -n 4" in words


def test_voting_sets(habemus: Habemus, tmp_path: Path) -> None:
    done = habemus("algorithms", "maekawa", "--sets", "13", "--diagram", "sets.svg")
    assert done.returncode == 0
    assert "K = 4" in done.stdout
    assert (tmp_path / "sets.svg").read_text(encoding="utf-8").startswith("<svg")
    assert json.loads(habemus("algorithms", "maekawa", "--sets", "7", "--json").stdout)["k"] == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compare", "centrl"), "did you mean central?"),
        (("compare", "central", "-n", "0"), "1 to 1000000 participants"),
        (("compare", "central", "-n", "9..2"), "write 2..9"),
        (("compare", "central", "-n", "9999"), "1 to 3000 participants"),
        (("compare", "central", "--load", "0"), "a load is 0.001 to 1000"),
        (("compare", "central", "-n", "2..3", "--load", "1..2"), "not to both"),
        (("compare", "central", "--plot", "x.svg"), "something that varies"),
        (("compare", "central", "-n", "2..3", "--plot", "x.pdf"), "must end in .png or .svg"),
        (("compare", "central", "--hold", "soon"), "is not a time"),
        (("compare", "central", "--delay", "soon"), "is not a time"),
        (("compare", "heartbeat"), "cannot be compared yet"),
        (("compare", "central", "bully"), "only algorithms of one problem"),
        (("compare", "bully", "--load", "1"), "has no load"),
        (("sweep", "maekawa-sander"), "did you mean maekawa-sanders or maekawa?"),
        (("sweep", "central", "--seeds", "0"), "not in the range"),
        (("sweep", "central", "-n", "6..2"), "write 2..6"),
        (("sweep", "central", "-n", "5000"), "other numbers of participants"),
        (("sweep", "central", "--delay", "slow"), "is not a time"),
        (("sweep", "central", "--jobs", "0"), "not in the range"),
        (("faults", "raymon"), "did you mean raymond?"),
        (("faults", "bully"), "leader election"),
        (("algorithms", "central", "--sets", "7"), "has no voting sets"),
        (("algorithms", "maekawa", "--sets", "12", "--how", "plane"), "7 or 13"),
        (("algorithms", "maekawa", "--sets", "1"), "2 to 400"),
        (
            ("algorithms", "maekawa", "--sets", "7", "--diagram", "x.pdf"),
            "must end in .svg or .png",
        ),
        (("algorithms", "--sets", "7"), "needs the name of an algorithm"),
        (("algorithms", "maekawa", "--how", "grid"), "need --sets"),
    ],
)
def test_bad_input_gets_one_line(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert leaving.value.code == 2
    assert out == ""
    assert said in err
    assert err.startswith("habemus: ")
    assert err.count("\n") == 1


def test_workers_of_the_installed_program() -> None:
    """They load the program's own file, and must not run it again."""
    program = Path(sys.executable).with_name("habemus")
    done = subprocess.run(
        [program, "sweep", "central", "--seeds", "30", "--jobs", "2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "30 runs" in done.stdout
