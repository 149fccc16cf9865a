"""The public names with their members: what the page says about each."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

from tests.api_page.attributes import Attribute, attributes_of, global_of
from tests.api_page.docstrings import explained
from tests.api_page.signatures import function_text, laid_out, signature_of, type_text, usage_of

SPECIAL = ("__call__",)
"""Special methods that are listed if they have a docstring; `with` is said in a sentence."""
MANAGER_METHODS = {"__enter__": "with", "__aenter__": "async with"}


@dataclass(frozen=True)
class Documented:
    """A public name, or a member of a class."""

    name: str
    doc: str
    code: str = ""
    """Signature, or the name of an attribute with its type."""
    notes: tuple[str, ...] = ()
    """Sentences that follow from the code: base classes, use as a context manager."""
    arguments: frozenset[str] = frozenset()
    """Names that lines of the docstring may explain."""
    attributes: tuple[Documented, ...] = ()
    methods: tuple[Documented, ...] = ()


def described(module: str, name: str, public: Collection[type]) -> Documented:
    """Return what the page says about a name; `public` are all classes on the page."""
    found = getattr(importlib.import_module(module), name)
    if inspect.isclass(found):
        return class_of(name, found, public)
    if inspect.isfunction(found):
        return function_of(name, found)
    if isinstance(found, ModuleType):
        return Documented(name, inspect.getdoc(found) or "")
    assigned = global_of(module, name)
    is_union = " | " in assigned.value and "[" not in assigned.value.partition(" | ")[0]
    return Documented(name, assigned.doc, f"{name} = {assigned.value}" if is_union else "")


def function_of(name: str, called: Callable[..., Any], mark: str = "") -> Documented:
    """Return a function or method; mark: the decorator by which it differs from others."""
    code, usage = function_text(name, called)
    return Documented(
        name,
        inspect.getdoc(called) or "",
        f"{mark}\n{code}" if mark else code,
        (usage,) if usage else (),
        frozenset(signature_of(called).parameters),
    )


# Classes.


def class_of(name: str, cls: type, public: Collection[type]) -> Documented:
    """Return a class with the members that no other class on the page has."""
    doc = inspect.getdoc(cls) or ""
    listed = _classes_listed(cls, public)
    notes = tuple(_notes(name, cls, public))
    if issubclass(cls, Enum):
        return Documented(name, doc, notes=notes, attributes=tuple(_members_of_enum(cls)))
    found = _attributes(cls, listed, public)
    arguments = frozenset((*found, *_constructor(cls)))
    listed_in_doc = explained(doc, arguments)
    plain = (
        _attribute(cls, each)
        for each in found.values()
        if each.name not in listed_in_doc and not _called(cls, each)
    )
    return Documented(
        name,
        doc,
        _constructor_text(name, cls, doc),
        notes,
        arguments,
        (*plain, *_properties(cls, listed)),
        (*_effects(cls, found.values()), *_methods(cls, listed, public)),
    )


def _attributes(cls: type, listed: list[type], public: Collection[type]) -> dict[str, Attribute]:
    return {
        found.name: found
        for base in listed
        for found in attributes_of(base).values()
        if found.doc or not _is_of_public_base(cls, found.name, public)
    }


def _public_bases(cls: type, public: Collection[type]) -> list[type]:
    return [each for each in cls.__mro__[1:] if each in public]


def _classes_listed(cls: type, public: Collection[type]) -> list[type]:
    """Return the class and its bases of ours that no public base has, bases first."""
    shown = {each for base in _public_bases(cls, public) for each in base.__mro__}
    private = [
        each
        for each in cls.__mro__[1:]
        if each.__module__.startswith("habemus.") and each not in shown
    ]
    return [*reversed(private), cls]


def _is_of_public_base(cls: type, name: str, public: Collection[type]) -> bool:
    return any(hasattr(base, name) for base in _public_bases(cls, public))


def _constructor(cls: type) -> dict[str, Any]:
    """Return the parameters of a constructor that a class defines or its fields determine."""
    if issubclass(cls, BaseException | Enum):
        return {}
    types = {
        name: found
        for base in reversed(cls.__mro__)
        for name, found in getattr(base, "__annotations__", {}).items()
    }
    return dict(signature_of(cls, types).parameters)


def _constructor_text(name: str, cls: type, doc: str) -> str:
    """Return how to make an instance; nothing if only other objects make them.

    Those of values are public, and those whose arguments the docstring of the class explains.
    """
    parameters = _constructor(cls)
    fields = getattr(cls, "__match_args__", ())
    is_value = bool(fields) and not any(field.startswith("_") for field in fields)
    if not parameters or not (is_value or explained(doc, parameters)):
        return ""
    return laid_out(name, inspect.Signature(list(parameters.values())))


def _notes(name: str, cls: type, public: Collection[type]) -> Iterator[str]:
    bases = [text for base in cls.__bases__ if (text := _base_text(base, public))]
    if bases:
        yield f"Derives from {', '.join(f'`{base}`' for base in bases)}."
    if issubclass(cls, tuple):
        yield "Named tuple."
    statements = {
        statement: _given_by(getattr(cls, method), name)
        for method, statement in MANAGER_METHODS.items()
        if hasattr(cls, method)
    }
    if statements:
        yield usage_of(statements)


def _given_by(method: Callable[..., Any], owner: str) -> str:
    """Return what the method of a context manager returns, in words."""
    given = str(signature_of(method).return_annotation)
    return "the object itself" if given in ("Self", owner) else f"`{given}`"


def _base_text(base: type, public: Collection[type]) -> str:
    """Return the name of a base class; nothing if it is internal or says nothing to callers."""
    if base in public or base is Enum:
        return base.__name__
    if not issubclass(base, BaseException) or base.__module__.startswith("habemus."):
        return ""
    return base.__name__ if base.__module__ == "builtins" else f"{base.__module__}.{base.__name__}"


def _members_of_enum(cls: type[Enum]) -> Iterator[Documented]:
    for each in cls:
        yield Documented(each.name, str(each.value), f"{cls.__name__}.{each.name}")


def _attribute(cls: type, found: Attribute) -> Documented:
    typed = found._replace(type=type_text(found.type, cls.__module__))
    return Documented(found.name, found.doc, typed.shown)


def _properties(cls: type, listed: list[type]) -> Iterator[Documented]:
    for name, member in _own(cls, listed):
        if isinstance(member, property) and member.fget is not None:
            returned = signature_of(member.fget).return_annotation
            yield Documented(name, inspect.getdoc(getattr(cls, name)) or "", f"{name}: {returned}")


def _own(cls: type, listed: list[type]) -> Iterator[tuple[str, Any]]:
    """Yield the public members of the classes, in the order of their definition."""
    for name in dict.fromkeys(name for base in listed for name in vars(base)):
        member = inspect.getattr_static(cls, name)
        if not name.startswith("_") or (name in SPECIAL and inspect.getdoc(member)):
            yield name, member


def _methods(cls: type, listed: list[type], public: Collection[type]) -> Iterator[Documented]:
    for name, member in _own(cls, listed):
        bound = getattr(cls, name)
        is_override = not getattr(member, "__doc__", "") and _is_of_public_base(cls, name, public)
        if isinstance(member, classmethod | staticmethod):
            yield function_of(name, bound, f"@{type(member).__name__}")
        elif isinstance(member, FunctionType) and not is_override:
            yield function_of(name, bound)


# Attributes that are called, as those which a runtime sets on each process.


def _called(cls: type, attribute: Attribute) -> Callable[..., Any] | None:
    """Return the signature of an attribute whose type is a protocol with `__call__`."""
    declared = vars(sys.modules[cls.__module__]).get(attribute.type)
    is_protocol = getattr(declared, "_is_protocol", False)
    return vars(declared).get("__call__") if is_protocol else None


def _effects(cls: type, found: Collection[Attribute]) -> Iterator[Documented]:
    for attribute in found:
        called = _called(cls, attribute)
        if called is not None:
            code, _ = function_text(attribute.name, called)
            arguments = frozenset(signature_of(called).parameters)
            yield Documented(attribute.name, attribute.doc, code, arguments=arguments)
