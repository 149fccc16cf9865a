"""Signatures as callers read them: without self, with the names of types as the source has them."""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from inspect import Parameter, Signature
from typing import Any

from tests.api_page.attributes import global_of

WIDTH = 88
"""Length of a signature that stays on one line."""
MANAGERS = {"Iterator": "ContextManager", "AsyncIterator": "AsyncContextManager"}
"""Return types of the generators behind context managers, and what their callers get."""


class Bare(str):
    """A text that a signature shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


def type_text(found: Any, module: str) -> Bare:
    """Return an annotation of a module as its source has it, without the modules of names."""
    if isinstance(found, typing.ForwardRef):
        found = found.__forward_arg__
    text = found if isinstance(found, str) else inspect.formatannotation(found)
    text = re.sub(r"(typing\.)?Annotated\[int, [^]]*\]", "ProcessId", text)
    text = re.sub(r"ForwardRef\('(.*?)'(, module=.*?)?\)", r"\1", text)
    text = re.sub(r"\b[A-Z]\w+", lambda match: _without_alias(match[0], module), text)
    return Bare(re.sub(r"\b(habemus|typing|collections\.abc|pathlib)\.([a-z_]+\.)*", "", text))


def _without_alias(name: str, module: str) -> str:
    """Return the type that a name stands for, if it is an alias of the module and of one type."""
    is_alias = typing.get_origin(vars(sys.modules[module]).get(name)) in (Callable, Iterable)
    return global_of(module, name).value if is_alias else name


def default_text(value: Any) -> Bare:
    """Return a default as a caller writes it; `...` if it cannot be written."""
    if isinstance(value, Enum):
        return Bare(f"{type(value).__name__}.{value.name}")
    text = repr(value)
    return Bare("..." if text.startswith("<") else text)


def signature_of(called: Callable[..., Any], types: Mapping[str, Any] | None = None) -> Signature:
    """Return the signature; `types` has the types of parameters that have no annotation."""
    module = called.__module__
    found = inspect.signature(called)
    parameters = []
    for each in found.parameters.values():
        declared = (types or {}).get(each.name, each.annotation)
        if each.name in ("self", "cls"):
            continue
        if declared is not Parameter.empty:
            each = each.replace(annotation=type_text(declared, module))
        if each.default is not Parameter.empty:
            each = each.replace(default=default_text(each.default))
        parameters.append(each)
    returned = found.return_annotation
    if returned is not Signature.empty:
        returned = type_text(returned, module)
    return found.replace(parameters=parameters, return_annotation=returned)


def laid_out(head: str, found: Signature, returned: str = "") -> str:
    """Return a signature on one line, or with a line for each parameter if that is too long."""
    listed: list[str] = []
    for each in found.parameters.values():
        names_only = each.kind is Parameter.KEYWORD_ONLY
        if names_only and not any(before.startswith("*") for before in listed):
            listed.append("*")
        listed.append(str(each))
    end = f" -> {returned}" if returned else ""
    line = f"{head}({', '.join(listed)}){end}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{head}(", *(f"    {each}," for each in listed), f"){end}"])


def manager_of(called: Callable[..., Any]) -> str:
    """Return the statement that a context manager is for, `with` or `async with`, if it is one."""
    made_of = getattr(called, "__wrapped__", None)
    if inspect.isgeneratorfunction(made_of):
        return "with"
    return "async with" if inspect.isasyncgenfunction(made_of) else ""


def usage_of(statements: Mapping[str, str]) -> str:
    """Return the sentence about a context manager: what each statement gives, if that is known."""
    uses = (
        f"`{statement}`" if given == "`Any`" else f"`{statement}` gives {given}"
        for statement, given in statements.items()
    )
    return f"Context manager: {'; '.join(uses)}."


def function_text(name: str, called: Callable[..., Any]) -> tuple[str, str]:
    """Return the definition of a function as callers see it, and how to use it if not by a call."""
    forms = typing.get_overloads(called) or [called]
    texts = []
    usage = ""
    for form in forms:
        found = signature_of(form)
        returned = "" if found.return_annotation is Signature.empty else found.return_annotation
        statement = manager_of(form)
        if statement:
            kind, _, rest = returned.partition("[")
            usage = usage_of({statement: f"`{rest.removesuffix(']')}`"})
            returned = f"{MANAGERS[kind]}[{rest}"
        word = "async def" if inspect.iscoroutinefunction(form) else "def"
        texts.append(laid_out(f"{word} {name}", found, returned))
    return "\n".join(texts), usage
