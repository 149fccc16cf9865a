"""A grid from its file: every combination once, in one order, and one clear line for errors."""

import tomllib
from pathlib import Path

import pytest

from habemus.analysis.sweeps.grid import MOST_RUNS, BadGrid, Grid, grid_of, read
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute

EXAMPLE = Path(__file__).parents[4] / "examples" / "sweep.toml"


def grid(text: str) -> Grid:
    return grid_of(tomllib.loads(text))


FULL = """
algorithms = ["central", "quorum"]
n = "3..4"
load = [0.5, "burst"]
delay = ["1ms", "exp:1ms"]
seeds = "7..9"
requests = 2
hold = "2ms"
until = "1s"

[faults.none]
[faults.bad]
crash = ["1@5ms", "2@9ms"]
recover = "1@7ms"
loss = 0.1

[options]
quorum = ["coordinators=5", "quorum=3"]
"""


def test_every_combination_comes_once_and_the_seed_is_fastest() -> None:
    full = grid(FULL)
    points = [full.point(number) for number in range(len(full))]
    assert len(points) == 2 * 2 * 2 * 2 * 2 * 3
    assert len({point.setup.command() for point in points}) == len(points)
    assert [point.setup.seed for point in points[:4]] == [7, 8, 9, 7]
    assert [point.fault for point in points[:6]] == ["none"] * 3 + ["bad"] * 3
    assert [point.setup.algorithm for point in points[:: len(points) // 2]] == ["central", "quorum"]
    assert [point.number for point in points] == list(range(len(points)))


def test_the_setup_of_a_point_is_what_the_file_says() -> None:
    full = grid(FULL)
    point = next(
        each
        for each in map(full.point, range(len(full)))
        if (each.setup.algorithm, each.load, each.fault) == ("quorum", "0.5", "bad")
    )
    assert point.setup == Setup(
        "quorum",
        3,
        seed=7,
        options=("coordinators=5", "quorum=3"),
        requests=2,
        think="0..24000",  # twice hold * N / load
        hold="2ms",
        loss="0.1",
        faults=(("crash", "1@5ms"), ("crash", "2@9ms"), ("recover", "1@7ms")),
        until="1s",
        events=200_000,
    )
    assert Setup.from_plain(point.setup.plain()) == point.setup


def test_what_is_left_out_is_as_in_run() -> None:
    small = grid('algorithms = "central"\nn = 3')
    assert len(small) == 1
    point = small.point(0)
    assert (point.load, point.fault) == ("steady", "none")
    assert (
        execute(point.setup, keep=False).digest == execute(Setup("central", 3), keep=False).digest
    )


def test_loads_are_named_or_counted() -> None:
    loads = grid('algorithms = "central"\nn = 3\nload = [1, 0.25, 10.0, "in-turn"]').loads
    assert loads == ("1", "0.25", "10", "in-turn")


def test_the_example_is_a_grid() -> None:
    example = read(EXAMPLE)
    assert len(example) == 360


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n = 3", "algorithms is missing"),
        ('algorithms = "central"', "n is missing"),
        ("algorithms = []\nn = 3", "algorithms is an empty list"),
        (
            'algorithms = ["central", "centrl"]\nn = 3',
            "algorithms: there is no algorithm centrl; did you mean central?",
        ),
        ('algorithms = ["central", "central"]\nn = 3', "algorithms names central twice"),
        ("algorithms = 3\nn = 3", "algorithms must be a list of names, not 3"),
        ('algorithms = "central"\nn = 3\nsedes = 9', "there is no key sedes; did you mean seeds?"),
        (
            'algorithms = "central"\nn = 3\nxyzzy = 9',
            "there is no key xyzzy; there are algorithms, n,",
        ),
        ('algorithms = "central"\nn = 3.5', "n must be a whole number"),
        (
            'algorithms = "central"\nn = true',
            'n must be a whole number, a list of them, or a range such as "2..6", not true',
        ),
        ('algorithms = "central"\nn = [3, 3]', "n names 3 twice"),
        ('algorithms = "central"\nn = 0', "n: there are 1 to 1,000,000 participants, not 0"),
        ('algorithms = "central"\nn = "6..2"', "n: '6..2' goes from more to less"),
        (
            'algorithms = "central"\nn = [3, 5000]',
            "n: central runs with 1 to 3000 participants, not with 5000",
        ),
        ('algorithms = "central"\nn = 3\nload = 0', "load: a load is 0.001 to 1000, not 0"),
        ('algorithms = "central"\nn = 3\nload = nan', "load: a load is 0.001 to 1000, not nan"),
        (
            'algorithms = "central"\nn = 3\nload = "bursts"',
            "load must be a number such as 0.5, or steady, burst, in-turn, not 'bursts'",
        ),
        (
            'algorithms = "bully"\nn = 3\nload = 0.5',
            "load: only mutual exclusion has loads in numbers, and bully is leader election",
        ),
        (
            'algorithms = "central"\nn = 3\nload = 0.5\nhold = "1ms..2ms"',
            "hold: a load in numbers is counted by one time inside",
        ),
        ('algorithms = "central"\nn = 3\ndelay = "soon"', "delay: 'soon' is not a time"),
        ('algorithms = "central"\nn = 3\ndelay = 5', "delay must be a text in quotes"),
        (
            'algorithms = "central"\nn = 3\nseeds = 0',
            "seeds: there are 1 to 1,000,000 of them, not 0",
        ),
        ('algorithms = "central"\nn = 3\nseeds = "9..3"', "seeds: '9..3' goes from more to less"),
        ('algorithms = "central"\nn = 3\nseeds = [1, 2]', "seeds must be how many there are"),
        ('algorithms = "central"\nn = 3\nseeds = "0..99999999"', "runs are more than 1,000,000"),
        (
            'algorithms = "central"\nn = "1..2000"\nseeds = 1000',
            "2,000,000 runs are more than 1,000,000",
        ),
        ('algorithms = "central"\nn = 3\nrequests = 0', "requests must be 1 to 1,000,000, not 0"),
        (
            'algorithms = "central"\nn = 3\nrequests = "3"',
            "requests must be a whole number, not '3'",
        ),
        (
            'algorithms = "central"\nn = 3\nover = "perfct"',
            "over must be perfect or perfect-fifo, not 'perfct'",
        ),
        ('algorithms = "central"\nn = 3\nfifo = 1', "fifo must be true or false, not 1"),
        ('algorithms = "central"\nn = 3\nuntil = "later"', "until: 'later' is not a time"),
        (
            'algorithms = "central"\nn = 3\nfaults = "crash"',
            "faults must be tables such as [faults.crash]",
        ),
        (
            'algorithms = "central"\nn = 3\n[faults]\ncrash = "1@5ms"',
            "faults.crash must be a table",
        ),
        (
            'algorithms = "central"\nn = 3\n[faults.x]\ncrsh = "1@5ms"',
            "there is no key faults.x.crsh; did you mean crash?",
        ),
        (
            'algorithms = "central"\nn = 3\n[faults.x]\ncrash = "1"',
            "faults.x.crash: '1' is not complete",
        ),
        (
            'algorithms = "central"\nn = 3\n[faults.x]\nloss = 2',
            "faults.x.loss: '2' is not a probability between 0 and 1",
        ),
        (
            'algorithms = "central"\nn = [9, 3]\n[faults.x]\ncrash = "5@1ms"',
            "faults.x: central with n = 3 has no process 5",
        ),
        ('algorithms = "central"\nn = 3\n[faults."<b>"]', "faults: '<b>' is not a valid name"),
        (
            'algorithms = "central"\nn = 3\n[options]\nquorum = "quorum=3"',
            "options: quorum is not one of the algorithms of the file",
        ),
        (
            'algorithms = "quorum"\nn = 3\n[options]\nquorum = "mm=3"',
            "options.quorum: quorum has no option mm",
        ),
        ("algorithms = central", "line 1"),
        ("a = " + "[" * 5000, "too many brackets"),
        ("\xff", "Invalid"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadGrid) as refused:
        read(file)
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"{file}: ")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadGrid, match="not UTF-8"):
        read(file)
    file.write_bytes(b"#" * 1_000_001)
    with pytest.raises(BadGrid, match="longer than"):
        read(file)


def test_the_largest_grid_is_no_trouble() -> None:
    largest = grid(f'algorithms = "central"\nn = 3\nseeds = {MOST_RUNS}')
    assert largest.point(MOST_RUNS - 1).setup.seed == MOST_RUNS - 1
