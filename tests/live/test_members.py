"""Members of a live cluster change by command, under kills and restarts."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.live.conftest import PATIENCE, until
from tests.live.nodes import Nodes, leased
from tests.ports import reserved_ports

import habemus
from habemus.runtimes.live.config import DEFAULT_ALGORITHM, FIXED_ALGORITHM

MEMBERS = leased("30s", DEFAULT_ALGORITHM)
SHORT = leased("10s", DEFAULT_ALGORITHM)
"""For tests in which a node that was killed takes part again: it waits for a lease."""
Made = Callable[..., Nodes]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    found: list[Nodes] = []

    def make(size: int, services: str = MEMBERS) -> Nodes:
        found.append(Nodes(tmp_path, services, size))
        return found[-1]

    yield make
    for nodes in found:
        nodes.close()


def command(nodes: Nodes, *words: str) -> list[str]:
    where = ["--cluster", str(nodes.file), "--timeout", str(2 * PATIENCE)]
    return [sys.executable, "-m", "habemus", "member", *words, *where]


def member(nodes: Nodes, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(nodes, *words), capture_output=True, text=True, timeout=4 * PATIENCE, check=False
    )


def changed(nodes: Nodes, *words: str) -> dict[str, Any]:
    done = member(nodes, *words, "--json")
    assert done.returncode == 0, done.stderr
    view: dict[str, Any] = json.loads(done.stdout)
    return view


def join(nodes: Nodes, number: int) -> str:
    """Start a node that waits to be added; return its address."""
    (port,) = reserved_ports(1)
    nodes.start(number, "--join", "--bind", f"127.0.0.1:{port}")
    return f"127.0.0.1:{port}"


def take(nodes: Nodes, number: int, name: str = "x") -> int:
    """Take a lock through a node, and return its token."""
    with habemus.connect(nodes.socket(number)) as cluster:
        until(lambda: any(each["leader"] for each in cluster.status()["leaders"]))
        with cluster.lock(name, timeout=PATIENCE) as lease:
            assert lease.token is not None
            return lease.token


def held_at(nodes: Nodes, number: int) -> set[str]:
    """Return the locks that clients of a node hold."""
    with habemus.connect(nodes.socket(number)) as cluster:
        return {each["name"] for each in cluster.status()["locks"] if each["holder"]}


def last_line(nodes: Nodes, number: int) -> str:
    return (nodes.folder / f"{number}.log").read_text().strip().splitlines()[-1]


def ended(nodes: Nodes, number: int) -> int:
    process = nodes.processes.pop(number)
    code = process.wait(PATIENCE)
    process.communicate()
    return code


ONLY_MEMBERS = """
[[rules]]
who = ["*"]
may = ["members"]
names = ["*"]
"""


def test_the_permission_members_is_all_that_a_change_needs(made: Made) -> None:
    nodes = made(1, MEMBERS + ONLY_MEMBERS)
    assert changed(nodes, "add", "2", join(nodes, 2))["members"] == [1, 2]


def test_one_node_grows_to_three_and_the_first_one_goes(made: Made) -> None:
    nodes = made(1, SHORT)
    tokens = [take(nodes, 1)]
    for number in (2, 3):
        view = changed(nodes, "add", str(number), join(nodes, number))
        assert number in view["members"] and not view["learners"]
        tokens.append(take(nodes, number))
    assert view["members"] == [1, 2, 3] and view["version"] == 4
    listed = json.loads(member(nodes, "list", "--json").stdout)
    assert listed["leader"] == 1 and nodes.address(3) == listed["nodes"]["3"]
    nodes.kill(1)  # two of three go on
    tokens.append(take(nodes, 2))
    nodes.start(1)
    assert changed(nodes, "remove", "1")["members"] == [2, 3]
    assert ended(nodes, 1) == 0 and "removed from the cluster" in last_line(nodes, 1)
    assert "1 =" not in nodes.file.read_text()
    tokens.append(take(nodes, 3))
    for number in (2, 3):
        nodes.kill(number)
    for number in (2, 3):
        nodes.start(number)  # as members, without --join
    tokens.append(take(nodes, 2))
    assert tokens == sorted(set(tokens))


@contextmanager
def running(folder: Path, *words: str) -> Iterator[None]:
    """Run a command that prints JSON when it is ready, until the end of the block."""
    command = [sys.executable, "-m", "habemus", *words, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout is not None and process.stdout.readline() == "{\n"
        try:
            yield
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


def test_what_up_has_started_grows_and_starts_again_as_it_was_left(tmp_path: Path) -> None:
    folder, (port,) = str(tmp_path / ".habemus"), reserved_ports(1)
    file, address = f"{folder}/cluster.toml", f"127.0.0.1:{port}"

    def token() -> int:
        with habemus.connect(folder) as cluster, cluster.lock("x", timeout=PATIENCE) as lease:
            return lease.token or 0

    with (
        running(tmp_path, "up", "-n", "1", "--folder", folder),
        running(tmp_path, "node", "--config", file, "--id", "2", "--join", "--bind", address),
    ):
        first = token()
        adding = [sys.executable, "-m", "habemus", "member", "add", "2", address]
        where = ["--cluster", folder, "--timeout", str(2 * PATIENCE)]
        subprocess.run([*adding, *where], check=True, timeout=4 * PATIENCE)
    with running(tmp_path, "up", "--folder", folder):
        assert token() > first
        listed = subprocess.run(
            [*adding[:4], "list", "--cluster", folder, "--json"], capture_output=True, check=True
        )
        assert json.loads(listed.stdout)["members"] == [1, 2]


def test_up_shows_the_nodes_that_join_and_says_at_its_end_what_it_stops(tmp_path: Path) -> None:
    folder, (port,) = str(tmp_path / ".habemus"), reserved_ports(1)
    file, address = f"{folder}/cluster.toml", f"127.0.0.1:{port}"
    up = [sys.executable, "-m", "habemus", "up", "-n", "1", "--folder", folder]
    with subprocess.Popen(
        up, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert any(line.startswith("ready: ") for line in process.stdout)
        joins = ("node", "--config", file, "--id", "2", "--join", "--bind", address)
        with running(tmp_path, *joins):
            adding = [sys.executable, "-m", "habemus", "member", "add", "2", address]
            where = ["--cluster", folder, "--timeout", str(2 * PATIENCE)]
            subprocess.run([*adding, *where], check=True, timeout=4 * PATIENCE)
            assert any(line == f"node 2 is up at {address}\n" for line in process.stdout)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    assert said.splitlines()[-2:] == [
        f"habemus: stopping 1 node; the state stays in {folder}",
        "habemus: node 2 was not started here and does not stop",
    ]


def test_the_leader_is_removed_while_a_lock_is_held(made: Made) -> None:
    nodes = made(3)
    take(nodes, 1)
    leader = changed(nodes, "list")["leader"]
    other = next(number for number in (1, 2, 3) if number != leader)
    with (
        habemus.connect(nodes.socket(other)) as cluster,
        cluster.lock("x", timeout=PATIENCE) as lease,
    ):
        view = changed(nodes, "remove", str(leader))
        assert leader not in view["members"] and view["leader"] != leader
        assert ended(nodes, leader) == 0
        lease.check()
        with habemus.connect(nodes.socket(view["leader"])) as third, pytest.raises(TimeoutError):
            third.lock("x", timeout=1).acquire()
    assert take(nodes, other) > (lease.token or 0)


def test_a_node_that_lost_its_disk_comes_back_as_a_new_member(made: Made) -> None:
    """It led: what the new leader has queued for it must not reach the new member."""
    nodes = made(3)
    take(nodes, 1)
    lost = changed(nodes, "list")["leader"]
    before = take(nodes, lost)
    nodes.kill(lost)
    shutil.rmtree(nodes.folder / "data" / f"node-{lost}")
    take(nodes, 1 + lost % 3, "y")  # there is another leader
    nodes.start(lost, wait=False)
    assert ended(nodes, lost) == 1 and "lost its memory" in last_line(nodes, lost)
    nodes.start(lost, "--join")
    refused = member(nodes, "add", str(lost), nodes.address(lost))
    assert refused.returncode == 1 and f"habemus member replace {lost}" in refused.stderr
    view = changed(nodes, "replace", str(lost))
    assert view["members"] == [1, 2, 3] and not view["learners"]
    log = (nodes.folder / f"{lost}.log").read_text()
    assert "members are 1, 2, 3 (configuration 0)" not in log
    after = take(nodes, lost)
    assert after > before
    again = member(nodes, "replace", str(lost))
    assert again.returncode == 1 and "nothing is to be replaced" in again.stderr
    nodes.signal(lost, signal.SIGTERM)
    assert ended(nodes, lost) == 0
    nodes.start(lost)
    assert take(nodes, lost) > after


def test_a_change_survives_the_kill_of_the_leader(made: Made) -> None:
    nodes = made(3)
    take(nodes, 1)
    address = join(nodes, 4)
    logs = {number: nodes.folder / f"{number}.log" for number in (1, 2, 3)}

    def leaders() -> list[int]:
        """Return the nodes that have led when a step of the change was taken."""
        return [number for number, log in logs.items() if "audit: " in log.read_text()]

    with subprocess.Popen(command(nodes, "add", "4", address)) as adding:
        until(leaders)  # the first step was taken
        leader = leaders()[0]
        nodes.kill(leader)
        assert adding.wait(4 * PATIENCE) == 0
    assert changed(nodes, "list")["members"] == [1, 2, 3, 4]
    take(nodes, 4)
    nodes.start(leader)  # which has missed the change, but has the new file
    take(nodes, leader, "z")
    until(lambda: "members are 1, 2, 3, 4" in logs[leader].read_text())


def test_a_node_that_was_removed_while_it_was_down_ends_when_it_is_started(made: Made) -> None:
    nodes = made(3)
    take(nodes, 1)
    before = nodes.file.read_text()
    nodes.kill(3)
    assert changed(nodes, "remove", "3")["members"] == [1, 2]
    nodes.file.write_text(before)  # as it is on another machine
    for _ in range(2):
        nodes.start(3, wait=False)
        assert ended(nodes, 3) == 1
        assert "node 3 was removed from the cluster (configuration 2)" in last_line(nodes, 3)
    assert take(nodes, 1) and take(nodes, 2)


def test_clients_find_the_nodes_that_have_taken_the_place_of_those_they_knew(made: Made) -> None:
    nodes = made(1, leased("300s", DEFAULT_ALGORITHM))
    known = nodes.address(1)

    async def hold_while_nodes_change() -> None:
        async with habemus.connect(known) as cluster, cluster.lock("a", timeout=PATIENCE) as lease:
            await asyncio.to_thread(changed, nodes, "add", "2", join(nodes, 2))
            await asyncio.to_thread(changed, nodes, "remove", "1")
            assert await asyncio.to_thread(ended, nodes, 1) == 0
            await asyncio.to_thread(until, lambda: {"a", "x"} <= held_at(nodes, 2))
            lease.check()
            async with cluster.lock("b", timeout=PATIENCE):
                pass

    with habemus.connect(known) as idle, habemus.connect(known) as cluster:
        with idle.lock("y", timeout=PATIENCE):
            pass
        with cluster.lock("x", timeout=PATIENCE) as lease:
            asyncio.run(hold_while_nodes_change())
            lease.check()
        with idle.lock("z", timeout=PATIENCE):
            pass


def test_an_edited_file_is_refused_with_the_command_to_use(made: Made) -> None:
    nodes = made(3, SHORT)
    take(nodes, 3)
    text = nodes.file.read_text()
    nodes.kill(3)
    nodes.file.write_text(text.replace("[nodes]\n", '[nodes]\n4 = "127.0.0.1:1"\n'))
    nodes.start(3, wait=False)
    assert ended(nodes, 3) == 2
    assert re.search(r"habemus: \[nodes\].*run `habemus member add 4 127", last_line(nodes, 3))
    nodes.file.write_text(text)
    nodes.start(3)
    take(nodes, 3)


def test_other_algorithms_have_fixed_members(made: Made) -> None:
    nodes = made(1, leased("30s"))
    refused = member(nodes, "add", "2", "127.0.0.1:1")
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    assert "service locks (elected-coordinator-leased) has fixed members" in refused.stderr
    assert f'write algorithm = "{DEFAULT_ALGORITHM}" in [services.locks]' in refused.stderr


def test_fixed_members_become_members_that_change_node_by_node(made: Made) -> None:
    """What the nodes have promised stays, whichever of the two forms they have."""
    nodes = made(3, leased("300s"))
    tokens = [take(nodes, 1)]
    text = nodes.file.read_text()
    nodes.file.write_text(text.replace(FIXED_ALGORITHM, DEFAULT_ALGORITHM))
    for number in (1, 2, 3):
        nodes.signal(number, signal.SIGTERM)
        assert ended(nodes, number) == 0
        nodes.start(number)
        if number == 1:  # the others are the majority
            take(nodes, 3, "y")
        else:
            tokens.append(take(nodes, 1))
    assert tokens == sorted(set(tokens))
    assert changed(nodes, "add", "4", join(nodes, 4))["members"] == [1, 2, 3, 4]
    assert take(nodes, 4) > tokens[-1]


def test_members_are_not_edited_together_with_the_algorithm(made: Made) -> None:
    nodes = made(1, leased("30s"))
    nodes.kill(1)
    text = nodes.file.read_text().replace(FIXED_ALGORITHM, DEFAULT_ALGORITHM)
    nodes.file.write_text(text.replace("[nodes]\n", '[nodes]\n2 = "127.0.0.1:1"\n'))
    nodes.start(1, wait=False)
    assert ended(nodes, 1) == 2
    assert "changed together with the algorithm: this cluster has nodes 1" in last_line(nodes, 1)


def end(nodes: Nodes, number: int) -> None:
    nodes.signal(number, signal.SIGTERM)
    assert ended(nodes, number) == 0


def test_a_node_that_has_missed_changes_learns_them_and_ends_no_other_node(made: Made) -> None:
    """It knows node 2 by another memory, node 4 not at all, and they need its vote."""
    nodes = made(3)
    tokens = [take(nodes, 1)]
    before = nodes.file.read_text()
    end(nodes, 1)
    changed(nodes, "add", "4", join(nodes, 4))
    changed(nodes, "remove", "2")
    assert ended(nodes, 2) == 0
    shutil.rmtree(nodes.folder / "data" / "node-2")
    assert changed(nodes, "add", "2", join(nodes, 2))["members"] == [1, 2, 3, 4]
    end(nodes, 3)
    after, nodes.file = nodes.file, nodes.folder / "before.toml"
    nodes.file.write_text(before)  # as it is on another machine
    nodes.start(1)
    nodes.file = after
    tokens += [take(nodes, number) for number in (1, 2, 4)]
    assert tokens == sorted(set(tokens))
    log = (nodes.folder / "1.log").read_text()
    assert re.search("node [24] has a newer configuration", log)
    assert "members are 1, 2, 3, 4 (configuration 6)" in log
