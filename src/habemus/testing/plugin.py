"""The pytest plugin: clusters for tests, and golden files.

    def test_report(habemus_cluster):
        write_report()                  # connects by `habemus.connect()`
        habemus_cluster.kill(1)         # a real node
        write_report()

    def test_conversation(habemus_golden):
        habemus_golden("central-three.txt", text)

`pytest --habemus-rewrite` writes the golden files instead of comparing; review the changes before
you commit them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from habemus.client.blocking import Cluster
    from habemus.testing.clusters import NodeProcesses


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "habemus(size=3, lease='5s', semaphores={}): nodes, lease and semaphores of the fixture"
        " habemus_cluster",
    )


@pytest.fixture
def habemus_cluster(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[NodeProcesses]:
    """A cluster of three real nodes, for one test; `habemus.connect()` finds it.

    `@pytest.mark.habemus(size=1, lease="2s", semaphores={"printers": 3})` changes it.
    """
    from habemus.testing.clusters import NodeProcesses

    marker = request.node.get_closest_marker("habemus")
    options = {} if marker is None else marker.kwargs
    # The paths of sockets must be short, and those of pytest's own folders are not.
    temporary = tempfile.TemporaryDirectory(prefix="habemus-", ignore_cleanup_errors=True)
    with temporary as folder, NodeProcesses(Path(folder), **options) as nodes:
        monkeypatch.setenv("HABEMUS_CLUSTER", nodes.url)
        yield nodes


@pytest.fixture
def habemus_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A client whose locks need no server, for one test; `habemus.connect()` finds them too.

    They are real: threads and processes of this test exclude each other.
    """
    import habemus

    url = f"local://{tmp_path}/habemus-locks"
    monkeypatch.setenv("HABEMUS_CLUSTER", url)
    with habemus.connect(url) as cluster:
        yield cluster


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--habemus-rewrite",
        action="store_true",
        help="rewrite golden files instead of comparing with them",
    )


@pytest.fixture
def habemus_golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that compares a text with a file in the folder `golden` beside the test."""
    rewrite = bool(request.config.getoption("--habemus-rewrite"))
    folder = Path(request.path).parent / "golden"

    def compare(name: str, text: str) -> None:
        file = folder / name
        if rewrite:
            folder.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        assert file.exists(), (
            f"{file} does not exist; run pytest with --habemus-rewrite and review the new file"
        )
        assert text == file.read_text(encoding="utf-8"), (
            f"{file} differs; if that is right, run pytest with --habemus-rewrite"
        )

    return compare
