"""The folder of `habemus up`: which algorithm its cluster has, and what stays of an earlier one."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from habemus.cli.commands.up import _as_left, _default_algorithm
from habemus.operations.local_cluster import earlier_cluster, file_of, prepare
from habemus.operations.members import with_nodes
from habemus.runtimes.live.config import (
    DEFAULT_ALGORITHM,
    FIXED_ALGORITHM,
    IMPLIED_SERVICES,
    ServiceConfig,
    load,
)


def left(folder: Path, algorithm: str) -> str:
    """Leave a cluster of two nodes with a stable memory; return its file."""
    text = file_of([7401, 7402], {"locks": ServiceConfig(algorithm)}, keeps=True, records=False)
    prepare(folder, text, fresh=False)
    (folder / "data" / "node-1").mkdir()
    return text


def test_a_new_cluster_has_members_that_change(tmp_path: Path) -> None:
    assert earlier_cluster(tmp_path) is None
    assert _default_algorithm(None, fixed=False) == DEFAULT_ALGORITHM
    assert _default_algorithm(None, fixed=True) == FIXED_ALGORITHM


def test_a_file_without_services_means_what_it_always_meant(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('data = "data"\n[nodes]\n1 = "127.0.0.1:7401"\n')
    assert load(file, {}, {}).services == IMPLIED_SERVICES
    assert IMPLIED_SERVICES["locks"].algorithm == FIXED_ALGORITHM == "elected-coordinator-leased"


def test_an_earlier_cluster_keeps_its_algorithm_unless_another_one_is_named(tmp_path: Path) -> None:
    text = left(tmp_path, FIXED_ALGORITHM)
    assert _default_algorithm(earlier_cluster(tmp_path), fixed=False) == FIXED_ALGORITHM
    prepare(tmp_path, text, fresh=False)
    prepare(tmp_path, text.replace(FIXED_ALGORITHM, DEFAULT_ALGORITHM), fresh=False)
    assert _default_algorithm(earlier_cluster(tmp_path), fixed=False) == DEFAULT_ALGORITHM
    with pytest.raises(click.ClickException, match="another algorithm"):  # there is no way back
        prepare(tmp_path, text, fresh=False)


def test_a_cluster_whose_members_were_changed_stays_as_it_was_left(tmp_path: Path) -> None:
    text = left(tmp_path, DEFAULT_ALGORITHM)
    given = {"size": None, "algorithm": None, "options": (), "record": False}
    assert _as_left(tmp_path, dict(given)) is None
    changed = with_nodes(text, {2: "127.0.0.1:7402", 5: "127.0.0.1:7405"}, 4)
    assert changed is not None
    (tmp_path / "cluster.toml").write_text(changed)
    found = _as_left(tmp_path, dict(given))
    assert found is not None and list(found.nodes) == [2, 5]
    assert _as_left(tmp_path, {**given, "size": 2}) is not None
    with pytest.raises(click.ClickException, match="has nodes 2, 5: start it without other"):
        _as_left(tmp_path, {**given, "size": 3})
