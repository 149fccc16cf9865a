"""The catalog of all algorithms in the files under `habemus.algorithms`.

An algorithm is listed if its class has a `name`.  Its card is the docstring of its module, so that
it is written once, next to the code.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import linecache
import pkgutil
import re
import sys
import traceback
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

import habemus.algorithms
from habemus.catalog.names import NOT_IN_A_FILE
from habemus.catalog.problems import Problem
from habemus.core.assumptions import Assumptions
from habemus.core.mistakes import check_outside, wrong_result
from habemus.core.named_code import file_of
from habemus.core.process import MistakeInAlgorithm, MistakeInPlan, Process, ProcessType
from habemus.core.system import System
from habemus.core.words import did_you_mean

SECTIONS = ("Source", "Assumes", "Cost", "Ensures", "Differs", "Unsafe")
FIELD = re.compile(rf"({'|'.join(SECTIONS)})(?::|(?=\s))\s*(.*)")
"""First line of a section of a card: the name, with or without a colon, and a text."""
BASES = {"Mutex": "mutex", "Election": "election", "Detector": "detector"}
"""Base classes of algorithms, with the modules of the catalog that describe their problems."""


class UnknownAlgorithm(LookupError):
    """There is no algorithm of that name; the message suggests the nearest."""


@dataclass(frozen=True)
class Box:
    """The docstring of an algorithm's module: a title, an idea, and the sections."""

    title: str
    idea: str
    sections: Mapping[str, str]

    @cached_property
    def ensures(self) -> tuple[str, ...]:
        """The list before the first semicolon or full stop of `Ensures`; the rest is
        explanation.  `entry_of` refuses an item that is not the name of a property.
        """
        clause = re.split(r"[;.]", self.sections.get("Ensures", ""), maxsplit=1)[0].strip()
        if re.match(r"nothing\b", clause):
            return ()
        return tuple(filter(None, re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", clause)))

    @classmethod
    def of(cls, docstring: str) -> Box:
        paragraphs = re.split(r"\n(?:[ \t]*\n)+", inspect.cleandoc(docstring))
        sections: dict[str, str] = {}
        idea: list[str] = []
        for paragraph in paragraphs[1:]:
            if not FIELD.match(paragraph):
                idea.append(" ".join(paragraph.split()))
                continue
            current = ""
            for text in paragraph.splitlines():
                matched = FIELD.match(text)
                if matched:
                    current = matched[1]
                    sections[current] = matched[2].strip()
                else:
                    sections[current] = f"{sections[current]} {text.strip()}".strip()
        return cls(" ".join(paragraphs[0].split()), "\n\n".join(idea), sections)


@dataclass(frozen=True)
class Entry:
    name: str
    problem: Problem
    algorithm: type[Process]
    box: Box

    @property
    def unsafe(self) -> str | None:
        """Scenario that breaks an algorithm which is included as a bad example."""
        return self.box.sections.get("Unsafe")

    def claims(self, name: str) -> bool:
        """Return whether the card claims a property; a claim of ME2 covers both of its parts."""
        return name in self.box.ensures or name.partition("-")[0] in self.box.ensures

    @property
    def assumes(self) -> Assumptions:
        """The assumptions of the algorithm about links, crashes and time."""
        return self.algorithm.assumes

    @property
    def options(self) -> dict[str, str]:
        """The constants that a user may set, with their defaults."""
        variables = self.algorithm.__variables__.values()
        return {
            each.name: repr(each.default)
            for each in variables
            if each.kind == "const" and not _is_required(each)
        }

    def system(self, size: int, options: Mapping[str, Any]) -> System:
        known = self.options
        for name in options:
            if name not in known:
                hint = did_you_mean(name, known)
                raise MistakeInPlan(f"{self.name} has no option {name}; {hint}")
        build = self.algorithm.system  # type: ignore[attr-defined]  # every problem has it
        system = build(size, **options)
        if not isinstance(system, System):
            raise wrong_result(build, system, "System(plans, topology, clients)")
        return system

    def plain(self) -> dict[str, Any]:
        sections = {
            section.lower(): text
            for section, text in self.box.sections.items()
            if section != "Ensures"
        }
        return {
            "id": self.name,
            "problem": self.problem.name,
            "title": self.box.title,
            "idea": self.box.idea,
            **sections,
            "ensures": list(self.box.ensures),
            "ensures_in_words": self.box.sections.get("Ensures", ""),
            "unsafe": self.unsafe,
            "options": self.options,
        }


def _is_required(variable: Any) -> bool:
    return type(variable.default) is object


def problems() -> tuple[Problem, ...]:
    """Return all problems of the catalog."""
    return tuple(map(_problem, BASES.values()))


def _problem(name: str) -> Problem:
    found: Problem = getattr(importlib.import_module(f"habemus.catalog.{name}"), name.upper())
    return found


@cache
def entries() -> dict[str, Entry]:
    """Return all algorithms by name."""
    found: dict[str, Entry] = {}
    for module_info in pkgutil.walk_packages(habemus.algorithms.__path__, "habemus.algorithms."):
        module = importlib.import_module(module_info.name)
        for _, cls in inspect.getmembers(module, lambda member: isinstance(member, ProcessType)):
            if cls.__module__ == module.__name__ and "name" in cls.__dict__:
                entry = entry_of(cls)
                if entry.name in found:
                    raise MistakeInPlan(f"two algorithms are called {entry.name}")
                found[entry.name] = entry
    return dict(sorted(found.items()))


def entry_of(cls: type[Process]) -> Entry:
    """Return the entry of a class of the catalog or of a user."""
    if not hasattr(cls, "__mro__"):
        kind = type(cls).__name__
        raise MistakeInPlan(f"{kind}(...) is an instance: give the class, {kind}")
    base = next(
        (
            each
            for each in cls.__mro__
            if each.__module__ == f"habemus.problems.{BASES.get(each.__name__)}"
        ),
        None,
    )
    if base is None:
        raise MistakeInPlan(
            f"{cls.__name__} solves no problem that is known: derive it from {' or '.join(BASES)}"
        )
    check_outside(cls)
    module = inspect.getmodule(cls)
    # A class whose own docstring is a box has its own card: several algorithms may share a file.
    own = Box.of(cls.__dict__.get("__doc__") or cls.__name__)
    box = Box.of(module.__doc__) if module and module.__doc__ and not own.sections else own
    name = getattr(cls, "name", "") or cls.__name__
    problem = _problem(BASES[base.__name__])
    _check_claims(name, box, problem)
    return Entry(name, problem, cls, box)


def _check_claims(name: str, box: Box, problem: Problem) -> None:
    """Refuse a claim that is not the name of a property: it would not be checked."""
    known = {each.name for each in problem.properties}
    known |= {each.partition("-")[0] for each in known}
    for claim in box.ensures:
        if claim in known:
            continue
        listed = ", ".join(sorted(known))
        if re.fullmatch(r"\S+", claim):
            raise MistakeInPlan(
                f"{name}: Ensures names {claim}, and {problem.title} has no such property; it has"
                f" {listed}"
            )
        raise MistakeInPlan(
            f'{name}: Ensures says "{claim}" among its claims; name only properties before the'
            f" first semicolon or full stop, separated by commas ({listed}), or write nothing"
        )


def entry_by_place(cls: type[Process]) -> Entry:
    """Return the entry of a class; one of a user is named by its file, for commands to name it."""
    entry = entry_of(cls)
    if cls.__module__.startswith("habemus.algorithms."):
        return entry
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None) or ""
    is_named = file.endswith(".py") and getattr(module, cls.__name__, None) is cls
    if is_named and Path(file).is_file():
        return replace(entry, name=f"{file}:{cls.__name__}")
    return replace(entry, name=f"{cls.__name__}{NOT_IN_A_FILE}")


def find(name: str) -> Entry:
    """Return the algorithm of that name, or that of a user's file: `path/to/mine.py:MyMutex`."""
    named = file_of(name)
    if named is not None:
        return load(Path(named[0]), named[1])
    entry = _found_alone(name)
    if entry is not None:
        return entry
    if name.endswith(NOT_IN_A_FILE):
        cls_name = name.removesuffix(NOT_IN_A_FILE)
        raise UnknownAlgorithm(
            f"{cls_name} was not at the top level of a file, so no other program can find it; save"
            f" it in a file and name it as path/to/mine.py:{cls_name}"
        )
    known = entries()
    if name not in known:
        hint = did_you_mean(name, known, "habemus algorithms lists all")
        if ":" in name:
            hint = "a class of your own is written as path/to/mine.py:MyMutex"
        raise UnknownAlgorithm(f"there is no algorithm {name}; {hint}")
    return known[name]


@cache
def _found_alone(name: str) -> Entry | None:
    """Return the entry by importing only the file that names it."""
    wanted, likely = f'name = "{name}"', name.replace("-", "_")
    files = Path(habemus.algorithms.__path__[0]).glob("*/*.py")
    for file in sorted(files, key=lambda each: each.stem != likely):
        if wanted in file.read_text(encoding="utf-8"):
            module = importlib.import_module(f"habemus.algorithms.{file.parent.name}.{file.stem}")
            for cls in _own_classes(module).values():
                if cls.__dict__.get("name") == name:
                    return entry_of(cls)
    return None


def _is_process(member: object) -> TypeGuard[type[Process]]:
    return isinstance(member, ProcessType)


def _own_classes(module: ModuleType) -> dict[str, type[Process]]:
    """Return the processes that a module defines, without those that it imports."""
    return {
        name: each
        for name, each in vars(module).items()
        if _is_process(each) and each.__module__ == module.__name__
    }


class CannotLoad(LookupError):
    """The file has no such algorithm."""


def load(path: Path, cls_name: str) -> Entry:
    """Return the algorithm of a user's file.  Its name is its path, so that other processes find it
    too.
    """
    if not path.is_file():
        raise CannotLoad(f"there is no file {path}")
    module = _module_of(path.resolve())
    own = list(_own_classes(module))
    cls = getattr(module, cls_name, None)
    if not _is_process(cls):
        hint = (
            did_you_mean(f"{path}:{cls_name}", [f"{path}:{each}" for each in own])
            if own
            else "no class in it derives from Mutex, Election or Detector"
        )
        raise CannotLoad(
            f"{path} has no algorithm {cls_name}; {hint}"
            if cls_name
            else f"which class of {path}? {hint}"
        )
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise CannotLoad(
            f"{path}: {cls_name} does not implement {' and '.join(missing)}; define"
            f" {', '.join(missing)}"
        )
    try:
        return replace(entry_of(cls), name=f"{path}:{cls_name}")
    except MistakeInAlgorithm as mistake:
        raise CannotLoad(f"{path.name}, {mistake}") from None


_loaded: dict[Path, tuple[bytes, ModuleType]] = {}
"""Files of users that are imported, with their text at that time."""
_importing: set[str] = set()
"""Names of the modules that are being imported from files of users."""


USER_MODULES = "habemus_user_"
"""Begin of the names of modules that are imported from files of users."""


def _module_of(path: Path) -> ModuleType:
    """Import a file under a unique name, once for as long as its text is the same.  It can import
    files beside it.
    """
    text = path.read_bytes()
    before = _loaded.pop(path, None)
    if before is None or before[0] != text:
        linecache.checkcache(str(path))
        before = (text, _imported(path, text))
    _loaded[path] = before
    return before[1]


def _imported(path: Path, text: bytes) -> ModuleType:
    name = f"{USER_MODULES}{path.stem}_{zlib.crc32(bytes(path)):08x}"
    if name in _importing:
        raise CannotLoad(
            f"{path.name} asks for its own class while it is imported; give the class itself, or"
            ' do so below `if __name__ == "__main__":`'
        )
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a class looks its module up by this name
    sys.path.insert(0, str(path.parent))
    _importing.add(name)
    try:
        # Not by the loader, which takes a compiled file of the same second and size for this one.
        exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as reason:
        del sys.modules[spec.name]
        raise CannotLoad(f"{path.name} cannot be imported: {_explained(reason, path)}") from None
    finally:
        _importing.discard(name)
        sys.path.remove(str(path.parent))
    return module


def _explained(reason: BaseException, path: Path) -> str:
    """Return an exception of a user's file in words, with its line."""
    if isinstance(reason, SyntaxError):
        return f"{type(reason).__name__}: {reason}"  # which contains the line
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(reason.__traceback__)
        if frame.filename == str(path)
    ]
    at = f"line {lines[-1]}: " if lines else ""
    hint = (
        "; import files beside it by their plain names" if "relative import" in str(reason) else ""
    )
    return f"{at}{type(reason).__name__}: {reason}{hint}"
