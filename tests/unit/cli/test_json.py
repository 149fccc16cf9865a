"""Errors of commands that are called with --json."""

from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Habemus


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("run nosuch", 2, "there is no algorithm nosuch"),  # an error of ours
        ("run central -n many", 2, "'many' is not a whole number"),  # of a value
        ("run central --sed 7", 2, "No such option '--sed'"),  # of the parser
        ("member lst", 2, "unknown command 'member lst'"),
        ("watch x --cluster 127.0.0.1:1", 125, "127.0.0.1:1"),
        ("up --nosuch", 2, "No such option '--nosuch'"),
        ("scenario --all central-three", 2, "--all excludes NAME"),
        ("status --cluster no/such/cluster.toml", 125, "no/such/cluster.toml"),
        ("status --cluster 127.0.0.1:1", 125, "127.0.0.1:1"),  # no node answers
        ("member list --cluster 127.0.0.1:1", 125, "127.0.0.1:1"),
        ("elect --cluster 127.0.0.1:1", 125, "127.0.0.1:1"),
        ("replay missing.json", 2, "missing.json"),
        ("report missing.jsonl", 2, "missing.jsonl"),
    ],
)
def test_an_error_is_one_document(habemus: Habemus, command: str, code: int, said: str) -> None:
    done = habemus(*command.split(), "--json")
    assert done.returncode == code
    document = json.loads(done.stdout)
    assert list(document) == ["error"] and said in document["error"]
    assert done.stderr == f"habemus: {document['error']}\n"
    assert habemus(*command.split()).stderr == done.stderr


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("lock x --cluster 127.0.0.1:1 -- true --json", 125),
        ("up --nosuch -- habemus status --json", 2),
        ("completion nosuch --json", 2),
    ],
)
def test_an_error_of_a_command_without_json_is_text(
    habemus: Habemus, command: str, code: int
) -> None:
    done = habemus(*command.split())
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("habemus: ") and done.stderr.count("\n") == 1
