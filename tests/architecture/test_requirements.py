"""Tests whose servers or browser are absent are left out, and the last line says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests import requirements

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
ABSENT = """
from tests import requirements
for name, file in {absent!r}:
    requirements.REQUIREMENTS[name] = requirements.Requirement((file,), ("package",))
"""
TESTS = """
import pytest
from tests import requirements

def test_there():
    requirements.program("Redis", "python-is-here")

@pytest.mark.parametrize("number", range(2))
def test_absent(number):
    requirements.program("PostgreSQL", "no-such-program")

@pytest.mark.parametrize("number", range(3))
def test_absent_too(number):
    requirements.program({other!r}, "no-such-program")

@pytest.mark.skip("for another reason")
def test_something():
    pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with the conftest of these tests, and a machine without some programs."""
    (pytester.path / "bin").mkdir()
    (pytester.path / "bin" / "python-is-here").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(pytester.path / "bin"), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("HABEMUS_TEST_ALL", raising=False)
    return pytester


def prepare(pytester: pytest.Pytester, *absent: str, chromium: str = "python-is-here") -> None:
    table = [(name, "python-is-here") for name in ("Redis", "PgBouncer")]
    table.append(("Chromium", chromium))
    table += [(name, "no-such-program") for name in absent]
    text = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    pytester.makeconftest(text + ABSENT.format(absent=table))
    pytester.makepyfile(TESTS.format(other=absent[-1] if absent else "Redis"))


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(
    ("other", "line"),
    [
        (
            "PostgreSQL",
            "left out: 5 tests that need PostgreSQL; as root, `make test-deps` installs what they"
            " need",
        ),
        (
            "etcd",
            "left out: 5 tests that need PostgreSQL and etcd; as root, `make test-engines-deps`"
            " installs what they need",
        ),
    ],
)
def test_the_last_line_says_what_was_left_out(
    run: pytest.Pytester, workers: str, other: str, line: str
) -> None:
    prepare(run, "PostgreSQL", other)
    done = run.runpytest_subprocess("-n", workers)
    done.assert_outcomes(passed=1, skipped=6)
    assert done.ret == 0
    assert done.outlines[-1] == line


@pytest.mark.parametrize(("name", "value"), [("CI", "true"), ("HABEMUS_TEST_ALL", "1")])
@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_is_absent_fails_the_run_at_its_start_where_all_is_wanted(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: str, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    prepare(run, "PostgreSQL", chromium="no-such-program")
    done = run.runpytest_subprocess("-n", workers)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in (*done.outlines, *done.errlines) if line] == [
        "ERROR: Chromium and PostgreSQL: absent, and CI or HABEMUS_TEST_ALL=1 wants all tests;"
        " as root, `make test-deps` installs what they need"
    ]


def test_a_run_that_leaves_nothing_out_says_nothing(run: pytest.Pytester) -> None:
    prepare(run)
    done = run.runpytest_subprocess("-n", "0", "-k", "there or something")
    done.assert_outcomes(passed=1, skipped=1)
    assert "left out" not in done.stdout.str()


def test_no_target_but_those_of_packages_installs_any() -> None:
    """`make test` runs no apt-get, whoever runs it."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "apt-get" not in text and text.count("requirements.py install") == 1
    words = ["make", "--dry-run", "--always-make", "install", "demo", *requirements.TARGETS]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "requirements.py check" in done.stdout
    assert "requirements.py install" not in done.stdout


def test_one_line_says_why_packages_cannot_be_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nothing = requirements.Requirement(("no-such-program",), ("one", "two"))
    monkeypatch.setitem(requirements.REQUIREMENTS, "Redis", nothing)
    monkeypatch.setitem(requirements.TARGETS, "test", ("Redis",))
    with pytest.raises(SystemExit, match=r"^make test needs Redis: as root, `make test-deps`$"):
        requirements.main("check", "test")
    (tmp_path / "apt-get").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(SystemExit, match=r"^make test-deps needs root: .* Debian's one and two$"):
        requirements.main("install", "test")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(SystemExit, match=r"^apt-get -qq update failed$"):
        requirements.main("install", "test")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(SystemExit, match=r"^make test-deps needs Debian's apt-get: install Redis "):
        requirements.main("install", "test")
    with pytest.raises(SystemExit, match=r"^make lint needs no packages of Debian; these do: test"):
        requirements.main("install", "lint")
