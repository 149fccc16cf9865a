"""The program as a process: first screen, pipes, closed files, signals, colours, and defects."""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Habemus

import habemus as package
from habemus.cli.app import COMMANDS, FIRST

HABEMUS = (sys.executable, "-W", "error", "-m", "habemus")
COLOURS = ("NO_COLOR", "FORCE_COLOR", "TERM")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in COLOURS}


def test_the_bare_program_prints_one_screen(habemus: Habemus) -> None:
    done = habemus()
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) < 80
    assert set(COMMANDS) <= set(done.stdout.replace(",", " ").split())
    assert all(f"  {command}  " in done.stdout for command in FIRST)


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("help", "Usage: habemus [OPTIONS] COMMAND"),
        ("help run", "Usage: habemus run "),
        ("help member add", "Usage: habemus member add "),
        ("help lock", "Usage: habemus lock [OPTIONS] NAME COMMAND..."),
        ("help lead", "Usage: habemus lead [OPTIONS] NAME COMMAND..."),
        ("help help", "Usage: habemus help "),
    ],
)
def test_help(habemus: Habemus, words: str, start: str) -> None:
    done = habemus(*words.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(start)
    flag = habemus(*words.split()[1:], "--help")
    assert flag.stdout == done.stdout


def test_the_version_says_that_sources_are_no_release(habemus: Habemus, tmp_path: Path) -> None:
    source = Path(package.__file__).parents[1]
    version = package.__version__
    assert version == metadata.version("habemus")
    assert version.endswith(".dev0")
    kind = f"sources in {source}" if _is_editable() else "pure Python"
    assert kind in habemus("--version").stdout
    assert habemus("--version").stdout.startswith(f"habemus, version {version}, ")


def _is_editable() -> bool:
    found = metadata.distribution("habemus").read_text("direct_url.json")
    return found is not None and '"editable": true' in found


# Pipes and closed files.


@pytest.mark.parametrize("words", ["", "help", "algorithms", "run central -n 2", "explain --json"])
def test_a_reader_that_leaves_ends_the_program_quietly(words: str) -> None:
    end, start = os.pipe()
    os.close(end)  # as if `head` had ended already
    done = subprocess.run(
        [*HABEMUS, *words.split()], stdout=start, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(start)
    assert (done.returncode, done.stderr) == (141, "")


def test_an_error_keeps_its_exit_code_without_a_reader() -> None:
    end, start = os.pipe()
    os.close(end)
    for words in (["run", "nosuch"], ["lock", "x"]):
        assert subprocess.run([*HABEMUS, *words], stderr=start, check=False).returncode == 2
    os.close(start)


def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*HABEMUS, "algorithms"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "habemus: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("words", "code"),
    [("", 0), ("run central -n 2", 0), ("scenario --json", 0), ("run nosuch", 2), ("lock x", 2)],
)
def test_closed_files_are_no_error(closed: str, words: str, code: int) -> None:
    done = subprocess.run(
        f"exec {shlex.join(HABEMUS)} {words} {closed}",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("habemus: ") or code == 0 or "2>" in closed


def test_no_connection_gets_the_number_of_a_standard_file_that_is_closed() -> None:
    script = (
        "import os; os.close(0); os.close(2); from habemus.cli import run; run(['help']);"
        " print(os.open('/', os.O_RDONLY) > 2)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.endswith("True\n")


# Ctrl-C.


@pytest.mark.parametrize("module", ["click.exceptions", "click.core", "habemus.cli.app"])
def test_an_early_interrupt_has_no_traceback(module: str) -> None:
    """The interpreter reports each module that it has imported; then comes the signal."""
    command = [sys.executable, "-X", "importtime", "-m", "habemus", "sweep", "--seeds", "100000"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.split()[-1] == module:
            break
    process.send_signal(signal.SIGINT)
    said = [line for line in process.communicate()[1].splitlines() if "import time:" not in line]
    assert process.returncode == 130, said
    assert said == ["habemus: interrupted"]


# Colours.


def _on_a_terminal(words: list[str], **environment: str) -> str:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*HABEMUS, *words], stdout=slave, stderr=slave, env=ENVIRONMENT | environment
    )
    os.close(slave)
    said = b""
    with suppress(OSError):  # the program has closed the terminal
        while data := os.read(master, 65_536):
            said += data
    process.wait()
    os.close(master)
    return said.decode()


RUN = ["run", "central", "-n", "2"]


def test_a_terminal_gets_colours_unless_the_environment_says_otherwise() -> None:
    assert "\x1b[" in _on_a_terminal(RUN, TERM="xterm")
    assert "\x1b[" in _on_a_terminal(RUN, TERM="xterm", NO_COLOR="")
    assert "\x1b[" in _on_a_terminal(RUN, TERM="dumb", FORCE_COLOR="1")
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}):
        assert "\x1b" not in _on_a_terminal(RUN, **{"TERM": "xterm", **environment})
        assert "\x1b" not in _on_a_terminal(["run", "nosuch"], **{"TERM": "xterm", **environment})


def test_a_pipe_gets_colours_if_they_are_forced() -> None:
    for environment, coloured in (({}, False), ({"FORCE_COLOR": "1"}, True)):
        done = subprocess.run(
            [*HABEMUS, *RUN], capture_output=True, text=True, env=ENVIRONMENT | environment
        )
        assert ("\x1b[" in done.stdout) is coloured


# Errors of the user, and of habemus.


PLANTED = """
import click

@click.command()
def explain() -> None:
    {line}
"""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program, to break."""
    folder = tmp_path_factory.mktemp("broken")
    shutil.copytree(
        Path(package.__file__).parent, folder / "habemus", ignore=shutil.ignore_patterns("lab")
    )
    return folder


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("int('x')", 70, "internal error: ValueError: invalid literal for int()"),
        ("a, b = [1]", 70, "internal error: ValueError: not enough values"),
        ("{}['x']", 70, "internal error: KeyError: 'x'; HABEMUS_DEBUG=1 shows where"),
        ("raise TypeError('no')", 70, "internal error: TypeError: no; HABEMUS_DEBUG=1 shows where"),
        ("import nosuch", 70, "internal error: ModuleNotFoundError: No module named 'nosuch'"),
        ("raise ValueError('n = 0: use 1 or more')", 2, "n = 0: use 1 or more\n"),
        ("raise LookupError('nothing there') from None", 2, "nothing there\n"),
    ],
)
def test_a_defect_is_told_from_an_error_of_the_user(
    broken: Path, line: str, code: int, said: str
) -> None:
    source = broken / "habemus/cli/commands/explain.py"
    source.write_text(PLANTED.format(line=line))
    for debug in ("", "0", "1"):
        environment = {
            **os.environ,
            "PYTHONPATH": str(broken),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HABEMUS_DEBUG": debug,
        }
        done = subprocess.run(
            [*HABEMUS, "explain"], capture_output=True, text=True, env=environment, check=False
        )
        *traceback, last = done.stderr.splitlines(keepends=True)
        assert (done.returncode, done.stdout) == (code, "")
        assert last.startswith(f"habemus: {said}")
        assert ('explain.py", line 6, in explain\n' in "".join(traceback)) is (debug == "1")
        assert traceback == [] or debug == "1"
