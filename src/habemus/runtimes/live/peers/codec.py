"""What goes over the wire, and the refusal of everything else.

A frame is four bytes and a body: one byte of version, three of length.  The body is MessagePack.
So the first byte of whatever else connects to the port (a browser, a scanner, noise) gives it away,
and nobody can announce more than the limit.

A message travels as `MessageFrame`: to which instance, from and to which process, to which of its parts,
the message's type as its place among those that the part handles, sorted by name, and the fields in
the order of their declaration.  Both ends have the same tables, because the handshake compares
their fingerprints.  What a field may hold follows from the message's declared shapes, the same that
read trace files, so nothing is trusted for having arrived: `decode` gives a message or a `Refused`,
and no bytes whatever make it raise, hang or take more memory than a small multiple of the limit.

Terms have a ceiling, because a cluster that has adopted the largest number there is can never hold
an election again.  No cluster holds two elections in each second of its life, so a term beyond two
for each second since 2024 was never reached; and since the ceiling rises faster than terms do, a
cluster that was pushed up to it goes on.  A token is a term and a count of 32 bits.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from habemus.core.node import Known, Stack
from habemus.core.shapes import Malformed
from habemus.core.values import Message, Value
from habemus.runtimes.live.peers.frames import (
    Challenge,
    Frame,
    Greeting,
    Hello,
    LockStatusFrame,
    MessageFrame,
    OpenFrame,
    Proof,
    Rejection,
    StatePageFrame,
    StateQueryFrame,
    TransferFrame,
    Unsendable,
    WatchFrame,
    Welcome,
)

VERSION = 1
FRAME_LIMIT = 1 << 20
"""Bytes of a body."""
HANDSHAKE_LIMIT = 1 << 10
"""Bytes of a body from somebody who has not shown yet who it is."""
NAME_LIMIT = 200
"""Characters in the name of an instance."""

TERMS_BEGIN = 1_704_067_200
"""The beginning of 2024, in seconds since 1970."""
TERMS_PER_SECOND = 2
TERMS_AT_LEAST = 1_000_000
"""Terms that are allowed whatever the clock of the machine says."""
LARGEST_COUNT = (1 << 32) - 1

_HEADER = struct.Struct(">I")
HEADER_SIZE = _HEADER.size


class Refused(NamedTuple):
    """What came is not what may come; the reason is for the log."""

    reason: str


def check_name(name: str) -> None:
    """`ValueError` if no instance, and so no lock, can have it."""
    if not 0 < len(name) <= NAME_LIMIT or not name.isprintable():
        raise ValueError(f"a name is printable and has 1 to {NAME_LIMIT} characters")


def largest_term() -> int:
    """Return the largest term that a peer may name now."""
    return max(TERMS_AT_LEAST, TERMS_PER_SECOND * (int(time.time()) - TERMS_BEGIN))


def is_beyond(token: tuple[int, int]) -> bool:
    """Whether no cluster can have given that token."""
    term, count = token
    return term > largest_term() or count > LARGEST_COUNT


# Frames.


def framed(body: bytes) -> bytes:
    if len(body) > FRAME_LIMIT:
        raise Unsendable(f"a frame of {len(body)} bytes; the limit is {FRAME_LIMIT}")
    return _HEADER.pack(VERSION << 24 | len(body)) + body


class Deframer:
    """Cuts a stream of bytes into bodies.  Once it has refused something, nothing after it can be
    understood.
    """

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self.limit = limit
        self.refused: Refused | None = None
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies that are complete now; look at `refused` afterwards."""
        if self.refused is not None:
            return []
        data = self._rest + data if self._rest else data
        bodies = []
        start, size = 0, len(data)
        while size - start >= HEADER_SIZE:
            (header,) = _HEADER.unpack_from(data, start)
            version, length = header >> 24, header & 0xFFFFFF
            if version != VERSION:
                self.refused = Refused(
                    f"a frame of version {version}; this node speaks version {VERSION}"
                )
                break
            if length > self.limit:
                self.refused = Refused(f"a frame of {length} bytes; the limit is {self.limit}")
                break
            end = start + HEADER_SIZE + length
            if end > size:
                break
            bodies.append(data[start + HEADER_SIZE : end])
            start = end
        self._rest = b"" if self.refused is not None else data[start:]
        return bodies


# Bodies.

_ENCODER = msgspec.msgpack.Encoder()
_FRAMES = msgspec.msgpack.Decoder(
    MessageFrame
    | OpenFrame
    | WatchFrame
    | LockStatusFrame
    | TransferFrame
    | StateQueryFrame
    | StatePageFrame
)
_GREETINGS = msgspec.msgpack.Decoder(Hello | Challenge | Proof | Welcome | Rejection)
_MALFORMED = (
    msgspec.DecodeError,
    ValueError,
    RecursionError,
    OverflowError,
)  # text that is no UTF-8 is a ValueError


def encoded(frame: Frame | Greeting) -> bytes:
    """The frame, ready to be sent."""
    try:
        body = _ENCODER.encode(frame)
    except (OverflowError, RecursionError, TypeError) as reason:
        raise Unsendable(str(reason)) from None
    return framed(body)


def frame_of(body: bytes) -> Frame | Refused:
    try:
        frame: Frame = _FRAMES.decode(body)
    except _MALFORMED as reason:
        return Refused(f"a frame that is none: {reason}")
    if len(frame.instance) > NAME_LIMIT or not frame.instance.isprintable():
        return Refused(f"an instance's name is printable and has at most {NAME_LIMIT} characters")
    if (
        isinstance(frame, LockStatusFrame)
        and frame.token is not None
        and is_beyond((frame.token >> 32, 0))
    ):
        return Refused(f"a token that no cluster can have given: {frame.token}")
    return frame


def greeting_of(body: bytes) -> Greeting | Refused:
    try:
        greeting: Greeting = _GREETINGS.decode(body)
    except _MALFORMED as reason:
        return Refused(f"a greeting that is none: {reason}")
    return greeting


# Messages.


class _Kind(NamedTuple):
    """How messages of one type are written and read."""

    cls: type[Message]
    plains: tuple[tuple[str, Callable[[Any], Any] | None], ...]
    parses: tuple[
        tuple[type | None, Callable[[Any, Mapping[str, type]], Any]], ...
    ]  # what needs no parsing, and how the rest is parsed
    bounded: tuple[str, ...]  # fields that may have terms and tokens in them


class PortCodec:
    """The messages that one part of a process handles."""

    def __init__(self, known: Known) -> None:
        self._known = known
        classes = [known[name] for name in sorted(known) if issubclass(known[name], Message)]
        self._kinds = [_kind_of(cls) for cls in classes if issubclass(cls, Message)]
        self._index = {kind.cls: index for index, kind in enumerate(self._kinds)}

    def encode(self, message: Message) -> tuple[int, list[Any]]:
        """Its type and its fields."""
        index = self._index.get(type(message))
        if index is None:
            raise Unsendable(
                f"{type(message).__name__} is a message that the receiver has no handler for"
            )
        plains = self._kinds[index].plains
        return index, [
            getattr(message, name) if plain is None else plain(getattr(message, name))
            for name, plain in plains
        ]

    def decode(self, index: int, fields: list[Any]) -> Message | Refused:
        if not 0 <= index < len(self._kinds):
            return Refused(f"no message has the number {index} here")
        cls, _, parses, bounded = self._kinds[index]
        if len(fields) != len(parses):
            return Refused(f"{cls.__name__} has {len(parses)} fields, and {len(fields)} came")
        known = self._known
        try:
            message = cls(
                *[
                    field if type(field) is atom else parse(field, known)
                    for (atom, parse), field in zip(parses, fields, strict=True)
                ]
            )
        except (Malformed, RecursionError) as reason:
            return Refused(f"{cls.__name__}: {reason}")
        for name in bounded:
            if _has_beyond(name, getattr(message, name)):
                return Refused(
                    f"{cls.__name__}: no cluster can have reached the {name}"
                    f" {getattr(message, name)}"
                )
        return message

    def described(self) -> list[Any]:
        """What both ends must agree on, as plain values."""
        return [
            [kind.cls.__name__, [[name, shape.name] for name, shape in kind.cls.__fields__.items()]]
            for kind in self._kinds
        ]


def _kind_of(cls: type[Message]) -> _Kind:
    shapes = cls.__fields__
    plains = tuple((name, shape.plain) for name, shape in shapes.items())
    bounded = tuple(name for name, shape in shapes.items() if name in _TERMS or shape.atom is None)
    return _Kind(
        cls, plains, tuple((shape.atom, shape.parse) for shape in shapes.values()), bounded
    )


_TERMS = ("term", "next_term")


def _has_beyond(name: str, value: Any) -> bool:
    """Whether a term or a token that no cluster can have reached is in the field, or in a value
    that it holds.
    """
    if isinstance(value, int):
        return name in _TERMS and value > largest_term()
    if name == "token" and isinstance(value, tuple) and len(value) == 2:
        return is_beyond(value)
    if isinstance(value, Value):
        return any(_has_beyond(each, getattr(value, each)) for each in type(value).__fields__)
    return False


def codecs_of(stack: Stack) -> list[PortCodec]:
    """Of each part of a process, by port."""
    return [PortCodec(stack.known_at(part.port)) for part in stack.parts]
