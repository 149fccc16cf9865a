"""Rules: what they allow, and what a hostile name or client cannot do with them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import virtual
from tests.unit.runtimes.live.conftest import PATIENCE, Cluster, until

from habemus.client.errors import RefusedByNode
from habemus.client.protocol import Greeting
from habemus.runtimes.live.clients.protocol import ELECTIONS, SEMAPHORES, WIRE_VERSION, proof
from habemus.runtimes.live.cluster_file import Address, BadConfig
from habemus.runtimes.live.config import load
from habemus.runtimes.live.hosting.node import Node
from habemus.runtimes.live.hosting.service import fingerprint
from habemus.runtimes.live.rules import (
    FORCE,
    LOCK,
    MEMBERS,
    STATUS,
    WATCH,
    AccessRule,
    AccessRules,
    is_matched,
)

REPORTS = AccessRules(
    [
        AccessRule(("alice", "@ci"), (LOCK,), ("reports/*",)),
        AccessRule(("bob",), (WATCH,), ("*",)),
        AccessRule(("ops",), (FORCE,), ("reports/daily",)),
    ]
)


def test_what_is_not_allowed_is_refused() -> None:
    assert REPORTS.allow(["alice"], LOCK, "reports/daily")
    assert REPORTS.allow(["@secret", "@ci"], LOCK, "reports/daily")
    assert REPORTS.allow(["alice"], WATCH, "reports/daily")  # lock includes watch
    assert not REPORTS.allow(["alice"], FORCE, "reports/daily")
    assert not REPORTS.allow(["alice"], LOCK, "payroll")
    assert REPORTS.allow(["bob"], WATCH, "payroll")
    assert not REPORTS.allow(["bob"], LOCK, "reports/daily")
    assert REPORTS.allow(["ops"], FORCE, "reports/daily")
    assert not REPORTS.allow(["ops"], FORCE, "reports/daily2")
    assert not REPORTS.allow(["ops"], WATCH, "reports/daily")
    assert not AccessRules([AccessRule(("@secret",), (LOCK,), ("*",))]).allow(["alice"], LOCK, "x")
    for unknown in ([], ["mallory"], ["@socket"], ["@secret"], ["*x"], [""]):
        assert not any(REPORTS.allow(unknown, action, "reports/x") for action in (LOCK, WATCH))
    assert AccessRules([AccessRule(("*",), (LOCK,), ("*",))]).allow([], LOCK, "x")
    assert not AccessRules([AccessRule(("*",), (LOCK,), ("*",))]).allow([], LOCK, "")


def test_the_status_is_shown_to_clients_that_may_watch_lock_or_change_members() -> None:
    shown = {
        action: AccessRules([AccessRule(("alice",), (action,), ("x",))]).allow_some(
            ["alice"], STATUS
        )
        for action in (LOCK, WATCH, FORCE, MEMBERS)
    }
    assert shown == {LOCK: True, WATCH: True, FORCE: False, MEMBERS: True}
    assert not AccessRules([AccessRule(("alice",), (MEMBERS,), ("*",))]).allow(
        ["alice"], WATCH, "x"
    )


@pytest.mark.parametrize(
    "name",
    [
        "",
        "*",
        "reports",
        "reports/",
        "Reports/daily",
        "REPORTS/daily",
        " reports/daily",
        "report\u017f/daily",  # a long s, which is an s when case is folded
        "r\u0435ports/daily",  # a Cyrillic e
        "reports\u2215daily",  # another slash
        "reports\\daily",
        "./reports/daily",
        "/reports/daily",
        "../reports/daily",
        "x/../reports/daily",
        "reports%2fdaily",
        "reports\x00/daily",
        "leader/reports/daily",
        "semaphore/reports/daily",
    ],
)
def test_a_name_that_only_resembles_is_not_matched(name: str) -> None:
    assert not REPORTS.allow(["alice"], LOCK, name)


def test_dots_and_stars_in_names_mean_nothing() -> None:
    """`reports/../payroll` is a lock of that very name, below reports/."""
    assert REPORTS.allow(["alice"], LOCK, "reports/../payroll")
    assert REPORTS.allow(["alice"], LOCK, "reports/*")
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert not is_matched("a[bc]?", "abx") and is_matched("a[bc]?", "a[bc]?")
    assert is_matched(composed, composed) and not is_matched(composed, decomposed)


@given(st.text(), st.text())
def test_a_pattern_is_a_name_or_a_beginning(pattern: str, name: str) -> None:
    if is_matched(pattern, name):
        assert name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1]))


GOOD = 'secret_file = "s"\nmemory = "none"\n[nodes]\n1 = "127.0.0.1:7401"\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[rules]\nwho = "alice"', "rules must be a list"),
        ('[[rules]]\nmay = ["lock"]\nnames = ["*"]', "has no who"),
        ('[[rules]]\nwho = ["alice"]\nnames = ["*"]', "has no may"),
        ('[[rules]]\nwho = ["alice"]\nmay = ["lock"]', "has no names"),
        ('[[rules]]\nwho = "alice"\nmay = ["lock"]\nnames = ["*"]', "must be a list of texts"),
        ('[[rules]]\nwho = []\nmay = ["lock"]\nnames = ["*"]', "must be a list of texts"),
        ('[[rules]]\nwho = ["alice"]\nmay = ["own"]\nnames = ["*"]', "'own' is not"),
        ('[[rules]]\nwho = ["alice"]\nmay = ["lock"]\nnames = ["a*b"]', "only at the end"),
        ('[[rules]]\nwho = ["alice"]\nmay = ["lock"]\nnames = [""]', "not empty"),
        ('[[rules]]\nwho = ["Alice"]\nmay = ["lock"]\nnames = ["*"]', "lower-case"),
        ('[[rules]]\nwho = ["@ci"]\nmay = ["lock"]\nnames = ["*"]', "no such secret"),
        ('[[rules]]\nwho = ["a"]\nmay = ["lock"]\nnames = ["*"]\nand = 1', "unknown key 'and'"),
        ('[secrets]\nsecret = "x"', "is not a name for a secret"),
        ("[secrets]\nci = 3", "must be a string"),
    ],
)
def test_bad_rules_get_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(GOOD + text + "\n")
    with pytest.raises(BadConfig) as refused:
        load(file, {}, {})
    assert complaint in str(refused.value) and "\n" not in str(refused.value)


def test_nodes_compare_their_rules() -> None:
    one, other = AccessRule(("a",), (LOCK,), ("x",)), AccessRule(("a",), (LOCK,), ("y",))
    digests = {fingerprint([], False, {}, rules) for rules in ([], [one], [other], [one, other])}
    assert len(digests) == 4


# A node with rules, and clients over the network and the local socket.

RULES = (
    AccessRule(("@ci",), (LOCK,), ("reports/*", "leader/reports", "semaphore/slots")),
    AccessRule(("@secret",), (WATCH,), ("reports/*",)),
    AccessRule(("@socket",), (FORCE, WATCH), ("*",)),
)
MAIN, CI = b"0123456789abcdef0123", b"ci:0123456789abcdef45"


class LineClient:
    """A client that writes and reads lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.session = ""

    async def ask(self, *line: Any) -> list[Any]:
        self.writer.write(json.dumps(line).encode() + b"\n")
        found: list[Any] = json.loads(await asyncio.wait_for(self.reader.readline(), PATIENCE))
        return found

    async def lock(self, *names: str) -> str:
        """Return the word of the answer to a request, and release."""
        answer = await self.ask("request", 1, "locks", list(names), 1_000, None, 1)
        self.writer.write(b'["release", 1]\n')
        return str(answer[2] if answer[0] == "refused" else answer[0])


async def joined(address: Address, secret: bytes, session: str | None = None) -> LineClient:
    """Return a client that has proved that it knows a secret."""
    client = LineClient(*await asyncio.open_connection(*address))
    greeting = Greeting("here", "x", session, secret)
    client.writer.write(greeting.hello)
    try:
        while greeting.welcome is None:
            line = json.loads(await asyncio.wait_for(client.reader.readline(), PATIENCE))
            client.writer.write(greeting.answer(line) or b"")
    except RefusedByNode:
        client.writer.close()
        raise
    client.session = greeting.welcome["session"]
    return client


def run_with_rules(folder: Path, use: Callable[[Node], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        cluster = Cluster(
            {"locks": "elected-coordinator-leased"},
            1,
            folder,
            secret=MAIN,
            secrets={"ci": CI},
            rules=RULES,
            socket=folder / "x.sock",
            semaphores={"slots": 2, "others": 2},
        )
        node = await cluster.start(1)
        try:
            await until(lambda: not node.impediments())
            await use(node)
        finally:
            await cluster.close()

    virtual.run(run())


def test_a_claim_needs_the_right_to_lock_that_name_and_a_loan_with_its_token(
    tmp_path: Path,
) -> None:
    async def use(node: Node) -> None:
        ci, main = await joined(node.address, CI), await joined(node.address, MAIN)
        granted = await ci.ask("request", 1, "locks", ["reports/a"], 1_000, None, 1)
        token, ticket = granted[2], granted[6]

        async def claim(client: LineClient, id: int, name: str, token: int, *where: str) -> str:
            service = where[0] if where else "locks"
            stay = (service, name, token, token, None, 1, False, ticket)
            answer = await client.ask("claim", id, *stay)
            return str(answer[2] if answer[0] == "refused" else answer[0])

        assert await claim(main, 2, "reports/a", token) == "forbidden"
        assert await claim(ci, 3, "payroll", token) == "forbidden"
        assert await claim(ci, 4, f"{SEMAPHORES}others/1", token) == "forbidden"
        assert await claim(ci, 5, f"{ELECTIONS}x", token) == "forbidden"
        assert await claim(ci, 6, "reports/a", token, "locks-election") == "unknown"
        assert await claim(ci, 7, "reports/a", token, "nothing") == "unknown"
        assert await claim(ci, 9, "reports/free", token) == "lost"  # the token of another lock
        assert await claim(ci, 8, "reports/a", token) == "granted"  # by the client that holds it
        ci.writer.write(b'["release", 8]\n')
        assert await claim(ci, 10, "reports/a", token + 1_000_000) == "lost"
        with pytest.raises(RefusedByNode, match="the session has ended"):
            await joined(node.address, MAIN, ci.session)  # the session of a client of other names
        for each in (ci, main):
            each.writer.close()

    run_with_rules(tmp_path, use)


def test_a_node_refuses_what_no_rule_allows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def use(node: Node) -> None:
        ci, main = await joined(node.address, CI), await joined(node.address, MAIN)
        local = LineClient(*await asyncio.open_unix_connection(str(tmp_path / "x.sock")))
        assert (await local.ask("hello", WIRE_VERSION, "local"))[0] == "welcome"
        assert await ci.lock("reports/a") == "granted"
        assert await ci.lock("reports/../payroll") == "granted"
        assert await ci.lock("payroll") == "forbidden"
        assert await ci.lock("reports/a", "payroll") == "forbidden"  # one of several
        assert await ci.lock("Reports/a") == "forbidden"
        assert await ci.lock("") == "forbidden"
        assert await ci.lock() == "bad_request"
        assert await main.lock("reports/a") == "forbidden"
        assert await local.lock("reports/a") == "forbidden"
        lead = ("locks", "reports", 1_000, None, 1)
        assert (await ci.ask("lead", 2, *lead))[0] == "granted"
        assert (await ci.ask("lead", 3, "locks", "x", 1_000, None, 1))[2] == "forbidden"
        assert (await ci.ask("semaphore", 4, "locks", "slots", None, 1_000, None, 1))[
            0
        ] == "granted"
        assert (await ci.ask("semaphore", 5, "locks", "others", None, 1_000, None, 1))[
            2
        ] == "forbidden"
        assert (await ci.ask("force", 6, "locks", "reports/a"))[2] == "forbidden"
        assert (await ci.ask("elect", 7, "locks-election", "all"))[2] == "forbidden"
        change = ("member", 70, "remove", 1, "", "")
        assert (await ci.ask(*change))[2] == "forbidden"
        assert (await local.ask(*change))[2] == "forbidden"  # `force` is another permission
        assert (await main.ask("watch", 8, "locks", "payroll"))[2] == "forbidden"
        assert (await main.ask("watch", 9, "locks", "reports/a"))[0] == "news"
        # a status has the locks that a client may watch
        assert (await ci.ask("request", 10, "locks", ["reports/b"], 1_000, None, 1))[0] == "granted"
        [names] = [{lock["name"] for lock in (await main.ask("status", 11))[2]["locks"]}]
        assert names == {"reports/b"}
        assert len((await local.ask("status", 12))[2]["locks"]) == 3
        assert (await local.ask("force", 13, "locks", "reports/b"))[0] == "done"
        # another client cannot continue a session
        other = LineClient(*await asyncio.open_unix_connection(str(tmp_path / "x.sock")))
        assert (await other.ask("hello", WIRE_VERSION, "local", ci.session))[:3] == [
            "refused",
            None,
            "unknown",
        ]
        for each in (ci, main, local, other):
            each.writer.close()

    with caplog.at_level("INFO", "habemus.live"):
        run_with_rules(tmp_path, use)
    audit = [each.getMessage() for each in caplog.records if "audit" in each.getMessage()]
    assert audit == [
        "audit: client local (@socket) forced the release of lock 'reports/b' of service locks:"
        " taken from x"
    ]
    everything = " ".join(each.getMessage() for each in caplog.records)
    assert re.search(r"refused client x \(@ci\) at 127\S+ may not lock 'payroll'", everything)
    assert MAIN.decode() not in everything and CI.decode() not in everything


def test_a_client_cannot_take_the_name_of_another_secret(tmp_path: Path) -> None:
    async def use(node: Node) -> None:
        with pytest.raises(RefusedByNode, match="does not know the cluster's secret"):
            await joined(node.address, b"ci:another-secret-of-16")
        client = LineClient(*await asyncio.open_connection(*node.address))
        nonce = "0" * 64
        challenge = await client.ask("hello", WIRE_VERSION, "x", None, nonce, "ci")
        assert challenge[0] == "challenge"
        forged = proof(MAIN, "client", "office", 1, (nonce, challenge[3]))  # of the other secret
        assert (await client.ask("proof", forged))[2] == "unauthenticated"
        client.writer.close()
        for claimed in ("socket", "secret", "*", ""):  # there is no such secret: it is that of all
            client = LineClient(*await asyncio.open_connection(*node.address))
            challenge = await client.ask("hello", WIRE_VERSION, "x", None, nonce, claimed)
            proved = proof(MAIN, "client", "office", 1, (nonce, challenge[3]))
            assert (await client.ask("proof", proved))[0] == "welcome"
            assert "@secret may not force" in (await client.ask("force", 1, "locks", "x"))[3]
            client.writer.close()

    run_with_rules(tmp_path, use)
