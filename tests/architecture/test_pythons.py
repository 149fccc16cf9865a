"""`make test-pythons`: each supported version is named, and one that is absent is not counted as
passed.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.pythons.__main__ import PYODIDE, TESTS

ROOT = Path(__file__).parents[2]


def test_every_version_that_the_package_names_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert named[0] == project["requires-python"].removeprefix(">=") and named[1:] == list(PYODIDE)


def test_every_folder_of_tests_exists() -> None:
    absent = [each for each in TESTS if not any((ROOT / each).glob("**/test_*.py"))]
    assert not absent


def test_an_absent_version_is_told_and_not_counted() -> None:
    command = [sys.executable, "-m", "tests.pythons", "3.13", "3.14"]
    done = subprocess.run(
        command, cwd=ROOT, env={"PATH": "/nowhere"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert sorted(line.partition(": ")[0] for line in done.stdout.splitlines()) == [
        "Python 3.13",
        "Python 3.14",
    ]
    assert done.stdout.count("NOT RUN: there is no python3") == 2 and "passed" not in done.stdout


def test_a_version_that_nobody_knows_is_refused_with_one_line() -> None:
    command = [sys.executable, "-m", "tests.pythons", "2.7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "no such version: 2.7; there are 3.12, 3.13, 3.14\n",
    )
