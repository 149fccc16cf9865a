"""`habemus lab` says in one line what it cannot do, and what the page opens first."""

import json
import socket
import sys
from pathlib import Path

import click
import pytest

from habemus.cli import run
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


def test_records_of_live_nodes_are_merged(tmp_path: Path) -> None:
    files = []
    for node in (0, 1):
        service = {
            "run": {"live": True, "algorithm": "central", "n": 1},
            "processes": [0, 1],
            "labels": {},
            "here": [node],
        }
        record = {"cluster": "habemus", "node": node, "life": 1, "services": {"locks": service}}
        events = [{"on": f"locks/{name}", "t": 5, "p": node, "e": "start"} for name in ("a", "b")]
        lines = [{"habemus_record": 1, **record}, *events]
        file = tmp_path / f"node-{node}.jsonl"
        text = "".join(f"{json.dumps(each, separators=(',', ':'))}\n" for each in lines)
        file.write_text(text, encoding="utf-8")
        files.append(str(file))
    found = opening(tuple(files), "locks/b")
    assert found is not None and found["name"] == "locks/b, live"
    assert found["trace"].count('"e":"start"') == 2
    with pytest.raises(ValueError, match="which of locks/a, locks/b"):
        opening(tuple(files))
    with pytest.raises(click.ClickException, match="--on chooses from the records"):
        opening(("central",), "locks/b")


@pytest.mark.parametrize(
    ("what", "hint"),
    [
        ("ricart-agrawla", "did you mean ricart-agrawala?"),
        ("central-holder-slo", "did you mean central-holder-slow"),
        ("qqq", "habemus algorithms and habemus scenario list all"),
        ("absent.json", "absent.json: No such file or directory"),
        ("central --sed 7", "did you mean --seed"),
        ("central -n x", "expected a whole number"),
        ("central -n 0", "central runs with 1 to 3000 participants, not with 0"),
        ("central --crash 9", "--crash '9' is not complete"),
        ("check", "name an algorithm"),
        ("check qqq", "there is no algorithm qqq"),
        ("check central -n 0", "central runs with 1 to 3000 participants, not with 0"),
        ("check maekawa --nn 3", "a check has no option --nn"),
        ("ra-three --seed 3", "scenario ra-three takes no options"),
        ("--on locks/a", "--on chooses from the records"),
    ],
)
def test_what_is_not_there_is_refused(
    what: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lab", "--no-browser", "--port", "0", *what.split()]) == 2
    said = capsys.readouterr().err
    assert said.startswith("habemus: ")
    assert hint in said
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
    assert (
        "package 'uvicorn' is missing: pip install '.[lab]' in your clone"
        in capsys.readouterr().err
    )


def test_options_of_the_run_are_not_those_of_the_lab() -> None:
    from habemus.cli.commands.lab import lab

    context = click.Context(lab)
    arguments = ["central", "-n", "3", "--seed", "7", "--no-browser", "--crash", "2@5ms"]
    given = lab.make_context("lab", arguments, parent=context).params
    assert given["what"] == ("central", "-n", "3", "--seed", "7", "--crash", "2@5ms")
    assert given["no_browser"] is True
