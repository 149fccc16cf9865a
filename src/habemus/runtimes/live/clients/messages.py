"""The lines that a client sends, as `protocol` describes them.

Not compiled: mypyc drops the keyword arguments of a class statement, and with them the tags.
"""

from __future__ import annotations

from typing import Annotated

import msgspec


class _ClientMessage(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A line; further fields at its end are ignored."""


class HelloLine(_ClientMessage, frozen=True, tag="hello"):
    wire: int
    label: str
    session: str | None = None
    nonce: str | None = None
    secret: str | None = None


class ProofLine(_ClientMessage, frozen=True, tag="proof"):
    proof: str


class RequestLine(_ClientMessage, frozen=True, tag="request"):
    id: int
    service: str
    names: list[str]
    timeout_ms: int | None
    lease_ms: int | None
    at: int
    keeps: bool = False


class LeadLine(_ClientMessage, frozen=True, tag="lead"):
    id: int
    service: str
    name: str
    timeout_ms: int | None
    lease_ms: int | None
    at: int


class SemaphoreLine(_ClientMessage, frozen=True, tag="semaphore"):
    id: int
    service: str
    name: str
    size: int | None
    timeout_ms: int | None
    lease_ms: int | None
    at: int


class ClaimLine(_ClientMessage, frozen=True, tag="claim"):
    id: int
    service: str
    name: str
    token: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    shown: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    lease_ms: int | None
    at: int
    keeps: bool = False
    ticket: str = ""


class MoveLine(_ClientMessage, frozen=True, tag="move"):
    id: int


class ReleaseLine(_ClientMessage, frozen=True, tag="release"):
    id: int


class TransferLine(_ClientMessage, frozen=True, tag="transfer"):
    id: int
    label: str


class GoodbyeLine(_ClientMessage, frozen=True, tag="goodbye"):
    pass


class AliveLine(_ClientMessage, frozen=True, tag="alive"):
    at: int


class WroteLine(_ClientMessage, frozen=True, tag="wrote"):
    service: str
    name: str
    token: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class WatchLine(_ClientMessage, frozen=True, tag="watch"):
    id: int
    service: str
    name: str


class UnwatchLine(_ClientMessage, frozen=True, tag="unwatch"):
    id: int


class StatusLine(_ClientMessage, frozen=True, tag="status"):
    id: int


class ElectLine(_ClientMessage, frozen=True, tag="elect"):
    id: int
    service: str
    name: str


class ForceLine(_ClientMessage, frozen=True, tag="force"):
    id: int
    service: str
    name: str


class MemberLine(_ClientMessage, frozen=True, tag="member"):
    id: int
    step: str
    node: int
    address: str
    memory: str
