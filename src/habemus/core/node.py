"""One participant with all its parts, as a pure step from (state, event) to (state, effects).

A plan may stack components: an election that uses a detector, a mutex whose messages go over
perfect links.  Its parts are numbered depth first, so an address is (process, port) and messages
need no envelopes.

A part calls the parts below it by methods.  It reports to the part above it by indications, which
wait until the handler that raised them has returned: handlers of a node are never nested.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

from habemus.core.process import (
    RULE_LIMIT,
    BroadcastFunction,
    CancelTimerFunction,
    ChooseFunction,
    IndicateFunction,
    MistakeInAlgorithm,
    MistakeInPlan,
    Process,
    ProcessId,
    SendFunction,
    SetTimerFunction,
    Span,
    T,
)
from habemus.core.values import Indication, Message, Timer, Value

State: TypeAlias = tuple[tuple[Any, ...], ...]
Handler: TypeAlias = Callable[..., None]


class Delivered(Indication):
    """Indication of links that a message has arrived.

    The process above gets it as the message itself, not as an indication.

    sender: the process that sent the message.
    message: the message.
    """

    sender: ProcessId
    message: Message


# The closed set of effects.  They are not named tuples: a live node makes several in each step, and
# mypyc compiles these classes.


class _Effect:
    """Base class of effects: equal if their classes and fields are."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()

    def _fields(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Effect)
            and type(self) is type(other)
            and self._fields() == other._fields()
        )

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._fields()))

    def __repr__(self) -> str:
        fields = [f"{name}={getattr(self, name)!r}" for name in self.__match_args__]
        return f"{type(self).__name__}({', '.join(fields)})"


class Send(_Effect):
    __slots__ = ("message", "port", "to")
    __match_args__ = ("port", "to", "message")

    def __init__(self, port: int, to: ProcessId, message: Message) -> None:
        self.port = port
        self.to = to
        self.message = message


class Broadcast(_Effect):
    __slots__ = ("message", "port")
    __match_args__ = ("port", "message")

    def __init__(self, port: int, message: Message) -> None:
        self.port = port
        self.message = message


class SetTimer(_Effect):
    __slots__ = ("after", "port", "timer")
    __match_args__ = ("port", "timer", "after")

    def __init__(self, port: int, timer: Timer, after: Span) -> None:
        self.port = port
        self.timer = timer
        self.after = after


class CancelTimer(_Effect):
    __slots__ = ("port", "timer")
    __match_args__ = ("port", "timer")

    def __init__(self, port: int, timer: Timer) -> None:
        self.port = port
        self.timer = timer


class Chosen(_Effect):
    __slots__ = ("port", "value")
    __match_args__ = ("port", "value")

    def __init__(self, port: int, value: Any) -> None:
        self.port = port
        self.value = value


class Indicate(_Effect):
    __slots__ = ("indication",)
    __match_args__ = ("indication",)

    def __init__(self, indication: Indication) -> None:
        self.indication = indication


Effect: TypeAlias = Send | Broadcast | SetTimer | CancelTimer | Chosen | Indicate


class Part(NamedTuple):
    """One part of a stack, before there is a process for it."""

    port: int
    path: str  # "" for the part on top, ".election.detector" below it
    plan: Process
    above: int | None
    # of the variable that holds it in the part above; "links" if it carries that part's messages
    name: str
    initial: tuple[Any, ...]


class Known(dict[str, type[Value]]):
    """Value types by name; `inside` are those that may stand in a field of one of them."""

    def __init__(
        self, values: Mapping[str, type[Value]], inside: Mapping[str, type[Value]]
    ) -> None:
        super().__init__(values)
        self.inside = inside


class Stack:
    """The parts of a plan, checked once for all the nodes that are made from it."""

    def __init__(self, plan: Process) -> None:
        self.plan = plan
        self.parts: list[Part] = []
        self._add(plan, "", None, "")
        self.initial: State = tuple(part.initial for part in self.parts)
        self.durable = any(
            variable.kind == "durable"
            for part in self.parts
            for variable in type(part.plan).__variables__.values()
        )
        self.handlers = [_handlers(type(part.plan)) for part in self.parts]
        self.requests: dict[str, Handler] = {
            name: getattr(type(plan), name) for name in type(plan).__behaviour__.requests
        }

    def _add(self, plan: Process, path: str, above: int | None, name: str) -> None:
        port = len(self.parts)
        cls = type(plan)
        self.parts.append(Part(port, path, plan, above, name, cls.__capture__(plan)))
        if above is not None:
            self._check_indications(plan, self.parts[above].plan, name)
        if plan.links is not None:
            self._add(plan.links, f"{path}.links", port, "links")
        for variable in cls.__variables__.values():
            if variable.kind == "uses":
                self._add(
                    getattr(plan, variable.name), f"{path}.{variable.name}", port, variable.name
                )
        self._check_of(port, plan)

    def _check_of(self, port: int, plan: Process) -> None:
        """Refuse one handler for an indication of two components: it must name its component."""
        handled = type(plan).__behaviour__.upon
        below = [part for part in self.parts if part.above == port]
        for kind, of in handled:
            if of is None and issubclass(kind, Indication):
                senders = [
                    part.name
                    for part in below
                    if kind in type(part.plan).indications and (kind, part.name) not in handled
                ]
                if len(senders) > 1:
                    of_each = " and ".join(f"of={name!r}" for name in senders)
                    raise MistakeInPlan(
                        f"{type(plan).__name__} hears {kind.__name__} from two components: use"
                        f" @upon with {of_each}"
                    )

    @staticmethod
    def _check_indications(plan: Process, above: Process, name: str) -> None:
        handled = type(above).__behaviour__.upon
        for indication in type(plan).indications:
            if name == "links" and indication is Delivered:
                continue
            if (indication, name) not in handled and (indication, None) not in handled:
                lacking = f"{type(above).__name__} has no @upon({indication.__name__}) for it"
                raise MistakeInPlan(
                    f"{type(plan).__name__} may indicate {indication.__name__}, and {lacking}"
                )

    def known_at(self, port: int) -> Known:
        """Return the values that a part may receive, by name.

        Two parts may use one name for different values.  A message of the links carries a value of
        the part above them.
        """
        part = self.parts[port]
        values = type(part.plan).__behaviour__.values
        return Known(
            values,
            (
                self.known_at(part.above)
                if part.name == "links" and part.above is not None
                else values
            ),
        )

    def spawn(self, me: ProcessId, peers: tuple[ProcessId, ...]) -> list[Process]:
        """Make the processes of one node, in their initial state and without effects yet."""
        parts: list[Process] = []
        for part in self.parts:
            cls = type(part.plan)
            process = cls.__new__(cls)
            process.me = me
            process.peers = peers
            process.links = None
            for variable in cls.__variables__.values():
                if variable.kind == "const":
                    setattr(process, variable.name, getattr(part.plan, variable.name))
            cls.__restore__(process, part.initial)
            if part.above is not None:
                setattr(parts[part.above], part.name, process)
            parts.append(process)
        return parts

    def forget(self, state: State) -> State:
        """Return the state after a crash: all variables but the durable ones are reset."""
        return tuple(
            tuple(
                value if type(part.plan).__variables__[name].kind == "durable" else first
                for name, value, first in zip(
                    type(part.plan).__state_names__, now, part.initial, strict=True
                )
            )
            for part, now in zip(self.parts, state, strict=True)
        )


def settle_together(
    stack: Stack, parts: Sequence[Process], raised: deque[tuple[int, Indication]]
) -> Callable[[], None]:
    """Make the function that completes a step after a handler of a stack.

    It passes indications up and applies the rules of all parts until neither is left.
    """
    behaviours = [type(part.plan).__behaviour__ for part in stack.parts]
    tables = [behaviour.upon for behaviour in behaviours]
    ruled = [
        ([(rule.guard, rule.action) for rule in behaviour.rules], behaviour.settle, process)
        for behaviour, process in zip(behaviours, parts, strict=True)
        if behaviour.rules
    ]

    limit, is_single = RULE_LIMIT, len(ruled) == 1

    def settle() -> None:
        for _ in range(limit):
            while raised:
                _hand_up(stack, parts, tables, *raised.popleft())
            applied = False
            for rules, apply_rules, process in ruled:
                for guard, action in rules:  # mostly no guard holds
                    if guard(process):
                        action(process)
                        apply_rules(process)  # those that hold now
                        applied = True
                        break
            # The only part that has rules has applied them all.
            if not raised and (not applied or is_single):
                return
        raise MistakeInAlgorithm(
            f"{type(parts[0]).__name__} and its components do not come to rest after one event"
        )

    return settle


def _hand_up(
    stack: Stack,
    parts: Sequence[Process],
    tables: Sequence[Mapping[Any, Handler]],
    port: int,
    indication: Indication,
) -> None:
    """Pass an indication of a part to the part above it."""
    part = stack.parts[port]
    assert part.above is not None
    above = parts[part.above]
    if part.name == "links" and isinstance(indication, Delivered):
        handler = stack.handlers[part.above].get(type(indication.message))
        if handler is None:
            raise _unhandled(above, indication.message)
        handler(above, indication.sender, indication.message)
        return
    table = tables[part.above]
    handler_up = table.get((type(indication), part.name)) or table.get((type(indication), None))
    if handler_up is None:
        raise MistakeInAlgorithm(
            f"{type(parts[port]).__name__} indicates {indication!r}, which"
            f" {type(above).__name__} does not handle"
        )
    handler_up(above, indication)


def _handlers(cls: type[Process]) -> dict[type[Value], Handler]:
    """Return the handlers of a process by the type of message or timer."""
    return {kind: handler for (kind, of), handler in cls.__behaviour__.upon.items() if of is None}


def _unhandled(process: Process, value: Value) -> MistakeInAlgorithm:
    return MistakeInAlgorithm(
        f"{type(process).__name__} has no @upon({type(value).__name__}) and got {value!r}"
    )


# The effects of a process.  They do not refer to it, not even by an enclosing function, of which a
# compiled one keeps all variables: so reference counts free a process that is dropped.


def _sending(effects: list[Effect], port: int) -> tuple[SendFunction, BroadcastFunction]:
    def send(message: Message, *, to: ProcessId) -> None:
        effects.append(Send(port, to, message))

    def broadcast(message: Message) -> None:
        effects.append(Broadcast(port, message))

    return send, broadcast


def _sending_over(
    links: Any, peers: tuple[ProcessId, ...]
) -> tuple[SendFunction, BroadcastFunction]:
    """Return the effects of a process over links: a `Link`, which core does not know."""

    def send(message: Message, *, to: ProcessId) -> None:
        links.transmit(message, to=to)

    def broadcast(message: Message) -> None:
        for peer in peers:
            links.transmit(message, to=peer)

    return send, broadcast


def _timers_and_choice(
    effects: list[Effect], port: int, choose: Callable[[Sequence[Any]], Any]
) -> tuple[SetTimerFunction, CancelTimerFunction, ChooseFunction]:
    def set_timer(timer: Timer, *, after: Span) -> None:
        effects.append(SetTimer(port, timer, after))

    def cancel_timer(timer: Timer) -> None:
        effects.append(CancelTimer(port, timer))

    def choose_and_note(options: Sequence[T]) -> T:
        value: T = choose(options)
        effects.append(Chosen(port, value))
        return value

    return set_timer, cancel_timer, choose_and_note


def _indicating(
    effects: list[Effect], port: int, raised: deque[tuple[int, Indication]] | None
) -> IndicateFunction:
    """Return how a process indicates: to the part above it by `raised`, or to the application."""
    if raised is None:

        def indicate(indication: Indication) -> None:
            effects.append(Indicate(indication))

        return indicate

    def indicate_up(indication: Indication) -> None:
        raised.append((port, indication))

    return indicate_up


class PureNode:
    """One participant whose effects are collected and returned, not carried out.

    After each event it looks at every rule.  Only the simulator skips the rules that a handler
    cannot affect, so no verdict of a search and no live step rests on that analysis.
    """

    def __init__(
        self,
        stack: Stack,
        me: ProcessId,
        peers: tuple[ProcessId, ...],
        choose: Callable[[Sequence[Any]], Any],
    ) -> None:
        self.stack = stack
        self.parts = stack.spawn(me, peers)
        self.effects: list[Effect] = []
        self._raised: deque[tuple[int, Indication]] = deque()
        for part, process in zip(stack.parts, self.parts, strict=True):
            self._give_effects(process, part, self._raised, choose)
        self._settle = settle_together(stack, self.parts, self._raised)
        self._handlers = stack.handlers

    def _give_effects(
        self,
        process: Process,
        part: Part,
        raised: deque[tuple[int, Indication]],
        choose: Callable[[Sequence[Any]], Any],
    ) -> None:
        process.set_timer, process.cancel_timer, process.choose = _timers_and_choice(
            self.effects, part.port, choose
        )
        process.send, process.broadcast = (
            _sending(self.effects, part.port)
            if process.links is None
            else _sending_over(process.links, process.peers)
        )
        process.indicate = _indicating(
            self.effects, part.port, None if part.above is None else raised
        )

    def _stepped(self) -> list[Effect]:
        self._settle()
        effects = self.effects.copy()
        self.effects.clear()
        return effects

    # Events.

    def start(self) -> list[Effect]:
        for process in reversed(self.parts):  # components first: the part above may call them
            process.on_start()
        return self._stepped()

    def recover(self) -> list[Effect]:
        for process in reversed(self.parts):
            process.on_recover()
        return self._stepped()

    def wake(self) -> list[Effect]:
        for process in reversed(self.parts):
            process.on_woken()
        return self._stepped()

    def deliver(self, port: int, sender: ProcessId, message: Message) -> list[Effect]:
        process = self.parts[port]
        handler = self._handlers[port].get(type(message))
        if handler is None:
            raise _unhandled(process, message)
        handler(process, sender, message)
        return self._stepped()

    def fire(self, port: int, timer: Timer) -> list[Effect]:
        process = self.parts[port]
        handler = self._handlers[port].get(type(timer))
        if handler is None:
            raise _unhandled(process, timer)
        handler(process, timer)
        return self._stepped()

    def request(self, name: str, *arguments: Any) -> list[Effect]:
        process = self.parts[0]
        handler = self.stack.requests.get(name)
        if handler is None:
            raise MistakeInPlan(
                f"{type(process).__name__} has no request {name}; it has"
                f" {', '.join(self.stack.requests) or 'none'}"
            )
        if arguments:
            handler(process, *arguments)
        else:
            handler(process)
        return self._stepped()

    # State.

    def capture(self) -> State:
        return tuple(type(process).__capture__(process) for process in self.parts)

    def restore(self, state: State) -> None:
        # A step may have ended in the middle; what it had done by then is not part of any state.
        self.effects.clear()
        self._raised.clear()
        for process, values in zip(self.parts, state, strict=True):
            type(process).__restore__(process, values)
