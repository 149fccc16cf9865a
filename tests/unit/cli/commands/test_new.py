"""`habemus new`: what it writes works, and it writes over nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from habemus.catalog.entries import find
from habemus.core.properties import Verdict
from habemus.runs.check import Check, perform
from habemus.testing.scaffold import TEMPLATES, class_name, scaffold

Habemus = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def habemus(tmp_path: Path) -> Habemus:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HOME": str(tmp_path)}
        command = [sys.executable, "-W", "error", "-m", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
        )

    return run


@pytest.mark.parametrize("problem", TEMPLATES)
def test_what_it_writes_passes_its_own_test_and_is_formatted(
    habemus: Habemus, problem: str, tmp_path: Path
) -> None:
    done = habemus("habemus", "new", problem, "my_first", "--json")
    assert done.returncode == 0 and done.stderr == ""
    report = json.loads(done.stdout)
    assert report["files"] == ["my_first.py", "test_my_first.py"]
    assert report["algorithm"] == "my_first.py:MyFirst"
    assert failing(tmp_path / "test_my_first.py") == []
    for width in ("88", "140"):
        formatted = habemus(
            "ruff", "format", "--isolated", "--check", "--line-length", width, str(tmp_path)
        )
        assert formatted.returncode == 0, formatted.stdout
    assert (
        habemus(
            "ruff", "check", "--isolated", "--select", "E4,E7,E9,F,I,B", str(tmp_path)
        ).returncode
        == 0
    )


def failing(file: Path) -> list[str]:
    """The tests of a file that fail, without another pytest: that would take longer to start than
    they take.
    """
    names: dict[str, Any] = {"__file__": str(file)}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), names)
    failed = []
    for name, test in names.items():
        if name.startswith("test_"):
            marks = getattr(test, "pytestmark", [])
            for arguments in [[each] for each in marks[0].args[1]] if marks else [[]]:
                try:
                    test(*arguments)
                except AssertionError:
                    failed.append(f"{name} {arguments}")
    return failed


def test_the_written_test_fails_when_the_algorithm_is_broken(tmp_path: Path) -> None:
    own, test = scaffold("mutex", "lock", tmp_path)
    text = own.read_text(encoding="utf-8")
    own.write_text(
        text.replace("self.holder is None and bool(self.queue)", "bool(self.queue)"),
        encoding="utf-8",
    )
    failed = failing(test)
    assert {
        "test_every_interleaving [2]",
        "test_every_interleaving [3]",
        "test_conformance ['claims']",
    } <= set(failed)


@pytest.mark.parametrize(("problem", "states"), [("mutex", 180), ("election", 332)])
def test_every_interleaving_of_the_templates(problem: str, states: int, tmp_path: Path) -> None:
    path, _ = scaffold(problem, "mine", tmp_path)
    report = perform(Check(f"{path}:Mine", 3))
    assert report.verdict is Verdict.HOLDS
    assert report.extent.states == states
    assert find(f"{path}:Mine").box.sections.keys() >= {"Source", "Assumes", "Cost", "Ensures"}


def test_nothing_is_overwritten(habemus: Habemus, tmp_path: Path) -> None:
    (tmp_path / "test_lock.py").write_text("mine", encoding="utf-8")
    done = habemus("habemus", "new", "mutex", "lock")
    assert done.returncode == 2
    assert done.stderr == "habemus: test_lock.py exists already; choose another name or --folder\n"
    assert not (tmp_path / "lock.py").exists()
    assert (tmp_path / "test_lock.py").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "my-lock",
            (
                "'my-lock' is not a name for a Python file: use small letters, digits and _; did"
                " you mean my_lock?"
            ),
        ),
        (
            "MyLock",
            (
                "'MyLock' is not a name for a Python file: use small letters, digits and _; did you"
                " mean my_lock?"
            ),
        ),
        (
            "../lock",
            (
                "'../lock' is not a name for a Python file: use small letters, digits and _; did"
                " you mean lock?"
            ),
        ),
        (
            "class",
            (
                "'class' is not a name for a Python file: use small letters, digits and _; write"
                " for example my_lock"
            ),
        ),
        (
            "",
            (
                "'' is not a name for a Python file: use small letters, digits and _; write for"
                " example my_lock"
            ),
        ),
        (
            "queue",
            "queue.py would be taken for another module; choose another name, for example my_queue",
        ),
        (
            "test_lock",
            (
                "test_lock.py would be taken for another module; choose another name, for example"
                " my_test_lock"
            ),
        ),
    ],
)
def test_a_name_that_cannot_be_is_refused_in_one_line(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError) as caught:
        scaffold("mutex", name, tmp_path)
    assert str(caught.value) == why
    assert not list(tmp_path.iterdir())


def test_the_folder_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no folder"):
        scaffold("mutex", "lock", tmp_path / "absent")


def test_the_class_is_called_after_the_file() -> None:
    assert class_name("my_2nd_lock") == "My2ndLock"
