"""Searches of a few processes, before a proof for all numbers of them.

Each clause is called in each state that the search reaches: a clause that does not hold there is
refuted, with a shortest run.  And each step that the search has made must be one of the executor's,
so that the formulas speak of the code that runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from habemus.core import invariants
from habemus.core.invariants import Clause, InTransit, Parameter, StateView, parameters_of
from habemus.core.model import PossibleRequest
from habemus.core.node import Broadcast, Indicate, Send
from habemus.core.process import Process, ProcessId
from habemus.core.system import System
from habemus.core.values import Message
from habemus.problems.election_observer import ElectionScene
from habemus.proofs.executor import Effect
from habemus.proofs.steps import LEADS, ME, STAGE, Model, SymbolicStep
from habemus.proofs.symbols import Dictionary, Kind, Optional, concrete, flat, is_scalar, kind_of
from habemus.proofs.terms import Expression, Structure, evaluate, names_in
from habemus.runtimes.checker.process_model import Bound, PendingMessage, ProcessModel
from habemus.runtimes.checker.search import Search

STATE_LIMIT = 30_000
MIXED_STATES = 60
"""States in which the formulas of clauses are compared with the clauses themselves."""


class Refutation(NamedTuple):
    """A clause that does not hold in a state that is reached."""

    clause: str
    arguments: tuple[str, ...]
    size: int
    state: int
    search: Search


@dataclass
class Explored:
    """All states of a few processes, or as many as the limit allows."""

    size: int
    system: System
    search: Search
    _processes: dict[tuple[int, int, int, bool], StateView] = field(default_factory=dict)
    exercised: set[str] = field(default_factory=set)

    @property
    def is_complete(self) -> bool:
        return self.search.extent.complete

    def refute(self, clauses: Mapping[str, Clause]) -> Refutation | None:
        """Return the first clause that does not hold in a state, in the order of the search."""
        asked = [(name, clause, parameters_of(clause)) for name, clause in clauses.items()]
        known: set[Any] = set()
        for state in self.search.visited():
            processes, messages = self._contents(state)
            for name, clause, parameters in asked:
                for given in _arguments(parameters, processes, messages):
                    key = (name, *(each.key for each in given))
                    if key in known:
                        continue
                    known.add(key)
                    self.exercised.add(name)
                    if not clause(*(each.value for each in given)):
                        shown = tuple(map(str, given))
                        return Refutation(name, shown, self.size, state, self.search)
        return None

    def _contents(self, state: int) -> tuple[list[Argument], list[Argument]]:
        fields = self.search.unpacked(state)
        knowledge = self.search.knowledge.values[fields[len(self.search.models)]]
        claims = (
            {claim.process for claim in knowledge.state.claims}
            if isinstance(knowledge, ElectionScene)
            else set()
        )
        by_id: dict[ProcessId, Argument] = {}
        inboxes: list[tuple[ProcessId, PendingMessage]] = []
        for place, model in enumerate(self.search.models):
            node, inbox, _, use, *_ = model.components.values[fields[place]]
            key = (place, node, use, model.process in claims)
            process = self._processes.get(key)
            if process is None:
                process = self._processes[key] = self._participant(model, key)
            by_id[model.process] = Argument(key, process, str(model.process))
            inboxes += [(model.process, model.messages.values[each]) for each in inbox]
        found = []
        for to, pending in inboxes:
            sender, receiver = by_id[pending.sender], by_id[to]
            message = InTransit(pending.message, sender.value, receiver.value)
            shown = f"{pending.message} from {pending.sender} to {to}"
            found.append(Argument((pending.message, sender.key, receiver.key), message, shown))
        return list(by_id.values()), found

    def _participant(self, model: ProcessModel, key: tuple[int, int, int, bool]) -> StateView:
        _, node, use, claims = key
        process = model.stack.spawn(model.process, model.peers)[0]
        type(process).__restore__(process, model.states.values[node][0])
        stage = getattr(model.uses.values[use], "stage", 0)
        return StateView(process, self.system, int(stage), claims)

    # Agreement with the executor.

    def disagreement(self, model: Model, steps: Sequence[SymbolicStep]) -> str:
        """Return how a step of the search differs from the executor's; empty: it does not."""
        self.compared = 0
        for place in self.search.models:
            for (node, key), outcomes in place._known_steps.items():
                for outcome in outcomes:
                    after = place.states.values[outcome.node][0]
                    case = _Case(model, place, self.system, place.states.values[node][0], key)
                    self.compared += 1
                    why = case.differs(steps, after, outcome.effects)
                    if why:
                        return f"process {place.process}, {_event_of(key)} in {node}: {why}"
        return ""

    # Agreement of the clauses with their formulas.

    def misread_clause(self, model: Model, clauses: Mapping[str, Clause]) -> str:
        """Return a clause whose formula has another value than the clause; empty: there is none.

        The states are mixed from what the processes and their inboxes have been, so most of them
        cannot be reached, and clauses do not hold in many.
        """
        formulas = {
            name: (clause, parameters_of(clause), *model.formula(name, clause, model.before))
            for name, clause in clauses.items()
        }
        local = [
            [each for (place, *_), each in self._processes.items() if place == here]
            for here in range(len(self.search.models))
        ]
        pending = self.search.models[0].messages.values
        senders = {model.process for model in self.search.models}
        for turn in range(MIXED_STATES):
            chosen = {
                each[0].me: each[(turn * 7919 + place * 104_729) % len(each)]
                for place, each in enumerate(local)
            }
            processes = [Argument(None, each, str(me)) for me, each in chosen.items()]
            messages = []
            for index in range(min(3, len(pending))):
                each = pending[(turn * 31 + index * 17) % len(pending)]
                to = sorted(senders)[(turn + index) % len(senders)]
                in_transit = InTransit(each.message, chosen[each.sender], chosen[to])
                messages.append(Argument(None, in_transit, f"{each.message} to {to}"))
            state = _MixedState(model, self.system, chosen, [each.value for each in messages])
            for name, (clause, parameters, variables, says) in formulas.items():
                for given in _arguments(parameters, processes, messages):
                    values = [one for each in given for one in state.terms_of(each.value)]
                    at = dict(zip(variables, values, strict=True))
                    formula = bool(evaluate(says, state.structure, at))
                    if formula != bool(clause(*(each.value for each in given))):
                        return f"{name} of {', '.join(map(str, given))} as a formula is {formula}"
        return ""


class _MixedState:
    """A state in which the formulas of clauses have values."""

    def __init__(
        self,
        model: Model,
        system: System,
        chosen: Mapping[ProcessId, StateView],
        messages: Sequence[InTransit[Any]],
    ) -> None:
        self.model = model
        self.chosen = chosen
        self.kinds = {**model.kinds, **model.symbols}
        self.counted = [(type(each.message).__name__, *self.terms_of(each)) for each in messages]
        self.system = system
        self.structure = Structure(tuple(chosen), self._value)

    def terms_of(self, argument: Any) -> tuple[Any, ...]:
        """Return the values of the variables that stand for an argument of a clause."""
        if not isinstance(argument, InTransit):
            return (argument.me,)
        fields = self.model.messages[type(argument.message)]
        return (
            argument.sender.me,
            argument.receiver.me,
            *(
                term
                for name in fields.tracked
                for term in concrete(getattr(argument.message, name), fields.kinds[name])
            ),
        )

    def _value(self, name: str, args: tuple[Any, ...]) -> Any:
        if name in {kind.__name__ for kind in self.model.messages}:
            return self.counted.count((name, *args))
        views = [self.chosen[each] for each in args if each in self.chosen]
        if name in ("between", "towards"):
            return getattr(invariants, name)(*views)
        any_view = next(iter(self.chosen.values()))
        if name in (*self.model.switches, *self.model.sizes):
            return getattr(any_view, name)
        [view] = views
        if name in ("right", "left"):
            neighbours = self.system.topology.neighbours[view.me]
            return neighbours[-1 if name == "right" else 0] if neighbours else view.me
        if name == "peers":
            return tuple((peer,) for peer in view.peers)
        if name == STAGE:
            return view._stage
        if name == LEADS:
            return view._claims
        variable, _, index = name.partition(".")
        return concrete(getattr(view, variable), self.kinds[variable])[int(index or 0)]


class Argument(NamedTuple):
    """A value for a parameter of a clause; equal keys have equal answers."""

    key: Any
    value: Any
    shown: str

    def __str__(self) -> str:
        return self.shown


def explore(
    proof: invariants.Invariant, size: int, model: Any, options: Mapping[str, Any], entries: int
) -> Explored:
    """Search a system of that size."""
    system = proof.algorithm.system(size, **options)  # type: ignore[attr-defined]
    uses, observer = model(entries, system)
    # Proofs are about links that deliver in any order, whatever the algorithm assumes.
    search = Search(system, uses, observer, Bound())
    search.run(limit=STATE_LIMIT, stop_at_first=False)
    return Explored(size, system, search)


def _arguments(
    parameters: Sequence[Parameter], processes: list[Argument], messages: list[Argument]
) -> Iterator[tuple[Argument, ...]]:
    choices = [
        processes
        if each.message is None
        else [one for one in messages if type(one.value.message) is each.message]
        for each in parameters
    ]
    for given in product(*choices):
        of_messages = [
            id(each.value)
            for each, parameter in zip(given, parameters, strict=True)
            if parameter.message is not None
        ]
        if len(set(of_messages)) == len(of_messages):
            yield given


def holds_for_all(clause: Clause, participants: Sequence[StateView]) -> bool:
    """Return whether a clause about processes holds for all of them."""
    number = len(parameters_of(clause))
    return all(clause(*given) for given in product(participants, repeat=number))


def _event_of(key: Any) -> str:
    if isinstance(key, PossibleRequest):
        return key.name
    return type(key[2]).__name__ if isinstance(key, tuple) and len(key) == 3 else str(key)


class _Case:
    """A step that the search has made, in which the executor's terms have values."""

    def __init__(
        self, model: Model, place: ProcessModel, system: System, before: tuple[Any, ...], key: Any
    ) -> None:
        self.model = model
        self.me = place.process
        self.peers = place.peers
        self.event = _event_of(key)
        self.names = model.cls.__state_names__
        self.plan: Process = system.plans[place.process]
        self.values: dict[str, Any] = {"%me": self.me, "nobody": 0}
        for name, value in zip(self.names, before, strict=True):
            self._add(name, model.kinds[name], _thawed(model.kinds[name], value))
        for name, kind in model.symbols.items():
            self._add(name, kind, getattr(self.plan, name))
        for name in (*model.switches, *model.sizes):
            self.values[name] = getattr(self.plan, name)
        if isinstance(key, tuple) and len(key) == 3 and isinstance(key[2], Message):
            sender, _, message = key
            self.values["%sender"] = sender
            for name, kind in model.messages[type(message)].kinds.items():
                self._add(f"%{name}", kind, getattr(message, name))
        self.structure = Structure(tuple(system.plans), self._value)

    def _add(self, name: str, kind: Kind, value: Any) -> None:
        for index, term in enumerate(concrete(value, kind)):
            self.values[f"{name}.{index}" if index else name] = term

    def _value(self, name: str, args: tuple[Any, ...]) -> Any:
        if name == "peers":
            assert args == (self.me,)
            return tuple((peer,) for peer in self.peers)
        return self.values[name]

    def differs(self, steps: Sequence[SymbolicStep], after: tuple[Any, ...], effects: Any) -> str:
        """Return how this step differs from the one of the executor that has its conditions."""
        found = [step for step in steps if step.event == self.event and self._takes(step)]
        if len(found) != 1:
            return f"the executor has {len(found)} such steps"
        [step] = found
        if step.raised:
            return f"the executor sees an exception: {step.raised}"
        for name, value in zip(self.names, after, strict=True):
            kind = self.model.kinds[name]
            new = step.written.get(name, self.model.read_before(name, ME))
            terms = [self._of(each) for each in flat(new, kind)]
            if not _same(kind, terms, concrete(_thawed(kind, value), kind)):
                return f"{name} is {value!r} there, and {terms!r} in the executor"
        sent, indicated = self._expected(effects)
        if sorted(map(repr, self._sent(step))) != sorted(map(repr, sent)):
            return f"the messages are {sent} there, and {self._sent(step)} in the executor"
        mine = [repr(self._record(each, {})) for each in step.effects if each.to is None]
        if mine != indicated:
            return f"the indications are {indicated} there, and {mine} in the executor"
        return ""

    def _of(self, term: Expression, at: Mapping[Expression, Any] | None = None) -> Any:
        return evaluate(term, self.structure, at or {})

    def _takes(self, step: SymbolicStep) -> bool:
        names = names_in(step.conditions, set())
        assert names <= {*self.values, "peers"}, names
        return all(bool(self._of(each)) for each in step.conditions)

    def _expected(self, effects: Any) -> tuple[list[Any], list[str]]:
        sent: list[Any] = []
        indicated = []
        for effect in effects:
            match effect:
                case Send(_, to, message):
                    sent.append((to, self._plain(message)))
                case Broadcast(_, message):
                    sent += [(to, self._plain(message)) for to in self.peers]
                case Indicate(indication):
                    indicated.append(repr(self._plain(indication)))
        return sent, indicated

    def _plain(self, message: Any) -> Any:
        return type(message).__name__, *(
            _comparable(kind_of(each), concrete(getattr(message, name), kind_of(each)))
            for name, each in type(message).__declared__.items()
        )

    def _record(self, effect: Effect, at: Mapping[Expression, Any]) -> Any:
        what = effect.what
        return what.cls.__name__, *(
            _comparable(
                kind_of(each),
                tuple(self._of(term, at) for term in flat(what.fields[name], kind_of(each))),
            )
            for name, each in what.cls.__declared__.items()
        )

    def _sent(self, step: SymbolicStep) -> list[Any]:
        found: list[Any] = []
        for effect in step.effects:
            if effect.to is None:
                continue
            scopes: list[Mapping[Expression, Any]] = [{}]
            if effect.scope is not None:
                variables, of, condition = effect.scope
                scopes = [
                    at
                    for element in self._of(of)
                    if self._of(condition, at := dict(zip(variables, element, strict=True)))
                ]
            found += [(self._of(effect.to, at), self._record(effect, at)) for at in scopes]
        return found


def _thawed(kind: Kind, value: Any) -> Any:
    """Return a captured value with dictionaries that can be read."""
    return dict(value) if isinstance(kind, Dictionary) else value


def _same(kind: Kind, one: Sequence[Any], other: Sequence[Any]) -> bool:
    return bool(_comparable(kind, one) == _comparable(kind, other))


def _comparable(kind: Kind, values: Sequence[Any]) -> Any:
    """Return the values of the terms of a kind without those that do not matter."""
    if isinstance(kind, Optional) and values[0]:
        return None
    if is_scalar(kind):
        return tuple(map(int, values))
    [value] = values
    return (
        sorted(value.items())
        if isinstance(value, dict)
        else (value if isinstance(value, tuple) else sorted(value))
    )
