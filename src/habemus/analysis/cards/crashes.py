"""Effects of a crash by the role of the process that crashes: one run for each algorithm and role.

Four participants take part. 1 enters and stays a while; 3 asks meanwhile and waits; 4 asks later,
and 1 once more; 2 never asks. Then one process crashes: the one inside, the one that all depend on,
one that waits, or one that is not involved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from habemus.catalog.entries import Entry, entries
from habemus.catalog.mutex import MUTEX
from habemus.core.events import Event
from habemus.core.mutex_events import mutex_change
from habemus.core.properties import Verdict
from habemus.runs.setup import BadSetup, Setup
from habemus.runs.simulate import Report, execute, system_of
from habemus.traces import Trace

PARTICIPANTS = 4
HOLDER, BYSTANDER, WAITING = 1, 2, 3
ASKS = ("1@1ms+6ms", "3@4ms", "4@30ms", "1@60ms")
QUIET_ASKS = ("1@1ms+3ms", "3@20ms", "4@30ms")
"""No request comes while 1 is inside, so that the token then rests with a process that does not
need it.
"""
BACK = "25ms"
"""The moment when the crashed process recovers, if it does: before the later requests."""
EVENTS = 2_000
"""Limit on events for processes that never come to rest: as much as a picture can show, and long
enough for any of their timeouts.
"""

ROLES = ("holder", "center", "waiting", "bystander")
TITLES = {
    "holder": "the one inside",
    "center": "the coordinator, or the owner of the token",
    "waiting": "one that waits",
    "bystander": "one that does not ask",
}

GO_ON, SOME_WAIT, BLOCKED, TWO_INSIDE = "go on", "some wait", "blocked", "two inside"
WORDS = {
    GO_ON: "every process that is up and asks gets in",
    SOME_WAIT: "some get in, and some wait for ever",
    BLOCKED: "no process gets in any more",
    TWO_INSIDE: "two are inside at once",
}


class Struck(NamedTuple):
    """The process that crashes, the moment in the notation of runs, and the run."""

    process: int
    crash: str
    title: str
    asks: tuple[str, ...] = ASKS


@dataclass(frozen=True)
class CrashCell:
    """Outcome of the crash of one role in one algorithm."""

    algorithm: str
    role: str
    title: str  # the process that crashed
    process: str  # as it is called
    others: str  # what the processes that are up do: one of the words
    properties: dict[str, str]
    why: str
    command: str
    trace: Trace

    def plain(self) -> dict[str, Any]:
        return {
            "algorithm": self.algorithm,
            "role": self.role,
            "crashed": self.process,
            "others": self.others,
            "properties": self.properties,
            "why": self.why,
            "command": self.command,
        }


def mutexes() -> list[str]:
    return [entry.name for entry in entries().values() if entry.problem is MUTEX]


def check(entry: Entry) -> None:
    if entry.problem is not MUTEX:
        raise BadSetup(
            f"{entry.name} is an algorithm for {entry.problem.title}; the roles are those of mutual"
            " exclusion"
        )


def cells(entry: Entry, recover: bool, options: tuple[str, ...] = ()) -> list[CrashCell]:
    """Return one cell for each role that the algorithm has."""
    struck = {
        "holder": Struck(HOLDER, f"{HOLDER}@Granted#1", TITLES["holder"]),
        "center": _center(entry, options),
        "waiting": Struck(WAITING, f"{WAITING}@acquire#1", TITLES["waiting"]),
        "bystander": Struck(BYSTANDER, f"{BYSTANDER}@{HOLDER}.Granted#1", TITLES["bystander"]),
    }
    return [
        _cell(entry, role, one, recover, options) for role, one in struck.items() if one is not None
    ]


def _center(entry: Entry, options: tuple[str, ...]) -> Struck | None:
    """Return the coordinator if there is one, else the idle process that has the token; None where
    all processes are alike.
    """
    system = system_of(Setup(entry.name, PARTICIPANTS, options=options), entry)
    coordinators = sorted(set(system.plans) - set(system.clients))
    if coordinators:
        which = "the coordinator" if len(coordinators) == 1 else "a coordinator"
        return Struck(coordinators[0], f"{coordinators[0]}@{HOLDER}.Granted#1", which)
    trace = _run(entry, options, QUIET_ASKS).trace
    assert trace is not None
    granting = {
        event.process for event in trace.events if event.kind == "send" and event.name == "Grant"
    }
    if len(granting) == 1:  # one of the participants was elected
        [coordinator] = granting
        return Struck(
            coordinator, f"{coordinator}@{HOLDER}.release#1", "the coordinator", QUIET_ASKS
        )
    if not any(event.name == "Token" for event in trace.events):
        return None
    owner = "the owner of the token"
    left = next(event.time for event in trace.events if mutex_change(event) == "exit")
    passed = [
        event for event in trace.events if _is_passing(event) and left <= event.time < left + 5_000
    ]
    if not passed:
        return Struck(HOLDER, f"{HOLDER}@release#1", owner, QUIET_ASKS)
    # At its first event with a token it would send it on: it is struck before that, with the token
    # in its hands.
    receiver = passed[0].peer
    return Struck(receiver or HOLDER, f"{receiver}@Token#1", owner, QUIET_ASKS)


def _is_passing(event: Event) -> bool:
    return event.kind == "send" and event.name == "Token"


def _run(
    entry: Entry,
    options: tuple[str, ...],
    asks: tuple[str, ...],
    faults: tuple[tuple[str, str], ...] = (),
) -> Report:
    setup = Setup(
        entry.name, PARTICIPANTS, options=options, asks=asks, faults=faults, events=EVENTS
    )
    return execute(setup, entry=entry)


def _cell(
    entry: Entry, role: str, struck: Struck, recover: bool, options: tuple[str, ...]
) -> CrashCell:
    faults = [("crash", struck.crash)]
    if recover:
        faults.append(("recover", f"{struck.process}@{BACK}"))
    report = _run(entry, options, struck.asks, tuple(faults))
    assert report.trace is not None
    back = " and recovers" if recover else ""
    trace = replace(report.trace, title=f"{entry.name}: {struck.title} crashes{back}")
    properties = {finding.name: finding.verdict.value for finding in report.findings}
    name = report.system.label(struck.process)
    return CrashCell(
        entry.name,
        role,
        struck.title,
        name,
        _others(report),
        properties,
        report.why,
        report.setup.command(),
        trace,
    )


def _others(report: Report) -> str:
    """Return what the processes that are up do at the end."""
    assert report.trace is not None
    if any(
        finding.name == "ME1" and finding.verdict is Verdict.VIOLATED for finding in report.findings
    ):
        return TWO_INSIDE
    waiting: set[int] = set()
    crashed = entered = False
    for event in report.trace.events:
        match mutex_change(event):
            case "request":
                waiting.add(event.process)
            case "entry":
                waiting.discard(event.process)
                entered = entered or crashed
            case "crash":
                waiting.discard(event.process)
                crashed = True
    if not crashed:
        raise BadSetup(f"{report.setup.command()}: no process crashed")
    if not waiting:
        return GO_ON
    return SOME_WAIT if entered else BLOCKED


# The page of the documents.


def page(names: Iterable[str] | None = None) -> str:
    """Return the whole table as Markdown, with and without recovery."""
    from habemus.catalog.entries import find

    shown = [find(name) for name in names or mutexes()]
    lines = [
        "# What a crash does",
        "",
        "This page is generated from runs; `make docs` writes it anew. `habemus faults NAME`",
        "prints the verdicts and the command of the run behind each cell, and `--diagrams` saves a",
        "space-time diagram of each.",
        "",
        " ".join(_EXPLAINED),
        "",
        *(f"- **{word}**: {meaning}." for word, meaning in WORDS.items()),
        "",
        "```console",
        "$ habemus faults central",
        "$ habemus faults quorum quorum-durable --recover --diagrams faults",
        "```",
        "",
    ]
    for recover, title in (
        (False, "It crashes"),
        (True, "It crashes and recovers with its stable memory"),
    ):
        table = {entry.name: {cell.role: cell for cell in cells(entry, recover)} for entry in shown}
        lines += [
            f"## {title}",
            "",
            f"| algorithm | {' | '.join(TITLES[role] for role in ROLES)} |",
            "|---|---|---|---|---|",
        ]
        for name, row in table.items():
            lines.append(
                f"| `{name}` |"
                f" {' | '.join(row[role].others if role in row else '-' for role in ROLES)} |"
            )
        lines.append("")
    return "\n".join(lines)


_EXPLAINED = (
    (
        "Four participants: 1 enters and stays for a while, 3 asks meanwhile and waits, 4 asks"
        " later, then 1 once more; 2 never asks."
    ),
    (
        "Then one of them crashes: the one inside (1, on entering), the coordinator (the first of"
        " them, when 1 enters) or the owner of the"
    ),
    (
        "token (when no process needs it), the one that waits (3, having asked), or the one that"
        " does not ask (2, when 1 enters)."
    ),
    "A dash: there is no such role, all are alike. The cell says what the others do then:",
)
