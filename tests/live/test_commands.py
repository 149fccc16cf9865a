"""The commands of the live side, as programs that somebody types: `habemus up` has started the
cluster for them.

What must not happen at the same time is told by what the commands themselves write down, with the
time on the monotonic clock, which is the same for all processes of a machine.
"""

from __future__ import annotations

import json
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import termios
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest
from tests.live.conftest import PATIENCE

from habemus.fencing import token_text
from habemus.runtimes.live.default_cluster import last_file

HABEMUS = (sys.executable, "-m", "habemus")

LEASE = ("-o", "lease=8s")
"""Longer than any stall, and not so long that a test cannot wait until it has expired."""

NOTES = """
import os, sys, time
with open(sys.argv[1], "a") as file:
    begun = time.monotonic_ns()
    time.sleep(0.002)
    file.write(f"{begun} {time.monotonic_ns()} {os.environ.get('HABEMUS_TOKEN')}\\n")
"""
"""A command that notes down from when to when it ran, and with which token."""

BEATS = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
begun = time.monotonic()
file, *others = sys.argv[1:]
for place, other in enumerate(others):
    subprocess.Popen([sys.executable, __file__, other], start_new_session=place % 2 == 1)
with open(file, "a", buffering=1) as beats:
    while time.monotonic() < begun + 60:
        beats.write(f"{time.monotonic_ns()}\\n")
        time.sleep(0.001)
"""
"""A command that does not want to end, and notes down that it lives; so do its children, every
second of which has a session of its own.
"""


def environment(folder: Path) -> dict[str, str]:
    """Of commands that know of no cluster, and do not compile everything anew each time."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HABEMUS_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    return kept | {
        "XDG_STATE_HOME": str(folder / "state"),
        "PYTHONPYCACHEPREFIX": str(folder.parent / "compiled"),
    }


class Cluster:
    """The one that `habemus up` runs."""

    def __init__(self, folder: Path, *options: str, size: int = 3) -> None:
        self.folder = folder
        self.environment = environment(folder) | {"HABEMUS_CLUSTER": str(folder / ".habemus")}
        command = [*HABEMUS, "up", "-n", str(size), "--json", *options]
        self.process = subprocess.Popen(
            command, cwd=folder, env=self.environment, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        lines = list(takewhile(lambda line: line != "}\n", iter(self.process.stdout.readline, "")))
        self.told: dict[str, Any] = json.loads("".join(lines) + "}")

    def socket(self, node: int) -> str:
        return str(self.folder / ".habemus" / f"node-{node}.sock")

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        options: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **more,
        }
        return subprocess.Popen(
            [*HABEMUS, *arguments], cwd=self.folder, env=self.environment, text=True, **options
        )

    def run(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        settings: dict[str, Any] = {
            "cwd": self.folder,
            "env": self.environment,
            "stdin": None if "input" in more else subprocess.DEVNULL,
        }
        return subprocess.run(
            [*HABEMUS, *arguments],
            **{**settings, **more},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def holder(self, name: str, *options: str) -> subprocess.Popen[str]:
        """Somebody who has the lock for sure, until its standard input ends."""
        holder = self.start(
            "lock", name, *options, "--", "sh", "-c", "echo in; cat", stdin=subprocess.PIPE
        )
        assert holder.stdout is not None and holder.stdout.readline() == "in\n"
        return holder

    def pid(self, node: int) -> int:
        pid: int = self.well()["nodes"][node - 1]["pid"]
        return pid

    def well(self) -> dict[str, Any]:
        """Return the status as soon as every node answers and there is a leader."""
        while True:
            done = self.run("status", "--json")
            status: dict[str, Any] = json.loads(done.stdout)
            if done.returncode == 0 and status["leader"] is not None:
                return status
            assert self.process.poll() is None

    def survey_says_up(self, node: int) -> bool:
        nodes = json.loads(self.run("status", "--json").stdout)["nodes"]
        return bool(nodes[node - 1]["up"]) and len(nodes[node - 1]["reaches"]) == 2

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("up"), "--restart", *LEASE)
    yield made
    assert made.stop() == 0


@pytest.fixture
def up() -> Iterator[Callable[..., Cluster]]:
    """Clusters for one test, which ends them."""
    made: list[Cluster] = []

    def started(*given: Any, **more: Any) -> Cluster:
        made.append(Cluster(*given, **more))
        return made[-1]

    yield started
    for each in made:
        if each.process.poll() is None:
            each.stop()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def numbers(file: Path) -> list[int]:
    """Of each line the first; the last may have been cut off."""
    return [
        int(line.split()[0])
        for line in file.read_text().splitlines(keepends=True)
        if line.endswith("\n")
    ]


# What a command gets and gives.


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 128 + 9),
        (["./no-such-command"], 127),
        (["/"], 126),
    ],
)
def test_the_exit_code_is_that_of_the_command(
    cluster: Cluster, command: list[str], code: int
) -> None:
    for name in ("plain", 'not "plain"'):  # the short way and the long one
        done = cluster.run("lock", name, "--", *command)
        assert done.returncode == code
        assert done.stderr.count("\n") == (code in (126, 127))


def test_the_command_finds_a_token_that_grows(cluster: Cluster) -> None:
    shown = 'echo "$HABEMUS_TOKEN,$HABEMUS_LOCK,$HABEMUS_TERM"'
    tokens = []
    for _ in range(3):
        token, name, term = (
            cluster.run("lock", "tokens", "--", "sh", "-c", shown).stdout.strip().split(",")
        )
        assert (name, term) == ("tokens", "")
        tokens.append(int(token))
    assert tokens == sorted(set(tokens))
    token, name, term = (
        cluster.run("lead", "tokens", "--", "sh", "-c", shown).stdout.strip().split(",")
    )
    assert (name, term) == ("leader/tokens", token_text(int(token)))


def test_standard_input_is_passed_on(cluster: Cluster) -> None:
    assert (
        cluster.run("lock", "input", "--", "cat", input="for the command\n").stdout
        == "for the command\n"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_passed_on(cluster: Cluster, number: signal.Signals) -> None:
    trap = (
        f"trap 'exit 9' {number.name.removeprefix('SIG')}; echo in; while :; do read line || sleep"
        " 0.01; done"
    )
    running = cluster.start("lock", "signals", "--", "bash", "-c", trap)
    assert running.stdout is not None and running.stdout.readline() == "in\n"
    running.send_signal(number)
    assert ended(running)[0] == 9


def test_on_a_terminal_the_command_is_in_the_foreground(cluster: Cluster) -> None:
    """It can read from it, Ctrl-Z does not stop it, and Ctrl-C interrupts it."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(cluster.folder)
        os.execve(sys.executable, [*HABEMUS, "lock", "tty", "--", "cat"], cluster.environment)
    shown = b""

    def read_until(words: bytes) -> None:
        nonlocal shown
        while words not in shown:
            shown += os.read(terminal, 1_024)

    os.write(terminal, b"hello\n")
    read_until(b"hello\r\nhello\r\n")
    os.write(terminal, b"\x1a")
    read_until(b"cat continues: it holds tty")
    os.write(terminal, b"again\n")
    read_until(b"again\r\nagain\r\n")
    os.write(terminal, b"\x03")
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGINT


class Terminal:
    """One on which `habemus lock` runs a shell script."""

    def __init__(self, cluster: Cluster, name: str, script: str) -> None:
        self.process, self._terminal = pty.fork()
        if self.process == 0:
            os.chdir(cluster.folder)
            os.execve(
                sys.executable,
                [*HABEMUS, "lock", name, "--", "sh", "-c", script],
                cluster.environment,
            )
        shown = b""
        while b"in\r\n" not in shown:
            shown += os.read(self._terminal, 1_024)

    def close(self) -> None:
        os.close(self._terminal)

    def code(self) -> int:
        _, status = os.waitpid(self.process, 0)
        return os.waitstatus_to_exitcode(status)


def test_a_terminal_that_is_closed_ends_the_command_and_releases_the_lock(cluster: Cluster) -> None:
    terminal = Terminal(cluster, "hangup", "echo in; exec sleep 1000")
    terminal.close()
    assert terminal.code() == 128 + signal.SIGHUP
    assert cluster.run("lock", "hangup", "--timeout", "30", "--", "echo", "mine").stdout == "mine\n"


def test_a_command_that_outlives_its_terminal_is_ended_when_the_lock_is_lost(
    cluster: Cluster,
) -> None:
    """Although there is nowhere to say so."""
    terminal = Terminal(cluster, "nohup", "trap '' HUP; echo in; sleep 1000")
    terminal.close()
    assert cluster.run("release", "nohup", "--force").returncode == 0
    assert terminal.code() == 123


def test_a_node_outlives_its_terminal(cluster: Cluster) -> None:
    pid = cluster.pid(1)
    os.kill(pid, signal.SIGHUP)
    assert (
        cluster.run(
            "lock", "hung-up", "--cluster", cluster.socket(1), "--", "echo", "inside"
        ).stdout
        == "inside\n"
    )
    assert cluster.pid(1) == pid


# Waiting.


def test_who_does_not_get_it_leaves_no_contender(cluster: Cluster) -> None:
    holder = cluster.holder("wanted")
    for wish in (["--try"], ["--timeout", "0.3"], ["--try", "--cluster", cluster.socket(2)]):
        done = cluster.run("lock", "wanted", *wish, "--", "echo", "never")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (124, "", 1)
    waits = cluster.start("lock", "wanted", "--", "echo", "never")
    while not seen(cluster, "wanted")["waiting"]:
        pass
    waits.send_signal(signal.SIGINT)
    assert ended(waits)[:2] == (-signal.SIGINT, "")
    while seen(cluster, "wanted")["waiting"]:
        pass
    assert ended(holder)[0] == 0
    assert cluster.run("lock", "wanted", "--timeout", "15", "--", "echo", "mine").stdout == "mine\n"


def seen(cluster: Cluster, name: str) -> dict[str, Any]:
    done = cluster.run("status", name, "--json")
    found: dict[str, Any] = json.loads(done.stdout)["locks"][0]
    return found


def test_two_commands_never_run_at_the_same_time(cluster: Cluster, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    script = tmp_path / "notes.py"
    script.write_text(NOTES)
    loop = 'for i in 1 2 3; do "$@" || exit; done'
    contenders = [
        subprocess.Popen(
            [
                "sh",
                "-c",
                loop,
                "-",
                *HABEMUS,
                "lock",
                "one",
                "--cluster",
                cluster.socket(node),
                "--",
                sys.executable,
                script,
                notes,
            ],
            env=cluster.environment,
        )
        for node in (1, 1, 2, 3)
    ]
    assert [each.wait(PATIENCE) for each in contenders] == [0] * 4
    stays = sorted(tuple(map(int, line.split())) for line in notes.read_text().splitlines())
    assert len(stays) == 12
    assert all(
        earlier[1] < later[0] and earlier[2] < later[2] for earlier, later in pairwise(stays)
    )


PRINTS = ("sh", "-c", 'echo "$@"', "sh")


def test_options_end_at_the_command(cluster: Cluster, tmp_path: Path) -> None:
    own = ("--timeout", "7", "--", "--try", "-h")
    for words in (["x", "--timeout", "60"], ["--timeout", "60", "x"], ["--timeout=60", "x", "--"]):
        for program in ("lock", "lead"):
            done = cluster.run(program, *words, *PRINTS, *own)
            assert (done.returncode, done.stdout) == (0, " ".join(own) + "\n"), done.stderr
    for before in ([], ["--"]):
        up = ("up", "-n", "1", "--folder", str(tmp_path / "x"), *before)
        done = cluster.run(*up, *PRINTS, "--port", "--", "2")
        assert done.stdout.endswith("--port -- 2\n"), done.stderr


def test_a_command_under_a_lock_starts_almost_as_fast_as_python(cluster: Cluster) -> None:
    """At most three times the processor time.  Importing click alone takes four times as long."""
    habemus = Path(sys.executable).with_name("habemus")
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "lock": [str(habemus), "lock", "x", "true"],
    }
    used: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(12):
        for name, command in commands.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, env=cluster.environment, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            used[name].append(took)
    assert min(used["lock"]) <= 3 * min(used["python"]), used


def test_a_cluster_that_is_not_there(cluster: Cluster, tmp_path: Path) -> None:
    for name, where in (
        ("plain", str(tmp_path)),
        ("plain", str(tmp_path / "x.sock")),
        ('not "plain"', "127.0.0.1:1"),
    ):
        done = cluster.run("lock", name, "--cluster", where, "--", "echo", "never")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (125, "", 1)
    assert cluster.run("lock", "x", "--cluster", "nowhere", "--", "true").returncode == 2
    assert cluster.run("lock", "x", "--service", "nothing", "--", "true").returncode == 2
    for command in (["status"], ["watch", "x"], ["release", "x", "--force"]):
        done = cluster.run(*command, "--cluster", "127.0.0.1:1")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (125, "", 1)


def test_where_a_cluster_is_looked_for(cluster: Cluster, tmp_path: Path) -> None:
    unnamed = {
        name: value for name, value in cluster.environment.items() if name != "HABEMUS_CLUSTER"
    }
    elsewhere = {**unnamed, "XDG_STATE_HOME": str(tmp_path)}
    secret = str(cluster.folder / ".habemus" / "secret")
    places: list[tuple[dict[str, str], Path]] = [
        (unnamed, tmp_path),  # the last one that was started
        (elsewhere, cluster.folder),  # .habemus/
        ({**elsewhere, "HABEMUS_CLUSTER": cluster.socket(2)}, tmp_path),
        (
            {
                **elsewhere,
                "HABEMUS_CLUSTER": cluster.told["nodes"][2]["address"],
                "HABEMUS_SECRET_FILE": secret,
            },
            tmp_path,
        ),
        (
            {**elsewhere, "HABEMUS_CLUSTER": str(cluster.folder / ".habemus" / "cluster.toml")},
            tmp_path,
        ),
    ]
    for given, folder in places:
        assert cluster.run("lock", "here", "--", "true", env=given, cwd=folder).returncode == 0
    done = cluster.run("lock", "here", "--", "true", env=elsewhere, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("no cluster is named")) == (125, 1)
    stranger = {**elsewhere, "HABEMUS_CLUSTER": cluster.told["nodes"][2]["address"]}
    done = cluster.run("lock", "here", "--", "true", env=stranger, cwd=tmp_path)
    assert done.returncode != 0  # another user of the machine does not know the secret
    assert "secret" in done.stderr
    assert Path(last_file()).name == "last"


# Losing.


class Beating:
    """Somebody who holds a lock with a command that does not want to end, nor do its children."""

    def __init__(self, cluster: Cluster, folder: Path, name: str, *before: str) -> None:
        script = folder / "beats.py"
        script.write_text(BEATS)
        self.files = [folder / f"beats-{each}" for each in ("command", "child", "own-session")]
        command = (*before, sys.executable, str(script), *map(str, self.files))
        self.process = cluster.start("lock", name, "--cluster", cluster.socket(1), "--", *command)
        while not all(file.exists() and file.read_text().count("\n") for file in self.files):
            assert self.process.poll() is None

    def last(self) -> int:
        return max(numbers(file)[-1] for file in self.files)


def next_one(cluster: Cluster, folder: Path, name: str) -> subprocess.Popen[str]:
    """Waits for the lock at another node, and notes down when it begins."""
    (folder / "notes.py").write_text(NOTES)
    notes = [str(folder / "notes.py"), str(folder / "notes")]
    waits = cluster.start(
        "lock", name, "--cluster", cluster.socket(2), "--", sys.executable, *notes
    )
    while not seen(cluster, name)["waiting"]:
        assert waits.poll() is None
    return waits


@pytest.mark.parametrize(
    "before", [(), ("sh", "-c", '"$@"; true', "-")], ids=["alone", "in-a-shell"]
)
def test_killed_before_another_is_granted_when_the_node_dies(
    cluster: Cluster, tmp_path: Path, before: tuple[str, ...]
) -> None:
    """A shell ends when it is asked to, and leaves behind what does not."""
    beating = Beating(cluster, tmp_path, "node-dies", *before)
    after = next_one(cluster, tmp_path, "node-dies")
    os.kill(cluster.pid(1), signal.SIGKILL)
    code, _, said = ended(beating.process)
    assert (code, said.count("\n")) == (123, 1)
    assert "lost the connection to the node" in said
    assert ended(after) == (0, "", "")
    assert beating.last() < numbers(tmp_path / "notes")[0]
    cluster.well()


def back(cluster: Cluster, number: int) -> subprocess.Popen[str]:
    """A node that has been told to end, started again as soon as that can be."""
    config = str(cluster.folder / ".habemus" / "cluster.toml")
    while True:
        again = cluster.start("node", "--config", config, "--id", str(number))
        assert again.stderr is not None
        if "listens" in again.stderr.readline():
            return again
        again.communicate(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("algorithm", "how", "stands_still"),
    [
        ("elected-coordinator-leased", signal.SIGKILL, False),
        ("elected-coordinator-leased", signal.SIGTERM, False),
        ("elected-coordinator", signal.SIGKILL, False),
        (
            "elected-coordinator",
            signal.SIGKILL,
            True,
        ),  # the guard has to see that the node has gone
    ],
)
def test_killed_before_another_is_granted_when_the_node_is_back_at_once(
    up: Callable[..., Cluster],
    tmp_path: Path,
    algorithm: str,
    how: signal.Signals,
    stands_still: bool,
) -> None:
    """A node that recovers says that its stay is over; if it did so at once, that would be too
    early for a command that takes its time.
    """
    cluster = up(
        tmp_path, "--algorithm", algorithm, *(LEASE if algorithm.endswith("leased") else ())
    )
    beating = Beating(cluster, tmp_path, "node-dies")
    after = next_one(cluster, tmp_path, "node-dies")
    if stands_still:
        beating.process.send_signal(signal.SIGSTOP)
    os.kill(cluster.pid(1), how)
    again = back(cluster, 1)
    try:
        assert ended(after) == (0, "", "")
        beating.process.send_signal(signal.SIGCONT)
        assert ended(beating.process)[0] == 123
        assert beating.last() < numbers(tmp_path / "notes")[0]
    finally:
        again.terminate()
        assert ended(again)[0] == 0


def test_killed_before_another_is_granted_when_the_node_stands_still(
    cluster: Cluster, tmp_path: Path
) -> None:
    beating = Beating(cluster, tmp_path, "node-stops")
    after = next_one(cluster, tmp_path, "node-stops")
    node = cluster.pid(1)
    os.kill(node, signal.SIGSTOP)
    code, _, said = ended(beating.process)
    os.kill(node, signal.SIGCONT)
    assert (code, "not renewed in time" in said) == (123, True)
    assert ended(after) == (0, "", "")
    assert beating.last() < numbers(tmp_path / "notes")[0]
    cluster.well()


def test_killed_before_another_is_granted_when_habemus_lock_is_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    beating = Beating(cluster, tmp_path, "we-die")
    after = next_one(cluster, tmp_path, "we-die")
    beating.process.kill()
    assert ended(beating.process)[0] == -signal.SIGKILL
    assert ended(after) == (0, "", "")
    assert beating.last() < numbers(tmp_path / "notes")[0]


HANGS_UP = """
import os, sys, time
from habemus.supervise import process_tree as ending
quick = ending.children
ending.children = lambda process: time.sleep(0.3) or quick(process)
script = (
    "import os, subprocess; child = subprocess.Popen(['sleep', '60'], start_new_session=True);"
    "print(child.pid, flush=True); os.read(0, 1)"
)
command = os.posix_spawn(sys.executable, [sys.executable, "-c", script], os.environ, setpgroup=0)
guard = ending.guarded(command, None, None)
sys.stdin.readline()
os.close(guard._told)
time.sleep(0.1)
"""
"""A holder that ends slowly, its files first; and a guard that takes its time between stopping the
command and looking for its children.
"""


def test_the_guard_finds_the_children_of_a_command_although_the_system_hangs_up() -> None:
    """A group that nobody looks after any more is sent SIGHUP if anybody in there is stopped; so it
    had better not be, by then.
    """
    with subprocess.Popen(
        [sys.executable, "-c", HANGS_UP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        child = os.pidfd_open(int(holder.stdout.readline()))
        holder.stdin.write("end\n")
        holder.stdin.flush()
        assert select.select([child], [], [], PATIENCE)[0]
        os.close(child)


def test_killed_before_another_is_granted_when_habemus_lock_stands_still(
    cluster: Cluster, tmp_path: Path
) -> None:
    beating = Beating(cluster, tmp_path, "we-stop")
    after = next_one(cluster, tmp_path, "we-stop")
    beating.process.send_signal(signal.SIGSTOP)
    assert ended(after) == (0, "", "")
    beating.process.send_signal(signal.SIGCONT)
    assert ended(beating.process)[0] == 123
    assert beating.last() < numbers(tmp_path / "notes")[0]


def test_release_by_force(cluster: Cluster) -> None:
    done = cluster.run("release", "forced")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert cluster.run("release", "forced", "--force").returncode == 1
    holder = cluster.holder("forced", "--cluster", cluster.socket(3))
    done = cluster.run("release", "forced", "--force", "--json")
    assert done.returncode == 0
    assert [each["node"] for each in json.loads(done.stdout)["lost"]] == [3]
    code, _, said = ended(holder)
    assert (code, "released by an operator" in said) == (123, True)


# Looking.


def test_watch(cluster: Cluster) -> None:
    watching = cluster.start("watch", "watched", "--json")
    assert watching.stdout is not None
    lines = map(json.loads, watching.stdout)
    first = next(lines)
    assert (first["holder"], first["waiting"]) == (None, 0)
    holder = cluster.holder("watched")
    held = next(line for line in lines if line["holder"])  # before that it may be seen waiting
    assert held["holder"].endswith(f"/{holder.pid}") and held["token"] > 0
    assert ended(holder)[0] == 0
    assert next(lines)["holder"] is None
    watching.send_signal(signal.SIGINT)
    ended(watching)
    leads = cluster.start(
        "lead", "watched", "--", "sh", "-c", "echo in; cat", stdin=subprocess.PIPE
    )
    assert leads.stdout is not None and leads.stdout.readline() == "in\n"
    line = cluster.run("watch", "watched", "--election", "--changes", "1").stdout
    assert line.startswith("watched: led by ") and f"/{leads.pid} at node " in line
    assert ended(leads)[0] == 0


def test_status(cluster: Cluster) -> None:
    holder = cluster.holder("looked-at", "--cluster", cluster.socket(2))
    status = cluster.well()
    assert [node["up"] for node in status["nodes"]] == [True] * 3
    assert status["leader"] in (1, 2, 3) and status["term"] >= 1
    (lock,) = [each for each in status["locks"] if each["name"] == "looked-at"]
    assert lock["holder"].endswith(f"/{holder.pid}")
    assert (lock["node"], lock["token"] >> 32, lock["waiting"]) == (2, lock["term"], [])
    assert lock["since"] is not None
    assert f"/{holder.pid}" in cluster.run("status", "looked-at").stdout
    assert ended(holder)[0] == 0


def test_top_ends_at_q(cluster: Cluster) -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(cluster.folder)
        os.execve(sys.executable, [*HABEMUS, "top", "--interval", "3600"], cluster.environment)
    before = termios.tcgetattr(terminal)
    shown = b""
    while b"3 of 3 nodes up" not in shown:
        os.write(terminal, b" ")  # refreshes at once
        shown += os.read(terminal, 65_536)
    os.write(terminal, b"q")
    with suppress(OSError):  # the program has closed the terminal
        while os.read(terminal, 65_536):
            pass
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert termios.tcgetattr(terminal)[3] == before[3]
    os.close(terminal)


# Up.


def test_up_needs_no_home_that_can_be_written(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*HABEMUS, "up", "-n", "1", "--json"],
        cwd=tmp_path,
        env=environment(tmp_path) | {"XDG_STATE_HOME": "/proc"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as up:
        assert up.stdout is not None and up.stderr is not None
        assert "}\n" in iter(up.stdout.readline, "")
        up.send_signal(signal.SIGINT)
        said = up.stderr.read()
    assert up.returncode == 0
    assert "/proc/habemus: No such file or directory; commands in other folders need" in said
    assert f"--cluster {tmp_path}/.habemus" in said


def test_up_runs_a_command_and_leaves_with_its_code(tmp_path: Path) -> None:
    def up(*arguments: str) -> subprocess.CompletedProcess[str]:
        settings: dict[str, Any] = {
            "cwd": tmp_path,
            "env": environment(tmp_path),
            "timeout": PATIENCE,
            "check": False,
        }
        return subprocess.run(
            [*HABEMUS, "up", *arguments], capture_output=True, text=True, **settings
        )

    holds = (*HABEMUS, "lock", "x", "--", "sh", "-c", 'echo "$HABEMUS_TOKEN"; exit 5')
    first = up("-n", "1", "--", *holds)
    assert first.returncode == 5, first.stderr
    assert "a cluster of 1 tolerates no failure" in first.stderr
    for wrong, told in (
        (["-n", "3", "--", "true"], "--fresh deletes its data, records and logs"),
        (["-o", "lease=often", "--fresh"], "a lease is"),
        (["--json", "--", "true"], "both write to stdout"),
        (["--semaphore", "printers"], "write NAME=SIZE, such as printers=3"),
        (["--semaphore", "printers=0", "--fresh"], "printers=0': write NAME=SIZE"),
    ):
        refused = up(*wrong)
        assert (refused.returncode, refused.stderr.count("\n"), told in refused.stderr) == (
            2,
            1,
            True,
        )
    second = up("-n", "1", "--", *holds)
    assert int(second.stdout) > int(
        first.stdout
    )  # whatever was refused, the cluster has not forgotten anything


@pytest.mark.parametrize(
    ("options", "links", "warns"), [((), "perfect", False), (("--over", "none"), "", True)]
)
def test_up_puts_the_links_under_an_algorithm_that_it_needs(
    tmp_path: Path, options: tuple[str, ...], links: str, warns: bool
) -> None:
    up = [*HABEMUS, "up", "-n", "3", "--algorithm", "bully", *options, "--", "habemus", "status"]
    done = subprocess.run(
        up, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "leader is node 3" in done.stdout
    assert ("bully assumes reliable links" in done.stderr) is warns
    offer = tomllib.loads((tmp_path / ".habemus" / "cluster.toml").read_text())["services"]
    assert offer["elections"].get("over", "") == links


def test_a_second_cluster_in_the_same_folder_is_refused(cluster: Cluster) -> None:
    done = cluster.run("up")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "a cluster is already up in" in done.stderr


def test_nodes_end_with_whoever_started_them(up: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = up(tmp_path, "--no-data", size=1)
    nodes = [os.pidfd_open(node["pid"]) for node in cluster.told["nodes"]]
    cluster.process.kill()
    cluster.process.communicate(timeout=PATIENCE)
    for node in nodes:
        assert select.select([node], [], [], PATIENCE)[0]
        os.close(node)
    assert cluster.run("lock", "x", "--", "true").returncode == 125


def test_nodes_are_elected_and_lead_and_a_client_that_waits_calls_an_election(
    tmp_path: Path, up: Callable[..., Cluster]
) -> None:
    """The bully, called by `up` at first, by a client whose node has lost the leader, and by a
    command after the strongest node is back, which then takes over.
    """
    cluster = up(tmp_path, "--algorithm", "bully", "-o", "timeout=2s", "-o", "patience=6s")
    assert cluster.well()["leader"] == 3
    told = cluster.run("watch", "all", "--changes", "1")
    assert told.stdout == "all: led by node 3\n"
    assert (
        cluster.run("lead", "all", "--node", "1", "--timeout", "0.3", "--", "true").returncode
        == 124
    )
    strongest = cluster.run("lead", "all", "--node", "3", "--", "echo", "in office")
    assert (strongest.returncode, strongest.stdout) == (0, "in office\n")

    watching = cluster.start("watch", "all", "--cluster", cluster.socket(1))
    assert watching.stdout is not None and watching.stdout.readline() == "all: led by node 3\n"
    second = cluster.start(
        "lead", "all", "--node", "2", "--", "sh", "-c", "echo in; cat", stdin=subprocess.PIPE
    )
    os.kill(cluster.pid(3), signal.SIGKILL)
    assert second.stdout is not None and second.stdout.readline() == "in\n"
    assert watching.stdout.readline() == "all: led by node 2\n"

    again = back(cluster, 3)
    while not cluster.survey_says_up(3):
        assert cluster.process.poll() is None
    called = cluster.run("elect", "--node", "3", "--timeout", "50", "--json")
    assert json.loads(called.stdout)["leader"] == 3, called.stderr
    # A slow machine may have seen node 2 elected more than once.
    assert "all: led by node 3\n" in iter(watching.stdout.readline, "")
    code, _, errors = ended(second)
    assert code == 123
    assert "node 3 leads now" in errors
    watching.terminate()
    ended(watching)
    again.terminate()
    assert ended(again)[0] == 0
    refused = cluster.run("elect", "--node", "9")
    assert (refused.returncode, refused.stderr) == (2, "habemus: no node 9; nodes are 1, 2, 3\n")


def test_an_algorithm_of_ones_own_elects_a_node(tmp_path: Path, up: Callable[..., Cluster]) -> None:
    (tmp_path / "mine.py").write_text(
        "from habemus.algorithm import Election, Leader\n\n\n"
        "class First(Election):\n"
        "    def elect(self) -> None:\n"
        "        self.indicate(Leader(1))\n"
    )
    cluster = up(tmp_path, "--algorithm", "mine.py:First", size=1)
    assert cluster.told["leader"] == 1
    assert cluster.run("lead", "all", "--", "true").returncode == 0
