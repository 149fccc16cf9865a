"""A fenced file: what is accepted, what a crash can leave, and that two processes do not come
between each other's check and write.
"""

from __future__ import annotations

import fcntl
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.fencing.writer import content_of

from habemus.fencing import CorruptFence, FencedFile, StaleToken, file

WRITER = Path(__file__).with_name("writer.py")
PATIENCE = 60.0


@contextmanager
def writer(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(WRITER), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


# What is accepted.


@settings(max_examples=60)
@given(st.lists(st.integers(0, 6) | st.integers(0, 2**63 - 1), max_size=12))
def test_accepted_if_and_only_if_not_smaller_than_the_largest_accepted(tokens: list[int]) -> None:
    with TemporaryDirectory() as folder:
        largest, content = -1, None
        for number, token in enumerate(tokens):
            fenced = FencedFile(
                Path(folder, "report")
            )  # a new one each time: what counts is what is on the disk
            wanted = b"%d" % number
            if token >= largest:
                fenced.write(wanted, token)
                largest, content = token, wanted
            else:
                with pytest.raises(StaleToken) as refused:
                    fenced.write(wanted, token)
                assert (refused.value.token, refused.value.newest) == (token, largest)
            assert (fenced.newest, fenced.read()) == (largest, content)


def test_a_file_that_was_never_written() -> None:
    with TemporaryDirectory() as folder:
        fenced = FencedFile(Path(folder, "report"))
        assert fenced.newest is None
        with pytest.raises(FileNotFoundError):
            fenced.read()
        fenced.append(b"first\n", 0)
        fenced.append(b"second\n", 0)
        assert fenced.read() == b"first\nsecond\n" and fenced.newest == 0


@pytest.mark.parametrize("token", [None, -1, 2**63])
def test_what_is_no_token_changes_nothing(tmp_path: Path, token: int | None) -> None:
    with pytest.raises(ValueError, match="token"):
        FencedFile(tmp_path / "report").write(b"x", token)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_content_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        FencedFile(tmp_path / "report").write("text", 1)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_file_keeps_its_permissions_and_its_one_token_under_another_name(tmp_path: Path) -> None:
    report, link = tmp_path / "report", tmp_path / "link"
    report.write_bytes(b"before")
    report.chmod(0o640)
    link.symlink_to(report)
    FencedFile(link).write(b"after", 5)
    assert (
        link.is_symlink()
        and report.read_bytes() == b"after"
        and stat.S_IMODE(report.stat().st_mode) == 0o640
    )
    with pytest.raises(StaleToken):
        FencedFile(report).write(b"late", 4)


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: b"",
        lambda line: line[:-1],
        lambda line: line[: len(line) // 2],
        lambda line: b"\0" * len(line),
        lambda line: line.replace(b"12", b"11"),
        lambda line: line.replace(b" 12", b" 012"),
        lambda line: line + b"\n",
        lambda line: line[:-3] + b"00\n",
    ],
)
def test_a_damaged_token_is_never_taken_for_a_small_one(tmp_path: Path, damage: object) -> None:
    fenced = FencedFile(tmp_path / "report")
    fenced.write(b"good", 12)
    kept = tmp_path / "report.token"
    kept.write_bytes(damage(kept.read_bytes()))  # type: ignore[operator]
    for token in (0, 12, 2**63 - 1):
        with pytest.raises(CorruptFence, match=r"report\.token is damaged"):
            FencedFile(tmp_path / "report").write(b"bad", token)
    assert fenced.read() == b"good"


# Two processes.


def test_two_processes_race(tmp_path: Path) -> None:
    """Both append their tokens as fast as they can: no line is lost, and the tokens in the file
    never fall.
    """
    report = tmp_path / "report"
    with (
        writer("append", report, *range(0, 240, 2)) as even,
        writer("append", report, *range(1, 240, 2)) as odd,
    ):
        assert (line_of(even), line_of(odd)) == ("ready", "ready")
        go(even)
        go(odd)
        accepted = [
            int(line)
            for process in (even, odd)
            for line in process.communicate(timeout=PATIENCE)[0].split()
        ]
        assert (even.returncode, odd.returncode) == (0, 0)
    lines = [int(line) for line in report.read_bytes().split()]
    assert lines == sorted(accepted) and lines


def test_nobody_comes_between_check_and_write(tmp_path: Path) -> None:
    report = tmp_path / "report"
    with writer("hold", report, 1) as slow, writer("append", report, 2) as fast:
        assert line_of(slow) == "checked" and line_of(fast) == "ready"
        with (tmp_path / "report.lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        go(fast)
        go(slow)
        assert line_of(slow) == "1" and line_of(fast) == "2"
    assert report.read_bytes() == content_of(1) + b"2\n" and FencedFile(report).newest == 2


def test_planted_without_the_lock_a_stale_write_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same two writers, one inside the other's write: what the lock is for."""

    @contextmanager
    def unlocked(self: FencedFile) -> Iterator[None]:
        yield

    report, replace = tmp_path / "report", file._replace
    done: list[Path] = []

    def interrupted(path: Path, content: bytes) -> None:
        if (
            path == report and not done
        ):  # token 1 is checked and remembered; now another process writes with token 2
            done.append(path)
            FencedFile(report).write(b"new", 2)
        replace(path, content)

    monkeypatch.setattr(FencedFile, "_locked", unlocked)
    monkeypatch.setattr(file, "_replace", interrupted)
    FencedFile(report).write(b"old", 1)
    assert FencedFile(report).newest == 2 and report.read_bytes() == b"old"


# Crashes.


def check_after_crash(report: Path, acknowledged: int) -> None:
    """Whole content, a token that is not older than it, and nobody older than what was acknowledged
    let in.
    """
    fenced = FencedFile(report)
    written = int(fenced.read()[:8])
    assert fenced.read() == content_of(written), "torn"
    newest = fenced.newest
    assert newest is not None and newest >= written >= acknowledged, (
        "a token was forgotten, or a write that was acknowledged"
    )
    if newest:
        with pytest.raises(StaleToken):
            fenced.write(b"late", newest - 1)
    fenced.write(content_of(newest), newest)  # and it goes on


def test_killed_at_every_step(tmp_path: Path) -> None:
    report = tmp_path / "report"
    steps = 0
    for steps in range(1, 100):
        FencedFile(report).write(content_of(steps), steps)
        with writer("die", report, steps + 1, steps) as dying:
            survived = line_of(dying) == f"{steps + 1}"
            assert dying.wait(PATIENCE) == (0 if survived else -signal.SIGKILL)
        check_after_crash(report, steps + survived)
        if survived:
            break
    assert 15 < steps < 99  # it was killed before each of its calls, and not before


def test_killed_at_any_moment(tmp_path: Path) -> None:
    report = tmp_path / "report"
    for more in range(8):
        for left in tmp_path.iterdir():
            left.unlink()
        with writer("loop", report) as writing:
            for _ in range(1 + 7 * more):
                acknowledged = int(line_of(writing))
            writing.kill()
            assert writing.stdout is not None
            acknowledged = int(([str(acknowledged), *writing.stdout.read().split()])[-1])
        check_after_crash(report, acknowledged)
