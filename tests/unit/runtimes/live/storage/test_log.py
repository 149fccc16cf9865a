"""Stable memory: what was stored comes back, what was torn is cut, what is corrupt is refused, what
failed stays failed.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import zlib
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habemus.runtimes.live.storage import log as storage
from habemus.runtimes.live.storage.batches import END_SIZE, MARK
from habemus.runtimes.live.storage.log import CorruptStorage, File, StableMemory, StorageFailed

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
    """Writes some batches; gives the size of the file after each, without its room."""
    memory = opened(folder)
    sizes = [memory._size]
    for number in range(1, batches + 1):
        memory.commit([("a", f"{number}".encode()), (f"key-{number}", b"x" * number)])
        sizes.append(memory._size)
    memory.close()
    assert sizes[-1] + END_SIZE == (folder / storage.FILE).stat().st_size
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


def power_fails(folder: Path) -> None:
    """The number of the last synced batch may be as old as the last start."""
    lock = folder / "memory.lock"
    head = lock.read_bytes()[: storage.IDENTITY_SIZE] + (1).to_bytes(8, "big")
    lock.write_bytes(head + zlib.crc32(head).to_bytes(4, "big"))


def test_a_tail_torn_at_any_byte_is_cut_with_a_word_and_the_rest_is_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sizes = filled(tmp_path)
    content = (tmp_path / storage.FILE).read_bytes()
    for cut in range(sizes[2], sizes[3]):
        (tmp_path / storage.FILE).write_bytes(content[:cut])
        power_fails(tmp_path)
        caplog.clear()
        memory = opened(tmp_path)
        assert dict(memory.table) == expected(2)
        assert memory.cut == len(content[sizes[2] : cut].rstrip(b"\0"))
        assert bool(memory.cut) == ("was never acknowledged" in caplog.text)
        memory.commit([("after", b"!")])
        memory.close()
        assert stored(tmp_path) == {**expected(2), "after": b"!"}


def crash(folder: Path, batches: int = 3) -> bytes:
    """Leave a file as a node that was killed leaves it: with its room.  Return its content."""
    folder.mkdir(exist_ok=True)
    memory = opened(folder)
    for number in range(1, batches + 1):
        memory.commit([("a", f"{number}".encode()), (f"key-{number}", b"x" * number)])
    content = (folder / storage.FILE).read_bytes()
    stored_word = (folder / "memory.lock").read_bytes()
    memory.close()
    (folder / storage.FILE).write_bytes(content)
    (folder / "memory.lock").write_bytes(stored_word)
    return content


def test_batches_are_written_into_room_and_the_file_does_not_grow(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    file = tmp_path / storage.FILE
    sizes = set()
    for number in range(200):
        memory.commit([("n", b"%d" % number)])
        sizes.add(file.stat().st_size)
    assert len(sizes) == 1 and max(sizes) > storage.ROOM
    memory.commit([("large", bytes(3 * storage.ROOM))])
    assert file.stat().st_size == memory._size + END_SIZE + storage.ROOM
    memory.close()
    assert file.stat().st_size == memory._size + END_SIZE
    assert stored(tmp_path) == {"n": b"199", "large": bytes(3 * storage.ROOM)}


def test_room_is_no_torn_tail_and_is_used_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = crash(tmp_path)
    assert content.endswith(bytes(storage.ROOM // 2))
    memory = opened(tmp_path)
    assert (dict(memory.table), memory.cut, caplog.text) == (expected(3), 0, "")
    memory.commit([("after", b"!")])
    assert (tmp_path / storage.FILE).stat().st_size == len(content)
    memory.close()
    assert stored(tmp_path) == {**expected(3), "after": b"!"}


def test_a_batch_torn_at_any_byte_of_the_room_is_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the last batch some bytes are on disk, at its beginning or its end, and else zeros."""
    content = crash(tmp_path)
    used = len(content.rstrip(b"\0")) - END_SIZE
    start = content.rfind(MARK)
    for cut in range(start, used, 3):
        for torn in (
            content[:cut] + bytes(len(content) - cut),
            content[:start] + bytes(cut - start + 1) + content[cut + 1 :],
        ):
            (tmp_path / storage.FILE).write_bytes(torn)
            power_fails(tmp_path)
            caplog.clear()
            memory = opened(tmp_path)
            assert dict(memory.table) == expected(2)
            is_torn = bool(torn[start:].strip(b"\0"))
            assert bool(memory.cut) == ("was never acknowledged" in caplog.text) == is_torn
            memory.commit([("after", b"!")])
            memory.close()
            assert stored(tmp_path) == {**expected(2), "after": b"!"}


def test_room_does_not_hide_lost_batches(tmp_path: Path) -> None:
    """Zeros in the place of a batch that is known to be stored, or before a later one."""
    content = crash(tmp_path)
    starts = [place for place in range(len(content)) if content.startswith(MARK, place)]
    for start in starts[1:]:
        damaged = content[:start] + bytes(len(content) - start)
        (tmp_path / storage.FILE).write_bytes(damaged)
        assert "batch 4 was stored, and is not readable" in refusal(tmp_path)
    for start, end in pairwise(starts[1:]):
        damaged = content[:start] + bytes(end - start) + content[end:]
        (tmp_path / storage.FILE).write_bytes(damaged)
        power_fails(tmp_path)
        assert "the later batch" in refusal(tmp_path)


def test_without_place_for_room_batches_are_stored_until_the_disk_is_full(tmp_path: Path) -> None:
    opened(tmp_path).close()
    memory = opened(tmp_path)  # without room
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (memory._size + 1_000, hard))
    try:
        count = 0
        with pytest.raises(StorageFailed, match="File too large"):
            for number in range(100):
                memory.commit([(f"{number}", b"x" * 100)])
                count += 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    memory.close()
    assert count == 7
    memory = opened(tmp_path)
    assert (len(memory.table), memory.cut > 0) == (count, True)
    memory.close()


@pytest.mark.parametrize("rubbish", [os.urandom(5_000), MARK * 50, bytes(5_000) + b"x"])
def test_rubbish_behind_the_last_batch_is_cut(tmp_path: Path, rubbish: bytes) -> None:
    filled(tmp_path)
    with (tmp_path / storage.FILE).open("ab") as file:
        file.write(rubbish)
    memory = opened(tmp_path)
    assert (dict(memory.table), memory.cut) == (expected(3), len(rubbish))
    memory.close()


def refusal(folder: Path) -> str:
    before = (folder / storage.FILE).read_bytes() if (folder / storage.FILE).exists() else None
    with pytest.raises(CorruptStorage) as refused:
        stored(folder)
    told = str(refused.value)
    assert (
        "\n" not in told
        and "start the node with `habemus node --replace`: it recovers its state from all" in told
    )
    if before is not None:
        assert (
            folder / storage.FILE
        ).read_bytes() == before  # left as it was, for whoever has to mend it
    return told


@pytest.mark.parametrize(
    "garbage", [b"", b"noise", bytes(4_096), os.urandom(4_096), MARK * 50, MARK]
)
def test_a_file_of_garbage_is_not_taken_for_a_new_one(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / storage.FILE).write_bytes(garbage)
    assert f"its {len(garbage)} bytes begin with no whole batch" in refusal(tmp_path)


def test_a_file_that_is_gone_is_missed(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / storage.FILE).unlink()
    assert "memory is missing, with batch 4" in refusal(tmp_path)


def test_an_older_copy_of_the_file_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, batches=2)
    older = (tmp_path / storage.FILE).read_bytes()
    filled(tmp_path, batches=1)
    (tmp_path / storage.FILE).write_bytes(older)
    assert "batch 4 was stored, and is not readable" in refusal(tmp_path)


# Damage of every kind, at every place, of every kind of file.

KINDS = ("first", "appended", "compacted", "compacted and appended")


@cache
def lives(kind: str) -> tuple[bytes, bytes, list[dict[str, bytes]]]:
    """A file of this kind, what stands beside it, and the table after each of its batches."""
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        memory = opened(folder)
        tables: list[dict[str, bytes]] = [{}]
        if kind != "first":
            for number in range(1, 4):
                memory.commit([("a", f"{number}".encode()), (f"key-{number}", b"x" * number)])
                tables.append(dict(memory.table))
        if kind.startswith("compacted"):
            patch.setattr(memory, "_compact_from", 0)
            patch.setattr(storage, "COMPACT_AT", 0)
            memory.commit([("b", b"1")])
            patch.undo()
            tables = [dict(memory.table)]
        if kind == "compacted and appended":
            memory.commit([("c", b"2"), ("a", None)])
            tables.append(dict(memory.table))
        memory.close()
        return (folder / storage.FILE).read_bytes(), (folder / "memory.lock").read_bytes(), tables


@st.composite
def damages(draw: st.DrawFn, content: bytes) -> bytes:
    start = draw(st.integers(0, len(content) - 1))
    end = draw(st.integers(start + 1, len(content)))
    damaged: bytes = draw(
        st.one_of(
            st.builds(
                lambda bit: (
                    content[:start] + bytes([content[start] ^ 1 << bit]) + content[start + 1 :]
                ),
                st.integers(0, 7),
            ),
            st.just(content[:start]),
            st.just(content[:start] + bytes(end - start) + content[end:]),
            st.just(content[:start] + content[end:]),
            st.just(content[:start] + content[start:end] + content[start:]),
            st.builds(
                lambda noise: content[:start] + noise + content[start + len(noise) :],
                st.binary(min_size=1, max_size=end - start),
            ),
        )
    )
    return damaged


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=150)
def test_no_damage_is_ever_read_as_something_else(kind: str, data: st.DataObject) -> None:
    """With the number of the last synced batch nothing is ever missing, nor without any number.  If
    it is as old as the last start, whole batches may be missing from the end.
    """
    content, beside, tables = lives(kind)
    damaged = data.draw(damages(content))
    lock = data.draw(st.sampled_from(("whole", "lost", "old")))
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / storage.FILE).write_bytes(damaged)
        (folder / "memory.lock").write_bytes(b"" if lock == "lost" else beside)
        if lock == "old":
            power_fails(folder)
        try:
            found = stored(folder)
        except CorruptStorage:
            assert damaged != content
        else:
            assert found in (tables if lock == "old" else tables[-1:])


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_and_every_cut_is_found(tmp_path: Path, kind: str) -> None:
    content, beside, tables = lives(kind)
    end = len(content) - END_SIZE
    flips = ((place, bit) for place in range(len(content)) for bit in (0, 7))
    damaged = [
        (place, content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :], beside)
        for place, bit in flips
    ]
    for length in range(len(content)):
        cut = content[:length]
        damaged += [(length, cut, beside), (length, cut, b""), (length, cut + bytes(100), b"")]
    for place, each, lock in damaged:
        (tmp_path / storage.FILE).write_bytes(each)
        (tmp_path / "memory.lock").write_bytes(lock)
        if place < end or not lock:
            refusal(tmp_path)
        else:  # nothing but the end mark is damaged
            assert stored(tmp_path) == tables[-1]


@given(beside=st.binary(max_size=40))
@settings(max_examples=50)
def test_what_stands_beside_the_file_can_be_garbage(beside: bytes) -> None:
    content, _, tables = lives("appended")
    with TemporaryDirectory() as name:
        (Path(name) / storage.FILE).write_bytes(content)
        (Path(name) / "memory.lock").write_bytes(beside)
        assert stored(Path(name)) == tables[-1]


def test_what_was_written_and_not_synced_is_synced_when_the_memory_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process was killed before the sync.  What the next one has read must not be lost after it
    has promised something by it.
    """
    memory = opened(tmp_path)
    assert memory._disk is not None
    memory._disk.write(memory._batch([("a", b"vote")]))
    killed = Path(shutil.copytree(tmp_path, tmp_path / "killed"))
    memory.close()
    synced: list[bytes] = []
    real = storage._sync_data

    def noted(descriptor: int) -> None:
        synced.append(os.pread(descriptor, 10_000, 0))
        real(descriptor)

    monkeypatch.setattr(storage, "_sync_data", noted)
    memory = opened(killed)
    assert dict(memory.table) == {"a": b"vote"}
    assert len(synced) == 1 and b"vote" in synced[0]
    memory.close()


def test_the_number_of_the_last_batch_is_synced_when_the_memory_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So no power failure takes it away, and a memory without it was damaged."""
    synced: list[bytes] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == (tmp_path / "memory.lock").stat().st_ino:
            synced.append(os.pread(descriptor, 100, 0))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    for _ in range(2):
        memory = opened(tmp_path)
        assert synced == [(tmp_path / "memory.lock").read_bytes()]
        memory.commit([("a", b"1")])
        memory.close()
        synced.clear()


# A node that begins anew.


def test_each_memory_has_an_identity_and_knows_those_of_the_others(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    assert (len(memory.identity), memory.joins, memory.known) == (
        storage.IDENTITY_SIZE,
        storage.NEW,
        {},
    )
    memory.learn(2, b"a" * 16)
    memory.learn(3, b"c" * 16)
    memory.learn(2, b"b" * 16)
    memory.learn(3, b"c" * 16)
    memory.join([("locks/1/x", b"1")])
    memory.close()
    again = opened(tmp_path)
    assert (again.identity, again.joins, dict(again.table)) == (
        memory.identity,
        "",
        {"locks/1/x": b"1"},
    )
    assert again.known == memory.known == {2: (b"b" * 16, 2), 3: (b"c" * 16, 1)}
    again.close()


@pytest.mark.parametrize("has_file", [True, False])
def test_in_the_place_of_a_lost_one_it_begins_anew(tmp_path: Path, has_file: bool) -> None:
    filled(tmp_path)
    memory = opened(tmp_path)
    memory.join([])
    before = memory.identity
    memory.close()
    with pytest.raises(CorruptStorage, match="--replace is for a node that has lost its memory"):
        StableMemory(tmp_path, OWNER, replace=True)
    if has_file:
        (tmp_path / storage.FILE).write_bytes(b"noise")
    else:
        (tmp_path / storage.FILE).unlink()
    memory = StableMemory(tmp_path, OWNER, replace=True)
    assert memory.identity != before
    assert (memory.joins, dict(memory.table)) == (storage.REPLACES, {})
    memory.close()
    assert has_file == (tmp_path / storage.LOST).exists()
    memory = opened(tmp_path)  # the word was given once, and holds until the node takes part
    assert memory.joins == storage.REPLACES
    memory.join([])
    memory.close()
    memory = opened(tmp_path)
    assert memory.joins == ""
    memory.close()


def test_a_new_one_that_the_others_refuse_may_be_told_that_it_replaces(tmp_path: Path) -> None:
    opened(tmp_path).close()
    memory = StableMemory(tmp_path, OWNER, replace=True)
    assert memory.joins == storage.REPLACES
    memory.close()


@pytest.mark.parametrize("how", ["file", "folder", "moved"])
def test_a_file_that_is_taken_away_from_a_running_node_is_missed(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "node-1"
    folder.mkdir()
    memory = opened(folder)
    memory.check_place()
    if how == "file":
        (folder / storage.FILE).unlink()
    elif how == "folder":
        shutil.rmtree(folder)
    else:
        folder.rename(tmp_path / "elsewhere")
        folder.mkdir()
        (folder / storage.FILE).write_bytes(b"of somebody else")
    for _ in range(2):
        with pytest.raises(
            StorageFailed, match=r"was deleted or replaced while the node was running; .*--replace"
        ):
            memory.commit([("a", b"1")])
        with pytest.raises(StorageFailed, match="was deleted or replaced"):
            memory.check_place()
    memory.close()


def test_what_the_disk_refuses_at_the_start_is_said_of_the_memory(tmp_path: Path) -> None:
    with pytest.raises(
        StorageFailed, match=r"stable memory in .*absent: No such file or directory"
    ):
        opened(tmp_path / "absent")
    (tmp_path / storage.FILE).mkdir()
    with pytest.raises(StorageFailed, match=r"stable memory in .*: Is a directory"):
        opened(tmp_path)


def test_a_missing_middle_batch_is_corrupt(tmp_path: Path) -> None:
    sizes = filled(tmp_path)
    content = (tmp_path / storage.FILE).read_bytes()
    (tmp_path / storage.FILE).write_bytes(content[: sizes[1]] + content[sizes[2] :])
    with pytest.raises(CorruptStorage):
        stored(tmp_path)


def test_the_memory_of_another_node_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    with pytest.raises(CorruptStorage, match="belongs to 'office/1', not to 'office/2'"):
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

    def remove_room(self) -> None:
        self._disk.remove_room()

    def close(self) -> None:
        self._disk.close()


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_failure_is_for_good_and_never_tried_again(tmp_path: Path, operation: str) -> None:
    memory = opened(tmp_path)
    memory.commit([("a", b"1")])
    assert memory._disk is not None
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
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)],
        capture_output=True,
        check=False,
    )
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
        assert (
            len(stored(full_disk)) == count
        )  # the torn batch is cut, everything before it is there
    finally:
        subprocess.run(["umount", str(full_disk)], check=True)


def test_compaction_keeps_the_table_and_frees_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "COMPACT_FROM", 4_000)
    monkeypatch.setattr(storage, "ROOM", 1_000)
    memory = opened(tmp_path)
    for number in range(500):
        memory.commit([(f"{number % 5}", f"{number}".encode() * 10)])
        assert (tmp_path / storage.FILE).stat().st_size < 7_000
    table = dict(memory.table)
    memory.close()
    assert stored(tmp_path) == table == {f"{key}": f"{495 + key}".encode() * 10 for key in range(5)}


def test_a_compaction_that_was_interrupted_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    memory.commit([("b", b"2")])
    memory.commit([("b", b"3")])  # the old file is as good as before
    memory.close()
    monkeypatch.setattr(File, "sync", real_sync)
    assert stored(tmp_path) == {**expected(3), "b": b"3"}


def test_compaction_without_a_free_descriptor_is_put_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(storage, "COMPACT_FROM", 2_000)
    memory = opened(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.dup(0))
        for number in range(100):
            memory.commit([("n", b"%d" % number * 20)])
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "compaction of stable memory" in caplog.text and "Too many open files" in caplog.text
    before = (tmp_path / storage.FILE).stat().st_size
    for number in range(100, 200):
        memory.commit([("n", b"%d" % number * 20)])
    memory.close()
    assert (tmp_path / storage.FILE).stat().st_size < before
    assert stored(tmp_path) == {"n": b"199" * 20}


WRITER = textwrap.dedent("""
    import sys
    from pathlib import Path
    from habemus.runtimes.live.storage import log as storage
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
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
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
