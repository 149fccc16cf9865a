"""Encoding of frames between nodes, and the checks on everything that is received.

A frame has a header of four bytes, `MARK` and three of length, and a body in MessagePack.
So the first byte identifies connections that are no peers (a browser, a scanner), and no sender can
announce more than the limit.

A message of an algorithm travels as `MessageFrame`: the instance, the sender, the receiver and its
part, the name of the message type, and the fields in the order of their declaration.  The declared
shapes of the message, which also read trace files, check every field.  `decode` returns a message
or a `Refused`; no input makes it raise, hang or take more memory than a small multiple of the
limit.

Nodes of two releases work together while they have one wire version.  A field that the receiver
does not know is ignored: one at the end of a frame or message, or any in a value.  A field that is
missing has its default, or the message is refused.  A message or frame of a type that the receiver
does not know is dropped (`Refused.is_unknown`), as on any fair-loss link.

Terms have an upper bound, because a cluster that adopts the largest number can never hold another
election.  No cluster holds two elections per second for years, so the bound is two terms per second
since 2024.  It rises faster than terms do, so a cluster that was pushed up to it still works.  A
token is a term and a count of 32 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, get_args

import msgspec

from habemus import boottime
from habemus.core.node import Known, Stack
from habemus.core.shapes import LenientTypes, Malformed, UnknownType
from habemus.core.values import Message, Value
from habemus.problems.fencing import LARGEST_COUNT
from habemus.runtimes.live.peers.frames import (
    Challenge,
    Frame,
    Greeting,
    Hello,
    IdleMessageFrame,
    LockStatusFrame,
    MessageFrame,
    Proof,
    Rejection,
    StayAnswerFrame,
    StayQueryFrame,
    Unsendable,
    Welcome,
)

MARK: Final = 1
"""The first byte of each frame."""
FRAME_LIMIT: Final = 1 << 20
"""Bytes of a body."""
HANDSHAKE_LIMIT = 1 << 10
"""Bytes of a body before the handshake is complete."""
NAME_LIMIT: Final = 200
"""Characters in the name of an instance."""

TERMS_PER_SECOND = 2
TERMS_AHEAD = 1 << 24
"""How far a cluster may have come while a node was down: at two terms per second, 97 days."""
LARGEST_TERM: Final = (1 << 31) - 1

_HEADER = struct.Struct(">I")
HEADER_SIZE = _HEADER.size


class Refused(NamedTuple):
    """Why received data is refused; for the log."""

    reason: str
    is_unknown: bool = False  # of a type that this node does not know: dropped, the others count


def is_name(name: str) -> bool:
    return 0 < len(name) <= NAME_LIMIT and name.isprintable()


def check_name(name: str) -> None:
    """Raise `ValueError` if it is not a valid name of an instance, and so of a lock."""
    if not is_name(name):
        raise ValueError(
            f"name {name[:20]!r} is not valid; use 1 to {NAME_LIMIT} printable characters"
        )


class TermBound:
    """The largest term that a peer may name, so that no peer can leave a cluster without further
    terms.

    It is counted from the largest term that the node had stored when it started, and grows with the
    time since.  The wall clock has no part in it.
    """

    def __init__(self) -> None:
        self._stored = 0
        self._since = boottime.seconds()

    def note_stored(self, parts: Iterable[object]) -> None:
        """Take in the terms of a process that was restored from stable memory."""
        for part in parts:
            term = getattr(part, "term", None)
            if isinstance(term, int):
                self._stored = max(self._stored, term)

    def largest(self) -> int:
        """Return the largest term that is accepted now."""
        since = int(boottime.seconds() - self._since)
        return min(LARGEST_TERM, self._stored + TERMS_AHEAD + TERMS_PER_SECOND * since)

    def has_passed(self, term: int) -> bool:
        """Return whether the term is above the bound."""
        # The clock is read only if the term is above what the bound was at the start.
        at_start = min(LARGEST_TERM, self._stored + TERMS_AHEAD)
        return term > at_start and term > self.largest()

    def is_beyond(self, token: tuple[int, int]) -> bool:
        """Return whether the token is above the bound of tokens that a cluster can issue."""
        term, count = token
        return self.has_passed(term) or count > LARGEST_COUNT


OF_NEW_NODE = TermBound()


# Frames.


def framed(body: bytes) -> bytes:
    if len(body) > FRAME_LIMIT:
        raise Unsendable(f"frame of {len(body)} bytes; the limit is {FRAME_LIMIT}")
    return _HEADER.pack(MARK << 24 | len(body)) + body


class Deframer:
    """Splits a stream of bytes into bodies of frames, up to the first that is refused."""

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self.limit = limit
        self.refused: Refused | None = None
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the bodies that are complete now; check `refused` afterwards."""
        if self.refused is not None:
            return []
        data = self._rest + data if self._rest else data
        bodies = []
        start, size = 0, len(data)
        while size - start >= HEADER_SIZE:
            (header,) = _HEADER.unpack_from(data, start)
            mark, length = header >> 24, header & 0xFFFFFF
            if mark != MARK:
                self.refused = Refused(f"byte {mark} begins a frame; the sender is not a node")
                break
            if length > self.limit:
                self.refused = Refused(f"frame of {length} bytes; the limit is {self.limit}")
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
_FRAMES = msgspec.msgpack.Decoder(Frame)
_GREETINGS = msgspec.msgpack.Decoder(Hello | Challenge | Proof | Welcome | Rejection)
# invalid UTF-8 is a ValueError
_MALFORMED = (msgspec.DecodeError, ValueError, RecursionError, OverflowError)


def encoded(frame: Frame | Greeting) -> bytes:
    """Return the bytes of the frame."""
    try:
        body = _ENCODER.encode(frame)
    except (OverflowError, RecursionError, TypeError) as reason:
        raise Unsendable(str(reason)) from None
    return framed(body)


PREFIX: Final = slice(1, 3)
"""Tag and service in the body of a message.  Before them is the number of fields."""


def message_prefix(service: int) -> bytes:
    """Return the `PREFIX` of messages of a service."""
    encoded = _ENCODER.encode(MessageFrame(service, "", 0, 0, 0, "", [], 0))
    return encoded[PREFIX.start : PREFIX.stop]


def frame_of(body: bytes, terms: TermBound = OF_NEW_NODE) -> Frame | Refused:
    try:
        frame: Frame = _FRAMES.decode(body)
    except _MALFORMED as reason:
        tag = _tag_of(body)
        if tag is not None and tag not in _TAGS:
            return Refused(f"unknown type of frame {tag}", is_unknown=True)
        return Refused(f"malformed frame: {reason}")
    if len(frame.instance) > NAME_LIMIT or not frame.instance.isprintable():
        return Refused(f"name of an instance is not printable or exceeds {NAME_LIMIT} characters")
    if isinstance(frame, IdleMessageFrame) and not all(map(is_name, frame.besides)):
        return Refused("message for idle instances with the name of one that is not valid")
    if (
        isinstance(frame, LockStatusFrame | StayQueryFrame | StayAnswerFrame)
        and frame.token is not None
        and terms.is_beyond((frame.token >> 32, 0))
    ):
        return Refused(f"token {frame.token} exceeds the bound of its term")
    return frame


_TAGS = frozenset(frame.__struct_config__.tag for frame in get_args(Frame))


def _tag_of(body: bytes) -> int | None:
    """Return the type of a frame that may have any; None if it is no frame."""
    try:
        fields = msgspec.msgpack.decode(body)
    except _MALFORMED:
        return None
    return fields[0] if isinstance(fields, list) and fields and type(fields[0]) is int else None


def greeting_of(body: bytes) -> Greeting | Refused:
    try:
        greeting: Greeting = _GREETINGS.decode(body)
    except _MALFORMED as reason:
        return Refused(f"malformed handshake: {reason}")
    return greeting


# Messages.


class _Kind(NamedTuple):
    """Encoding of one message type."""

    cls: type[Message]
    plains: tuple[tuple[str, Callable[[Any], Any] | None], ...]
    # for each field the type that needs no parsing, and the parser for others
    parses: tuple[tuple[type | None, Callable[[Any, Mapping[str, type]], Any]], ...]
    bounded: tuple[str, ...]  # fields that may contain terms and tokens
    required: int  # fields without a default


class PortCodec:
    """Encoder and decoder of the messages that one part of a process handles."""

    def __init__(self, known: Known, port: int = 0) -> None:
        self.port = port
        self._known = LenientTypes(known)
        self._kinds = {
            name: _kind_of(cls) for name, cls in known.items() if issubclass(cls, Message)
        }
        self._plains = {kind.cls: (name, kind.plains) for name, kind in self._kinds.items()}

    def encode(self, message: Message) -> tuple[str, list[Any]]:
        """Return the name of its type, and its fields."""
        found = self._plains.get(type(message))
        if found is None:
            raise Unsendable(f"the receiver has no handler for {type(message).__name__}")
        kind, plains = found
        return kind, [
            getattr(message, name) if plain is None else plain(getattr(message, name))
            for name, plain in plains
        ]

    def decode(
        self, kind: str, fields: list[Any], terms: TermBound = OF_NEW_NODE
    ) -> Message | Refused:
        found = self._kinds.get(kind)
        if found is None:
            return Refused(f"unknown type of message {kind[:60]!r}", is_unknown=True)
        cls, _, parses, bounded, required = found
        if len(fields) < required:
            return Refused(f"{cls.__name__} with {len(fields)} fields; it has {len(parses)}")
        known = self._known
        try:
            message = cls(
                *[
                    field if type(field) is atom else parse(field, known)
                    # not strict: fields that have defaults may be missing, unknown ones are ignored
                    for (atom, parse), field in zip(parses, fields, strict=False)
                ]
            )
        except UnknownType as reason:
            return Refused(f"{cls.__name__}: {reason}", is_unknown=True)
        except (Malformed, RecursionError) as reason:
            return Refused(f"{cls.__name__}: {reason}")
        for name in bounded:
            if _has_beyond(name, getattr(message, name), terms):
                return Refused(
                    f"{cls.__name__}: {name} {getattr(message, name)} exceeds the bound of terms"
                    " and tokens"
                )
        return message


def _kind_of(cls: type[Message]) -> _Kind:
    shapes = cls.__fields__
    plains = tuple((name, shape.plain) for name, shape in shapes.items())
    bounded = tuple(name for name, shape in shapes.items() if name in _TERMS or shape.atom is None)
    return _Kind(
        cls,
        plains,
        tuple((shape.atom, shape.parse) for shape in shapes.values()),
        bounded,
        sum(name not in cls.__defaults__ for name in shapes),  # they come before the others
    )


_TERMS = ("term", "next_term")


def _has_beyond(name: str, value: Any, terms: TermBound) -> bool:
    """Return whether the field, or a value in it, has a term or token above the bound."""
    if isinstance(value, int):
        return name in _TERMS and terms.has_passed(value)
    if name == "token" and isinstance(value, tuple) and len(value) == 2:
        return terms.is_beyond(value)
    if isinstance(value, Value):
        return any(
            _has_beyond(each, getattr(value, each), terms) for each in type(value).__fields__
        )
    return False


def codecs_of(stack: Stack) -> list[PortCodec]:
    """Return the codec of each part of a process, by port."""
    return [PortCodec(stack.known_at(part.port), part.port) for part in stack.parts]
