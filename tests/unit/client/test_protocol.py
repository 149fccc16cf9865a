"""The client's side of the protocol: no sockets, no threads, no clock."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from habemus.client.address import NodeAddress, told_nodes
from habemus.client.errors import ProtocolError, RefusedByNode
from habemus.client.protocol import (
    EXPIRED,
    FORGOTTEN,
    AcquireRequest,
    Greeting,
    LeadRequest,
    LeaseGranted,
    LeaseLost,
    LeaseRenewed,
    LeaseState,
    LeaseUnknown,
    LeaseWanted,
    LineBuffer,
    NodeLeaves,
    RequestRefused,
    SemaphoreRequest,
    SessionProtocol,
    can_move,
    decode,
    decode_grant,
    encode,
    learn_nodes,
)
from habemus.runtimes.live.clients.protocol import WIRE_VERSION, proof

SECRET = b"a secret of the cluster"
WELCOME = {"cluster": "office", "node": 1, "session": "s", "nodes": {}, "services": {}}


# Lines.


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.booleans(),
        lambda each: st.lists(each, max_size=4),
    )
)
def test_encoding_is_json(value: object) -> None:
    assert json.loads(encode(value)) == value
    assert " " not in encode(["a", 1, None])


@given(
    st.integers(0, 1 << 70),
    st.none() | st.integers(-5, 1 << 40),
    st.none() | st.integers(0, 1 << 40),
    st.integers(0, 1 << 60),
    st.text(),
)
def test_a_grant_read_without_json_is_what_json_reads(
    id: int, token: int | None, left_ms: int | None, at_us: int, name: str
) -> None:
    line = ["granted", id, token, left_ms, at_us, name]
    for ascii_only in (True, False):
        text = json.dumps(line, separators=(",", ":"), ensure_ascii=ascii_only)
        assert decode(text.encode(), "the node") == line
        expected = line if text.isascii() else None  # which goes through `decode`
        assert decode_grant(text.encode() + b"\n") == expected


@pytest.mark.parametrize(
    "line",
    [
        b'["granted",01,7,null,1,"x"]',
        b'["granted",1,7,null,+1,"x"]',
        b'["granted",1,7,null,1_0,"x"]',
        b'["granted",1,7,null,1,2,"y"]',
        b'["granted",1,7,null,1,x"]',
        b'["granted",1,7,null,1,"x\\"]',
        b'["granted", 1,7,null,1,"x"],',
    ],
)
def test_what_is_no_json_is_no_grant(line: bytes) -> None:
    with pytest.raises(ProtocolError, match="sends what no node would send"):
        decode(line, "the node")
    assert decode_grant(line + b"\n") is None


GRANT = b'["granted",1,7,null,1,"x"]\n'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"[]\n",
        b"1\n",
        b'"grants"\n',
        GRANT[:-1],
        GRANT[:-3],
        GRANT + b"[",
        GRANT + GRANT,
        b"\n" + GRANT,
        GRANT[:-1] + b" \n",
        GRANT.replace(b",1,", b",\n1,"),
        GRANT.replace(b"1", b"true"),
        GRANT.replace(b"7", b"7.0"),
        GRANT.replace(b"7", b'"7"'),
        GRANT.replace(b"null", b"[]"),
        GRANT.replace(b'"x"', b"null"),
        GRANT.replace(b'"x"', b'"x",1'),
        GRANT.replace(b"granted", b"refused"),
        GRANT.replace(b"x", "é".encode()),
        GRANT.replace(b"x", b"\xff"),
        b"[" * 100_000,
    ],
)
def test_bytes_that_are_not_one_grant(data: bytes) -> None:
    assert decode_grant(GRANT) == ["granted", 1, 7, None, 1, "x"]
    ticketed = GRANT.replace(b"]", b',"1-ticket"]')
    assert decode_grant(ticketed) == ["granted", 1, 7, None, 1, "x", "1-ticket"]
    assert decode_grant(data) is None


@pytest.mark.parametrize(
    "line",
    [
        ["granted", 1, 7, None, 1, "x", "1-ticket"],
        ["refused", None, "full", "no"],
        ["alive", 1, [[1, None]]],
        ["lost", 1, "why"],
    ],
)
def test_fields_that_a_later_version_has_added_are_ignored(line: list[Any]) -> None:
    for more in ([1], ["x", {"y": [None]}]):
        assert decode(json.dumps(line + more).encode(), "the node") == line


@given(st.lists(st.binary().map(lambda each: each.replace(b"\n", b""))), st.integers(1, 7))
def test_lines_do_not_depend_on_how_bytes_arrive(lines: list[bytes], size: int) -> None:
    buffer = LineBuffer("the node")
    data = b"".join(line + b"\n" for line in lines) + b"rest"
    found = []
    for start in range(0, len(data), size):
        buffer.feed(data[start : start + size])
        while (line := buffer.next_line()) is not None:
            found.append(line)
    assert found == lines


def test_a_line_that_does_not_end_is_refused() -> None:
    buffer = LineBuffer("node 1", limit=10)
    buffer.feed(b"0123456789")
    assert buffer.next_line() is None
    buffer.feed(b"0")
    with pytest.raises(ProtocolError, match="node 1 sends a line of more than 10 bytes"):
        buffer.next_line()


# The handshake.


def challenge(greeting: Greeting, secret: bytes = SECRET) -> list[Any]:
    nonce = json.loads(greeting.hello)[4]
    return ["challenge", "office", 1, "n", proof(secret, "node", "office", 1, (nonce, "n"))]


def test_without_a_secret_the_node_says_welcome_at_once() -> None:
    greeting = Greeting("node 1", "alice")
    assert json.loads(greeting.hello) == ["hello", WIRE_VERSION, "alice", None, None, None]
    assert greeting.answer(["welcome", WELCOME]) is None
    assert greeting.welcome == WELCOME


def test_both_prove_that_they_know_the_secret() -> None:
    greeting = Greeting("node 1", "alice", "session", SECRET)
    nonces = (json.loads(greeting.hello)[4], "n")
    answer = greeting.answer(challenge(greeting))
    assert answer is not None
    assert json.loads(answer) == ["proof", proof(SECRET, "client", "office", 1, nonces)]
    assert greeting.answer(["welcome", WELCOME]) is None
    assert greeting.welcome == WELCOME


LINES = st.one_of(
    st.just(["welcome", WELCOME]),
    st.just(["challenge", "office", 1, "n", "0" * 64]),
    st.just(["refused", None, "unauthenticated", "wrong cluster secret"]),
    st.just(["granted", 1, 7, None, 0, "x"]),
    st.just(["alive", 0, []]),
    st.just("challenge"),
)


@given(st.lists(LINES, max_size=4))
def test_no_sequence_of_lines_is_a_welcome_without_a_proof(lines: list[Any]) -> None:
    """Whatever a node sends, it is admitted only after its proof, which it gives once."""
    greeting = Greeting("node 1", "alice", None, SECRET)
    proofs = 0
    try:
        for line in lines:
            proofs += line == "challenge"
            if greeting.answer(challenge(greeting) if line == "challenge" else line) is None:
                break
    except RefusedByNode:
        assert greeting.welcome is None
    assert greeting.welcome is None or (proofs == 1 and lines[0] == "challenge")


# Requests and leases.


OFFERED = {"locks": 2_000}


def requested(protocol: SessionProtocol, lease: float | None = None, now_us: int = 0) -> int:
    id, _ = protocol.request(AcquireRequest("locks", "x", lease), None, now_us)
    return id


def granted(protocol: SessionProtocol, at_us: int = 0, left_ms: int | None = 2_000) -> LeaseState:
    id = requested(protocol, now_us=at_us)
    [event] = protocol.receive(["granted", id, 7, left_ms, at_us, "x"], at_us)
    assert isinstance(event, LeaseGranted)
    return event.lease


def test_a_request_as_the_node_reads_it() -> None:
    protocol = SessionProtocol(3, OFFERED)
    request = AcquireRequest("locks", 'b"', 1.5, keep=True)
    id, line = protocol.request(request, 250, 99)
    assert json.loads(line) == ["request", id, "locks", ['b"'], 250, 1_500, 99, True]
    id, line = protocol.request(AcquireRequest("mutexes", "a"), None, 99)
    assert json.loads(line) == ["request", id, "mutexes", ["a"], None, None, 99]
    id, line = protocol.request(LeadRequest("locks", "a"), None, 99)
    assert json.loads(line) == ["lead", id, "locks", "a", None, 2_000, 99]
    id, line = protocol.request(SemaphoreRequest("locks", "a", 3, 1.5), None, 99)
    assert json.loads(line) == ["semaphore", id, "locks", "a", 3, None, 1_500, 99]
    id, line = protocol.request(SemaphoreRequest("mutexes", "a"), 250, 99)
    assert json.loads(line) == ["semaphore", id, "mutexes", "a", None, 250, None, 99]


def test_a_request_that_is_sent_again() -> None:
    """To the same node, with another timeout, and to a node that offers another lease."""
    request = AcquireRequest("locks", "50%")
    here, there = SessionProtocol(3, OFFERED), SessionProtocol(3, {"locks": 300})
    sent = [
        json.loads(protocol.request(request, timeout_ms, now_us)[1])
        for protocol, timeout_ms, now_us in [
            (here, None, 7),
            (here, None, 8),
            (here, 250, 9),
            (there, 250, 10),
            (here, None, 11),
        ]
    ]
    assert sent == [
        ["request", 1, "locks", ["50%"], None, 2_000, 7],
        ["request", 2, "locks", ["50%"], None, 2_000, 8],
        ["request", 3, "locks", ["50%"], 250, 2_000, 9],
        ["request", 1, "locks", ["50%"], 250, 300, 10],
        ["request", 4, "locks", ["50%"], None, 2_000, 11],
    ]
    assert (here.beat_us, there.beat_us) == (2_000_000 // 3, 100_000)


def test_the_shortest_lease_sets_the_pace_of_heartbeats() -> None:
    protocol = SessionProtocol(3, OFFERED)
    assert protocol.beat_us == 1_000_000
    requested(protocol, lease=0.3)
    requested(protocol)
    assert protocol.beat_us == 100_000


def test_a_lease_longer_than_the_clusters_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a lease of 3 s is longer .* locks \(2 s\)"):
        requested(SessionProtocol(3, OFFERED), lease=3)


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a name of 20,012 bytes is too long"):
        SessionProtocol(3, OFFERED).request(AcquireRequest("locks", "x" * 20_000), None, 0)


def test_a_lease_is_counted_from_when_the_client_sent_the_line() -> None:
    protocol = SessionProtocol(3, OFFERED)
    id = requested(protocol, now_us=1_000)
    protocol.receive(["granted", id, 7, 2, 1_000, "x"], now_us=2_500)
    assert protocol.next_expiry_us() == 3_000
    assert protocol.expired(2_999) == []
    assert protocol.expired(3_000) == [LeaseLost(id, EXPIRED)]


def test_a_heartbeat_renews_what_the_node_still_knows() -> None:
    protocol = SessionProtocol(3, OFFERED)
    kept, lost = granted(protocol, 0), granted(protocol, 0)
    events = protocol.receive(["alive", 5_000, [[kept.id, 2_000]]], 6_000)
    assert events == [LeaseRenewed(kept.id), LeaseLost(lost.id, FORGOTTEN)]
    assert kept.until_us == 2_005_000


def test_a_lock_that_the_client_neither_holds_nor_waits_for_is_unknown() -> None:
    protocol = SessionProtocol(3, OFFERED)
    waiting, given_up = requested(protocol), requested(protocol)
    protocol.forget(given_up)
    listed = [[waiting, 2_000], [given_up, 2_000]]
    assert protocol.receive(["alive", 5_000, listed], 6_000) == [LeaseUnknown(given_up)]


def test_an_answer_that_was_sent_before_the_grant_takes_nothing_back() -> None:
    protocol = SessionProtocol(3, OFFERED)
    granted(protocol, at_us=5_000)
    assert protocol.receive(["alive", 5_000, []], 6_000) == []


def test_a_late_answer_does_not_shorten_a_lease() -> None:
    protocol = SessionProtocol(3, OFFERED)
    lease = granted(protocol, at_us=5_000)
    protocol.receive(["alive", 1_000, [[lease.id, 2_000]]], 6_000)
    assert lease.until_us == 2_005_000
    assert lease.renewed_us == 5_000


def test_lost_wanted_and_refused() -> None:
    protocol = SessionProtocol(3, OFFERED)
    lease, waiting = granted(protocol), requested(protocol)
    assert protocol.receive(["wanted", lease.id], 1) == [LeaseWanted(lease.id)]
    assert protocol.receive(["lost", lease.id, "by force"], 1) == [LeaseLost(lease.id, "by force")]
    refused = ["refused", waiting, "timeout", "timed out"]
    assert protocol.receive(refused, 1) == [RequestRefused(waiting, "timeout", "timed out")]
    assert protocol.receive(refused, 1) == []


def test_what_was_released_is_forgotten() -> None:
    protocol = SessionProtocol(3, OFFERED)
    lease, withdrawn = granted(protocol), requested(protocol)
    protocol.forget(lease.id)
    protocol.forget(withdrawn)
    assert protocol.receive(["lost", lease.id, "by force"], 1) == []
    assert protocol.receive(["wanted", lease.id], 1) == []
    assert protocol.receive(["granted", withdrawn, 8, None, 0, "x"], 1) == []
    assert protocol.next_expiry_us() is None


def test_the_line_that_ends_a_lease() -> None:
    protocol = SessionProtocol(3, OFFERED)
    first, second, elsewhere = (
        granted(protocol),
        granted(protocol),
        granted(SessionProtocol(3, OFFERED)),
    )
    assert elsewhere.id == first.id
    assert protocol.end(elsewhere) is None, "it has the id of another lease"
    assert json.loads(protocol.end(first) or "") == ["release", first.id]
    assert json.loads(protocol.end(second, 'b"') or "") == ["transfer", second.id, 'b"']
    assert protocol.end(first) is None
    assert not protocol.leases


@pytest.mark.parametrize("id", [0, -1, 2, 1 << 70])
def test_a_node_cannot_grant_what_was_not_requested(id: int) -> None:
    protocol = SessionProtocol(3, OFFERED)
    requested(protocol)
    with pytest.raises(ProtocolError, match="which was never sent"):
        protocol.receive(["granted", id, 7, None, 0, "x"], 1)


def test_a_node_cannot_count_a_lease_from_the_future() -> None:
    """Such a lease would be over for the node before it is over for the client."""
    protocol = SessionProtocol(3, OFFERED)
    lease, id = granted(protocol), requested(protocol)
    with pytest.raises(ProtocolError, match="which is not over yet"):
        protocol.receive(["granted", id, 8, 2_000, 11, "x"], 10)
    with pytest.raises(ProtocolError, match="which is not over yet"):
        protocol.receive(["alive", 11, [[lease.id, 2_000]]], 10)
    assert lease.until_us == 2_000_000


class AnyNode(RuleBasedStateMachine):
    """A client that follows its rules, and a node that sends any lines in any order.

    The protocol raises nothing but `ProtocolError`, reports every request once, and never counts a
    lease longer than the node has promised.
    """

    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.protocol = SessionProtocol(3, OFFERED)
        self.now_us = 0
        self.open: set[int] = set()  # requests without an answer
        self.promised: dict[int, int] = {}  # the latest promise for each lease
        self.leases: dict[int, LeaseState] = {}

    @rule(by=st.integers(0, 5_000_000))
    def pass_time(self, by: int) -> None:
        self.now_us += by

    @rule(target=requests, lease=st.sampled_from([None, 0.1, 1]))
    def request(self, lease: float | None) -> int:
        id = requested(self.protocol, lease, self.now_us)
        assert id not in self.open | self.leases.keys()
        self.open.add(id)
        return id

    @rule(id=consumes(requests))
    def forget(self, id: int) -> None:
        self.protocol.forget(id)
        self.open.discard(id)
        self.leases.pop(id, None)

    @rule(
        id=requests | st.integers(-2, 30),
        left_ms=st.none() | st.integers(0, 3_000),
        ago=st.integers(-10, 5_000_000),
    )
    def grant(self, id: int, left_ms: int | None, ago: int) -> None:
        at_us = self.now_us - ago
        events = self.receive(["granted", id, 7, left_ms, at_us, "x"])
        assert len(events) == (ago >= 0 and id in self.open)
        for event in events:
            self.open.remove(id)
            self.leases[id] = event.lease
            self.promise(id, at_us, left_ms)

    @rule(id=requests | st.none() | st.integers(-2, 30))
    def refuse(self, id: int | None) -> None:
        events = self.receive(["refused", id, "timeout", "timed out"])
        assert len(events) == (id in self.open)
        self.open.discard(id or 0)

    @rule(
        word=st.sampled_from(["lost", "wanted"]),
        id=requests | st.integers(-2, 30),
    )
    def lose(self, word: str, id: int) -> None:
        events = self.receive([word, id, "by force"][: 3 if word == "lost" else 2])
        assert [event.id for event in events] == [id] * (id in self.leases)

    @rule(
        known=st.lists(requests | st.integers(-2, 30), max_size=3),
        left_ms=st.none() | st.integers(0, 3_000),
        ago=st.integers(-10, 5_000_000),
    )
    def answer_heartbeat(self, known: list[int], left_ms: int | None, ago: int) -> None:
        at_us = self.now_us - ago
        for event in self.receive(["alive", at_us, [[id, left_ms] for id in known]]):
            is_unknown = event.id not in self.open and event.id not in self.leases
            assert isinstance(event, LeaseUnknown) == is_unknown
            assert isinstance(event, LeaseRenewed | LeaseUnknown) == (event.id in known)
            if isinstance(event, LeaseRenewed):
                self.promise(event.id, at_us, left_ms)

    @rule(line=st.sampled_from([["welcome", WELCOME], ["news", 1, {}], ["later", 1]]))
    def send_what_means_nothing_here(self, line: list[Any]) -> None:
        assert self.receive(line) == []

    def receive(self, line: list[Any]) -> list[Any]:
        try:
            return list(self.protocol.receive(line, self.now_us))
        except ProtocolError:
            assert line[0] in ("granted", "alive")
            return []

    def promise(self, id: int, at_us: int, left_ms: int | None) -> None:
        until_us = 1 << 80 if left_ms is None else at_us + left_ms * 1_000
        self.promised[id] = max(self.promised.get(id, 0), until_us)

    @invariant()
    def no_lease_is_longer_than_promised(self) -> None:
        for id, lease in self.leases.items():
            until_us = 1 << 80 if lease.until_us is None else lease.until_us
            assert until_us <= self.promised[id]
        over = {event.id for event in self.protocol.expired(self.now_us)}
        assert over == {id for id, lease in self.leases.items() if lease.has_expired(self.now_us)}


TestAnyNode = AnyNode.TestCase
TestAnyNode.settings = settings(max_examples=60, stateful_step_count=30)


def test_a_lease_is_claimed_by_the_token_of_its_loan_and_with_its_own_lease() -> None:
    here, there = SessionProtocol(3, OFFERED), SessionProtocol(3, OFFERED)
    id, _ = here.request(AcquireRequest("locks", "x", 1.5), None, 0)
    lease = here.receive_grant(["granted", id, 7, 1_500, 0, "x", "1-secret"], 10)
    assert lease is not None
    begun = there.claim(lease, 5, here.own_lease_ms(id, 2_000), 20, keep=True)
    assert begun is not None
    claimed, line = begun
    expected = ["claim", claimed, "locks", "x", 7, 5, 1_500, 20, True, "1-secret"]
    assert json.loads(line) == expected
    moved = there.receive_grant(["granted", claimed, 9, 1_500, 20, "x"], 30)
    assert moved is not None
    assert (moved.token, moved.until_us) == (9, 1_500_020)


def test_a_node_that_leaves_says_so() -> None:
    line = decode(b'["leave",0,"node 1 is shutting down"]', "node 1")
    assert SessionProtocol(3, OFFERED).receive(line, 0) == [NodeLeaves("node 1 is shutting down")]


@pytest.mark.parametrize(
    ("nodes", "moves"),
    [({"1": ""}, False), ({"1": "", "2": ""}, True), ({"2": ""}, True), ({}, False)],
    ids=["alone", "with another", "removed", "unknown"],
)
def test_a_lock_can_leave_a_node_if_there_is_another_one(
    nodes: dict[str, str], moves: bool
) -> None:
    services = {"locks": {"moves": True}, "slow": {"moves": False}}
    welcome = {"node": 1, "nodes": nodes, "services": services}
    assert can_move(welcome, "locks") is moves
    assert not can_move(welcome, "slow")


def test_nodes_are_learnt_from_the_newest_configuration_only() -> None:
    welcome: dict[str, Any] = {"nodes": {"1": "10.0.0.1:7400"}}
    learn_nodes(welcome, 4, {"2": "10.0.0.2:7400", "3": "nonsense", "4": 5})
    assert told_nodes(welcome) == (NodeAddress("", "10.0.0.2", 7400),)
    learn_nodes(welcome, 3, {"1": "10.0.0.1:7400"})
    assert welcome["configuration"] == 4
