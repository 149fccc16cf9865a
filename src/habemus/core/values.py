"""Values: messages, timers and indications.

A value is frozen, has slots, and equals another one only if their types are the same: an `Ack()` is
not a `Release()`, even though neither has a field.  Equality, order and hash are derived from the
declared fields, never written, so no field can be forgotten.

    class Request(Message):
        stamp: int
"""

from __future__ import annotations

import inspect
import json
import sys
import types
import typing
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, NoReturn, dataclass_transform

from habemus.core import shapes
from habemus.core.shapes import (
    LenientTypes,
    Malformed,
    Shape,
    UnknownType,
    UnsupportedType,
    order_of,
    shape_of,
    shown,
)

_REQUIRED: Any = object()
_DERIVED = ("__init__", "__eq__", "__hash__", "__lt__", "__repr__", "__reduce__")


def declared_names(namespace: Mapping[str, Any]) -> list[str]:
    """Return the names annotated in a class body, in order, without those marked ClassVar."""
    annotations = namespace.get("__annotations__")  # before 3.14, and under the future import
    if annotations is None:
        annotations = _deferred_annotations(namespace)
    return [name for name, declared in annotations.items() if not _is_class_variable(declared)]


def _deferred_annotations(namespace: Mapping[str, Any]) -> Mapping[str, Any]:
    """Evaluate the annotations of a class body that Python 3.14 defers (PEP 649)."""
    if sys.version_info >= (3, 14):
        import annotationlib

        annotate = annotationlib.get_annotate_from_class_namespace(namespace)
        if annotate is not None:
            return annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF)
    return {}


def _is_class_variable(declared: Any) -> bool:
    if isinstance(declared, str):
        return declared.removeprefix("typing.").startswith("ClassVar")
    return declared is ClassVar or typing.get_origin(declared) is ClassVar


def hints_of(cls: type, definition: types.FrameType | None) -> dict[str, Any]:
    """Return the declared types of a class, resolved with the names visible at its definition."""
    inside = {name: member for name, member in cls.__dict__.items() if isinstance(member, type)}
    try:
        # Only the names of this class: those of its bases were resolved where the bases are
        # defined, and may be unknown here.
        own = type(
            cls.__name__,
            (),
            {"__annotations__": inspect.get_annotations(cls), "__module__": cls.__module__},
        )
        return typing.get_type_hints(
            own,
            localns={**(definition.f_locals if definition else {}), **inside},
            include_extras=True,
        )
    except NameError as error:
        raise UnsupportedType(
            f"{cls.__qualname__}: {error}; define it above the class that uses it"
        ) from None


class ValueType(type):
    """Metaclass of values: derives slots and methods from the annotations."""

    __fields__: dict[str, Shape]
    __declared__: dict[str, Any]
    __defaults__: dict[str, Any]

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> ValueType:
        own = declared_names(namespace)
        defaults = {field: namespace.pop(field) for field in own if field in namespace}
        if any(isinstance(base, ValueType) for base in bases):
            for method in _DERIVED:
                if method in namespace:
                    raise TypeError(
                        f"{name} defines {method}, which follows from the fields of a value and is"
                        " not written by hand"
                    )
        namespace["__slots__"] = tuple(own)
        cls = super().__new__(mcls, name, bases, namespace)
        fields: dict[str, Shape] = {}
        for base in reversed(cls.__mro__[1:]):
            fields.update(base.__dict__.get("__fields__", {}))
        hints = hints_of(cls, sys._getframe(1))
        for field in own:
            try:
                fields[field] = shape_of(hints[field])
            except UnsupportedType as reason:
                raise UnsupportedType(f"{name}.{field}: {reason}") from None
            if fields[field].mutable:
                raise UnsupportedType(
                    f"{name}.{field}: {fields[field].name} can change; a value holds tuple,"
                    " frozenset or other values"
                )
        inherited = {
            key: value
            for base in reversed(cls.__mro__[1:])
            for key, value in base.__dict__.get("__defaults__", {}).items()
        }
        given = {**inherited, **defaults}
        for before, after in pairwise(fields):
            if before in given and after not in given:
                raise TypeError(
                    f"{name}.{after} has no default and follows {before}, which has one"
                )
        declared: dict[str, Any] = {}
        for base in reversed(cls.__mro__[1:]):
            declared.update(base.__dict__.get("__declared__", {}))
        type.__setattr__(
            cls, "__declared__", {**declared, **{field: hints[field] for field in own}}
        )
        type.__setattr__(cls, "__fields__", fields)
        type.__setattr__(cls, "__defaults__", {**inherited, **defaults})
        type.__setattr__(cls, "__match_args__", tuple(fields))
        for method, function in _methods(cls, fields, {**inherited, **defaults}).items():
            type.__setattr__(cls, method, function)
        return cls


def _methods(cls: ValueType, fields: dict[str, Shape], defaults: dict[str, Any]) -> dict[str, Any]:
    """Generate the methods that the fields determine, as straight-line code.

    They are on the hot path of every runtime.
    """
    scope: dict[str, Any] = {"cls": cls, "required": _REQUIRED}
    # A field may have any name, so these names have a form that no field has.
    scope |= {f"__set_{field}__": getattr(cls, field).__set__ for field in fields}
    scope |= {f"__default_{field}__": value for field, value in defaults.items()}
    parameters = "".join(
        f", {field}" + (f"=__default_{field}__" if field in defaults else "") for field in fields
    )
    assignments = "; ".join(f"__set_{field}__(self, {field})" for field in fields) or "pass"
    equal = "".join(f" and self.{field} == other.{field}" for field in fields)
    values = "".join(f"self.{field}, " for field in fields)
    keys = [("{}" if shape.ordered else "order_of({})", field) for field, shape in fields.items()]
    mine, others = (
        "".join(form.format(f"{who}.{field}") + ", " for form, field in keys)
        for who in ("self", "other")
    )
    scope |= {"order_of": order_of, "Value": cls.__mro__[-2]}
    shown = ", ".join(f"{field}={{self.{field}!r}}" for field in fields)
    source = f"""
def __init__(self{parameters}): {assignments}
def __eq__(self, other): return self.__class__ is other.__class__{equal}
def __hash__(self): return hash((cls, {values}))
def __lt__(self, other):
    if self.__class__ is other.__class__: return ({mine}) < ({others})
    if not isinstance(other, Value): return NotImplemented
    one, two = self.__class__, other.__class__
    return (one.__qualname__, one.__module__) < (two.__qualname__, two.__module__)
def __repr__(self): return f"{cls.__name__}({shown})"
def __reduce__(self): return (cls, ({values}))
"""
    exec(compile(source, f"<value {cls.__qualname__}>", "exec"), scope)
    if not fields:
        del scope["__init__"]  # object's own does the same, and is faster
    return {name: scope[name] for name in _DERIVED if name in scope}


@dataclass_transform(frozen_default=True, eq_default=True)
class Value(metaclass=ValueType):
    """An immutable value with declared fields."""

    def __setattr__(self, name: str, _: object) -> NoReturn:
        raise AttributeError(
            f"{type(self).__name__} is a value and does not change; make a new one instead of"
            f" setting {name}"
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is a value and does not change; {name} stays")

    def __lt__(self, other: Value) -> bool:
        # Declared here so that sorted() type-checks.
        raise AssertionError("the metaclass generates this method for each class")


class Message(Value):
    """A value sent from one process to another.  Its handler takes the sender and the message."""


class Timer(Value):
    """A value that identifies a timer.  Setting an equal one again replaces it.

    Its handler takes the timer.
    """


class Indication(Value):
    """A value sent by a component to the one above it.  Its handler takes the indication."""


def _encode(value: Value) -> Any:
    cls = type(value)
    found = {}
    for name, shape in cls.__fields__.items():
        field = getattr(value, name)
        found[name] = field if shape.plain is None else shape.plain(field)
    return {cls.__name__: found}


def _decode(found: Any, known: Mapping[str, type]) -> Value:
    if not (isinstance(found, dict) and len(found) == 1):
        raise Malformed(f"expected one named value, found {shown(found)}")
    [(name, fields)] = found.items()
    cls = known.get(name)
    if cls is None or not issubclass(cls, Value):
        raise UnknownType(
            f"unknown value {str(name)[:60]!r}; known are {', '.join(sorted(known)) or 'none'}"
        )
    if not isinstance(fields, dict) or (
        fields.keys() != cls.__fields__.keys()
        and not _has_required(cls, fields := _known_fields(cls, fields, known))
    ):
        raise Malformed(
            f"{name} has the fields {', '.join(cls.__fields__) or 'none'}, found {shown(fields)}"
        )
    try:
        parsed = {}
        for field, found in fields.items():
            shape = cls.__fields__[field]
            parsed[field] = found if type(found) is shape.atom else shape.parse(found, known)
        result: Value = cls(**parsed)
    except RecursionError:
        raise Malformed(f"{name} is nested too deep") from None
    return result


def _known_fields(
    cls: type[Value], fields: dict[str, Any], known: Mapping[str, type]
) -> dict[str, Any]:
    """Return the fields; without those that the type does not have, where these are ignored."""
    if not isinstance(known, LenientTypes):
        return fields
    return {name: found for name, found in fields.items() if name in cls.__fields__}


def _has_required(cls: type[Value], fields: dict[str, Any]) -> bool:
    """Return whether only fields with a default are missing."""
    missing = cls.__fields__.keys() - fields.keys()
    return fields.keys() <= cls.__fields__.keys() and missing <= cls.__defaults__.keys()


shapes.value_base = Value
shapes.encode_value = _encode
shapes.decode_value = _decode


def to_plain(value: Value) -> Any:
    """Return the value in a form that JSON can hold: the name of its type over its fields."""
    return _encode(value)


def from_plain(found: Any, known: Mapping[str, type]) -> Value:
    """Decode what `to_plain` returned; raise `Malformed` if it is of none of the known types."""
    return _decode(found, known)


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True)


def canonical(plain: Any) -> str:
    """Encode a plain value as its canonical text, on which digests and sizes depend."""
    return _ENCODER.encode(plain)


def size_of(value: Value) -> int:
    """Return the size of a message in bytes: the length of its canonical text."""
    return len(canonical(_encode(value)))
