"""The example of a resource on the web, over a real socket."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples.fenced_http.client import put
from examples.fenced_http.server import LONGEST, Server, serve

from habemus.fencing import FencedFile, StaleToken

FOLDER = Path(__file__).parents[3] / "examples" / "fenced_http"
PATIENCE = 60.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serve(tmp_path / "report", 0) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join(PATIENCE)


def ask(server: Server, method: str, content: bytes = b"", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    try:
        connection.request(
            method, "/", content, {name.replace("_", "-"): value for name, value in headers.items()}
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_holder_that_comes_late_is_refused(server: Server, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{server.server_port}/"
    assert ask(server, "GET")[0] == 404
    put(url, b"by the first", 7)
    put(url, b"by the second", 9)
    put(url, b"by the second again", 9)
    with pytest.raises(StaleToken) as refused:
        put(url, b"by the first, too late", 8)
    assert (refused.value.token, refused.value.newest) == (8, 9)
    assert ask(server, "GET") == (200, b"by the second again")
    assert FencedFile(tmp_path / "report").newest == 9


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 428),
        ({"Habemus_Token": "-1"}, 400),
        ({"Habemus_Token": "9" * 400}, 400),
        ({"Habemus_Token": "1", "Content_Length": "-5"}, 411),
        ({"Habemus_Token": "1", "Content_Length": str(LONGEST + 1)}, 413),
        ({"Habemus_Token": "1", "Content_Length": "9" * 5000}, 413),
    ],
    ids=["no token", "negative", "huge", "no length", "too long", "absurdly long"],
)
def test_what_is_wrong_changes_nothing(
    server: Server, tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    assert ask(server, "PUT", b"x", **headers)[0] == status
    assert ask(server, "DELETE")[0] == 405
    assert list(tmp_path.iterdir()) == []


def test_as_programs(tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "server.py"), str(tmp_path / "report"), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        url = serving.stdout.readline().strip()

        def write(token: str) -> tuple[int, str]:
            client = [sys.executable, str(FOLDER / "client.py"), url, f"with {token}"]
            environment = os.environ | {"HABEMUS_TOKEN": token}
            done = subprocess.run(
                client,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            return done.returncode, done.stderr

        try:
            assert write("2") == (0, "")
            code, said = write("1")
            assert code == 1 and said.startswith(
                "token 1 is stale: the resource has accepted token 2"
            )
        finally:
            serving.kill()
    assert (tmp_path / "report").read_text() == "with 2"
