"""`habemus lab` says in one line what it cannot do, and what the page opens first."""

import socket
import sys
from pathlib import Path

import click
import pytest

from habemus.cli.app import run
from habemus.cli.commands.lab import opening


def test_what_the_page_opens_first(tmp_path: Path) -> None:
    trace = tmp_path / "run.json"
    trace.write_text("{}\n", encoding="utf-8")
    assert opening(()) is None
    assert opening(("ra-three",)) == {"scenario": "ra-three"}
    assert opening(("central", "-n", "3", "--then", "5: 1 crashes")) == {
        "run": "central -n 3 --then '5: 1 crashes'"
    }
    assert opening((str(trace),)) == {"trace": "{}\n", "name": "run.json"}
    assert opening(("check", "maekawa", "-n", "3")) == {"check": "maekawa -n 3"}
    link = "http://127.0.0.1:7490/#run=central%20-n%203&events=3&digest=0&marks="
    assert opening((link,)) == {"link": link}


@pytest.mark.parametrize("what", ["ricart-agrawla", "absent.json"])
def test_what_is_not_there_is_refused(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "--no-browser", "--port", "0", what]) == 2
    said = capsys.readouterr().err
    assert said.startswith("habemus: ")
    assert said.count("\n") == 1


def test_a_taken_port_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert run(["lab", "--no-browser", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert said == (
        f"habemus: port {port} cannot be used: Address already in use; choose another one with"
        " --port\n"
    )


def test_the_missing_extra_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "habemus.lab.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["lab", "--no-browser"]) == 2
    assert "package 'uvicorn' is missing: pip install 'habemus[lab]'" in capsys.readouterr().err


def test_options_of_the_run_are_not_those_of_the_lab() -> None:
    from habemus.cli.commands.lab import lab

    context = click.Context(lab)
    arguments = ["central", "-n", "3", "--seed", "7", "--no-browser", "--crash", "2@5ms"]
    given = lab.make_context("lab", arguments, parent=context).params
    assert given["what"] == ("central", "-n", "3", "--seed", "7", "--crash", "2@5ms")
    assert given["no_browser"] is True
