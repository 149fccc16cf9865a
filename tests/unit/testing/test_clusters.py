"""Arguments of clusters for tests are refused in words, before a process is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from habemus.testing import NodeProcesses


def test_a_cluster_has_at_least_one_node(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="size=0: a cluster has at least 1 node"):
        NodeProcesses(tmp_path, size=0)


def test_a_folder_may_be_a_text(tmp_path: Path) -> None:
    nodes = NodeProcesses(str(tmp_path), size=1)
    nodes.stop()
    assert nodes.folder == tmp_path


def test_only_nodes_that_exist_are_started_and_only_running_ones_killed(tmp_path: Path) -> None:
    nodes = NodeProcesses(tmp_path)
    with pytest.raises(ValueError, match="there is no node 9; there are 1 to 3"):
        nodes.start(9)
    with pytest.raises(ValueError, match="node 9 does not run, so it cannot be killed; up: none"):
        nodes.kill(9)
    nodes.stop()


@pytest.mark.parametrize(
    ("lease", "written"), [(2, "2000000us"), (0.5, "500000us"), ("2s", "2s"), ("500ms", "500ms")]
)
def test_a_lease_is_a_number_of_seconds_or_a_text(
    lease: float | str, written: str, tmp_path: Path
) -> None:
    nodes = NodeProcesses(tmp_path, lease=lease)
    nodes.stop()
    assert f'lease = "{written}"' in Path(nodes.url).read_text(encoding="utf-8")


@pytest.mark.parametrize("lease", [0, -1, True, float("nan"), float("inf")])
def test_a_lease_is_longer_than_nothing(lease: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give a number of seconds, such as 2, or a text"):
        NodeProcesses(tmp_path, lease=lease)
