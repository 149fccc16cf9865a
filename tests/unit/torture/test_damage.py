"""Each way to damage a memory is noticed by the memory."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from habemus.runtimes.live.storage.log import CorruptStorage, StableMemory
from habemus.torture.damage import damage
from habemus.torture.schedule import DAMAGE_KINDS

OWNER = "torture/1"


def written(folder: Path) -> Path:
    folder.mkdir()
    memory = StableMemory(folder, OWNER)
    for number in range(30):
        memory.commit([(f"locks/1/lock-{number % 3}", b"%d" % number)])
    memory.close()
    return folder


@pytest.mark.parametrize("kind", DAMAGE_KINDS)
def test_a_damaged_memory_is_refused(kind: str, tmp_path: Path) -> None:
    seen = set()
    for seed in range(40):
        folder = written(tmp_path / str(seed))
        what = damage(kind, folder, Random(seed))
        seen.add(" ".join(what.split()[:2]).rstrip("0123456789"))
        if not folder.exists():  # then the other nodes refuse it
            continue
        with pytest.raises(CorruptStorage):
            StableMemory(folder, OWNER)
    assert len(seen) >= {"disk-cut": 1, "disk-garble": 2, "disk-lost": 2}[kind], seen
