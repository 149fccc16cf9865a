"""The checks of `habemus doctor`, on answers and files that are made up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.operations.test_cluster_view import status

from habemus.operations import checkup
from habemus.operations.checkup import OK, PROBLEM, WARNING, ClockedStatus, check_cluster
from habemus.operations.cluster_view import NodeStatus
from habemus.runtimes.live import certificates
from habemus.runtimes.live.certificate_dates import expiry_of
from habemus.runtimes.live.certificates import CertificateFiles
from habemus.runtimes.live.config import Config, TlsFiles, load

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def answer(node: int, ahead: float = 0.0, **more: Any) -> ClockedStatus:
    others = [each for each in (1, 2, 3) if each != node]
    found = {**status(node, reaches=others), "version": "1.0", **more}
    return ClockedStatus(NodeStatus(f"127.0.0.1:{node}", found), ahead)


def levels(answers: dict[int, ClockedStatus]) -> dict[str, str]:
    """Return the worst level of each check."""
    order = (OK, WARNING, PROBLEM)
    found: dict[str, str] = {}
    for check in check_cluster(answers):
        found[check.name] = max(found.get(check.name, OK), check.level, key=order.index)
    return found


def test_a_healthy_cluster() -> None:
    assert set(levels({node: answer(node) for node in (1, 2, 3)}).values()) == {OK}


def test_a_clock_a_version_and_a_lost_node() -> None:
    nodes = {1: answer(1), 2: answer(2, ahead=-5.0), 3: answer(3, version="0.9")}
    found = levels(nodes)
    assert found["clocks"] == found["versions"] == WARNING
    down = ClockedStatus(NodeStatus("127.0.0.1:3", why="connection refused"))
    found = levels({**nodes, 3: down})
    assert (found["node"], found["quorum"]) == (PROBLEM, WARNING)
    found = levels({1: answer(1), 2: down, 3: down})
    assert found["quorum"] == PROBLEM


def cluster(folder: Path) -> Config:
    tls = '[tls]\nca = "ca.pem"\ncertificate = "node-{id}.pem"\nkey = "node-{id}.key"\n'
    file = folder / "cluster.toml"
    file.write_text(f'memory = "none"\n[nodes]\n1 = "127.0.0.1:7401"\n{tls}')
    return load(file, {}, {})


def test_ends_of_certificates(tmp_path: Path) -> None:
    config = cluster(tmp_path)
    assert isinstance(config.tls, TlsFiles)
    node = certificates.node(
        "habemus", 1, CertificateFiles(tmp_path / "node-1.pem", tmp_path / "node-1.key")
    )
    made = certificates.make(
        CertificateFiles(tmp_path / "ca.pem", tmp_path / "ca.key"), "habemus", [node], days=90
    )
    for each in made:
        assert expiry_of(each.files.certificate) == each.expires
    ends = made[1].expires

    def level(now: datetime) -> str:
        found = list(checkup.check_certificates(config, 1, now))
        assert found[0].level == OK  # the authority
        return found[1].level

    assert level(ends - timedelta(days=31)) == OK
    assert level(ends - timedelta(days=3)) == WARNING
    assert level(ends) == PROBLEM
    (tmp_path / "node-1.pem").write_text("nonsense")
    assert level(NOW) == PROBLEM


def test_a_disk_is_measured_and_a_lost_one_is_a_problem(tmp_path: Path) -> None:
    assert [check.name for check in checkup.check_disk(tmp_path)] == ["space", "fsync"]
    assert not any(tmp_path.iterdir())
    [check] = checkup.check_disk(tmp_path / "lost")
    assert check.level == PROBLEM


@pytest.mark.parametrize("content", ["", "-----BEGIN CERTIFICATE-----\nMII=\n", "\xff" * 100])
def test_what_is_not_a_certificate(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.pem"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"x\.pem"):
        expiry_of(path)


def test_a_certificate_that_is_cut_off(tmp_path: Path) -> None:
    certificates.make(CertificateFiles(tmp_path / "ca.pem", tmp_path / "ca.key"), "habemus", [])
    lines = (tmp_path / "ca.pem").read_text().splitlines()
    for kept in range(1, len(lines) - 2):
        (tmp_path / "cut.pem").write_text("\n".join([*lines[: 1 + kept], lines[-1], ""]))
        with pytest.raises(ValueError, match="malformed"):
            expiry_of(tmp_path / "cut.pem")
