"""URLs of engines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import habemus
from habemus.client.engines import is_engine, split_offset, without_password


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


@pytest.mark.parametrize(
    "extra, library", [("redis", "redis"), ("postgresql", "psycopg"), ("zookeeper", "kazoo.client")]
)
def test_a_library_that_is_not_installed_is_an_import_error(
    monkeypatch: pytest.MonkeyPatch, extra: str, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"habemus.client.engines.{extra}", raising=False)
    with pytest.raises(ImportError, match=rf"{library}.*pip install '\.\[{extra}\]'"):
        habemus.connect(f"{extra}://localhost")


def test_a_library_without_its_own_library_is_one_line(tmp_path: Path) -> None:
    """psycopg without libpq raises ImportError."""
    (tmp_path / "psycopg").mkdir()
    (tmp_path / "psycopg" / "__init__.py").write_text("raise ImportError('no pq wrapper')\n")
    done = subprocess.run(
        [sys.executable, "-m", "habemus", "lock", "x", "--", "true"],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            "HABEMUS_CLUSTER": "postgresql://localhost",
        },
        check=False,
    )
    assert done.returncode not in (0, 70)
    [line] = done.stderr.splitlines()
    assert "no pq wrapper: run pip install '.[postgresql]' in your clone" in line


@pytest.mark.parametrize("url", ["etcd://", "etcd://h:x", "zookeeper://", "local://host/path"])
def test_bad_urls(url: str) -> None:
    with pytest.raises(ValueError, match=r"write|address"):
        habemus.connect(url)


SECRET = "hunter2"
HIDING = [
    *(
        f"{scheme}://{rest}"
        for scheme in ("redis", "rediss", "postgresql", "postgres", "etcd", "zookeeper", "mysql")
        for rest in (
            f"u:{SECRET}@127.0.0.1:1",
            f"u:{SECRET}#x@127.0.0.1:1",
            f"u:{SECRET}/x@127.0.0.1:1",
            f"u:{SECRET}?x@127.0.0.1:1",
            f"u:x://{SECRET}@127.0.0.1:1",
            f"u:%zz{SECRET}@127.0.0.1:1",
            f"u:{SECRET}@127.0.0.1:port",
            f"u:{SECRET}@127.0.0.1:1,[::1",
            f"u:{SECRET}",
            f"127.0.0.1:1,u:{SECRET}",
            f"u:{SECRET}@",
            f"127.0.0.1:1/?password={SECRET}",
            f"127.0.0.1:1/?{SECRET}",
        )
    ),
    f"redis:/:{SECRET}@127.0.0.1/0",
    f"redis//:{SECRET}@127.0.0.1:1",
    f"postgresql:u:{SECRET}@127.0.0.1",
    f"u:{SECRET}@127.0.0.1:7400",
    f"local://u:{SECRET}@127.0.0.1/x",
]


@pytest.mark.parametrize("url", HIDING)
def test_a_password_is_in_no_repr_and_in_no_error(url: str) -> None:
    said = []
    try:
        with closing(habemus.connect(url)) as cluster:
            said += [repr(cluster), repr(cluster._asynchronous_copy())]
            cluster.__enter__()
    except (ValueError, habemus.HabemusError) as reason:
        said.append(str(reason))
    assert said
    assert not [each for each in said if SECRET in each or "\n" in each]


@pytest.mark.parametrize(
    "url, shown",
    [
        ("redis://u:p@h:6379/0", "redis://***@h:6379/0"),
        ("redis://h:6379/0?db=1", "redis://h:6379/0?***"),
        ("postgresql:///d", "postgresql:///d"),
        ("postgresql://u@a:1,b:2/d", "postgresql://***@a:1,b:2/d"),
        ("etcd://[::1]:2379", "etcd://[::1]:2379"),
        ("local:///home/me@work/locks", "local:///home/me@work/locks"),
        ("/home/me@work/.habemus", "/home/me@work/.habemus"),
        ("10.0.0.1:7400,10.0.0.2:7400", "10.0.0.1:7400,10.0.0.2:7400"),
    ],
)
def test_what_is_shown_of_a_name(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///d?host=/tmp&user=me@work",
        "postgresql://u:p#@a:1,b:2/d",
        "redis://:p#@[::1]:6379/0",
        "unix://:p@/tmp/redis.sock",
    ],
)
def test_urls_that_are_taken(url: str) -> None:
    with closing(habemus.connect(url)):
        pass


@pytest.mark.parametrize(
    "url, said",
    [
        ("redis://h/0?passwort=x", "the URL of Redis at h: unknown option 'passwort'"),
        ("redis://h/0?db=x", "Invalid value for 'db'"),
        ("rediss://h/0?ssl_cert_reqs=x", "the URL of Redis at h: "),
        ("postgresql://h/d?passwort=x", 'invalid URI query parameter: "passwort"'),
    ],
)
def test_an_option_that_no_engine_knows_is_one_line(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        habemus.connect(url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("words", [["status"], ["lock", "x", "--", "true"]])
def test_a_command_refuses_an_unknown_option_in_one_line(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "habemus", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "HABEMUS_CLUSTER": "redis://h/0?passwort=x"},
        check=False,
    )
    assert done.returncode not in (0, 70)
    [line] = done.stderr.splitlines()
    assert "the URL of Redis at h: unknown option 'passwort'" in line
