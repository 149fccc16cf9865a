"""The bodies of frames, which nodes send to each other.

(Not compiled: mypyc loses the keyword arguments of a class, and with them the tags by which these
are told apart.)
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class MessageFrame(
    msgspec.Struct, array_like=True, tag=1, forbid_unknown_fields=True, gc=False, frozen=True
):
    """A message of an instance."""

    service: int
    instance: str
    to: int
    sender: int
    port: int
    kind: int
    fields: list[Any]
    number: int = 0  # of the message in the sender's record; 0 where nothing is recorded


class OpenFrame(msgspec.Struct, array_like=True, tag=2, forbid_unknown_fields=True, frozen=True):
    """An instance exists: somebody has asked for it."""

    service: int
    instance: str


class WatchFrame(msgspec.Struct, array_like=True, tag=3, forbid_unknown_fields=True, frozen=True):
    """Somebody here wants to know who holds a lock; to be said again before it is forgotten."""

    service: int
    instance: str


class LockStatusFrame(
    msgspec.Struct, array_like=True, tag=4, forbid_unknown_fields=True, frozen=True
):
    """How a lock stands at the node that says so.  For onlookers: nothing that an algorithm does
    depends on it.
    """

    service: int
    instance: str
    holder: str | None
    token: int | None
    waiting: int


class TransferFrame(
    msgspec.Struct, array_like=True, tag=5, forbid_unknown_fields=True, frozen=True
):
    """Whoever held the lock would like this client to be next."""

    service: int
    instance: str
    label: str


class StateQueryFrame(
    msgspec.Struct, array_like=True, tag=6, forbid_unknown_fields=True, frozen=True
):
    """A node that has lost its memory asks what the receiver has stored, of the instances after
    this one.
    """

    service: int
    instance: str


class StatePageFrame(
    msgspec.Struct, array_like=True, tag=7, forbid_unknown_fields=True, frozen=True
):
    """A part of what the sender has stored, from the instance on after which it was asked."""

    service: int
    instance: str
    is_member: bool  # the sender has its own memory
    lives: int  # how many memories the receiver has had, as far as the sender knows
    entries: list[tuple[int, str, int, bytes]]  # service, instance, process, its durable variables
    is_last: bool


Frame: TypeAlias = (
    MessageFrame
    | OpenFrame
    | WatchFrame
    | LockStatusFrame
    | TransferFrame
    | StateQueryFrame
    | StatePageFrame
)


class Hello(msgspec.Struct, array_like=True, tag=11, forbid_unknown_fields=True, frozen=True):
    """Who dials, whom, and what it takes the cluster for."""

    protocol: int
    cluster: str
    node: int
    to: int
    fingerprint: bytes
    nonce: bytes
    memory: bytes = b""  # identity of the dialler's stable memory
    replaces: bool = False  # it is in the place of one that is lost


class Challenge(msgspec.Struct, array_like=True, tag=12, forbid_unknown_fields=True, frozen=True):
    """Who answers: its own nonce, and its proof that it knows the secret."""

    nonce: bytes
    proof: bytes
    memory: bytes = b""  # identity of the answerer's stable memory
    replaces: bool = False
    knows: bytes = b""  # the memory by which it knows the dialler


class Proof(msgspec.Struct, array_like=True, tag=13, forbid_unknown_fields=True, frozen=True):
    proof: bytes


class Welcome(msgspec.Struct, array_like=True, tag=14, forbid_unknown_fields=True, frozen=True):
    """From now on the dialler's messages are taken."""


class Rejection(msgspec.Struct, array_like=True, tag=15, forbid_unknown_fields=True, frozen=True):
    """Why the other end was not accepted; a sentence for its log."""

    reason: str


Greeting: TypeAlias = Hello | Challenge | Proof | Welcome | Rejection


class Unsendable(ValueError):
    """A message that no frame can hold: a number beyond 64 bits, or too large as a whole."""
