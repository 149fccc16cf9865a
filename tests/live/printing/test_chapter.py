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
CHAPTERS = {
    "printing.md": "4 jobs printed, 0 of them",
    "printing.pt.md": "4 trabalhos impressos, 0",
}
PORT = re.compile(r"(?<=[.]1:)\d+|(?<=port )\d+")


def script_of(chapter: str) -> str:
    script: str
    [script] = re.findall(
        r"^```sh\n(.*?)^```",
        (ROOT / "docs" / chapter).read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    return script


def on_free_ports(script: str) -> str:
    ports = sorted(set(PORT.findall(script)))
    free = dict(zip(ports, map(str, reserved_ports(len(ports))), strict=True))
    return PORT.sub(lambda found: free[found[0]], script)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_outgoing_connection_gets_a_port_of_a_chapter(chapter: str) -> None:
    """Linux gives connections the ports from 32768 up."""
    ports = set(PORT.findall(script_of(chapter)))
    assert len(ports) == 4 and all(int(port) < 32_768 for port in ports)


@pytest.mark.parametrize(("chapter", "says"), CHAPTERS.items())
def test_the_script_of_a_chapter(chapter: str, says: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    program = tmp_path / "habemus"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -W error -m habemus "$@"\n')
    program.chmod(0o700)
    done = subprocess.run(
        ["bash", "-euc", on_free_ports(script_of(chapter))],
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
