"""Mistakes of authors: what a class may not contain, and what a handler may not do.

A class is examined when it is made.  A search, and the run of an algorithm that is not in the
catalog, also guard the effects and look at the types of the variables after each step.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from habemus.core.shapes import is_of, shown
from habemus.core.values import Indication, Message, Timer, Value

if TYPE_CHECKING:
    from habemus.core.process import Process


class MistakeInAlgorithm(Exception):
    """Error in an algorithm file, which the engine has found."""


# Classes.

_INSTEAD = {
    **dict.fromkeys(
        ("random", "secrets", "uuid", "numpy.random"),
        "draw with self.choose(options), or a delay with after=(low, high)",
    ),
    **dict.fromkeys(
        ("time", "datetime"), "measure time with self.set_timer(timer, after=microseconds)"
    ),
}
"""Modules of chance and time, with what a handler uses instead."""


def check_class(name: str, namespace: Mapping[str, Any], declared: Collection[str]) -> None:
    """Refuse state outside the declared variables, and sources of chance and time."""
    for attribute, value in namespace.items():
        if attribute in declared or attribute.startswith("__"):
            continue
        if isinstance(value, list | dict | set | bytearray):
            raise MistakeInAlgorithm(
                f"{name}.{attribute} = {shown(value)} is shared by all processes and not part of"
                f" their state; declare it with its type, as in {attribute}:"
                f" {type(value).__name__}[...] = {shown(value)}, or use an immutable value"
            )
        if isinstance(value, types.FunctionType):
            _check_method(name, value)


def _check_method(owner: str, method: types.FunctionType) -> None:
    """Refuse a method that reaches a random number or a clock, itself or by a helper beside it."""
    seen: set[types.FunctionType] = set()
    frontier = [method]
    while frontier:
        function = frontier.pop()
        seen.add(function)
        for code in _codes(function.__code__):
            for word in code.co_names:
                value = function.__globals__.get(word)
                if isinstance(value, types.FunctionType) and value.__module__ == method.__module__:
                    frontier += [] if value in seen else [value]
                    continue
                source = word if word in _INSTEAD else _source_of(value)
                line = _line_of(code, word) if source else None
                if line is not None:
                    raise MistakeInAlgorithm(
                        f"line {line}, in {owner}.{method.__name__}: {source} is not part of the"
                        " state, and a handler depends only on its state and its event;"
                        f" {_INSTEAD[source]}"
                    )


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _source_of(value: Any) -> str:
    """Return the module of chance or time that a value of a global name is or comes from."""
    if isinstance(value, types.ModuleType):
        return value.__name__ if value.__name__ in _INSTEAD else ""
    owner = getattr(value, "__self__", None)  # random.randint is a method of an instance
    modules = (getattr(value, "__module__", ""), type(owner).__module__)
    return next((module for module in modules if module in _INSTEAD), "")


def _line_of(code: types.CodeType, word: str) -> int | None:
    """Return the line at which a function uses a global or imports a module of this name."""
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME") and each.argval == word:
            return each.positions.lineno if each.positions else code.co_firstlineno
    return None


# Steps.


def check_variables(process: Process, handler: Callable[..., Any]) -> None:
    """Refuse a value that is not of the type declared for its variable.

    handler: the function whose step has just ended.
    """
    kind = type(process)
    for name in kind.__state_names__:
        variable, value = kind.__variables__[name], getattr(process, name)
        assert variable.shape is not None
        if not is_of(variable.declared, value) or (
            variable.shape.mutable and isinstance(value, tuple | frozenset)
        ):
            code = handler.__code__
            raise MistakeInAlgorithm(
                f"{Path(code.co_filename).name}, line {code.co_firstlineno}, in {code.co_name} or a"
                f" rule after it: {name} is declared as {variable.shape.name}, and is"
                f" {shown(value)} now"
            )


def check_fields(value: Value) -> None:
    """Refuse a message, timer or indication with a field that is not of its declared type."""
    kind = type(value)
    for name, declared in kind.__declared__.items():
        if not is_of(declared, getattr(value, name)):
            raise MistakeInAlgorithm(
                f"{kind.__name__}.{name} is declared as {kind.__fields__[name].name}, and is"
                f" {shown(getattr(value, name))} in {shown(value)}"
            )


def guard_effects(process: Process, known: Collection[int]) -> None:
    """Let the effects of a process refuse what they cannot carry out, at the line that calls them.

    known: the processes that exist.
    """
    send, broadcast, indicate = process.send, process.broadcast, process.indicate
    set_timer, cancel_timer, choose = process.set_timer, process.cancel_timer, process.choose
    missing: Any = object()

    def guarded_send(message: Any = missing, *others: Any, to: Any = missing) -> None:
        if others or to is missing:
            given = f", to={shown(others[0])}" if others else ", to=..."
            raise MistakeInAlgorithm(f"send needs the receiver by name: self.send(message{given})")
        _expect(message, Message, "send", "a message")
        if type(to) is not int or to not in known:
            raise MistakeInAlgorithm(
                f"{shown(message)} is sent to {shown(to)}, which is not a process; there are"
                f" {', '.join(map(str, sorted(known)[:9]))}"
            )
        send(message, to=to)

    def guarded_broadcast(message: Any = missing) -> None:
        _expect(message, Message, "broadcast", "a message")
        broadcast(message)

    def guarded_set_timer(timer: Any = missing, *others: Any, after: Any = missing) -> None:
        if others or after is missing:
            given = shown(others[0]) if others else "5_000"
            raise MistakeInAlgorithm(
                f"set_timer needs its delay by name: self.set_timer(timer, after={given})"
            )
        _expect(timer, Timer, "set_timer", "a timer")
        set_timer(timer, after=after)

    def guarded_cancel_timer(timer: Any = missing) -> None:
        _expect(timer, Timer, "cancel_timer", "a timer")
        cancel_timer(timer)

    def guarded_indicate(indication: Any = missing) -> None:
        _expect(indication, Indication, "indicate", "an indication")
        indicate(indication)

    def guarded_choose(options: Any) -> Any:
        if not len(options):
            raise MistakeInAlgorithm("choose has no options to draw from")
        return choose(options)

    process.send, process.broadcast, process.indicate = (
        guarded_send,
        guarded_broadcast,
        guarded_indicate,
    )
    process.set_timer, process.cancel_timer = guarded_set_timer, guarded_cancel_timer
    process.choose = guarded_choose


def _expect(value: Any, kind: type[Value], effect: str, article: str) -> None:
    if isinstance(value, type) and issubclass(value, kind):
        raise MistakeInAlgorithm(
            f"{effect} takes {article}, not its class: write {value.__name__}(...)"
        )
    if not isinstance(value, kind):
        raise MistakeInAlgorithm(
            f"{effect} takes {article}, and {shown(value)} is none: derive its class from"
            f" {kind.__name__}"
        )
    check_fields(value)


# Explanations.


def hint(error: BaseException, process: Process) -> str:
    """Return what the author can do about an exception of a handler, or ""."""
    import difflib  # takes a while to load, and only mistakes need it
    import re

    kind = type(process)
    matched = re.match(rf"'{kind.__name__}' object (?:has no )?attribute '(\w+)'", str(error))
    if not isinstance(error, AttributeError) or not matched:
        return ""
    near = difflib.get_close_matches(matched[1], kind.__variables__, n=1)
    meant = f"did you mean self.{near[0]}? If not, " if near else ""
    return f"; {meant}declare it in the class with its type, as in {matched[1]}: int = 0"
