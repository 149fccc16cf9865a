"""Arguments of clients that are wrong are refused in words, before any node is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

import habemus
from habemus.cli import lock_arguments

CLUSTER: Any = habemus.connect("127.0.0.1:1", name="me")
WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda cluster: cluster.lock(3), "3 is not a name: give a text of printable characters"),
    (lambda cluster: cluster.lock(""), "'' is not a name"),
    (lambda cluster: cluster.lock("a\nb"), "is not a name: give a text of printable characters"),
    (lambda cluster: cluster.election(None), "None is not a name"),
    (lambda cluster: cluster.semaphore(""), "'' is not a name"),
    (lambda cluster: cluster.semaphore("x", "2"), "semaphore size is '2'; it must be a whole numb"),
    (lambda cluster: cluster.semaphore("x", 2.5), "semaphore size is 2.5; it must be a whole numb"),
    (lambda cluster: cluster.lock("x", timeout=-1), "timeout=-1: give a number of seconds, from 0"),
    (lambda cluster: cluster.lock("x", on_lost="y"), "on_lost='y': give a function that takes the"),
    (lambda cluster: cluster.read_write_lock(3), "3 is not a name"),
    (lambda cluster: cluster.barrier("", 2), "'' is not a name"),
    (lambda cluster: cluster.watch(5), "5 is not a name"),
    (lambda cluster: cluster.watch(""), "'' is not a name"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_a_wrong_argument_is_refused_in_words(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        call(CLUSTER)
    assert message in str(refused.value)


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_the_asynchronous_client_refuses_it_too(call: Callable[[Any], Any], message: str) -> None:
    async def refuse() -> None:
        call(CLUSTER._asynchronous_copy())

    with pytest.raises(ValueError) as refused:
        asyncio.run(refuse())
    assert message in str(refused.value)


AWAITED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda cluster: cluster.try_lock("x", on_lost=5), "on_lost=5: give a function that takes the"),
    (lambda cluster: cluster.force(5), "5 is not a name"),
    (
        lambda cluster: cluster.permits("x", 1, size="2"),
        "semaphore size is '2'; it must be a whole",
    ),
    (lambda cluster: cluster.permits("x", 3, size=2), "semaphore 'x' has 2 places; give 1 to 2"),
    (lambda cluster: cluster.acquire_all(5), "5 is not a list of names: give one, such as ['ink'"),
    (lambda cluster: cluster.acquire_all([1, "a"]), "1 is not a name"),
    (lambda cluster: cluster.acquire_all(["leader/x"]), "'leader/x' is not a name for a lock"),
]
"""Calls whose arguments are checked when they are entered or awaited."""


@pytest.mark.parametrize(("call", "message"), AWAITED)
def test_a_wrong_argument_is_refused_by_with(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError)) as refused, call(CLUSTER):
        pass
    assert message in str(refused.value)


@pytest.mark.parametrize(("call", "message"), AWAITED)
def test_a_wrong_argument_is_refused_by_await(call: Callable[[Any], Any], message: str) -> None:
    async def refuse() -> None:
        made = call(CLUSTER._asynchronous_copy())
        await (made if isawaitable(made) else made.__aenter__())

    with pytest.raises((ValueError, TypeError)) as refused:
        asyncio.run(refuse())
    assert message in str(refused.value)


@pytest.mark.parametrize("name", [5, "a\nb", "x" * 101])
def test_a_client_has_a_name_that_nodes_accept(name: Any) -> None:
    with pytest.raises(ValueError, match=r"name=.*: give a text of at most 100 printable chara"):
        habemus.connect("local", name=name)


def test_a_listener_of_a_lease_is_a_function() -> None:
    refused = pytest.raises(TypeError, match="5 is not a function: give one that takes the lease")
    with habemus.connect("local") as cluster, cluster.lock("listened") as lease, refused:
        lease.on_lost(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("named", [",", " , "])
def test_commas_name_no_cluster(named: str) -> None:
    with pytest.raises(ValueError, match=r"' ?, ?' is not the address of a cluster: write"):
        habemus.connect(named).__enter__()


def test_a_misspelled_engine_is_told_how_engines_are_written() -> None:
    for word in ("locl", "Local", "redis"):
        with pytest.raises(ValueError, match=rf"'{word}' is not .*\"local\", or a URL such as red"):
            habemus.connect(word).__enter__()
    with pytest.raises(ValueError, match=r"'10.0.0.1' is not .* a cluster.toml or a folder$"):
        habemus.connect("10.0.0.1").__enter__()


def test_a_time_is_not_a_choice_whether_to_wait() -> None:
    with pytest.raises(TypeError, match=r"blocking=5: give True or False; a time is timeout=5"):
        CLUSTER.lock("x").acquire(5)


def test_one_name_is_not_a_list_of_names() -> None:
    with pytest.raises(TypeError, match=r"'ink' is one name: give a list"):
        CLUSTER.acquire_all("ink").__enter__()


def test_a_cluster_is_named_by_a_text_or_a_path(tmp_path: Path) -> None:
    assert repr(habemus.connect(tmp_path, name="me")) == f"<Cluster {tmp_path}, as me>"
    with pytest.raises(ValueError, match=r"7400 is not the address of a cluster: write for exam"):
        habemus.connect(7400)  # type: ignore[arg-type]


def test_objects_say_what_they_are() -> None:
    assert repr(CLUSTER) == "<Cluster 127.0.0.1:1, as me>"
    assert repr(CLUSTER.election("e")) == "<LeaderElection 'e'>"
    assert repr(CLUSTER.election("e").lead()) == "<Term: election 'e'>"
    assert repr(CLUSTER.read_write_lock("config")) == "<ReadWriteLock 'config'>"
    with habemus.connect("local") as cluster, cluster.lock("repr") as lease:
        assert repr(habemus.HeldLock(cluster, lease)).startswith("<HeldLock: <Lease of repr, tok")


def test_asynchronous_objects_say_what_they_are() -> None:
    async def run() -> None:
        async with habemus.connect("local", name="me") as cluster:
            assert repr(cluster.election("e")) == "<AsyncLeaderElection 'e'>"
            assert repr(cluster.election("e").lead()) == "<AsyncTerm: election 'e'>"
            held = await cluster.try_lock("repr-of-a-task")
            assert repr(held).startswith("<AsyncHeldLock: <Lease of repr-of-a-task, tok")

    asyncio.run(run())


RESERVED = {
    "leader/x": "elections",
    "semaphore/x/1": "semaphores",
    "rwlock/x/gate": "read-write locks",
    "barrier/x/1": "barriers",
    "permits/x": "permits",
}
URLS = (
    "127.0.0.1:1",
    "local",
    "redis://127.0.0.1:1",
    "postgresql://127.0.0.1:1/d",
    "etcd://127.0.0.1:1",
    "zookeeper://127.0.0.1:1",
)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(("name", "what"), RESERVED.items())
def test_no_lock_has_a_name_of_another_kind(url: str, name: str, what: str) -> None:
    async def refuse() -> None:
        cluster = habemus.connect(url)._asynchronous_copy()
        with pytest.raises(ValueError, match=f"is the prefix of {what}"):
            cluster.lock(name)
        with pytest.raises(ValueError, match=f"is the prefix of {what}"):
            await cluster.try_lock(name)

    with closing(habemus.connect(url)) as cluster:
        for take in (cluster.lock, cluster.try_lock, cluster.read_write_lock):
            with pytest.raises(ValueError, match=f"is the prefix of {what}"):
                take(name).__enter__()  # type: ignore[union-attr]
        with (
            pytest.raises(ValueError, match=f"is the prefix of {what}"),
            cluster.acquire_all(["x", name]),
        ):
            pass
    asyncio.run(refuse())


@pytest.mark.parametrize(("name", "what"), RESERVED.items())
def test_no_lock_of_a_command_has_a_name_of_another_kind(
    name: str, what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert lock_arguments.run("lock", ["--cluster", "local", name, "--", "true"]) != 0
    [line] = capfd.readouterr().err.splitlines()
    assert f"is the prefix of {what}; choose another name" in line


@pytest.mark.parametrize("name", ["rwlocks/x", "rwlock", "x/barrier/y", "Permits/x"])
def test_other_names_with_a_slash_are_taken(name: str, tmp_path: Path) -> None:
    with habemus.connect(f"local://{tmp_path}/locks") as cluster, cluster.lock(name) as lease:
        assert lease.name == name
