"""Mutual exclusion as a search sees it: an application that enters a number of times, and an
observer of ME1 to ME3, FENCE and TOKEN.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from habemus.core import Indication, ProcessId
from habemus.core.model import ClientState, ExternalEvent, Knowledge, PossibleRequest
from habemus.core.shapes import Names
from habemus.problems import fencing
from habemus.problems.fencing import FENCE, LockLost, Token
from habemus.problems.mutex import Granted
from habemus.problems.mutex_properties import ME1, ME2_DEADLOCK, ME2_STARVATION, ME3
from habemus.problems.tokens import TOKEN


class Stage(IntEnum):
    OUTSIDE = 0
    WAITING = 1
    INSIDE = 2


class Visit(NamedTuple):
    """Where an application stands."""

    left: int | None  # how often it may still ask; None: without end
    stage: Stage = Stage.OUTSIDE
    token: Token | None = None
    writes: int = 0  # that it still makes before it leaves


class MutexClientModel:
    """It asks, waits, stays inside for as long as it likes, leaves; with a token it writes on
    entering and before leaving.
    """

    def __init__(self, entries: int | None) -> None:
        self.entries = entries

    def first(self) -> ClientState:
        return Visit(self.entries)

    def choices(self, state: ClientState) -> Sequence[PossibleRequest]:
        assert isinstance(state, Visit)
        if state.stage == Stage.OUTSIDE:
            return (
                [PossibleRequest("acquire", voluntary=True)]
                if state.left is None or state.left > 0
                else []
            )
        if state.stage == Stage.WAITING:
            return []
        return (
            [PossibleRequest("write", state.token)]
            if state.writes and state.token is not None
            else [PossibleRequest("release")]
        )

    def asked(self, state: ClientState, asking: PossibleRequest) -> ClientState:
        assert isinstance(state, Visit)
        if asking.name == "acquire":
            return Visit(None if state.left is None else state.left - 1, Stage.WAITING)
        return (
            state._replace(writes=state.writes - 1) if asking.name == "write" else Visit(state.left)
        )

    def indicated(self, state: ClientState, indication: Indication) -> ClientState:
        assert isinstance(state, Visit)
        if isinstance(indication, fencing.Granted):
            return state._replace(stage=Stage.INSIDE, token=indication.token, writes=2)
        return state._replace(stage=Stage.INSIDE) if isinstance(indication, Granted) else state

    def crashed(self, state: ClientState) -> ClientState:
        assert isinstance(state, Visit)
        return Visit(state.left)


class Writes(NamedTuple):
    """What a resource that checks tokens has accepted."""

    newest: Token | None = None
    last: tuple[ProcessId, Token] | None = None  # whose write was accepted last
    over: frozenset[tuple[ProcessId, Token]] = frozenset()  # those that others have written after


class Tokens(NamedTuple):
    """What is known of the tokens of grants."""

    newest: Token | None = None
    due: tuple[tuple[ProcessId, Token], ...] = ()  # of those that wait, the newest when they asked


class Scene(NamedTuple):
    """Who is inside, and who waits: with its request as one bit, and the requests that happened
    before it.
    """

    inside: frozenset[ProcessId] = frozenset()
    waiting: tuple[tuple[ProcessId, int, int], ...] = ()
    writes: Writes = Writes()
    tokens: Tokens = Tokens()


class MutexObserver:
    """Sees who is inside and who waits; knows of ME3 only where requests come with what happened
    before them.
    """

    def first(self) -> Knowledge:
        return Scene()

    def sees(self, knowledge: Knowledge, seen: ExternalEvent) -> tuple[Knowledge, Sequence[str]]:
        assert isinstance(knowledge, Scene)
        inside, waiting, writes, tokens = knowledge
        process = seen.process
        others = tuple(each for each in waiting if each[0] != process)
        violated: list[str] = []
        if seen.kind == "request" and seen.name == "acquire":
            waiting = tuple(sorted((*others, (process, seen.own, seen.before))))
            tokens = _asked(tokens, process)
        elif seen.kind == "indicate" and isinstance(seen.value, Granted):
            if inside - {process}:
                violated.append(ME1.name)
            before = sum(each[2] for each in waiting if each[0] == process)
            if any(before & own for _, own, _ in others):
                violated.append(ME3.name)
            inside, waiting = inside | {process}, others
            if isinstance(seen.value, fencing.Granted):
                tokens, stale = _granted(tokens, process, seen.value.token)
                violated += [TOKEN.name] if stale else []
        elif seen.name == "release" or isinstance(seen.value, LockLost):
            inside -= {process}
        elif seen.kind == "crash":
            inside, waiting, tokens = inside - {process}, others, _without(tokens, process)
        elif seen.name == "write":
            writes, stale = _written(writes, process, seen.value)
            violated += [FENCE.name] if stale else []
        return Scene(inside, waiting, writes, tokens), violated

    def renamed(self, knowledge: Knowledge, names: Names) -> Knowledge:
        """The same with other names of processes."""
        assert isinstance(knowledge, Scene)
        inside, waiting, (newest, last, over), tokens = knowledge
        writes = Writes(
            newest,
            last and (names[last[0]], last[1]),
            frozenset((names[process], token) for process, token in over),
        )
        due = tuple(sorted((names[process], token) for process, token in tokens.due))
        asked = tuple(sorted((names[process], own, before) for process, own, before in waiting))
        return Scene(
            frozenset(names[each] for each in inside), asked, writes, Tokens(tokens.newest, due)
        )

    def at_rest(self, knowledge: Knowledge) -> Sequence[str]:
        assert isinstance(knowledge, Scene)
        return [ME2_DEADLOCK.name] if knowledge.waiting else []

    def unfulfilled(self, knowledge: Knowledge) -> Sequence[tuple[str, ProcessId]]:
        assert isinstance(knowledge, Scene)
        return [
            (name, process)
            for process, *_ in knowledge.waiting
            for name in (ME2_DEADLOCK.name, ME2_STARVATION.name)
        ]

    def progress(self, seen: ExternalEvent) -> Sequence[str]:
        return [ME2_DEADLOCK.name] if isinstance(seen.value, Granted) else []

    def about_the_end(self) -> Sequence[str]:
        return []

    def shown(self, seen: ExternalEvent) -> Sequence[str]:
        if isinstance(seen.value, Granted):
            tokens = [TOKEN.name] if isinstance(seen.value, fencing.Granted) else []
            return [ME1.name, ME2_DEADLOCK.name, ME2_STARVATION.name, ME3.name, *tokens]
        return [FENCE.name] if seen.name == "write" else []


def _written(writes: Writes, process: ProcessId, token: Token) -> tuple[Writes, bool]:
    """What the resource knows after a write, and whether it accepted one that is older than
    another.
    """
    if writes.newest is not None and token < writes.newest:
        return writes, False
    entry = (process, token)
    over = (
        writes.over | {writes.last}
        if writes.last is not None and writes.last != entry
        else writes.over
    )
    return Writes(token, entry, over), entry in over


def _asked(tokens: Tokens, process: ProcessId) -> Tokens:
    if tokens.newest is None:
        return tokens
    others = _without(tokens, process)
    return others._replace(due=tuple(sorted((*others.due, (process, tokens.newest)))))


def _granted(tokens: Tokens, process: ProcessId, token: Token) -> tuple[Tokens, bool]:
    """What is known of tokens after a grant, and whether its token is no larger than one that was
    granted before it was asked for.

    Of equal tokens the observer knows only that of the newest grant: that others write with the
    same is seen by FENCE.
    """
    due = dict(tokens.due).get(process)
    newest = token if tokens.newest is None else max(token, tokens.newest)
    return _without(tokens, process)._replace(newest=newest), token == tokens.newest or (
        due is not None and token <= due
    )


def _without(tokens: Tokens, process: ProcessId) -> Tokens:
    return tokens._replace(due=tuple(each for each in tokens.due if each[0] != process))
