"""Backups: made of a view of the cluster, read strictly, restored only where that is safe."""

from pathlib import Path

import msgspec
import pytest

from habemus.operations.backup import JUMP, Backup, BadBackup, restore
from habemus.operations.cluster_view import ClusterView, ElectionView
from habemus.runtimes.live.config import load
from habemus.runtimes.live.storage.log import StableMemory

KEPT = Backup("office", "2026-01-01T00:00:00+00:00", 7, (("locks-election", "all"),))
TOML = 'cluster = "office"\ndata = "data"\n[nodes]\n1 = "127.0.0.1:7401"\n2 = "127.0.0.1:7402"\n'


def view(*elections: ElectionView) -> ClusterView:
    return ClusterView("office", (), elections, ())


def election(term: int, leader: int | None = 1) -> ElectionView:
    return ElectionView("locks-election", "all", leader, term, agreed=True)


def config_file(folder: Path, text: str = TOML) -> Path:
    (folder / "data").mkdir(exist_ok=True)
    (folder / "cluster.toml").write_text(text)
    return folder / "cluster.toml"


def test_the_largest_term_is_kept() -> None:
    kept = Backup.of(view(election(3), election(9)))
    assert (kept.cluster, kept.term) == ("office", 9)


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (view(), "no election by terms"),
        (view(election(0)), "no election by terms"),
        (view(election(3, leader=None)), "has no leader"),
    ],
)
def test_no_backup_without_a_term_and_a_leader(seen: ClusterView, reason: str) -> None:
    with pytest.raises(BadBackup, match=reason):
        Backup.of(seen)


def test_read_as_written(tmp_path: Path) -> None:
    KEPT.write(tmp_path / "kept")
    assert Backup.read(tmp_path / "kept") == KEPT
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"habemus_backup": 2}, "has format 2"),
        ({"term": 0}, "term 0"),
        ({"term": 1 << 31}, "term 2147483648"),
        ({"term": "7"}, "not a backup"),
        ({"more": 1}, "not a backup"),
    ],
)
def test_refused(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    (tmp_path / "kept").write_bytes(msgspec.json.encode({**KEPT.plain(), **change}))
    with pytest.raises(BadBackup, match=reason):
        Backup.read(tmp_path / "kept")


def test_every_node_begins_in_a_later_term_and_has_voted_in_it(tmp_path: Path) -> None:
    config = load(config_file(tmp_path), {}, {})
    folders = restore(KEPT, config, [1, 2])
    assert folders == [tmp_path / "data" / "node-1", tmp_path / "data" / "node-2"]
    identities = set()
    for node, folder in enumerate(folders, start=1):
        memory = StableMemory(folder, f"office/{node}")
        assert memory.joins == "new"
        [(key, stored)] = memory.table.items()
        assert key == f"locks-election/{node}/all"
        assert msgspec.msgpack.decode(stored) == [7 + JUMP, node]
        identities.add(memory.identity)
        memory.close()
    assert len(identities) == 2
    with pytest.raises(BadBackup, match="has a memory already"):
        restore(KEPT, config, [1])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"office"', '"home"', "names 'home'"),
        ("[nodes]", '[services.locks]\nalgorithm = "quorum-durable"\n[nodes]', "do not begin with"),
        ('data = "data"', 'memory = "none"', "no data folder"),
    ],
)
def test_not_restored(tmp_path: Path, old: str, new: str, reason: str) -> None:
    config = load(config_file(tmp_path, TOML.replace(old, new)), {}, {})
    with pytest.raises(BadBackup, match=reason):
        restore(KEPT, config, [1])
