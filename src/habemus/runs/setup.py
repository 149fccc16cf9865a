"""Everything that identifies a run, written in the notation of the command line.

So a run can be printed as a command, saved in the header of its trace, and repeated from either.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

WORKLOADS = ("steady", "burst", "in-turn")
EVENT_LIMIT = 10_000_000

FAULTS = ("crash", "recover", "amnesia", "pause", "cut", "heal", "slow", "skew")


def _position(kind: str) -> int:
    return FAULTS.index(kind) if kind in FAULTS else len(FAULTS)


class BadSetup(ValueError):
    """The description of a run or a check is invalid."""


MOST_REQUESTS = 10_000_000
"""Limit for all participants together; some workloads make a list of their requests."""


@dataclass(frozen=True)
class Setup:
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
    asks: tuple[str, ...] = ()
    delay: str = "1ms"
    fifo: bool | None = None  # None: if the algorithm needs it
    loss: str = "0"
    duplicate: str = "0"
    over: str = ""  # links under every process: perfect, or perfect-fifo
    faults: tuple[tuple[str, str], ...] = ()
    until: str | None = None
    events: int = EVENT_LIMIT

    def __post_init__(self) -> None:
        # Sorted, so that a setup and its command are the same run.
        object.__setattr__(
            self, "faults", tuple(sorted(self.faults, key=lambda fault: _position(fault[0])))
        )

    def plain(self) -> dict[str, Any]:
        """Return the setup as JSON values, without those that are defaults."""
        given = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if getattr(self, each.name) != each.default
        }
        return {
            name: (
                [list(one) if isinstance(one, tuple) else one for one in value]
                if isinstance(value, tuple)
                else value
            )
            for name, value in given.items()
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Setup:
        """Return the setup that `plain` wrote.  Untrusted values: raise `BadSetup` on errors."""
        known = {each.name: each for each in fields(cls)}
        for name, value in plain.items():
            if name not in known:
                raise BadSetup(
                    f"the description of the run has an unknown entry {str(name)[:40]!r}"
                )
            expected = {"n": int, "seed": int, "requests": int, "events": int, "fifo": bool}.get(
                name, list if name in _LISTS else str
            )
            if type(value) is not expected:
                raise BadSetup(
                    f"{name} in the description of the run must be {_KIND[expected]}, not"
                    f" {str(value)[:40]!r}"
                )
        if "algorithm" not in plain or "n" not in plain:
            raise BadSetup("the description of the run names no algorithm or no size")
        for kind_and_text in plain.get("faults", ()):
            if not (
                isinstance(kind_and_text, list)
                and len(kind_and_text) == 2
                and all(isinstance(each, str) for each in kind_and_text)
            ):
                raise BadSetup(f"a fault is a pair of texts, not {str(kind_and_text)[:40]!r}")
        for name in ("options", "initial", "labels", "asks"):
            if not all(isinstance(each, str) for each in plain.get(name, ())):
                raise BadSetup(f"{name} in the description of the run must be a list of texts")
        changed = {name: tuple(plain[name]) for name in _LISTS if name in plain}
        if "faults" in changed:
            changed["faults"] = tuple((kind, text) for kind, text in changed["faults"])
        return cls(**{**plain, **changed})

    def command(self) -> str:
        """Return the run as a command that can be pasted into a shell."""
        words = ["habemus", "run", self.algorithm, "-n", str(self.n)]
        flags = {"options": "--option", "initial": "--set", "labels": "--label", "asks": "--ask"}
        for each in fields(self)[2:]:
            value = getattr(self, each.name)
            if value == each.default:
                continue
            flag = flags.get(each.name, f"--{each.name}")
            if each.name == "faults":
                words += [word for kind, text in value for word in (f"--{kind}", text)]
            elif isinstance(value, tuple):
                words += [word for text in value for word in (flag, text)]
            elif isinstance(value, bool):
                words.append(flag if value else f"--no-{each.name}")
            else:
                words += [flag, str(value)]
        return shlex.join(words)


_LISTS = ("options", "initial", "labels", "asks", "faults")
_KIND: dict[type, str] = {
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    str: "a text",
}
