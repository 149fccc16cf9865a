"""Stable memory: what was stored comes back, what was torn is cut, what is corrupt is refused, what failed stays failed."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from habemus.runtimes.live import storage
from habemus.runtimes.live.storage import CorruptStorage, File, StableMemory, StorageFailed

OWNER = "office/1"


def opened(folder: Path) -> StableMemory:
    return StableMemory(folder, OWNER)


def stored(folder: Path) -> dict[str, bytes]:
    memory = opened(folder)
    try:
        return dict(memory.table)
    finally:
        memory.close()


def filled(folder: Path, batches: int = 3) -> list[int]:
    """Writes some batches; gives the size of the file after each."""
    memory = opened(folder)
    sizes = [(folder / storage.FILE).stat().st_size]
    for number in range(1, batches + 1):
        memory.commit([("a", f"{number}".encode()), (f"key-{number}", b"x" * number)])
        sizes.append((folder / storage.FILE).stat().st_size)
    memory.close()
    return sizes


def expected(batches: int) -> dict[str, bytes]:
    table = {f"key-{number}": b"x" * number for number in range(1, batches + 1)}
    return table | ({"a": f"{batches}".encode()} if batches else {})


def test_it_comes_back_and_later_entries_replace_earlier_ones(tmp_path: Path) -> None:
    filled(tmp_path)
    assert stored(tmp_path) == expected(3)


def test_an_entry_without_a_value_removes_it(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.commit([("a", b"1"), ("b", b"2")])
    memory.commit([("a", None)])
    memory.close()
    assert stored(tmp_path) == {"b": b"2"}


def test_that_nobody_was_inside_is_true_of_one_end_only(tmp_path: Path) -> None:
    for _ in range(2):
        memory = opened(tmp_path)
        assert not memory.was_vacant
        memory.commit([("a", b"1")])
        memory.leave_vacant()
        memory.close()
        memory = opened(tmp_path)
        assert (memory.was_vacant, dict(memory.table)) == (True, {"a": b"1"})
        memory.close()


def test_a_tail_torn_at_any_byte_is_cut_and_the_rest_is_whole(tmp_path: Path) -> None:
    sizes = filled(tmp_path)
    content = (tmp_path / storage.FILE).read_bytes()
    for cut in range(sizes[2], sizes[3]):
        (tmp_path / storage.FILE).write_bytes(content[:cut])
        memory = opened(tmp_path)
        assert dict(memory.table) == expected(2)
        assert memory.cut == cut - sizes[2]
        memory.commit([("after", b"!")])
        memory.close()
        assert stored(tmp_path) == {**expected(2), "after": b"!"}


@pytest.mark.parametrize("rubbish", [b"\0" * 5_000, os.urandom(5_000), storage.MARK * 50])
def test_rubbish_behind_the_last_batch_is_cut(tmp_path: Path, rubbish: bytes) -> None:
    filled(tmp_path)
    with (tmp_path / storage.FILE).open("ab") as file:
        file.write(rubbish)
    memory = opened(tmp_path)
    assert (dict(memory.table), memory.cut) == (expected(3), len(rubbish))
    memory.close()


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    """In the last batch it looks torn and is cut; before that, the file is refused in one line.  No changed value is ever read."""
    sizes = filled(tmp_path)
    content = (tmp_path / storage.FILE).read_bytes()
    for position in range(len(content)):
        for bit in (0, 7):
            changed = bytearray(content)
            changed[position] ^= 1 << bit
            (tmp_path / storage.FILE).write_bytes(changed)
            if position >= sizes[2]:
                assert stored(tmp_path) == expected(2)
                continue
            with pytest.raises(CorruptStorage) as refusal:
                stored(tmp_path)
            assert "corrupt at byte" in str(refusal.value)
            assert "\n" not in str(refusal.value)
            assert (tmp_path / storage.FILE).read_bytes() == changed  # and left as it was, for whoever has to mend it


def test_a_missing_middle_batch_is_corrupt(tmp_path: Path) -> None:
    sizes = filled(tmp_path)
    content = (tmp_path / storage.FILE).read_bytes()
    (tmp_path / storage.FILE).write_bytes(content[: sizes[1]] + content[sizes[2] :])
    with pytest.raises(CorruptStorage):
        stored(tmp_path)


def test_the_memory_of_another_node_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    with pytest.raises(CorruptStorage, match="is the memory of 'office/1', and this is 'office/2'"):
        StableMemory(tmp_path, "office/2")
    assert stored(tmp_path) == expected(3)  # the lock was given back


def test_two_processes_cannot_share_a_folder(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    with pytest.raises(StorageFailed, match="in use"):
        opened(tmp_path)
    memory.close()
    opened(tmp_path).close()


class Failing:
    """A disk on which one operation fails once, and would succeed if it were tried again."""

    def __init__(self, disk: storage.Disk, operation: str) -> None:
        self._disk, self._operation, self.attempts = disk, operation, 0

    def _fail(self, operation: str) -> None:
        if operation == self._operation:
            self.attempts += 1
            if self.attempts == 1:
                raise OSError(5, "Input/output error")

    def write(self, data: bytes) -> None:
        self._fail("write")
        self._disk.write(data)

    def sync(self) -> None:
        self._fail("sync")
        self._disk.sync()

    def close(self) -> None:
        self._disk.close()


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_failure_is_for_good_and_never_tried_again(tmp_path: Path, operation: str) -> None:
    memory = opened(tmp_path)
    memory.commit([("a", b"1")])
    memory._disk = failing = Failing(memory._disk, operation)
    with pytest.raises(StorageFailed, match="Input/output error"):
        memory.commit([("a", b"2")])
    with pytest.raises(StorageFailed, match="Input/output error"):
        memory.commit([("a", b"3")])
    assert failing.attempts == 1
    assert memory.table == {"a": b"1"}
    memory.close()


@pytest.fixture
def full_disk(tmp_path: Path) -> Path:
    """A real file system with little room; only an administrator can make one."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("cannot mount a small file system here")
    return folder


def test_a_disk_that_is_really_full(full_disk: Path) -> None:
    try:
        memory = opened(full_disk)
        count = 0
        with pytest.raises(StorageFailed, match="No space left"):
            for number in range(100):
                memory.commit([(f"{number}", bytes(3_000))])
                count += 1
        memory.close()
        assert count > 3
        assert len(stored(full_disk)) == count  # the torn batch is cut, everything before it is there
    finally:
        subprocess.run(["umount", str(full_disk)], check=True)


def test_compaction_keeps_the_table_and_frees_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "COMPACT_FROM", 4_000)
    memory = opened(tmp_path)
    for number in range(500):
        memory.commit([(f"{number % 5}", f"{number}".encode() * 10)])
        assert (tmp_path / storage.FILE).stat().st_size < 6_000
    table = dict(memory.table)
    memory.close()
    assert stored(tmp_path) == table == {f"{key}": f"{495 + key}".encode() * 10 for key in range(5)}


def test_a_compaction_that_was_interrupted_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path)
    (tmp_path / "memory.new").write_bytes(b"half of it")
    assert stored(tmp_path) == expected(3)
    assert not (tmp_path / "memory.new").exists()

    monkeypatch.setattr(storage, "COMPACT_FROM", 0)
    monkeypatch.setattr(storage, "COMPACT_AT", 0)
    memory = opened(tmp_path)
    real_sync = File.sync

    def fail_on_the_new_file(file: File) -> None:
        if file.path.suffix == ".new":
            raise OSError(28, "No space left on device")
        real_sync(file)

    monkeypatch.setattr(File, "sync", fail_on_the_new_file)
    with pytest.raises(StorageFailed):
        memory.commit([("b", b"2")])
    memory.close()
    monkeypatch.setattr(File, "sync", real_sync)
    assert stored(tmp_path) == {**expected(3), "b": b"2"}


WRITER = textwrap.dedent("""
    import sys
    from pathlib import Path
    from habemus.runtimes.live import storage
    storage.COMPACT_FROM = 20_000
    memory = storage.StableMemory(Path(sys.argv[1]), "office/1")
    number = int(memory.table.get("n", b"0"))
    while True:
        number += 1
        memory.commit([("n", b"%d" % number), ("filler", bytes(number % 700))])
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
""")


def test_nothing_that_was_acknowledged_is_lost_by_a_kill(tmp_path: Path) -> None:
    last = 0
    for round_number in range(8):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        for _ in range(50 + 37 * round_number):
            last = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split("\n")
        last = max([last, *(int(each) for each in rest[:-1])])
        writer.wait()
        writer.stdout.close()
        found = int(stored(tmp_path)["n"])
        assert last <= found <= last + 1  # one may have been stored and not acknowledged yet
        last = found
