"""The steps of an algorithm, of any number of processes: each event, in each way through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from habemus.core.invariants import Clause, ClientStage, Invariant, parameters_of
from habemus.core.process import Process
from habemus.core.values import Message, Timer
from habemus.problems.election import Leader
from habemus.problems.mutex import Granted, Mutex
from habemus.proofs import terms
from habemus.proofs.executor import (
    Effect,
    Executor,
    Path,
    SymbolicProcess,
    Transit,
    constant,
    ways,
)
from habemus.proofs.symbols import (
    Kind,
    Maybe,
    NotUnderstood,
    SymbolicRecord,
    flat,
    is_scalar,
    kind_of,
    shaped,
    sorts_of,
    unknown,
)
from habemus.proofs.terms import BOOL, FALSE, INT, TRUE, Expression, P, Sort, and_, apply, const

ME, SENDER = apply("%me", (), P), apply("%sender", (), P)
STAGE, LEADS = "%stage", "%leads"

Read = Callable[[str, Expression], Any]
"""The value of a variable of a process."""
Count = Callable[..., Expression]
"""How many messages with these fields are in transit from one process to another."""


class Fields(NamedTuple):
    """The fields of a message: those that are scalars are known of messages in transit."""

    kinds: dict[str, Kind]
    tracked: tuple[str, ...]

    @property
    def sorts(self) -> tuple[str, ...]:
        return tuple(sort for name in self.tracked for sort in sorts_of(self.kinds[name]))


class SymbolicState(NamedTuple):
    """A state of any number of processes."""

    read: Read
    counts: Mapping[type[Message], Count]


@dataclass
class SymbolicStep:
    """One way through the handler of one event, with the rules that follow."""

    event: str
    requires: Expression
    conditions: tuple[Expression, ...]
    effects: list[Effect] = field(default_factory=list)
    written: dict[str, Any] = field(default_factory=dict)  # with the stage of the application
    message: type[Message] | None = None
    raised: str = ""


def options_of(cls: type[Process]) -> set[str]:
    """Return the constants that have a default, which a user may change."""
    return {name for name, each in cls.__variables__.items() if type(each.default) is not object}


class Model:
    """An algorithm as the executor sees it.

    plan: a plan of it, whose constants are those of all processes.
    """

    def __init__(self, proof: Invariant, plan: Process) -> None:
        self.proof = proof
        self.cls = cls = proof.algorithm
        variables = cls.__variables__
        self.kinds = {name: kind_of(variables[name].declared) for name in cls.__state_names__}
        self.constants: dict[str, Any] = {}
        self.used: set[str] = set()  # of these, the ones that a handler has read
        self.symbols: dict[str, Kind] = {}  # constants of each process that are not known
        self.sizes: list[str] = []  # numbers that the system gives to all processes alike
        self.switches: list[str] = []  # constants of all processes that may be true or false
        for name, variable in variables.items():
            if variable.kind == "const":
                self._add_constant(name, variable.declared, getattr(plan, name, None))
            elif variable.kind == "uses":
                raise NotUnderstood(f"the component {name} of {cls.__name__}")
        if cls.on_woken is not Process.on_woken:
            raise NotUnderstood(f"on_woken of {cls.__name__}")
        self.messages: dict[type[Message], Fields] = {}
        for kind, _ in cls.__behaviour__.upon:
            if issubclass(kind, Message):
                kinds = {name: kind_of(each) for name, each in kind.__declared__.items()}
                tracked = tuple(name for name, each in kinds.items() if is_scalar(each))
                self.messages[kind] = Fields(kinds, tracked)
            elif issubclass(kind, Timer):
                raise NotUnderstood(f"the timer {kind.__name__} of {cls.__name__}")
        self.ghosts = (STAGE,) if issubclass(cls, Mutex) else (LEADS,)
        self.before = SymbolicState(
            self.read_before, {kind: self._count(kind) for kind in self.messages}
        )

    def _add_constant(self, name: str, declared: Any, value: Any) -> None:
        try:
            kind = kind_of(declared)
            sorts = sorts_of(kind)
        except (NotUnderstood, IndexError):
            kind, sorts = None, ()
        if sorts == (BOOL,):
            self.switches.append(name)
        elif kind is not None and (P in sorts or any(isinstance(each, Sort) for each in sorts)):
            self.symbols[name] = kind
        elif sorts == (INT,) and name not in options_of(self.cls):
            self.sizes.append(name)
        else:
            self.constants[name] = constant(value)

    def _count(self, kind: type[Message]) -> Count:
        return lambda *args: apply(kind.__name__, args, INT)

    def read_before(self, name: str, process: Expression) -> Any:
        """Return the value of a variable in the state before a step."""
        if name in self.kinds:
            return unknown(self.kinds[name], name, (process,))
        return self.given(name, process)

    def given(self, name: str, process: Expression) -> Any:
        if name in self.symbols:
            return unknown(self.symbols[name], name, (process,))
        if name in self.sizes:
            return apply(name, (), INT)
        if name in self.switches:
            return apply(name, (), BOOL)
        if name in self.ghosts:
            return apply(name, (process,), INT if name == STAGE else BOOL)
        if name in self.constants:
            self.used.add(name)
            return self.constants[name]
        raise NotUnderstood(f"the name {name}")

    # Steps.

    def steps(self) -> Iterator[SymbolicStep]:
        """Execute every event in every way."""
        yield from self._ways("start", TRUE, lambda run, me: run.call(self.cls.on_start, me))
        for name in self.cls.__behaviour__.requests:
            if name != "write" or self.cls.write is not Mutex.write:  # type: ignore[attr-defined]
                yield from self.request(name)
        for kind in self.messages:
            yield from self.receipt(kind)

    def request(self, name: str) -> Iterator[SymbolicStep]:
        stage = terms.apply(STAGE, (ME,), INT)
        before, after = {
            "acquire": (ClientStage.OUTSIDE, ClientStage.WAITING),
            "release": (ClientStage.INSIDE, ClientStage.OUTSIDE),
        }.get(name, (None, None))
        requires = TRUE if before is None else terms.eq(stage, const(int(before)))
        ghosts = {} if after is None else {STAGE: const(int(after))}
        function = getattr(self.cls, name)
        yield from self._ways(name, requires, lambda run, me: run.call(function, me), ghosts)

    def receipt(self, kind: type[Message]) -> Iterator[SymbolicStep]:
        handler = self.cls.__behaviour__.upon[kind, None]
        message = self.received(kind)
        some = terms.lt(const(0), self.before.counts[kind](SENDER, ME, *self.arguments(kind)))
        yield from self._ways(
            kind.__name__,
            some,
            lambda run, me: run.call(handler, me, SENDER, message),
            message=kind,
        )

    def received(self, kind: type[Message]) -> Any:
        """Return the message that is received, with fields that are not known."""
        fields = self.messages[kind].kinds
        return SymbolicRecord(
            kind, {name: unknown(each, f"%{name}", ()) for name, each in fields.items()}
        )

    def arguments(self, kind: type[Message]) -> tuple[Expression, ...]:
        """Return the fields of the message that is received, as terms."""
        fields, message = self.messages[kind], self.received(kind)
        return tuple(
            term
            for name in fields.tracked
            for term in flat(message.fields[name], fields.kinds[name])
        )

    def _ways(
        self,
        event: str,
        requires: Expression,
        run: Callable[[Executor, SymbolicProcess], Any],
        ghosts: Mapping[str, Any] | None = None,
        message: type[Message] | None = None,
    ) -> Iterator[SymbolicStep]:
        def execute(path: Path) -> SymbolicProcess:
            me = SymbolicProcess(self.cls, ME, lambda name: self.read_before(name, ME), self.kinds)
            executor = Executor(path)
            run(executor, me)
            executor.settle(me)
            return me

        for path, me in ways(execute):
            step = SymbolicStep(event, requires, tuple(path.conditions), message=message)
            step.raised = path.raised
            if me is not None:
                step.effects, step.written = me.effects, {**me.written, **(ghosts or {})}
                self._observe(step)
            yield step

    def _observe(self, step: SymbolicStep) -> None:
        """Change the stage of the application, or who leads, by what the process indicates."""
        for effect in step.effects:
            if effect.to is not None:
                continue
            if effect.what.cls is Granted:
                step.written[STAGE] = const(int(ClientStage.INSIDE))
            elif effect.what.cls is Leader:
                named = effect.what.fields["process"]
                is_known = terms.not_(named.is_none) if isinstance(named, Maybe) else TRUE
                leader = named.value if isinstance(named, Maybe) else named
                step.written[LEADS] = and_(is_known, terms.eq(leader, ME))

    def after(self, step: SymbolicStep) -> SymbolicState:
        """Return the state after a step."""

        def read(name: str, process: Expression) -> Any:
            before = self.read_before(name, process)
            if name not in step.written:
                return before
            if name in self.ghosts:
                return terms.ite(terms.eq(process, ME), step.written[name], before)
            kind = self.kinds[name]
            pairs = zip(flat(step.written[name], kind), flat(before, kind), strict=True)
            here = terms.eq(process, ME)
            return shaped(kind, [terms.ite(here, one, other) for one, other in pairs])

        return SymbolicState(read, {kind: self._count_after(kind, step) for kind in self.messages})

    def _count_after(self, kind: type[Message], step: SymbolicStep) -> Count:
        fields = self.messages[kind]
        sent = [each for each in step.effects if each.to is not None and each.what.cls is kind]

        def count(sender: Expression, receiver: Expression, *values: Expression) -> Expression:
            found = self.before.counts[kind](sender, receiver, *values)
            if step.message is kind:
                this = terms.equal((sender, receiver, *values), (SENDER, ME, *self.arguments(kind)))
                found = terms.arithmetic("sub", found, terms.ite(this, const(1), const(0)))
            for effect in sent:
                assert effect.to is not None
                self._refuse_repeated(effect)
                given = tuple(
                    term
                    for name in fields.tracked
                    for term in flat(effect.what.fields[name], fields.kinds[name])
                )
                here = and_(terms.eq(sender, ME), _is_sent(effect, receiver, values, given))
                found = terms.arithmetic("add", found, terms.ite(here, const(1), const(0)))
            return found

        return count

    def _refuse_repeated(self, effect: Effect) -> None:
        if effect.scope is None:
            return
        of = effect.scope.of
        is_of_set = of.op in ("sorted", "as") and of.args[0].sort.kind == "set"
        is_given = of.op == "app" and of.args[0] in ("peers", *self.symbols)
        if of.sort.kind == "list" and not is_of_set and not is_given:
            raise NotUnderstood("messages to a list that may have a process twice")

    # Clauses.

    def formula(
        self, name: str, clause: Clause, state: SymbolicState
    ) -> tuple[tuple[Expression, ...], Expression]:
        """Return the parameters of a clause, and what it says of them in a state."""
        variables: list[Expression] = []
        guards: list[Expression] = []
        given: list[Any] = []
        messages: list[tuple[type[Message], tuple[Expression, ...]]] = []
        for parameter in parameters_of(clause):
            at = f"{name}.{parameter.name}"
            if parameter.message is None:
                process = terms.bound(at, P)
                variables.append(process)
                given.append(self._participant(process, state))
                continue
            fields = self.messages.get(parameter.message)
            if fields is None:
                raise NotUnderstood(
                    f"{name}: {self.cls.__name__} handles no {parameter.message.__name__}"
                )
            sorts = (P, P, *fields.sorts)
            own = tuple(terms.bound(f"{at}.{index}", sort) for index, sort in enumerate(sorts))
            variables += own
            number = state.counts[parameter.message](*own)
            guards.append(terms.lt(const(0), number))
            for kind, other in messages:
                if kind is parameter.message:  # never the same message, but maybe an equal one
                    guards.append(
                        terms.or_(terms.not_(terms.equal(own, other)), terms.lt(const(1), number))
                    )
            messages.append((parameter.message, own))
            given.append(self._transit(fields, own, state))
        says = []
        for path, value in ways(
            lambda path: Executor(path).condition(Executor(path).call(clause, *given))
        ):
            outcome = FALSE if path.raised else value
            says.append(terms.implies(and_(*path.conditions), outcome))
        guard = and_(*guards)
        return tuple(variables), and_(*(terms.implies(guard, each) for each in _parts(says)))

    def _participant(self, process: Expression, state: SymbolicState) -> SymbolicProcess:
        return SymbolicProcess(self.cls, process, lambda name: state.read(name, process), {})

    def _transit(
        self, fields: Fields, own: tuple[Expression, ...], state: SymbolicState
    ) -> Transit:
        values, left = {}, list(own[2:])
        for field_name in fields.tracked:
            kind = fields.kinds[field_name]
            size = len(sorts_of(kind))
            values[field_name] = shaped(kind, left[:size])
            left = left[size:]
        sender, receiver = (self._participant(each, state) for each in own[:2])
        return Transit(sender, receiver, values)

    # Initial states.

    def initial(self, defaults: Mapping[str, Any]) -> SymbolicState:
        """Return the initial state: variables have their defaults, unless these differ."""

        def read(name: str, process: Expression) -> Any:
            if name in defaults:
                kind = self.kinds[name]
                return shaped(kind, flat(defaults[name], kind))
            if name in self.ghosts:
                return const(0) if name == STAGE else FALSE
            return self.read_before(name, process)

        return SymbolicState(read, {kind: lambda *_: const(0) for kind in self.messages})


def _parts(says: list[Expression]) -> Iterator[Expression]:
    """Split conjunctions, also behind an implication: a solver likes several small formulas."""
    for each in says:
        if each.op == "and":
            yield from each.args
        elif each.op == "not" and each.args[0].op == "and":
            *given, last = each.args[0].args
            if last.op == "not" and last.args[0].op == "and":
                yield from (terms.implies(and_(*given), part) for part in last.args[0].args)
            else:
                yield each
        else:
            yield each


def _is_sent(
    effect: Effect,
    receiver: Expression,
    values: tuple[Expression, ...],
    given: tuple[Expression, ...],
) -> Expression:
    assert effect.to is not None
    if effect.scope is None:
        return and_(terms.eq(receiver, effect.to), terms.equal(values, given))
    if effect.scope.variables != (effect.to,):
        raise NotUnderstood("a message in a loop to another process than that of the loop")
    by = {effect.to: receiver}
    _, of, condition = effect.scope
    chosen = and_(terms.member((receiver,), of), terms.substitute(condition, by))
    return and_(chosen, terms.equal(values, terms.substitute(given, by)))
