"""Shapes: whatever a variable may hold is captured, restored, written and read again without a
difference.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable
from enum import Enum, Flag, IntEnum
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from habemus.core import Const, Durable, Message, Value
from habemus.core.node import Delivered
from habemus.core.shapes import Malformed, Shape, UnsupportedType, plain_of, shape_of
from habemus.core.values import canonical

relaxed = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


class Colour(Enum):
    RED = "r"
    BLUE = "b"


class Standing(IntEnum):
    RELEASED = 0
    WANTED = 1
    HELD = 2


class Point(Value):
    x: int
    y: int = 0


class Ping(Message):
    stamp: int
    colour: Colour
    marks: frozenset[int] = frozenset()


class Data(Message):
    number: int
    message: Message


KNOWN: dict[str, type] = {cls.__name__: cls for cls in (Point, Ping, Data, Delivered)}


# Types and values of them, drawn together.

ORDERED: list[Any] = [
    int,
    str,
    bool,
    Standing,
    Point,
    tuple[int, ...],
    tuple[int, str],
    tuple[Standing, tuple[bool, ...]],
]
ATOMS: list[Any] = [
    *ORDERED,
    None,
    Colour,
    Ping,
    Data,
    Literal["left", "right"],
    int | None,
    str | None,
    Point | None,
    Colour | int | None,
]

immutable_types = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        inner.map(lambda item: tuple[item, ...]),  # type: ignore[valid-type]  # types made while it runs
        st.lists(inner, max_size=3).map(lambda items: tuple[tuple(items)]),  # type: ignore[misc]
        st.sampled_from(ORDERED).map(lambda item: frozenset[item]),  # type: ignore[valid-type]
    ),
    max_leaves=4,
)
all_types = st.recursive(
    st.one_of(immutable_types, st.sampled_from(ORDERED).map(lambda item: set[item])),  # type: ignore[valid-type]
    lambda inner: st.one_of(
        inner.map(lambda item: list[item]),  # type: ignore[valid-type]
        st.tuples(st.sampled_from(ORDERED), inner).map(lambda pair: dict[pair[0], pair[1]]),  # type: ignore[valid-type]
    ),
    max_leaves=3,
)

pings = st.builds(Ping, st.integers(), st.sampled_from(Colour), st.frozensets(st.integers(0, 5)))
OF_ATOM: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(),
    str: st.text(max_size=5),
    bool: st.booleans(),
    None: st.none(),
    type(None): st.none(),
    Colour: st.sampled_from(Colour),
    Standing: st.sampled_from(Standing),
    Point: st.builds(Point, st.integers(), st.integers()),
    Ping: pings,
    Data: st.builds(Data, st.integers(), pings),
}


def values_of(declared: Any) -> st.SearchStrategy[Any]:
    if declared in OF_ATOM:
        return OF_ATOM[declared]
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(values_of, arguments))
    if origin is tuple and arguments[1:] == (...,):
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, arguments))
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=3)
    collection: Any = {list: st.lists, set: st.sets, frozenset: st.frozensets}[origin]
    drawn: st.SearchStrategy[Any] = collection(values_of(arguments[0]), max_size=3)
    return drawn


def belongs(value: Any, declared: Any) -> bool:
    """Whether a value has the declared type: the meaning that shapes must keep to, told in another
    way.
    """
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in arguments)
    if origin in (Union, types.UnionType):
        return any(belongs(value, each) for each in arguments)
    if origin is None:
        return type(value) is (declared or type(None))
    if type(value) is not origin:
        return False
    if origin is tuple and arguments[1:] != (...,):
        return len(value) == len(arguments) and all(map(belongs, value, arguments))
    if origin is dict:
        return all(
            belongs(key, arguments[0]) and belongs(each, arguments[1])
            for key, each in value.items()
        )
    return all(belongs(each, arguments[0]) for each in value)


typed = all_types.flatmap(lambda declared: st.tuples(st.just(declared), values_of(declared)))


def through_json(plain: Any) -> Any:
    return json.loads(json.dumps(plain, allow_nan=False))


@relaxed
@given(typed)
def test_freeze_and_thaw_are_inverse(drawn: tuple[Any, Any]) -> None:
    declared, value = drawn
    shape = shape_of(declared)
    frozen = shape.frozen(value)
    assert hash(frozen) == hash(shape.frozen(value))
    thawed = shape.thawed(frozen)
    assert thawed == value
    assert belongs(thawed, declared)
    assert shape.frozen(thawed) == frozen
    assert shape.mutable == (typing.get_origin(declared) in (list, set, dict))
    if shape.mutable:
        assert thawed is not value
    else:
        assert frozen is value


@relaxed
@given(typed)
def test_what_is_written_is_read_again(drawn: tuple[Any, Any]) -> None:
    declared, value = drawn
    shape = shape_of(declared)
    plain = shape.to_plain(value)
    read = shape.parse(through_json(plain), KNOWN)
    assert read == value
    assert belongs(read, declared), "True must not come back for 1, nor a number for an enum"
    assert canonical(shape.to_plain(read)) == canonical(plain)


@relaxed
@given(immutable_types.flatmap(values_of))
def test_an_immutable_value_is_written_the_same_without_its_type(value: Any) -> None:
    assume(not isinstance(value, Value))
    through_json(plain_of(value))
    assert canonical(plain_of((value,))) == canonical([plain_of(value)])


anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=3),
    )
    | st.sampled_from(["RED", "WANTED", "left", "Point", "x"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["Point", "Ping", "Data", "Nobody", "x", "y", "stamp"]),
            inner,
            max_size=2,
        ),
        st.fixed_dictionaries({"Point": st.fixed_dictionaries({"x": inner, "y": inner})}),
        st.fixed_dictionaries({"Data": st.fixed_dictionaries({"number": inner, "message": inner})}),
    ),
    max_leaves=8,
)


@settings(relaxed, max_examples=400)
@given(all_types, anything)
def test_text_from_outside_is_a_value_of_the_type_or_malformed(declared: Any, found: Any) -> None:
    shape = shape_of(declared)
    try:
        value = shape.parse(found, KNOWN)
    except Malformed as reason:
        assert str(reason)
        assert len(str(reason)) < 400, "the reason does not repeat everything that came in"
    else:
        assert belongs(value, declared)
        assert shape.parse(through_json(shape.to_plain(value)), KNOWN) == value


@settings(relaxed, max_examples=300)
@given(typed, st.data())
def test_a_damaged_text_is_never_read_as_a_value_of_another_type(
    drawn: tuple[Any, Any], data: st.DataObject
) -> None:
    declared, value = drawn
    shape = shape_of(declared)
    damaged = _damage(through_json(shape.to_plain(value)), data)
    try:
        read = shape.parse(damaged, KNOWN)
    except Malformed:
        return
    assert belongs(read, declared)


def _damage(plain: Any, data: st.DataObject) -> Any:
    """The same text with something else in one place."""
    if isinstance(plain, list) and plain and data.draw(st.booleans()):
        index = data.draw(st.integers(0, len(plain) - 1))
        return [*plain[:index], _damage(plain[index], data), *plain[index + 1 :]]
    if isinstance(plain, dict) and plain and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(plain)))
        return plain | {key: _damage(plain[key], data)}
    return data.draw(anything)


# Details.


def test_a_thawed_value_shares_nothing_with_the_original() -> None:
    shape = shape_of(dict[int, list[set[int]]])
    original = {1: [{2}]}
    copy = shape.thawed(shape.frozen(original))
    copy[1][0].add(3)
    copy[1].append(set())
    copy[4] = []
    assert original == {1: [{2}]}


def test_equal_dicts_and_sets_have_one_frozen_and_one_plain_form() -> None:
    of_dict, of_set = shape_of(dict[int, str]), shape_of(set[int])
    one, other = {1: "a", 2: "b"}, {2: "b", 1: "a"}
    assert list(one) != list(other)
    assert of_dict.frozen(one) == of_dict.frozen(other) == ((1, "a"), (2, "b"))
    assert of_dict.to_plain(one) == of_dict.to_plain(other) == [[1, "a"], [2, "b"]]
    ascending, descending = set(), set()
    for number in (0, 8, 16, 1024):
        ascending.add(number)
    for number in (1024, 16, 8, 0):
        descending.add(number)
    assert hash(of_set.frozen(ascending)) == hash(of_set.frozen(descending))
    assert of_set.to_plain(ascending) == of_set.to_plain(descending) == [0, 8, 16, 1024]
    assert shape_of(frozenset[int]).to_plain(frozenset(descending)) == [0, 8, 16, 1024]


@pytest.mark.parametrize("wrong", [True, False, 1.0, "1", None, [1], {"int": 1}])
def test_only_an_int_is_an_int(wrong: Any) -> None:
    with pytest.raises(Malformed, match="expected int"):
        shape_of(int).parse(wrong, {})
    assert shape_of(int).parse(1, {}) == 1


@pytest.mark.parametrize("wrong", [0, 1, "true", None])
def test_only_a_bool_is_a_bool(wrong: Any) -> None:
    with pytest.raises(Malformed, match="expected bool"):
        shape_of(bool).parse(wrong, {})


@pytest.mark.parametrize(
    ("declared", "wrong", "reason"),
    [
        (Colour, "r", "expected Colour"),
        (Colour, 1, "expected Colour"),
        (Colour, ["RED"], "expected Colour"),
        (Literal["a", "b"], "c", r"expected 'a' \| 'b'"),
        (list[int], {"0": 1}, "expected a list of int"),
        (list[int], [1, "2"], "expected int"),
        (set[int], "12", "expected a list of int"),
        (frozenset[int], None, "expected a list of int"),
        (dict[int, int], {"1": 1}, "expected a list of pairs"),
        (dict[int, int], [[1, 2, 3]], "expected a list of pairs"),
        (dict[int, int], [[True, 2]], "expected int"),
        (tuple[int, str], [1], "expected a list of 2 values"),
        (tuple[int, str], [1, "a", 2], "expected a list of 2 values"),
        (tuple[int, ...], [1, None], "expected int"),
        (int | None, "x", r"expected int \| None"),
        (Point, {"Ping": {"stamp": 1, "colour": "RED", "marks": []}}, "expected Point"),
        (Point, {"Nobody": {}}, "unknown value 'Nobody'"),
        (Point, {"Point": {"y": 1}}, "Point has the fields x, y"),
        (Point, {"Point": {"x": 1, "y": 2, "z": 3}}, "Point has the fields x, y"),
        (Point, {"Point": [1, 2]}, "Point has the fields x, y"),
        (Point, {"Point": {"x": 1, "y": True}}, "expected int"),
        (Point, {}, "expected one named value"),
        (Point, {"Point": {}, "Ping": {}}, "expected one named value"),
        (Data, {"Data": {"number": 1, "message": {"Point": {"x": 1, "y": 2}}}}, "expected Message"),
    ],
)
def test_what_is_malformed_and_why(declared: Any, wrong: Any, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        shape_of(declared).parse(wrong, KNOWN)


def test_a_long_text_is_not_repeated_in_full() -> None:
    with pytest.raises(Malformed) as raised:
        shape_of(int).parse("x" * 10_000, {})
    assert len(str(raised.value)) < 200


SAME_TYPE: list[Any] = [Optional[int], Union[None, int], int | None, Annotated[int | None, "mark"]]  # noqa: UP007, UP045
MARKED: Any = [Const[int | None], Durable[int | None]]  # type: ignore[misc]  # aliases with a parameter, taken as values


@pytest.mark.parametrize("declared", [*SAME_TYPE, *MARKED])
def test_the_same_type_written_in_several_ways(declared: Any) -> None:
    shape = shape_of(declared)
    assert (sorted(shape.name.split(" | ")), shape.mutable) == (["None", "int"], False)
    assert [shape.parse(each, {}) for each in (3, None)] == [3, None]


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        (float, "float: use int"),
        (bytes, "bytes: use int"),
        (complex, "complex: use int"),
        (object, "object: use int"),
        (Any, "Any: use int"),
        (Callable[[], int], "use int"),
        (list, r"list without the type of what it holds, such as list\[int\]"),
        (dict, "dict without the type"),
        (tuple, "tuple without the type"),
        (set, "set without the type"),
        (frozenset, "frozenset without the type"),
        (set[int] | None, r"set\[int\] inside a union"),
        (tuple[list[int], ...], r"list\[int\] inside a tuple"),
        (tuple[int, dict[int, int]], r"dict\[int, int\] inside a tuple"),
        (set[list[int]], r"list\[int\] inside a set"),
        (set[set[int]], r"set\[int\] inside a set"),
        (frozenset[set[int]], r"set\[int\] inside a frozenset"),
        (dict[tuple[set[int], int], int], r"set\[int\] inside a tuple"),
        (dict[list[int], int], r"list\[int\] inside the keys of a dict"),
        (list[tuple[int, float]], "float: use int"),
        (dict[int, list[object]], "object: use int"),
    ],
)
def test_types_that_cannot_be_captured_are_refused(declared: Any, reason: str) -> None:
    with pytest.raises(UnsupportedType, match=reason):
        shape_of(declared)


def test_the_name_of_a_shape_reads_like_the_type() -> None:
    assert shape_of(dict[int, list[tuple[str, ...]]]).name == "dict[int, list[tuple[str, ...]]]"
    assert shape_of(frozenset[tuple[int, Standing]]).name == "frozenset[tuple[int, Standing]]"


# Mistakes that are refused, and corners.


def _captured_in_any_order(declared: Any, keys: list[Any]) -> None:
    """The type is refused at once, or equal values are captured and written alike."""
    try:
        shape = shape_of(declared)
    except UnsupportedType:
        return
    as_dict = typing.get_origin(declared) is dict
    forms = [dict.fromkeys(order, 0) if as_dict else set(order) for order in (keys, keys[::-1])]
    one, other = (shape.frozen(form) for form in forms)
    assert one == other
    assert shape.to_plain(forms[0]) == shape.to_plain(forms[1])


@pytest.mark.parametrize(
    ("declared", "keys"),
    [
        (dict[Colour, int], [Colour.RED, Colour.BLUE]),
        (dict[int | None, int], [None, 3]),
        (dict[frozenset[int], int], [frozenset({1}), frozenset({2})]),
        (dict[tuple[int, int | None], int], [(1, None), (1, 2)]),
        (set[Colour], [Colour.RED, Colour.BLUE]),
        (set[int | None], [None, 3]),
        (set[frozenset[int]], [frozenset({number}) for number in range(40)]),
        (set[Ping], [Ping(1, Colour.RED), Ping(1, Colour.BLUE)]),
    ],
)
def test_keys_without_an_order_are_captured_or_refused(declared: Any, keys: list[Any]) -> None:
    _captured_in_any_order(declared, keys)


def _round_trips_or_is_refused(declared: Any, value: Any) -> None:
    try:
        shape: Shape = shape_of(declared)
    except UnsupportedType:
        return
    read = shape.parse(through_json(shape.to_plain(value)), KNOWN)
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Colour | str, "RED"),
        (str | Colour, Colour.RED),
        (tuple[int, ...] | frozenset[int], frozenset({1})),
        (Colour | Literal["RED"], "RED"),
    ],
)
def test_unions_round_trip_or_are_refused(declared: Any, value: Any) -> None:
    _round_trips_or_is_refused(declared, value)


@pytest.mark.parametrize("declared", [int | bool, Standing | int, Literal[1, True]])
def test_unions_of_types_whose_values_may_be_equal_are_refused(declared: Any) -> None:
    with pytest.raises(UnsupportedType):
        shape_of(declared)


@pytest.mark.parametrize(
    ("declared", "wrong"), [(Literal[1], True), (Literal[1], 1.0), (Literal[True], 1)]
)
def test_literals_see_the_type(declared: Any, wrong: Any) -> None:
    with pytest.raises(Malformed):
        shape_of(declared).parse(wrong, {})


class Faults(Flag):
    CRASH = 1
    PAUSE = 2


def test_flags_round_trip_or_are_refused() -> None:
    _round_trips_or_is_refused(Faults, Faults.CRASH | Faults.PAUSE)


def test_messages_nested_too_deep_are_malformed() -> None:
    found: Any = {"Point": {"x": 0, "y": 0}}
    for _ in range(5_000):
        found = {"Data": {"number": 1, "message": found}}
    with pytest.raises(Malformed):
        shape_of(Data).parse(found, KNOWN)
