"""Folders, sockets and secrets that another user may have put there, or can read."""

from __future__ import annotations

import logging
import os
import socket
import stat
from pathlib import Path

import click
import pytest

from habemus.operations.local_cluster import file_of, occupied, prepare
from habemus.runtimes.live.config import load, secret_in
from habemus.runtimes.live.default_cluster import FOLDER, cluster_meant, last_file
from habemus.runtimes.live.sockets import local_socket


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with no cluster that was used before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HABEMUS_CLUSTER", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def test_a_folder_that_nobody_named_must_be_ones_own(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = here / FOLDER
    folder.mkdir(0o700)
    assert cluster_meant(None) == FOLDER
    folder.chmod(0o777)
    with pytest.raises(ValueError, match="writable by other users"):
        cluster_meant(None)
    folder.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    with pytest.raises(ValueError, match="belongs to another user"):
        cluster_meant(None)


def test_a_link_is_not_followed_unless_it_is_named(here: Path) -> None:
    (here / "elsewhere").mkdir(0o700)
    (here / FOLDER).symlink_to(here / "elsewhere")
    with pytest.raises(ValueError, match="is a symbolic link"):
        cluster_meant(None)
    assert cluster_meant(FOLDER) == FOLDER
    with pytest.raises(click.ClickException, match="is a symbolic link"), occupied(here / FOLDER):
        pass


def test_the_lock_file_of_a_folder_is_not_a_link(here: Path) -> None:
    folder = here / FOLDER
    folder.mkdir(0o700)
    (here / "victim").write_text("content")
    (folder / "up.lock").symlink_to(here / "victim")
    with pytest.raises(click.ClickException, match=r"up\.lock"), occupied(folder):
        pass
    assert (here / "victim").read_text() == "content"


def test_the_folder_of_the_last_cluster_must_be_ones_own(here: Path) -> None:
    folder = here / "last"
    folder.mkdir(0o700)
    file = Path(last_file())
    file.parent.mkdir(parents=True)
    file.write_text(f"{folder}\n")
    assert cluster_meant(None) == str(folder)
    folder.chmod(0o770)
    with pytest.raises(ValueError, match="writable by other users"):
        cluster_meant(None)


def test_a_local_cluster_has_a_secret_of_its_own(here: Path) -> None:
    here.chmod(0o700)
    text = file_of([1, 2, 3], {}, keeps=True, records=False, semaphores={"a 😀": 3})
    config, _ = prepare(here, text, fresh=False)
    assert config.semaphores == {"a 😀": 3}
    assert config.secret_file == here / "secret"
    assert stat.S_IMODE((here / "secret").stat().st_mode) == 0o600
    secret = secret_in(here / "secret")
    prepare(here, text, fresh=False)
    assert secret_in(here / "secret") == secret  # it stays
    (here / "secret").chmod(0o644)
    prepare(here, text, fresh=False)
    assert secret_in(here / "secret") != secret  # unless others could read it


def test_a_secret_that_others_can_read_is_warned_of(
    here: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (here / "cluster.toml").write_text(
        'memory = "none"\nsecret_file = "s"\n[nodes]\n1 = "127.0.0.1:1"\n'
    )
    (here / "s").write_text("a secret of the cluster")
    (here / "s").chmod(0o600)
    config = load(here / "cluster.toml", {}, {})
    with caplog.at_level(logging.WARNING):
        config.settings(1)
        assert caplog.messages == []
        (here / "s").chmod(0o640)
        config.settings(1)
        assert len(caplog.messages) == 1
        assert "can be read by other users (mode 640)" in caplog.messages[0]


def test_a_local_socket_replaces_only_a_socket_of_its_user(here: Path) -> None:
    path = here / "node.sock"
    path.write_text("something of value")
    with pytest.raises(FileExistsError):
        local_socket(path)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    local_socket(path).close()  # one that a dead process left
    path.unlink()
    path.symlink_to(here / "elsewhere.sock")
    with pytest.raises(FileExistsError):
        local_socket(path)
    path.unlink()
    here.chmod(0o777)
    with pytest.raises(PermissionError):
        local_socket(path)
    here.chmod(0o700)
