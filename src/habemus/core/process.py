"""A process: declared variables, and handlers that change them and act through effects.

A class that derives from `Process` declares its variables by annotation.  The engine sees these and
only these as the state, so from outside a process is a pure function from (state, event) to (state,
effects), and the same class can be simulated, searched exhaustively and run between machines.

    class Central(Mutex):
        coordinator: Const[ProcessId]        # given with the plan, never changes
        holder: ProcessId | None = None      # part of the state
        granted_to: Durable[int] = 0         # part of the state, survives a crash
        detector: Uses[Detector]             # a component below this one

        @upon(Request)                       # upon receiving a Request ...
        def enqueue(self, sender: ProcessId, request: Request) -> None: ...

        @whenever(is_free_and_wanted)        # whenever the condition holds, after any event
        def admit_next(self) -> None: ...

Calling the class returns a *plan*: the constants and the initial state.  A runtime makes the
processes from it, one for each participant.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import types
import typing
from abc import ABCMeta
from collections.abc import Callable, Iterator, Sequence
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    dataclass_transform,
)

from habemus.core.assumptions import Assumptions
from habemus.core.mistakes import MistakeInAlgorithm as MistakeInAlgorithm
from habemus.core.mistakes import check_class, check_stored
from habemus.core.shapes import IS_PROCESS, Shape, UnsupportedType, is_of, shape_of, shown
from habemus.core.values import Indication, Message, Timer, Value, declared_names, hints_of
from habemus.core.words import did_you_mean

ProcessId: TypeAlias = Annotated[int, IS_PROCESS]
"""An int, annotated so that states are shown with the names of processes."""
Span: TypeAlias = int | tuple[int, int]
"""A delay in microseconds, or the range from which the runtime draws one."""

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class _Mark:
    def __init__(self, kind: str) -> None:
        self.kind = kind


_CONST, _DURABLE, _USES = _Mark("const"), _Mark("durable"), _Mark("uses")

Const = Annotated[T, _CONST]
"""Annotation of a variable that is given with the plan: `Const[int]`.  Never part of the state."""
Durable = Annotated[T, _DURABLE]
"""Annotation of a variable that survives a crash: `Durable[int]`.  It is stored before any message
of the step is sent.
"""
Uses = Annotated[T, _USES]
"""Annotation of a component below this process, `Uses[Detector]`: any process that solves the named
problem.
"""

RULE_LIMIT = 10_000
"""Limit on the rules that fire after one event; a run that exceeds it is stopped as endless."""


class MistakeInPlan(ValueError):
    """A plan that cannot run: a missing or unknown variable, a component of the wrong kind."""


def upon(*kinds: type[Value], of: str | None = None) -> Callable[[F], F]:
    """Mark the handler of a message, timer or indication.

    kinds: the classes of the values that the method handles.
    of: the component whose indication it is, where several components send it.
    """

    for kind in kinds or (None,):
        if not (isinstance(kind, type) and issubclass(kind, Value)):
            raise MistakeInAlgorithm(
                "@upon takes the messages, timers or indications that the handler is for, as in"
                " @upon(Request)"
            )
        if of is not None and not issubclass(kind, Indication):
            raise MistakeInAlgorithm(
                f"@upon({kind.__name__}, of={of!r}): only indications come from components"
            )

    def mark(handler: F) -> F:
        handler.__upon__ = (kinds, of)  # type: ignore[attr-defined]  # a mark on a function
        return handler

    return mark


def whenever(guard: Callable[[Any], bool]) -> Callable[[F], F]:
    """Mark a rule, which is applied after each event for as long as its guard holds.

    guard: a method of the class, defined above the rule, that returns whether to apply it.
    """

    if not callable(guard):
        raise MistakeInAlgorithm(
            f"@whenever({shown(guard)}): the guard of a rule is a method of the class, written"
            " above the rule"
        )

    def mark(action: F) -> F:
        action.__whenever__ = guard.__name__  # type: ignore[attr-defined]  # a mark on a function
        return action

    return mark


_BARE = whenever(lambda _: False).__code__
"""Code of a rule that is marked with `@whenever` and no guard."""


def request(method: F) -> F:
    """Mark a request: a method that the application, or the process above, may call."""
    method.__request__ = True  # type: ignore[attr-defined]  # a mark on a function
    return method


class Variable(NamedTuple):
    name: str
    kind: str  # "state", "const", "durable", "uses"
    declared: Any
    shape: Shape | None
    default: Any  # _REQUIRED if the plan must give a value


class Rule(NamedTuple):
    name: str
    guard: Callable[[Any], bool]
    action: Callable[[Any], None]


class Behaviour(NamedTuple):
    """The handlers, rules and requests of a class, collected once when the class is made.

    `upon` holds the plain handlers, `settled` the same ones followed by the rules that they can
    affect.  A process without components runs the settled ones; a stack applies the rules of all
    its parts together.
    """

    rules: tuple[Rule, ...]
    upon: dict[tuple[type[Value], str | None], Callable[..., None]]
    settled: dict[tuple[type[Value], str | None], Callable[..., None]]
    requests: dict[str, Callable[..., None]]
    settle: Callable[[Any], bool]
    values: dict[str, type[Value]]  # the types it handles, by name


class Unsynced(NamedTuple):
    """Durable variables of a process of which a crash of its machine may lose the latest values, if
    the process then stays down for a time.

    variables: the names of the variables.
    down: how long the process stays down, in microseconds.
    """

    variables: tuple[str, ...] = ()
    down: int = 0


_REQUIRED: Any = object()
_GIVEN: list[str] = []  # names of the attributes that the runtime sets on every process


class ProcessType(ABCMeta):
    """Metaclass of processes: variables come from annotations, behaviour from decorators."""

    __variables__: dict[str, Variable]
    __own__: dict[str, Variable]  # those that this class declares, or gives a new default
    __behaviour__: Behaviour
    __state_names__: tuple[str, ...]
    __capture__: Callable[[Any], tuple[Any, ...]]
    __restore__: Callable[[Any, tuple[Any, ...]], None]

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> ProcessType:
        own = declared_names(namespace)
        known = {variable for base in bases for variable in getattr(base, "__variables__", {})}
        if not any(isinstance(base, ProcessType) for base in bases):
            namespace["__slots__"] = tuple(
                own
            )  # Process itself: what the runtime gives to every process
            _GIVEN.extend(own)
            return _finish(super().__new__(mcls, name, bases, namespace), {}, {})
        for variable in own:
            if variable in _GIVEN:
                raise MistakeInAlgorithm(
                    f"{name}.{variable}: every process has {variable} from its runtime; use another"
                    " name"
                )
        # A name of a variable given a value without a type is a new default, not a class attribute
        # over the slot.
        defaults = {
            variable: namespace.pop(variable)
            for variable in (*own, *sorted(known))
            if variable in namespace
        }
        _check_attributes(name, namespace)
        check_class(name, namespace, own)
        namespace["__slots__"] = tuple(variable for variable in own if variable not in known)
        cls = super().__new__(mcls, name, bases, namespace)
        hints = hints_of(cls, sys._getframe(1))
        # In the order of the ancestors, as Python resolves every other name.
        inherited = {
            each: found
            for base in reversed(cls.__mro__[1:])
            for each, found in base.__dict__.get("__own__", {}).items()
        }
        changed = {
            variable: _variable(name, variable, hints[variable], defaults.get(variable, _REQUIRED))
            for variable in own
        }
        for variable, default in defaults.items():
            if variable not in changed:
                changed[variable] = inherited[variable]._replace(default=default)
        variables = {**inherited, **changed}
        fixed = {each.name for each in variables.values() if each.kind in ("const", "uses")}
        check_stored(name, namespace, fixed)
        made = _finish(cls, variables, changed)
        _check_shows(made, namespace.get("shows", ()))
        return made


def _check_attributes(name: str, namespace: dict[str, Any]) -> None:
    """Refuse what a class says about itself in a form that habemus cannot use."""
    if "__init__" in namespace:
        raise MistakeInAlgorithm(
            f"{name}.__init__: a class is called for its plan, and its variables are declared; give"
            " them defaults, or set them in on_start"
        )
    if not isinstance(namespace.get("assumes", Assumptions()), Assumptions):
        raise MistakeInAlgorithm(
            f"{name}.assumes = {shown(namespace['assumes'])}: write assumes ="
            " Assumptions(links=Links.RELIABLE), with what else it assumes"
        )
    if isinstance(namespace.get("system"), types.FunctionType):
        raise MistakeInAlgorithm(f"{name}.system is called on the class: write @classmethod above")
    if not isinstance(namespace.get("name", ""), str):
        raise MistakeInAlgorithm(
            f"{name}.name = {shown(namespace['name'])}: the name of an algorithm is a string"
        )
    for attribute, value in namespace.items():
        if getattr(value, "__code__", None) is _BARE:
            raise MistakeInAlgorithm(
                f"{name}.{attribute}: @whenever takes the guard of the rule, a method above it, as"
                " in @whenever(is_free)"
            )


def _check_shows(cls: ProcessType, shows: Any) -> None:
    """Refuse names of variables to show that are none."""
    known = cls.__variables__
    if not isinstance(shows, tuple):
        raise MistakeInAlgorithm(
            f"{cls.__name__}.shows = {shown(shows)}: write a tuple of names, as in shows ="
            ' ("queue",)'
        )
    for each in shows:
        if each not in known:
            raise MistakeInAlgorithm(
                f"{cls.__name__}.shows names {shown(each)}, which is not a variable; there are"
                f" {', '.join(known) or 'none'}"
            )


def _variable(owner: str, name: str, declared: Any, default: Any) -> Variable:
    kind = "state"
    if typing.get_origin(declared) is Annotated:
        declared, *marks = typing.get_args(declared)
        for mark in marks:
            if isinstance(mark, _Mark):
                kind = mark.kind
        if IS_PROCESS in marks:
            declared = Annotated[declared, IS_PROCESS]
    if kind in ("const", "uses"):
        return Variable(name, kind, declared, None, default)
    try:
        return Variable(name, kind, declared, shape_of(declared), default)
    except UnsupportedType as reason:
        raise UnsupportedType(f"{owner}.{name}: {reason}") from None


def _shape_if_plain(declared: Any) -> Shape | None:
    """Return the shape of a constant's type, or None: constants are never captured."""
    try:
        return shape_of(declared)
    except UnsupportedType:
        return None


def _finish(
    cls: ProcessType, variables: dict[str, Variable], own: dict[str, Variable]
) -> ProcessType:
    cls.__variables__ = variables
    cls.__own__ = own
    cls.__state_names__ = tuple(
        name for name, variable in variables.items() if variable.kind in ("state", "durable")
    )
    cls.__capture__, cls.__restore__ = _capture_and_restore(cls)
    cls.__behaviour__ = _behaviour(cls)
    return cls


def _capture_and_restore(
    cls: ProcessType,
) -> tuple[Callable[[Any], tuple[Any, ...]], Callable[[Any, tuple[Any, ...]], None]]:
    """Generate straight-line code for the whole state, which is the hot path of the checker."""
    scope: dict[str, Any] = {}
    captured, restored = [], []
    for index, name in enumerate(cls.__state_names__):
        shape = cls.__variables__[name].shape
        assert shape is not None
        if shape.mutable:
            scope[f"freeze_{name}"], scope[f"thaw_{name}"] = shape.freeze, shape.thaw
            captured.append(f"freeze_{name}(self.{name}), ")
            restored.append(f"    self.{name} = thaw_{name}(state[{index}])\n")
        else:
            captured.append(f"self.{name}, ")
            restored.append(f"    self.{name} = state[{index}]\n")
    source = (
        f"def capture(self): return ({''.join(captured)})\ndef restore(self,"
        f" state):\n{''.join(restored) or '    pass'}"
    )
    exec(compile(source, f"<state of {cls.__qualname__}>", "exec"), scope)
    return scope["capture"], scope["restore"]


def _behaviour(cls: ProcessType) -> Behaviour:
    marks: dict[
        str, Any
    ] = {}  # by name through the whole ancestry: an override without its mark keeps the mark
    guards: dict[str, str] = {}
    requests: list[str] = []
    for base in reversed(cls.__mro__):
        for name, member in base.__dict__.items():
            if hasattr(member, "__upon__"):
                marks[name] = member.__upon__
            if hasattr(member, "__whenever__"):
                guards[name] = member.__whenever__
            if hasattr(member, "__request__") and name not in requests:
                requests.append(name)
    for name, guard in guards.items():
        if not isinstance(inspect.getattr_static(cls, guard, None), types.FunctionType):
            raise MistakeInAlgorithm(
                f"{cls.__name__}.{name}: the guard of a rule is a method of the class, written"
                " above the rule"
            )
    for name in (*marks, *guards, *guards.values(), *requests, "on_start", "on_recover"):
        _check_plain(cls, name)
    rules = tuple(
        Rule(name, getattr(cls, guard), getattr(cls, name)) for name, guard in guards.items()
    )
    components = {
        "links",
        *(name for name, variable in cls.__variables__.items() if variable.kind == "uses"),
    }
    upon_table: dict[tuple[type[Value], str | None], Callable[..., None]] = {}
    settled: dict[tuple[type[Value], str | None], Callable[..., None]] = {}
    for name, (kinds, of) in marks.items():
        handler = getattr(cls, name)
        if of is not None and of not in components:
            raise MistakeInAlgorithm(
                f"{cls.__name__}.{name}: of={of!r} names no component; there are"
                f" {', '.join(sorted(components))}"
            )
        for kind in kinds:
            _check_arity(cls, name, handler, kind)
            if (kind, of) in upon_table and upon_table[kind, of].__name__ != name:
                raise MistakeInAlgorithm(
                    f"{cls.__name__}: both {upon_table[kind, of].__name__} and {name} handle"
                    f" {kind.__name__}"
                )
            upon_table[kind, of] = handler
            settled[kind, of] = _followed_by_rules(cls, handler, rules)
    values: dict[str, type[Value]] = {}
    for kind, _ in upon_table:
        if values.setdefault(kind.__name__, kind) is not kind:
            raise MistakeInAlgorithm(
                f"{cls.__name__} handles two types named {kind.__name__}, which could not be"
                " distinguished when read"
            )
    return Behaviour(
        rules,
        upon_table,
        settled,
        {name: _followed_by_rules(cls, getattr(cls, name), rules) for name in requests},
        _fixpoint(cls, rules),
        values,
    )


_NOT_PLAIN = {
    inspect.CO_COROUTINE: "async",
    inspect.CO_ASYNC_GENERATOR: "async",
    inspect.CO_GENERATOR: "a generator (it has a yield)",
}


def _check_plain(cls: type, name: str) -> None:
    """Refuse a handler, rule, guard or request whose body a call would not execute."""
    code = getattr(getattr(cls, name, None), "__code__", None)
    flags = 0 if code is None else code.co_flags
    for flag, kind in _NOT_PLAIN.items():
        if flags & flag:
            raise MistakeInAlgorithm(
                f"{cls.__name__}.{name} is {kind}, and would never run; a handler runs to its end"
                " at once: write a plain def"
            )


def _check_arity(cls: type, name: str, handler: Callable[..., None], kind: type[Value]) -> None:
    wanted = 3 if issubclass(kind, Message) else 2
    parameters = list(inspect.signature(handler).parameters)
    if len(parameters) != wanted:
        takes = "the sender and the message" if wanted == 3 else "the event"
        raise MistakeInAlgorithm(
            f"{cls.__name__}.{name} handles {kind.__name__} and so takes self and {takes}; it has"
            f" ({', '.join(parameters)})"
        )


# Rules.  A rule that a handler cannot affect need not be looked at after it.


def _followed_by_rules(
    cls: ProcessType, handler: Callable[..., None], rules: tuple[Rule, ...]
) -> Callable[..., None]:
    affected = _affected(cls, handler, rules)
    if not affected:
        return handler
    settle = _fixpoint(cls, affected)
    # One rule is the usual case, and its guard rarely holds: look before anything else is called.
    may_apply, first = affected[0][1:] if len(affected) == 1 else (_always, _nothing)
    parameters = inspect.signature(handler).parameters.values()
    fixed = all(
        each.kind is each.POSITIONAL_OR_KEYWORD and each.default is each.empty
        for each in parameters
    )

    def receive(self: Any, sender: ProcessId, message: Message) -> None:
        handler(self, sender, message)
        if may_apply(self):
            first(self)
            settle(self)

    def call(self: Any) -> None:
        handler(self)
        if may_apply(self):
            first(self)
            settle(self)

    def handle(self: Any, *event: Any) -> None:
        handler(self, *event)
        if may_apply(self):
            first(self)
            settle(self)

    if fixed and len(parameters) == 3:
        return receive
    return call if fixed and len(parameters) == 1 else handle


def _always(_: Any) -> bool:
    return True


def _nothing(_: Any) -> None:
    pass


def _fixpoint(cls: type, rules: tuple[Rule, ...]) -> Callable[[Any], bool]:
    """Make the function that applies rules until no guard holds.

    It returns whether any rule was applied.
    """

    def settle(self: Any) -> bool:
        for fired in range(RULE_LIMIT):
            for _, guard, action in rules:
                if guard(self):
                    action(self)
                    break
            else:
                return fired > 0
        raise MistakeInAlgorithm(
            f"{cls.__name__}: the rules {', '.join(rule.name for rule in rules)} still apply after"
            f" {RULE_LIMIT} times"
        )

    return settle


def _affected(
    cls: ProcessType, handler: Callable[..., None], rules: tuple[Rule, ...]
) -> tuple[Rule, ...]:
    """Return the rules that the handler, or another of these rules, may enable, in order."""
    reached: set[str] = set()
    frontier: list[Callable[..., Any]] = [handler]
    while frontier:
        touched = _uses_of(cls, frontier.pop())
        for rule in rules:
            if rule.name not in reached and _may_affect(cls, touched, _uses_of(cls, rule.guard)):
                reached.add(rule.name)
                frontier.append(rule.action)
    return tuple(rule for rule in rules if rule.name in reached)


class _Use(NamedTuple):
    stored: frozenset[str]
    mentioned: frozenset[str]
    opaque: bool  # passes `self` on or computes attribute names, so anything may have changed


def _may_affect(cls: ProcessType, handler: _Use, guard: _Use) -> bool:
    if handler.opaque or guard.opaque:
        return True
    changed = set(handler.stored)
    for name in handler.mentioned & cls.__variables__.keys():
        shape = cls.__variables__[name].shape
        if shape is None or shape.mutable:
            changed.add(name)  # a mutable value that is mentioned may be changed in place
    return not changed.isdisjoint(guard.mentioned)


_BY_COMPUTED_NAME = frozenset(
    (
        *("setattr", "delattr", "getattr", "vars", "super", "eval", "exec", "locals"),
        *("__dict__", "__setattr__", "__delattr__", "__getattribute__"),
    )
)


@functools.lru_cache(maxsize=1_000)  # all of a class are asked for together, again and again
def _uses_of(cls: type, function: Callable[..., Any]) -> _Use:
    """Return the attributes that a function stores and mentions, directly or by other methods."""
    stored: set[str] = set()
    mentioned: set[str] = set()
    opaque = False
    seen: set[str] = set()
    frontier = [function]
    while frontier:
        code = frontier.pop().__code__
        if not code.co_argcount:
            # a wrapper such as `def inner(*arguments)`, which has the process without naming it
            opaque = True
            continue
        itself = code.co_varnames[0]
        for part in _codes(code):
            mentioned.update(part.co_names)
            stored.update(
                str(each.argval)
                for each in _instructions(part)
                if each.opname in ("STORE_ATTR", "DELETE_ATTR")
            )
            opaque = opaque or _passes_on(part, itself)
            for name in part.co_names:
                if name not in seen:
                    seen.add(name)
                    member = inspect.getattr_static(cls, name, None)
                    if isinstance(member, property):
                        frontier += [
                            each
                            for each in (member.fget, member.fset, member.fdel)
                            if each is not None
                        ]
                    elif isinstance(member, types.FunctionType):
                        frontier.append(member)
                    elif hasattr(member, "__get__") and not isinstance(member, _HARMLESS):
                        opaque = True  # a partial method, a cached property, another descriptor
    return _Use(
        frozenset(stored),
        frozenset(mentioned),
        opaque or not mentioned.isdisjoint(_BY_COMPUTED_NAME),
    )


# What the class has under a name without running code on the process: slots, functions that get no
# process, and the built-in methods of object, of which those that reach attributes are named above.
_HARMLESS = (
    *(types.MemberDescriptorType, types.GetSetDescriptorType, staticmethod, classmethod, type),
    *(
        types.WrapperDescriptorType,
        types.MethodDescriptorType,
        types.ClassMethodDescriptorType,
        types.BuiltinFunctionType,
    ),
)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


@functools.cache
def _instructions(code: types.CodeType) -> list[dis.Instruction]:
    """Disassemble a function once for all subclasses, which makes importing algorithms fast."""
    return [
        each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "NOT_TAKEN")
    ]


_ATTRIBUTE_OPS = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR")


@functools.cache
def _passes_on(code: types.CodeType, itself: str) -> bool:
    """Whether the process is used other than as `self.something`."""
    instructions = _instructions(code)
    for index, each in enumerate(instructions):
        if not ("LOAD_FAST" in each.opname or ("LOAD" in each.opname and "DEREF" in each.opname)):
            continue
        # Python 3.13 joins two steps into one instruction, and of STORE_FAST_LOAD_FAST only the
        # second loads.
        names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
        loaded = names[1:] if each.opname.startswith("STORE_FAST") else names
        if itself in loaded[:-1]:
            return True
        if itself in loaded:
            following = [after.opname for after in instructions[index + 1 : index + 3]]
            if (
                following[0] == "COPY"
            ):  # self.count += 1 uses it twice; a walrus or a match copies it as well
                following.pop(0)
            if following[0] not in _ATTRIBUTE_OPS:
                return True
    return False


# The effects, which the runtime sets on each process.


class SendFunction(Protocol):
    def __call__(self, message: Message, *, to: ProcessId) -> None: ...


class BroadcastFunction(Protocol):
    def __call__(self, message: Message) -> None: ...


class SetTimerFunction(Protocol):
    def __call__(self, timer: Timer, *, after: Span) -> None: ...


class CancelTimerFunction(Protocol):
    def __call__(self, timer: Timer) -> None: ...


class ChooseFunction(Protocol):
    def __call__(self, options: Sequence[T]) -> T: ...


class IndicateFunction(Protocol):
    def __call__(self, indication: Indication) -> None: ...


@dataclass_transform(kw_only_default=True, eq_default=False)
class Process(metaclass=ProcessType):
    """One participant.  It only reacts to events, and acts only through its effects: `send`,
    `broadcast`, `set_timer`, `cancel_timer`, `choose` and `indicate`.
    """

    me: ProcessId
    """The number of this process."""
    peers: tuple[ProcessId, ...]
    """The other processes that this one can send to, in order."""
    send: SendFunction
    """Send a message to a peer."""
    broadcast: BroadcastFunction
    """Send a message to every peer."""
    set_timer: SetTimerFunction
    """Set a timer; an equal one that is set already is replaced.

    after: microseconds until it expires, or a range from which the runtime draws them.
    """
    cancel_timer: CancelTimerFunction
    """Cancel the timer that equals this one, if it is set."""
    choose: ChooseFunction
    """Return one of the options, drawn at random by the runtime; a search tries all of them."""
    indicate: IndicateFunction
    """Send an indication to the process above, or to the application."""
    links: Process | None
    """The component that carries the messages of this process; None: the raw network."""

    indications: ClassVar[tuple[type[Indication], ...]] = ()
    """Indications that the process may send; each problem declares its own."""
    assumes: ClassVar[Assumptions] = Assumptions()
    """Assumptions of the algorithm about links, crashes and time."""
    shows: ClassVar[tuple[str, ...]] = ()
    """Variables that explain a run, which tables and pictures show by default."""

    def __init__(self, **given: Any) -> None:
        cls = type(self)
        unknown = [name for name in given if name not in cls.__variables__]
        if unknown:
            hint = did_you_mean(unknown[0], cls.__variables__)
            raise MistakeInPlan(f"{cls.__name__} has no variable {unknown[0]}; {hint}")
        self.links = None
        for name, variable in cls.__variables__.items():
            value = given.get(name, variable.default)
            if value is _REQUIRED:
                raise MistakeInPlan(
                    f"{cls.__name__}.{name} has no value: give it a default, or pass it in"
                    f" system(), as in cls({name}=..., **options)"
                )
            if variable.kind == "uses" and not isinstance(value, variable.declared):
                raise MistakeInPlan(
                    f"{cls.__name__}.{name} must be a {variable.declared.__name__}, not"
                    f" {type(value).__name__}"
                )
            shape = variable.shape
            expected = shape or (
                _shape_if_plain(variable.declared) if variable.kind == "const" else None
            )
            if expected is not None and not is_of(variable.declared, value):
                raise MistakeInPlan(
                    f"{cls.__name__}.{name} must be {expected.name}, not {shown(value)}"
                )
            setattr(self, name, value if shape is None else shape.thawed(shape.frozen(value)))

    def on_start(self) -> None:
        """Act when the process starts."""

    def on_recover(self) -> None:
        """Act when the process recovers from a crash; only its durable variables are kept."""
        self.on_start()

    def on_replaced(self, others: Sequence[Self], life: int) -> None:
        """Set the durable variables of a process whose storage is lost, so that it is safe.

        others: the other processes, with their durable variables.
        life: a number greater than in all former lives of this process.
        """
        raise NotImplementedError

    def unsynced(self) -> Unsynced:
        """Return the durable variables that a live node writes without waiting for the disk.  A
        crash of the process alone loses nothing.
        """
        return Unsynced()

    def absorb(self, idle: Self) -> bool:
        """Take in what an idle process of another instance on the same node must remember, so that
        this process stands for both.  Return whether that is possible; if not, change nothing.

        Where an algorithm defines this, a live node keeps one process for all its idle instances.
        An instance that is used again begins as a copy of it.
        """
        raise NotImplementedError

    def on_woken(self) -> None:
        """Act when an idle instance is used again, as a copy of the process that stood for it."""

    def over(self, links: Process) -> Self:
        """Return a copy of this plan whose messages the given links carry."""
        copy = self.copied()
        copy.links = links
        return copy

    def replace(self, **changes: Any) -> Self:
        """Return a copy of this plan with other constants or another initial state."""
        copy = type(self)(
            **{name: getattr(self, name) for name in type(self).__variables__} | changes
        )
        copy.links = self.links
        return copy

    def copied(self) -> Self:
        """Return a copy of this plan."""
        return self.replace()

    def awaits(self) -> Sequence[ProcessId]:
        """Return the processes that this one waits for, to explain a deadlock."""
        return ()

    def __repr__(self) -> str:
        shown = [
            f"{name}={getattr(self, name)!r}"
            for name in type(self).__variables__
            if hasattr(self, name)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"
