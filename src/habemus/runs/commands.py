"""Read a run or a check from its command: the inverse of `Setup.command` and `Check.command`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from habemus.core.words import did_you_mean
from habemus.runs.check import Check
from habemus.runs.parsing import process, timeouts
from habemus.runs.setup import FAULT_FLAGS, MESSAGES, OUTSIDE, BadSetup, Setup

LONGEST_COMMAND = 20_000
"""Characters of a command that is read."""

_MANY = {"--option": "options", "-o": "options", "--set": "initial", "--label": "labels"}
_MANY |= {"--ask": "asks", "--then": "then", "--resign": "resign"}
_RUN_NUMBERS = {"-n": "n"} | {f"--{name}": name for name in ("seed", "requests", "events")}
_RUN_NUMBERS |= {"--overtaking": "overtaking"}
_RUN_TEXTS = {
    f"--{name}": name
    for name in (
        "workload",
        "think",
        "hold",
        "delay",
        "loss",
        "duplicate",
        "over",
        "until",
        "processing",
    )
} | {"--order": "order", "--give-up": "give_up"}


def run_of(command: str) -> Setup:
    """Return the run of a command, such as `habemus run central -n 3 --seed 7`."""
    algorithm, words = _words(command, "run")
    given: dict[str, Any] = {"n": 3}
    faults: list[tuple[str, str]] = []
    for flag, value in words:
        if flag in ("--fifo", "--no-fifo"):
            given["fifo"] = flag == "--fifo"
        elif flag in _RUN_NUMBERS:
            given[_RUN_NUMBERS[flag]] = _number(flag, value())
        elif flag in _RUN_TEXTS:
            given[_RUN_TEXTS[flag]] = value()
        elif flag in _MANY:
            name = _MANY[flag]
            given[name] = (*given.get(name, ()), value())
        elif flag.removeprefix("--") in FAULT_FLAGS:
            faults.append((flag.removeprefix("--"), value()))
        else:
            raise _unknown(flag, "run", [*_RUN_NUMBERS, *_RUN_TEXTS, *_MANY, "--fifo"])
    return Setup(algorithm, faults=tuple(faults), **given)


_CHECK_TEXTS = {f"--{name}": name for name in ("over", "abstract", "refines", "network", "timing")}
_CHECK_TEXTS |= {"--search": "search"}
_CHECK_FLAGS = {f"--{name}": name for name in ("merging", "returning", "every")}


def check_of(command: str) -> Check:
    """Return the check of a command, such as `habemus check maekawa -n 3`."""
    algorithm, words = _words(command, "check")
    given: dict[str, Any] = {"n": 3}
    special: Mapping[str, tuple[str, Callable[[str], Any]]] = {
        "--entries": ("entries", entries_of),
        "--faults": ("faults", faults_of_check),
        "--asking": ("asking", processes_of),
    }
    for flag, value in words:
        if flag in ("-n", "--limit", "--withdrawals", "--resignations"):
            given[flag.lstrip("-")] = _number(flag, value())
        elif flag in special:
            name, parse = special[flag]
            given[name] = parse(value())
        elif flag == "--timeouts":
            given["timeouts"], given["timers"] = timeouts(value())
        elif flag == "--order":
            given["order"] = True
            given["outside"] = value.optional((MESSAGES, OUTSIDE)) == OUTSIDE
        elif flag in _CHECK_TEXTS:
            given[_CHECK_TEXTS[flag]] = value()
        elif flag in _CHECK_FLAGS:
            given[_CHECK_FLAGS[flag]] = True
        elif flag in _MANY and _MANY[flag] in {each.name for each in fields(Check)}:
            name = _MANY[flag]
            given[name] = (*given.get(name, ()), value())
        else:
            raise _unknown(flag, "check", [*_CHECK_TEXTS, *_CHECK_FLAGS, *special, "--limit"])
    return Check(algorithm, **given)


def entries_of(text: str) -> int | None:
    if text == "unbounded":
        return None
    if not (text.isascii() and text.isdecimal()):
        raise BadSetup(f"--entries {text}: use a whole number or `unbounded`")
    return int(text)


def faults_of_check(text: str) -> tuple[tuple[str, int], ...]:
    found: dict[str, int] = {}
    for part in filter(None, text.replace(" ", "").split(",")):
        kind, equals, count = part.partition("=")
        if (equals and not (count.isascii() and count.isdecimal())) or kind in found:
            raise BadSetup(
                f"--faults {part}: expected KIND=COUNT, each kind once; example: crash=1,recover=1"
            )
        found[kind] = int(count) if equals else 1
    return tuple(sorted(found.items()))


def processes_of(text: str) -> tuple[int, ...]:
    found = tuple(process(part) for part in text.split(",")) if text else ()
    return tuple(sorted(set(found)))


class _Value:
    """The value of an option: the rest of its word after `=`, or the next word."""

    def __init__(self, flag: str, inline: str | None, rest: list[str]) -> None:
        self._flag = flag
        self._inline = inline
        self._rest = rest

    def __call__(self) -> str:
        if self._inline is not None:
            return self._inline
        if not self._rest:
            raise BadSetup(f"{self._flag} needs a value")
        return self._rest.pop(0)

    def optional(self, known: tuple[str, ...]) -> str:
        return self() if self._inline or (self._rest and self._rest[0] in known) else ""


def _words(command: str, kind: str) -> tuple[str, Iterator[tuple[str, _Value]]]:
    """Return the algorithm that a command names, and its options."""
    if len(command) > LONGEST_COMMAND:
        raise BadSetup(f"the command has more than {LONGEST_COMMAND} characters")
    try:
        words = shlex.split(command)
    except ValueError as reason:
        raise BadSetup(f"{command[:80]!r} is not a command: {str(reason).lower()}") from None
    words = words[1:] if words[:1] == ["habemus"] else words
    words = words[1:] if words[:1] == [kind] else words
    if not words or words[0].startswith("-"):
        raise BadSetup(f"the {kind} names no algorithm; write for example central -n 3")
    return words[0], _options(words[1:])


def _options(rest: list[str]) -> Iterator[tuple[str, _Value]]:
    while rest:
        flag, equals, inline = rest.pop(0).partition("=")
        if not flag.startswith("-"):
            raise BadSetup(f"{flag!r} is not an option; options begin with --")
        yield flag, _Value(flag, inline if equals else None, rest)


def _number(flag: str, text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise BadSetup(f"{flag} {text[:40]}: expected a whole number")
    return int(text)


def _unknown(flag: str, kind: str, known: list[str]) -> BadSetup:
    hint = did_you_mean(flag, known, f"habemus {kind} --help lists all")
    return BadSetup(f"a {kind} has no option {flag[:40]}; {hint}")


__all__ = ["check_of", "entries_of", "faults_of_check", "processes_of", "run_of"]
