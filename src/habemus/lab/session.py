"""A session of the lab, without transport: numbered requests in, numbered replies out.

docs/lab-protocol.md describes the messages.  Only the standard library is used, so that a server
and a page that runs Python itself share this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from habemus.catalog.entries import Entry
from habemus.core.events import KINDS, Event
from habemus.core.named_code import refuse_code
from habemus.core.process import MistakeInAlgorithm, MistakeInPlan
from habemus.core.properties import Finding, Verdict
from habemus.lab import counterexamples, views
from habemus.lab.branches import QUIET, Branch, LabError, RecordedBranch, SimulatedBranch
from habemus.lab.exports import exported
from habemus.lab.links import VerifiedLink, difference, read_link
from habemus.runs.commands import check_of, run_of
from habemus.runs.setup import Setup
from habemus.runs.simulate import is_counterexample, is_live
from habemus.runs.states import DEFAULT, names_of
from habemus.scenarios import find as find_scenario
from habemus.traces import Trace
from habemus.traces.file import parsed

OPENED = ("run", "scenario", "trace", "check", "link")
CHUNK = 5_000
"""Events in one reply."""
MOST_BRANCHES = 200
MOST_PENDING = 500
"""Pending events in one reply."""
LONGEST_TRACE = 64 * 1024 * 1024
"""Characters of a trace that is opened."""

Reply = dict[str, Any]
Message = Mapping[str, Any]


class Session:
    """The branches of one user, and the answers to her requests."""

    def __init__(self) -> None:
        self._branches: list[_Opened] = []
        self._answers: dict[str, Callable[[Message], Iterator[Reply]]] = {
            "open": self._open,
            "advance": self._advance,
            "pending": self._pending,
            "intervene": self._intervene,
            "state": self._state,
            "along": self._along,
            "lines": self._lines,
            "cone": self._cone,
            "tree": self._tree,
            "export": self._export,
        }

    def answer(self, message: Message) -> Iterator[Reply]:
        """Yield the replies to a request; the last one is marked as done.

        Errors of the user, and those of the user's algorithm, are replies too.
        """
        number = message.get("id")
        try:
            answer = self._answers.get(_text(message, "do"))
            if answer is None:
                raise LabError(
                    f"there is no request {str(message['do'])[:40]!r}; there are"
                    f" {', '.join(self._answers)}"
                )
            last: Reply | None = None
            for reply in answer(message):
                if last is not None:
                    yield {"id": number, **last}
                last = reply
            yield {"id": number, **(last or {"is": "nothing"}), "done": True}
        except (ValueError, LookupError, MistakeInAlgorithm, MistakeInPlan) as reason:
            line = " ".join(str(reason).split()) or type(reason).__name__
            yield {"id": number, "is": "error", "message": line[:500], "done": True}

    # Opening.

    def _open(self, message: Message) -> Iterator[Reply]:
        kinds = [kind for kind in OPENED if kind in message]
        if len(kinds) != 1:
            raise LabError(f"open needs one of: {', '.join(OPENED)}")
        text, is_trusted = _text(message, kinds[0]), message.get("trusted") is True
        if kinds[0] == "link":
            yield from self._open_link(read_link(text), is_trusted)
            return
        if kinds[0] == "run":
            branch: Branch = SimulatedBranch(run_of(text))
        elif kinds[0] == "scenario":
            scenario = find_scenario(text)
            branch = SimulatedBranch(scenario.setup, scenario.title)
        elif kinds[0] == "check":
            branch = counterexamples.of_check(check_of(text))
        else:
            branch = _of_trace(text, is_trusted=is_trusted)
        opened = self._add(_Opened(branch))
        yield self._opened(opened)
        yield from self._events(opened, 0, _until(message, "end"))

    def _open_link(self, link: VerifiedLink, is_trusted: bool) -> Iterator[Reply]:
        """Open a link as far as its run went, and compare the events."""
        if link.kind == "run":
            setup = run_of(link.command)
            refuse_code(setup.plain(), "the link", trusted=is_trusted)
            branch: Branch = SimulatedBranch(setup)
        else:
            check = check_of(link.command)
            refuse_code(check.plain(), "the link", trusted=is_trusted)
            branch = counterexamples.of_steps(check, link.steps)
        opened = self._add(_Opened(branch))
        if len(branch.events) < link.events:
            branch.advance(lambda _: len(branch.events) >= link.events)
        found = difference(link, branch.events)
        yield {
            **self._opened(opened),
            "mismatch": None if found is None else {"event": found[0], "message": found[1]},
        }
        yield from self._events(opened, 0, _Count(0))

    def _add(self, opened: _Opened) -> _Opened:
        if len(self._branches) >= MOST_BRANCHES:
            raise LabError(f"a session has at most {MOST_BRANCHES} branches; open another page")
        opened.number = len(self._branches)
        self._branches.append(opened)
        return opened

    def _opened(self, opened: _Opened) -> Reply:
        branch = opened.branch
        labels = views.labels_of(branch.system)
        return {
            "is": "opened",
            "branch": opened.number,
            "kinds": KINDS,
            "header": {
                "habemus": 1,
                "title": branch.title,
                "run": dict(branch.run),
                "processes": list(branch.system.topology.processes),
                "labels": {str(me): labels[me] for me in sorted(labels)},
            },
            "processes": [{"id": me, "label": label} for me, label in labels.items()],
            "clients": list(branch.system.clients),
            "variables": opened.history.names,
            "shows": opened.shows(),
            "card": views.card_of(branch.entry),
            "graph": views.graph_of(branch.system),
            "command": branch.command,
            "playable": branch.playable,
        }

    # Events.

    def _advance(self, message: Message) -> Iterator[Reply]:
        opened = self._branch(message)
        yield from self._events(opened, len(opened.branch.events), _until(message, None))

    def _events(
        self, opened: _Opened, begin: int, until: Callable[[Branch, int], bool] | None
    ) -> Iterator[Reply]:
        """Continue a branch, then yield its events from `begin` on."""
        branch = opened.branch
        if until is None:
            branch.advance(None)
        elif not (isinstance(until, _Count) and until.by == 0):
            branch.advance(lambda before: until(branch, before))
        end = len(branch.events)
        for first in range(begin, max(end, begin + 1), CHUNK):
            chunk = branch.events[first : first + CHUNK]
            last = first + CHUNK >= end
            yield {
                "is": "events",
                "branch": opened.number,
                "from": first,
                "columns": views.columns(chunk),
                "deliveries": list(branch.deliveries[first : first + CHUNK]),
                "ended": branch.ended,
                **(self._outcome(branch) if last else {}),
            }

    def _outcome(self, branch: Branch) -> Reply:
        return {
            "lamps": [_lamp(branch, finding) for finding in branch.findings()],
            "costs": _costs(branch),
            "digest": branch.digest,
        }

    # Interventions.

    def _pending(self, message: Message) -> Iterator[Reply]:
        opened = self._branch(message)
        at = None if message.get("at") is None else opened.event(message, "at")[0]
        found = opened.branch.pending(at)
        yield {
            "is": "pending",
            "branch": opened.number,
            "more": max(0, len(found) - MOST_PENDING),
            "pending": [
                {
                    "choice": each.choice,
                    "kind": each.kind,
                    "process": each.process,
                    "from": each.sender,
                    "text": each.text,
                    "part": each.part,
                    "time": each.time,
                    "why": each.obstacle,
                    "next": each.is_next,
                }
                for each in found[:MOST_PENDING]
            ],
        }

    def _intervene(self, message: Message) -> Iterator[Reply]:
        parent = self._branch(message)
        at = None if message.get("at") is None else parent.event(message, "at")[0]
        is_new = message.get("new", True) is not False
        if not is_new and at is not None and at != len(parent.branch.events) - 1:
            raise LabError("only the last event of a branch can be continued in the same branch")
        is_ended = parent.branch.ended is not None or at is not None
        branch, shared = parent.branch.fork(at if is_new else None, _text(message, "what"))
        until = _until(message, "end" if is_ended and is_new else None, default_by=0)
        if is_new:
            opened = self._add(_Opened(branch))
            opened.parent, opened.at, opened.shared = parent.number, at, shared
        else:
            opened = parent
            opened.become(branch)
        yield {
            "is": "branched",
            "branch": opened.number,
            "parent": opened.parent,
            "at": opened.at,
            "shared": shared,
            "interventions": list(branch.interventions),
            "command": branch.command,
        }
        yield from self._events(opened, shared, until)

    def _tree(self, _: Message) -> Iterator[Reply]:
        yield {
            "is": "tree",
            "branches": [
                {
                    "branch": opened.number,
                    "parent": opened.parent,
                    "at": opened.at,
                    "shared": opened.shared,
                    "interventions": list(opened.branch.interventions),
                    "title": opened.branch.title,
                    "command": opened.branch.command,
                    "events": len(opened.branch.events),
                    "ended": opened.branch.ended,
                    "digest": opened.branch.digest,
                    "verdicts": {
                        finding.name: finding.verdict.value for finding in opened.branch.findings()
                    },
                }
                for opened in self._branches
            ],
        }

    # Views of one event.

    def _state(self, message: Message) -> Iterator[Reply]:
        opened = self._branch(message)
        index, event = opened.event(message)
        history, labels = opened.history, views.labels_of(opened.branch.system)
        begin = history.begin_of(index)
        before, after = {}, {}
        for me in opened.branch.system.plans:
            is_own = me == event.process and begin is not None
            then = begin if is_own and begin is not None else index
            before[str(me)] = history.described(me, history.before(me, then))
            after[str(me)] = history.described(me, history.after(me, then))
        own = str(event.process)
        effects = [] if begin is None else history.step_again(begin)[0]
        yield {
            "is": "state",
            "event": index,
            "process": event.process,
            "step": begin,
            "before": before,
            "after": after,
            "changed": [
                name for name in after.get(own, {}) if after[own][name] != before[own][name]
            ],
            "effects": [views.described_effect(effect, labels) for effect in effects],
            "fields": dict(event.fields()),
        }

    def _along(self, message: Message) -> Iterator[Reply]:
        opened = self._branch(message)
        wanted = message.get("variables", [])
        if not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
            raise LabError("variables must be a list of names")
        yield {"is": "along", "changes": opened.history.changes(tuple(wanted))}

    def _lines(self, message: Message) -> Iterator[Reply]:
        opened = self._branch(message)
        index, _ = opened.event(message)
        begin = opened.history.begin_of(index)
        blocks = [] if begin is None else opened.history.step_again(begin)[1]
        first = {"file": "", "first": 0, "source": [], "executed": [], "handler": ""}
        yield {"is": "lines", "event": index, **(blocks[0] if blocks else first), "blocks": blocks}

    def _cone(self, message: Message) -> Iterator[Reply]:
        opened = self._branch(message)
        index, _ = opened.event(message)
        past, future = views.cone(opened.branch.events, index)
        yield {"is": "cone", "event": index, "past": past, "future": future}

    def _export(self, message: Message) -> Iterator[Reply]:
        opened = self._branch(message)
        begin, end = (
            None if message.get(field) is None else opened.event(message, field)[0]
            for field in ("from", "to")
        )
        form = _text(message, "as")
        yield {"is": "export", "as": form, **exported(opened.branch, form, begin, end)}

    def _branch(self, message: Message) -> _Opened:
        number = message.get("branch")
        if type(number) is not int or not 0 <= number < len(self._branches):
            raise LabError(f"there is no branch {str(number)[:40]}")
        return self._branches[number]


class _Opened:
    """A branch of a session and its place in the tree."""

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.number = -1
        self.parent: int | None = None
        self.at: int | None = None
        self.shared = 0
        self.history = views.StateHistory(branch)

    def become(self, branch: Branch) -> None:
        """Continue as another run that has all events of this one."""
        self.branch = branch
        self.history = views.StateHistory(branch)

    def shows(self) -> list[str]:
        """Return the variables that the algorithm names for pictures."""
        return names_of(list(self.history.stacks.values()), (DEFAULT,))

    def event(self, message: Message, field: str = "event") -> tuple[int, Event]:
        index = message.get(field)
        events = self.branch.events
        if type(index) is not int or not 0 <= index < len(events):
            raise LabError(f"branch {self.number} has no event {str(index)[:40]}")
        return index, events[index]


def _text(message: Message, field: str) -> str:
    value = message.get(field)
    if not isinstance(value, str):
        raise LabError(f"{field} must be a string")
    return value


def _until(
    message: Message, default: str | None, default_by: int = 1
) -> Callable[[Branch, int], bool] | None:
    """Return the condition at which a branch stops; None: at its end.

    A condition gets the branch and the number of events that it had before the last delivery.
    """
    if "by" in message:
        by = message["by"]
        if type(by) is not int or by < 0:
            raise LabError("by must be a number of events")
        return _Count(by)
    until = message.get("until", default)
    match until:
        case "end":
            return None
        case "violation":
            return _Violation()
        case {"event": str(name)}:
            return lambda branch, before: any(
                name in (event.name, event.kind) for event in branch.events[before:]
            )
        case {"time": int(time)}:
            return lambda branch, before: branch.events[-1].time >= time
        case None:
            return _Count(default_by)
    raise LabError('until must be "end", "violation", {"event": NAME} or {"time": MICROSECONDS}')


class _Count:
    """Stop after so many events, at the end of the step that they belong to."""

    def __init__(self, by: int) -> None:
        self.by = by
        self._goal: int | None = None

    def __call__(self, branch: Branch, before: int) -> bool:
        if self._goal is None:
            self._goal = before + self.by
        return len(branch.events) >= self._goal


class _Violation:
    """Stop when a property is violated that was not violated before."""

    def __init__(self) -> None:
        self._known: set[str] | None = None

    def __call__(self, branch: Branch, before: int) -> bool:
        if self._known is not None and all(event.kind in QUIET for event in branch.events[before:]):
            return False
        found = branch.findings()
        violated = {each.name for each in found if each.verdict is Verdict.VIOLATED}
        if self._known is None:
            self._known = violated if before else set()
        return bool(violated - self._known)


def _of_trace(text: str, *, is_trusted: bool) -> Branch:
    """Return the branch of a trace file: a run that is executed again, or a record."""
    if len(text) > LONGEST_TRACE:
        raise LabError(f"a trace of more than {LONGEST_TRACE // 1024 // 1024} MB is not opened")
    trace = parsed(iter(text.encode().splitlines(keepends=True)), trusted=is_trusted)
    if is_counterexample(trace.run):
        return counterexamples.of_trace(trace)
    if is_live(trace.run):
        return _of_live(trace)
    return SimulatedBranch(Setup.from_plain(trace.run), trace.title)


def _of_live(trace: Trace) -> Branch:
    from habemus.deployment.services import judged
    from habemus.runtimes.sim.network import Network

    report = judged(trace)
    assert report.trace is not None
    return RecordedBranch(
        report.trace,
        report.setup,
        report.entry,
        report.system,
        costs=report.costs,
        judge=lambda: report.entry.problem.judge(report.setup, report.system, Network()),
    )


def _lamp(branch: Branch, finding: Finding) -> Reply:
    is_violated = finding.verdict is Verdict.VIOLATED
    return {
        "property": finding.name,
        "claimed": branch.entry.claims(finding.name),
        "run": finding.verdict.value,
        "why": finding.why,
        "event": branch.first_event(finding) if is_violated else None,
        "processes": list(finding.processes),
        "card": views.card_in_words(branch.entry, branch.faults, finding.name),
    }


_FORMULAS = {
    "mutex": {
        "messages_per_entry": "messages",
        "client_delay": "client_delay",
        "sync_delay": "sync_delay",
    },
    "election": {"messages": "messages", "turnaround": "turnaround"},
}
"""Measured costs for which there are formulas, by problem."""


def _costs(branch: Branch) -> list[Reply]:
    """Return the measured costs, each beside its formula if there is one."""
    costs = branch.costs()
    formula = costs.get("formula") or {}
    names = _FORMULAS.get(branch.entry.problem.name, {})
    return [
        {
            "name": name,
            "measured": value,
            "formula": _formula(branch.entry) if name in names else "",
            "expected": formula.get(names.get(name, "")),
        }
        for name, value in costs.items()
        if name != "formula" and value is not None
    ]


def _formula(entry: Entry) -> str:
    """Return the sentence on costs of the card, and when the formula applies."""
    only = " The formula is for one call of the first participant, and no faults."
    cost = entry.box.sections.get("Cost", "")
    return f"{cost}{only}" if entry.problem.name == "election" else cost
