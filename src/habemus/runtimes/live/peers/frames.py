"""The frames that nodes send to each other.

A field with a default may be added at the end of a frame; a node that does not know it ignores it.
All other changes need a new wire version.  `Hello` begins with it, and `Rejection` answers another
one, so these two can be decoded by nodes of all wire versions: they only grow at their end.

Not compiled: mypyc drops the keyword arguments of a class statement, and with them the tags.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class MessageFrame(msgspec.Struct, array_like=True, tag=1, gc=False, frozen=True):
    """A message between two processes of an instance."""

    service: int
    instance: str
    to: int
    sender: int
    port: int
    kind: str  # name of the message type
    fields: list[Any]
    number: int = 0  # of the message in the sender's record; 0 where nothing is recorded


class IdleMessageFrame(msgspec.Struct, array_like=True, tag=8, frozen=True):
    """A message between the processes that stand for the idle instances of a service at two nodes.

    It does not speak for the instances in `besides`, which are in use at the sender.
    """

    service: int
    instance: str  # empty
    to: int
    sender: int
    port: int
    kind: str
    fields: list[Any]
    besides: list[str]


class OpenFrame(msgspec.Struct, array_like=True, tag=2, frozen=True):
    """Announces an instance, which the receiver starts too."""

    service: int
    instance: str


class WatchFrame(msgspec.Struct, array_like=True, tag=3, frozen=True):
    """Subscribes the sender to the status of a lock; expires unless it is repeated."""

    service: int
    instance: str
    once: bool = False  # asks only whether a client holds the lock now


class LockStatusFrame(msgspec.Struct, array_like=True, tag=4, frozen=True):
    """Holder and waiters of a lock at the sender, for watchers.  No algorithm depends on it."""

    service: int
    instance: str
    holder: str | None
    token: int | None
    waiting: int
    once: bool = False  # answers such a `WatchFrame`: a client holds the lock


class TransferFrame(msgspec.Struct, array_like=True, tag=5, frozen=True):
    """Reserves a lock for the client to which its holder transferred it."""

    service: int
    instance: str
    label: str


class TicketKeyFrame(msgspec.Struct, array_like=True, tag=9, frozen=True):
    """The key by which the receiver can check the tickets of the sender's clients."""

    service: int  # 0
    instance: str  # empty
    key: bytes


class StayQueryFrame(msgspec.Struct, array_like=True, tag=10, frozen=True):
    """Asks for the stay of a client that claims a lock at the sender."""

    service: int
    instance: str
    id: int  # of the query
    token: int
    ticket: str


class StayAnswerFrame(msgspec.Struct, array_like=True, tag=16, frozen=True):
    """Knowledge of the sender about the stay (`clients.claims`)."""

    service: int
    instance: str
    id: int
    verdict: int
    token: int  # of the loan to claim
    held_us: int  # for how long no other client may get the lock


class StateQueryFrame(msgspec.Struct, array_like=True, tag=6, frozen=True):
    """Asks for the durable state of the receiver, for instances after this one.

    Sent by a node that has lost its memory.
    """

    service: int
    instance: str


class StatePageFrame(msgspec.Struct, array_like=True, tag=7, frozen=True):
    """One page of the durable state of the sender, for instances after the one in the query."""

    service: int
    instance: str
    is_member: bool  # the sender takes part itself
    lives: int  # memories that the receiver has had, as far as the sender knows
    entries: list[tuple[int, str, int, bytes]]  # service, instance, process, its durable variables
    is_last: bool


Frame: TypeAlias = (
    MessageFrame
    | IdleMessageFrame
    | OpenFrame
    | WatchFrame
    | LockStatusFrame
    | TransferFrame
    | TicketKeyFrame
    | StayQueryFrame
    | StayAnswerFrame
    | StateQueryFrame
    | StatePageFrame
)


class Hello(msgspec.Struct, array_like=True, tag=11, frozen=True):
    """First frame of the dialler."""

    wire: int  # wire version of the dialler
    cluster: str
    node: int
    to: int
    fingerprint: bytes
    nonce: bytes
    memory: bytes = b""  # identity of the dialler's stable memory
    replaces: bool = False  # started with --replace
    configuration: tuple[int, int] = (0, 0)  # term and version of the dialler's; 0, 0 if none
    address: str = ""  # of the dialler in that configuration


class Challenge(msgspec.Struct, array_like=True, tag=12, frozen=True):
    """Answer to `Hello`, with the proof of the answerer."""

    nonce: bytes
    proof: bytes
    memory: bytes = b""  # identity of the answerer's stable memory
    replaces: bool = False
    knows: bytes = b""  # identity by which it knows the dialler
    configuration: tuple[int, int] = (0, 0)  # term and version of the answerer's; 0, 0 if none
    excludes: bool = False  # the dialler is not in that configuration


class Proof(msgspec.Struct, array_like=True, tag=13, frozen=True):
    """Proof of the dialler."""

    proof: bytes


class Welcome(msgspec.Struct, array_like=True, tag=14, frozen=True):
    """Accepts the dialler; messages follow."""


class Rejection(msgspec.Struct, array_like=True, tag=15, frozen=True):
    """Refuses the handshake, with a sentence for the peer's log."""

    reason: str


Greeting: TypeAlias = Hello | Challenge | Proof | Welcome | Rejection


class Unsendable(ValueError):
    """A message that cannot be encoded: an integer beyond 64 bits, or too large."""
