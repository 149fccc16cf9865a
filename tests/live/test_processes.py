"""Real processes: killed and restarted, shouted at, told to end; and what they say when they cannot
begin.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from shlex import split
from typing import Any

import pytest
from tests.ports import reserved_ports

from habemus.deployment.services import judged, replayed
from habemus.runtimes.live.peers.codec import encoded
from habemus.runtimes.live.peers.frames import Hello, MessageFrame, OpenFrame
from habemus.traces.merge import merge, read_record

Start = Callable[..., Any]
ON = ["locks", "printer"]


def locks(algorithm: str, *options: str, over: str = "") -> dict[str, Any]:
    return {"locks": (algorithm, options, over)}


def all_visit(cluster: Any, numbers: tuple[int, ...] = (1, 2, 3), rounds: int = 2) -> None:
    for number in numbers:
        cluster.nodes[number].tell("visit", on=ON, rounds=rounds)
    for number in numbers:
        assert cluster.nodes[number].hear("done") == ON


# Killed.


def test_what_was_durable_is_back_after_a_kill(processes: Start) -> None:
    """The coordinators of a quorum keep their grants; with one killed and back, everybody still
    gets in, and never two.
    """
    cluster = processes(locks("quorum-yield"))
    for number in (1, 2, 3):
        all_visit(cluster)
        cluster.nodes[number].tell("state", on=ON)
        before = cluster.nodes[number].hear("state")
        cluster.kill(number)
        node = cluster.restart(number)
        node.tell("state", on=ON)
        after = node.hear("state")
        assert _durable(after) >= _durable(before) > 0
    all_visit(cluster)
    trace = merge([read_record(path) for path in cluster.stop()], "locks/printer")
    assert (
        [event.kind for event in trace.events].count("crash")
        == [event.kind for event in trace.events].count("recover")
        == 6
    )
    report = judged(trace)
    assert report.violated == []
    assert report.costs["entries"] == 24
    assert replayed(trace)


def _durable(state: list[list[Any]]) -> int:
    """The number of the last request, which is stored before it is sent."""
    return max(each for each in state[0] if isinstance(each, int))


def test_kills_in_the_middle_of_everything(processes: Start) -> None:
    """Whoever is killed while all ask is back with what it had stored; the trace replays, so no
    step was lost or invented.
    """
    cluster = processes(locks("elected-coordinator"))
    all_visit(cluster, rounds=1)
    for victim in (1, 2, 3):
        others = tuple(number for number in (1, 2, 3) if number != victim)
        for number in (1, 2, 3):
            cluster.nodes[number].tell("visit", on=ON, rounds=4)
        cluster.nodes[victim].tell("counts")
        cluster.nodes[victim].hear("counts")
        cluster.kill(victim)
        cluster.restart(victim)
        for number in others:
            assert cluster.nodes[number].hear("done") == ON
    all_visit(cluster)
    trace = merge([read_record(path) for path in cluster.stop()], "locks/printer")
    report = judged(trace)
    assert report.violated == [], report.why
    assert replayed(trace)


@pytest.mark.parametrize("algorithm", ["ricart-agrawala", "central"])
def test_perfect_links_outlive_the_restart_of_a_peer(processes: Start, algorithm: str) -> None:
    """A peer that is neither waiting nor inside is killed; what was sent to it while it was down
    arrives when it is back.
    """
    cluster = processes(locks(algorithm, over="perfect"))
    all_visit(cluster)
    for victim in (3, 2):
        asker = cluster.nodes[1]
        asker.tell(
            "visit", on=ON, rounds=1
        )  # whoever was inside before has left, and everybody concerned knows it
        assert asker.hear("done") == ON
        cluster.kill(victim)
        asker.tell("visit", on=ON, rounds=2)
        node = cluster.restart(victim)
        assert asker.hear("done") == ON
        node.tell("visit", on=ON, rounds=1)
        assert node.hear("done") == ON
    cluster.stop()


# Shouted at.


def test_noise_on_a_live_socket(processes: Start) -> None:
    """10,000 strings, of noise and of frames out of place: the node stays up, stays small, and
    works as before.
    """
    cluster = processes(locks("ricart-agrawala"), head='secret_file = "secret"')
    all_visit(cluster)
    node = cluster.nodes[1]
    node.tell("counts")
    before = node.hear("kilobytes")
    draw = random.Random(3)
    good = [
        encoded(Hello(1, "office", 2, 1, b"f" * 32, b"n" * 32)),
        encoded(MessageFrame(0, "printer", 1, 2, 0, "Request", [5])),
        encoded(OpenFrame(0, "another")),
        b"\x01\x0f\xff\xff",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ]
    for _ in range(10_000):
        noise = (
            draw.randbytes(draw.randrange(1, 200))
            if draw.random() < 0.5
            else draw.choice(good) + draw.randbytes(draw.randrange(5))
        )
        with socket.create_connection(("127.0.0.1", cluster.ports[0]), timeout=60) as connection:
            connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
            )
            connection.sendall(noise)
    node.tell("counts")
    after = node.hear("kilobytes")
    node.tell("counts")
    assert node.hear("instances") == 1
    assert after - before < 20_000
    all_visit(cluster)
    cluster.stop()


@pytest.fixture(autouse=True)
def secret(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret of the cluster\n")


# `habemus node`.


def habemus(*arguments: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "habemus", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def cluster_file(folder: Path, port: int, **more: str) -> None:
    more = {"memory": "none", **more} if "data" not in more else more
    head = "".join(f'{key} = "{value}"\n' for key, value in more.items())
    services = '[services.locks]\nalgorithm = "quorum-durable"\noptions = { coordinators = 0 }\n'
    (folder / "cluster.toml").write_text(f'{head}[nodes]\n1 = "127.0.0.1:{port}"\n{services}')


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_told_to(tmp_path: Path, number: int) -> None:
    (tmp_path / "data").mkdir()
    cluster_file(tmp_path, reserved_ports(1)[0], data="data")
    words = split("node --config cluster.toml --id 1 --record records --json")
    node = habemus(*words, cwd=tmp_path)
    assert node.stdout is not None
    lines = takewhile(lambda line: line != "}\n", iter(node.stdout.readline, ""))
    assert json.loads("".join(lines) + "}")["pid"] == node.pid
    node.send_signal(number)
    out, err = node.communicate(timeout=60)
    assert (node.returncode, out) == (0, "")
    assert [line for line in err.splitlines() if " info " not in line] == []
    assert (tmp_path / "data" / "node-1" / "memory").exists()
    [record] = (tmp_path / "records").glob("*.jsonl")
    assert record.read_text().splitlines()[-1].startswith('{"end":')


def refusal(folder: Path, *arguments: str, **environment: str) -> str:
    done = habemus(*arguments, cwd=folder, **environment)
    out, err = done.communicate(timeout=60)
    assert (done.returncode, out, err.count("\n")) == (2, "", 1), err
    return err


def test_what_keeps_a_node_from_starting_is_one_line(tmp_path: Path) -> None:
    node = ("node", "--config", "cluster.toml", "--id", "1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cluster_file(tmp_path, port)
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in refusal(
            tmp_path, *node
        )
    cluster_file(tmp_path, reserved_ports(1)[0], data="")
    assert 'write data = "FOLDER" for the stable memory' in refusal(tmp_path, *node)
    cluster_file(tmp_path, reserved_ports(1)[0], data="absent")
    assert "data folder absent does not exist" in refusal(tmp_path, *node)
    cluster_file(tmp_path, reserved_ports(1)[0], secret_file="short")
    (tmp_path / "short").write_text("abc")
    (tmp_path / "short").chmod(0o600)
    (tmp_path / "short").chmod(0o600)
    assert "write at least 16" in refusal(tmp_path, *node)
    cluster_file(tmp_path, reserved_ports(1)[0])
    assert "no node 2" in refusal(tmp_path, *node[:-1], "2")
    assert "can be reached by other machines" in refusal(tmp_path, *node, "--bind", "0.0.0.0:7400")
    assert "unknown key 'secret'; did you mean secret" in _with_line(tmp_path, 'secret = "x"', node)
    assert "there is no algorithm riccart" in _with_line(
        tmp_path, '[services.x]\nalgorithm = "riccart"', node, at_end=True
    )
    memory = tmp_path / "data" / "node-1"
    memory.mkdir(parents=True)
    (memory / "memory").write_bytes(b"noise")
    cluster_file(tmp_path, reserved_ports(1)[0], data="data")
    assert (
        "its 5 bytes begin with no whole batch; if it is lost for good, start the node with"
        " `habemus node --replace`" in refusal(tmp_path, *node)
    )
    (memory / "memory").unlink()
    (memory / "memory").mkdir()
    assert f"stable memory in {memory}: Is a directory" in refusal(tmp_path, *node)
    (memory / "memory").rmdir()
    (tmp_path / "records").write_text("no folder")
    assert f"cannot use {tmp_path}/records: File exists" in refusal(
        tmp_path, *node, "--record", "records"
    )
    running = habemus(*node, cwd=tmp_path)
    assert running.stderr is not None
    assert any("listens on" in line for line in running.stderr)
    assert "is in use by another process" in refusal(
        tmp_path, *node, "--bind", f"127.0.0.1:{reserved_ports(1)[0]}"
    )
    running.terminate()
    running.communicate(timeout=60)


def _with_line(folder: Path, line: str, node: tuple[str, ...], at_end: bool = False) -> str:
    cluster_file(folder, reserved_ports(1)[0])
    text = (folder / "cluster.toml").read_text()
    (folder / "cluster.toml").write_text(f"{text}{line}\n" if at_end else f"{line}\n{text}")
    return refusal(folder, *node)


def test_records_are_merged_judged_drawn_and_replayed_from_the_command_line(
    processes: Start, tmp_path: Path
) -> None:
    cluster = processes(locks("ricart-agrawala"))
    all_visit(cluster)
    records = [str(path) for path in cluster.stop()]
    merged = habemus(
        "trace", "merge", *records, "-o", "run.json", "-o", "run.svg", "--json", cwd=tmp_path
    )
    out, _ = merged.communicate(timeout=60)
    assert merged.returncode == 0
    report = json.loads(out)
    assert (report["verdict"], report["entries"], report["properties"]["ME3"]) == (
        "holds",
        6,
        "holds",
    )
    assert "<svg" in (tmp_path / "run.svg").read_text()
    again = habemus("replay", "run.json", "--json", cwd=tmp_path)
    out, _ = again.communicate(timeout=60)
    assert (again.returncode, json.loads(out)["same"]) == (0, True)
    # and a trace in which a process does what its file does not say is found out
    text = (tmp_path / "run.json").read_text().splitlines()
    place = next(
        index
        for index, line in enumerate(text)
        if '"e":"send"' in line and '"name":"Reply"' in line
    )
    from habemus.traces.file import read, write

    trace = read(tmp_path / "run.json")
    event = trace.events[place - 1]
    events = (
        *trace.events[: place - 1],
        event._replace(value={"stamp": 77}),
        *trace.events[place:],
    )
    write(
        trace.__class__(
            trace.run, trace.processes, trace.labels, events, trace.findings, trace.title
        ),
        tmp_path / "changed.json",
    )
    other = habemus("replay", "changed.json", cwd=tmp_path)
    out, _ = other.communicate(timeout=60)
    assert other.returncode == 1
    assert "different" in out


def test_a_node_without_memory_says_what_that_means(tmp_path: Path) -> None:
    cluster_file(tmp_path, reserved_ports(1)[0])
    with habemus("node", "--config", "cluster.toml", "--id", "1", cwd=tmp_path) as node:
        assert node.stderr is not None
        assert any("listens on" in line for line in node.stderr)
        node.terminate()
        rest = node.stderr.read()
    assert 'memory = "none": this node loses its votes and grants when it stops' in rest


@pytest.mark.parametrize("what", ["node-1", "node-1/memory"])
def test_a_node_whose_memory_is_deleted_ends_with_one_line(tmp_path: Path, what: str) -> None:
    (tmp_path / "data").mkdir()
    cluster_file(tmp_path, reserved_ports(1)[0], data="data")
    node = habemus("node", "--config", "cluster.toml", "--id", "1", cwd=tmp_path)
    assert node.stderr is not None
    assert any("listens on" in line for line in node.stderr)
    (tmp_path / "data" / what).rename(tmp_path / "away")
    _, err = node.communicate(timeout=60)
    assert (node.returncode, err.count("\n")) == (1, 1)
    assert (
        "data/node-1/memory was deleted or replaced while the node was running; if it is lost for"
        " good" in err
    )
