"""Refuse arguments of a wrong type where they are given, with a line that says what to give."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from os import PathLike
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from habemus.runtimes.sim import faults

FAULT_TYPES = frozenset(get_args(faults.Fault))

WORDS: dict[object, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "True or False",
    NoneType: "None",
    type: "the class of an algorithm",
    PathLike: "a path",
}


def check_types(function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raise `TypeError` if an argument is not of the type that the function declares."""
    hints = get_type_hints(function)
    for name, value in arguments.items():
        if not fits(value, hints[name]):
            raise TypeError(f"{name}={value!r}: give {described(hints[name])}")


def fits(value: object, hint: Any) -> bool:
    """Return whether a value is of a type, with the types of its elements."""
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin in (int, float):
        kinds = (int, float) if origin is float else int
        return isinstance(value, kinds) and not isinstance(value, bool)
    if origin is type or not parts:
        return isinstance(value, origin)
    if isinstance(value, str | bytes) or not isinstance(value, origin):
        return False
    if isinstance(value, Mapping):
        keys, values = parts
        return all(fits(key, keys) and fits(each, values) for key, each in value.items())
    return not isinstance(value, Collection) or all(fits(each, parts[0]) for each in value)


def described(hint: Any) -> str:
    """Say what to give for a type: "a whole number or None"."""
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(described(part) for part in parts))
    if hint is Any:
        return "anything"
    if hint in FAULT_TYPES:
        return "a fault of habemus.faults"
    if origin in WORDS:
        return WORDS[origin]
    if issubclass(origin, Mapping):
        keys, values = map(described, parts)
        return f"a dictionary (each key {keys}, each value {values})"
    if issubclass(origin, Iterable):
        return f"a list, each element {described(parts[0])}"
    return f"a {origin.__name__}"
