"""The handshake of two nodes, without I/O: each end proves which node it is.

A connection carries messages one way, from the node that dialled.  Before the first message:

    dialler    Hello      wire version, cluster, own id, id of the peer, fingerprint, nonce
    answerer   Challenge  nonce, and the proof that it knows the secret
    dialler    Proof      the same proof from the dialler
    answerer   Welcome    accepts messages from now on

A proof is an HMAC with the cluster's secret over all earlier frames and the side that sends it.
It contains both nonces, so a recorded proof is useless on another connection; the side, so it
cannot be reflected; and both ids, so it is valid for this pair of nodes only.  From then on the
connection belongs to that one node, and a message in another node's name is refused.

With TLS, the certificate must name the node as well.  Without a secret, ids are not verified, which
is acceptable on the loopback device of a machine whose users trust each other.

Each end shows the identity of its stable memory, and the answerer also the identity by which it
knows the dialler (see `membership`).  The proofs cover these too.  Each end stores the identity of
the other before it sends its proof or its welcome.

Where members change, one of the two may have missed changes while it was down.  Each shows the term
and version of its configuration, and the newer one decides:

- a node that is not in a newer configuration was removed, and leaves;
- a node that is known by another memory in one that is not older has been replaced, and stops;
- a node with a newer configuration than the answerer's is accepted also if the answerer does not
  know it, or knows it by another memory: the answerer has missed that it was added.

What a node with an older configuration objects to has no effect on the other one.

The fingerprint is that of the configuration, on which all nodes have to agree.  Message types are
not part of it: the wire version stands for them.  The answerer refuses another wire version, and
its rejection says so in the log of the dialler.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Set
from importlib.metadata import version
from typing import NamedTuple, Protocol

import msgspec

from habemus.runtimes.live.clients.protocol import WIRE_VERSION
from habemus.runtimes.live.peers.codec import Refused
from habemus.runtimes.live.peers.frames import Challenge, Greeting, Hello, Proof, Rejection, Welcome

NONCE_SIZE = 32
SECRET_AT_LEAST = 16
"""Bytes; a shorter secret can be guessed from one recorded handshake."""


class KnownMemories(Protocol):
    """The stable memories of the other nodes, as far as this node knows them."""

    @property
    def identity(self) -> bytes: ...

    @property
    def replaces(self) -> bool: ...

    def known(self, peer: int) -> bytes: ...

    def objection(self, peer: int, identity: bytes, replaces: bool) -> str: ...

    def meet(self, peer: int, identity: bytes) -> None: ...

    def accepted_by(self, peer: int) -> None: ...

    def disowned_by(self, peer: int, known: bytes) -> None: ...


class KnownMembers(Protocol):
    """The members of the cluster, as far as this node knows them."""

    def age(self) -> tuple[int, int]:
        """Return term and version of the configuration: the newer one is larger."""
        ...

    def address(self) -> str:
        """Return the address of this node in the configuration."""
        ...

    def excludes(self, node: int) -> bool:
        """Return whether the configuration does not have the node."""
        ...

    def hear_exclusion(self, peer: int, age: tuple[int, int]) -> None:
        """Take in that this node is not in a configuration that a peer has stored."""
        ...

    def has_learned(self, peer: int, age: tuple[int, int], memory: bytes, address: str) -> bool:
        """Know a peer by what it shows, if its configuration is newer.  Return whether it is."""
        ...


class FixedMembers:
    """Members that never change."""

    def age(self) -> tuple[int, int]:
        return 0, 0

    def address(self) -> str:
        return ""

    def excludes(self, node: int) -> bool:
        return False

    def hear_exclusion(self, peer: int, age: tuple[int, int]) -> None:
        pass

    def has_learned(self, peer: int, age: tuple[int, int], memory: bytes, address: str) -> bool:
        return False


class Identity(NamedTuple):
    """Name, secret and services of a node, and the peers that it accepts."""

    cluster: str
    node: int
    peers: Set[int]  # may change
    fingerprint: bytes
    secret: bytes | None
    members: KnownMemories
    configuration: KnownMembers = FixedMembers()

    def proof(self, side: str, hello: Hello, challenge: Challenge) -> bytes:
        """Return the HMAC over hello and challenge, the latter without its own proof.

        It covers the fields of the wire version.  One that was added since is not covered: the
        other node may not know it.
        """
        if self.secret is None:
            return b""
        content = msgspec.msgpack.encode(
            (
                *(side, hello.wire, hello.cluster, hello.node, hello.to, hello.fingerprint),
                *(hello.nonce, hello.memory, hello.replaces, hello.configuration, hello.address),
                *(challenge.nonce, challenge.memory, challenge.replaces),
                *(challenge.knows, challenge.configuration, challenge.excludes),
            )
        )
        return hmac.digest(self.secret, content, hashlib.sha256)


def node_name(cluster: str, node: int) -> str:
    """Return the name in the certificate of a node."""
    return f"node-{node}.{cluster}"


def client_name(cluster: str, client: str) -> str:
    """Return the name in the certificate of a client."""
    return f"client-{client}.{cluster}"


def wire_refusal(sender: str, theirs: int, me: str) -> str:
    """Return why a sender of another wire version is refused, and what to do."""
    older, newer = (me, sender) if theirs > WIRE_VERSION else (sender, me)
    return (
        f"{sender} speaks wire version {theirs}, and {me} (habemus {version('habemus')}) speaks"
        f" {WIRE_VERSION}: upgrade {older} to the release of {newer}"
    )


class DiallerHandshake:
    """The side that dials."""

    def __init__(self, identity: Identity, peer: int) -> None:
        self._identity = identity
        self._peer = peer
        members = identity.members
        self._hello = Hello(
            *(WIRE_VERSION, identity.cluster, identity.node, peer),
            identity.fingerprint,
            *(os.urandom(NONCE_SIZE), members.identity, members.replaces),
            *(identity.configuration.age(), identity.configuration.address()),
        )
        self._expected: type[Greeting] | None = Challenge  # None: complete or failed
        self._disowning = b""  # another memory by which the answerer has proved to know this node
        self.is_welcome = False

    def hello(self) -> Hello:
        return self._hello

    def answer(self, greeting: Greeting) -> Proof | Refused | None:
        """Return the next frame to send; None once welcome."""
        me = self._identity
        expected, self._expected = self._expected, None
        if isinstance(greeting, Rejection):
            if self._disowning:
                me.members.disowned_by(self._peer, self._disowning)
            return Refused(f"refused by node {self._peer}: {greeting.reason[:200]}")
        if isinstance(greeting, Challenge) and expected is Challenge:
            if not hmac.compare_digest(greeting.proof, me.proof("answers", self._hello, greeting)):
                return Refused(f"wrong cluster secret at node {self._peer}")
            if greeting.excludes:
                me.configuration.hear_exclusion(self._peer, greeting.configuration)
                return Refused(f"node {self._peer} has removed node {me.node}")
            wrong = me.members.objection(self._peer, greeting.memory, greeting.replaces)
            if wrong and greeting.configuration > me.configuration.age():
                wrong = f"node {self._peer} was replaced; waiting until it connects"
            if wrong:
                return Refused(wrong)
            me.members.meet(self._peer, greeting.memory)
            is_other = greeting.knows not in (b"", self._hello.memory)
            is_outdated = greeting.configuration < self._hello.configuration
            if is_other and not (self._hello.replaces or is_outdated):
                self._disowning = greeting.knows
            self._expected = Welcome
            return Proof(me.proof("dials", self._hello, greeting))
        if isinstance(greeting, Welcome) and expected is Welcome:
            self.is_welcome = True
            me.members.accepted_by(self._peer)
            return None
        return Refused(f"unexpected {type(greeting).__name__} in the handshake")


class AnswererHandshake:
    """The side that accepts.  `is_named` tests whether the peer's certificate has a name."""

    def __init__(
        self, identity: Identity, is_named: Callable[[str], bool] = lambda _: True
    ) -> None:
        self._identity = identity
        self._is_named = is_named
        self._expected: type[Greeting] | None = Hello
        self._hello: Hello
        self._challenge: Challenge
        self.peer: int | None = None  # once it is authenticated

    def answer(self, greeting: Greeting) -> Challenge | Welcome | Refused:
        me = self._identity
        expected, self._expected = self._expected, None
        if isinstance(greeting, Hello) and expected is Hello:
            wrong = self._mistake_in(greeting)
            if wrong:
                return Refused(wrong)
            self._expected = Proof
            self._hello = greeting
            members = me.members
            challenge = Challenge(
                os.urandom(NONCE_SIZE),
                b"",
                members.identity,
                members.replaces,
                members.known(greeting.node),
                me.configuration.age(),
                greeting.node not in me.peers and me.configuration.excludes(greeting.node),
            )
            self._challenge = msgspec.structs.replace(
                challenge, proof=me.proof("answers", greeting, challenge)
            )
            return self._challenge
        if isinstance(greeting, Proof) and expected is Proof:
            hello = self._hello
            if not hmac.compare_digest(greeting.proof, me.proof("dials", hello, self._challenge)):
                return Refused("wrong cluster secret")
            wrong = self._not_a_peer(hello) or me.members.objection(
                hello.node, hello.memory, hello.replaces
            )
            if wrong and not me.configuration.has_learned(
                hello.node, hello.configuration, hello.memory, hello.address
            ):
                return Refused(wrong)
            me.members.meet(hello.node, hello.memory)
            self.peer = hello.node
            return Welcome()
        return Refused(f"unexpected {type(greeting).__name__} in the handshake")

    def _mistake_in(self, hello: Hello) -> str:
        me = self._identity
        if hello.wire != WIRE_VERSION:
            return wire_refusal(f"node {hello.node}", hello.wire, f"node {me.node}")
        if hello.cluster != me.cluster:
            return f"wrong cluster: node {me.node} is in {me.cluster!r}, not {hello.cluster!r}"
        if hello.to != me.node:
            return f"wrong address: this is node {me.node}, not node {hello.to}"
        is_newer = hello.configuration > me.configuration.age()
        if not (is_newer or me.configuration.excludes(hello.node)):
            wrong = self._not_a_peer(hello)
            if wrong:
                return wrong
        if hello.fingerprint != me.fingerprint:
            return "different services, semaphores or rules; use the same cluster.toml on all nodes"
        if len(hello.nonce) != NONCE_SIZE:
            return f"nonce of {len(hello.nonce)} bytes; it must have {NONCE_SIZE}"
        if not self._is_named(node_name(me.cluster, hello.node)):
            return f"certificate does not name {node_name(me.cluster, hello.node)}"
        return ""

    def _not_a_peer(self, hello: Hello) -> str:
        me = self._identity
        is_peer = hello.node in me.peers
        return "" if is_peer else f"node {hello.node} is not a peer of node {me.node}"
