"""Induction: the clauses hold initially, and every step from such a state keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from habemus.core.invariants import Clause, is_inside, is_leader
from habemus.core.process import Process
from habemus.proofs import terms
from habemus.proofs.axioms import AXIOMS, QUORUMS, common_member
from habemus.proofs.smt import Lowering, document
from habemus.proofs.solver import TIME_LIMIT_S, Answer, Reply, ask
from habemus.proofs.steps import Model, SymbolicState, SymbolicStep
from habemus.proofs.symbols import Collection, Scalar, sorts_of
from habemus.proofs.terms import INT, Expression, P, and_, apply, const, not_, or_


def ME1(p: Process, q: Process) -> bool:
    return not is_inside(p) or not is_inside(q) or p.me == q.me


def E1(p: Process, q: Process) -> bool:
    return not is_leader(p) or not is_leader(q) or p.me == q.me


PROPERTIES: Mapping[str, Clause] = {"ME1": ME1, "E1": E1}


@dataclass
class Obligation:
    """A clause that is to be shown, after one step or in the initial states."""

    clause: str
    event: str
    way: int
    formulas: tuple[Expression, ...] = ()  # which cannot all be true
    step: SymbolicStep | None = None

    def document(self) -> str:
        return document(self.formulas)


@dataclass
class OpenObligation:
    """An obligation that was not shown."""

    obligation: Obligation
    reply: Reply


@dataclass
class Induction:
    """A proof by induction, with its obligations."""

    model: Model
    defaults: Mapping[str, Any]
    topology: str
    steps: list[SymbolicStep]
    clauses: dict[str, Clause] = field(init=False)
    obligations: int = 0
    failures: list[OpenObligation] = field(default_factory=list)

    def __post_init__(self) -> None:
        proof = self.model.proof
        self.clauses = {proof.ensures: PROPERTIES[proof.ensures], **proof.clauses}

    def run(self, limit_s: float = TIME_LIMIT_S, stop_at_first: bool = False) -> Induction:
        """Ask for every obligation."""
        for obligation in self.all_obligations():
            self.obligations += 1
            if not obligation.formulas:
                continue
            reply = ask(obligation.document(), limit_s)
            if reply.answer is not Answer.IMPOSSIBLE:
                self.failures.append(OpenObligation(obligation, reply))
                if stop_at_first:
                    break
        return self

    # Obligations.

    def all_obligations(self) -> Iterator[Obligation]:
        yield from self._initial()
        for way, step in enumerate(self.steps, 1):
            yield from self.of_step(way, step)

    def _initial(self) -> Iterator[Obligation]:
        state = self.model.initial(self.defaults)
        lowering = Lowering(self.topology, frozenset(self.model.symbols))
        given = [
            self._everywhere(lowering, *self.model.formula(name, clause, state))
            for name, clause in self.model.proof.beginnings.items()
        ]
        for name, (variables, says) in self._all(state):
            goal = self._nowhere(lowering, variables, says)
            formulas = (*self.axioms, *given, goal, *lowering.facts)
            yield Obligation(name, "initially", 0, formulas)

    def of_step(self, way: int, step: SymbolicStep) -> Iterator[Obligation]:
        lowering = Lowering(self.topology, frozenset(self.model.symbols))
        lowering.family = self._base_lowering.family
        happens = [lowering.formula(each) for each in (step.requires, *step.conditions)]
        if step.raised:
            formulas = (*self.base, *happens, *lowering.facts)
            yield Obligation(f"no error ({step.raised})", step.event, way, formulas, step)
            return
        state = self.model.after(step)
        before = dict(self._all(self.model.before))
        for name, (variables, says) in self._all(state):
            if (variables, says) == before[name]:
                yield Obligation(name, step.event, way)  # nothing that it is about has changed
                continue
            goal = self._nowhere(lowering, variables, says)
            formulas = (*self.base, *happens, goal, *lowering.facts)
            yield Obligation(name, step.event, way, formulas, step)

    def _all(
        self, state: SymbolicState
    ) -> Iterator[tuple[str, tuple[tuple[Expression, ...], Expression]]]:
        """Return all clauses in a state, with those that follow from declared types."""
        for name, clause in self.clauses.items():
            yield name, self.model.formula(name, clause, state)
        for name, kind in self.model.kinds.items():
            if isinstance(kind, Scalar) and kind.members:
                process = terms.bound(f"type of {name}", P)
                value = state.read(name, process)
                one = or_(*(terms.eq(value, const(int(each))) for each in kind.members))
                yield f"type of {name}", ((process,), one)

    def _everywhere(
        self, lowering: Lowering, variables: tuple[Expression, ...], says: Expression
    ) -> Expression:
        parts = says.args if says.op == "and" else (says,)
        return and_(
            *(terms.quantified("forall", variables, lowering.formula(each)) for each in parts)
        )

    def _nowhere(
        self, lowering: Lowering, variables: tuple[Expression, ...], says: Expression
    ) -> Expression:
        """Return that a clause is broken, for some processes and messages that have names."""
        by = {each: apply(f"${each.args[0]}", (), each.sort) for each in variables}
        return lowering.formula(not_(terms.substitute(says, by)))

    # What is given.

    @cached_property
    def _base_lowering(self) -> Lowering:
        return Lowering(self.topology, frozenset(self.model.symbols))

    @cached_property
    def base(self) -> tuple[Expression, ...]:
        """The axioms, and all clauses before the step."""
        lowering = self._base_lowering
        clauses = [
            self._everywhere(lowering, *formula) for _, formula in self._all(self.model.before)
        ]
        return (*self.axioms, *self._counts(), *clauses)

    def _counts(self) -> Iterator[Expression]:
        for kind, fields in self.model.messages.items():
            sorts = (P, P, *fields.sorts)
            own = tuple(terms.bound(f"{kind.__name__}.{i}", sort) for i, sort in enumerate(sorts))
            number = self.model.before.counts[kind](*own)
            yield terms.quantified("forall", own, not_(terms.lt(number, const(0))))
        for name, declared in (*self.model.kinds.items(), *self.model.symbols.items()):
            if isinstance(declared, Collection) and declared.kind == "list":
                sorts = (P, *sorts_of(declared.of))
                own = tuple(terms.bound(f"{name}.{i}", sort) for i, sort in enumerate(sorts))
                number = apply(name, own, INT)
                yield terms.quantified("forall", own, not_(terms.lt(number, const(0))))

    @cached_property
    def axioms(self) -> tuple[Expression, ...]:
        a, b = terms.bound("a", P), terms.bound("b", P)
        same_id = terms.eq(Expression("id", (a,), INT), Expression("id", (b,), INT))
        found = [terms.quantified("forall", (a, b), terms.implies(same_id, terms.eq(a, b)))]
        lowering = self._base_lowering
        for theory in self.model.proof.assumes:
            if theory in QUORUMS:
                found.append(lowering.formula(common_member(theory)))
            for axiom in AXIOMS.get(theory, ()):
                formula = self.model.formula(axiom.__name__, axiom, self.model.before)
                found.append(self._everywhere(lowering, *formula))
        return tuple(found)
