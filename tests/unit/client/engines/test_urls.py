"""URLs of engines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import habemus
from habemus.client.engines import is_engine, split_offset


def test_which_names_are_engines() -> None:
    assert not is_engine(None)
    for name in ("local", "local:///path", "redis://h", "postgresql://h/d", "etcd://h:1,h:2"):
        assert is_engine(name)
    for name in ("127.0.0.1:7400", "./local", "folder/cluster.toml", "/tmp/node-1.sock"):
        assert not is_engine(name)
    with pytest.raises(ValueError, match="no engine has the scheme 'mysql'"):
        is_engine("mysql://h")


def test_an_offset_is_added_to_tokens(tmp_path: Path) -> None:
    url = f"local://{tmp_path}/locks"
    assert split_offset(f"{url}?habemus_token_offset=7") == (url, 7)
    assert split_offset("redis://h/0?db=1&habemus_token_offset=7") == ("redis://h/0?db=1", 7)
    with habemus.connect(url) as cluster, cluster.lock("x") as lease:
        first = lease.token
    with habemus.connect(f"{url}?habemus_token_offset=1000") as cluster, cluster.lock("x") as lease:
        assert first is not None
        assert lease.token == first + 1 + 1_000
        state = next(iter(cluster.watch("x")))
        assert state.token == lease.token
    with pytest.raises(ValueError, match="whole number"):
        split_offset("redis://h?habemus_token_offset=-1")


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.delitem(sys.modules, "habemus.client.engines.redis", raising=False)
    with pytest.raises(ValueError, match=r"pip install '\.\[redis\]'"):
        habemus.connect("redis://localhost")


@pytest.mark.parametrize("url", ["etcd://", "etcd://h:x", "zookeeper://", "local://host/path"])
def test_bad_urls(url: str) -> None:
    with pytest.raises(ValueError, match=r"write|address"):
        habemus.connect(url)
