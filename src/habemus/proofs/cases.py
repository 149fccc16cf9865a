"""A counterexample to induction: a state in which all clauses hold, and a step that breaks one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from habemus.proofs.induction import Induction, OpenObligation
from habemus.proofs.smt import document
from habemus.proofs.solver import Answer, ask
from habemus.proofs.symbols import Collection, Dictionary, Kind, Optional, Scalar, sorts_of
from habemus.proofs.terms import Expression, P, apply, bound, eq, or_, quantified

SMALL = (2, 3, 4)
"""Numbers of processes for which a counterexample is looked for first."""


@dataclass(frozen=True)
class Case:
    """A counterexample to induction, in lines."""

    clause: str
    event: str
    processes: tuple[str, ...]  # each with its variables, before the step
    messages: tuple[str, ...]  # in transit before the step
    step: str
    broken_for: str

    def lines(self) -> Iterator[str]:
        yield from self.processes
        yield f"in transit: {', '.join(self.messages) or 'nothing'}"
        yield f"step: {self.step}"
        yield f"then {self.clause} does not hold{self.broken_for}"

    def plain(self) -> dict[str, Any]:
        return {
            "clause": self.clause,
            "event": self.event,
            "processes": list(self.processes),
            "messages": list(self.messages),
            "step": self.step,
            "broken_for": self.broken_for.strip(),
        }


def case_of(failure: OpenObligation, induction: Induction) -> Case | None:
    """Return a counterexample with few processes; None if the solver knows no state."""
    formulas = failure.obligation.formulas
    for size in SMALL:
        reply = ask(document((*formulas, _at_most(size))), 5)
        if reply.answer is Answer.POSSIBLE:
            return _Reader(reply.model, induction).case(failure)
    if failure.reply.answer is Answer.POSSIBLE:
        return _Reader(failure.reply.model, induction).case(failure)
    return None


def _at_most(size: int) -> Expression:
    one = bound("one of all", P)
    named = [apply(f"#{index}", (), P) for index in range(size)]
    return quantified("forall", (one,), or_(*(eq(one, each) for each in named)))


class _Reader:
    """Reads a state from a model of z3."""

    def __init__(self, model: Any, induction: Induction) -> None:
        self.model = model
        self.kinds = induction.model.kinds
        self.induction = induction
        self.functions = {each.name().removesuffix("'"): each for each in model.decls()}
        sort = next(each for each in model.sorts() if each.name() == P)
        everybody = list(model.get_universe(sort))
        everybody.sort(key=lambda each: self._number("#id", each))
        self.names = {str(each): index for index, each in enumerate(everybody, 1)}
        self.everybody = everybody

    def case(self, failure: OpenObligation) -> Case:
        obligation = failure.obligation
        step = obligation.step
        me = self._shown(self._value("%me"))
        message = "" if step is None else self._received(step.message)
        event = "the start" if step is None else f"process {me}: {obligation.event}{message}"
        given = sorted(
            (name.rpartition(".")[2], self._shown(self._value(name)))
            for name in self.functions
            if name.startswith(f"${obligation.clause}.") and name.count(".") == 1
        )
        for_whom = ", ".join(f"{name} = {value}" for name, value in given)
        return Case(
            obligation.clause,
            obligation.event,
            tuple(map(self._process, self.everybody)),
            tuple(self._messages()),
            event,
            f" for {for_whom}" if for_whom else "",
        )

    def _received(self, message: Any) -> str:
        if message is None:
            return ""
        fields = self.induction.model.messages[message].tracked
        values = ", ".join(f"{name}={self._shown(self._value(f'%{name}'))}" for name in fields)
        return f"({values}) from {self._shown(self._value('%sender'))}"

    def _process(self, process: Any) -> str:
        shown = [
            f"{name}={self._variable(name, kind, process)}" for name, kind in self.kinds.items()
        ]
        return f"process {self._shown(process)}: {' '.join(shown)}"

    def _variable(self, name: str, kind: Kind, process: Any) -> str:
        match kind:
            case Scalar(_, members):
                found = self._shown(self._value(name, process))
                known = members and found.lstrip("-").isdigit()
                return members(int(found)).name if known and members else found
            case Optional(of):
                if str(self._value(name, process)) == "True":
                    return "None"
                return self._shown(self._value(f"{name}.1", process)) if sorts_of(of) else "?"
            case Collection(_, Scalar(sort, _)) if sort == P:
                inside = [
                    self._shown(each)
                    for each in self.everybody
                    if str(self._value(name, process, each)) == "True"
                    or self._number(name, process, each) > 0
                ]
                return f"{{{','.join(inside)}}}"
            case Dictionary(Scalar(sort, _), Scalar()) if sort == P:
                pairs = [
                    f"{self._shown(each)}: {self._shown(self._value(f'{name}!0', process, each))}"
                    for each in self.everybody
                    if str(self._value(f"{name}?", process, each)) == "True"
                ]
                return f"{{{', '.join(pairs)}}}"
        return "…"

    def _messages(self) -> Iterable[str]:
        for kind, fields in self.induction.model.messages.items():
            counted = self.functions.get(kind.__name__)
            if counted is None:
                continue
            for entry in self._arguments(kind.__name__, len(fields.sorts)):
                number = self._number(kind.__name__, *entry)
                if number > 0:
                    sender, receiver, *values = map(self._shown, entry)
                    shown = ", ".join(values)
                    many = f" ({number} times)" if number > 1 else ""
                    yield f"{kind.__name__}({shown}) from {sender} to {receiver}{many}"

    def _arguments(self, name: str, fields: int) -> list[tuple[Any, ...]]:
        """Return the arguments at which the model gives the function a value of its own."""
        found: dict[str, tuple[Any, ...]] = {}
        if not fields:
            for one in self.everybody:
                for other in self.everybody:
                    found[f"{one} {other}"] = (one, other)
        interpretation = self.model[self.functions[name]]
        for index in range(interpretation.num_entries()):
            entry = interpretation.entry(index)
            args = tuple(entry.arg_value(each) for each in range(entry.num_args()))
            found[" ".join(map(str, args))] = args
        own = [each for each in self.functions if each.startswith("%")]
        if "%sender" in own and fields == len(own) - 2:
            args = tuple(self._value(each) for each in ("%sender", "%me"))
            values = tuple(self._value(each) for each in own if each not in ("%sender", "%me"))
            found[" ".join(map(str, (*args, *values)))] = (*args, *values)
        return list(found.values())

    def _value(self, name: str, *args: Any) -> Any:
        function = self.functions.get(name)
        return "any" if function is None else self.model.eval(function(*args), True)

    def _number(self, name: str, *args: Any) -> int:
        found = str(self._value(name, *args))
        return int(found) if found.lstrip("-").isdigit() else 0

    def _shown(self, value: Any) -> str:
        return str(self.names.get(str(value), value))
