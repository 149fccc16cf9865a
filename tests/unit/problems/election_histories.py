"""Histories of elections, and the verdicts about them by brute force: each looks at the whole
history, where the product looks at a state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from habemus.core.events import Event
from habemus.core.model import ExternalEvent
from habemus.problems.election import Leader

PROCESSES = (1, 2, 3)
SCOPES = ("ever", "term", "eventually")


class Action(NamedTuple):
    kind: str  # "name", "crash" or "recover"
    process: int
    leader: int | None = None
    term: int = 0


def up(history: Sequence[Action]) -> set[int]:
    last = {each.process: each.kind for each in history if each.kind != "name"}
    return {process for process in PROCESSES if last.get(process) != "crash"}


def named(history: Sequence[Action]) -> dict[int, int]:
    """Return the last leader that each process has named since its last crash."""
    last = {each.process: each for each in history if each.kind != "recover"}
    return {
        process: each.leader
        for process, each in last.items()
        if each.kind == "name" and each.leader is not None
    }


def claim(history: Sequence[Action], process: int) -> int | None:
    """Return the position where the claim of a process began; None if it does not claim."""
    began = None
    for position, each in enumerate(history):
        if each.process != process or each.kind == "recover":
            continue
        if each.leader != process:
            began = None
        elif began is None or history[began].term != each.term:
            began = position
    return began


def unanimous(history: Sequence[Action]) -> int | None:
    """Return the leader that all that are up have named, if it claims to lead."""
    leaders = set(named(history).values())
    if len(named(history)) != len(up(history)) or len(leaders) != 1:
        return None
    [leader] = leaders
    return leader if claim(history, leader) is not None else None


def is_moment_of_settling(history: Sequence[Action]) -> bool:
    last = history[-1]
    return last.kind == "crash" or (last.kind == "name" and last.leader is not None)


def settled(history: Sequence[Action], scope: str) -> int | None:
    """Return the last unanimous leader, unless a process has named another or it has crashed."""
    for end in range(len(history), 0, -1):
        leader = unanimous(history[:end]) if is_moment_of_settling(history[:end]) else None
        if leader is not None:
            lost = any(
                turns_away(history[: position + 1], leader, scope)
                or history[position][:2] == ("crash", leader)
                for position in range(end, len(history))
            )
            return None if lost else leader
    return None


def turns_away(history: Sequence[Action], leader: int, scope: str) -> bool:
    """Return whether the last action names another leader than the settled one.  In the scope of
    terms a process that has not named that one may name a leader of an earlier term.
    """
    past, last = history[:-1], history[-1]
    if last.kind != "name" or last.leader in (None, leader):
        return False
    began = claim(past, leader)
    is_earlier = began is not None and last.term < past[began].term
    return scope != "term" or not is_earlier or named(past).get(last.process) == leader


def was_settled(history: Sequence[Action], process: int) -> bool:
    """Return whether a process was unanimous at some moment of its present claim."""
    began = claim(history, process)
    assert began is not None
    return any(
        unanimous(history[:end]) == process and is_moment_of_settling(history[:end])
        for end in range(began + 1, len(history) + 1)
    )


def violated(history: Sequence[Action], scope: str) -> set[str]:
    """Return the properties that the last action violates."""
    past, last = history[:-1], history[-1]
    if last.kind != "name" or last.leader is None:
        return set()
    found = set()
    leader = settled(past, scope)
    if scope != "eventually" and leader is not None and turns_away(history, leader, scope):
        found.add("E4")
    if last.leader == last.process and claim(history, last.process) == len(past):
        rivals = [
            each
            for each in PROCESSES
            if each != last.process
            and claim(past, each) is not None
            and not was_settled(past, each)
        ]
        winners = [
            each.process
            for each in past
            if each.kind == "name" and each.leader == each.process and each.term == last.term
        ]
        if (scope == "ever" and rivals) or (
            scope == "term" and winners and winners[0] != last.process
        ):
            found.add("E1")
    return found


def violated_at_rest(history: Sequence[Action], scope: str) -> set[str]:
    claiming = [each for each in PROCESSES if claim(history, each) is not None]
    leaders = set(named(history).values())
    checks = {
        "E1": scope != "term" and len(claiming) > 1,
        "E2": bool(up(history) - named(history).keys()),
        "E3": len(leaders) > 1 or not leaders <= up(history),
    }
    return {name for name, is_violated in checks.items() if is_violated}


def possible(history: Sequence[Action]) -> list[Action]:
    """Leave out what cannot happen: actions of processes that are down, recoveries of others."""
    kept: list[Action] = []
    for action in history:
        if (action.process in up(kept)) != (action.kind == "recover"):
            kept.append(action)
    return kept


processes = st.sampled_from(PROCESSES)
names = st.builds(
    Action, st.just("name"), processes, st.one_of(st.none(), processes), st.integers(0, 1)
)
faults = st.tuples(st.sampled_from(("crash", "recover")), processes).map(lambda pair: Action(*pair))
agreement = st.tuples(processes, st.integers(0, 1)).map(
    lambda pair: [Action("name", each, *pair) for each in PROCESSES]
)
histories = st.lists(
    st.one_of(names.map(lambda each: [each]), faults.map(lambda each: [each]), agreement),
    max_size=8,
).map(lambda parts: possible([each for part in parts for each in part]))


def external(action: Action) -> ExternalEvent:
    if action.kind == "name":
        leader = Leader(action.leader, action.term)
        return ExternalEvent("indicate", action.process, "Leader", leader)
    return ExternalEvent(action.kind, action.process)


def traced(time: int, action: Action) -> Event:
    if action.kind == "name":
        leader = Leader(action.leader, action.term)
        return Event(time, action.process, "indicate", "Leader", leader)
    return Event(time, action.process, action.kind)
