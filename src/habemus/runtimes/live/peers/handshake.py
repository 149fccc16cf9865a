"""Who is at the other end: the handshake of two nodes, without any input or output.

A connection carries messages one way, from the node that dialled.  Before the first of them:

    dialler    Hello      the cluster, who I am, whom I want, what I take the services for, a fresh nonce
    answerer   Challenge  a fresh nonce, and the proof that I know the secret
    dialler    Proof      that I know it too
    answerer   Welcome    from now on your messages are taken

A proof is an HMAC by the cluster's secret over everything said so far and the side that says it.
Both nonces are in it, so what was recorded from one connection is worthless on the next; the side
is in it, so a proof cannot be sent back to whoever made it; both ids are in it, so it is good for
no other pair of nodes.  From then on the connection speaks for that one node, and a message in
another node's name is refused.

Where there are certificates, the name in the certificate must be that of the node as well.  Without
a secret, ids are only claimed: good enough on the loopback device of a machine whose users trust
each other.

Each end shows the identity of its stable memory, and the answerer also by which one it knows the
dialler (see `membership`).  A proof covers these too.  Each end stores what it has seen of the
other before it sends its proof, or its welcome.

The fingerprint stands for the services and all their message types: two nodes that would misread
each other do not begin to talk.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from habemus.runtimes.live.peers.codec import VERSION, Refused
from habemus.runtimes.live.peers.frames import Challenge, Greeting, Hello, Proof, Rejection, Welcome

NONCE_SIZE = 32
SECRET_AT_LEAST = 16
"""Bytes: a shorter secret can be guessed from one recorded handshake."""


class Members(Protocol):
    """What a node knows of the stable memories of the others; without memory: nothing."""

    @property
    def identity(self) -> bytes: ...

    @property
    def replaces(self) -> bool: ...

    def known(self, peer: int) -> bytes: ...

    def objection(self, peer: int, identity: bytes, replaces: bool) -> str: ...

    def meet(self, peer: int, identity: bytes) -> None: ...

    def accepted_by(self, peer: int) -> None: ...

    def disowned_by(self, peer: int, known: bytes) -> None: ...


class Identity(NamedTuple):
    """What a node says of itself, and whom it talks to."""

    cluster: str
    node: int
    peers: frozenset[int]
    fingerprint: bytes
    secret: bytes | None
    members: Members

    def proof(self, side: str, hello: Hello, challenge: Challenge) -> bytes:
        """Of everything that both have said; the challenge without its own proof."""
        if self.secret is None:
            return b""
        said = msgspec.msgpack.encode((side, hello, msgspec.structs.replace(challenge, proof=b"")))
        return hmac.digest(self.secret, said, hashlib.sha256)


def node_name(cluster: str, node: int) -> str:
    """The name that the certificate of a node must have."""
    return f"node-{node}.{cluster}"


def client_name(cluster: str, client: str) -> str:
    """The name in the certificate of a client."""
    return f"client-{client}.{cluster}"


class DiallerHandshake:
    """The side that connects."""

    def __init__(self, identity: Identity, peer: int) -> None:
        self._identity = identity
        self._peer = peer
        members = identity.members
        self._hello = Hello(
            *(VERSION, identity.cluster, identity.node, peer, identity.fingerprint),
            *(os.urandom(NONCE_SIZE), members.identity, members.replaces),
        )
        self._awaited: type[Greeting] | None = Challenge  # None: it is over, one way or the other
        self._disowning = (  # the other memory by which the answerer, as it has proved, knows this node
            b""
        )
        self.is_welcome = False

    def hello(self) -> Hello:
        return self._hello

    def answer(self, greeting: Greeting) -> Proof | Refused | None:
        """What to say next; nothing once welcome."""
        me = self._identity
        deferred_requests, self._awaited = self._awaited, None
        if isinstance(greeting, Rejection):
            if self._disowning:
                me.members.disowned_by(self._peer, self._disowning)
            return Refused(f"node {self._peer} refuses: {greeting.reason[:200]}")
        if isinstance(greeting, Challenge) and deferred_requests is Challenge:
            if not hmac.compare_digest(greeting.proof, me.proof("answers", self._hello, greeting)):
                return Refused(f"node {self._peer} does not know the cluster's secret")
            wrong = me.members.objection(self._peer, greeting.memory, greeting.replaces)
            if wrong:
                return Refused(wrong)
            me.members.meet(self._peer, greeting.memory)
            if greeting.knows not in (b"", self._hello.memory) and not self._hello.replaces:
                self._disowning = greeting.knows
            self._awaited = Welcome
            return Proof(me.proof("dials", self._hello, greeting))
        if isinstance(greeting, Welcome) and deferred_requests is Welcome:
            self.is_welcome = True
            me.members.accepted_by(self._peer)
            return None
        return Refused(f"{type(greeting).__name__} out of turn")


class AnswererHandshake:
    """The side that is connected to.  `is_named` says whether the certificate at the other end has
    a given name.
    """

    def __init__(
        self, identity: Identity, is_named: Callable[[str], bool] = lambda _: True
    ) -> None:
        self._identity = identity
        self._is_named = is_named
        self._awaited: type[Greeting] | None = Hello
        self._hello: Hello
        self._challenge: Challenge
        self.peer: int | None = None  # who it is, once that is shown

    def answer(self, greeting: Greeting) -> Challenge | Welcome | Refused:
        me = self._identity
        deferred_requests, self._awaited = self._awaited, None
        if isinstance(greeting, Hello) and deferred_requests is Hello:
            wrong = self._mistake_in(greeting)
            if wrong:
                return Refused(wrong)
            self._awaited = Proof
            self._hello = greeting
            members = me.members
            challenge = Challenge(
                os.urandom(NONCE_SIZE),
                b"",
                members.identity,
                members.replaces,
                members.known(greeting.node),
            )
            self._challenge = msgspec.structs.replace(
                challenge, proof=me.proof("answers", greeting, challenge)
            )
            return self._challenge
        if isinstance(greeting, Proof) and deferred_requests is Proof:
            hello = self._hello
            if not hmac.compare_digest(greeting.proof, me.proof("dials", hello, self._challenge)):
                return Refused("the secret is another one")
            wrong = me.members.objection(hello.node, hello.memory, hello.replaces)
            if wrong:
                return Refused(wrong)
            me.members.meet(hello.node, hello.memory)
            self.peer = hello.node
            return Welcome()
        return Refused(f"{type(greeting).__name__} out of turn")

    def _mistake_in(self, hello: Hello) -> str:
        me = self._identity
        if hello.protocol != VERSION:
            return f"protocol {hello.protocol}; this node speaks {VERSION}"
        if hello.cluster != me.cluster:
            return f"this is the cluster {me.cluster}"
        if hello.to != me.node:
            return f"this is node {me.node}, not {hello.to}"
        if hello.node not in me.peers:
            return f"there is no peer {hello.node}"
        if hello.fingerprint != me.fingerprint:
            return "the services are configured differently"
        if len(hello.nonce) != NONCE_SIZE:
            return f"a nonce has {NONCE_SIZE} bytes"
        if not self._is_named(node_name(me.cluster, hello.node)):
            return f"the certificate is not that of {node_name(me.cluster, hello.node)}"
        return ""
