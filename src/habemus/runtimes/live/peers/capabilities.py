"""Capabilities: the messages that a node understands, so that two versions work together.

Nodes have to *agree* on the configuration; the handshake compares its fingerprint.  They need not
understand the same messages.  The answerer of a handshake lists what it understands: protocol
versions, types of frames, and for every part of every process the message types with their fields.
The dialler, which sends, encodes for that receiver:

*message type*  one that the receiver does not know is not sent: it is lost, as on any fair-loss
                link.
*field*         one that the receiver does not know is left out.  One that only the receiver knows
                gets its default there.  Added fields are the last ones and have a default.
*part*          is found by its path, so parts may be added.

Where both understand the same, the dialler uses its own tables and nothing is translated.  A peer
may have another version after a restart, so frames that wait for it are dropped then.

The protocol version changes only if all this does not suffice.  A node speaks a range of versions,
and two nodes whose ranges do not meet refuse each other.
"""

from __future__ import annotations

import logging
import typing
import zlib
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec

from habemus.core.process import ProcessId
from habemus.core.values import Message, Value
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.peers.codec import (
    CHALLENGE_LIMIT,
    ForeignCodec,
    PortCodec,
    Refused,
    required_fields,
)
from habemus.runtimes.live.peers.frames import Frame

log = logging.getLogger("habemus.live")

NEWEST_PROTOCOL = 2
OLDEST_PROTOCOL = 2
CAPABILITIES_LIMIT = CHALLENGE_LIMIT // 2
"""Bytes; a later version may have more to say of the same services."""


class ValueForm(msgspec.Struct, array_like=True, frozen=True):
    """A message type, or a value in a field of one."""

    name: str
    required: int
    """Fields without a default."""
    fields: list[int]
    """A digest of the name and the type of each field."""


class PartForm(msgspec.Struct, array_like=True, frozen=True):
    """The messages that a part handles, by index, and the values in their fields."""

    messages: list[ValueForm]
    inside: list[ValueForm]


class StackForm(msgspec.Struct, array_like=True, frozen=True):
    """The parts of a process, by port, and its durable variables."""

    parts: list[tuple[str, int]]
    """Path, and index in the list of all forms."""
    durable: list[str]


class ServiceForm(msgspec.Struct, array_like=True, frozen=True):
    """The stacks of a service, and the stack of each process."""

    stacks: list[StackForm]
    processes: dict[int, int]


class Capabilities(msgspec.Struct, array_like=True, frozen=True):
    """List of all that a node understands.  Later versions may add fields with a default."""

    newest: int = NEWEST_PROTOCOL
    oldest: int = OLDEST_PROTOCOL
    release: str = ""
    frames: list[int] = []
    """Tags of the frames."""
    parts: list[PartForm] = []
    services: dict[str, ServiceForm] = {}
    excluded_by: int = 0
    """The configuration without the receiver that this node has stored; 0 if there is none."""

    @property
    def named(self) -> str:
        """Release and protocol versions, for messages."""
        protocols = f"{self.oldest} to {self.newest}" if self.oldest < self.newest else self.newest
        return f"habemus {self.release or 'unknown'}, protocol {protocols}"

    def objection(self, peer: int, newest: int) -> str:
        """Return why a peer that speaks protocols up to `newest` is refused; empty if it is not."""
        if newest >= self.oldest:
            return ""
        return (
            f"node {peer} speaks protocols up to {newest}, and this node from {self.oldest}"
            f" ({self.named}): upgrade node {peer}"
        )


_DECODER = msgspec.msgpack.Decoder(Capabilities)


def decoded_capabilities(content: bytes) -> Capabilities | Refused:
    try:
        return _DECODER.decode(content)
    except (msgspec.DecodeError, ValueError, RecursionError, OverflowError) as reason:
        return Refused(f"malformed list of capabilities: {reason}")


def capabilities_of(services: Iterable[Service]) -> Capabilities:
    """Return what a node with these services understands."""
    parts: list[PartForm] = []
    found: dict[str, ServiceForm] = {}
    for service in services:
        stacks: list[StackForm] = []
        processes: dict[int, int] = {}
        for process, stack in service.stacks.items():
            forms = [form_of(codec) for codec in service.codecs[process]]
            parts += [form for form in forms if form not in parts]
            paths = [part.path for part in stack.parts]
            form = StackForm(
                [(path, parts.index(form)) for path, form in zip(paths, forms, strict=True)],
                service.stable[process].names,
            )
            if form not in stacks:
                stacks.append(form)
            processes[process] = stacks.index(form)
        found[service.name] = ServiceForm(stacks, processes)
    return Capabilities(release=version("habemus"), frames=_TAGS, parts=parts, services=found)


_TAGS: list[int] = sorted(
    typing.cast(int, frame.__struct_config__.tag) for frame in typing.get_args(Frame)
)


# The forms of values.


@cache
def _value_form(cls: type[Value]) -> ValueForm:
    return ValueForm(cls.__name__, required_fields(cls), _digests(cls))


def _digests(cls: type[Value]) -> list[int]:
    return [
        zlib.crc32(f"{name}: {shape.name}{_members_in(cls.__declared__[name])}".encode())
        for name, shape in cls.__fields__.items()
    ]


def _types_in(declared: Any) -> Iterable[type]:
    """Yield all types that a declared type is made of."""
    if isinstance(declared, type):
        yield declared
    for argument in typing.get_args(declared):
        yield from _types_in(argument)
    alias = getattr(declared, "__value__", None)  # of the statement `type X = ...`
    if alias is not None:
        yield from _types_in(alias)


def _members_in(declared: Any) -> str:
    """Return the members of the enumerations in a declared type."""
    enums = [each for each in _types_in(declared) if issubclass(each, Enum)]
    return "".join(f" {list(each.__members__)}" for each in enums)


def form_of(codec: PortCodec) -> PartForm:
    """Return the messages that a part handles, as peers need to know them."""
    messages = codec.messages()
    inside = _values_inside(messages, codec.values_inside())
    return PartForm(
        [_value_form(cls) for cls in messages],
        [_value_form(inside[name]) for name in sorted(inside)],
    )


def _values_inside(
    messages: Iterable[type[Value]], polymorphic: Mapping[str, type]
) -> dict[str, type[Value]]:
    """Return the value types that may stand in fields of these messages."""
    found: dict[str, type[Value]] = {}
    waiting = [declared for cls in messages for declared in cls.__declared__.values()]
    while waiting:
        for each in _types_in(waiting.pop()):
            if not issubclass(each, Value) or each.__name__ in found:
                continue
            found[each.__name__] = each
            waiting += each.__declared__.values()
            if each in (Message, Value):
                waiting += (other for other in polymorphic.values() if issubclass(other, each))
    return found


# Encoding for a peer of another version.


def _foreign_codec(own: PortCodec, port: int, theirs: PartForm) -> ForeignCodec:
    """Return the codec of a part that handles other messages than the same part of this node."""
    known = {form.name: (kind, form) for kind, form in enumerate(theirs.messages)}
    messages = own.messages()
    kept: dict[type[Message], tuple[int, list[int]]] = {}
    for cls in messages:
        if cls.__name__ in known:
            kind, form = known[cls.__name__]
            fields = _kept_fields(cls, form)
            if fields is not None:
                kept[cls] = (kind, fields)
    others = {form.name: form for form in theirs.inside}
    changed: dict[str, frozenset[str] | None] = {}
    for name, value in _values_inside(messages, own.values_inside()).items():
        other = others.get(name)
        if other != _value_form(value):
            changed[name] = None if other is None else _unknown_fields(value, other)
    return ForeignCodec(own, port, kept, changed)


def _kept_fields(cls: type[Value], theirs: ValueForm) -> list[int] | None:
    """Return the places of the fields that the peer knows, in its order.  None if the peer cannot
    decode them: it needs others, or knows others in between.
    """
    own = {digest: place for place, digest in enumerate(_value_form(cls).fields)}
    known = [own.get(digest) for digest in theirs.fields]
    kept = [place for place in known if place is not None]
    return kept if known[: len(kept)] == kept and len(kept) >= theirs.required else None


def _unknown_fields(cls: type[Value], theirs: ValueForm) -> frozenset[str] | None:
    """Return the fields that the peer does not know; None if it needs others."""
    own = dict(zip(_value_form(cls).fields, cls.__fields__, strict=True))
    if not set(theirs.fields[: theirs.required]) <= own.keys():
        return None
    return frozenset(name for digest, name in own.items() if digest not in theirs.fields)


class PeerCodecs:
    """The codecs with which a node encodes messages to the processes of its peers."""

    def __init__(self, services: Sequence[Service]) -> None:
        self._services = services
        self.own = capabilities_of(services)
        size = len(msgspec.msgpack.encode(self.own))
        if size > CAPABILITIES_LIMIT:
            raise ValueError(
                f"too many services: the list of their messages has {size} bytes, the limit is"
                f" {CAPABILITIES_LIMIT}; remove some from cluster.toml"
            )
        self.peers: dict[int, Capabilities] = {}
        """Capabilities of each peer, as of its last handshake."""
        self.codecs: list[dict[ProcessId, list[PortCodec]]] = [
            dict(service.codecs) for service in services
        ]
        """Codecs by the index of the service, the receiver, and the sender's port."""

    @property
    def digest(self) -> str:
        """Digest of what this node understands: equal on nodes that need no translation."""
        content = msgspec.msgpack.encode(msgspec.structs.replace(self.own, release=""))
        return f"{zlib.crc32(content):08x}"

    def learn(self, peer: int, theirs: Capabilities) -> None:
        """Encode from now on what this peer understands."""
        if self.peers.get(peer, self.own) != theirs:
            lost: set[str] = set()
            for index, service in enumerate(self._services):
                for process in service.at(peer):
                    codecs = self._codecs_for(service, process, theirs)
                    self.codecs[index][process] = codecs
                    foreign = (codec for codec in codecs if isinstance(codec, ForeignCodec))
                    lost.update(*(codec.lost() for codec in foreign))
            if theirs != self.own:
                log.warning(
                    "node %d has another version (%s) than this node (%s)%s; run one version on all"
                    " nodes soon",
                    peer,
                    theirs.named,
                    self.own.named,
                    f": it does not understand {', '.join(sorted(lost))}" if lost else "",
                )
        self.peers[peer] = theirs

    def _codecs_for(
        self, service: Service, process: ProcessId, theirs: Capabilities
    ) -> list[PortCodec]:
        own = service.codecs[process]
        form = theirs.services.get(service.name)
        index = None if form is None else form.processes.get(process)
        if form is None or index is None or not 0 <= index < len(form.stacks):
            return own
        places = {path: (port, at) for port, (path, at) in enumerate(form.stacks[index].parts)}
        found: list[PortCodec] = []
        for part, codec in zip(service.stacks[process].parts, own, strict=True):
            port, at = places.get(part.path, (0, -1))
            if not 0 <= at < len(theirs.parts):
                found.append(ForeignCodec(codec, 0, {}, {}))
            elif port == codec.port and theirs.parts[at] == form_of(codec):
                found.append(codec)
            else:
                found.append(_foreign_codec(codec, port, theirs.parts[at]))
        return found

    def understands(self, peer: int, frame: Frame) -> bool:
        """Return whether the peer knows frames of this type; assume so until it was met."""
        theirs = self.peers.get(peer)
        return theirs is None or frame.__struct_config__.tag in theirs.frames

    def durable_variables(self, peer: int, service: str, process: ProcessId) -> list[str] | None:
        """Return the names of the durable variables that the peer stores for a process."""
        theirs = self.peers.get(peer)
        form = None if theirs is None else theirs.services.get(service)
        index = None if form is None else form.processes.get(process)
        if form is None or index is None or not 0 <= index < len(form.stacks):
            return None
        return form.stacks[index].durable
