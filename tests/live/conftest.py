"""Clusters of real processes, each with a client inside that the test tells what to do."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.ports import reserved_ports

if TYPE_CHECKING:
    from tests.live.nodes import Nodes

PATIENCE = 60.0
"""Seconds after which a process that says nothing has failed the test."""
PARTICIPANT = Path(__file__).with_name("participant.py")


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until the condition is true, and fail if it never becomes so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.005)


class Participant:
    """One process."""

    def __init__(self, file: Path, number: int) -> None:
        self.number = number
        self.errors = (file.parent / f"errors-{number}.txt").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, str(PARTICIPANT), str(file), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said.put(json.loads(line))
        self._said.put({"gone": self.number})
        self.process.stdout.close()

    def tell(self, do: str, **more: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **more}).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, key: str) -> Any:
        """The value of the next thing said that has this key; what is said in between is not for
        this test.
        """
        while True:
            try:
                said = self._said.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(
                    f"node {self.number} did not say {key!r} in {PATIENCE} s"
                ) from None
            if key in said:
                return said[key]
            assert "gone" not in said, f"node {self.number} has ended: {self.complaints()}"

    def complaints(self) -> str:
        return Path(self.errors.name).read_text()[-2_000:]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.close()

    def close(self) -> None:
        for each in (self.process.stdin, self.errors):
            assert each is not None
            each.close()
        self._listening.join(PATIENCE)


class Processes:
    """A cluster of them, from a file that is written here."""

    def __init__(
        self,
        folder: Path,
        services: Mapping[str, tuple[str, Sequence[str], str]],
        size: int = 3,
        head: str = "",
    ) -> None:
        self.folder = folder
        self.file = folder / "cluster.toml"
        (folder / "data").mkdir()
        self.ports = reserved_ports(size)
        lines = ['cluster = "office"', 'data = "data"', 'record = "records"', head, "[nodes]"]
        lines += [f'{number} = "127.0.0.1:{port}"' for number, port in enumerate(self.ports, 1)]
        for name, (algorithm, options, over) in services.items():
            lines += [f"[services.{name}]", f'algorithm = "{algorithm}"', f'over = "{over}"']
            lines += [
                f"options = {{ {', '.join('{} = {}'.format(*_option(each)) for each in options)} }}"
            ]
        self.file.write_text("\n".join(lines) + "\n")
        self.nodes = {number: Participant(self.file, number) for number in range(1, size + 1)}
        for node in self.nodes.values():
            node.hear("ready")

    def restart(self, number: int) -> Participant:
        self.nodes[number] = Participant(self.file, number)
        self.nodes[number].hear("ready")
        return self.nodes[number]

    def kill(self, number: int) -> None:
        self.nodes.pop(number).kill()

    def stop(self) -> list[Path]:
        """Ends all of them together; gives their records."""
        for node in self.nodes.values():
            if node.process.poll() is None:
                node.tell("stop")
        for node in list(self.nodes.values()):
            self.nodes.pop(node.number)
            node.process.wait(PATIENCE)
            node.close()
            assert node.process.returncode == 0, node.complaints()
        return sorted((self.folder / "records").glob("*.jsonl"))

    def close(self) -> None:
        for node in self.nodes.values():
            if node.process.poll() is None:
                node.kill()


def _option(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value if value.isdigit() else json.dumps(value)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Callable[..., Processes]]:
    made: list[Processes] = []

    def start(*given: Any, **more: Any) -> Processes:
        folder = tmp_path if not made else tmp_path / f"{len(made)}"
        folder.mkdir(exist_ok=True)
        made.append(Processes(folder, *given, **more))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    from tests.live.nodes import Nodes  # imports this module

    made = Nodes(tmp_path_factory.mktemp("nodes"), size=1)
    yield made
    made.close()


@pytest.fixture(params=["own", "local"])
def place(
    request: pytest.FixtureRequest, one_node: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The address of a node, and of the locks of this machine."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return one_node.socket(1) if request.param == "own" else "local"
