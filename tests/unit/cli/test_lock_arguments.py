"""Arguments of `habemus lock` and `habemus lead`, and what these commands import."""

import json
import subprocess
import sys
from shlex import split

import pytest

from habemus.cli.lock_arguments import OPTIONS, BadArguments, HelpRequested, parse
from habemus.client.protocol import decode


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("x true", "true"),
        ("x -- true", "true"),
        ("-- x true", "true"),
        ("x ls --timeout 5", "ls --timeout 5"),
        ("x ls -h --help", "ls -h --help"),
        ("x -- ls -- --try", "ls -- --try"),
        ("x grep --", "grep --"),
        ("x -- --try", "--try"),
        ("- -", "-"),
    ],
)
def test_options_end_at_the_command(words: str, command: str) -> None:
    for program in ("lock", "lead"):
        request, _ = parse(program, words.split())
        assert request.command == command.split()
        assert request.timeout is None and not request.tries


@pytest.mark.parametrize(
    "words",
    [
        "--timeout 5 --lease=0.5 x ls --timeout 7",
        "x --timeout 5 --lease 0.5 ls --timeout 7",
        "--lease 0.5 x --timeout=5 -- ls --timeout 7",
        "--timeout 1 x --timeout 5 --lease .5 ls --timeout 7",
    ],
)
def test_options_come_before_the_name_or_after_it(words: str) -> None:
    request, _ = parse("lock", words.split())
    assert (request.name, request.command) == ("x", ["ls", "--timeout", "7"])
    assert (request.timeout, request.lease) == (5.0, 0.5)


def test_all_options() -> None:
    words = (
        "--cluster a,b --service s --secret-file f --ca c --key k --certificate d --node 3 --try"
    )
    request, node = parse("lead", [*words.split(), "x", "true"])
    assert (request.cluster, request.service, request.tries, node) == ("a,b", "s", True, 3)
    files = {"secret_file": "f", "ca": "c", "key": "k", "certificate": "d"}
    assert request.credential_files == files
    assert request.leads and request.shown == "x"


@pytest.mark.parametrize("words", ["-h", "--help x true", "x --timeout 5 -h true"])
def test_help_is_asked_for_before_the_command(words: str) -> None:
    with pytest.raises(HelpRequested):
        parse("lock", words.split())


@pytest.mark.parametrize(
    "words",
    [
        *("", "x", "x --", "--try true", "-x y true", "x --json true", "x --node 3 true"),
        *("x --timeout -1 true", "x --timeout 1e9 true", "x --timeout= true", "leader/x true"),
    ],
)
def test_what_is_refused(words: str) -> None:
    with pytest.raises(BadArguments):
        parse("lock", words.split())


@pytest.mark.parametrize("program", ["lock", "lead"])
def test_help_names_every_option(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "habemus", program, "x", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    shown = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  --")]
    assert shown == [option.flag for option in OPTIONS[program]]


def _imported(statement: str) -> set[str]:
    program = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_a_command_under_a_lock_imports_next_to_nothing() -> None:
    loaded = _imported("import habemus.cli; import habemus.cli.lock_arguments")
    assert "habemus.supervise.locked_command" in loaded
    assert not loaded & set(
        split(
            "asyncio click contextlib dataclasses enum functools json re rich signal socket typing"
        )
    )


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
