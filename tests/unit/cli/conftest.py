"""The program, as a process in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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
