"""The program as a person meets it: what it prints, where, and with which exit code."""

import json
from pathlib import Path
from shlex import split

import click
import pytest
from tests.unit.cli.conftest import Habemus

from habemus.catalog.entries import entries


def test_run_as_json(habemus: Habemus) -> None:
    done = habemus("run", "ricart-agrawala", "-n", "10", "--requests", "1", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert done.stderr == ""
    assert report["verdict"] == "holds"
    assert report["messages_per_entry"] == 18
    assert report["properties"] == {
        "ME1": "holds",
        "ME2-deadlock": "holds",
        "ME2-starvation": "holds",
        "ME3": "holds",
    }
    assert {
        "why",
        "messages",
        "bytes",
        "client_delay",
        "sync_delay",
        "entries",
        "digest",
    } <= report.keys()


def test_costs_are_those_of_the_formulas(habemus: Habemus) -> None:
    with_notices = json.loads(
        habemus("run", "ricart-agrawala", "-n", "10", "-o", "notices", "--json").stdout
    )
    central = json.loads(habemus("run", "central", "-n", "10", "--json").stdout)
    assert with_notices["messages_per_entry"] == 27
    assert central["messages_per_entry"] == 3


def test_run_in_words(habemus: Habemus) -> None:
    done = habemus("run", "central", "-n", "2", "--seed", "3")
    assert done.returncode == 0
    assert "asks to enter" in done.stdout
    assert "ME1             holds" in done.stdout
    assert "(formula, uncontended: 3)" in done.stdout


def test_a_long_run_says_how_to_see_its_events(habemus: Habemus) -> None:
    done = habemus("run", "ricart-agrawala", "-n", "5", "--seed", "7")
    assert done.stdout.startswith("100 events; --table prints them, --diagram run.svg draws them")
    assert "--table" not in habemus("run", "ricart-agrawala", "-n", "5", "--no-table").stdout


def test_exit_codes_say_what_became_of_it(habemus: Habemus) -> None:
    words = "run central-timeout --ask 1@1ms --ask 2@2ms --pause '1@Granted#1+50ms' --json"
    violated = habemus(*split(words))
    assert violated.returncode == 1
    assert json.loads(violated.stdout)["violated"] == ["ME1"]
    undecided = habemus(
        "run", "central", "-n", "3", "--until", "3ms", "--workload", "burst", "--json"
    )
    assert undecided.returncode == 3
    assert json.loads(undecided.stdout)["verdict"] == "undecided"
    deadlocked = habemus("run", "ricart-agrawala", "-n", "3", "--crash", "2@1", "--json")
    assert deadlocked.returncode == 1
    assert "1 for 2 (crashed)" in json.loads(deadlocked.stdout)["why"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "ricart-agravala"), "did you mean ricart-agrawala? habemus algorithms lists all"),
        (("run", "nosuch"), "there is no algorithm nosuch; habemus algorithms lists all\n"),
        (("scenario", "nosuch"), "there is no scenario nosuch; habemus scenario lists all\n"),
        (("run", "central", "-n", "0"), "1 to 3000 participants, not with 0"),
        (("run", "central", "-n", "many"), "'many' is not a whole number\n"),
        (("run", "central", "-n", "5", "--crash", "9@5"), "there is no process 9"),
        (
            ("run", "central", "--crash", "9"),
            "--crash '9' is not complete; write for example 2@",
        ),
        (("run", "central", "--delay", "fast"), "habemus: --delay 'fast' is not a time"),
        (("run", "central", "--option", "acknowledge"), "did you mean acknowledged?"),
        (("run", "central", "--set", "1.holder=no"), "is not a JSON value"),
        (("run", "central", "--set", '1.holder="me"'), "expected int | None"),
        (("run", "central", "--requests", "-1"), "not -1"),
        (("run", "central", "--diagram", "picture.bmp"), ".svg"),
        (("run", "central", "--diagram", "no/such/folder/x.svg"), "No such file or directory"),
        (("run", "central", "--sed", "1"), "--seed"),
        (
            ("run", "central", "--requests", "1000000000000"),
            "up to 10000000 requests, not 3 times 1000000000000",
        ),
        (
            ("run", "bully", "--requests", "1000000000000"),
            "up to 10000000 requests, not 3 times 1000000000000",
        ),
        (("run", "central", "--cut", "1-1@5ms"), "no link leads from a process to itself"),
        (("run", "central", "--label", "9=x"), "label 9=x: there is no process 9"),
        (
            ("check", "central", "--faults", "recover=1"),
            "recover=1: only a crashed process recovers; add crash=1 to the faults",
        ),
        (
            ("check", "central", "--faults", "crash=0,amnesia=2"),
            "amnesia=2: only a crashed process recovers",
        ),
        (
            ("check", "central", "--faults", "crash=٣"),
            "--faults crash=٣: expected KIND=COUNT, each kind once",
        ),
        (("check", "central", "--entries", "٣"), "--entries ٣: use a whole number or `unbounded`"),
        (("torture", "central", "--minutes", "nan"), "'nan' is not a number"),
        (("lock", "x", "--timeout", "nan", "--", "true"), "'nan' is not a number"),
        (("lock", "x", "--lease", "nan", "--", "true"), "'nan' is not a number"),
        (("node", "--config", "x.toml", "--id", "1", "--grace", "nan"), "'nan' is not a number"),
        (
            ("scenario", "central-thre"),
            "did you mean central-three, ra-three or central-one-way? habemus scenario lists all",
        ),
        (("scenario", "--all", "central-three"), "--all excludes NAME"),
        (("scenario", "--diagram", "x.svg"), "--diagram and --stages need NAME"),
        (("torture", "central", "--minutes", "x"), "'--minutes': 'x' is not a number\n"),
        (("algorithms", "centrl"), "did you mean central?"),
        (("replay", "missing.json"), "does not exist"),
        (("run", "central", "--show", "holdr"), "did you mean holder?"),
        (("run", "central", "--hide", "Grnt"), "did you mean Grant or Granted?"),
        (("run", "central", "--from", "soon"), "'soon' is not a time"),
        (("rn", "central"), "did you mean run?"),
        (("numbers",), "habemus numbers needs a command: growth, pv, timeout"),
        (("trace",), "habemus trace needs a command: merge"),
        (("trace", "mrge"), "unknown command 'trace mrge'; did you mean merge?"),
        (("trace", "xyz"), "unknown command 'trace xyz'; habemus trace has merge"),
        (("help", "rn"), "unknown command 'rn'; did you mean run?"),
        (("help", "member", "ad"), "unknown command 'member ad'; did you mean add?"),
        (("xyzzy",), "unknown command 'xyzzy'; `habemus help` lists the commands"),
        (("lock", "x", "--timeout"), "--timeout needs a value: --timeout SECONDS"),
        (
            ("lock", "x", "--tiemout", "5", "true"),
            "no such option --tiemout; did you mean --timeout?",
        ),
        (("lock", "x", "--lease", "0", "true"), "--lease: a lease of 0 seconds expires at once"),
        (("lock", "x", "--try=1", "true"), "--try takes no value"),
        (
            ("lock", "x", "--try", "--timeout", "5", "true"),
            "--try and --timeout exclude each other",
        ),
        (("lock", "x", "--timeout", "inf", "true"), "'inf' is not a number"),
        (("lead", "x", "--node", "0", "true"), "--node: '0' is not a whole number of 1 or more"),
        (("lock",), "Missing argument 'NAME'. Example: habemus lock nightly-report"),
        (("lock", "x"), "Missing argument 'COMMAND...'. Example: habemus lock nightly-report"),
        (("lock", "", "--cluster", "local", "--", "true"), "'' is not a name"),
        (("top", "--cluster", "local"), "'local' is an engine and has no nodes: name a cluster"),
        (("doctor", "--cluster", "redis://x"), "'redis://x' is an engine and has no nodes"),
    ],
)
def test_bad_input_gets_one_line(habemus: Habemus, arguments: tuple[str, ...], said: str) -> None:
    done = habemus(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.startswith("habemus: ")
    assert done.stderr.count("\n") == 1


def test_what_is_shown_can_be_chosen(habemus: Habemus, tmp_path: Path) -> None:
    shown = habemus("scenario", "central-three", "--show=queue,holder")
    assert shown.returncode == 2 and "--show queue: no process has such a variable" in shown.stderr
    choice = ("--show", "waiting,holder", "--hide", "start", "--to", "8ms")
    shown = habemus("scenario", "central-three", *choice, "--diagram", "run.json")
    assert "waiting  holder" in shown.stdout
    assert "starts" not in shown.stdout
    assert habemus("replay", "run.json", "--table", *choice).stdout.split("\n\n")[0] in shown.stdout
    assert habemus("replay", "run.json", "--show", "--diagram", "run.svg").returncode == 0
    assert ">holder " in (tmp_path / "run.svg").read_text()


def test_replay_gives_the_same_events(habemus: Habemus, tmp_path: Path) -> None:
    assert habemus(
        "run", "central", "--seed", "5", "--loss", "0.1", "--diagram", "run.json"
    ).returncode in (0, 1)
    done = habemus("replay", "run.json", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["same"] is True
    trace = tmp_path / "run.json"
    changed = trace.read_text().replace('"seed":5', '"seed":6')
    assert changed != trace.read_text()
    trace.write_text(changed)
    assert habemus("replay", "run.json").returncode == 1


@pytest.mark.parametrize(
    "content", ["", "not json\n", '{"habemus":1}\n', '{"habemus":99}\n', "[1,2]\n", "\x00\xff"]
)
def test_a_malformed_trace_is_refused(habemus: Habemus, tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.json").write_bytes(content.encode("latin-1"))
    done = habemus("replay", "bad.json")
    assert done.returncode == 2
    assert done.stderr.startswith("habemus: ")
    assert done.stderr.count("\n") == 1


def test_scenario_and_its_pictures(habemus: Habemus, tmp_path: Path) -> None:
    pictures = ["s.svg", "s.png", "s.md", "s.mmd", "s.json", "s.shiviz"]
    done = habemus(
        "scenario",
        "central-holder-slow",
        "--json",
        *(word for name in pictures for word in ("--diagram", name)),
    )
    outcome = json.loads(done.stdout)
    assert done.returncode == 0
    assert outcome["violated"] == ["ME1"]
    assert outcome["as_expected"] is True
    assert "while 2 was inside since 9 ms and paused" in outcome["why"]
    assert all((tmp_path / name).stat().st_size > 200 for name in pictures)


def test_stages_of_a_graph(habemus: Habemus, tmp_path: Path) -> None:
    assert habemus("scenario", "yo-yo-graph", "--stages", "graph.svg", "--no-table").returncode == 0
    assert (tmp_path / "graph.svg").read_text().startswith("<svg")
    refused = habemus("scenario", "central-three", "--stages", "graph.svg")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert habemus("scenario", "yo-yo-graph", "--stages", "graph.txt").returncode == 2


def test_lists(habemus: Habemus) -> None:
    listed = json.loads(habemus("algorithms", "--json").stdout)
    assert [each["id"] for each in listed] == list(entries())
    assert all(
        {"id", "problem", "assumes", "cost", "ensures", "source"} <= each.keys() for each in listed
    )
    card = habemus("algorithms", "ricart-agrawala").stdout
    assert "Ricart, Agrawala: An optimal algorithm" in card
    assert "central-three" in habemus("scenario").stdout


def test_every_command_has_help_with_an_example(habemus: Habemus) -> None:
    from habemus.cli.app import COMMANDS
    from habemus.cli.app import habemus as program

    context = click.Context(program)
    for name in COMMANDS:
        command = program.get_command(context, name)
        assert command is not None
        assert "xample: " in (command.epilog or ""), name
        assert habemus(name, "--help").returncode == 0


def test_the_help_of_the_program_summarises_each_command_on_one_line(habemus: Habemus) -> None:
    from habemus.cli.app import COMMANDS

    said = habemus("--help").stdout
    listed = said.split("Locks and leaders:\n")[1].splitlines()
    names = [line.split()[0] for line in listed if line.startswith("  ")]
    assert names == COMMANDS and len(set(names)) == len(names)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(habemus: Habemus, shell: str) -> None:
    assert "_HABEMUS_COMPLETE" in habemus("completion", shell).stdout


def test_self_check(habemus: Habemus) -> None:
    assert habemus("run", "token-ring", "--self-check", "--json").returncode == 0
