"""`habemus detectors` as a person meets it."""

import json
from pathlib import Path
from shlex import split

import pytest
from click.testing import CliRunner

from habemus.cli import main
from habemus.cli.commands.detectors import detectors

QUICK = split("heartbeat --seeds 1 -n 2 --crash-at 1s --delay 1ms --jobs 1")


def test_the_table_and_the_numbers_behind_it(tmp_path: Path) -> None:
    said = CliRunner().invoke(detectors, QUICK, standalone_mode=False)
    assert said.return_value == 0
    assert "timeout=22000" in said.stdout and "mistakes/h" in said.stdout and "< " in said.stdout
    plot = tmp_path / "quality.svg"
    told = CliRunner().invoke(
        detectors, (*QUICK, "--json", "--plot", str(plot)), standalone_mode=False
    )
    points = json.loads(told.stdout)
    assert [point["setting"] for point in points][:2] == ["timeout=22000", "timeout=26000"]
    assert all(point["mistakes"] == 0 and point["detection_time"] > 0 for point in points)
    assert plot.read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("bully",), "not a failure detector"),
        (("heartbeet",), "did you mean heartbeat"),
        (("heartbeat", "--delay", "soon"), "soon"),
        (("heartbeat", "--loss", "2"), "probability"),
        (("heartbeat", "--crash-at", "1ms"), "at least 1s"),
        (("heartbeat", "-n", "1"), "2 to 50"),
        (("heartbeat", "--plot", "quality.pdf"), "must end in"),
    ],
)
def test_mistakes_get_one_line(
    arguments: tuple[str, ...], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["detectors", *arguments])
    assert leaving.value.code == 2
    error = capsys.readouterr().err
    assert hint in error and error.count("\n") == 1
