"""Everything that identifies a run, written in the notation of the command line.

So a run can be printed as a command, saved in the header of its trace, and repeated from either.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, ClassVar, Self

from habemus.argument_names import argument, flag_of
from habemus.catalog.names import command_line
from habemus.core.shapes import Malformed, Shape, shape_of

WORKLOADS = ("steady", "burst", "in-turn")
EVENT_LIMIT = 10_000_000

FAULT_FLAGS = ("crash", "recover", "amnesia", "replace", "pause", "cut", "heal", "slow", "skew")


def _position(kind: str) -> int:
    return FAULT_FLAGS.index(kind) if kind in FAULT_FLAGS else len(FAULT_FLAGS)


class BadSetup(ValueError):
    """The description of a run or a check is invalid."""


def anchor_of(then: str) -> int:
    """Return the number of deliveries after which an intervention takes place."""
    count, colon, what = then.partition(":")
    if not (colon and what.strip() and re.fullmatch(r"\s*[0-9]{1,12}\s*", count)):
        raise BadSetup(
            f"{then[:80]!r} is not an intervention; write for example '60: 2 crashes', 60"
            " deliveries into the run"
        )
    return int(count)


MESSAGES, OUTSIDE = "messages", "outside"
ORDERS = (MESSAGES, OUTSIDE)
"""Readings of ME3: a process learns of a request by the messages of the algorithm only, or
applications also tell each other.
"""
MOST_REQUESTS = 10_000_000
"""Limit for all participants together; some workloads make a list of their requests."""


@dataclass(frozen=True)
class Description:
    """Base class of the descriptions of runs and checks, which headers of files contain."""

    described_as: ClassVar[str]

    def plain(self) -> dict[str, Any]:
        """Return the description as JSON values, without those that are defaults."""
        return {
            each.name: self._shapes()[each.name].to_plain(getattr(self, each.name))
            for each in fields(self)
            if getattr(self, each.name) != each.default
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return what `plain` wrote.  Untrusted values: raise `BadSetup` on errors."""
        where = f"the description of the {cls.described_as}"
        missing = {each.name for each in fields(cls) if each.default is MISSING} - plain.keys()
        if missing:
            raise BadSetup(f"{where} has no entry {min(missing)!r}")
        given = {}
        for name, found in plain.items():
            if name not in cls._shapes():
                raise BadSetup(f"{where} has an unknown entry {str(name)[:40]!r}")
            try:
                given[name] = cls._shapes()[name].parse(found, {})
            except Malformed as reason:
                raise BadSetup(f"{name} in {where}: {reason}") from None
        return cls(**given)

    @classmethod
    @cache
    def _shapes(cls) -> dict[str, Shape]:
        hints = typing.get_type_hints(cls)
        return {each.name: shape_of(hints[each.name]) for each in fields(cls)}


@dataclass(frozen=True)
class Setup(Description):
    described_as = "run"

    algorithm: str
    n: int
    seed: int = 0
    options: tuple[str, ...] = ()
    initial: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    workload: str = "steady"
    requests: int = 1
    think: str = "0..10ms"
    hold: str = "1ms"
    give_up: str = ""  # how long an application waits before it stops waiting; empty: for ever
    resign: tuple[str, ...] = ()  # processes that resign at a time: `1@50ms`
    asks: tuple[str, ...] = ()
    delay: str = "1ms"
    fifo: bool | None = None  # None: if the algorithm needs it
    loss: str = "0"
    duplicate: str = "0"
    over: str = ""  # links under every process: perfect, or perfect-fifo
    faults: tuple[tuple[str, str], ...] = ()
    until: str | None = None
    events: int = EVENT_LIMIT
    overtaking: int | None = None  # the bound of ME4; None: ME4 is not judged
    order: str = MESSAGES  # how a process learns of requests, which ME3 is about
    processing: str = "0"  # the time that a process needs for each message
    then: tuple[str, ...] = ()  # interventions: `60: 2 crashes`, after 60 deliveries

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise BadSetup(f"there is no order {self.order}; there are {' and '.join(ORDERS)}")
        if self.events < 1:
            raise BadSetup(f"{argument('events')} is at least 1, not {self.events}")
        if self.overtaking is not None and self.overtaking < 0:
            raise BadSetup(f"{argument('overtaking')} is 0 or more, not {self.overtaking}")
        # Sorted, so that a setup and its command are the same run.
        object.__setattr__(
            self, "faults", tuple(sorted(self.faults, key=lambda fault: _position(fault[0])))
        )
        object.__setattr__(self, "then", tuple(sorted(self.then, key=anchor_of)))

    def command(self) -> str:
        """Return the run as a command that can be pasted into a shell."""
        words = ["habemus", "run", self.algorithm, "-n", str(self.n)]
        for each in fields(self)[2:]:
            value = getattr(self, each.name)
            if value == each.default:
                continue
            flag = flag_of(each.name)
            if each.name == "faults":
                words += [word for kind, text in value for word in (f"--{kind}", text)]
            elif isinstance(value, tuple):
                words += [word for text in value for word in (flag, text)]
            elif isinstance(value, bool):
                words.append(flag if value else f"--no-{each.name}")
            else:
                words += [flag, str(value)]
        return command_line(self.algorithm, words)
