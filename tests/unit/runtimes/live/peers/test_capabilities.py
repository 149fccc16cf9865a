"""Nodes of two versions: what one does not understand is not sent to it, or left out."""

import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import virtual

from habemus.catalog.entries import entries
from habemus.core import Durable, Message, Process, ProcessId, System, Uses, Value, request, upon
from habemus.core.system import complete
from habemus.deployment.services import live_options, services_of
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.peers.capabilities import (
    Capabilities,
    PartForm,
    PeerCodecs,
    ServiceForm,
    StackForm,
    ValueForm,
    capabilities_of,
    decoded_capabilities,
)
from habemus.runtimes.live.peers.codec import CHALLENGE_LIMIT, Refused
from habemus.runtimes.live.peers.frames import NotUnderstood, OpenFrame
from habemus.runtimes.live.storage.log import CorruptStorage


class Stamp(Value):
    number: int


class News(Message):
    count: int
    stamp: Stamp


class Counting(Process):
    """The version that runs today."""

    count: Durable[int] = 0
    heard: list[News] = []

    @request
    def add(self) -> None:
        self.count += 1
        self.broadcast(News(self.count, Stamp(self.count)))

    @upon(News)
    def hear(self, sender: ProcessId, news: News) -> None:
        self.heard.append(news)


TODAY = System(dict.fromkeys((1, 2, 3), Counting()), complete((1, 2, 3)), (1, 2, 3))


def next_version() -> System:
    """The next version: one more message type, part and durable variable, two more fields."""

    class Ping(Message):
        pass

    class Below(Process):
        @request
        def ping(self) -> None:
            self.broadcast(Ping())

        @upon(Ping)
        def pong(self, sender: ProcessId, ping: Ping) -> None: ...

    class Stamp(Value):
        number: int
        zone: str = "utc"

    class Alert(Message):
        text: str

    class News(Message):
        count: int
        stamp: Stamp
        urgent: bool = False

    class Counting(Process):
        below: Uses[Below]
        count: Durable[int] = 0
        alerts: Durable[int] = 7
        heard: list[News] = []
        alerted: list[str] = []

        @request
        def add(self) -> None:
            self.count += 1
            self.broadcast(Alert("now"))  # sorted before the other message type
            self.broadcast(News(self.count, Stamp(self.count, "cet"), urgent=True))
            self.below.ping()

        @upon(News)
        def hear(self, sender: ProcessId, news: News) -> None:
            self.heard.append(news)

        @upon(Alert)
        def alert(self, sender: ProcessId, alert: Alert) -> None:
            self.alerted.append(alert.text)

    plan = Counting(below=Below())
    return System(dict.fromkeys((1, 2, 3), plan), complete((1, 2, 3)), (1, 2, 3))


NEXT = next_version()


def heard(node: Any) -> list[str]:
    return [repr(each) for each in part(node).heard]


def part(node: Any) -> Any:
    return node.participant("counts", "x").pure.parts[0]


async def all_connected(cluster: Any, nodes: dict[int, Any]) -> None:
    for node in nodes.values():
        await cluster.until(lambda node=node: len(node.reaches()) == len(nodes) - 1)


def test_nodes_are_upgraded_one_after_the_other(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with cluster({"counts": TODAY}, only=(1, 3)) as made:
            old = made.nodes[1]
            made.services = {"counts": NEXT}
            new = await made.start(2)
            await all_connected(cluster, made.nodes)
            await new.request("counts", "x", "add")
            await old.request("counts", "x", "add")
            await cluster.until(lambda: heard(old) and heard(new))
            # what the old one does not know is left out or not sent, the new one takes its default
            assert heard(old) == ["News(count=1, stamp=Stamp(number=1))"]
            assert heard(new) == ["News(count=1, stamp=Stamp(number=1, zone='utc'), urgent=False)"]
            assert new.counts["not understood"] == 4  # Alert and Ping to nodes 1 and 3
            assert old.counts["not understood"] == 0
            await made.stop(1)
            upgraded = await made.start(1)
            assert (part(upgraded).count, part(upgraded).alerts) == (1, 7)
            await all_connected(cluster, made.nodes)
            await new.request("counts", "x", "add")
            await cluster.until(lambda: part(upgraded).alerted == ["now"])
            await cluster.until(lambda: bool(heard(upgraded)))
            assert heard(upgraded) == [
                "News(count=2, stamp=Stamp(number=2, zone='cet'), urgent=True)"
            ]

    with caplog.at_level(logging.WARNING):
        virtual.run(main())
    assert "node 1 has another version" in caplog.text
    assert "it does not understand Alert" in caplog.text
    assert "refused" not in caplog.text


def test_the_memory_of_a_later_version_is_refused(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": NEXT}, only=(1,)) as made:
            await made.nodes[1].request("counts", "x", "add")
            await made.stop(1)
            made.services = {"counts": TODAY}
            with pytest.raises(CorruptStorage, match=r"it has :Counting\.alerts; .* later version"):
                await made.start(1)
            made.nodes.clear()
            made.services = {"counts": NEXT}
            assert part(await made.start(1)).count == 1

    virtual.run(main())


def test_frames_that_wait_for_a_peer_of_another_version_are_dropped(cluster: Any) -> None:
    """They are encoded for the version that the peer had."""

    async def main() -> None:
        async with cluster({"counts": TODAY}) as made:
            await all_connected(cluster, made.nodes)
            one = made.nodes[1]
            await one.request("counts", "x", "add")
            await made.stop(2)
            await cluster.until(lambda: one.reaches() == [3])
            await one.request("counts", "x", "add")  # waits
            lost = one.counts["lost"]
            made.services = {"counts": NEXT}
            await made.start(2)
            await cluster.until(lambda: one.reaches() == [2, 3])
            assert one.counts["lost"] > lost
            await one.request("counts", "x", "add")
            two = made.nodes[2]
            await cluster.until(lambda: bool(heard(two)))
            assert heard(two) == ["News(count=3, stamp=Stamp(number=3, zone='utc'), urgent=False)"]

    virtual.run(main())


def test_frames_of_an_unknown_type_are_not_sent(cluster: Any) -> None:
    async def main() -> None:
        async with cluster({"counts": TODAY}) as made:
            await all_connected(cluster, made.nodes)
            one = made.nodes[1]
            codecs = one._peer_codecs
            theirs = msgspec.structs.replace(codecs.peers[2], frames=[1, 8])
            codecs.learn(2, theirs)
            assert not codecs.understands(2, OpenFrame(0, "x"))
            assert codecs.understands(3, OpenFrame(0, "x"))
            one.send(2, OpenFrame(0, "x"))
            assert one.counts["not understood"] == 1

    virtual.run(main())


# Fields, one by one.


def codecs(first: type[Message], other: type[Message]) -> tuple[PeerCodecs, Any, Any]:
    """Return the codecs of a node that knows the first message, for peer 2, which knows the other;
    and the codec of each.
    """
    made = []
    for kind in (first, other):

        def hear(self: Any, sender: ProcessId, message: Message) -> None: ...

        hear.__annotations__ = {}
        metaclass: Any = type(Process)
        cls = metaclass("Hearing", (Process,), {"hear": upon(kind)(hear)})
        system = System(dict.fromkeys((1, 2), cls()), complete((1, 2)), (1, 2))
        made.append(Service("s", system, (1, 2)))
    own = PeerCodecs([made[0]])
    own.learn(2, capabilities_of([made[1]]))
    return own, own.codecs[0][2][0], made[1].codecs[2][0]


def version(name: str, base: type = Message, /, **fields: Any) -> Any:
    """Return a value type with these fields: types, or pairs of a type and a default."""
    namespace: dict[str, Any] = {
        "__annotations__": {
            key: each[0] if isinstance(each, tuple) else each for key, each in fields.items()
        }
    }
    namespace |= {key: each[1] for key, each in fields.items() if isinstance(each, tuple)}
    return type(base)(name, (base,), namespace)


def many(item: Any) -> Any:
    return tuple[item, ...]


SHORT = version("News", a=int)
LONG = version("News", a=int, b=(int, 5))
INNER = version("Inner", Value, a=int)
INNER_LONG = version("Inner", Value, a=int, b=(int, 5))


@pytest.mark.parametrize(
    ("first", "other", "sent", "received"),
    [
        (SHORT, LONG, SHORT(1), LONG(1, 5)),
        (LONG, SHORT, LONG(1, 2), SHORT(1)),
        (LONG, LONG, LONG(1, 2), LONG(1, 2)),
        # reordered, and the type of a field with a default changed
        (version("News", b=int, a=int), LONG, (2, 1), LONG(1, 2)),
        (LONG, version("News", a=int, b=(str, "x")), LONG(1, 2), (1, "x")),
        # in a value, also in a list of them
        (version("News", i=INNER), version("News", i=INNER_LONG), (INNER(1),), (INNER_LONG(1),)),
        (version("News", i=INNER_LONG), version("News", i=INNER), (INNER_LONG(1),), (INNER(1),)),
        (
            version("News", i=many(INNER_LONG)),
            version("News", i=many(INNER)),
            ((INNER_LONG(1), INNER_LONG(2)),),
            ((INNER(1), INNER(2)),),
        ),
    ],
)
def test_fields_are_left_out_or_have_their_default(
    first: Any, other: Any, sent: Any, received: Any
) -> None:
    _, encoder, decoder = codecs(first, other)
    sent = first(*sent) if isinstance(sent, tuple) else sent
    received = other(*received) if isinstance(received, tuple) else received
    assert decoder.decode(*encoder.encode(sent)) == received


@pytest.mark.parametrize(
    ("first", "other", "sent"),
    [
        (SHORT, version("Other", a=int), SHORT(1)),
        (SHORT, version("News", a=str), SHORT(1)),
        (SHORT, version("News", a=int, b=int), SHORT(1)),
        (LONG, version("News", a=int, c=(int, 1), b=(int, 2)), LONG(1, 2)),  # not at the end
        (
            version("News", i=INNER),
            version("News", i=version("Inner", Value, a=int, c=int)),
            (INNER(1),),
        ),
        (version("News", i=INNER), version("News", i=version("Other", Value, a=int)), (INNER(1),)),
    ],
)
def test_what_the_peer_could_not_decode_is_not_sent(first: Any, other: Any, sent: Any) -> None:
    _, encoder, _ = codecs(first, other)
    sent = first(*sent) if isinstance(sent, tuple) else sent
    with pytest.raises(NotUnderstood):
        encoder.encode(sent)


def test_nothing_is_translated_where_both_understand_the_same() -> None:
    own, encoder, _ = codecs(LONG, version("News", a=int, b=(int, 5)))
    assert encoder is own._services[0].codecs[2][0]


# All algorithms, and all that can arrive.


def catalog() -> list[Service]:
    return [
        service
        for name in entries()
        for over in ("", "perfect")
        for service in live_services(name, over)
    ]


def live_services(algorithm: str, over: str) -> list[Service]:
    try:
        return services_of(
            f"{algorithm}{over}", algorithm, live_options(algorithm, ()), over, (1, 2, 3)
        )
    except ValueError:  # has links of its own
        return []


def test_the_capabilities_of_all_algorithms_fit_into_one_challenge() -> None:
    services = catalog()
    own = capabilities_of(services)
    content = msgspec.msgpack.encode(own)
    assert decoded_capabilities(content) == own
    assert len(services) > 60 and len(content) < CHALLENGE_LIMIT // 2
    usual = capabilities_of(live_services("elected-coordinator-leased", ""))
    assert len(msgspec.msgpack.encode(usual)) < 1_000


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_bytes_instead_of_capabilities_do_no_harm(noise: bytes) -> None:
    assert isinstance(decoded_capabilities(noise), Capabilities | Refused)


numbers = st.integers(-2, 40) | st.integers(-(2**63), 2**64 - 1)
names = st.sampled_from(["News", "Stamp", "Value", "", "x"]) | st.text(max_size=5)
forms = st.builds(ValueForm, names, numbers, st.lists(numbers, max_size=4))
foreign = st.builds(
    Capabilities,
    numbers,
    numbers,
    names,
    st.lists(numbers, max_size=9),
    st.lists(
        st.builds(PartForm, st.lists(forms, max_size=3), st.lists(forms, max_size=3)), max_size=3
    ),
    st.dictionaries(
        st.just("counts") | names,
        st.builds(
            ServiceForm,
            st.lists(
                st.builds(
                    StackForm,
                    st.lists(st.tuples(st.just("") | names, numbers), max_size=3),
                    st.lists(names, max_size=2),
                ),
                max_size=2,
            ),
            st.dictionaries(numbers, numbers, max_size=4),
        ),
        max_size=2,
    ),
)


@settings(max_examples=300)
@given(foreign)
def test_capabilities_that_no_node_has_do_no_harm(theirs: Capabilities) -> None:
    own = PeerCodecs([Service("counts", TODAY, (1, 2, 3))])
    received = decoded_capabilities(msgspec.msgpack.encode(theirs))
    assert received == theirs
    own.learn(2, theirs)
    own.durable_variables(2, "counts", 2)
    own.understands(2, OpenFrame(0, "x"))
    for message in (News(1, Stamp(1)),):
        try:
            kind, fields = own.codecs[0][2][0].encode(message)
        except NotUnderstood:
            continue
        assert kind < 3 and len(fields) < 5


def test_a_node_with_too_many_services_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("habemus.runtimes.live.peers.capabilities.CAPABILITIES_LIMIT", 50)
    with pytest.raises(ValueError, match=r"too many services: .* bytes, the limit is 50"):
        PeerCodecs([Service("counts", TODAY, (1, 2, 3))])


def test_capabilities_of_later_versions_may_have_more_fields() -> None:
    own = capabilities_of([Service("counts", TODAY, (1, 2, 3))])
    content = msgspec.msgpack.decode(msgspec.msgpack.encode(own))
    assert decoded_capabilities(msgspec.msgpack.encode([*content, {"more": [1]}])) == own
