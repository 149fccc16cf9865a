"""The examples of docs/engines.md for moving to habemus and between engines run.

The new code runs on the engine of its example if that is chosen (`HABEMUS_TEST_BACKENDS`), else on
local.  The old code runs where its library and its server are there: not that of tooz.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from tests.live.engines import SYSTEMS, Redis, Server, System
from tests.live.test_backends import CHOSEN

import habemus

PAGE = (Path(__file__).parents[2] / "docs" / "engines.md").read_text(encoding="utf-8")
EXAMPLES = {
    "redis-py": ("redis", "redis://localhost", 1),
    "kazoo": ("zookeeper", "zookeeper://h1:2181", 3),
    "tooz": ("etcd", "etcd://h1:2379", 1),
}
"""The engine of each example, its URL, and how often the code writes or leads."""


def example(name: str) -> tuple[str, str]:
    """Return the old and the new code."""
    section = PAGE.partition(f"\n### From {name}\n")[2].partition("\n##")[0]
    old, new = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    return old, new


@contextmanager
def running(engine: str) -> Iterator[System]:
    with tempfile.TemporaryDirectory(prefix="habemus-", ignore_cleanup_errors=True) as folder:
        system = SYSTEMS[engine if engine in CHOSEN else "local"](Path(folder))
        try:
            yield system
        finally:
            system.stop()


def written(code: str, **names: object) -> list[int | None]:
    """Run code; return the tokens with which it wrote and led."""
    tokens: list[int | None] = []

    def note(token: int | None = None) -> None:
        tokens.append(token)

    exec(compile(code, "docs/engines.md", "exec"), {"write": note, "lead": note, **names})
    return tokens


@pytest.mark.parametrize("name", EXAMPLES)
def test_code_before_and_after_moving(name: str) -> None:
    engine, url, count = EXAMPLES[name]
    old, new = example(name)
    compile(old, "docs/engines.md", "exec")
    assert new.count(f'"{url}"') == 1
    with running(engine) as system:
        if isinstance(system, Server) and name != "tooz":
            from kazoo.client import KazooClient

            here = old.replace(url, system.url).replace("h1:2181", f"127.0.0.1:{system.port}")
            assert here != old
            assert written(here, redis=redis, KazooClient=KazooClient) == [None] * count
        tokens = written(new.replace(url, system.url), habemus=habemus)
    assert len(tokens) == count and all(tokens)


def test_the_offset_of_tokens(tmp_path: Path) -> None:
    """The token of the command lies between those of clients without an offset, but for it."""
    (command,) = re.findall(r"^\$ (habemus lock .*habemus_token_offset.*)$", PAGE, re.M)
    (offset,) = map(int, re.findall(r"habemus_token_offset=(\d+)", command))
    report = tmp_path / "report.sh"
    report.write_text("#!/bin/sh\necho $HABEMUS_TOKEN\n")
    report.chmod(0o755)
    server = Redis(tmp_path)
    try:
        assert "redis://localhost/0" in command
        there = command.replace("redis://localhost/0", server.url)
        line = there.replace("habemus ", f'"{sys.executable}" -m habemus ', 1)
        with habemus.connect(server.url) as cluster:
            with cluster.lock("report") as before:
                pass
            done = subprocess.run(
                ["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True
            )
            with cluster.lock("report") as after:
                pass
    finally:
        server.stop()
    assert before.token is not None and after.token is not None
    assert before.token < int(done.stdout) - offset < after.token
