"""The executor: runs the handlers of an unchanged file on values that are not known.

It interprets their source.  A condition that is not known splits the path: the handler is executed
once for each answer.  A loop over a collection is executed for one element that stands for all of
them.  A construct that is not in this file is refused by its line.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, partial
from itertools import count
from types import FunctionType
from typing import Any, NamedTuple, cast

from habemus.core import invariants
from habemus.core.values import Value
from habemus.proofs import terms
from habemus.proofs.symbols import (
    Fixed,
    Kind,
    Many,
    Maybe,
    NotUnderstood,
    Scalar,
    SymbolicRecord,
    Table,
    converted,
    flat,
    is_named,
    kind_of_value,
    shaped,
    sorts_of,
)
from habemus.proofs.terms import BOOL, FALSE, INT, TRUE, Expression, P, Sort, apply, const

RULE_LIMIT = 8
"""Rules that may fire after one event."""
_FRESH = count()


class Scope(NamedTuple):
    """The elements of a collection for which something is done, and the condition."""

    variables: tuple[Expression, ...]
    of: Expression
    condition: Expression


class Effect(NamedTuple):
    """A message that is sent or an indication; with a scope, once for each element."""

    what: SymbolicRecord
    to: Expression | None  # None: an indication
    scope: Scope | None = None


class LoopChange(NamedTuple):
    """A change of a set in a loop, for each element of the scope."""

    how: str
    variable: str
    element: tuple[Expression, ...]
    scope: Scope | None = None


class Raised(Exception):
    """The path ends with an exception of the algorithm."""


class _Returned(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class SymbolicProcess:
    """A process: how to read its variables, and those that the path has set."""

    def __init__(
        self, cls: type, me: Expression, read: Callable[[str], Any], kinds: dict[str, Kind]
    ):
        self.cls = cls
        self.me = me
        self.read = read
        self.kinds = kinds  # of the variables that the path may set; empty: it only looks
        self.written: dict[str, Any] = {}
        self.effects: list[Effect] = []

    def get(self, name: str) -> Any:
        return self.written[name] if name in self.written else self.read(name)


class Transit(NamedTuple):
    """A message in transit, for a clause."""

    sender: SymbolicProcess
    receiver: SymbolicProcess
    fields: dict[str, Any]


class Method(NamedTuple):
    """A method, before it is called."""

    of: Any
    name: str


@dataclass
class Path:
    """One way through a handler: the answers to its conditions, and what follows from them."""

    decisions: list[bool] = field(default_factory=list)
    conditions: list[Expression] = field(default_factory=list)
    known: dict[Expression, bool] = field(default_factory=dict)
    open: list[list[bool]] = field(default_factory=list)  # ways that are still to be executed
    raised: str = ""
    outer: Path | None = None  # of a loop
    changes: list[LoopChange] = field(default_factory=list)
    looked_at: set[str] = field(default_factory=set)
    _asked: int = 0

    def decide(self, condition: Expression) -> bool:
        if condition.op == "const":
            return bool(condition.args[0])
        if condition.op == "not":
            return not self.decide(condition.args[0])
        if condition.op == "and":
            return all(map(self.decide, condition.args))
        if condition in self.known:
            return self.known[condition]
        if self._asked < len(self.decisions):
            answer = self.decisions[self._asked]
        else:
            answer = True
            self.open.append([*self.decisions, False])
            self.decisions.append(True)
        self._asked += 1
        self.known[condition] = answer
        self.conditions.append(condition if answer else terms.not_(condition))
        return answer


def ways(run: Callable[[Path], Any], outer: Path | None = None) -> Iterator[tuple[Path, Any]]:
    """Execute something once for each way through it."""
    left: list[list[bool]] = [[]]
    while left:
        path = Path(decisions=left.pop(), outer=outer)
        path.known = dict(outer.known) if outer else {}
        try:
            value = run(path)
        except Raised as raised:
            path.raised, value = str(raised), None
        left += path.open
        yield path, value


@cache
def _source(function: FunctionType) -> ast.FunctionDef:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError) as reason:
        raise NotUnderstood(f"{function.__qualname__}: its source cannot be read") from reason
    found = tree.body[0]
    assert isinstance(found, ast.FunctionDef)
    return found


class Executor:
    """Interprets functions on one path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # Functions.

    def call(self, called: Callable[..., Any], *arguments: Any) -> Any:
        """Interpret a function."""
        function = cast(FunctionType, called)
        source = _source(function)
        names = [each.arg for each in source.args.args]
        defaults = function.__defaults__ or ()
        given = (*arguments, *defaults[len(defaults) - (len(names) - len(arguments)) :])
        if len(given) != len(names):
            raise NotUnderstood(f"{function.__qualname__} with {len(arguments)} arguments")
        local = dict(zip(names, given, strict=True))
        frame = Frame(self, function, local)
        try:
            frame.execute(source.body)
        except _Returned as returned:
            return returned.value
        except NotUnderstood as refused:
            raise frame.located(refused) from None
        return None

    def settle(self, me: SymbolicProcess) -> None:
        """Apply the rules of a process until none applies."""
        for _ in range(RULE_LIMIT):
            for rule in me.cls.__behaviour__.rules:  # type: ignore[attr-defined]
                if self.truth(self.call(rule.guard, me)):
                    self.call(getattr(me.cls, rule.name), me)
                    break
            else:
                return
        raise NotUnderstood(f"{me.cls.__name__}: more than {RULE_LIMIT} rules fire after one event")

    # Conditions.

    def truth(self, value: Any) -> bool:
        term = self.condition(value)
        return self.path.decide(term)

    def condition(self, value: Any) -> Expression:
        """Return whether a value is true, as a term."""
        match value:
            case Expression() if value.sort == BOOL:
                return value
            case Expression() if value.sort == INT:
                return terms.not_(terms.eq(value, const(0)))
            case Maybe(is_none, inner) if isinstance(inner, SymbolicRecord | tuple):
                return terms.not_(is_none)
            case Many(term, _):
                return terms.some(term)
            case Table() | SymbolicProcess() | Transit() | Maybe():
                raise NotUnderstood("a value that is neither true nor false")
        return const(bool(value))

    # Loops.

    def each(self, of: Many, body: Callable[[Executor, Any], Any]) -> list[tuple[Scope, Any]]:
        """Execute the body for one element that stands for all, in each way."""
        if self.path.outer is not None:
            raise NotUnderstood("a loop in a loop")
        number = next(_FRESH)
        variables = tuple(
            terms.bound(f"each{number}.{index}", sort)
            for index, sort in enumerate(sorts_of(of.element))
        )
        element = shaped(of.element, variables)
        found = []
        for inner, value in ways(partial(_in_loop, body, element), self.path):
            if inner.raised:
                raise NotUnderstood(f"an exception in a loop: {inner.raised}")
            scope = Scope(variables, of.term, terms.and_(*inner.conditions))
            found.append((scope, value))
            if {each.variable for each in inner.changes} & inner.looked_at:
                raise NotUnderstood("a variable that is read in the loop that changes it")
            self.path.changes += [each._replace(scope=scope) for each in inner.changes]
        return found

    def built(self, of: Many, body: Callable[[Executor, Any], Any]) -> Many:
        """Return the collection of what the body returns, for the elements that it wants."""
        found = [each for each in self.each(of, body) if each[1][0] != FALSE]
        if len(found) != 1:
            raise NotUnderstood("a comprehension with several cases")
        [(scope, (wanted, value))] = found
        kind = kind_of_value(value)
        sort = Sort(of.term.sort.kind, sorts_of(kind))
        out = flat(value, kind)
        return Many(
            Expression(
                "where", (scope.of, scope.variables, terms.and_(scope.condition, wanted), out), sort
            ),
            kind,
        )


class Frame:
    """A function that is being executed."""

    def __init__(self, executor: Executor, function: FunctionType, local: dict[str, Any]) -> None:
        self.executor = executor
        self.function = function
        self.local = local
        self.node: ast.AST = ast.Pass()
        self.outer_names: frozenset[str] = frozenset()

    def located(self, refused: NotUnderstood) -> NotUnderstood:
        """Return the reason with the line of the node that is being executed."""
        if getattr(refused, "is_located", False):
            return refused
        code = self.function.__code__
        line = code.co_firstlineno + getattr(self.node, "lineno", 1) - 1
        file = code.co_filename.rpartition("/")[2]
        found = NotUnderstood(f"{file}, line {line}: the executor does not know {refused}")
        found.is_located = True  # type: ignore[attr-defined]
        return found

    # Statements.

    def execute(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self.node = statement
            execute = getattr(self, f"_do_{type(statement).__name__}", None)
            if execute is None:
                raise NotUnderstood(f"the statement {type(statement).__name__}")
            execute(statement)

    def _do_Pass(self, _: ast.Pass) -> None:
        pass

    def _do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.value(node.value)

    def _do_Return(self, node: ast.Return) -> None:
        if self.executor.path.outer is not None and self.outer_names:
            raise NotUnderstood("a return from a loop")
        raise _Returned(None if node.value is None else self.value(node.value))

    def _do_If(self, node: ast.If) -> None:
        self.execute(node.body if self._holds(node.test) else node.orelse)

    def _do_Assert(self, node: ast.Assert) -> None:
        if not self._holds(node.test):
            raise Raised(f"line {self._line(node)}: the assertion fails")

    def _do_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            raise NotUnderstood("an assignment to several targets")
        value = self.value(node.value)
        if isinstance(value, Many | Table) and self._is_variable(node.value):
            raise NotUnderstood("two names for one collection")
        self.assign(node.targets[0], value)

    def _is_variable(self, node: ast.expr) -> bool:
        """Return whether an expression is a variable of a process."""
        match node:
            case ast.Attribute(ast.Name(name), _):
                return isinstance(self.local.get(name), SymbolicProcess)
        return False

    def _do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.value(node.value))

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        before = ast.copy_location(_as_load(node.target), node)
        self.assign(node.target, self._binary(node.op, self.value(before), self.value(node.value)))

    def _do_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Subscript):
                raise NotUnderstood("del of a name")
            self._mutate(target.value, "pop", [self.value(target.slice)])

    def _do_For(self, node: ast.For) -> None:
        of = self.value(node.iter)
        if node.orelse or not isinstance(of, Many):
            raise NotUnderstood(f"a loop over {of!r}")
        frame = self

        def body(executor: Executor, element: Any) -> list[Effect]:
            inner = Frame(executor, frame.function, dict(frame.local))
            inner.outer_names = frozenset(frame.local) | {"a loop"}
            inner._bind(node.target, element)
            me = next(
                (each for each in frame.local.values() if isinstance(each, SymbolicProcess)), None
            )
            before = len(me.effects) if me else 0
            inner.execute(node.body)
            if me is None:
                return []
            sent = me.effects[before:]
            del me.effects[before:]
            return sent

        for scope, sent in self.executor.each(of, body):
            for effect in sent:
                if effect.scope is not None:
                    raise NotUnderstood("a broadcast in a loop")
                self._me().effects.append(effect._replace(scope=scope))
        self._apply_changes()

    def _apply_changes(self) -> None:
        """Make the changes of a loop for all elements at once."""
        path = self.executor.path
        changes, path.changes = path.changes, []
        for how, name, element, scope in changes:
            me = self._me()
            before: Many = me.get(name)
            assert scope is not None
            if element != scope.variables:
                raise NotUnderstood("a change of another element than that of the loop")
            sort = before.term.sort
            args = (scope.of, scope.variables, scope.condition, scope.variables)
            chosen = Expression("where", args, sort)
            if how == "add":
                term = Expression("union", (before.term, chosen), sort)
            else:
                names = tuple(
                    terms.bound(f"kept{next(_FRESH)}", each.sort) for each in scope.variables
                )
                kept = terms.not_(terms.member(names, chosen))
                term = Expression("where", (before.term, names, kept, names), sort)
            me.written[name] = Many(term, before.element)

    def _me(self) -> SymbolicProcess:
        me = self.local.get("self")
        if not isinstance(me, SymbolicProcess):
            raise NotUnderstood("an effect of a function that is not a method")
        return me

    def _line(self, node: ast.stmt) -> int:
        return self.function.__code__.co_firstlineno + node.lineno - 1

    # Assignments.

    def assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Attribute(ast.Name(name), attribute):
                owner = self.local.get(name)
                if not isinstance(owner, SymbolicProcess) or attribute not in owner.kinds:
                    raise NotUnderstood(f"an assignment to {name}.{attribute}")
                if self.executor.path.outer is not None:
                    raise NotUnderstood(f"an assignment to {attribute} in a loop")
                kind = owner.kinds[attribute]
                owner.written[attribute] = shaped(kind, flat(value, kind))
            case ast.Subscript(of, key):
                self._mutate(of, "put", [self.value(key), value])
            case _:
                self._bind(target, value)

    def _bind(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(name):
                if name in self.outer_names:
                    raise NotUnderstood(f"an assignment to {name} in a loop")
                self.local[name] = value
            case ast.Tuple([first, ast.Starred(rest)]) if isinstance(value, Many):
                self._bind(first, self._element(value, "head"))
                tail = Expression("tail", (converted(value.term, "list"),), value.term.sort)
                self._bind(rest, Many(tail, value.element))
            case ast.Tuple(parts) if isinstance(value, tuple) and not is_named(value):
                if len(parts) != len(value):
                    raise NotUnderstood("an assignment to a tuple of another length")
                for part, each in zip(parts, value, strict=True):
                    self._bind(part, each)
            case ast.Tuple() if isinstance(value, Maybe):
                self._bind(target, value.value)
            case _:
                raise NotUnderstood(f"an assignment of {value!r}")

    # Changes of collections.

    def _mutate(self, target: ast.expr, how: str, arguments: list[Any]) -> Any:
        """Change a collection that is a variable of the process; return what the method does."""
        match target:
            case ast.Attribute(ast.Name(name), attribute):
                owner = self.local.get(name)
            case _:
                raise NotUnderstood("a change of a collection that is not a variable")
        if not isinstance(owner, SymbolicProcess) or attribute not in owner.kinds:
            raise NotUnderstood(f"a change of {name}.{attribute}")
        before = owner.get(attribute)
        path = self.executor.path
        if path.outer is not None:
            if not isinstance(before, Many) or how not in ("add", "discard"):
                raise NotUnderstood(f"{how} in a loop")
            path.changes.append(LoopChange(how, attribute, flat(arguments[0], before.element)))
            return None
        change = self._change_table if isinstance(before, Table) else self._change_many
        after, result = change(before, how, arguments)
        owner.written[attribute] = after
        return result

    def _change_many(self, before: Many, how: str, arguments: list[Any]) -> tuple[Many, Any]:
        term, of = before
        match how, arguments:
            case (("add" | "append"), [element]):
                term = Expression("insert", (term, flat(element, of)), term.sort)
            case (("discard" | "remove"), [element]) if term.sort.kind == "set":
                gone = flat(element, of)
                if how == "remove":
                    self._require(terms.member(gone, term), "remove of what is not in a set")
                term = Expression("erase", (term, gone), term.sort)
            case "clear", []:
                term = Expression("empty", (), term.sort)
            case "pop", [Expression() as first] if first == const(0) and term.sort.kind == "list":
                element = self._element(before, "head")
                return Many(Expression("tail", (term,), term.sort), of), element
            case _:
                raise NotUnderstood(f"the method {how}")
        return Many(term, of), None

    def _change_table(self, before: Table, how: str, arguments: list[Any]) -> tuple[Table, Any]:
        term, key, value = before
        match how, arguments:
            case "put", [where, what]:
                args = (term, flat(where, key), flat(what, value))
                return before._replace(term=Expression("put", args, term.sort)), None
            case "pop", [where, *rest]:
                which = flat(where, key)
                if not rest:
                    self._require(has_key(term, which), "a key that is missing")
                found = _looked_up(before, which)
                if rest:  # None is the only default that the executor knows
                    if rest != [None]:
                        raise NotUnderstood("pop with a default")
                    found = Maybe(terms.not_(has_key(term, which)), found)
                return before._replace(term=Expression("without", (term, which), term.sort)), found
            case "clear", []:
                return before._replace(term=Expression("no keys", (), term.sort)), None
        raise NotUnderstood(f"the method {how}")

    def _require(self, condition: Expression, otherwise: str) -> None:
        if not self.executor.path.decide(condition):
            raise Raised(f"line {self._line(self.node)}: {otherwise}")  # type: ignore[arg-type]

    def _element(self, of: Many, which: str) -> Any:
        """Return the first, last or smallest element."""
        self._require(terms.some(of.term), "an element of an empty collection")
        sorts = sorts_of(of.element)
        return shaped(
            of.element,
            [Expression(which, (of.term, index), sort) for index, sort in enumerate(sorts)],
        )

    # Expressions.

    def value(self, node: ast.expr) -> Any:
        evaluate = getattr(self, f"_of_{type(node).__name__}", None)
        if evaluate is None:
            raise NotUnderstood(f"the expression {type(node).__name__}")
        return evaluate(node)

    def _of_Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, bool | int):
            return const(node.value)
        return node.value

    def _of_Name(self, node: ast.Name) -> Any:
        if node.id in self.local:
            return self.local[node.id]
        cells = inspect.getclosurevars(self.function).nonlocals
        for names in (cells, self.function.__globals__, vars(builtins)):
            if node.id in names:
                return constant(names[node.id])
        raise NotUnderstood(f"the name {node.id}")

    def _of_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(map(self.value, node.elts))

    def _of_List(self, node: ast.List) -> Any:
        return list(map(self.value, node.elts))

    def _of_Dict(self, node: ast.Dict) -> Any:
        if node.keys:
            raise NotUnderstood("a dictionary with keys")
        return {}

    def _of_Set(self, node: ast.Set) -> Any:
        found = [
            self.value(each.value if isinstance(each, ast.Starred) else each) for each in node.elts
        ]
        if not found or not all(isinstance(each, Expression) for each in found):
            raise NotUnderstood("a set of this form")
        return set(found)

    def _of_Attribute(self, node: ast.Attribute) -> Any:
        owner = self.value(node.value)
        name = node.attr
        match owner:
            case SymbolicProcess():
                return self._variable(owner, name)
            case Transit():
                if name in ("sender", "receiver"):
                    return getattr(owner, name)
                return owner.fields[name] if name in owner.fields else self._no(name)
            case Maybe(_, SymbolicRecord() as inner):
                return inner.fields[name]
            case SymbolicRecord() if name in owner.fields:
                return owner.fields[name]
            case Many() | Table() | _Super():
                return Method(owner, name)
            case type() if isinstance(getattr(owner, name, None), IntEnum):
                return const(int(getattr(owner, name)))
        return self._no(name)

    def _no(self, name: str) -> Any:
        raise NotUnderstood(f"the attribute {name}")

    def _variable(self, owner: SymbolicProcess, name: str) -> Any:
        if name == "me":
            return owner.me
        if name == "peers":
            return Many(Expression("app", ("peers", owner.me), Sort("list", (P,))), Scalar(P))
        if name in owner.cls.__variables__:  # type: ignore[attr-defined]
            self.executor.path.looked_at.add(name)
            return owner.get(name)
        found = inspect.getattr_static(owner.cls, name, None)
        if isinstance(found, property):
            return self.executor.call(found.fget, owner)  # type: ignore[arg-type]
        return Method(owner, name)

    def _of_Subscript(self, node: ast.Subscript) -> Any:
        of, key = self.value(node.value), self.value(node.slice)
        if isinstance(of, Maybe):
            of = of.value
        match of, key:
            case Table(), _:
                which = flat(key, of.key)
                self._require(has_key(of.term, which), "a key that is missing")
                return _looked_up(of, which)
            case Many(), Expression() if key in (const(0), const(-1)):
                return self._element(of, "head" if key == const(0) else "last")
            case tuple(), Expression() if key.op == "const" and not is_named(of):
                return of[key.args[0]]
        raise NotUnderstood("this subscript")

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        match node.op:
            case ast.Not():
                return terms.not_(self.executor.condition(value))
            case ast.USub():
                return self._binary(ast.Sub(), const(0), value)
        raise NotUnderstood("this operator")

    def _of_BinOp(self, node: ast.BinOp) -> Any:
        return self._binary(node.op, self.value(node.left), self.value(node.right))

    def _binary(self, op: ast.operator, one: Any, other: Any) -> Any:
        name = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}.get(type(op))
        match one, other:
            case Expression(), Expression() if name and one.sort == other.sort == INT:
                return terms.arithmetic(name, one, other)
            case Many(), Many() if isinstance(op, ast.Add | ast.BitOr):
                term = Expression(
                    "union", (one.term, converted(other.term, one.term.sort.kind)), one.term.sort
                )
                return Many(term, one.element)
        raise NotUnderstood("this operator")

    def _of_BoolOp(self, node: ast.BoolOp) -> Any:
        is_and = isinstance(node.op, ast.And)
        parts: list[Expression] = []
        for index, each in enumerate(node.values):
            value = self.value(each)
            if not is_and and isinstance(value, Many) and index < len(node.values) - 1:
                if self.executor.truth(value):
                    return value  # queue or newcomers: a collection
                continue
            condition = self.executor.condition(value)
            if condition == const(not is_and):
                return terms.or_(*parts, condition) if not is_and else FALSE
            following = node.values[index + 1 :]
            if any(map(_may_split, following)):
                if self.executor.path.decide(condition) != is_and:
                    return const(not is_and)
                continue
            parts.append(condition)
        return terms.and_(*parts) if is_and else terms.or_(*parts)

    def _holds(self, test: ast.expr) -> bool:
        return self.executor.truth(self.value(test))

    def _of_IfExp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self._holds(node.test) else node.orelse)

    def _of_Compare(self, node: ast.Compare) -> Any:
        values = [self.value(each) for each in (node.left, *node.comparators)]
        return terms.and_(
            *(
                self._compared(op, values[index], values[index + 1])
                for index, op in enumerate(node.ops)
            )
        )

    def _compared(self, op: ast.cmpop, one: Any, other: Any) -> Expression:
        match op:
            case ast.Eq() | ast.Is():
                return _equal(one, other)
            case ast.NotEq() | ast.IsNot():
                return terms.not_(_equal(one, other))
            case ast.In():
                return _contained(one, other)
            case ast.NotIn():
                return terms.not_(_contained(one, other))
            case ast.Lt():
                return _less(one, other)
            case ast.Gt():
                return _less(other, one)
            case ast.LtE():
                return terms.not_(_less(other, one))
            case ast.GtE():
                return terms.not_(_less(one, other))
        raise NotUnderstood("this comparison")

    # Comprehensions.

    def _of_ListComp(self, node: ast.ListComp) -> Any:
        return self._comprehension(node)

    def _of_SetComp(self, node: ast.SetComp) -> Any:
        found = self._comprehension(node)
        return found._replace(term=converted(found.term, "set"))

    def _of_GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        return self._comprehension(node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Many:
        if len(node.generators) != 1:
            raise NotUnderstood("a comprehension with two loops")
        [loop] = node.generators
        of = self.value(loop.iter)
        if not isinstance(of, Many):
            raise NotUnderstood(f"a comprehension over {of!r}")

        def body(executor: Executor, element: Any) -> Any:
            inner = Frame(executor, self.function, dict(self.local))
            inner._bind(loop.target, element)
            tests = [executor.condition(inner.value(test)) for test in loop.ifs]
            return terms.and_(*tests), inner.value(node.elt)

        return self.executor.built(of, body)

    # Calls.

    def _of_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute) and _is_change(node.func.attr):
            looked_at = set(self.executor.path.looked_at)
            owner = self.value(node.func.value)
            if isinstance(owner, Many | Table):
                self.executor.path.looked_at = looked_at  # to change it is not to read it
                arguments = [self.value(each) for each in node.args]
                return self._mutate(node.func.value, node.func.attr, arguments)
        callee = self.value(node.func)
        if callee in (any, all) and isinstance(node.args[0], ast.GeneratorExp):
            return self._quantified(callee, node.args[0])
        arguments = [self.value(each) for each in node.args]
        named = {str(each.arg): self.value(each.value) for each in node.keywords}
        if callee is super:
            return _Super(self._me(), self.function)
        if isinstance(callee, Method):
            return self._method(callee, arguments, named)
        if isinstance(callee, type) and issubclass(callee, Value):
            return _record(callee, arguments, named)
        if named:
            raise NotUnderstood("an argument by name")
        if callee in BUILTINS:
            return BUILTINS[callee](self, *arguments)
        if isinstance(callee, FunctionType):
            return self.executor.call(callee, *arguments)
        raise NotUnderstood(f"a call of {getattr(callee, '__name__', callee)}")

    def _quantified(self, which: Any, node: ast.GeneratorExp) -> Expression:
        [loop] = node.generators
        of = self.value(loop.iter)
        is_any = which is any

        def body(executor: Executor, element: Any) -> Expression:
            inner = Frame(executor, self.function, dict(self.local))
            inner._bind(loop.target, element)
            tests = [executor.condition(inner.value(test)) for test in loop.ifs]
            result = executor.condition(inner.value(node.elt))
            return terms.and_(*tests, result if is_any else terms.not_(result))

        if not isinstance(of, Many):
            raise NotUnderstood(f"a loop over {of!r}")
        sort = of.term.sort
        found = [
            terms.some(
                Expression(
                    "where",
                    (each.of, each.variables, terms.and_(each.condition, result), each.variables),
                    sort,
                )
            )
            for each, result in self.executor.each(of, body)
            if result != FALSE
        ]
        return terms.or_(*found) if is_any else terms.not_(terms.or_(*found))

    def _method(self, method: Method, arguments: list[Any], named: dict[str, Any]) -> Any:
        of, name = method
        match of, name:
            case SymbolicProcess(), "send":
                [message] = arguments
                of.effects.append(Effect(message, flat(named["to"], Scalar(P))[0]))
                return None
            case SymbolicProcess(), "broadcast":
                if self.executor.path.outer is not None:
                    raise NotUnderstood("a broadcast in a loop")
                peer = terms.bound(f"peer{next(_FRESH)}", P)
                peers = apply("peers", (of.me,), Sort("list", (P,)))
                of.effects.append(Effect(arguments[0], peer, Scope((peer,), peers, TRUE)))
                return None
            case SymbolicProcess(), "indicate":
                of.effects.append(Effect(arguments[0], None))
                return None
            case SymbolicProcess(), _:
                found = inspect.getattr_static(of.cls, name, None)
            case _Super(), _:
                found, of = of.find(name), of.me
            case Table(), "get" if len(arguments) == 2:
                which = flat(arguments[0], of.key)
                return _or_default(of, which, arguments[1])
            case Many(), "count" if of.term.sort.kind == "list":
                return Expression("count", (of.term, flat(arguments[0], of.element)), INT)
            case Table(), "items":
                sort = Sort("list", (*of.term.sort.elements, *of.term.sort.values))
                pair = Fixed((of.key, of.value))
                return Many(Expression("items", (of.term,), sort), pair)
            case _:
                raise NotUnderstood(f"the method {name}")
        if named or not isinstance(found, FunctionType):
            raise NotUnderstood(f"the method {name}")
        return self.executor.call(found, of, *arguments)


class _Super(NamedTuple):
    me: SymbolicProcess
    function: FunctionType

    def find(self, name: str) -> Any:
        ancestry = self.me.cls.__mro__
        home = next(
            index
            for index, cls in enumerate(ancestry)
            if cls.__dict__.get(self.function.__name__) is self.function
        )
        return next((c.__dict__[name] for c in ancestry[home + 1 :] if name in c.__dict__), None)


def _in_loop(body: Callable[[Executor, Any], Any], element: Any, path: Path) -> Any:
    return body(Executor(path), element)


def constant(value: Any) -> Any:
    """Return a constant of a module as a term."""
    return (
        const(value if isinstance(value, bool) else int(value)) if isinstance(value, int) else value
    )


def _as_load(target: ast.expr) -> ast.expr:
    found = ast.parse(ast.unparse(target), mode="eval").body
    return ast.increment_lineno(found, target.lineno - 1)


def _is_change(name: str) -> bool:
    return name in ("add", "append", "discard", "remove", "clear", "pop")


PURE_CALLS = ("bool", "len", "get", "count", *invariants.QUESTIONS)


def _may_split(node: ast.expr) -> bool:
    """Return whether the evaluation of an expression may need a decision."""
    for each in ast.walk(node):
        if isinstance(each, ast.Subscript | ast.IfExp):
            return True
        if isinstance(each, ast.Call):
            name = getattr(each.func, "attr", getattr(each.func, "id", ""))
            if name not in PURE_CALLS:
                return True
    return False


def _equal(one: Any, other: Any) -> Expression:
    match one, other:
        case (None, None):
            return TRUE
        case (Maybe(), None):
            return one.is_none
        case (None, _) | (_, Maybe()) if not isinstance(one, Maybe):
            return _equal(other, one) if isinstance(other, Maybe) else FALSE
        case (Maybe(), Maybe()):
            both = terms.and_(terms.not_(one.is_none), terms.not_(other.is_none))
            return terms.or_(
                terms.and_(one.is_none, other.is_none),
                terms.and_(both, _equal(one.value, other.value)),
            )
        case (Maybe(), _):
            return terms.and_(terms.not_(one.is_none), _equal(one.value, other))
        case (_, None):
            return FALSE
        case (Expression(), Expression()) if one.sort == other.sort:
            return terms.eq(one, other)
        case (SymbolicRecord(), SymbolicRecord()) if one.cls is other.cls:
            return _equal(tuple(one.fields.values()), tuple(other.fields.values()))
        case (tuple(), tuple()) if not is_named(one) and len(one) == len(other):
            return terms.and_(*(_equal(*pair) for pair in zip(one, other, strict=True)))
    raise NotUnderstood(f"a comparison of {one!r} with {other!r}")


def _less(one: Any, other: Any) -> Expression:
    kind = kind_of_value(one.value if isinstance(one, Maybe) else one)
    return terms.lexicographic(flat(one, kind), flat(other, kind))


def has_key(of: Expression, key: tuple[Expression, ...]) -> Expression:
    if of.op == "put" and of.args[1] == key:
        return TRUE
    return FALSE if of.op == "no keys" else Expression("has", (of, key), BOOL)


def _contained(one: Any, other: Any) -> Expression:
    match other:
        case Many():
            found = terms.member(flat(one, other.element), other.term)
            if isinstance(one, Maybe):
                found = terms.and_(terms.not_(one.is_none), found)
            return found
        case Table():
            return has_key(other.term, flat(one, other.key))
        case tuple() | list() | set() if not is_named(other):
            return terms.or_(*(_equal(one, each) for each in other))
    raise NotUnderstood("this test of membership")


def _looked_up(of: Table, key: tuple[Expression, ...]) -> Any:
    sorts = sorts_of(of.value)
    return shaped(
        of.value,
        [Expression("value", (of.term, key, index), sort) for index, sort in enumerate(sorts)],
    )


def _or_default(of: Table, key: tuple[Expression, ...], default: Any) -> Any:
    has = has_key(of.term, key)
    there, absent = flat(_looked_up(of, key), of.value), flat(default, of.value)
    return shaped(
        of.value, [terms.ite(has, one, other) for one, other in zip(there, absent, strict=True)]
    )


def _record(cls: type[Value], arguments: list[Any], named: dict[str, Any]) -> SymbolicRecord:
    fields = dict(zip(cls.__declared__, arguments, strict=False)) | named
    for name in cls.__declared__:
        if name not in fields:
            fields[name] = constant(cls.__defaults__[name])
    return SymbolicRecord(cls, {name: fields[name] for name in cls.__declared__})


# Builtins.


def _max(_: Frame, one: Any, other: Any) -> Any:
    return terms.ite(_less(one, other), other, one)


def _min(frame: Frame, one: Any, *others: Any) -> Any:
    if isinstance(one, Many):
        return frame._element(one, "min")
    [other] = others
    return terms.ite(_less(other, one), other, one)


def _len(_: Frame, of: Any) -> Expression:
    return Expression("len", (of.term,), INT)


def _as(kind: str) -> Callable[..., Any]:
    def convert(_: Frame, of: Any = None) -> Any:
        if of is None:
            return [] if kind == "list" else set()
        if not isinstance(of, Many):
            return of
        return Many(converted(of.term, kind), of.element)

    return convert


def _sorted(_: Frame, of: Any) -> Any:
    if not isinstance(of, Many):
        raise NotUnderstood("sorted of this")
    return Many(Expression("sorted", (of.term,), of.term.sort._replace(kind="list")), of.element)


def _dict(_: Frame, of: Any = None) -> Any:
    if of is None:
        return {}
    if isinstance(of, Table):
        return of
    key, value = of.element.parts
    sort = Sort("dict", sorts_of(key), sorts_of(value))
    return Table(Expression("dict of", (of.term,), sort), key, value)


def _bool(frame: Frame, value: Any) -> Expression:
    return frame.executor.condition(value)


def _symbol(name: str, sort: str) -> Callable[..., Expression]:
    def symbol(_: Frame, *participants: SymbolicProcess) -> Expression:
        return apply(name, [each.me for each in participants], sort)

    return symbol


def _stage(wanted: invariants.ClientStage) -> Callable[..., Expression]:
    def at_stage(_: Frame, process: SymbolicProcess) -> Expression:
        return terms.eq(process.read("%stage"), const(int(wanted)))

    return at_stage


def _same_link(_: Frame, first: Transit, second: Transit) -> Expression:
    return _equal((first.sender.me, first.receiver.me), (second.sender.me, second.receiver.me))


def _opposite(_: Frame, first: Transit, second: Transit) -> Expression:
    return _equal((first.sender.me, first.receiver.me), (second.receiver.me, second.sender.me))


BUILTINS: dict[Any, Callable[..., Any]] = {
    max: _max,
    min: _min,
    len: _len,
    bool: _bool,
    set: _as("set"),
    frozenset: _as("set"),
    list: _as("list"),
    tuple: _as("list"),
    sorted: _sorted,
    dict: _dict,
    invariants.is_inside: _stage(invariants.ClientStage.INSIDE),
    invariants.is_waiting: _stage(invariants.ClientStage.WAITING),
    invariants.is_leader: lambda _, process: process.read("%leads"),
    invariants.between: _symbol("between", BOOL),
    invariants.is_next: lambda _, one, other: terms.eq(apply("right", (one.me,), P), other.me),
    invariants.towards: _symbol("towards", P),
    invariants.opposite: _opposite,
    invariants.same_link: _same_link,
}
