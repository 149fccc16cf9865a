"""Entries that are written and not synced: a crash of the process keeps them, after a crash of the
machine the memory says that it may have lost some.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habemus import boottime
from habemus.runtimes.live.storage import log as storage
from habemus.runtimes.live.storage import recent
from habemus.runtimes.live.storage.batches import END_SIZE
from habemus.runtimes.live.storage.log import StableMemory, StorageFailed

OWNER = "office/1"
LOST_US = 2_200_000


def opened(folder: Path) -> StableMemory:
    return StableMemory(folder, OWNER)


def begun(folder: Path) -> StableMemory:
    memory = opened(folder)
    memory.begin_recent(LOST_US)
    return memory


def left_by_kill(folder: Path) -> Path:
    """Return a copy of what a process has written so far: its own folder is locked."""
    return Path(shutil.copytree(folder, folder.with_name(folder.name + "-killed")))


def table_after_kill(folder: Path) -> dict[str, bytes]:
    copy = left_by_kill(folder)
    memory = opened(copy)
    try:
        assert memory.lost_us == 0
        return dict(memory.table)
    finally:
        memory.close()
        shutil.rmtree(copy)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir()
    return made


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    real = storage._sync_data

    def noted(descriptor: int) -> None:
        found.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(storage, "_sync_data", noted)
    return found


def test_what_is_written_outlives_the_process_and_costs_no_sync(
    folder: Path, syncs: list[int]
) -> None:
    memory = begun(folder)
    syncs.clear()
    memory.write([("a", b"1"), ("b", b"2")])
    memory.write([("b", None), ("c", b"3")])
    assert syncs == []
    assert table_after_kill(folder) == {"a": b"1", "c": b"3"}
    memory.close()


def test_it_is_in_the_log_after_a_start_and_after_an_end(folder: Path) -> None:
    memory = begun(folder)
    memory.write([("a", b"1")])
    copy = left_by_kill(folder)
    for ended in (copy, folder):
        if ended is folder:
            memory.close()
            assert not (folder / recent.FILE).exists()
        else:
            opened(ended).close()  # moves the entries
            (ended / recent.FILE).unlink(missing_ok=True)
        again = opened(ended)
        assert again.is_logged("a")
        again.close()


def test_the_later_of_what_is_written_and_what_is_stored_counts(folder: Path) -> None:
    memory = begun(folder)
    memory.write([("a", b"written first"), ("b", b"written first")])
    memory.commit([("a", b"stored second"), ("c", b"stored first")])
    memory.write([("c", b"written second")])
    expected = {"a": b"stored second", "b": b"written first", "c": b"written second"}
    assert table_after_kill(folder) == expected
    memory.commit([("c", None)])
    memory.close()
    memory = opened(folder)
    assert dict(memory.table) == {"a": b"stored second", "b": b"written first"}
    memory.close()


def test_after_a_crash_of_the_machine_it_says_so_until_the_owner_has_waited(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = begun(folder)
    memory.commit([("a", b"stored")])
    memory.write([("a", b"written")])
    copy = left_by_kill(folder)
    memory.close()
    monkeypatch.setattr(boottime, "boot_id", lambda: b"another boot....")
    for _ in range(2):  # a process that crashes while it waits must wait again
        memory = opened(copy)
        assert (memory.lost_us, dict(memory.table)) == (LOST_US, {"a": b"stored"})
        memory.close()
    memory = begun(copy)
    assert memory.lost_us == 0
    memory.write([("b", b"written")])
    assert table_after_kill(copy) == {"a": b"stored", "b": b"written"}
    memory.close()


def test_a_file_that_is_gone_is_noticed_and_its_entries_count_as_lost(folder: Path) -> None:
    memory = begun(folder)
    memory.write([("a", b"1")])
    (folder / recent.FILE).unlink()
    with pytest.raises(StorageFailed, match=r"memory.recent was deleted or replaced while"):
        memory.check_place()
    memory.close()
    memory = opened(folder)
    assert (memory.lost_us, dict(memory.table)) == (LOST_US, {})
    memory.close()


def test_after_a_clean_end_nothing_can_be_lost(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = begun(folder)
    memory.write([("a", b"1")])
    memory.close()
    monkeypatch.setattr(boottime, "boot_id", lambda: b"another boot....")
    memory = opened(folder)
    assert (memory.lost_us, dict(memory.table)) == (0, {"a": b"1"})
    memory.close()


def test_without_a_boot_id_nothing_is_only_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boottime, "boot_id", lambda: b"")
    memory = begun(folder)
    assert not memory.can_write
    memory.close()


def test_what_follows_a_damaged_batch_counts_as_lost(folder: Path) -> None:
    memory = begun(folder)
    memory.write([("a", b"1")])
    memory.write([("b", b"2")])
    copy = left_by_kill(folder)
    memory.close()
    file = copy / recent.FILE
    file.write_bytes(file.read_bytes()[: -END_SIZE - 1])
    memory = opened(copy)
    assert (memory.lost_us, dict(memory.table)) == (LOST_US, {"a": b"1"})
    memory.close()


def test_every_cut_is_noticed_also_between_two_batches(folder: Path) -> None:
    memory = begun(folder)
    for number in range(3):
        memory.write([("a", b"%d" % number)])
    copy = left_by_kill(folder)
    memory.close()
    content = (copy / recent.FILE).read_bytes()
    files = {path.name: path.read_bytes() for path in copy.iterdir()}
    for length in range(len(content) + 1):
        for name, each in files.items():
            (copy / name).write_bytes(each)
        (copy / recent.FILE).write_bytes(content[:length])
        memory = opened(copy)
        assert memory.lost_us == (LOST_US if length < len(content) else 0)
        memory.close()
    assert dict(memory.table) == {"a": b"2"}


def test_a_file_without_entries_is_whole(folder: Path) -> None:
    memory = begun(folder)
    assert table_after_kill(folder) == {}
    memory.write([("a", b"1")])
    memory.commit([("a", b"2")])
    assert table_after_kill(folder) == {"a": b"2"}
    memory.close()


def test_they_are_committed_together_when_their_file_has_become_long(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "RECENT_LIMIT", 1_000)
    memory = begun(folder)
    commits = 0
    for number in range(100):
        memory.write([("a", b"%d" % number), (f"{number % 2}", b"x")])
        if entries := memory.overdue():
            memory.commit(entries)
            commits += 1
            assert (folder / recent.FILE).stat().st_size == END_SIZE
            assert table_after_kill(folder) == {"a": b"%d" % number, "0": b"x", "1": b"x"}
    assert 0 < commits < 10
    memory.close()


def test_a_compaction_takes_what_is_written_along(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "COMPACT_FROM", 2_000)
    memory = begun(folder)
    memory._compact_from = 2_000
    memory.commit([("a", b"stored")])
    memory.write([("a", b"written"), ("b", b"written")])
    sequence = memory._sequence
    for number in range(100):
        memory.commit([("c", b"%d" % number)])
    assert memory._size < 2_000 < 100 * 40, "the log was not compacted"
    assert memory._sequence > sequence + 100
    assert table_after_kill(folder) == {"a": b"written", "b": b"written", "c": b"99"}
    memory.close()


def test_a_full_disk_fails_the_memory_for_good(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = begun(folder)
    memory.write([("a", b"1")])

    def full(descriptor: int, data: bytes, position: int) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.pwrite", full)
        with pytest.raises(StorageFailed, match="No space left on device"):
            memory.write([("b", b"2")])
    for again in (memory.write, memory.commit):
        with pytest.raises(StorageFailed, match="No space left on device"):
            again([("c", b"3")])
    assert table_after_kill(folder) == {"a": b"1"}
    memory.close()
    assert (folder / recent.FILE).exists()


KEYS = st.sampled_from("abc")
VALUES = st.none() | st.binary(max_size=30)
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(("write", "commit", "compact", "restart")), KEYS, VALUES),
    max_size=25,
)


@settings(max_examples=50, deadline=None)
@given(OPERATIONS)
def test_whatever_the_order_a_kill_loses_nothing(
    operations: list[tuple[str, str, bytes | None]],
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name, "data")
        folder.mkdir()
        memory, expected = begun(folder), dict[str, bytes]()
        for operation, key, value in operations:
            if operation == "restart":
                copy = left_by_kill(folder)
                memory.close()
                shutil.rmtree(folder)
                copy.rename(folder)
                memory = begun(folder)
            elif operation == "compact":
                with memory._commits:
                    memory._compact()
            else:
                (memory.write if operation == "write" else memory.commit)([(key, value)])
                expected.pop(key, None)
                if value is not None:
                    expected[key] = value
            assert table_after_kill(folder) == expected
        memory.close()
