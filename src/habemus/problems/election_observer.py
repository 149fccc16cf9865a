"""Leader election in a search: clients that call elections, and an observer of E1 to E4.

The observer judges by the same fold as the monitor of runs, `election_judgement`.  A search has no
time, so a take-over from a settled leader is judged by its end: E1 is violated if both still claim
when nothing happens any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from habemus.core import Indication, ProcessId
from habemus.core.model import RESIGN, ClientState, ExternalEvent, Knowledge, PossibleRequest
from habemus.problems.election import Leader
from habemus.problems.election_judgement import (
    E1,
    E2,
    E3,
    E4,
    ElectionJudgement,
    ElectionState,
)


def resignations(heirs: tuple[ProcessId, ...]) -> list[PossibleRequest]:
    """Return the requests by which a leader steps down in its own term.  A search drops those that
    change nothing.
    """
    return [PossibleRequest(RESIGN, (heir,), voluntary=True, budget=RESIGN) for heir in heirs]


class ElectionClientModel:
    """A client that may call an election so many times, at any moment, and need not.

    heirs: in whose favour the process can resign.
    """

    def __init__(self, calls: int | None, heirs: tuple[ProcessId, ...] = ()) -> None:
        self.calls = calls
        self.resignations = resignations(heirs)

    def first(self) -> ClientState:
        return -1 if self.calls is None else self.calls

    def choices(self, state: ClientState) -> Sequence[PossibleRequest]:
        calls = [PossibleRequest("elect", voluntary=True)] if state != 0 else []
        return [*calls, *self.resignations]

    def asked(self, state: ClientState, asking: PossibleRequest) -> ClientState:
        assert isinstance(state, int)
        return state if state < 0 or asking.name == RESIGN else state - 1

    def indicated(self, state: ClientState, indication: Indication) -> ClientState:
        return state

    def crashed(self, state: ClientState) -> ClientState:
        return state


class ElectionScene(NamedTuple):
    state: ElectionState
    called: frozenset[ProcessId] = frozenset()  # processes that have called an election


class ElectionObserver:
    def __init__(self, processes: tuple[ProcessId, ...], scope: str, called: bool) -> None:
        self.processes = processes
        self.scope = scope
        self.called = called  # from the start, where processes begin elections by themselves

    def first(self) -> Knowledge:
        return ElectionScene(
            ElectionJudgement(self.processes, self.scope).frozen(),
            frozenset(self.processes) if self.called else frozenset(),
        )

    def sees(self, knowledge: Knowledge, seen: ExternalEvent) -> tuple[Knowledge, Sequence[str]]:
        assert isinstance(knowledge, ElectionScene)
        judgement, called = self._thawed(knowledge), knowledge.called
        process = seen.process
        violated: Sequence[str] = ()
        if isinstance(seen.value, Leader):
            result = judgement.name(process, seen.value.process, seen.value.term)
            violated = result.violated(self.scope)
        elif seen.kind == "request" and seen.name == RESIGN:
            judgement.step_down(process)
        elif seen.kind == "request":
            called |= {process}
        elif seen.kind == "crash":
            judgement.crash(process)
            called = called if self.called else called - {process}  # the call is lost
        elif seen.kind == "recover":
            judgement.recover(process)
        return ElectionScene(judgement.frozen(), called), violated

    def _thawed(self, scene: ElectionScene) -> ElectionJudgement:
        return ElectionJudgement.thawed(scene.state, self.scope)

    def at_rest(self, knowledge: Knowledge) -> Sequence[str]:
        assert isinstance(knowledge, ElectionScene)
        if not knowledge.called and not knowledge.state.named:
            return []
        judgement = self._thawed(knowledge)
        checks = {
            E1.name: judgement.claims_conflict(),
            E2.name: bool(judgement.without_leader()),
            E3.name: judgement.disagrees(),
        }
        return [name for name, is_violated in checks.items() if is_violated]

    def unfulfilled(self, knowledge: Knowledge) -> Sequence[tuple[str, ProcessId]]:
        assert isinstance(knowledge, ElectionScene)
        if not knowledge.called:
            return []
        return [(E2.name, process) for process in self._thawed(knowledge).without_leader()]

    def pending(self, knowledge: Knowledge) -> Knowledge:
        assert isinstance(knowledge, ElectionScene)
        return knowledge._replace(state=knowledge.state._replace(winners=()))

    def progress(self, seen: ExternalEvent) -> Sequence[str]:
        return []

    def about_the_end(self) -> Sequence[str]:
        return [E1.name, E3.name, E4.name] if self.scope == "eventually" else [E3.name]

    def shown(self, seen: ExternalEvent) -> Sequence[str]:
        return (
            [E1.name, E2.name, E3.name, E4.name]
            if isinstance(seen.value, Leader) and seen.value.process is not None
            else []
        )
