"""The model of one process in a search, which computes each of its moves once.

A handler is a function of (own state, event), so each such pair is executed once in the whole
search, however many global states contain it.  The *component* of a process is the state of its
node, the messages in flight to it, its timers, its application and whether it is up.  Components
have small numbers, and a global state is the number of one component for each process.

A move of a process changes its own component, adds messages to other components, and may be visible
from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from habemus.core.mistakes import Constants, check_variables, guard_effects
from habemus.core.model import (
    RESIGN,
    WITHDRAW,
    ClientModel,
    ClientState,
    ExternalEvent,
    PossibleRequest,
)
from habemus.core.node import (
    Broadcast,
    CancelTimer,
    Chosen,
    Effect,
    Indicate,
    PureNode,
    Send,
    SetTimer,
    Stack,
    State,
)
from habemus.core.process import MistakeInAlgorithm, MistakeInPlan, ProcessId
from habemus.core.system import System
from habemus.core.values import Message, Timer

Thing = TypeVar("Thing", bound=Hashable)
_new = tuple.__new__  # makes a named tuple without calling a Python function

SEARCHED_FAULTS = ("crash", "recover", "amnesia", "lose", "copy")
TIMEOUT = "timeout"
TIMEOUT_OF = "timeout of "
"""Beginning of the budget for timers of one name."""
RECEIPT_OF = "receipt of "
"""Beginning of the budget for messages of one name."""
DRAW = "draw"
"""Budget of steps that draw at random."""
REQUESTS = (WITHDRAW, RESIGN)
"""Budgets of requests that are made only where a search has a bound for them."""
FAILED = "failed"
"""Kind of the external event that a handler has raised an exception."""
BUDGETS = (*SEARCHED_FAULTS, TIMEOUT)
"""Events that may happen a bounded number of times in a search, apart from timers and messages by
name, from requests, and from random draws.
"""


def spent(
    left: tuple[int, ...], cost: str, kinds: Sequence[str] = BUDGETS
) -> tuple[int, ...] | None:
    """Return the budgets after a move, or None if one of them is exhausted."""
    after = list(left)
    for kind in cost.split("+"):
        after[kinds.index(kind)] -= 1
    return tuple(after) if min(after) >= 0 else None


@dataclass(frozen=True)
class Bound:
    """The limits within which a search is complete."""

    fifo: bool = False
    lossy: bool = False  # any number of messages may be lost
    merging: bool = False  # equal messages in flight between the same two processes are one
    synchronous: bool = False  # messages arrive before time passes, and timers expire in order
    order: bool = False  # track happened-before, which ME3 is about
    budgets: tuple[tuple[str, int], ...] = ()  # of faults, and of timeouts if these are bounded

    def budget(self, kind: str) -> int:
        return dict(self.budgets).get(kind, 0)

    @cached_property
    def timers_by_name(self) -> tuple[str, ...]:
        """Names of the budgets for the timers of one name."""
        return tuple(kind for kind, _ in self.budgets if kind.startswith(TIMEOUT_OF))

    @property
    def ends_early(self) -> str:
        """Why runs of the search end although the algorithm could go on; empty: they do not."""
        if self.receipts_by_name:
            return "messages are received only so many times"
        is_bounded = TIMEOUT in dict(self.budgets) or bool(self.timers_by_name)
        return "timers run out only so many times" if is_bounded else ""

    @cached_property
    def receipts_by_name(self) -> tuple[str, ...]:
        """Names of the budgets for the messages of one name."""
        return tuple(kind for kind, _ in self.budgets if kind.startswith(RECEIPT_OF))

    @cached_property
    def requests(self) -> tuple[str, ...]:
        """Names of the budgets for requests."""
        return tuple(kind for kind, _ in self.budgets if kind in REQUESTS)

    @cached_property
    def draws_are_bounded(self) -> bool:
        return DRAW in dict(self.budgets)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """All kinds of budgets, in the order in which a state keeps what is left of them."""
        draws = [DRAW] if self.draws_are_bounded else []
        return (
            *BUDGETS,
            *self.timers_by_name,
            *self.receipts_by_name,
            *self.requests,
            *draws,
        )

    @cached_property
    def costs(self) -> tuple[str, ...]:
        """Every cost of a move: one budget, or several that are spent together.

        A crash that cuts the step on a timer short costs one crash and one timeout.
        """
        steps = [
            TIMEOUT,
            *map(self._timeout_cost, self.timers_by_name),
            *self.receipts_by_name,
            *self.requests,
        ]
        if self.draws_are_bounded:
            steps += [DRAW, *(f"{each}+{DRAW}" for each in steps)]
        return (
            *SEARCHED_FAULTS,
            *steps,
            *(f"{fault}+{each}" for fault in ("crash", "copy") for each in steps),
        )

    def _timeout_cost(self, by_name: str) -> str:
        return f"{TIMEOUT}+{by_name}" if TIMEOUT in dict(self.budgets) else by_name

    def cost_of(self, timer: Timer) -> str:
        """Return the cost of a timeout; empty: nothing."""
        by_name = TIMEOUT_OF + type(timer).__name__
        if by_name in self.timers_by_name:
            return self._timeout_cost(by_name)
        return TIMEOUT if TIMEOUT in dict(self.budgets) else ""

    def cost_of_step(self, move: Move) -> str:
        """Return the cost of a move, with those of the message that it receives and of its draws;
        empty: nothing.
        """
        costs = [move.cost] if move.cost else []
        if self.receipts_by_name and move.label.kind in ("receive", "copy"):
            by_name = RECEIPT_OF + type(move.label.what.message).__name__
            costs += [by_name] if by_name in self.receipts_by_name else []
        if move.label.kind == "request" and move.label.what.budget:
            costs.append(move.label.what.budget)
        if self.draws_are_bounded and move.label.choices:
            costs.append(DRAW)
        return "+".join(costs)

    @property
    def can_return(self) -> bool:
        return self.budget("recover") + self.budget("amnesia") > 0


class PendingMessage(NamedTuple):
    """A message in flight to a process."""

    sender: ProcessId
    port: int
    message: Message
    known: int = 0  # the requests that happened before it was sent, as a set of bits


class PendingTimer(NamedTuple):
    """A timer that is set."""

    port: int
    timer: Timer
    left: int = 0  # time until it expires, in a synchronous search


class Component(NamedTuple):
    """The state of one process in a search, with values given by their numbers."""

    node: int
    # Numbers of pending messages: by sender and in order of sending on FIFO links, else sorted.
    inbox: tuple[int, ...]
    timers: int
    use: int
    up: bool = True
    known: int = 0
    requests: int = 0  # the number made so far, if happened-before is tracked


class Label(NamedTuple):
    """Description of a move, used to render counterexamples."""

    kind: str  # request, receive, timer, crash, recover, amnesia, lose, copy, vanish, pass
    what: Any = None  # a PossibleRequest, a PendingMessage, a PendingTimer
    choices: tuple[Any, ...] = ()
    torn: int | None = None  # the process crashes after so many of the sends of this step


class Move(NamedTuple):
    label: Label
    target: int  # the component of the process afterwards
    sends: tuple[tuple[int, int], ...] = ()  # places of receivers, and the bundle that each gets
    seen: tuple[ExternalEvent, ...] = ()
    cost: str = ""  # one of `Bound.costs`; empty: nothing
    voluntary: bool = False
    in_order: tuple[tuple[int, int], ...] = ()  # receivers and messages, in order of sending


class Numbered(Generic[Thing]):
    """Values with small numbers, assigned in the order of their first use."""

    def __init__(self) -> None:
        self.values: list[Thing] = []
        self._numbers: dict[Thing, int] = {}

    def number(self, value: Thing) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found

    def __len__(self) -> int:
        return len(self.values)


class Components(Numbered[Component]):
    """The components of one process.

    They are looked up by a plain tuple of their parts, which is made faster than a `Component`.
    """

    def of(self, *parts: Any) -> int:
        # A component equals the tuple of its parts.
        found = self._numbers.get(parts)  # type: ignore[call-overload]
        if found is None:
            found = self.number(Component._make(parts))
        return cast(int, found)


class StepOutcome(NamedTuple):
    """The result of executing a step, with the choices that were made in it."""

    node: int
    effects: tuple[Effect, ...]
    choices: tuple[Any, ...]
    failure: str = ""  # the exception that a handler has raised


class StepEffects(NamedTuple):
    """The effects of a step, apart from the state of the node."""

    use: int
    timers: list[int]  # one for each way to set them
    sends: tuple[tuple[int, int], ...]
    to_itself: tuple[int, ...]
    seen: tuple[ExternalEvent, ...]
    in_order: tuple[tuple[int, int], ...]


class ExpandedEvent(NamedTuple):
    """An event with its consequences, independent of the messages in flight to the process."""

    label: Label
    node: int
    use: int
    timers: list[int]  # one for each way to set them
    known: int  # the requests that happened before, including those that the message knows
    requests: int
    sends: tuple[tuple[int, int], ...]
    to_itself: tuple[int, ...]
    seen: tuple[ExternalEvent, ...]
    voluntary: bool
    in_order: tuple[tuple[int, int], ...]


Bundle: TypeAlias = tuple[int, ...]


class MessageTable(Numbered[PendingMessage]):
    """All messages of a search, and all bundles in which they are sent."""

    def __init__(self) -> None:
        super().__init__()
        self.bundles: Numbered[Bundle] = Numbered()


class ProcessModel:
    """One process of a system with all its moves."""

    def __init__(
        self,
        system: System,
        process: ProcessId,
        use: ClientModel,
        bound: Bound,
        messages: MessageTable,
    ) -> None:
        self.process = process
        self.bound = bound
        self.peers = system.topology.neighbours[process]
        self.places = {each: place for place, each in enumerate(system.plans)}
        self.stack = Stack(system.plans[process])
        self.components = Components()
        self.states: Numbered[State] = Numbered()
        self.timers: Numbered[tuple[PendingTimer, ...]] = Numbered()
        self.uses: Numbered[ClientState] = Numbered()
        self.messages = messages
        self.steps = 0  # handlers executed
        self.failures: dict[
            str, Exception | SystemExit
        ] = {}  # exceptions of handlers, by what they say
        self._use = use
        self._is_client = process in system.clients
        self._script: list[Any] = []  # the choices of the step that is being executed
        self._options: list[int] = []  # the number of options of each choice
        self._node = PureNode(self.stack, process, self.peers, self._choose)
        for part in self._node.parts:
            guard_effects(part, self.places)
        # The types of our own algorithms are checked before they are shipped.
        self._unchecked = [
            part for part in self._node.parts if not type(part).__module__.startswith("habemus.")
        ]
        self._constants = [Constants(part) for part in self._unchecked]
        self._known_steps: dict[tuple[int, Hashable], tuple[StepOutcome, ...]] = {}
        self._known_expanded: dict[tuple[int, ...], list[ExpandedEvent]] = {}
        self._known_openings: dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = {}
        self._known_effects: dict[tuple[int, int, int, int], StepEffects] = {}
        self._known_inboxes: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}
        self._known_choices: dict[int, Sequence[PossibleRequest]] = {}
        self._copies = bound.budget("copy")
        assert self.timers.number(()) == 0
        self._requests_each = 8  # bits of the requests of one process

    # Steps of the node.

    def _choose(self, options: Sequence[Any]) -> Any:
        if not options:
            raise MistakeInAlgorithm(f"process {self.process} calls choose() with no options")
        position = len(self._options)
        self._options.append(len(options))
        return options[self._script[position] if position < len(self._script) else 0]

    def _outcomes(
        self, state: int, key: Hashable, run: Callable[[], list[Effect]]
    ) -> tuple[StepOutcome, ...]:
        """Return all outcomes of a step: one for each sequence of choices."""
        known = self._known_steps.get((state, key))
        if known is not None:
            return known
        outcomes = []
        scripts: list[list[int]] = [[]]
        while scripts:
            self._script, self._options = scripts.pop(), []
            self._node.restore(self.states.values[state])
            failure = ""
            try:
                effects = tuple(run())
                node = self._numbered(key)
            except MistakeInPlan:
                raise
            except (Exception, SystemExit) as error:
                # The step may be outside the bound of the search, so only taking it is a violation.
                effects = tuple(each for each in self._node.effects if isinstance(each, Chosen))
                node, failure = state, f"{type(error).__name__}: {error}"
                self.failures.setdefault(failure, error)
            self._check_constants(key)
            self.steps += 1
            for position in range(len(self._script), len(self._options)):
                made = self._script + [0] * (position - len(self._script))
                scripts += [[*made, other] for other in range(1, self._options[position])]
            chosen = tuple(effect.value for effect in effects if isinstance(effect, Chosen))
            outcomes.append(StepOutcome(node, effects, chosen, failure))
        self._known_steps[state, key] = result = tuple(outcomes)
        return result

    def _numbered(self, key: Hashable) -> int:
        """Return the number of the node's state; refuse a new state with a value of a wrong type.

        key: the event whose step has just ended.
        """
        known = len(self.states)
        try:
            number = self.states.number(self._node.capture())
        except TypeError:  # not even comparable
            self._check_variables(key)
            raise
        if len(self.states) > known:
            self._check_variables(key)
        return number

    def _check_constants(self, key: Hashable) -> None:
        """Refuse a constant that has changed, which would leak into other branches."""
        for each in self._constants:
            each.check(self._handler(key))

    def _check_variables(self, key: Hashable) -> None:
        for part in self._unchecked:
            check_variables(part, self._handler(key))

    def _handler(self, key: Hashable) -> Callable[..., None]:
        """Return the function that handles the event of this key."""
        top = type(self._node.parts[0])
        handler: Callable[..., None] = top.on_recover if key == "recover" else top.on_start
        match key:
            case PossibleRequest(name, _):
                handler = getattr(top, name)
            case (int(), int() as port, Message() as event) | (int() as port, Timer() as event):
                upon = type(self._node.parts[port]).__behaviour__.upon
                handler = upon.get((type(event), None), handler)
        return handler

    def outcomes_of(self, state: int, key: Hashable) -> tuple[StepOutcome, ...]:
        """Return all outcomes of the event with this key."""
        run: Callable[[], list[Effect]]
        match key:
            case PossibleRequest(name, arguments):
                run = partial(self._node.request, name, *arguments)
            case "start":
                run = self._node.start
            case "recover":
                run = self._node.recover
            case (int() as sender, int() as port, Message() as message):
                run = partial(self._node.deliver, port, sender, message)
            case (int() as port, Timer() as timer):
                run = partial(self._node.fire, port, timer)
            case _:
                raise AssertionError(f"an event of an unknown kind: {key!r}")
        return self._outcomes(state, key, run)

    def starts(self) -> list[Move]:
        """Return the moves by which the process can start."""
        state = self.states.number(self.stack.initial)
        use = self.uses.number(self._use.first() if self._is_client else None)
        blank = Component(state, (), self.timers.number(()), use)
        outcomes = self.outcomes_of(state, "start")
        return [
            move
            for outcome in outcomes
            for move in self._moves(blank, Label("start", None, outcome.choices), outcome)
        ]

    # Moves.

    def moves(self, number: int) -> list[Move]:
        """Return all moves of the process in a component, including faults."""
        component = self.components.values[number]
        if not component.up:
            return self._moves_when_down(component)
        steps = self._receipts(component, self._asks(component) if self._is_client else [])
        if component.timers:  # the number of no timers is 0
            steps += self._timeouts(component)
        bound = self.bound
        if bound.receipts_by_name or bound.requests or bound.draws_are_bounded:
            steps = [move._replace(cost=bound.cost_of_step(move)) for move in steps]
        if bound.budgets or bound.lossy:
            return [*steps, *self._crashes(component, steps), *self._losses(component)]
        return steps

    def _choices(self, use: int) -> Sequence[PossibleRequest]:
        """Return the requests that the application may make, by the number of its state."""
        known = self._known_choices.get(use)
        if known is None:
            known = self._known_choices[use] = (
                self._use.choices(self.uses.values[use]) if self._is_client else ()
            )
        return known

    def _asks(self, component: Component) -> list[Move]:
        node, inbox, timers, use, _, known, requests = component
        key = (node, use, timers, known, requests)
        all_expanded = self._known_expanded.get(key)
        if all_expanded is None:
            all_expanded = self._known_expanded[key] = self._asked(component)
        moves: list[Move] = []
        for expanded in all_expanded:
            self._add(moves, expanded, inbox)
        return moves

    def _asked(self, component: Component) -> list[ExpandedEvent]:
        """Expand the requests that the application may make."""
        use = self.uses.values[component.use]
        all_expanded = []
        for asking in self._choices(component.use):
            if asking.budget and asking.budget not in self.bound.requests:
                continue
            after = component._replace(use=self.uses.number(self._use.asked(use, asking)))
            own = before = 0
            if self.bound.order and asking.is_ordered:
                own = 1 << (self.places[self.process] * self._requests_each + component.requests)
                before = component.known
                after = after._replace(known=before | own, requests=component.requests + 1)
            seen = ExternalEvent(
                "request", self.process, asking.name, asking.arguments or None, own, before
            )
            all_expanded += [
                self._expanded_event(
                    after,
                    Label("request", asking, outcome.choices),
                    outcome,
                    (seen,),
                    asking.voluntary,
                )
                for outcome in self.outcomes_of(component.node, asking)
                if not (asking.budget and self._is_idle(component, after, outcome))
            ]
        return all_expanded

    @staticmethod
    def _is_idle(before: Component, after: Component, outcome: StepOutcome) -> bool:
        """Return whether a request changes nothing, neither the process nor its client."""
        changed = (outcome.node, after.use) != (before.node, before.use)
        return not (changed or outcome.effects or outcome.failure)

    def _deliverable(self, inbox: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
        """List the messages that can be received next, each with the remaining inbox.

        Equal messages are listed once.
        """
        known = self._known_openings.get(inbox)
        if known is not None:
            return known
        found = self._known_openings[inbox] = []
        senders: set[ProcessId] = set()
        before = -1
        for position, number in enumerate(inbox):
            sender = self.messages.values[number].sender
            if (self.bound.fifo and sender in senders) or number == before:
                continue
            senders.add(sender)
            before = number
            found.append((number, inbox[:position] + inbox[position + 1 :]))
        return found

    def _receipts(self, component: Component, moves: list[Move]) -> list[Move]:
        """Append the receipts to other moves."""
        node, inbox, timers, use, _, known, requests = component
        for number, rest in self._deliverable(inbox):
            key = (node, use, timers, known, requests, number)
            all_expanded = self._known_expanded.get(key)
            if all_expanded is None:
                all_expanded = self._known_expanded[key] = self._received(component, number)
            for expanded in all_expanded:
                self._add(moves, expanded, rest)
                if self._copies and expanded.label.what.sender != self.process:
                    self._add(
                        moves,
                        expanded._replace(label=expanded.label._replace(kind="copy")),
                        inbox,
                        "copy",
                    )
        return moves

    def _received(self, component: Component, number: int) -> list[ExpandedEvent]:
        """Expand the receipt of a message."""
        pending = self.messages.values[number]
        heard = component._replace(known=component.known | pending.known)
        return [
            self._expanded_event(heard, Label("receive", pending, outcome.choices), outcome)
            for outcome in self.outcomes_of(component.node, pending[:3])
        ]

    def _expanded_event(
        self,
        before: Component,
        label: Label,
        outcome: StepOutcome,
        seen: tuple[ExternalEvent, ...] = (),
        voluntary: bool = False,
    ) -> ExpandedEvent:
        use, timers, sends, to_itself, observed, in_order = self._effects_of(before, outcome)
        return ExpandedEvent(
            label,
            outcome.node,
            use,
            timers,
            before.known,
            before.requests,
            sends,
            to_itself,
            seen + observed,
            voluntary,
            in_order,
        )

    def _add(
        self, moves: list[Move], expanded: ExpandedEvent, inbox: tuple[int, ...], cost: str = ""
    ) -> None:
        """Append the moves of an event with this inbox: one for each way to set the timers."""
        (
            label,
            node,
            use,
            all_timers,
            known,
            requests,
            sends,
            to_itself,
            seen,
            voluntary,
            in_order,
        ) = expanded
        for own in to_itself:
            inbox = self.with_message(inbox, own)
        for timers in all_timers:
            target = self.components.of(node, inbox, timers, use, True, known, requests)
            moves.append(_new(Move, (label, target, sends, seen, cost, voluntary, in_order)))

    def _timeouts(self, component: Component) -> Iterator[Move]:
        pending = self.timers.values[component.timers]
        for position, each in enumerate(pending):
            if self.bound.synchronous and each.left > 0:
                continue
            rest = component._replace(
                timers=self.timers.number(pending[:position] + pending[position + 1 :])
            )
            cost = self.bound.cost_of(each.timer)
            for outcome in self.outcomes_of(component.node, (each.port, each.timer)):
                yield from self._moves(
                    rest, Label("timer", each, outcome.choices), outcome, cost=cost
                )

    def _crashes(self, component: Component, steps: Sequence[Move]) -> Iterator[Move]:
        if not self.bound.budget("crash"):
            return
        seen = (ExternalEvent("crash", self.process),)
        yield Move(Label("crash"), self._down(component), (), seen, "crash")
        # In the middle of a step: durable variables are stored, and only the first messages are
        # sent.
        for move in steps:
            if move.label.kind == "copy":
                continue
            cost = f"crash+{move.cost}" if move.cost else "crash"
            after = self.components.values[move.target]
            request = tuple(each for each in move.seen if each.kind == "request")
            for sent in range(len(move.in_order)):
                sends = self._bundled(move.in_order[:sent])
                yield Move(
                    move.label._replace(torn=sent),
                    self._down(after),
                    sends,
                    (*request, *seen),
                    cost,
                )

    def _down(self, component: Component) -> int:
        """Return the component after a crash.

        Messages to a process that never recovers are dropped.
        """
        state = self.states.number(self.stack.forget(self.states.values[component.node]))
        use = self.uses.values[component.use]
        kept = self.uses.number(self._use.crashed(use)) if self._is_client else component.use
        inbox = component.inbox if self.bound.can_return else ()
        return self.components.number(
            Component(
                state,
                inbox,
                self.timers.number(()),
                kept,
                False,
                component.known,
                component.requests,
            )
        )

    def _losses(self, component: Component) -> Iterator[Move]:
        cost = "lose" if self.bound.budget("lose") else ""
        if cost or self.bound.lossy:
            for number, rest in self._deliverable(component.inbox):
                if self.messages.values[number].sender == self.process:
                    continue  # a message of a process to itself uses no link
                target = self.components.number(component._replace(inbox=rest))
                yield Move(Label("lose", self.messages.values[number]), target, cost=cost)

    def _moves_when_down(self, component: Component) -> list[Move]:
        moves = []
        for number, rest in self._deliverable(component.inbox):
            moves.append(
                Move(
                    Label("vanish", self.messages.values[number]),
                    self.components.number(component._replace(inbox=rest)),
                )
            )
        seen = (ExternalEvent("recover", self.process),)
        for kind in ("recover", "amnesia"):
            if self.bound.budget(kind):
                state = (
                    component.node if kind == "recover" else self.states.number(self.stack.initial)
                )
                awake = component._replace(node=state, up=True)
                for outcome in self.outcomes_of(state, "recover"):
                    moves += self._moves(
                        awake, Label(kind, None, outcome.choices), outcome, seen, cost=kind
                    )
        return moves

    def _moves(
        self,
        before: Component,
        label: Label,
        outcome: StepOutcome,
        seen: tuple[ExternalEvent, ...] = (),
        cost: str = "",
    ) -> list[Move]:
        moves: list[Move] = []
        self._add(moves, self._expanded_event(before, label, outcome, seen), before.inbox, cost)
        return moves

    def _effects_of(self, before: Component, outcome: StepOutcome) -> StepEffects:
        """Return the effects of a step, independent of the messages in flight."""
        key = (before.use, before.timers, before.known, id(outcome))
        known = self._known_effects.get(key)
        if known is not None:
            return known
        if outcome.failure:
            failed = ExternalEvent(FAILED, self.process, outcome.failure)
            return StepEffects(before.use, [before.timers], (), (), (failed,), ())
        use = self.uses.values[before.use]
        deliveries: list[tuple[int, int]] = []
        to_itself: list[int] = []
        observed: list[ExternalEvent] = []
        settings: list[list[tuple[int, Timer, int | None]]] = []
        for effect in outcome.effects:
            match effect:
                case Send(port, to, message):
                    number = self.messages.number(
                        PendingMessage(self.process, port, message, before.known)
                    )
                    if to == self.process:
                        to_itself.append(number)
                    else:
                        deliveries.append((self.places[to], number))
                case Broadcast(port, message):
                    number = self.messages.number(
                        PendingMessage(self.process, port, message, before.known)
                    )
                    deliveries += [(self.places[peer], number) for peer in self.peers]
                case SetTimer(port, timer, after):
                    settings.append([(port, timer, left) for left in self._lengths(after)])
                case CancelTimer(port, timer):
                    settings.append([(port, timer, None)])
                case Indicate(indication):
                    if self._is_client:
                        use = self._use.indicated(use, indication)
                    observed.append(
                        ExternalEvent(
                            "indicate", self.process, type(indication).__name__, indication
                        )
                    )
        timers = (
            [self._set(before.timers, setting) for setting in product(*settings)]
            if settings
            else [before.timers]
        )
        result = StepEffects(
            self.uses.number(use),
            timers,
            self._bundled(deliveries),
            tuple(to_itself),
            tuple(observed),
            tuple(deliveries),
        )
        self._known_effects[key] = result
        return result

    def _lengths(self, after: int | tuple[int, int]) -> list[int]:
        """Return the possible durations of a timer.

        A search without time has only one; a search with time takes the two ends of a range.
        """
        if not self.bound.synchronous:
            return [0]
        return sorted({after} if isinstance(after, int) else set(after))

    def _set(self, timers: int, setting: Sequence[tuple[int, Timer, int | None]]) -> int:
        pending = {(each.port, each.timer): each.left for each in self.timers.values[timers]}
        for port, timer, left in setting:
            pending.pop((port, timer), None)
            if left is not None:
                pending[port, timer] = left
        return self.timers.number(
            tuple(
                sorted(PendingTimer(port, timer, left) for (port, timer), left in pending.items())
            )
        )

    def _bundled(self, deliveries: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Group messages by receiver, in order of sending."""
        by_place: dict[int, list[int]] = {}
        for place, number in deliveries:
            by_place.setdefault(place, []).append(number)
        return tuple(
            (place, self.messages.bundles.number(tuple(numbers)))
            for place, numbers in sorted(by_place.items())
        )

    # Changes of a component by other processes and by time.

    def with_bundle(self, number: int, bundle: int) -> int:
        """Return the component after another process has sent it messages."""
        node, inbox, timers, use, up, known, requests = self.components.values[number]
        if not up and not self.bound.can_return:
            return number
        larger = self._known_inboxes.get((inbox, bundle))
        if larger is None:
            larger = inbox
            for message in self.messages.bundles.values[bundle]:
                larger = self.with_message(larger, message)
            self._known_inboxes[inbox, bundle] = larger
        return self.components.of(node, larger, timers, use, up, known, requests)

    def with_message(self, inbox: tuple[int, ...], number: int) -> tuple[int, ...]:
        if self.bound.merging and number in inbox:
            return inbox
        if not self.bound.fifo:
            return tuple(sorted((*inbox, number)))
        sender = self.messages.values[number].sender
        position = sum(self.messages.values[each].sender <= sender for each in inbox)
        return (*inbox[:position], number, *inbox[position:])

    def after(self, number: int, time: int) -> int:
        """Return the component after that much time."""
        component = self.components.values[number]
        pending = self.timers.values[component.timers]
        later = tuple(sorted(each._replace(left=each.left - time) for each in pending))
        return self.components.number(component._replace(timers=self.timers.number(later)))

    def next_timeout(self, number: int) -> int | None:
        """Return the time until the next timer of this process expires.

        It is 0 while a message is in flight to the process, even if that is down: the message is
        received or lost before time passes.
        """
        component = self.components.values[number]
        if component.inbox:
            return 0
        return min((each.left for each in self.timers.values[component.timers]), default=None)

    def is_active(self, number: int) -> bool:
        """Whether a step that is not voluntary is possible."""
        component = self.components.values[number]
        if not component.up:
            return bool(component.inbox)
        # The number of no timers is 0.
        return bool(component.inbox or component.timers) or any(
            not each.voluntary for each in self._choices(component.use)
        )

    # Used to render counterexamples.

    def state_of(self, number: int) -> State:
        return self.states.values[self.components.values[number].node]

    def known_of(self, number: int) -> int:
        """Return the requests that happened before the present of the process."""
        return self.components.values[number].known

    def use_of(self, number: int) -> ClientState:
        return self.uses.values[self.components.values[number].use]

    def is_up(self, number: int) -> bool:
        return self.components.values[number].up

    def effects(self, number: int | None, label: Label) -> tuple[Effect, ...]:
        """Return the effects of a step; a start has no component yet.

        Every step was executed when its move was found.
        """
        what = label.what
        state = (
            self.states.number(self.stack.initial)
            if number is None
            else self.components.values[number].node
        )
        key: Hashable
        match label.kind:
            case "request" | "start":
                key = what if label.kind == "request" else "start"
            case "receive" | "copy":
                key = what[:3]
            case "timer":
                key = (what.port, what.timer)
            case "recover" | "amnesia":
                key = "recover"
                state = state if label.kind == "recover" else self.states.number(self.stack.initial)
            case _:
                return ()
        return next(
            each.effects for each in self._known_steps[state, key] if each.choices == label.choices
        )

    def sent_to_itself(self, number: int, move: Move) -> list[PendingMessage]:
        known = self.components.values[move.target].known
        effects = self.effects(number, move.label)
        return [
            PendingMessage(self.process, effect.port, effect.message, known)
            for effect in effects
            if isinstance(effect, Send) and effect.to == self.process
        ]

    def paths(self) -> list[str]:
        return [part.path for part in self.stack.parts]


def process_models(
    system: System, uses: Mapping[ProcessId, ClientModel], bound: Bound
) -> list[ProcessModel]:
    messages = MessageTable()
    return [
        ProcessModel(system, process, uses[process], bound, messages) for process in system.plans
    ]


__all__ = [
    "BUDGETS",
    "DRAW",
    "FAILED",
    "RECEIPT_OF",
    "REQUESTS",
    "SEARCHED_FAULTS",
    "TIMEOUT",
    "TIMEOUT_OF",
    "Bound",
    "Component",
    "Label",
    "MessageTable",
    "Move",
    "Numbered",
    "PendingMessage",
    "PendingTimer",
    "PossibleRequest",
    "ProcessModel",
    "process_models",
    "spent",
]
