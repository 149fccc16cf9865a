"""Mutual exclusion in a search: a client that enters a number of times, and an observer of ME1 to
ME3, FENCE and TOKEN.

The observer judges by the same folds as the monitors of runs: `mutex_judgement`, `fencing` and
`tokens`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from habemus.core import Indication, ProcessId
from habemus.core.model import (
    RESIGN,
    WITHDRAW,
    ClientState,
    ExternalEvent,
    Knowledge,
    PossibleRequest,
)
from habemus.core.mutex_events import CHANGES
from habemus.problems import fencing
from habemus.problems.election_observer import resignations
from habemus.problems.fencing import FENCE, AcceptedWrites, FencedWrites, Token, WriteOutcome
from habemus.problems.mutex import Granted
from habemus.problems.mutex_judgement import MutexJudgement, MutexState
from habemus.problems.mutex_properties import ME1, ME2_DEADLOCK, ME2_STARVATION, ME3
from habemus.problems.tokens import TOKEN, IssuedTokens, TokenOrder

MOVES = ("move", "break_off")
"""Requests by which an application goes on at another process."""


class VisitStage(IntEnum):
    OUTSIDE = 0
    WAITING = 1
    INSIDE = 2


class Visit(NamedTuple):
    """State of a client."""

    left: int | None  # requests that it may still make; None: any number
    stage: VisitStage = VisitStage.OUTSIDE
    token: Token | None = None
    writes: int = 0  # still to be made before it leaves
    moves: int = 0  # how often it may still move
    is_followed: bool = False  # its next request waits at the process already


class MutexClientModel:
    """A client that requests, waits, stays inside for any time, and leaves.  With a token it writes
    on entry and before it leaves.

    lines_up: its next request may wait at the process already while it is inside.
    withdraws: it may stop waiting at any moment.
    heirs: in whose favour the process can resign as the leader of an election.
    """

    def __init__(
        self,
        entries: int | None,
        moves: int = 0,
        others: tuple[ProcessId, ...] = (),
        ways: tuple[str, ...] = MOVES,
        lines_up: bool = False,
        withdraws: bool = False,
        heirs: tuple[ProcessId, ...] = (),
    ) -> None:
        self.entries = entries
        self.moves = moves
        self.others = others  # where it can go on
        self.ways = ways
        self.lines_up = lines_up
        self.withdrawals = (
            [PossibleRequest("release", voluntary=True, budget=WITHDRAW)] if withdraws else []
        )
        self.resignations = resignations(heirs)

    def first(self) -> ClientState:
        return Visit(self.entries, moves=self.moves)

    def choices(self, state: ClientState) -> Sequence[PossibleRequest]:
        assert isinstance(state, Visit)
        return [*self._choices(state), *self.resignations]

    def _choices(self, state: Visit) -> Sequence[PossibleRequest]:
        enters_again = state.left is None or state.left > 0
        if state.stage == VisitStage.OUTSIDE:
            acquire = PossibleRequest("acquire", voluntary=True, is_ordered=True)
            return [acquire] if enters_again else []
        if state.stage == VisitStage.WAITING:
            return self.withdrawals
        others = [
            PossibleRequest(how, (other,), voluntary=True)
            for how in self.ways
            for other in self.others
            if state.moves
        ]
        if state.writes and state.token is not None:
            return [PossibleRequest("write", state.token), *others]
        if self.lines_up and enters_again and not state.is_followed:
            others.append(PossibleRequest("line_up", voluntary=True))
        return [PossibleRequest("release"), *others]

    def asked(self, state: ClientState, asking: PossibleRequest) -> ClientState:
        assert isinstance(state, Visit)
        if asking.name == "acquire":
            left = None if state.left is None else state.left - 1
            return Visit(left, VisitStage.WAITING, moves=state.moves)
        if asking.name == "write":
            return state._replace(writes=state.writes - 1)
        if asking.name == "line_up":
            return state._replace(is_followed=True)
        if asking.name == RESIGN:
            return state
        moves = state.moves - (asking.name in MOVES)
        return Visit(state.left, moves=moves)

    def indicated(self, state: ClientState, indication: Indication) -> ClientState:
        assert isinstance(state, Visit)
        if isinstance(indication, fencing.GrantedWithToken):
            return state._replace(stage=VisitStage.INSIDE, token=indication.token, writes=2)
        if isinstance(indication, fencing.ResumedWithToken):
            return state._replace(stage=VisitStage.INSIDE, token=indication.token, writes=1)
        return state._replace(stage=VisitStage.INSIDE) if isinstance(indication, Granted) else state

    def crashed(self, state: ClientState) -> ClientState:
        assert isinstance(state, Visit)
        return Visit(state.left, moves=state.moves)


class MutexScene(NamedTuple):
    """The states of the three folds."""

    mutex: MutexState = MutexState()
    writes: AcceptedWrites = AcceptedWrites()
    tokens: IssuedTokens = IssuedTokens()


class MutexObserver:
    """Judges ME1, ME2 and FENCE and TOKEN; and ME3 where the search tracks causality.

    With `outside`, applications tell each other of their requests at once, so each request happened
    before all later ones.
    """

    def __init__(self, outside: bool = False) -> None:
        self.outside = outside

    def first(self) -> Knowledge:
        return MutexScene()

    def sees(self, knowledge: Knowledge, seen: ExternalEvent) -> tuple[Knowledge, Sequence[str]]:
        assert isinstance(knowledge, MutexScene)
        mutex = MutexJudgement.thawed(knowledge.mutex)
        writes = FencedWrites.thawed(knowledge.writes)
        tokens = TokenOrder.thawed(knowledge.tokens)
        violated: list[str] = []
        process = seen.process
        match CHANGES.get((seen.kind, seen.name)):
            case "request":
                own, before = (
                    (1 << process, mutex.pending) if self.outside else (seen.own, seen.before)
                )
                mutex.request(process, own, before)
                tokens.request(process)
            case "entry":
                entry = mutex.entry(process)
                violated += [ME1.name] if entry.inside else []
                violated += [ME3.name] if entry.overtaken else []
                if isinstance(seen.value, fencing.GrantedWithToken):
                    writes.grant(process, seen.value.token)
                    is_stale = tokens.grant(process, seen.value.token)
                    violated += [TOKEN.name] if is_stale else []
            case "exit":
                if mutex.release(process):
                    tokens.withdraw(process)
            case "break_off":
                mutex.exit(process)
            case "loss":
                mutex.loss(process)
            case "move":
                mutex.move(process)
            case "resume":
                assert isinstance(seen.value, fencing.ResumedWithToken)
                is_overtaken = tokens.is_overtaken(seen.value.token)
                violated += [ME1.name] if mutex.resume(process) or is_overtaken else []
                writes.grant(process, seen.value.token)
            case "crash":
                mutex.crash(process)
                tokens.withdraw(process)
            case _ if seen.name == "write":
                outcome = writes.write(process, seen.value)
                violated += [FENCE.name] if outcome is WriteOutcome.STALE else []
        return MutexScene(mutex.frozen(), writes.frozen(), tokens.frozen()), violated

    def at_rest(self, knowledge: Knowledge) -> Sequence[str]:
        assert isinstance(knowledge, MutexScene)
        waiting = MutexJudgement.thawed(knowledge.mutex).deadlocked()
        return [ME2_DEADLOCK.name] if waiting else []

    def unfulfilled(self, knowledge: Knowledge) -> Sequence[tuple[str, ProcessId]]:
        assert isinstance(knowledge, MutexScene)
        return [
            (name, process)
            for process in MutexJudgement.thawed(knowledge.mutex).deadlocked()
            for name in (ME2_DEADLOCK.name, ME2_STARVATION.name)
        ]

    def pending(self, knowledge: Knowledge) -> Knowledge:
        assert isinstance(knowledge, MutexScene)
        return MutexScene(knowledge.mutex)

    def progress(self, seen: ExternalEvent) -> Sequence[str]:
        return [ME2_DEADLOCK.name] if _is_entry(seen) else []

    def about_the_end(self) -> Sequence[str]:
        return []

    def shown(self, seen: ExternalEvent) -> Sequence[str]:
        if _is_entry(seen):
            tokens = [TOKEN.name] if isinstance(seen.value, fencing.GrantedWithToken) else []
            return [ME1.name, ME2_DEADLOCK.name, ME2_STARVATION.name, ME3.name, *tokens]
        return [FENCE.name] if seen.name == "write" else []


def _is_entry(seen: ExternalEvent) -> bool:
    return CHANGES.get((seen.kind, seen.name)) == "entry"
