"""The wire: what is sent comes back equal, and nothing else comes through."""

import random
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habemus.algorithms.election.terms import Heartbeat, Sounding
from habemus.algorithms.links.perfect import Numbered, PerfectLinks
from habemus.algorithms.mutex.elected_coordinator_participant import Loan, Record, Recorded
from habemus.catalog.entries import entries
from habemus.core import Message, Value
from habemus.core.node import Stack
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute
from habemus.runtimes.live.peers import codec
from habemus.runtimes.live.peers.codec import (
    FRAME_LIMIT,
    HEADER_SIZE,
    LARGEST_TERM,
    NAME_LIMIT,
    OF_NEW_NODE,
    TERMS_AHEAD,
    Deframer,
    PortCodec,
    Refused,
    TermBound,
    codecs_of,
    encoded,
    frame_of,
    framed,
    greeting_of,
)
from habemus.runtimes.live.peers.frames import (
    Challenge,
    Hello,
    MessageFrame,
    OpenFrame,
    Unsendable,
)

STACKS = {
    name: Stack(entry.system(3, {}).plans[entry.system(3, {}).clients[0]])
    for name, entry in entries().items()
}
OVER = {
    name: Stack(stack.plan.over(PerfectLinks()))
    for name, stack in STACKS.items()
    if stack.plan.links is None
}


def through_the_wire(stack: Stack, port: int, message: Message) -> Message | Refused:
    codecs = codecs_of(stack)
    kind, fields = codecs[port].encode(message)
    [body] = Deframer().feed(encoded(MessageFrame(3, "printer", 2, 1, port, kind, fields)))
    frame = frame_of(body)
    assert isinstance(frame, MessageFrame)
    return codecs_of(stack)[frame.port].decode(frame.kind, frame.fields)


@pytest.mark.parametrize("over", ["", "perfect"])
@pytest.mark.parametrize("name", sorted(STACKS))
def test_every_message_of_the_catalog_comes_back_equal(name: str, over: str) -> None:
    if over and name not in OVER:
        pytest.skip("has links of its own")
    stack = OVER[name] if over else STACKS[name]
    ports = {part.path: part.port for part in stack.parts}
    seen = set()
    trace = execute(Setup(name, 3, over=over, requests=2, events=2_000)).trace
    assert trace is not None
    for event in trace.events:
        if event.kind == "send":
            assert isinstance(event.value, Message)
            assert through_the_wire(stack, ports[event.part], event.value) == event.value
            seen.add(event.name)
    assert seen


class TestFrames:
    def test_any_cutting_of_the_stream_gives_the_same_bodies(self) -> None:
        bodies = [b"", b"a", bytes(1000), b"xyz"]
        stream = b"".join(map(framed, bodies))
        for size in (1, 2, 3, 5, 7, 400, len(stream)):
            deframer = Deframer()
            found = [
                body
                for start in range(0, len(stream), size)
                for body in deframer.feed(stream[start : start + size])
            ]
            assert found == bodies
            assert deframer.refused is None

    def test_what_is_no_frame_is_refused_at_its_first_byte(self) -> None:
        deframer = Deframer()
        assert deframer.feed(framed(b"good") + b"GET / HTTP/1.1\r\n") == [b"good"]
        assert deframer.refused is not None
        assert deframer.refused.reason == "byte 71 begins a frame; the sender is not a node"
        assert deframer.feed(framed(b"good")) == []

    def test_an_announced_size_beyond_the_limit_is_refused_before_it_comes(self) -> None:
        deframer = Deframer(limit=10)
        assert deframer.feed(framed(bytes(11))[:HEADER_SIZE]) == []
        assert deframer.refused is not None

    def test_what_is_too_large_is_not_sent(self) -> None:
        with pytest.raises(Unsendable):
            framed(bytes(FRAME_LIMIT + 1))
        with pytest.raises(Unsendable):
            encoded(MessageFrame(0, "x", 1, 2, 0, "A", [2**64]))


def refused(frame: object) -> bool:
    return isinstance(frame_of(msgspec.msgpack.encode(frame)), Refused)


def test_envelopes_are_strict() -> None:
    good = [1, 0, "printer", 2, 1, 0, "Request", []]
    assert not refused(good)
    assert not refused([*good, 7])
    assert not refused([*good, 7, 8])  # a field that this node does not know
    assert not refused([*good, 7, [[[{}]]]])
    assert refused(good[:-1])
    assert frame_of(msgspec.msgpack.encode([99, *good[1:]])) == Refused(
        "unknown type of frame 99", is_unknown=True
    )
    assert refused([1, "0", *good[2:]])
    assert refused([1, 0, b"printer", *good[3:]])
    assert refused([1, 0, "x" * (NAME_LIMIT + 1), *good[3:]])
    assert refused([1, 0, "two\nlines", *good[3:]])
    assert refused([1, 0, "printer", 2.0, *good[4:]])
    assert refused([2, 0, 1])
    assert isinstance(
        greeting_of(msgspec.msgpack.encode([11, 1, "office", 1, 2, "text", b""])), Refused
    )


class Inner(Message):
    number: int


class Everything(Message):
    number: int
    word: str
    flag: bool
    pair: tuple[int, str]
    many: tuple[int, ...]
    some: frozenset[int]
    maybe: int | None
    inner: Inner


GOOD: list[Any] = [1, "a", True, [1, "b"], [1, 2], [1, 2], None, {"Inner": {"number": 5}}]
WRONG: list[Any] = [
    None,
    1.5,
    "a",
    1,
    True,
    b"a",
    [],
    [1],
    ["b", 1],
    {},
    {"Inner": {}},
    {"Other": {"number": 1}},
    [[1]],
    {1: 2},
]


def port_of(*kinds: type[Message]) -> PortCodec:
    from habemus.core.node import Known

    known = {kind.__name__: kind for kind in kinds}
    return PortCodec(Known(known, known))


def test_fields_must_have_their_declared_shapes() -> None:
    port = port_of(Everything, Inner)
    message = port.decode("Everything", GOOD)
    assert message == Everything(1, "a", True, (1, "b"), (1, 2), frozenset({1, 2}), None, Inner(5))
    refusals = 0
    for place in range(len(GOOD)):
        for wrong in WRONG:
            found = port.decode("Everything", [*GOOD[:place], wrong, *GOOD[place + 1 :]])
            if isinstance(found, Refused):
                refusals += 1
            else:
                _, fields = port.encode(found)  # what is accepted is what was written
                assert fields[place] == wrong and type(fields[place]) is type(wrong)
    assert refusals > 60
    assert port.decode("Everything", GOOD[:-1]) == Refused("Everything with 7 fields; it has 8")


class Zoned(Value):
    hour: int
    zone: str = "utc"


class News(Message):
    at: Zoned
    others: tuple[Zoned, ...] = ()
    urgent: bool = False


class Shell(Message):
    message: Message


def test_unknown_fields_are_ignored_and_missing_ones_have_their_default() -> None:
    """Between nodes of two releases; the fields that are known have their declared shapes."""
    port = port_of(News, Shell)
    longer = {"Zoned": {"hour": 7, "day": {"Day": {}}}}
    seven = Zoned(7, "utc")
    assert port.decode("News", [longer]) == News(seven)
    assert port.decode("News", [longer, [longer], True, "more", [{}]]) == News(
        seven, (seven,), True
    )
    assert port.decode("Shell", [{"News": {"at": longer, "by": 1}}]) == Shell(News(seven))
    for wrong in ({"Zoned": {"day": 1}}, {"Zoned": {"hour": "7", "day": 1}}, {"Zoned": 7}):
        found = port.decode("News", [wrong])
        assert isinstance(found, Refused) and not found.is_unknown


def test_a_message_of_an_unknown_type_is_told_from_a_malformed_one() -> None:
    """The first is dropped, the other ends the connection."""
    port = port_of(News, Shell)
    for kind, fields in (("Bell", []), ("Shell", [{"Bell": {"sound": "ding"}}])):
        found = port.decode(kind, fields)
        assert isinstance(found, Refused) and found.is_unknown and "'Bell'" in found.reason
    assert port.decode("Zoned", [7]) == Refused("unknown type of message 'Zoned'", is_unknown=True)


def test_values_nested_without_end_are_refused() -> None:
    port = port_of(Shell, Inner)
    nested: Any = {"Inner": {"number": 1}}
    for _ in range(300):
        nested = {"Shell": {"message": nested}}
    assert isinstance(port.decode("Shell", [nested]), Shell | Refused)
    deep = msgspec.msgpack.encode([1, 0, "x", 2, 1, 0, "S"])[:-1] + b"\x91" * 100_000 + b"\x00"
    assert isinstance(frame_of(b"\x98" + deep[1:]), Refused)


# Noise.

PORTS = [port for stack in (*STACKS.values(), *OVER.values()) for port in codecs_of(stack)]
KINDS = [*sorted({kind for port in PORTS for kind in port._kinds}), "Bell"]


def swallow(noise: bytes, draw: random.Random) -> None:
    """All that the node does with bytes from outside, up to the message."""
    for limit in (codec.HANDSHAKE_LIMIT, FRAME_LIMIT):
        for body in (noise, *Deframer(limit).feed(noise)):
            greeting_of(body)
            frame = frame_of(body)
            if isinstance(frame, MessageFrame):
                assert isinstance(
                    draw.choice(PORTS).decode(frame.kind, frame.fields), Message | Refused
                )


def mutated(draw: random.Random) -> bytes:
    """Half of it like real frames, which get further."""
    if draw.random() < 0.3:
        return draw.randbytes(draw.randrange(60))
    fields: list[Any] = [
        draw.choice(
            [0, 1, -1, 2**63, "x", None, True, [1, 2], [[1, 2]], {"Request": {}}, 1.5, b"x"]
        )
        for _ in range(draw.randrange(6))
    ]
    frame = draw.choice(
        [
            MessageFrame(
                draw.randrange(3),
                "x",
                draw.randrange(4),
                draw.randrange(4),
                draw.randrange(4),
                draw.choice(KINDS),
                fields,
            ),
            OpenFrame(0, "y"),
            Hello(1, "office", 1, 2, b"f", b"n"),
            Challenge(b"n", b"p", b"m", False, b"", (0, draw.randrange(3))),
        ]
    )
    body = bytearray(msgspec.msgpack.encode(frame))
    for _ in range(draw.randrange(3)):
        body[draw.randrange(len(body))] = draw.randrange(256)
    if draw.random() < 0.2:
        del body[draw.randrange(len(body)) :]
    return bytes(body) if draw.random() < 0.5 else framed(bytes(body))


def test_100_000_random_strings_do_no_harm() -> None:
    draw = random.Random(7)
    for _ in range(1_000):
        swallow(mutated(draw), draw)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(2_000):
            swallow(mutated(draw), draw)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 100_000
    assert peak - before < 10_000_000
    for _ in range(97_000):
        swallow(mutated(draw), draw)


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_bytes_that_somebody_looks_for_do_no_harm(noise: bytes) -> None:
    swallow(noise, random.Random(0))


json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.lists(json_like, max_size=6), st.sampled_from(PORTS), st.data())
def test_fields_that_somebody_looks_for_do_no_harm(
    fields: list[Any], port: PortCodec, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from([*port._kinds, "Bell"]))
    assert isinstance(port.decode(kind, fields), Message | Refused)


def test_announced_lengths_take_no_memory() -> None:
    tracemalloc.start()
    try:
        for head in (
            b"\xdd\xff\xff\xff\xff",
            b"\xdf\xff\xff\xff\xff",
            b"\xc6\xff\xff\xff\xff",
            b"\xdb\xff\xff\xff\xff",
            b"\xc9\xff\xff\xff\xff\x01",
        ):
            assert isinstance(frame_of(head), Refused)
            assert isinstance(frame_of(b"\x98\x01\x00\xa1x\x01\x02\x00\xa1A" + head), Refused)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


LATER = 1_000_000
"""More than the largest term grows between the collection of the tests and their run."""


@pytest.mark.parametrize(
    "message",
    [
        Heartbeat(OF_NEW_NODE.largest() + LATER),
        Sounding(1 << 62),
        Recorded(1, (OF_NEW_NODE.largest() + LATER, 1), 1),
        Recorded(1, (1, 1 << 32), 1),
        Record(1, Loan(1, (1 << 62, 1), 1, 1), 1),
        Numbered(1, Heartbeat(1 << 62)),
    ],
)
def test_terms_and_tokens_that_no_cluster_can_have_reached_are_refused(message: Message) -> None:
    """A cluster that adopts the largest number there is holds no election any more."""
    known: Any = {
        cls.__name__: cls for cls in (Heartbeat, Sounding, Recorded, Record, Loan, Numbered)
    }
    port = PortCodec(known)
    refused = port.decode(*port.encode(message))
    assert isinstance(refused, Refused)
    assert "exceeds the bound" in refused.reason


def test_what_a_cluster_pushed_to_the_ceiling_says_is_taken_as_time_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known: Any = {"Heartbeat": Heartbeat}
    port = PortCodec(known)
    monkeypatch.setattr("habemus.boottime.seconds", lambda: 100.0)
    bound = TermBound()
    sent = Heartbeat(TERMS_AHEAD + 2)
    assert isinstance(port.decode(*port.encode(sent), bound), Refused)
    monkeypatch.setattr("habemus.boottime.seconds", lambda: 101.0)
    assert port.decode(*port.encode(sent), bound) == sent


def test_no_term_is_above_the_largest_one_however_large_those_are_that_were_stored() -> None:
    class Stored:
        term = LARGEST_TERM - 1

    bound = TermBound()
    bound.note_stored([Stored()])
    assert not bound.has_passed(LARGEST_TERM)
    assert bound.has_passed(LARGEST_TERM + 1)
