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

Where members change, a node may have been removed while it was down.  The challenge, which is
proved, names the configuration in which the dialler is not any more, and the dialler is refused.

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

    def configuration_without(self, node: int) -> int:
        """Return the version of the configuration, if the node is not in it any more; else 0."""
        ...

    def hear_exclusion(self, peer: int, version: int) -> None:
        """Take in that this node is not in a configuration that a peer has stored."""
        ...


class FixedMembers:
    """Members that never change."""

    def configuration_without(self, node: int) -> int:
        return 0

    def hear_exclusion(self, peer: int, version: int) -> None:
        pass


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
                *(hello.nonce, hello.memory, hello.replaces),
                *(challenge.nonce, challenge.memory, challenge.replaces),
                *(challenge.knows, challenge.excluded_by),
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
            if greeting.excluded_by:
                me.configuration.hear_exclusion(self._peer, greeting.excluded_by)
                return Refused(f"node {self._peer} has removed node {me.node}")
            wrong = me.members.objection(self._peer, greeting.memory, greeting.replaces)
            if wrong:
                return Refused(wrong)
            me.members.meet(self._peer, greeting.memory)
            if greeting.knows not in (b"", self._hello.memory) and not self._hello.replaces:
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
            is_peer = greeting.node in me.peers
            challenge = Challenge(
                os.urandom(NONCE_SIZE),
                b"",
                members.identity,
                members.replaces,
                members.known(greeting.node),
                0 if is_peer else me.configuration.configuration_without(greeting.node),
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
            if wrong:
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
        if not me.configuration.configuration_without(hello.node):
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
