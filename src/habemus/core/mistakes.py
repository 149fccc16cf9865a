"""Mistakes of authors: what a class may not contain, and what a handler may not do.

A class is examined when it is made.  A search, and the run of an algorithm that is not in the
catalog, also guard the effects and look at the types of the variables after each step.
"""

from __future__ import annotations

import dis
import types
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
)
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from habemus.core.shapes import is_of, shown
from habemus.core.values import Indication, Message, Timer, Value
from habemus.core.words import similar

if TYPE_CHECKING:
    from habemus.core.process import Process


T = TypeVar("T")


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
    **dict.fromkeys(
        ("os", "posix", "nt", "io", "open", "input", "socket", "subprocess", "threading"),
        "send messages and set timers instead, draw with self.choose(options), and give constants"
        " with the plan, as in limit: Const[int] = 3",
    ),
}
"""Modules of chance and time and of the outside, with what a handler uses instead."""

_SHARED = (MutableSequence, MutableMapping, MutableSet, Iterator)
"""Types of values that can change although the name that refers to them does not."""


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
        if isinstance(value, property):
            value = value.fget
        if isinstance(value, types.FunctionType):
            _check_method(name, value)


def check_stored(name: str, namespace: Mapping[str, Any], constants: Collection[str]) -> None:
    """Refuse a method that sets a constant or a component: neither is part of the state."""
    for value in namespace.values():
        for code in _codes(value.__code__) if isinstance(value, types.FunctionType) else ():
            for word in code.co_names:
                if word in constants:
                    for each in dis.get_instructions(code):
                        if each.opname in _ATTRIBUTE_STORES and each.argval == word:
                            raise MistakeInAlgorithm(
                                f"line {_line(each, code)}, in {name}.{value.__name__}: {word} is"
                                " declared as Const or Uses, which no step may set; declare it as"
                                f" a variable, as in {word}: int = 0"
                            )


def check_outside(algorithm: type[Process]) -> None:
    """Examine a class of a user once more: now its file is loaded, and has all its variables."""
    for kind in algorithm.__mro__:
        if issubclass(type(kind), type(algorithm)) and not kind.__module__.startswith("habemus."):
            check_class(kind.__name__, kind.__dict__, kind.__dict__["__slots__"])


def _check_method(owner: str, method: types.FunctionType) -> None:
    """Refuse a method that reaches a random number, a clock or a variable outside, itself or by a
    helper beside it.
    """
    seen: set[types.FunctionType] = set()
    frontier = [method]
    while frontier:
        function = frontier.pop()
        seen.add(function)
        for code in _codes(function.__code__):
            place = f"in {owner}.{method.__name__}"
            _check_stores(code, function.__code__.co_freevars, place)
            for word in code.co_names:
                value = function.__globals__.get(word)
                if isinstance(value, types.FunctionType) and value.__module__ == method.__module__:
                    frontier += [] if value in seen else [value]
                    continue
                _check_word(code, word, value, place)


def _check_stores(code: types.CodeType, around: Collection[str], place: str) -> None:
    """Refuse code that sets a variable outside.

    around: the variables of the functions around the method.
    """
    if _STORES.isdisjoint(code.co_code[::2]):  # mostly so, and far faster than to disassemble
        return
    for each in dis.get_instructions(code):
        if each.opcode in _STORES and (each.opname.endswith("_GLOBAL") or each.argval in around):
            raise MistakeInAlgorithm(
                f"line {_line(each, code)}, {place}: {each.argval} is a variable outside, which all"
                " processes share and no check can see; declare it in the class with its type, as"
                f" in {each.argval}: int = 0"
            )


def _check_word(code: types.CodeType, word: str, value: Any, place: str) -> None:
    """Refuse the use of a module of chance or time, or of a mutable variable outside."""
    source = word if word in _INSTEAD else _source_of(value)
    shared = isinstance(value, _SHARED) and not isinstance(value, type)
    line = _line_of(code, word) if source or shared else None
    if line is None:
        return
    if source:
        raise MistakeInAlgorithm(
            f"line {line}, {place}: {source} is not part of the state, and a handler depends only"
            f" on its state and its event; {_INSTEAD[source]}"
        )
    raise MistakeInAlgorithm(
        f"line {line}, {place}: {word} is a {type(value).__name__} outside, which all processes"
        " share and no check can see; declare it in the class with its type, or make it a constant:"
        " a tuple, a frozenset, or a types.MappingProxyType of a dict"
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
        if each.opname in _READS and each.argval == word:
            return _line(each, code)
    return None


_ATTRIBUTE_STORES = ("STORE_ATTR", "DELETE_ATTR")
_READS = ("LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME")
_STORES = {
    dis.opmap[f"{verb}_{kind}"] for verb in ("STORE", "DELETE") for kind in ("GLOBAL", "DEREF")
}


def _line(instruction: dis.Instruction, code: types.CodeType) -> int:
    found = instruction.positions.lineno if instruction.positions else None
    return found or code.co_firstlineno


# Steps.


class Constants:
    """The constants of a process, to see that no step sets or changes one."""

    def __init__(self, process: Process) -> None:
        kind = type(process)
        self._process = process
        self._values = [
            (name, value, deepcopy(value) if isinstance(value, _SHARED) else value)
            for name, variable in kind.__variables__.items()
            if variable.kind == "const"
            for value in [getattr(process, name)]
        ]

    def check(self, handler: Callable[..., Any]) -> None:
        """Refuse a constant that is not as it was.

        handler: the function whose step has just ended.
        """
        for name, value, before in self._values:
            now = getattr(self._process, name)
            if now is not value or now != before:
                raise MistakeInAlgorithm(
                    f"{_after(handler)}: {name} is declared as Const, and changes from"
                    f" {shown(before)} to {shown(now)}; declare it as a variable"
                )


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
            raise MistakeInAlgorithm(
                f"{_after(handler)}: {name} is declared as {variable.shape.name}, and is"
                f" {shown(value)} now"
            )


def _after(handler: Callable[..., Any]) -> str:
    """Return the place of a step in words."""
    code = handler.__code__
    at = f"{Path(code.co_filename).name}, line {code.co_firstlineno}"
    return f"{at}, in {code.co_name} or a rule after it"


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
        if not _is_span(after):
            raise MistakeInAlgorithm(
                f"after={shown(after)} is not a delay; after is in microseconds: 5_000, or (5_000,"
                " 9_000) for one that is drawn"
            )
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


def _is_span(after: Any) -> bool:
    """Return whether a value is a delay, or a range of delays."""
    if type(after) is int:
        return after >= 0
    if not isinstance(after, tuple) or len(after) != 2:
        return False
    low, high = after
    return type(low) is int and type(high) is int and 0 <= low <= high


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


# Results.


def awaited_by(process: Process) -> list[int]:
    """Return the processes that a process waits for; refuse what is no list of them."""
    found: Any = process.awaits()
    if isinstance(found, Iterable) and not isinstance(found, str):
        listed = list(found)
        if all(type(each) is int for each in listed):
            return listed
        found = listed
    raise wrong_result(
        type(process).awaits, found, "the processes that it waits for, as in (self.holder,)"
    )


def formula_of(plan: Any, size: int, kind: type[T]) -> T:
    """Return the costs of a plan by formula; refuse what is not of their kind."""
    found = plan.costs(size)
    if not isinstance(found, kind):
        raise wrong_result(
            type(plan).costs, found, f"{kind.__name__}(...), as in {kind.__name__}(messages=3)"
        )
    return found


def wrong_result(method: Callable[..., Any], found: object, instead: str) -> MistakeInAlgorithm:
    """Return the error of a method that has returned something else than it must."""
    code = method.__code__
    return MistakeInAlgorithm(
        f"{Path(code.co_filename).name}, line {code.co_firstlineno}, in {code.co_name}: it returns"
        f" {shown(found)}; return {instead}"
    )


# Explanations.


def hint(error: BaseException, process: Process) -> str:
    """Return what the author can do about an exception of a handler, or ""."""
    import re  # takes a while to load, and only mistakes need it

    kind = type(process)
    matched = re.match(rf"'{kind.__name__}' object (?:has no )?attribute '(\w+)'", str(error))
    if not isinstance(error, AttributeError) or not matched:
        return ""
    near = similar(matched[1], kind.__variables__)
    meant = f"did you mean self.{near[0]}? If not, " if near else ""
    return f"; {meant}declare it in the class with its type, as in {matched[1]}: int = 0"
