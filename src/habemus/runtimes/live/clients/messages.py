"""The lines that a client says, as `lines` describes them.

(Not compiled: mypyc loses the keyword arguments of a class, and with them the tags by which these
are told apart.)
"""

from __future__ import annotations

from typing import Annotated

import msgspec


class _Line(msgspec.Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    pass


class Hello(_Line, frozen=True, tag="hello"):
    version: int
    label: str
    session: str | None = None
    nonce: str | None = None


class Proof(_Line, frozen=True, tag="proof"):
    proof: str


class Acquire(_Line, frozen=True, tag="acquire"):
    id: int
    service: str
    names: list[str]
    timeout_ms: int | None
    lease_ms: int | None
    at: int
    keeps: bool = False


class Release(_Line, frozen=True, tag="release"):
    id: int


class Transfer(_Line, frozen=True, tag="transfer"):
    id: int
    label: str


class Alive(_Line, frozen=True, tag="alive"):
    at: int


class Wrote(_Line, frozen=True, tag="wrote"):
    service: str
    name: str
    token: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Watch(_Line, frozen=True, tag="watch"):
    id: int
    service: str
    name: str


class Unwatch(_Line, frozen=True, tag="unwatch"):
    id: int


class Status(_Line, frozen=True, tag="status"):
    id: int


class Force(_Line, frozen=True, tag="force"):
    id: int
    service: str
    name: str
