"""What a variable may hold, derived from its declared type.

A runtime must be able to take the state of a process as one hashable value, put it back, write it to a
file and read it again.  All four follow from the declared type, so nobody writes them by hand: a `Shape`
is that type, understood.  A type that could not be captured is refused when the class is made, with the
variable's name, and not at the first hash in the middle of a search.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Annotated, Any, NamedTuple

Convert = Callable[[Any], Any]


class UnsupportedType(TypeError):
    """A declared type that the engine cannot capture."""


class Malformed(ValueError):
    """Text from outside that does not describe a value of the declared type."""


class Shape(NamedTuple):
    """How values of one type are captured, restored, written and read."""

    name: str
    mutable: bool
    freeze: Convert | None  # None where the value is its own hashable form
    thaw: Convert | None
    plain: Convert | None  # to what JSON can hold; None where the value already is
    parse: Callable[[Any, Mapping[str, type]], Any]  # from what JSON holds; may raise Malformed

    def frozen(self, value: Any) -> Any:
        return value if self.freeze is None else self.freeze(value)

    def thawed(self, value: Any) -> Any:
        return value if self.thaw is None else self.thaw(value)

    def to_plain(self, value: Any) -> Any:
        return value if self.plain is None else self.plain(value)


# The value types register themselves here, because shapes and values are defined in terms of each other.
value_base: type | None = None


def encode_value(value: Any) -> Any:
    raise AssertionError("replaced when the value types are defined")


def decode_value(found: Any, known: Mapping[str, type]) -> Any:
    raise AssertionError("replaced when the value types are defined")


def shape_of(declared: Any) -> Shape:
    """The shape of a declared type, or `UnsupportedType` with the reason."""
    while typing.get_origin(declared) is Annotated:
        declared = typing.get_args(declared)[0]
    if isinstance(declared, typing.TypeAliasType) if hasattr(typing, "TypeAliasType") else False:
        return shape_of(declared.__value__)
    origin = typing.get_origin(declared)
    arguments = typing.get_args(declared)
    if declared is None or declared is type(None):
        return _atom("None", type(None))
    if declared in (int, str, bool):
        return _atom(declared.__name__, declared)
    if origin is typing.Literal:
        return _choice(arguments)
    if isinstance(declared, type) and issubclass(declared, Enum):
        return _enum(declared)
    if isinstance(declared, type) and value_base is not None and issubclass(declared, value_base):
        return _value(declared)
    if origin in (list, set, dict):
        return {list: _list, set: _set, dict: _dict}[origin](arguments)
    if origin is tuple:
        return _tuple(arguments)
    if origin is frozenset:
        return _frozenset(arguments)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments)
    if declared in (list, set, dict, tuple, frozenset):
        raise UnsupportedType(f"{declared.__name__} without the type of what it holds, such as {declared.__name__}[int]")
    raise UnsupportedType(
        f"{getattr(declared, '__name__', declared)}: use int, str, bool, None, an Enum, a Message or other value, "
        "or a list, set, dict, tuple or frozenset of these"
    )


def _expect(condition: bool, expected: str, found: Any) -> None:
    if not condition:
        raise Malformed(f"expected {expected}, found {str(found)[:60]!r}")


def _atom(name: str, kind: type) -> Shape:
    def parse(found: Any, _: Mapping[str, type]) -> Any:
        _expect(type(found) is kind, name, found)  # not isinstance: True is an int, and must not pass for one
        return found

    return Shape(name, False, None, None, None, parse)


def _choice(allowed: tuple[Any, ...]) -> Shape:
    name = " | ".join(map(repr, allowed))

    def parse(found: Any, _: Mapping[str, type]) -> Any:
        _expect(found in allowed, name, found)
        return found

    return Shape(name, False, None, None, None, parse)


def _enum(declared: type[Enum]) -> Shape:
    def parse(found: Any, _: Mapping[str, type]) -> Any:
        _expect(isinstance(found, str) and found in declared.__members__, declared.__name__, found)
        return declared[found]

    return Shape(declared.__name__, False, None, None, lambda member: member.name, parse)


def _value(declared: type) -> Shape:
    # Called through the module, because the value types replace these functions.
    def parse(found: Any, known: Mapping[str, type]) -> Any:
        value = decode_value(found, known)
        _expect(isinstance(value, declared), declared.__name__, found)
        return value

    return Shape(declared.__name__, False, None, None, lambda value: encode_value(value), parse)


def _immutable(declared: Any, inside: str) -> Shape:
    shape = shape_of(declared)
    if shape.mutable:
        raise UnsupportedType(f"{shape.name} inside {inside}: only immutable values may stand there")
    return shape


def _each(convert: Convert | None, into: Convert) -> Convert:
    if convert is None:
        return into
    return lambda values: into(map(convert, values))


def _list(arguments: tuple[Any, ...]) -> Shape:
    item = shape_of(arguments[0])

    def parse(found: Any, known: Mapping[str, type]) -> Any:
        _expect(isinstance(found, list), f"a list of {item.name}", found)
        return [item.parse(each, known) for each in found]

    return Shape(f"list[{item.name}]", True, _each(item.freeze, tuple), _each(item.thaw, list), _each(item.plain, list), parse)


def _set(arguments: tuple[Any, ...]) -> Shape:
    item = _immutable(arguments[0], "a set")

    def parse(found: Any, known: Mapping[str, type]) -> Any:
        _expect(isinstance(found, list), f"a list of {item.name}", found)
        return {item.parse(each, known) for each in found}

    return Shape(f"set[{item.name}]", True, frozenset, set, lambda values: [item.to_plain(each) for each in sorted(values)], parse)


def _dict(arguments: tuple[Any, ...]) -> Shape:
    key = _immutable(arguments[0], "the keys of a dict")
    item = shape_of(arguments[1])

    def parse(found: Any, known: Mapping[str, type]) -> Any:
        _expect(isinstance(found, list), "a list of pairs", found)
        _expect(all(isinstance(pair, list) and len(pair) == 2 for pair in found), "a list of pairs", found)
        return {key.parse(name, known): item.parse(each, known) for name, each in found}

    return Shape(
        f"dict[{key.name}, {item.name}]",
        True,
        # Sorted, because two equal dicts may have been filled in different orders.
        lambda values: tuple((name, item.frozen(values[name])) for name in sorted(values)),
        lambda pairs: {name: item.thawed(each) for name, each in pairs},
        lambda values: [[key.to_plain(name), item.to_plain(values[name])] for name in sorted(values)],
        parse,
    )


def _tuple(arguments: tuple[Any, ...]) -> Shape:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = _immutable(arguments[0], "a tuple")

        def parse_all(found: Any, known: Mapping[str, type]) -> Any:
            _expect(isinstance(found, list), f"a list of {item.name}", found)
            return tuple(item.parse(each, known) for each in found)

        return Shape(f"tuple[{item.name}, ...]", False, None, None, _each(item.plain, list), parse_all)
    items = [_immutable(each, "a tuple") for each in arguments]

    def parse(found: Any, known: Mapping[str, type]) -> Any:
        _expect(isinstance(found, list) and len(found) == len(items), f"a list of {len(items)} values", found)
        return tuple(item.parse(each, known) for item, each in zip(items, found, strict=True))

    def plain(values: Any) -> Any:
        return [item.to_plain(each) for item, each in zip(items, values, strict=True)]

    return Shape(f"tuple[{', '.join(item.name for item in items)}]", False, None, None, plain, parse)


def _frozenset(arguments: tuple[Any, ...]) -> Shape:
    item = _immutable(arguments[0], "a frozenset")

    def parse(found: Any, known: Mapping[str, type]) -> Any:
        _expect(isinstance(found, list), f"a list of {item.name}", found)
        return frozenset(item.parse(each, known) for each in found)

    return Shape(f"frozenset[{item.name}]", False, None, None, lambda values: [item.to_plain(each) for each in sorted(values)], parse)


def _union(arguments: tuple[Any, ...]) -> Shape:
    members = [_immutable(each, "a union") for each in arguments]
    name = " | ".join(member.name for member in members)

    def parse(found: Any, known: Mapping[str, type]) -> Any:
        for member in members:
            try:
                return member.parse(found, known)
            except Malformed:
                continue
        raise Malformed(f"expected {name}, found {str(found)[:60]!r}")

    return Shape(name, False, None, None, plain_of, parse)


def plain_of(value: Any) -> Any:
    """The JSON form of an immutable value whose declared type is not at hand."""
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, int | str):
        return value
    if isinstance(value, tuple):
        return [plain_of(each) for each in value]
    if isinstance(value, frozenset):
        return [plain_of(each) for each in sorted(value)]
    return encode_value(value)
