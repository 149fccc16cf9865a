"""The handshake: those who belong together agree, and everybody else is refused, for a reason."""

from importlib.metadata import version
from itertools import product

import msgspec
import pytest

from habemus.runtimes.live.clients.protocol import WIRE_VERSION
from habemus.runtimes.live.peers.codec import Refused, greeting_of
from habemus.runtimes.live.peers.frames import Challenge, Greeting, Hello, Proof, Rejection, Welcome
from habemus.runtimes.live.peers.handshake import AnswererHandshake, DiallerHandshake, Identity
from habemus.runtimes.live.peers.membership import Membership
from habemus.runtimes.live.storage.log import StorageFailed

SECRET = b"a secret of the cluster"


def unexpected(reason: StorageFailed) -> None:
    raise reason


def identity(
    node: int,
    secret: bytes | None = SECRET,
    cluster: str = "office",
    fingerprint: bytes = b"f",
) -> Identity:
    return Identity(
        cluster,
        node,
        frozenset({1, 2, 3} - {node}),
        fingerprint,
        secret,
        Membership(None, node, (), unexpected),
    )


def greet(dialler: DiallerHandshake, answerer: AnswererHandshake) -> str:
    """Lets the two talk; gives the reason of the refusal, or nothing."""
    said: Greeting = dialler.hello()
    for _ in range(10):
        reply = answerer.answer(said)
        if isinstance(reply, Refused):
            return reply.reason
        answer = dialler.answer(reply)
        if isinstance(answer, Refused):
            return answer.reason
        if answer is None:
            return ""
        said = answer
    raise AssertionError("they talk for ever")


@pytest.mark.parametrize("secret", [SECRET, None])
def test_two_nodes_of_a_cluster(secret: bytes | None) -> None:
    dialler, answerer = (
        DiallerHandshake(identity(1, secret), 2),
        AnswererHandshake(identity(2, secret)),
    )
    assert greet(dialler, answerer) == ""
    assert dialler.is_welcome
    assert answerer.peer == 1


@pytest.mark.parametrize(
    ("dialler", "peer", "answerer", "reason"),
    [
        (
            identity(1, b"another secret, as long"),
            2,
            identity(2),
            "wrong cluster secret at node 2",
        ),
        (identity(1, None), 2, identity(2), "wrong cluster secret"),
        (identity(1), 2, identity(2, None), "wrong cluster secret"),
        (identity(1, cluster="home"), 2, identity(2), "is in 'office', not 'home'"),
        (identity(1), 3, identity(2), "this is node 2, not node 3"),
        (identity(2), 2, identity(2), "node 2 is not a peer"),
        (identity(7), 2, identity(2), "node 7 is not a peer"),
        (identity(1, fingerprint=b"g"), 2, identity(2), "different services"),
    ],
)
def test_who_does_not_belong_here(
    dialler: Identity, peer: int, answerer: Identity, reason: str
) -> None:
    answering = AnswererHandshake(answerer)
    assert reason in greet(DiallerHandshake(dialler, peer), answering)
    assert answering.peer is None


@pytest.mark.parametrize(
    ("theirs", "upgrade"),
    [
        (WIRE_VERSION + 1, "node 2 to the release of node 1"),
        (WIRE_VERSION - 1, "node 1 to the release of node 2"),
    ],
)
def test_another_wire_version_is_refused(theirs: int, upgrade: str) -> None:
    """With fields that this one does not have, or of another cluster: first of all the version."""
    hello = DiallerHandshake(identity(1, cluster="home"), 2).hello()
    fields = [
        11,
        *msgspec.structs.astuple(msgspec.structs.replace(hello, wire=theirs)),
        {"more": 1},
    ]
    greeting = greeting_of(msgspec.msgpack.encode(fields))
    assert isinstance(greeting, Hello)
    assert AnswererHandshake(identity(2)).answer(greeting) == Refused(
        f"node 1 speaks wire version {theirs}, and node 2 (habemus {version('habemus')}) speaks"
        f" {WIRE_VERSION}: upgrade {upgrade}"
    )


def test_fields_that_one_node_does_not_know_do_not_spoil_the_proof() -> None:
    """A node of another release, with the same wire version, may have added some to greetings."""

    def received(greeting: Greeting | Refused | None) -> Greeting:
        assert isinstance(greeting, Greeting)
        tag = type(greeting).__struct_config__.tag
        fields = [tag, *msgspec.structs.astuple(greeting), "more"]
        found = greeting_of(msgspec.msgpack.encode(fields))
        assert not isinstance(found, Refused)
        return found

    dialler, answerer = DiallerHandshake(identity(1), 2), AnswererHandshake(identity(2))
    proof = dialler.answer(received(answerer.answer(received(dialler.hello()))))
    assert dialler.answer(received(answerer.answer(received(proof)))) is None
    assert dialler.is_welcome and answerer.peer == 1


OTHER = {"configuration": (3, 7), "replaces": True, "excludes": True, "address": "b:1", "wire": 7}


@pytest.mark.parametrize(
    "field", ["memory", "replaces", "knows", "configuration", "excludes", "nonce"]
)
def test_the_answerer_proves_all_that_it_says(field: str) -> None:
    dialler, answerer = DiallerHandshake(identity(1), 2), AnswererHandshake(identity(2))
    challenge = answerer.answer(dialler.hello())
    assert isinstance(challenge, Challenge)
    forged = msgspec.structs.replace(challenge, **{field: OTHER.get(field, b"x")})
    assert dialler.answer(forged) == Refused("wrong cluster secret at node 2")


@pytest.mark.parametrize(
    "field", ["wire", "memory", "replaces", "fingerprint", "nonce", "configuration", "address"]
)
def test_the_dialler_proves_all_that_it_says(field: str) -> None:
    me, answerer = identity(2), AnswererHandshake(identity(2))
    hello = DiallerHandshake(identity(1), 2).hello()
    challenge = answerer.answer(hello)
    assert isinstance(challenge, Challenge)
    forged = msgspec.structs.replace(hello, **{field: OTHER.get(field, b"x")})
    assert me.proof("dials", hello, challenge) != me.proof("dials", forged, challenge)


def test_a_dialler_that_lies_about_the_secret_is_found_out_by_the_answerer() -> None:
    answerer = AnswererHandshake(identity(2))
    assert isinstance(answerer.answer(DiallerHandshake(identity(1), 2).hello()), Challenge)
    refusal = answerer.answer(Proof(b"x" * 32))
    assert isinstance(refusal, Refused)
    assert answerer.peer is None


def test_a_recorded_handshake_is_worthless() -> None:
    dialler, answerer = DiallerHandshake(identity(1), 2), AnswererHandshake(identity(2))
    hello = dialler.hello()
    challenge = answerer.answer(hello)
    assert isinstance(challenge, Challenge)
    proof = dialler.answer(challenge)
    assert isinstance(proof, Proof)
    assert isinstance(answerer.answer(proof), Welcome)
    again = AnswererHandshake(identity(2))
    assert isinstance(again.answer(hello), Challenge)
    assert isinstance(again.answer(proof), Refused)
    # and a recorded answerer is one too
    assert isinstance(DiallerHandshake(identity(1), 2).answer(challenge), Refused)


def test_a_proof_is_good_for_one_side_and_one_pair() -> None:
    answerer = AnswererHandshake(identity(2))
    hello = DiallerHandshake(identity(1), 2).hello()
    challenge = answerer.answer(hello)
    assert isinstance(challenge, Challenge)
    assert isinstance(
        answerer.answer(Proof(challenge.proof)), Refused
    )  # sent back to whoever made it
    third = DiallerHandshake(identity(3), 2)
    in_between = AnswererHandshake(identity(2))
    first = third.hello()
    forged = Hello(
        first.wire, first.cluster, 1, 2, first.fingerprint, first.nonce
    )  # 3 says that it is 1
    challenge = in_between.answer(forged)
    assert isinstance(challenge, Challenge)
    assert isinstance(third.answer(challenge), Refused)


def test_the_name_in_the_certificate_must_be_that_of_the_node() -> None:
    asked: list[str] = []

    def is_named(name: str) -> bool:
        asked.append(name)
        return name == "node-3.office"

    assert "certificate does not name node-1.office" in greet(
        DiallerHandshake(identity(1), 2), AnswererHandshake(identity(2), is_named)
    )
    assert greet(DiallerHandshake(identity(3), 2), AnswererHandshake(identity(2), is_named)) == ""
    assert asked == ["node-1.office", "node-3.office"]


def test_nothing_out_of_turn() -> None:
    hello = DiallerHandshake(identity(1), 2).hello()
    others: list[Greeting] = [Challenge(b"", b""), Proof(b""), Welcome(), Rejection("no")]
    for one in others:
        assert isinstance(AnswererHandshake(identity(2)).answer(one), Refused)
    for one, other in product([hello, *others], repeat=2):
        answerer = AnswererHandshake(identity(2))
        answerer.answer(one)
        answerer.answer(other)
        assert answerer.peer is None
        dialler = DiallerHandshake(identity(1), 2)
        dialler.answer(one)
        dialler.answer(other)
        assert not dialler.is_welcome


Age = tuple[int, int]


class Members:
    """The nodes of a configuration, and what was heard of others."""

    def __init__(self, age: Age, *nodes: int) -> None:
        self._age = age
        self.nodes = nodes
        self.heard: list[tuple[int, Age]] = []
        self.learned: list[tuple[int, Age, bytes, str]] = []

    def age(self) -> Age:
        return self._age

    def address(self) -> str:
        return "10.0.0.1:7400"

    def excludes(self, node: int) -> bool:
        return bool(self.nodes) and node not in self.nodes

    def hear_exclusion(self, peer: int, age: Age) -> None:
        self.heard.append((peer, age))

    def has_learned(self, peer: int, age: Age, memory: bytes, address: str) -> bool:
        if age > self._age:
            self.learned.append((peer, age, memory, address))
        return age > self._age


@pytest.mark.parametrize("secret", [SECRET, b"another secret, as long"])
def test_a_node_that_was_removed_hears_of_it_from_a_node_that_knows_the_secret(
    secret: bytes,
) -> None:
    removed, left = Members((1, 3), 1, 2, 7), Members((1, 5), 1, 2)
    dialler = DiallerHandshake(identity(7)._replace(configuration=removed), 2)
    answerer = AnswererHandshake(identity(2, secret)._replace(configuration=left))
    reason = greet(dialler, answerer)
    if secret == SECRET:
        assert (reason, removed.heard) == ("node 2 has removed node 7", [(2, (1, 5))])
    else:
        assert (reason, removed.heard) == ("wrong cluster secret at node 2", [])
    assert answerer.peer is None


def test_a_removed_node_that_ignores_the_challenge_is_refused() -> None:
    answerer = AnswererHandshake(identity(2)._replace(configuration=Members((1, 5), 1, 2)))
    hello = DiallerHandshake(identity(7), 2).hello()
    challenge = answerer.answer(hello)
    assert isinstance(challenge, Challenge)
    reply = answerer.answer(Proof(identity(7).proof("dials", hello, challenge)))
    assert isinstance(reply, Refused) and reply.reason == "node 7 is not a peer of node 2"
    assert answerer.peer is None


class Memories:
    """The memories of a node and its peers; notes who disowns the node."""

    replaces = False

    def __init__(self, identity: bytes, known: dict[int, bytes]) -> None:
        self.identity = identity
        self._known = known
        self.disowned: list[int] = []

    def known(self, peer: int) -> bytes:
        return self._known.get(peer, b"")

    def objection(self, peer: int, identity: bytes, replaces: bool) -> str:
        return "" if self.known(peer) in (b"", identity) else f"another memory of node {peer}"

    def meet(self, peer: int, identity: bytes) -> None: ...

    def accepted_by(self, peer: int) -> None: ...

    def disowned_by(self, peer: int, known: bytes) -> None:
        self.disowned.append(peer)


AGES = [(0, 0), (1, 3), (2, 3), (1, 4)]


@pytest.mark.parametrize(("mine", "theirs"), list(product(AGES, repeat=2)))
@pytest.mark.parametrize("known", [b"me", b"before me", b""])
def test_the_newer_configuration_wins(mine: Age, theirs: Age, known: bytes) -> None:
    """The dialler has joined in its configuration; the answerer may have missed that."""
    my_memories, memories = Memories(b"me", {}), Memories(b"you", {1: known} if known else {})
    my_members, members = Members(mine, 1, 2), Members(theirs, 1, 2)
    me = identity(1)._replace(configuration=my_members, members=my_memories)
    peers = frozenset({1} if known else ())
    you = identity(2)._replace(configuration=members, members=memories, peers=peers)
    answerer, dialler = AnswererHandshake(you), DiallerHandshake(me, 2)
    reason = greet(dialler, answerer)
    if reason:
        assert isinstance(dialler.answer(Rejection(reason)), Refused)
    is_accepted = known == b"me" or mine > theirs
    assert (answerer.peer == 1) is is_accepted is (reason == "")
    has_missed = known != b"me" and is_accepted
    assert members.learned == ([(1, mine, b"me", "10.0.0.1:7400")] if has_missed else [])
    assert my_memories.disowned == ([2] if known == b"before me" and mine <= theirs else [])
    assert my_members.heard == []


@pytest.mark.parametrize(("mine", "theirs"), list(product(AGES, repeat=2)))
def test_a_node_dials_no_peer_with_another_memory(mine: Age, theirs: Age) -> None:
    """Even if that has a newer configuration: it has to show that it has stored it, by dialling."""
    me = identity(1)._replace(
        configuration=Members(mine, 1, 2), members=Memories(b"me", {2: b"before you"})
    )
    you = identity(2)._replace(
        configuration=Members(theirs, 1, 2), members=Memories(b"you", {1: b"me"})
    )
    reason = greet(DiallerHandshake(me, 2), AnswererHandshake(you))
    assert ("waiting until it connects" in reason) is (theirs > mine)
    assert ("another memory of node 2" in reason) is (theirs <= mine)
