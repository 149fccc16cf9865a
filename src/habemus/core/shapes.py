"""Shapes: conversions of a variable, derived from its declared type.

A runtime must be able to capture the state of a process as one hashable value, restore it, write it
to a file and read it again.  A `Shape` derives all four from the declared type.  A type that cannot
be captured is refused when the class is made, with the name of the variable, and not at the first
hash in the middle of a search.
"""

from __future__ import annotations

import reprlib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, Flag, IntEnum
from itertools import combinations
from typing import Annotated, Any, NamedTuple

Convert = Callable[[Any], Any]
IS_PROCESS = object()
"""Marks an int that is the id of a process, in `Annotated[int, IS_PROCESS]`."""


class UnsupportedType(TypeError):
    """A declared type that the engine cannot capture."""


class Malformed(ValueError):
    """Encoded input that does not describe a value of the declared type."""


class UnknownType(Malformed):
    """An encoded value of a type that is not known here."""


class LenientTypes(dict[str, type]):
    """Types by name, as nodes know them: fields of a value that its type does not have are ignored,
    because a node of another release may have sent it.
    """

    def __init__(self, known: Mapping[str, type]) -> None:
        super().__init__(known)
        inside = getattr(known, "inside", None)  # of `Known`
        self.inside: LenientTypes = self if inside is None else LenientTypes(inside)
        self._including: dict[type, LenientTypes] = {}

    def including(self, declared: type) -> LenientTypes:
        """Return these types with a declared one."""
        if self.get(declared.__name__) is declared:
            return self
        found = self._including.get(declared)
        if found is None:  # once for each field, because nodes decode many messages
            found = LenientTypes({**self, declared.__name__: declared})
            self._including[declared] = found
        return found


class Shape(NamedTuple):
    """Functions that capture, restore, encode and decode the values of one type."""

    name: str
    mutable: bool
    freeze: Convert | None  # None where the value is its own hashable form
    thaw: Convert | None
    plain: Convert | None  # to what JSON can hold; None where the value already is
    parse: Callable[[Any, Mapping[str, type]], Any]  # from what JSON holds; may raise Malformed
    written: str  # the kind of JSON that it becomes, which distinguishes the members of a union
    equals: str  # the kind of values that it may be equal to: True == 1, and an IntEnum is an int
    ordered: bool = True  # whether < puts any two of its values in order
    atom: type | None = None
    """A value of exactly this type needs no parsing."""

    def frozen(self, value: Any) -> Any:
        return value if self.freeze is None else self.freeze(value)

    def thawed(self, value: Any) -> Any:
        return value if self.thaw is None else self.thaw(value)

    def to_plain(self, value: Any) -> Any:
        return value if self.plain is None else self.plain(value)


# The value types register themselves here, because shapes and values are defined in terms of each
# other.
value_base: type | None = None


def encode_value(value: Any) -> Any:
    raise AssertionError("replaced when the value types are defined")


def decode_value(found: Any, known: Mapping[str, type]) -> Any:
    raise AssertionError("replaced when the value types are defined")


def shape_of(declared: Any) -> Shape:
    """Return the shape of a declared type, or raise `UnsupportedType` with the reason."""
    while typing.get_origin(declared) is Annotated:
        declared = typing.get_args(declared)[0]
    alias = getattr(
        typing, "TypeAliasType", None
    )  # of the statement `type X = ...`, which Python 3.11 does not have
    if alias is not None and isinstance(declared, alias):
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
        raise UnsupportedType(
            f"{declared.__name__} without the type of what it holds, such as"
            f" {declared.__name__}[int]"
        )
    raise UnsupportedType(
        f"{getattr(declared, '__name__', declared)}: use int, str, bool, None, an Enum, a Message"
        " or other value, or a list, set, dict, tuple or frozenset of these"
    )


def _expect(condition: bool, expected: str, found: Any) -> None:
    if not condition:
        raise Malformed(f"expected {expected}, found {shown(found)}")


def shown(found: Any) -> str:
    """Return a short repr of untrusted input, which may be large or deeply nested."""
    return reprlib.repr(found)[:60]


def _atom(name: str, kind: type) -> Shape:
    def parse(found: Any, _: Mapping[str, type]) -> Any:
        _expect(
            type(found) is kind, name, found
        )  # not isinstance: True is an int, and must not pass for one
        return found

    return Shape(
        name, False, None, None, None, parse, name, "int" if kind is bool else name, atom=kind
    )


def _choice(allowed: tuple[Any, ...]) -> Shape:
    name = " | ".join(map(repr, allowed))
    kind = type(allowed[0])
    if kind not in (int, str, bool) or any(type(each) is not kind for each in allowed):
        raise UnsupportedType(f"Literal[{name}]: use literals of one type, int, str or bool")

    def parse(found: Any, _: Mapping[str, type]) -> Any:
        _expect(type(found) is kind and found in allowed, name, found)
        return found

    return Shape(
        name,
        False,
        None,
        None,
        None,
        parse,
        kind.__name__,
        "int" if kind is bool else kind.__name__,
    )


def _enum(declared: type[Enum]) -> Shape:
    if issubclass(declared, Flag):
        raise UnsupportedType(
            f"{declared.__name__}: flags combine to values that have no name; use frozenset of an"
            " Enum"
        )

    def parse(found: Any, _: Mapping[str, type]) -> Any:
        _expect(isinstance(found, str) and found in declared.__members__, declared.__name__, found)
        return declared[found]

    bases = [kind.__name__ for kind in (int, str) if kind in declared.__mro__]
    equals = bases[0] if bases else declared.__qualname__
    return Shape(
        declared.__name__,
        False,
        None,
        None,
        lambda member: member.name,
        parse,
        "str",
        equals,
        equals in ("int", "str"),
    )


def _value(declared: type) -> Shape:
    # Called through the module, because the value types replace these functions.
    def parse(found: Any, known: Mapping[str, type]) -> Any:
        # A value inside another one may be of the declared type, which has no handler, or belong
        # to another part.
        inside = getattr(known, "inside", known)
        value = decode_value(
            found,
            inside.including(declared)
            if isinstance(inside, LenientTypes)
            else {**inside, declared.__name__: declared},
        )
        _expect(isinstance(value, declared), declared.__name__, found)
        return value

    return Shape(
        declared.__name__,
        False,
        None,
        None,
        lambda value: encode_value(value),
        parse,
        declared.__name__,
        declared.__name__,
    )


def _immutable(declared: Any, inside: str) -> Shape:
    shape = shape_of(declared)
    if shape.mutable:
        raise UnsupportedType(
            f"{shape.name} inside {inside}: only immutable values may stand there"
        )
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

    return Shape(
        f"list[{item.name}]",
        True,
        _each(item.freeze, tuple),
        _each(item.thaw, list),
        _each(item.plain, list),
        parse,
        "list",
        "list",
    )


def _set(arguments: tuple[Any, ...]) -> Shape:
    item = _immutable(arguments[0], "a set")

    def parse(found: Any, known: Mapping[str, type]) -> Any:
        _expect(isinstance(found, list), f"a list of {item.name}", found)
        return {item.parse(each, known) for each in found}

    in_order = _sorting(item)
    plain = lambda values: [item.to_plain(each) for each in in_order(values)]  # noqa: E731
    return Shape(
        f"set[{item.name}]",
        True,
        frozenset,
        set,
        plain,
        parse,
        "list",
        "set",
    )


def _dict(arguments: tuple[Any, ...]) -> Shape:
    key = _immutable(arguments[0], "the keys of a dict")
    item = shape_of(arguments[1])
    in_order = _sorting(key)

    def parse(found: Any, known: Mapping[str, type]) -> Any:
        _expect(isinstance(found, list), "a list of pairs", found)
        _expect(
            all(isinstance(pair, list) and len(pair) == 2 for pair in found),
            "a list of pairs",
            found,
        )
        return {key.parse(name, known): item.parse(each, known) for name, each in found}

    return Shape(
        f"dict[{key.name}, {item.name}]",
        True,
        # Sorted, because two equal dicts may have been filled in different orders.
        lambda values: tuple((name, item.frozen(values[name])) for name in in_order(values)),
        lambda pairs: {name: item.thawed(each) for name, each in pairs},
        lambda values: [
            [key.to_plain(name), item.to_plain(values[name])] for name in in_order(values)
        ],
        parse,
        "list",
        "dict",
    )


def _tuple(arguments: tuple[Any, ...]) -> Shape:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = _immutable(arguments[0], "a tuple")

        def parse_all(found: Any, known: Mapping[str, type]) -> Any:
            _expect(isinstance(found, list), f"a list of {item.name}", found)
            return tuple(item.parse(each, known) for each in found)

        return Shape(
            f"tuple[{item.name}, ...]",
            False,
            None,
            None,
            _each(item.plain, list),
            parse_all,
            "list",
            "tuple",
            item.ordered,
        )
    items = [_immutable(each, "a tuple") for each in arguments]
    parsing = [(item.atom, item.parse) for item in items]
    are_plain = all(item.plain is None for item in items)

    def parse(found: Any, known: Mapping[str, type]) -> Any:
        _expect(
            isinstance(found, list) and len(found) == len(items),
            f"a list of {len(items)} values",
            found,
        )
        return tuple(
            [
                each if type(each) is atom else parse(each, known)
                for (atom, parse), each in zip(parsing, found, strict=True)
            ]
        )

    def plain(values: Any) -> Any:
        return [item.to_plain(each) for item, each in zip(items, values, strict=True)]

    name = f"tuple[{', '.join(item.name for item in items)}]"
    to_plain = list if are_plain else plain
    return Shape(
        name,
        False,
        None,
        None,
        to_plain,
        parse,
        "list",
        "tuple",
        all(item.ordered for item in items),
    )


def _frozenset(arguments: tuple[Any, ...]) -> Shape:
    item = _immutable(arguments[0], "a frozenset")

    def parse(found: Any, known: Mapping[str, type]) -> Any:
        _expect(isinstance(found, list), f"a list of {item.name}", found)
        return frozenset(item.parse(each, known) for each in found)

    in_order = _sorting(item)
    plain = lambda values: [item.to_plain(each) for each in in_order(values)]  # noqa: E731
    return Shape(
        f"frozenset[{item.name}]",
        False,
        None,
        None,
        plain,
        parse,
        "list",
        "set",
        False,
    )


def _union(arguments: tuple[Any, ...]) -> Shape:
    members = [_immutable(each, "a union") for each in arguments]
    name = " | ".join(member.name for member in members)
    for one, other in combinations(members, 2):
        if one.written == other.written:
            raise UnsupportedType(
                f"{one.name} | {other.name}: they are written alike and could not be"
                " distinguished when read"
            )
        if one.equals == other.equals:
            raise UnsupportedType(
                f"{one.name} | {other.name}: some of their values are equal, as True and 1, and"
                " would be one state"
            )

    def parse(found: Any, known: Mapping[str, type]) -> Any:
        for member in members:
            try:
                return member.parse(found, known)
            except Malformed:
                continue
        raise Malformed(f"expected {name}, found {shown(found)}")

    return Shape(
        name,
        False,
        None,
        None,
        plain_of,
        parse,
        name,
        name,
        False,
    )


def is_of(declared: Any, value: Any) -> bool:
    """Whether a value given by a plan is of the declared type; a tuple may stand for a list, a
    frozenset for a set.
    """
    while typing.get_origin(declared) is Annotated:
        declared = typing.get_args(declared)[0]
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if declared is None:
        return value is None
    if isinstance(declared, type) and origin is None:
        exact = declared in (int, str, bool)  # True must not pass for an int
        return (
            type(value) is declared
            or (not exact and isinstance(value, declared))
            or (declared is int and isinstance(value, IntEnum))
        )
    if origin is typing.Literal:
        return value in arguments
    if origin in (typing.Union, types.UnionType):
        return any(is_of(each, value) for each in arguments)
    if origin is dict:
        return isinstance(value, dict) and all(
            is_of(arguments[0], key) and is_of(arguments[1], each) for key, each in value.items()
        )
    if origin is tuple and arguments[-1] is not Ellipsis:
        return (
            isinstance(value, tuple)
            and len(value) == len(arguments)
            and all(map(is_of, arguments, value))
        )
    kinds: dict[Any, tuple[type, ...]] = {
        list: (list, tuple),
        set: (set, frozenset),
        tuple: (tuple,),
        frozenset: (frozenset,),
    }
    items: Any = value
    return isinstance(value, kinds.get(origin, ())) and all(
        is_of(arguments[0], each) for each in items
    )


def order_of(value: Any) -> Any:
    """Return a sort key for any immutable value; `<` is not defined for None and enums."""
    if isinstance(value, Enum):
        return (3, type(value).__qualname__, list(type(value)).index(value))
    if value is None:
        return (0,)
    if isinstance(value, int):
        return (1, value)
    if isinstance(value, str):
        return (2, value)
    if isinstance(value, tuple):
        return (4, tuple(map(order_of, value)))
    if isinstance(value, frozenset):
        return (5, sorted(map(order_of, value)))
    return (6, value)


def _sorting(item: Shape) -> Callable[[Iterable[Any]], list[Any]]:
    return sorted if item.ordered else lambda values: sorted(values, key=order_of)


def plain_of(value: Any) -> Any:
    """Return the JSON form of an immutable value whose declared type is unknown here."""
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, int | str):
        return value
    if isinstance(value, tuple):
        return [plain_of(each) for each in value]
    if isinstance(value, frozenset):
        return [plain_of(each) for each in sorted(value, key=order_of)]
    return encode_value(value)
