"""The short way to `habemus lock` means what the long one means, and is short."""

import json
import subprocess
import sys

import click
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from habemus.cli import quick_lock as quick
from habemus.cli.commands.lead import lead
from habemus.cli.commands.lock import lock, lock_request
from habemus.client.protocol import decode
from habemus.supervise.locked_command import LockRequest

WORDS = [
    *(
        "--timeout",
        "--lease",
        "--try",
        "--cluster",
        "--service",
        "--help",
        "-h",
        "--tim",
        "-x",
        "-",
        "--",
    ),
    *(
        "--timeout=2",
        "--timeout=",
        "--lease=0.5",
        "--lease=0",
        "--try=1",
        "--cluster=a/b.sock",
        "--service=locks",
        "--json",
    ),
    *("5", "0", "0.25", ".5", "5.", "1e3", "-1", "inf", "nan", "1_000", "٣", "99999999999", ""),
    *("printer", "a=b", 'a"b', "a\\b", "naïve", "tab\there", "two words", "echo", "true"),
]


def by_click(arguments: list[str]) -> LockRequest | None:
    """What the command of click makes of it; None if it refuses, or shows its help."""
    command = {"lock": lock, "lead": lead}[arguments[0]]
    try:
        context = command.make_context(arguments[0], arguments[1:])
        given = {name: value for name, value in context.params.items() if name != "node"}
        return lock_request(leads=arguments[0] == "lead", **given)
    except (click.ClickException, click.exceptions.Exit):
        return None


SOUND = [
    ("--try",),
    ("--timeout=2",),
    *((option, value) for option in ("--timeout", "--lease") for value in ("5", "0", "0.25", ".5")),
]
SOUND += [
    ("--cluster", "a/b.sock"),
    ("--cluster=a b",),
    ("--service", "printer"),
    ("--service", "5"),
]
PIECES = st.one_of(
    st.sampled_from(SOUND), st.sampled_from(SOUND), st.tuples(st.sampled_from(WORDS))
)
BEFORE = st.lists(PIECES, max_size=3).flatmap(
    lambda pieces: st.permutations([("printer",), *pieces])
)


@settings(max_examples=400)
@given(st.sampled_from(["lock", "lead"]), BEFORE, st.lists(st.sampled_from(WORDS), max_size=2))
def test_both_parsers_agree_or_the_quick_one_declines(
    program: str, before: list[tuple[str, ...]], after: list[str]
) -> None:
    arguments = [program, *(word for piece in before for word in piece), "--", *after]
    short = quick.parse(arguments)
    event("declines" if short is None else "parses")
    if short is not None:
        long = by_click(arguments)
        assert long is not None, arguments
        assert vars(short) == vars(long), arguments


@pytest.mark.parametrize(
    "arguments",
    [
        ["lock", "x", "--", "true"],
        ["lock", "--timeout", "5", "x", "--", "true", "--try", "--"],
        [
            "lock",
            "x",
            "--try",
            "--lease=0.5",
            "--cluster",
            "a/node-1.sock",
            "--service",
            "others",
            "--",
            "ls",
            "-l",
        ],
        ["lead", "x", "--timeout=1.5", "--", "true"],
    ],
)
def test_what_is_plain_goes_the_short_way(arguments: list[str]) -> None:
    short, long = quick.parse(arguments), by_click(arguments)
    assert short is not None and long is not None
    assert vars(short) == vars(long)


def test_the_short_way_imports_next_to_nothing() -> None:
    program = "import sys\nimport habemus.cli.quick_lock\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "habemus.supervise.locked_command" in loaded
    assert not loaded & {
        "asyncio",
        "click",
        "contextlib",
        "dataclasses",
        "enum",
        "functools",
        "json",
        "re",
        "rich",
        "signal",
        "socket",
        "typing",
    }


def test_the_lines_of_a_short_visit_are_read_without_json() -> None:
    program = """
import sys
from habemus.client.protocol import decode, lease_ms_in
services = b'{"locks":{"problem":"mutex","lease_ms":2000},"elections":{"lease_ms":null}}'
nodes = b'{"1":"127.0.0.1:7401"}'
start = b'["welcome",{"cluster":"office","node":1,"session":"ab","nodes":'
welcome = decode(start + nodes + b',"services":' + services + b'}]', "the node")[1]
print([lease_ms_in(welcome, service) for service in ("locks", "elections", "none")])
print(decode(b'["granted",1,7,1975,12345,"caf\\\\u00e9"]', "the node"), "json" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "[2000, None, None]",
        "['granted', 1, 7, 1975, 12345, 'café'] False",
    ]


@pytest.mark.parametrize(
    "line",
    [
        ["granted", 1, 7 << 32 | 1, 1_975, 12_345, 'a,"b'],
        ["granted", 1, None, None, 5, "x"],
        ["lost", 1, "so"],
    ],
)
def test_lines_are_read_as_json_would(line: list[object]) -> None:
    assert decode(json.dumps(line, separators=(",", ":")).encode(), "the node") == line
