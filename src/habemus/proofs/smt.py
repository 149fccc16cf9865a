"""Terms for a solver: first-order logic in SMT-LIB.

A set or a dictionary is the predicate of its members, and a list says how often each is in it: its
order is lost, and its first element is some member of it.  What is lost makes a proof harder and
never wrong.  Two sizes are compared by what follows from the answer: a set of a majority contains a
quorum, and a subset of the same size is the set itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from habemus.proofs import terms
from habemus.proofs.symbols import NOBODY, NotUnderstood
from habemus.proofs.terms import BOOL, FALSE, INT, Expression, P, and_, apply, const, not_, or_

QUORUM = "Quorum"


class Lowering:
    """Formulas of one obligation: what they assume, and the symbols that they use."""

    def __init__(self, topology: str = "", distinct: frozenset[str] = frozenset()) -> None:
        self.distinct = distinct  # names of lists without an element twice
        self.topology = topology
        self.facts: list[Expression] = []
        self.family: Any = None  # what the sizes of all quorums are compared with
        self._fresh = count()
        self._known: dict[Expression, tuple[Expression, ...]] = {}

    def formula(self, term: Expression, sign: bool = True) -> Expression:
        """Return a formula of scalars that follows from a term; with the sign False, the negation
        of the formula follows from that of the term.
        """
        args = term.args
        match term.op:
            case "not":
                return not_(self.formula(args[0], not sign))
            case "and":
                return and_(*(self.formula(each, sign) for each in args))
            case "forall" | "exists":
                return terms.quantified(term.op, args[0], self.formula(args[1], sign))
            case "member":
                return self.member(self.scalars(args[0]), args[1])
            case "some":
                return self.some(args[0])
            case "has":
                return self.has(args[0], self.scalars(args[1]))
            case "eq" | "lt" if _has_size(args):
                return self._sizes(term, sign)
            case "eq" if args[0].sort == BOOL:
                one, other = args
                both = terms.implies(one, other), terms.implies(other, one)
                return and_(*(self.formula(each, sign) for each in both))
            case "ite" if term.sort == BOOL:
                condition, one, other = args
                both = terms.implies(condition, one), terms.implies(not_(condition), other)
                return and_(*(self.formula(each, sign) for each in both))
        return self.scalar(term)

    def exactly(self, term: Expression) -> Expression:
        """Return a formula that is equivalent to a term; refuse what is only approximated."""
        if _compares_two_sizes(term):
            raise NotUnderstood("a comparison of two sizes here")
        return self.formula(term)

    def scalar(self, term: Expression) -> Expression:
        """Return a scalar without collections in it."""
        match term.op:
            case "value":
                return self.value(term.args[0], self.scalars(term.args[1]), term.args[2])
            case "head" | "last" | "min":
                index: int = term.args[1]
                return self._element(term.op, term.args[0])[index]
            case "count":
                return self.times(self.scalars(term.args[1]), term.args[0])
            case "len":
                raise NotUnderstood("a size that is compared with nothing")
            case "ite":
                condition = self.exactly(term.args[0])
                return terms.ite(condition, *self.scalars(term.args[1:]))
            case "not" | "and" | "member" | "some" | "has":
                return self.exactly(term)
            case "const" | "bound":
                return term
        args = tuple(
            self.scalar(each) if isinstance(each, Expression) else each for each in term.args
        )
        return Expression(term.op, args, term.sort)

    def scalars(self, found: Iterable[Expression]) -> tuple[Expression, ...]:
        return tuple(map(self.scalar, found))

    # Collections.

    def member(self, element: tuple[Expression, ...], of: Expression) -> Expression:
        args = of.args
        match of.op:
            case "app" if _is_given(of):
                return self._is_peer(self.scalar(args[1]), element[0])
            case "app" if of.sort.kind == "list":
                return terms.lt(const(0), self.times(element, of))
            case "app":
                return apply(args[0], (*self.scalars(args[1:]), *element), BOOL)
            case "empty":
                return FALSE
            case "insert":
                here = terms.equal(element, self.scalars(args[1]))
                return or_(here, self.member(element, args[0]))
            case "erase":
                gone = terms.equal(element, self.scalars(args[1]))
                return and_(not_(gone), self.member(element, args[0]))
            case "tail":
                return terms.lt(const(0), self.times(element, of))
            case "where":
                return self._chosen(element, of)
            case "union":
                return or_(*(self.member(element, each) for each in args))
            case "as" | "sorted":
                return self.member(element, args[0])
            case "ite":
                condition = self.exactly(args[0])
                one, other = (self.member(element, each) for each in args[1:])
                return and_(terms.implies(condition, one), or_(condition, other))
            case "items":
                keys = len(args[0].sort.elements)
                key, value = element[:keys], element[keys:]
                there = [self.value(args[0], key, index) for index in range(len(value))]
                return and_(self.has(args[0], key), terms.equal(value, there))
        raise NotUnderstood(f"members of {of.op}")

    def _is_peer(self, one: Expression, other: Expression) -> Expression:
        is_other = not_(terms.eq(one, other))
        match self.topology:
            case "complete":
                return is_other
            case "ring":
                beside = (terms.eq(other, apply(side, (one,), P)) for side in ("left", "right"))
                return and_(or_(*beside), is_other)
        return and_(apply("peers", (one, other), BOOL), is_other)

    def _chosen(self, element: tuple[Expression, ...], of: Expression) -> Expression:
        source, variables, condition, out = of.args
        if out == variables:
            by = dict(zip(variables, element, strict=True))
            return and_(self.member(element, source), self.exactly(terms.substitute(condition, by)))
        there = and_(
            self.member(variables, source),
            self.exactly(condition),
            terms.equal(element, self.scalars(out)),
        )
        return terms.quantified("exists", variables, there)

    def some(self, of: Expression) -> Expression:
        if _is_given(of) and self.topology == "ring":  # which is so but for a ring of one
            one = self.scalar(of.args[1])
            return not_(terms.eq(apply("right", (one,), P), one))
        variables = self._variables(of.sort.elements)
        return terms.quantified("exists", variables, self.member(variables, of))

    def _variables(self, sorts: Iterable[str]) -> tuple[Expression, ...]:
        return tuple(terms.bound(f"x{next(self._fresh)}", sort) for sort in sorts)

    def times(self, element: tuple[Expression, ...], of: Expression) -> Expression:
        """Return how often an element is in a list."""
        args = of.args
        match of.op:
            case "app" if not _is_given(of):
                return apply(args[0], (*self.scalars(args[1:]), *element), INT)
            case "insert":
                here = terms.equal(element, self.scalars(args[1]))
                return _plus(self.times(element, args[0]), here, "add")
            case "tail":
                first = terms.equal(element, self._element("head", args[0]))
                return _plus(self.times(element, args[0]), first, "sub")
            case "union":
                return terms.arithmetic("add", *(self.times(element, each) for each in args))
            case "ite":
                one, other = (self.times(element, each) for each in args[1:])
                return terms.ite(self.exactly(args[0]), one, other)
            case "as" | "sorted" if args[0].sort.kind == "list":
                return self.times(element, args[0])
            case "where" if args[0].sort.kind == "list" and args[1] == args[3]:
                by = dict(zip(args[1], element, strict=True))
                kept = self.exactly(terms.substitute(args[2], by))
                return terms.ite(kept, self.times(element, args[0]), const(0))
        return terms.ite(self.member(element, of), const(1), const(0))

    def _element(self, which: str, of: Expression) -> tuple[Expression, ...]:
        if of.op == "app" and of.args[0] == "peers" and which != "min":
            return (apply("left" if which == "head" else "right", of.args[1:], P),)
        key = Expression(which, (of,), INT)
        found = self._known.get(key)
        if found is None:
            _refuse_variables(of)
            names = [
                f"{which}{len(self._known)}.{index}" for index, _ in enumerate(of.sort.elements)
            ]
            found = tuple(
                apply(name, (), sort) for name, sort in zip(names, of.sort.elements, strict=True)
            )
            self._known[key] = found
            self.facts.append(terms.implies(self.some(of), self.member(found, of)))
            if which == "min":
                others = self._variables(of.sort.elements)
                smaller = terms.lexicographic(others, found)
                least = not_(and_(self.member(others, of), smaller))
                self.facts.append(terms.quantified("forall", others, least))
        return found

    # Dictionaries.

    def has(self, of: Expression, key: tuple[Expression, ...]) -> Expression:
        args = of.args
        match of.op:
            case "app":
                return apply(f"{args[0]}?", (*self.scalars(args[1:]), *key), BOOL)
            case "no keys":
                return FALSE
            case "put":
                return or_(terms.equal(key, self.scalars(args[1])), self.has(args[0], key))
            case "without":
                gone = terms.equal(key, self.scalars(args[1]))
                return and_(not_(gone), self.has(args[0], key))
            case "ite":
                condition = self.exactly(args[0])
                one, other = (self.has(each, key) for each in args[1:])
                return and_(terms.implies(condition, one), or_(condition, other))
            case "dict of":
                values = self._variables(of.sort.values)
                return terms.quantified("exists", values, self.member((*key, *values), args[0]))
        raise NotUnderstood(f"keys of {of.op}")

    def value(self, of: Expression, key: tuple[Expression, ...], index: int) -> Expression:
        args, sort = of.args, of.sort.values[index]
        match of.op:
            case "app":
                return apply(f"{args[0]}!{index}", (*self.scalars(args[1:]), *key), sort)
            case "put":
                here = terms.equal(key, self.scalars(args[1]))
                return terms.ite(here, self.scalar(args[2][index]), self.value(args[0], key, index))
            case "without":
                return self.value(args[0], key, index)
            case "ite":
                one, other = (self.value(each, key, index) for each in args[1:])
                return terms.ite(self.exactly(args[0]), one, other)
            case "no keys":
                return {INT: const(0), BOOL: FALSE, P: NOBODY}[sort]
            case "dict of":
                found = self._known.setdefault(of, (apply(f"dict{len(self._known)}", (), INT),))
                return apply(f"{found[0].args[0]}!{index}", key, sort)
        raise NotUnderstood(f"values of {of.op}")

    # Sizes.

    def _sizes(self, term: Expression, sign: bool) -> Expression:
        one, other = term.args
        if term.op == "eq" and one.op == other.op == "len":
            return self._same_size(one.args[0], other.args[0], sign)
        if term.op == "lt":
            form = _linear(other, 1, _linear(one, -1, {}))
            sizes = [each for each in form if each.op == "len" and not _is_given(each.args[0])]
            if len(sizes) == 1:
                [size] = sizes
                if form[size] > 0:
                    return self._is_quorum(size.args[0], _family(form, size))
                least = {each: -factor for each, factor in form.items()}
                least[const(1)] = least.get(const(1), 0) + 1
                return not_(self._is_quorum(size.args[0], _family(least, size)))
        raise NotUnderstood("this comparison of sizes")

    def _is_quorum(self, of: Expression, family: Any) -> Expression:
        if "peers" in str(family) and self.topology != "complete":
            raise NotUnderstood("a majority of processes that are not all connected")
        if self.family not in (None, family):
            raise NotUnderstood("two kinds of quorums")
        self.family = family
        self._refuse_repeated(of)
        quorum = terms.bound(f"quorum{next(self._fresh)}", QUORUM)
        [voter] = self._variables((P,))
        all_in = terms.implies(apply("%in", (voter, quorum), BOOL), self.member((voter,), of))
        inside = terms.quantified("forall", (voter,), all_in)
        # The first part is what the solver finds quorums by.
        named = apply("%is quorum", (quorum,), BOOL)
        return terms.quantified("exists", (quorum,), and_(named, inside))

    def _refuse_repeated(self, of: Expression) -> None:
        is_distinct = of.op == "app" and of.args[0] in ("peers", *self.distinct)
        if of.sort.kind == "list" and not is_distinct:
            raise NotUnderstood("the size of a list that may have an element twice")

    def _same_size(self, one: Expression, other: Expression, sign: bool) -> Expression:
        self._refuse_repeated(one)
        self._refuse_repeated(other)
        variables = self._variables(one.sort.elements)
        here, there = self.member(variables, one), self.member(variables, other)
        left = terms.quantified("forall", variables, terms.implies(here, there))
        right = terms.quantified("forall", variables, terms.implies(there, here))
        if sign:
            return and_(terms.implies(left, right), terms.implies(right, left))
        return and_(left, right)


def _plus(number: Expression, condition: Expression, how: str) -> Expression:
    return terms.arithmetic(how, number, terms.ite(condition, const(1), const(0)))


def _compares_two_sizes(term: Any) -> bool:
    if isinstance(term, tuple):
        return any(map(_compares_two_sizes, term))
    if not isinstance(term, Expression):
        return False
    if term.op == "eq" and term.args[0].op == term.args[1].op == "len":
        return True
    return _compares_two_sizes(term.args)


def _has_size(args: tuple[Any, ...]) -> bool:
    return any(
        isinstance(each, Expression) and (each.op == "len" or _has_size(each.args)) for each in args
    )


def _is_given(of: Expression) -> bool:
    return of.op == "app" and of.args[0] == "peers"


def _linear(term: Expression, factor: int, form: dict[Expression, int]) -> dict[Expression, int]:
    """Add a sum, times a factor, to a linear form."""
    args = term.args
    match term.op:
        case "add":
            return _linear(args[1], factor, _linear(args[0], factor, form))
        case "sub":
            return _linear(args[1], -factor, _linear(args[0], factor, form))
        case "mul" if args[0].op == "const":
            return _linear(args[1], factor * args[0].args[0], form)
        case "const":
            term, factor = const(1), factor * args[0]
    return {**form, term: form.get(term, 0) + factor}


def _family(form: Mapping[Expression, int], size: Expression) -> Any:
    """Return what the size of a set is compared with, which is the same for every process."""
    rest = [
        ("peers" if each.op == "len" and _is_given(each.args[0]) else str(each), factor)
        for each, factor in form.items()
        if each != size and factor
    ]
    return form[size], tuple(sorted(rest))


def _refuse_variables(term: Any) -> None:
    if isinstance(term, tuple):
        for each in term:
            _refuse_variables(each)
    elif isinstance(term, Expression):
        if term.op == "bound" and not str(term.args[0]).startswith(("each", "kept", "x")):
            raise NotUnderstood("the first or smallest element of a collection in a clause")
        _refuse_variables(term.args)


# Text.


def document(formulas: Iterable[Expression]) -> str:
    """Return assertions as an SMT-LIB document."""
    symbols: dict[str, tuple[tuple[str, ...], str]] = {}
    asserted = [f"(assert {_text(each, symbols)})" for each in formulas]
    sorts = sorted(
        {P} | {each for arguments, sort in symbols.values() for each in (*arguments, sort)}
    )
    lines = [f"(declare-sort {sort} 0)" for sort in sorts if sort not in (INT, BOOL)]
    lines += [
        f"(declare-fun |{name}'| ({' '.join(arguments)}) {sort})"
        for name, (arguments, sort) in symbols.items()
    ]
    return "\n".join([*lines, *asserted])


_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "lt": "<", "eq": "=", "and": "and", "not": "not"}


def _text(term: Expression, symbols: dict[str, tuple[tuple[str, ...], str]]) -> str:
    args = term.args
    match term.op:
        case "const":
            value = args[0]
            if isinstance(value, bool):
                return "true" if value else "false"
            return str(value) if value >= 0 else f"(- {-value})"
        case "bound":
            return f"|{args[0]}|"
        case "app":
            symbols[args[0]] = (tuple(each.sort for each in args[1:]), term.sort)
            inner = " ".join(_text(each, symbols) for each in args[1:])
            # With a mark, so that no variable has the name of something that the solver knows.
            return f"(|{args[0]}'| {inner})" if inner else f"|{args[0]}'|"
        case "id":
            symbols["#id"] = ((P,), INT)
            return f"(|#id'| {_text(args[0], symbols)})"
        case "forall" | "exists":
            variables = " ".join(f"(|{each.args[0]}| {each.sort})" for each in args[0])
            return f"({term.op} ({variables}) {_text(args[1], symbols)})"
        case "ite":
            return f"(ite {' '.join(_text(each, symbols) for each in args)})"
    return f"({_OPERATORS[term.op]} {' '.join(_text(each, symbols) for each in args)})"
