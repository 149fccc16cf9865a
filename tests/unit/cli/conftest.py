"""The program, as a process in an empty folder."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from click import unstyle

from habemus.cli import main

Habemus = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def habemus(tmp_path: Path) -> Habemus:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HOME": str(tmp_path)}
        command = [sys.executable, "-W", "error", "-m", "habemus", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
        )

    return run


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Habemus:
    """In this process, because starting another for each line takes longer than the line."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        assert isinstance(left.value.code, int)
        return subprocess.CompletedProcess(arguments, left.value.code, *capsys.readouterr())

    return run


Terminal = Callable[..., str]


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a function that runs the program on a terminal, and returns what it prints there."""

    def run(columns: int, *arguments: str) -> str:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        kept = {name: each for name, each in os.environ.items() if name not in ("COLUMNS", "LINES")}
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "habemus", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=tmp_path,
            env={**kept, "HOME": str(tmp_path), "NO_COLOR": "1"},
        )
        os.close(theirs)
        printed = b""
        while True:
            try:
                printed += os.read(ours, 65_536)
            except OSError:  # the program has ended
                break
        os.close(ours)
        process.wait()
        return unstyle(printed.decode()).replace("\r\n", "\n")

    return run
