"""Each recipe for real, on the local locks of this machine: `make test-recipes`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import habemus
import pytest

HERE = Path(__file__).parent
PATIENCE = 60.0


def until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(HERE))
    return


def test_celery(habemus_local: habemus.Cluster) -> None:
    import celery_once
    from celery.exceptions import Retry

    assert celery_once.report.apply(args=["sales"]).get() > 0
    with habemus_local.lock("reports/sales"), pytest.raises(Retry):
        celery_once.report.apply(args=["sales"], throw=True)


def test_django(habemus_local: habemus.Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    import django
    from django.conf import settings
    from django.core.management import CommandError, call_command

    settings.configure()
    django.setup()
    from django_command import Command

    call_command(Command())
    assert "writing with token" in capsys.readouterr().out
    with habemus_local.lock("nightly"), pytest.raises(CommandError, match="another one"):
        call_command(Command())


def test_fastapi(habemus_local: habemus.Cluster) -> None:
    from fastapi.testclient import TestClient
    from fastapi_lock import app

    with TestClient(app) as client:
        assert client.post("/reports/sales").json()["token"] > 0
        with habemus_local.lock("reports/sales"):
            assert client.post("/reports/sales").status_code == 409


def test_apscheduler(habemus_local: habemus.Cluster) -> None:
    command = [sys.executable, str(HERE / "apscheduler_once.py")]
    environment = {**os.environ, "SECONDS_TO_RUN": "2"}
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    said = [each.communicate(timeout=PATIENCE)[0].splitlines() for each in both]
    assert [each.returncode for each in both] == [0, 0]
    tokens = [line.split()[1] for lines in said for line in lines]
    assert tokens and len(tokens) == len(set(tokens))


def test_gunicorn(habemus_local: habemus.Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "--workers", "3", "--bind", f"127.0.0.1:{port}"]
    command += ["--config", "gunicorn_leader.py", "gunicorn_leader:application"]
    server = subprocess.Popen(command, cwd=HERE)
    leaders: set[str] = set()

    def found(but: str = "") -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                worker, what = answer.read().decode().split()
        except OSError:
            return False
        if what == "leads":
            leaders.add(worker)
        return bool(leaders - {but})

    try:
        until(found)
        (first,) = leaders
        os.kill(int(first), signal.SIGKILL)
        until(lambda: found(first))
        assert len(leaders) == 2, "the next worker leads"
    finally:
        server.terminate()
        server.wait(PATIENCE)
