"""A cluster that has lost all its disks, and one that continues it from a backup."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.live.conftest import PATIENCE
from tests.live.nodes import Nodes, leased

import habemus
from habemus.runtimes.live.config import DEFAULT_ALGORITHM, FIXED_ALGORITHM


def command(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "habemus", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("algorithm", [DEFAULT_ALGORITHM, FIXED_ALGORITHM])
def test_tokens_go_on_from_a_backup(tmp_path: Path, algorithm: str) -> None:
    nodes = Nodes(tmp_path, leased("30s", algorithm), size=1)
    file, kept = str(nodes.file), str(tmp_path / "office.backup")
    try:
        with habemus.connect(nodes.socket(1)) as cluster, cluster.lock("report") as lease:
            before = lease.token
            assert before is not None
        made = command("backup", kept, "--cluster", file, "--json")
        assert made.returncode == 0, made.stderr
        assert json.loads(made.stdout)["term"] > 0
        refused = command("restore", kept, "--config", file)
        assert refused.returncode != 0 and "has a memory already" in refused.stderr
        nodes.kill(1)
        shutil.rmtree(tmp_path / "data" / "node-1")
        restored = command("restore", kept, "--config", file, "--json")
        assert restored.returncode == 0, restored.stderr
        nodes.start(1)
        with habemus.connect(nodes.socket(1)) as cluster, cluster.lock("report") as lease:
            assert lease.token is not None and lease.token > before
            assert lease.token >> 32 > json.loads(restored.stdout)["term"]
    finally:
        nodes.close()
