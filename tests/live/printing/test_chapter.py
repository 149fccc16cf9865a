"""The chapters do what they say: their scripts run as they stand, on ports that are free here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.live.conftest import PATIENCE
from tests.ports import reserved_ports

ROOT = Path(__file__).parents[3]
PORTS = ("50051", "50052", "50053", "50054")


def script_of(chapter: str) -> str:
    script: str
    [script] = re.findall(
        r"^```sh\n(.*?)^```",
        (ROOT / "docs" / chapter).read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    for port, free in zip(PORTS, reserved_ports(len(PORTS)), strict=True):
        script = script.replace(port, str(free))
        assert str(free) in script
    # Clients that would rather use the printer's usual port are told where it is.
    printer = re.search(r"habemus printer --port (\d+)", script)
    assert printer is not None
    return script.replace(
        "habemus print --id", f"habemus print --printer 127.0.0.1:{printer[1]} --id"
    )


@pytest.mark.parametrize(
    ("chapter", "says"),
    [("printing.md", "4 jobs printed, 0 of them"), ("printing.pt.md", "4 trabalhos impressos, 0")],
)
def test_the_script_of_a_chapter(chapter: str, says: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    program = tmp_path / "habemus"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -W error -m habemus "$@"\n')
    program.chmod(0o700)
    done = subprocess.run(
        ["bash", "-euc", script_of(chapter)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,  # for all commands of the script
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert says in done.stderr
    if chapter == "printing.md":
        assert (
            "ME1             holds      4 entries, never two at once" in done.stdout
            and "same: " in done.stdout
        )
        assert (tmp_path / "printing.svg").stat().st_size > 1_000
