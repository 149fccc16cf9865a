"""Locks by the kernel: the folder, the files and the tokens."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import habemus
from habemus import boottime
from habemus.fencing.tokens import token_text


def token(folder: Path, name: str = "report") -> int:
    with habemus.connect(f"local://{folder}") as cluster, cluster.lock(name) as lease:
        assert lease.token is not None
        return lease.token


def test_tokens_grow_across_starts_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for start in (b"a" * 16, b"a" * 16, b"b" * 16, b"a" * 16):
        monkeypatch.setattr(boottime, "boot_id", lambda start=start: start)
        found.append(token_text(token(tmp_path / "locks")))
    assert found == ["1.1", "1.2", "2.1", "3.1"]


def test_every_token_is_synced_if_starts_cannot_be_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(boottime, "boot_id", lambda: b"")
    monkeypatch.setattr("os.fsync", synced.append)
    first = token(tmp_path / "locks")
    synced.clear()
    assert token(tmp_path / "locks") == first + 1
    assert len(synced) == 1


def test_the_folder_is_made_for_its_user_alone(tmp_path: Path) -> None:
    token(tmp_path / "state" / "locks")
    assert (tmp_path / "state" / "locks").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_named_with_a_remedy() -> None:
    with pytest.raises(habemus.Unreachable, match=r"^/proc/habemus: .*; name a folder .*local:///"):
        token(Path("/proc/habemus"))


def test_a_folder_that_others_can_change_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path)
    for name, why in (("open", "writable by other users"), ("link", "symbolic link")):
        with pytest.raises(habemus.RefusedByNode, match=why):
            token(tmp_path / name)


def test_a_file_that_is_not_that_of_a_lock_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    token(folder)
    (file,) = folder.iterdir()
    file.write_bytes(b"something else, and long enough to be a head")
    with pytest.raises(habemus.RefusedByNode, match="damaged"):
        token(folder)
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(habemus.RefusedByNode):
        token(folder)
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    token(folder)
    (file,) = folder.iterdir()
    content = file.read_bytes()
    for length in (0, 1, 8, 24, 100, 101):
        file.write_bytes(content[:length])
        with pytest.raises(habemus.RefusedByNode, match=r"is damaged.*: restore it, or delete it"):
            token(folder)
    file.write_bytes(content)
    assert token_text(token(folder)) == "1.2"


def test_a_file_that_is_cut_off_while_its_lock_is_held_or_idle_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    with habemus.connect(f"local://{folder}") as cluster:
        with cluster.lock("report"):
            (file,) = folder.iterdir()
            os.truncate(file, 0)
            with pytest.raises(habemus.RefusedByNode, match="is damaged"):
                cluster.lock("report", timeout=0.1).acquire()
        with pytest.raises(habemus.RefusedByNode, match="is damaged"):
            cluster.lock("report", timeout=0.1).acquire()


def test_processes_that_make_a_file_at_once_share_it(tmp_path: Path) -> None:
    """Each process makes a draft; one becomes the file, and none is left."""
    program = """
import habemus, sys
with habemus.connect(sys.argv[1]) as cluster:
    sys.stdin.read()
    for name in range(50):
        with cluster.lock(str(name)) as lease:
            print(lease.token)
"""
    arguments = [sys.executable, "-c", program, f"local://{tmp_path}/locks"]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    found = [process.communicate()[0].split() for process in processes]
    assert all(len(tokens) == 50 for tokens in found)
    assert all(
        sorted(map(token_text, map(int, pair))) == ["1.1", "1.2"]
        for pair in zip(*found, strict=True)
    )
    assert len(list((tmp_path / "locks").iterdir())) == 50


@pytest.mark.parametrize("name", ["a/b", "../up", "%2F", "ü" * 300, "x" * 900, " "])
def test_any_name_will_do(tmp_path: Path, name: str) -> None:
    with habemus.connect(f"local://{tmp_path}/locks") as cluster, cluster.lock(name) as lease:
        assert lease.name == name
        assert [each["name"] for each in cluster.status()["locks"]] == [name]
    assert [each.name for each in tmp_path.iterdir()] == ["locks"]


def test_names_that_are_too_long_are_refused(tmp_path: Path) -> None:
    for name in ("x" * 1_001, "a\0b"):
        with (
            habemus.connect(f"local://{tmp_path}/locks") as cluster,
            pytest.raises(ValueError, match=r"too long for a lock|is not a name"),
        ):
            cluster.lock(name).acquire()


def test_a_client_that_is_closed_ends_its_requests(tmp_path: Path) -> None:
    url = f"local://{tmp_path}/locks"

    async def scenario() -> None:
        async with habemus.connect(url) as holder, holder.lock("closing"):
            async with habemus.connect(url) as cluster:
                tasks = [asyncio.create_task(cluster.lock("closing").acquire()) for _ in range(3)]
                await asyncio.sleep(0.2)
            for done in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(done, habemus.Unreachable | asyncio.CancelledError), done

    asyncio.run(scenario())
