"""Values that are not known: how each declared type is made of terms."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any, NamedTuple, TypeAlias

from habemus.core.shapes import IS_PROCESS
from habemus.core.values import Value
from habemus.proofs.terms import BOOL, FALSE, INT, TRUE, Expression, P, Sort, apply, const

NOBODY = apply("nobody", (), P)


class NotUnderstood(Exception):
    """A construct that the executor does not understand; the message names it and its line."""


class Maybe(NamedTuple):
    """A value that may be None."""

    is_none: Expression
    value: Any


class SymbolicRecord(NamedTuple):
    """A message or other value with fields."""

    cls: type[Value]
    fields: dict[str, Any]


class Many(NamedTuple):
    """A collection, and the kind of its elements."""

    term: Expression
    element: Kind


class Table(NamedTuple):
    """A dictionary, and the kinds of its keys and values."""

    term: Expression
    key: Kind
    value: Kind


# Kinds: declared types.


class Scalar(NamedTuple):
    sort: str
    members: type[IntEnum] | None = None


class Optional(NamedTuple):
    of: Kind


class Fixed(NamedTuple):
    """A tuple with a fixed number of parts, or the fields of a class of values."""

    parts: tuple[Kind, ...]
    cls: type[Value] | None = None


class Collection(NamedTuple):
    kind: str  # set, list
    of: Kind


class Dictionary(NamedTuple):
    key: Kind
    value: Kind


Kind: TypeAlias = "Scalar | Optional | Fixed | Collection | Dictionary"


def kind_of(declared: Any) -> Kind:
    """Return the kind of a declared type, or refuse it."""
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin is Annotated:
        return Scalar(P) if IS_PROCESS in arguments[1:] else kind_of(arguments[0])
    if declared in (int, bool):
        return Scalar(INT if declared is int else BOOL)
    if isinstance(declared, type) and issubclass(declared, IntEnum):
        return Scalar(INT, declared)
    if isinstance(declared, type) and issubclass(declared, Value):
        fields = tuple(map(kind_of, declared.__declared__.values()))
        return Fixed(fields, declared)
    if (
        origin in (typing.Union, types.UnionType)
        and type(None) in arguments
        and len(arguments) == 2
    ):
        return Optional(kind_of(next(each for each in arguments if each is not type(None))))
    if origin in (set, frozenset, list):
        return Collection("list" if origin is list else "set", kind_of(arguments[0]))
    if origin is tuple and arguments[-1] is Ellipsis:
        return Collection("list", kind_of(arguments[0]))
    if origin is tuple:
        return Fixed(tuple(map(kind_of, arguments)))
    if origin is dict:
        return Dictionary(kind_of(arguments[0]), kind_of(arguments[1]))
    raise NotUnderstood(f"a variable of type {getattr(declared, '__name__', declared)}")


def sorts_of(kind: Kind) -> tuple[Any, ...]:
    """Return the sorts of the terms of which a value of this kind consists."""
    match kind:
        case Scalar(sort, _):
            return (sort,)
        case Optional(of):
            return (BOOL, *sorts_of(of))
        case Fixed(parts, _):
            return tuple(sort for part in parts for sort in sorts_of(part))
        case Collection(which, of):
            return (Sort(which, sorts_of(of)),)
        case Dictionary(key, value):
            return (Sort("dict", sorts_of(key), sorts_of(value)),)


def is_scalar(kind: Kind) -> bool:
    """Return whether no part of a value is a collection or dictionary."""
    return all(isinstance(sort, str) for sort in sorts_of(kind))


def shaped(kind: Kind, terms: Sequence[Expression]) -> Any:
    """Return the value of this kind that consists of the given terms."""
    match kind:
        case Scalar():
            return terms[0]
        case Optional(of):
            return Maybe(terms[0], shaped(of, terms[1:]))
        case Fixed(parts, cls):
            values, left = [], list(terms)
            for part in parts:
                size = len(sorts_of(part))
                values.append(shaped(part, left[:size]))
                left = left[size:]
            if cls is None:
                return tuple(values)
            return SymbolicRecord(cls, dict(zip(cls.__declared__, values, strict=True)))
        case Collection(_, of):
            return Many(terms[0], of)
        case Dictionary(key, value):
            return Table(terms[0], key, value)


def unknown(kind: Kind, name: str, args: Sequence[Expression]) -> Any:
    """Return the value of a variable: an application of its name for each of its terms."""
    return shaped(
        kind,
        [
            apply(f"{name}.{index}" if index else name, args, sort)
            for index, sort in enumerate(sorts_of(kind))
        ],
    )


def flat(value: Any, kind: Kind) -> tuple[Expression, ...]:
    """Return the terms of a value that is stored where this kind is declared."""
    match kind, value:
        case Scalar(sort, _), Expression() if value.sort == sort:
            return (value,)
        case Scalar(sort, _), Maybe():
            return flat(value.value, kind)
        case Scalar(sort, _), bool() | int() if sort == (BOOL if isinstance(value, bool) else INT):
            return (const(value if isinstance(value, bool) else int(value)),)
        case Optional(of), None:
            return (TRUE, *default(of))
        case Optional(of), Maybe():
            return (value.is_none, *flat(value.value, of))
        case Optional(of), _:
            return (FALSE, *flat(value, of))
        case Fixed(parts, None), tuple() if len(value) == len(parts) and not is_named(value):
            return tuple(
                term for part, each in zip(parts, value, strict=True) for term in flat(each, part)
            )
        case Fixed(_, cls), SymbolicRecord() if value.cls is cls:
            return tuple(
                term
                for part, each in zip(kind.parts, value.fields.values(), strict=True)
                for term in flat(each, part)
            )
        case Fixed(), Maybe():
            return flat(value.value, kind)
        case Collection(which, of), Many():
            return (converted(value.term, which),)
        case Collection(which, of), list() | tuple() | set() | frozenset() if not is_named(value):
            term = Expression("empty", (), Sort(which, sorts_of(of)))
            for each in value:
                term = Expression("insert", (term, flat(each, of)), term.sort)
            return (term,)
        case Dictionary(), Table():
            return (value.term,)
        case Dictionary(), dict() if not value:
            return (Expression("no keys", (), sorts_of(kind)[0]),)
    raise NotUnderstood(f"{value!r} where {kind!r} is declared")


def is_named(value: Any) -> bool:
    """Return whether a tuple is one of the values of this module."""
    return isinstance(value, Maybe | SymbolicRecord | Many | Table)


def converted(term: Expression, kind: str) -> Expression:
    """Return a collection as a set or a list."""
    if term.sort.kind == kind:
        return term
    sort = term.sort._replace(kind=kind)
    return Expression("empty", (), sort) if term.op == "empty" else Expression("as", (term,), sort)


def default(kind: Kind) -> tuple[Expression, ...]:
    """Return the terms of a value that does not matter."""
    simple = {INT: const(0), BOOL: FALSE, P: NOBODY}
    return tuple(simple[sort] for sort in sorts_of(kind))


def kind_of_value(value: Any) -> Kind:
    """Return the kind of a value that was computed."""
    match value:
        case Expression():
            return Scalar(value.sort)
        case bool():
            return Scalar(BOOL)
        case int():
            return Scalar(INT)
        case SymbolicRecord(cls, _):
            return kind_of(cls)
        case tuple() if not is_named(value):
            return Fixed(tuple(map(kind_of_value, value)))
    raise NotUnderstood(f"a collection of {value!r}")


# Concrete values.


def concrete(value: Any, kind: Kind) -> tuple[Any, ...]:
    """Return what the terms of this kind evaluate to where a value of a process is known."""
    match kind:
        case Scalar():
            return (value,)
        case Optional(of):
            if value is None:
                return (True, *(0 for _ in sorts_of(of)))
            return (False, *concrete(value, of))
        case Fixed(parts, cls):
            each = value if cls is None else [getattr(value, name) for name in cls.__declared__]
            return tuple(
                term for part, one in zip(parts, each, strict=True) for term in concrete(one, part)
            )
        case Collection(which, of):
            found = tuple(concrete(each, of) for each in value)
            return (found if which == "list" else frozenset(found),)
        case Dictionary(key, of):
            pairs = value.items() if isinstance(value, dict) else value
            return ({concrete(one, key): concrete(other, of) for one, other in pairs},)
