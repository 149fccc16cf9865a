"""Findings and errors name arguments in Python and flags on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import habemus
from habemus.argument_names import FLAGS, argument
from habemus.client.errors import RefusedByNode
from habemus.client.protocol import Greeting
from habemus.runtimes.live.cluster_file import BadConfig
from habemus.runtimes.live.config import load


def refused() -> None:
    Greeting("node 1", "me").answer(["refused", None, "unauthenticated", "no secret"])


def exposed(folder: Path) -> None:
    file = folder / "cluster.toml"
    file.write_text('cluster = "c"\n[nodes]\n1 = "192.0.2.1:7400"\n')
    load(file, {}, {}).settings(1)


def undecided() -> str:
    return " ".join(habemus.check("maekawa").reasons.values())


@pytest.mark.parametrize(
    ("act", "python", "flags"),
    [
        (
            lambda: habemus.compare("bully", load=1),
            "an election has no load; leave load out",
            "an election has no load; leave --load out",
        ),
        (
            lambda: habemus.compare("central", n="2..4", load="1..2"),
            "only one thing can vary: give a range to n or to load, not to both",
            "only one thing can vary: give a range to -n or to --load, not to both",
        ),
        (
            lambda: habemus.compare("bully", processing="1ms"),
            "a processing time is for mutual exclusion; leave processing out",
            "a processing time is for mutual exclusion; leave --processing out",
        ),
        (
            lambda: habemus.check("central-timeout", n=2, timeouts={"Repeat": 1}),
            "timeouts Repeat: central-timeout has no timer Repeat; there is Overdue",
            "--timeouts Repeat: central-timeout has no timer Repeat; there is Overdue",
        ),
        (
            lambda: habemus.simulate("heartbeat", asks=["1@0"]),
            "a detector takes no requests; leave out asks",
            "a detector takes no requests; leave out --ask",
        ),
        (
            lambda: habemus.simulate("central", think="soon"),
            "think 'soon' is not a time; write for example 5000, 5ms or 2s",
            "--think 'soon' is not a time; write for example 5000, 5ms or 2s",
        ),
        (
            lambda: habemus.simulate("central", faults=["crash 2"]),
            "crash '2' is not complete; write for example 2@5ms",
            "--crash '2' is not complete; write for example 2@5ms",
        ),
        (
            refused,
            "node 1: no secret; give secret_file",
            "node 1: no secret; give --secret-file",
        ),
    ],
)
def test_an_error_names_the_argument_or_the_flag(
    act: Callable[[], object], python: str, flags: str
) -> None:
    with pytest.raises((ValueError, RefusedByNode)) as found:
        act()
    assert str(found.value) == python
    with FLAGS, pytest.raises((ValueError, RefusedByNode)) as found:
        act()
    assert str(found.value) == flags


def test_a_finding_names_the_argument_or_the_flag() -> None:
    assert "ended at the violation of ME2-deadlock; every=True goes on" in undecided()
    with FLAGS:
        assert "ended at the violation of ME2-deadlock; --every goes on" in undecided()


def test_a_fault_that_did_not_strike_is_named_as_it_was_given() -> None:
    late = ["crash 2@5s"]
    assert habemus.simulate("central", faults=late).plain["missed_faults"] == [
        "crash 2@5s did not strike: the run ended before"
    ]
    with FLAGS:
        assert habemus.simulate("central", faults=late).plain["missed_faults"] == [
            "--crash 2@5s did not strike: the run ended before"
        ]


def test_an_embedded_node_is_not_advised_to_use_a_flag(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"or write insecure = true on a network"):
        exposed(tmp_path)
    with FLAGS, pytest.raises(BadConfig, match=r"insecure = true \(--insecure\) on a network"):
        exposed(tmp_path)


def test_flags_are_named_until_the_outermost_command_ends() -> None:
    with FLAGS:
        with FLAGS:
            pass
        assert argument("secret_file") == "--secret-file"
    assert argument("secret_file") == "secret_file"
