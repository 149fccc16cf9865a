"""The solver: z3, which is imported when a question is asked."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from habemus.core.process import MistakeInPlan

TIME_LIMIT_S = 20
SHORT_S = 1.5
"""Time of the first attempts at a question."""


class Answer(Enum):
    IMPOSSIBLE = "impossible"
    POSSIBLE = "possible"
    UNKNOWN = "unknown"


class Reply(NamedTuple):
    answer: Answer
    model: Any = None


def ask(document: str, limit_s: float = TIME_LIMIT_S) -> Reply:
    """Ask whether the formulas of a document can all be true.

    The search for models makes many proofs slow, and without it there are none to show.  So both
    are tried, for a short time first: what takes long with one seed is often quick with another.
    """
    z3 = _z3()
    found = z3.unknown
    short = min(SHORT_S, limit_s)
    for seed, seconds in ((0, short), (1, short), (2, limit_s)):
        for searches_models in (False, True):
            solver = z3.Solver()
            solver.set("smt.mbqi", searches_models)
            solver.set("smt.random_seed", seed)
            solver.set("timeout", int(seconds * 1000))
            solver.from_string(document)
            found = solver.check()
            if found == z3.unsat:
                return Reply(Answer.IMPOSSIBLE)
            if found == z3.sat:
                return Reply(Answer.POSSIBLE, solver.model())
    return Reply(Answer.UNKNOWN)


def second_opinion(document: str, limit_s: float = TIME_LIMIT_S) -> Answer:
    """Ask cvc5 the same."""
    try:
        import cvc5
    except ImportError:
        raise MistakeInPlan("a second opinion needs cvc5: pip install cvc5") from None
    solver = cvc5.Solver()
    solver.setLogic("ALL")
    solver.setOption("tlimit-per", str(int(limit_s * 1000)))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, document, "obligation")
    symbols = parser.getSymbolManager()
    while not (command := parser.nextCommand()).isNull():
        command.invoke(solver, symbols)
    found = solver.checkSat()
    if found.isUnsat():
        return Answer.IMPOSSIBLE
    return Answer.POSSIBLE if found.isSat() else Answer.UNKNOWN


def _z3() -> Any:
    try:
        import z3
    except ImportError:
        raise MistakeInPlan(
            "a proof needs the solver z3: pip install '.[prove]' in your clone"
        ) from None
    return z3
