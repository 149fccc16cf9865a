"""Values: frozen, compared by type and fields, refused when a field could change."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import types
from enum import Enum
from itertools import pairwise, permutations
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habemus.core import Indication, Message, ProcessId, Timer, Value
from habemus.core.shapes import Malformed, UnsupportedType
from habemus.core.values import canonical, from_plain, size_of, to_plain

relaxed = settings(derandomize=True)


class Mode(Enum):
    EAGER = 1
    LAZY = 2


class Ack(Message):
    pass


class Release(Message):
    pass


class Request(Message):
    stamp: int
    sender: ProcessId = 0


class Urgent(Request):
    level: int = 1


class Batch(Message):
    requests: tuple[Request, ...]
    done: frozenset[int] = frozenset()
    mode: Mode = Mode.EAGER
    last: Request | None = None


class Envelope(Message):
    inner: Message


class Retry(Timer):
    peer: ProcessId


class Suspected(Indication):
    process: ProcessId


CLASSES: tuple[type[Value], ...] = (
    Ack,
    Release,
    Request,
    Urgent,
    Batch,
    Envelope,
    Retry,
    Suspected,
)
KNOWN: dict[str, type] = {cls.__name__: cls for cls in CLASSES}

requests = st.builds(Request, st.integers(0, 3), st.integers(0, 3))
messages = st.one_of(
    st.just(Ack()),
    st.just(Release()),
    requests,
    st.builds(Urgent, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)),
    st.builds(
        Batch,
        st.lists(requests, max_size=2).map(tuple),
        st.frozensets(st.integers(0, 3)),
        st.sampled_from(Mode),
        st.none() | requests,
    ),
)
values = st.one_of(
    messages,
    st.builds(Envelope, messages),
    st.builds(Retry, st.integers(0, 3)),
    st.builds(Suspected, st.integers(0, 3)),
)


def made(name: str, base: type[Value], **namespace: Any) -> Any:
    """Make a class that a class statement could not define for the type checker."""
    return types.new_class(
        name,
        (base,),
        exec_body=lambda body: body.update(
            namespace, __module__=namespace.get("__module__", __name__)
        ),
    )


def fields_of(value: Value) -> tuple[Any, ...]:
    return tuple(getattr(value, field) for field in type(value).__fields__)


# Equality, hash, order.


def test_values_of_different_types_are_never_equal() -> None:
    ack: object = Ack()
    retry: object = Retry(1)
    assert ack != Release()
    assert not ack == Release()  # noqa: SIM201  # two methods, and both must see the type
    assert retry != Suspected(1)
    assert Request(1, 2) != Urgent(1, 2)
    assert Urgent(1, 2) != Request(1, 2)
    assert ack == Ack()
    assert len({Ack(), Release(), Ack(), Retry(1), Suspected(1)}) == 4


def test_a_value_is_not_a_tuple() -> None:
    request: object = Request(1, 2)
    ack: object = Ack()
    assert request != (1, 2)
    assert ack != ()
    assert ack != None  # noqa: E711  # the comparison is what is under test


@relaxed
@given(values, values)
def test_equality_is_that_of_type_and_fields(one: Value, other: Value) -> None:
    same = type(one) is type(other) and fields_of(one) == fields_of(other)
    assert (one == other) == same
    assert (one != other) == (not same)
    if same:
        assert hash(one) == hash(other)


@relaxed
@given(values)
def test_a_value_made_again_from_its_fields_is_the_same(value: Value) -> None:
    cls = type(value)
    again = cls(*fields_of(value))
    assert again is not value
    assert again == value
    assert hash(again) == hash(value)
    assert cls(**dict(zip(cls.__fields__, fields_of(value), strict=True))) == value


ordered = st.one_of(
    st.just(Ack()),
    st.just(Release()),
    requests,
    st.builds(Urgent, st.integers(0, 3), st.integers(0, 3)),
    st.builds(Retry, st.integers(0, 3)),
)


@relaxed
@given(st.lists(ordered, max_size=6), st.randoms(use_true_random=False))
def test_values_have_one_order_whatever_their_types(mixed: list[Value], shuffle: Any) -> None:
    in_order = sorted(mixed)
    shuffle.shuffle(mixed)
    assert sorted(mixed) == in_order
    for one, other in pairwise(in_order):
        assert one == other or one < other
        assert not other < one


def test_values_of_one_type_are_ordered_by_their_fields() -> None:
    assert sorted([Request(2, 1), Request(1, 9), Request(1, 2)]) == [
        Request(1, 2),
        Request(1, 9),
        Request(2, 1),
    ]
    assert not Request(1, 1) < Request(1, 1)
    assert max(Request(1, 2), Request(1, 3)) == Request(1, 3)


def test_hashes_do_not_go_into_what_leaves_the_program() -> None:
    """`hash(str)` differs between programs; the written form must not."""
    program = """
from habemus.core import Message
from habemus.core.values import canonical, to_plain
class Names(Message):
    names: frozenset[str]
print(canonical(to_plain(Names(frozenset({"a", "b", "c", "d", "e"})))))
"""
    written = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert written == {'{"Names":{"names":["a","b","c","d","e"]}}\n'}


# Frozen.


@pytest.mark.parametrize("value", [Request(1), Ack(), Urgent(1)])
def test_a_value_does_not_change(value: Value) -> None:
    for name in ("stamp", "undeclared"):
        with pytest.raises(AttributeError, match="is a value and does not change"):
            setattr(value, name, 2)
        with pytest.raises(AttributeError, match="is a value and does not change"):
            delattr(value, name)
    assert not hasattr(value, "__dict__")


@relaxed
@given(values)
def test_copies_and_pickles_are_equal(value: Value) -> None:
    assert copy.copy(value) == value
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value


# Fields.


def test_defaults_and_inherited_fields() -> None:
    assert Request(5) == Request(stamp=5, sender=0)
    assert Urgent(5) == Urgent(stamp=5, sender=0, level=1)
    assert list(Urgent.__fields__) == ["stamp", "sender", "level"]
    assert repr(Urgent(5)) == "Urgent(stamp=5, sender=0, level=1)"
    assert repr(Ack()) == "Ack()"
    with pytest.raises(TypeError, match="stamp"):
        Request()  # type: ignore[call-arg]  # the mistake under test
    with pytest.raises(TypeError):
        Request(1, 2, 3)  # type: ignore[call-arg]  # the mistake under test
    with pytest.raises(TypeError, match="stmp"):
        Request(stmp=1)  # type: ignore[call-arg]  # the mistake under test


def test_a_default_of_a_base_can_be_given_anew() -> None:
    class Later(Request):
        sender: ProcessId = 9

    assert Later(1).sender == 9
    assert Request(1).sender == 0
    assert list(Later.__fields__) == ["stamp", "sender"]


def test_values_are_taken_apart_by_patterns() -> None:
    match Request(3, 4):
        case Request(stamp, sender):
            assert (stamp, sender) == (3, 4)
        case _:
            pytest.fail("a value matches its own class")


def test_class_variables_are_not_fields() -> None:
    class Counted(Message):
        limit: ClassVar[int] = 5
        number: int = 0

    assert list(Counted.__fields__) == ["number"]
    assert Counted.limit == Counted(1).limit == 5


def test_methods_properties_and_super_work() -> None:
    class Base(Message):
        stamp: int

        def older(self) -> int:
            return self.stamp - 1

    class Derived(Base):
        @property
        def double(self) -> int:
            return 2 * self.stamp

        def older(self) -> int:
            return super().older() - 1

    assert Derived(5).older() == 3
    assert Derived(5).double == 10


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ("list[int]", r"Wrong\.field: list\[int\] can change"),
        ("set[int]", r"Wrong\.field: set\[int\] can change"),
        ("dict[int, int]", r"Wrong\.field: dict\[int, int\] can change"),
        ("tuple[list[int], ...]", r"Wrong\.field: list\[int\] inside a tuple"),
        ("list[int] | None", r"Wrong\.field: list\[int\] inside a union"),
        ("float", r"Wrong\.field: float: use int"),
        ("object", r"Wrong\.field: object: use int"),
        ("tuple", r"Wrong\.field: tuple without the type"),
        ("Missing", "Wrong: name 'Missing' is not defined"),
    ],
)
def test_a_field_that_could_change_or_is_unknown_is_refused_by_name(
    annotation: str, reason: str
) -> None:
    with pytest.raises(UnsupportedType, match=reason):
        made("Wrong", Message, __annotations__={"field": annotation})


def test_local_classes_see_the_names_around_them() -> None:
    class Side(Enum):
        LEFT = 1
        RIGHT = 2

    class Turn(Message):
        side: Side

    class Turns(Message):
        turns: tuple[Turn, ...] = ()

    value = Turns((Turn(Side.LEFT),))
    known: dict[str, type] = {"Turn": Turn, "Turns": Turns}
    assert to_plain(value) == {"Turns": {"turns": [{"Turn": {"side": "LEFT"}}]}}
    assert from_plain(to_plain(value), known) == value


# Written and read.


@relaxed
@given(values)
def test_what_is_written_is_read_again(value: Value) -> None:
    text = canonical(to_plain(value))
    assert from_plain(json.loads(text), KNOWN) == value
    assert size_of(value) == len(text) == len(text.encode())


def test_the_written_form() -> None:
    value = Batch((Request(1), Request(2, 3)), frozenset({3, 1, 2}), Mode.LAZY, Request(4))
    assert to_plain(value) == {
        "Batch": {
            "requests": [
                {"Request": {"stamp": 1, "sender": 0}},
                {"Request": {"stamp": 2, "sender": 3}},
            ],
            "done": [1, 2, 3],
            "mode": "LAZY",
            "last": {"Request": {"stamp": 4, "sender": 0}},
        }
    }
    assert canonical(to_plain(Ack())) == '{"Ack":{}}'
    assert canonical({"é": 1}) == '{"\\u00e9":1}', (
        "ASCII, so that characters and bytes are the same number"
    )


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*KNOWN, "stamp", "sender", "peer", "inner", "?"]), inner, max_size=3
        )
        | st.fixed_dictionaries(
            {"Request": st.fixed_dictionaries({"stamp": inner, "sender": inner})}
        )
        | st.fixed_dictionaries({"Envelope": st.fixed_dictionaries({"inner": inner})})
    ),
    max_leaves=8,
)


@settings(relaxed, max_examples=400)
@given(anything)
def test_text_from_outside_is_a_value_or_malformed(found: Any) -> None:
    try:
        value = from_plain(found, KNOWN)
    except Malformed:
        return
    assert to_plain(value) == found
    assert hash(value) == hash(from_plain(found, KNOWN))


@pytest.mark.parametrize(
    "found",
    [
        {"Request": {"stamp": True, "sender": 0}},
        {"Request": {"stamp": 1.0, "sender": 0}},
        {"Request": {"sender": 1}},
        {"Request": {"stamp": 1, "sender": 0, "more": 0}},
        {"Request": [1, 0]},
        {"Envelope": {"inner": {"Retry": {"peer": 1}}}},
        {"int": {}},
        {"Request": {"stamp": 1, "sender": 0}, "Ack": {}},
        {},
        [],
        None,
        "Request",
    ],
)
def test_what_is_malformed(found: Any) -> None:
    with pytest.raises(Malformed):
        from_plain(found, {**KNOWN, "int": int})


def test_a_missing_field_has_its_default() -> None:
    """A release that did not have the field yet may have written the value."""
    assert from_plain({"Request": {"stamp": 1}}, KNOWN) == Request(1, 0)


def test_only_known_types_are_read() -> None:
    with pytest.raises(Malformed, match="unknown value 'Ack'; known are Request"):
        from_plain({"Ack": {}}, {"Request": Request})
    with pytest.raises(Malformed, match="known are none"):
        from_plain({"Ack": {}}, {})


# Mistakes that are refused, and corners.


@pytest.mark.parametrize("stranger", [5, "text", (1, 2)])
def test_a_value_has_no_order_with_what_is_not_a_value(stranger: Any) -> None:
    with pytest.raises(TypeError):
        Request(1) < stranger  # noqa: B015  # the comparison is what is under test


def test_types_of_the_same_name_are_ordered_too() -> None:
    both = [Ack(), made("Ack", Message, __module__="elsewhere")()]
    orders = {
        tuple(type(value).__module__ for value in sorted(order)) for order in permutations(both)
    }
    assert len(orders) == 1


@pytest.mark.parametrize("method", ["__eq__", "__hash__", "__lt__", "__init__", "__repr__"])
def test_a_derived_method_written_by_hand_is_kept_or_refused(method: str) -> None:
    try:
        own = made("Own", Message, **{method: lambda *_: "mine"})
    except TypeError as reason:
        assert method in str(reason)  # either outcome is right
    else:
        assert own.__dict__[method]() == "mine"


def test_a_required_field_after_a_default_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="needed"):
        made("Late", Request, __annotations__={"needed": "int"})


def test_any_name_can_be_a_field() -> None:
    class Setting(Message):
        x: int
        set_x: int

    assert (Setting(1, 2).x, Setting(1, 2).set_x) == (1, 2)


def _base_with_a_local_type() -> type[Message]:
    class Side(Enum):
        LEFT = 1

    class Turn(Message):
        side: Side = Side.LEFT

    return Turn


def test_a_local_class_can_be_derived_from_elsewhere() -> None:
    sharp = made("Sharp", _base_with_a_local_type(), __annotations__={"angle": "int"}, angle=90)
    assert sharp().angle == 90


def test_a_type_inside_the_class_can_be_used_by_its_fields() -> None:
    class Turn(Message):
        class Side(Enum):
            LEFT = 1

        side: Side = Side.LEFT

    assert Turn().side is Turn.Side.LEFT


DEFERRED = """
from enum import Enum
from typing import ClassVar
from habemus.core import Message

class Side(Enum):
    LEFT = 1

class Turn(Message):
    side: Side
    angle: int = 90
    turns: ClassVar[int] = 0
"""


@pytest.mark.parametrize("first", ["", "from __future__ import annotations"])
def test_fields_are_found_however_annotations_are_kept(first: str) -> None:
    """As text under the future import; else as types, which Python 3.14 makes when they are asked
    for.
    """
    scope: dict[str, Any] = {"__name__": __name__}
    exec(compile(first + DEFERRED, "deferred", "exec", dont_inherit=True), scope)
    turn = scope["Turn"](scope["Side"].LEFT)
    assert list(turn.__fields__) == ["side", "angle"] and turn.turns == 0
    assert from_plain(to_plain(turn), {"Turn": scope["Turn"]}) == turn


@pytest.mark.parametrize("first", ["", "from __future__ import annotations"])
def test_a_type_that_is_defined_below_is_refused_by_name(first: str) -> None:
    source = f"{first}\nfrom habemus.core import Message\nclass Turn(Message):\n    side: Later\n"
    wanted = NameError if first == "" and sys.version_info < (3, 14) else UnsupportedType
    with pytest.raises(wanted, match="'Later' is not defined"):
        exec(compile(source, "deferred", "exec", dont_inherit=True), {"__name__": __name__})
