"""Printers and clients as processes, ours and another's, and what they say, line by line."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tests.live.conftest import PATIENCE
from tests.ports import reserved_ports

ANOTHER = Path(__file__).with_name("another.py")


class Program:
    """One process.  What it prints on either stream can be waited for."""

    def __init__(self, words: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        self.heard: list[str] = []
        self.printed: list[str] = []  # on standard output
        self._lines: queue.Queue[str | None] = queue.Queue()
        assert self.process.stdout is not None and self.process.stderr is not None
        self._threads = [
            threading.Thread(target=self._listen, args=(stream,), daemon=True)
            for stream in (self.process.stdout, self.process.stderr)
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self, stream: IO[str]) -> None:
        for line in stream:
            if stream is self.process.stdout:
                self.printed.append(line)
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def hear(self, part: str) -> str:
        """The next line that has this part."""
        ended = 0
        while ended < 2:
            try:
                line = self._lines.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(
                    f"{part!r} was not said in {PATIENCE} s, but {self.heard[-10:]}"
                ) from None
            if line is None:
                ended += 1
                continue
            self.heard.append(line)
            if part in line:
                return line
        raise AssertionError(f"it ended without saying {part!r}: {self.heard[-10:]}")

    def says_nothing_of(self, part: str) -> bool:
        while not self._lines.empty():
            self.heard.append(self._lines.get() or "")
        return not any(part in line for line in self.heard)

    def type(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self._closed()

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        self.process.wait(PATIENCE)
        self._closed()
        return self.process.returncode

    def document(self) -> Any:
        """What it said as JSON, after its end."""
        return json.loads("".join(self.printed))

    def _closed(self) -> None:
        self.process.wait(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


class Office:
    """A group of clients and a place for a printer, on ports that were free a moment ago."""

    def __init__(self, ids: Sequence[int], folder: Path | None = None) -> None:
        self.ids = ids
        self.folder = folder
        printer_port, *ports = reserved_ports(len(ids) + 1)
        self.printer_port = printer_port
        self.ports = dict(zip(ids, ports, strict=True))
        self.programs: list[Program] = []

    @property
    def printer_place(self) -> str:
        return f"127.0.0.1:{self.printer_port}"

    def peers_of(self, me: int) -> str:
        return ",".join(
            f"{peer}=127.0.0.1:{port}" for peer, port in self.ports.items() if peer != me
        )

    def start(self, *words: str) -> Program:
        program = Program(words)
        self.programs.append(program)
        return program

    def printer(self, *more: str) -> Program:
        program = self.start("-m", "habemus", "printer", "--port", str(self.printer_port), *more)
        program.hear("127.0.0.1:")  # where it listens, in whatever language
        return program

    def client(self, me: int, *more: str) -> Program:
        where = [
            "--id",
            str(me),
            "--port",
            str(self.ports[me]),
            "--peers",
            self.peers_of(me),
            "--printer",
            self.printer_place,
        ]
        record = ["--record", str(self.folder)] if self.folder is not None else []
        return self.start("-m", "habemus", "print", *where, *record, *more)

    def another(self, me: int, jobs: int, give_up: float = PATIENCE, dialect: str = "") -> Program:
        where = [str(me), str(self.ports[me]), self.peers_of(me), self.printer_place]
        return self.start(
            str(ANOTHER), *where, str(jobs), str(give_up), *([dialect] if dialect else [])
        )

    def close(self) -> None:
        for program in self.programs:
            program.kill()
