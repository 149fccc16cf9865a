"""Files of Python that data names: none is imported before the user has agreed, whichever field
names it and whatever opens the data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.unit.lab.asking import ask

from habemus.cli.app import run_command
from habemus.cli.failures import report
from habemus.core.named_code import file_of
from habemus.lab.links import link_to
from habemus.lab.session import Session
from habemus.runs.check import Check
from habemus.runs.setup import Setup
from habemus.traces import Trace
from habemus.traces.file import MalformedTrace, read, write, written

MINE = "mine.py:Mine"
RUN = {"algorithm": "central", "n": 2}
OF_A_RECORD: dict[str, dict[str, Any]] = {
    "live": {"live": True, **RUN},
    "shared": {"live": True, "shared": True, **RUN},
    "election": {"live": True, "election_of": RUN},
    "election beside": {"live": True, "algorithm": "terms", "n": 2, "election_of": RUN},
}
HEADERS: dict[str, dict[str, Any]] = {
    "run": RUN,
    "check": {"check": RUN, "property": "ME1", "steps": 0},
    **OF_A_RECORD,
}


@pytest.fixture
def has_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Return whether the file of a stranger has run since the last call."""
    monkeypatch.chdir(tmp_path)
    trace, number = tmp_path / "has-run", 0
    mine = tmp_path / "mine.py"

    def ask_and_forget() -> bool:
        nonlocal number
        found = trace.exists()
        trace.unlink(missing_ok=True)
        number += 1  # a text that was imported already would not run again
        mine.write_text(f"open('has-run', 'w').close()  # {number}\n")
        return found

    assert not ask_and_forget()
    return ask_and_forget


def variants(header: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the header with the file in each of its fields, also in those that it does not have."""
    known = {each.name for kind in (Setup, Check) for each in fields(kind)}
    for name in sorted({*header, *known, "election_of", "check", "property", "labels", "other"}):
        for value in (MINE, [MINE], [["loss", MINE]], {MINE: 1}, [f"elected_by={MINE}"]):
            yield {**header, name: value}
    for name in ("election_of", "check"):
        if isinstance(header.get(name), dict):
            yield from ({**header, name: inner} for inner in variants(header[name]))


def trace_of(run: dict[str, Any]) -> Trace:
    return Trace(run, (1, 2), {1: "1", 2: "2"}, (), (), "t")


def replay(run: dict[str, Any], *options: str) -> int:
    write(trace_of(run), "trace.json")
    return command("replay", "trace.json", *options)


def merge(run: dict[str, Any], *options: str) -> int:
    service = {"run": run, "processes": [1, 2], "labels": {}, "here": [1, 2]}
    header = {"habemus_record": 1, "cluster": "c", "node": 1, "life": 1, "services": {"s": service}}
    start = [{"on": "s/a", "t": 1, "p": each, "e": "start"} for each in (1, 2)]
    lines = [header, *start, {"end": 2}]
    Path("record.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    return command("trace", "merge", "record.jsonl", *options)


def command(*arguments: str) -> int:
    try:
        return run_command(list(arguments))
    except Exception as error:
        return report(error, list(arguments))


def open_in_lab(run: dict[str, Any], **more: Any) -> str:
    text = "".join(f"{line}\n" for line in written(trace_of(run)))
    return str(ask(Session(), do="open", trace=text, **more)[-1].get("message"))


@pytest.mark.parametrize("kind", HEADERS)
def test_no_field_of_a_header_imports_a_file_without_consent(
    kind: str, has_run: Callable[[], bool], capsys: pytest.CaptureFixture[str]
) -> None:
    for header in variants(HEADERS[kind]):
        said = open_in_lab(header)
        assert not has_run(), f"the lab imports what {header} names"
        assert "runs the code in " in said and "mine.py:Mine; open it only if you trust" in said
        for open_by in (replay, merge):
            assert open_by(header) == 2
            assert not has_run(), f"{open_by.__name__} imports what {header} names"
            [line] = capsys.readouterr().err.splitlines()
            assert "mine.py:Mine; open it only if you trust that file (--trust)" in line


@pytest.mark.parametrize("kind", HEADERS)
def test_with_consent_the_file_runs(kind: str, has_run: Callable[[], bool]) -> None:
    inner = next((name for name in ("election_of", "check") if name in HEADERS[kind]), None)
    named = {**RUN, "algorithm": MINE}
    header = {**HEADERS[kind], inner: named} if inner else {**HEADERS[kind], "algorithm": MINE}
    assert "has no algorithm Mine" in open_in_lab(header, trusted=True)
    assert has_run()
    assert replay(header, "--trust") == 2
    assert has_run()
    if kind in OF_A_RECORD:
        assert merge(header, "--trust") == 2
        assert has_run()


def test_a_trace_is_read_to_be_drawn_without_consent(has_run: Callable[[], bool]) -> None:
    import habemus

    write(trace_of({**RUN, "algorithm": MINE}), "trace.json")
    assert habemus.load_trace("trace.json").run["algorithm"] == MINE
    with pytest.raises(ValueError, match=r"^trace.json runs the code in mine.py:Mine; ") as caught:
        read("trace.json")
    assert not isinstance(caught.value, MalformedTrace)
    assert not has_run()


@pytest.mark.parametrize("words", [f"{MINE} -n 2", f"central -n 2 --option x={MINE}"])
@pytest.mark.parametrize("kind", ["run", "check"])
def test_a_link_imports_no_file_without_consent(
    kind: str, words: str, has_run: Callable[[], bool]
) -> None:
    link = link_to(kind, f"habemus {kind} {words}", [])
    [reply] = ask(Session(), do="open", link=link)
    assert "the link runs the code in " in reply["message"]
    assert not has_run()
    ask(Session(), do="open", link=link, trusted=True)
    assert has_run() == words.startswith(MINE)


def test_a_grid_imports_no_file_without_consent(
    has_run: Callable[[], bool], capsys: pytest.CaptureFixture[str]
) -> None:
    for text in (f'algorithms = ["{MINE}"]', f'algorithms = ["central"]\nother = ["{MINE}"]'):
        Path("grid.toml").write_text(f"{text}\nn = 2\n")
        assert command("sweep", "grid.toml", "--dry-run") == 2
        assert not has_run()
        assert "grid.toml runs the code in mine.py:Mine; " in capsys.readouterr().err
    Path("grid.toml").write_text(f'algorithms = ["{MINE}"]\nn = 2\n')
    assert command("sweep", "grid.toml", "--dry-run", "--trust") == 2
    assert has_run()


@pytest.mark.parametrize(
    "name, found",
    [
        ("mine.py:Mine", ("mine.py", "Mine")),
        ("a:b/mine.py:Mine", ("a:b/mine.py", "Mine")),
        ("mine.py", ("mine.py", "")),
        ("a:mine.py", ("a:mine.py", "")),
        ("central", None),
        ("mine.pyc:Mine", None),
    ],
)
def test_a_name_with_a_file(name: str, found: tuple[str, str] | None) -> None:
    assert file_of(name) == found
