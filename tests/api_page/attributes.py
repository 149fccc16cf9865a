"""Attributes of classes and modules, with the docstrings below them: only the source has these."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple


class Attribute(NamedTuple):
    """A name to which a class body, a method or a module assigns."""

    name: str
    type: str
    """As the source has it; empty if it has none."""
    value: str
    """The value as the source has it, or nothing."""
    doc: str

    @property
    def shown(self) -> str:
        """The name with its type, and the default where a subclass gives another one."""
        typed = f"{self.name}: {self.type}" if self.type else self.name
        return f"{typed} = {self.value}" if self.type.startswith("ClassVar[") else typed


def attributes_of(cls: type) -> dict[str, Attribute]:
    """Return the public attributes that a class itself declares, or that its methods set."""
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    made: dict[str, Attribute] = {}
    for found in (*_assigned(tree.body, ""), *_set_by_methods(tree)):
        is_news = found.name not in made or (found.doc and not made[found.name].doc)
        if is_news and not found.name.startswith("_"):
            made[found.name] = found
    return made


def _set_by_methods(tree: ast.ClassDef) -> Iterator[Attribute]:
    for method in tree.body:
        if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        given = {each.arg: each.annotation for each in method.args.args + method.args.kwonlyargs}
        for found in _assigned(method.body, "self"):
            declared = given.get(found.value)
            known = found.type or (ast.unparse(declared) if declared is not None else "")
            yield found._replace(type=known)


def _assigned(body: Sequence[ast.stmt], owner: str) -> Iterator[Attribute]:
    """Yield what the statements assign to: names, or attributes of the owner if there is one."""
    for statement, below in zip_longest(body, body[1:]):
        if isinstance(statement, ast.Assign):
            targets, declared = statement.targets, ""
        elif isinstance(statement, ast.AnnAssign):
            targets, declared = [statement.target], ast.unparse(statement.annotation)
        else:
            continue
        value = "" if statement.value is None else ast.unparse(statement.value)
        for target in targets:
            name = _name_of(target, owner)
            if name:
                yield Attribute(name, declared, value, _text_of(below))


def _name_of(target: ast.expr, owner: str) -> str:
    if isinstance(target, ast.Name) and not owner:
        return target.id
    if isinstance(target, ast.Attribute) and ast.unparse(target.value) == owner:
        return target.attr
    return ""


def _text_of(statement: ast.stmt | None) -> str:
    """Return the text that is a statement of its own: the docstring of the one above."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return inspect.cleandoc(str(statement.value.value))
    return ""


def global_of(module: str, name: str) -> Attribute:
    """Return a name that a module assigns, or imports from the module that assigns it."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    for node in ast.walk(tree):  # a module that loads names when they are used imports under an if
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return global_of(node.module or "", alias.name)
    for found in _assigned(tree.body, ""):
        if found.name == name:
            return found
    raise LookupError(f"{module} does not assign {name}")
