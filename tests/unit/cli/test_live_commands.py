"""The commands of the live side that need no running node; those that do are in tests/live."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from habemus.cli.commands.config import config
from habemus.cli.commands.trace import trace
from habemus.deployment.services import all_services

Habemus = Callable[..., subprocess.CompletedProcess[str]]

FILE = """\
cluster = "office"
memory = "none"
[nodes]
1 = "127.0.0.1:7401"
2 = "127.0.0.1:7402"
3 = "127.0.0.1:7403"
[services.locks]
algorithm = "ricart-agrawala"
[services.demo]
algorithm = "quorum-durable"
options = { coordinators = 0 }
over = "perfect"
"""


@pytest.fixture
def habemus(tmp_path: Path) -> Habemus:
    (tmp_path / "cluster.toml").write_text(FILE)

    def run(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
        program = f"{before}\nfrom habemus.cli import main\nmain()"
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("HABEMUS_")
        }
        command = [sys.executable, "-W", "error", "-c", program, *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
        )

    return run


def test_config_check(habemus: Habemus) -> None:
    done = habemus("config", "check", "cluster.toml")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "office: 3 nodes, 127.0.0.1:7401, 127.0.0.1:7402, 127.0.0.1:7403",
        "  demo: quorum-durable (coordinators=0) over perfect links",
        "  locks: ricart-agrawala",
    ]
    assert "locks: ricart-agrawala assumes reliable links" in done.stderr
    assert "demo: quorum-durable is unsafe by design" in done.stderr
    assert (
        'demo: quorum-durable needs stable memory, and memory = "none": a restarted node'
        in done.stderr
    )
    assert "tolerates no failure" not in done.stderr
    found = json.loads(habemus("config", "check", "cluster.toml", "--json").stdout)
    assert found["survives_a_failure"] is True
    assert found["services"]["demo"]["durable"] is True
    assert found["services"]["locks"]["durable"] is False
    assert found["nodes"]["2"] == "127.0.0.1:7402"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            ("ricart-agrawala", "ricart-agarwala"),
            "there is no algorithm ricart-agarwala; did you mean ricart-agrawala?",
        ),
        (
            ("coordinators = 0", "cordinators = 0"),
            "quorum-durable has no option cordinators; did you mean coordinators?",
        ),
        (
            ('over = "perfect"', 'over = "prefect"'),
            "no links 'prefect'; valid links are perfect, perfect-fifo",
        ),
        (
            ("[services.demo]", "[service.demo]"),
            "line 9: unknown key 'service'; did you mean services?",
        ),
        (
            ('cluster = "office"', 'cluster = "office"\nsecret_file = "s"'),
            "secret file s: No such file or directory",
        ),
    ],
)
def test_config_check_says_what_is_wrong(
    habemus: Habemus, tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    (tmp_path / "cluster.toml").write_text(FILE.replace(*change))
    done = habemus("config", "check", "cluster.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [("config", "check", "cluster.toml"), ("node", "--config", "cluster.toml", "--id", "1")],
)
def test_without_the_packages_of_the_live_side_one_line_says_so(
    habemus: Habemus, arguments: tuple[str, ...]
) -> None:
    done = habemus(*arguments, before="import sys; sys.modules['msgspec'] = None")
    assert (done.returncode, done.stderr) == (
        2,
        "habemus: package 'msgspec' is missing: pip install '.[live]' in your clone\n",
    )


def test_a_disk_that_fails_ends_the_node_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from habemus.cli.commands.node import _run
    from habemus.runtimes.live.config import load
    from habemus.runtimes.live.hosting.node import Node
    from habemus.runtimes.live.storage.log import File

    (tmp_path / "data").mkdir()
    (tmp_path / "one.toml").write_text(
        'data = "data"\n[nodes]\n1 = "127.0.0.1:0"\n[services.e]\nalgorithm = "omega-recovery"\n'
    )
    found = load(tmp_path / "one.toml", {}, {})

    async def lives_once() -> None:
        node = Node(found.settings(1), all_services(found))
        await node.start()
        node.open("e", "x")
        await node.stop()

    asyncio.run(lives_once())

    opened: list[File] = []
    sync = File.sync

    def fail_after_opening(file: File) -> None:
        if file in opened:
            raise OSError(5, "Input/output error")
        opened.append(file)
        sync(file)

    # The next life counts itself, and cannot write that down.
    monkeypatch.setattr(File, "sync", fail_after_opening)
    assert asyncio.run(_run(found.settings(1), all_services(found), as_json=False)) == 1
    assert "Input/output error" in capsys.readouterr().err.splitlines()[-1]


def test_trace_merge_refuses_what_is_no_record(habemus: Habemus, tmp_path: Path) -> None:
    done = habemus("trace", "merge", "cluster.toml", "-o", "run.json")
    assert done.returncode == 2
    assert "cluster.toml: line 1" in done.stderr
    done = habemus("trace", "merge", "cluster.toml", "-o", "run.doc")
    assert "must end in" in done.stderr


@pytest.mark.parametrize("group", [config, trace])
def test_commands_of_groups_have_an_example_and_json(group: click.Group) -> None:
    for command in group.commands.values():
        assert "Example: " in (command.epilog or "")
        assert "as_json" in [parameter.name for parameter in command.params]
