"""Terms: what a handler computes from a state that is not known.

A term has an exact value in a concrete state (`evaluate`), so it can be compared with what the
handler does there.  For a solver it is lowered to first-order logic (`habemus.proofs.smt`).

Scalars have the sorts `Int`, `Bool` and `P`, the processes.  Collections and dictionaries are terms
as well; their elements are tuples of scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any, NamedTuple, TypeAlias

INT, BOOL, P = "Int", "Bool", "P"
Elements: TypeAlias = tuple[str, ...]


class Sort(NamedTuple):
    """The sort of a collection or a dictionary: its elements, or its keys and values."""

    kind: str  # set, list, dict
    elements: Elements
    values: Elements = ()


class Expression:
    """A node of a term: an operation and its arguments."""

    __slots__ = ("_hash", "args", "op", "sort")

    def __init__(self, op: str, args: tuple[Any, ...], sort: Any) -> None:
        self.op = op
        self.args = args
        self.sort = sort
        self._hash = hash((op, args, sort))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Expression) or self._hash != other._hash:
            return False
        return self.op == other.op and self.sort == other.sort and self.args == other.args

    def __repr__(self) -> str:
        return f"({self.op} {' '.join(map(str, self.args))})"


def const(value: int | bool) -> Expression:
    return Expression("const", (value,), BOOL if isinstance(value, bool) else INT)


TRUE, FALSE = const(True), const(False)


def apply(name: str, args: Iterable[Expression], sort: Any) -> Expression:
    """Return the value of a variable, or of a function that has only axioms."""
    return Expression("app", (name, *args), sort)


def bound(name: str, sort: str) -> Expression:
    return Expression("bound", (name,), sort)


def not_(one: Expression) -> Expression:
    if one.op == "const":
        return const(not one.args[0])
    return one.args[0] if one.op == "not" else Expression("not", (one,), BOOL)


def and_(*parts: Expression) -> Expression:
    flat: dict[Expression, None] = {}
    for part in parts:
        if part == FALSE:
            return FALSE
        for each in part.args if part.op == "and" else (part,):
            if each != TRUE:
                flat[each] = None
    if any(not_(each) in flat for each in flat):
        return FALSE
    return next(iter(flat), TRUE) if len(flat) < 2 else Expression("and", tuple(flat), BOOL)


def or_(*parts: Expression) -> Expression:
    return not_(and_(*map(not_, parts)))


def implies(one: Expression, other: Expression) -> Expression:
    return or_(not_(one), other)


def eq(one: Expression, other: Expression) -> Expression:
    if one == other:
        return TRUE
    if one.op == other.op == "const":
        return FALSE
    if one.sort == BOOL:
        for this, that in ((one, other), (other, one)):
            if this.op == "const":
                return that if this.args[0] else not_(that)
    return Expression("eq", (one, other), BOOL)


def lt(one: Expression, other: Expression) -> Expression:
    """Return whether a number, or the id of a process, is less than another."""
    if one == other:
        return FALSE
    if one.op == other.op == "const":
        return const(one.args[0] < other.args[0])
    if one.sort == P:
        one, other = Expression("id", (one,), INT), Expression("id", (other,), INT)
    return Expression("lt", (one, other), BOOL)


def arithmetic(op: str, one: Expression, other: Expression) -> Expression:
    if one.op == other.op == "const":
        values = one.args[0], other.args[0]
        return const(ARITHMETIC[op](*values))
    if op == "mul" and const(1) in (one, other):
        return other if one == const(1) else one
    return Expression(op, (one, other), INT)


ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda one, other: one + other,
    "sub": lambda one, other: one - other,
    "mul": lambda one, other: one * other,
}


def ite(condition: Expression, one: Expression, other: Expression) -> Expression:
    if condition == TRUE or one == other:
        return one
    return other if condition == FALSE else Expression("ite", (condition, one, other), one.sort)


def lexicographic(one: tuple[Expression, ...], other: tuple[Expression, ...]) -> Expression:
    """Return whether a tuple of scalars is less than another."""
    if not one or not other:
        return const(len(one) < len(other))
    rest = lexicographic(one[1:], other[1:])
    return or_(lt(one[0], other[0]), and_(eq(one[0], other[0]), rest))


def equal(one: Iterable[Expression], other: Iterable[Expression]) -> Expression:
    return and_(*(eq(left, right) for left, right in zip(one, other, strict=True)))


def member(element: tuple[Expression, ...], of: Expression) -> Expression:
    return FALSE if of.op == "empty" else Expression("member", (element, of), BOOL)


def some(of: Expression) -> Expression:
    """Return whether a collection is not empty."""
    if of.op in ("empty", "insert"):
        return const(of.op == "insert")
    return Expression("some", (of,), BOOL)


def quantified(op: str, variables: tuple[Expression, ...], body: Expression) -> Expression:
    return body if not variables or body.op == "const" else Expression(op, (variables, body), BOOL)


def substitute(term: Any, by: Mapping[Expression, Expression]) -> Any:
    """Replace variables; all names are unique, so that none is captured."""
    if isinstance(term, tuple):
        return tuple(substitute(each, by) for each in term)
    if not isinstance(term, Expression):
        return term
    found = by.get(term)
    if found is not None:
        return found
    args = substitute(term.args, by)
    return term if args == term.args else Expression(term.op, args, term.sort)


def names_in(term: Any, found: set[str]) -> set[str]:
    """Return the names of the variables and functions in a term."""
    if isinstance(term, tuple):
        for each in term:
            names_in(each, found)
    elif isinstance(term, Expression):
        if term.op == "app":
            found.add(term.args[0])
        names_in(term.args, found)
    return found


# Values in a concrete state.


class Structure(NamedTuple):
    """A concrete state: the processes, and the value of each variable and function."""

    processes: tuple[int, ...]
    value: Callable[[str, tuple[Any, ...]], Any]


def evaluate(term: Expression, state: Structure, at: Mapping[Expression, Any]) -> Any:
    """Return the value of a term: lists are tuples, sets are frozensets, tables are dicts."""
    if term in at:
        return at[term]
    return _EVALUATORS[term.op](term, state, at)


def _all_of(
    terms: Iterable[Expression], state: Structure, at: Mapping[Expression, Any]
) -> tuple[Any, ...]:
    return tuple(evaluate(each, state, at) for each in terms)


def _chosen(term: Expression, state: Structure, at: Mapping[Expression, Any]) -> list[Any]:
    """Return the elements of a comprehension."""
    of, variables, condition, out = term.args
    found = []
    for element in evaluate(of, state, at):
        inner = {**at, **dict(zip(variables, element, strict=True))}
        if evaluate(condition, state, inner):
            found.append(_all_of(out, state, inner))
    return found


def _insert(term: Expression, state: Structure, at: Mapping[Expression, Any]) -> Any:
    of, element = evaluate(term.args[0], state, at), _all_of(term.args[1], state, at)
    return (*of, element) if term.sort.kind == "list" else of | {element}


def _erase(term: Expression, state: Structure, at: Mapping[Expression, Any]) -> Any:
    of, element = evaluate(term.args[0], state, at), _all_of(term.args[1], state, at)
    return of - {element}


def _union(term: Expression, state: Structure, at: Mapping[Expression, Any]) -> Any:
    one, other = _all_of(term.args, state, at)
    return (*one, *other) if term.sort.kind == "list" else frozenset(one) | frozenset(other)


def _put(term: Expression, state: Structure, at: Mapping[Expression, Any]) -> Any:
    of, key, value = term.args
    return {
        **evaluate(of, state, at),
        _all_of(key, state, at): _all_of(value, state, at),
    }


def _without(term: Expression, state: Structure, at: Mapping[Expression, Any]) -> Any:
    gone = _all_of(term.args[1], state, at)
    of = evaluate(term.args[0], state, at)
    return {key: value for key, value in of.items() if key != gone}


def _value_at(term: Expression, state: Structure, at: Mapping[Expression, Any]) -> Any:
    of = evaluate(term.args[0], state, at)
    found = of.get(_all_of(term.args[1], state, at))
    return 0 if found is None else found[term.args[2]]


def _quantifier(term: Expression, state: Structure, at: Mapping[Expression, Any]) -> bool:
    variables, body = term.args
    assert all(each.sort == P for each in variables), "only processes can be enumerated"
    every = all if term.op == "forall" else any
    return every(
        evaluate(body, state, {**at, **dict(zip(variables, values, strict=True))})
        for values in product(state.processes, repeat=len(variables))
    )


def _into(kind: str, found: Iterable[Any]) -> Any:
    return tuple(found) if kind == "list" else frozenset(found)


_EVALUATORS: dict[str, Callable[[Expression, Structure, Mapping[Expression, Any]], Any]] = {
    "const": lambda t, s, at: t.args[0],
    "app": lambda t, s, at: s.value(t.args[0], _all_of(t.args[1:], s, at)),
    "id": lambda t, s, at: evaluate(t.args[0], s, at),
    "not": lambda t, s, at: not evaluate(t.args[0], s, at),
    "and": lambda t, s, at: all(evaluate(each, s, at) for each in t.args),
    "eq": lambda t, s, at: evaluate(t.args[0], s, at) == evaluate(t.args[1], s, at),
    "lt": lambda t, s, at: evaluate(t.args[0], s, at) < evaluate(t.args[1], s, at),
    **{
        op: lambda t, s, at, do=do: do(*_all_of(t.args, s, at))  # type: ignore[misc]
        for op, do in ARITHMETIC.items()
    },
    "ite": lambda t, s, at: evaluate(t.args[1 if evaluate(t.args[0], s, at) else 2], s, at),
    "forall": _quantifier,
    "exists": _quantifier,
    "member": lambda t, s, at: _all_of(t.args[0], s, at) in evaluate(t.args[1], s, at),
    "some": lambda t, s, at: bool(evaluate(t.args[0], s, at)),
    "count": lambda t, s, at: evaluate(t.args[0], s, at).count(_all_of(t.args[1], s, at)),
    "len": lambda t, s, at: len(evaluate(t.args[0], s, at)),
    "head": lambda t, s, at: evaluate(t.args[0], s, at)[0][t.args[1]],
    "last": lambda t, s, at: evaluate(t.args[0], s, at)[-1][t.args[1]],
    "min": lambda t, s, at: min(evaluate(t.args[0], s, at))[t.args[1]],
    "empty": lambda t, s, at: _into(t.sort.kind, ()),
    "insert": _insert,
    "erase": _erase,
    "tail": lambda t, s, at: evaluate(t.args[0], s, at)[1:],
    "where": lambda t, s, at: _into(t.sort.kind, _chosen(t, s, at)),
    "union": _union,
    "as": lambda t, s, at: _into(t.sort.kind, evaluate(t.args[0], s, at)),
    "sorted": lambda t, s, at: tuple(sorted(evaluate(t.args[0], s, at))),
    "no keys": lambda t, s, at: {},
    "put": _put,
    "without": _without,
    "has": lambda t, s, at: _all_of(t.args[1], s, at) in evaluate(t.args[0], s, at),
    "value": _value_at,
    "items": lambda t, s, at: tuple(
        (*key, *value) for key, value in evaluate(t.args[0], s, at).items()
    ),
    "dict of": lambda t, s, at: {
        element[: len(t.sort.elements)]: element[len(t.sort.elements) :]
        for element in evaluate(t.args[0], s, at)
    },
}
