"""Leader election as a search sees it: applications that call elections, and an observer of E1 to
E4.

The words are those of the monitor: a process *names* a leader, it *claims* to lead while it names
itself, and a leader is *settled* once all that are up have named it.  There is no time here, so a
take-over from a settled leader is judged by how it ends: E1 is violated if both still claim when
nothing happens any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from habemus.core import Indication, ProcessId
from habemus.core.model import ClientState, ExternalEvent, Knowledge, PossibleRequest
from habemus.problems.election import Leader
from habemus.problems.election_monitor import E1, E2, E3, E4


class ElectionClientModel:
    """It may call an election so many times, whenever it likes, and need not."""

    def __init__(self, calls: int | None) -> None:
        self.calls = calls

    def first(self) -> ClientState:
        return -1 if self.calls is None else self.calls

    def choices(self, state: ClientState) -> Sequence[PossibleRequest]:
        return [PossibleRequest("elect", voluntary=True)] if state != 0 else []

    def asked(self, state: ClientState, asking: PossibleRequest) -> ClientState:
        assert isinstance(state, int)
        return state if state < 0 else state - 1

    def indicated(self, state: ClientState, indication: Indication) -> ClientState:
        return state

    def crashed(self, state: ClientState) -> ClientState:
        return state


class Claim(NamedTuple):
    process: ProcessId
    term: int
    settled: bool = False


class Scene(NamedTuple):
    up: tuple[ProcessId, ...]
    named: tuple[tuple[ProcessId, ProcessId], ...] = ()  # who takes whom for the leader
    claims: tuple[Claim, ...] = ()
    settled: ProcessId | None = None  # the leader that all have named and nobody has left yet
    winners: tuple[tuple[int, ProcessId], ...] = ()  # of the terms so far, where E1 is about terms
    called: frozenset[ProcessId] = frozenset()  # who wants an election


class ElectionObserver:
    def __init__(self, processes: tuple[ProcessId, ...], scope: str, called: bool) -> None:
        self.processes = processes
        self.scope = scope
        self.called = called  # from the beginning, where processes see to elections themselves

    def first(self) -> Knowledge:
        return Scene(
            tuple(sorted(self.processes)),
            called=frozenset(self.processes) if self.called else frozenset(),
        )

    def sees(self, knowledge: Knowledge, seen: ExternalEvent) -> tuple[Knowledge, Sequence[str]]:
        assert isinstance(knowledge, Scene)
        process = seen.process
        if isinstance(seen.value, Leader):
            return self._named(knowledge, process, seen.value.process, seen.value.term)
        if seen.kind == "request":
            return knowledge._replace(called=knowledge.called | {process}), ()
        if seen.kind == "crash":
            without = knowledge._replace(
                up=tuple(each for each in knowledge.up if each != process),
                named=tuple(each for each in knowledge.named if each[0] != process),
                claims=tuple(each for each in knowledge.claims if each.process != process),
                settled=None if knowledge.settled == process else knowledge.settled,
                called=knowledge.called
                if self.called
                else knowledge.called - {process},  # the call has died with the caller
            )
            return _settle(without), ()
        if seen.kind == "recover":
            return knowledge._replace(up=tuple(sorted((*knowledge.up, process)))), ()
        return knowledge, ()

    def _named(
        self, scene: Scene, process: ProcessId, leader: ProcessId | None, term: int
    ) -> tuple[Scene, Sequence[str]]:
        violated: list[str] = []
        named = {each: other for each, other in scene.named if each != process}
        if leader is not None:
            named[process] = leader
        settled = scene.settled
        if settled is not None and leader is not None and leader != settled:
            # Where only the end counts, who leaves a leader in between does no harm.
            if settled in scene.up and self.scope != "eventually":
                violated.append(E4.name)
            settled = None
        claims, winners = scene.claims, scene.winners
        if leader != process:
            claims = tuple(each for each in claims if each.process != process)
        elif (process, term) not in [(each.process, each.term) for each in claims]:
            others = tuple(each for each in claims if each.process != process)
            if self.scope == "ever" and not all(each.settled for each in others):
                violated.append(E1.name)
            if self.scope == "term":
                if dict(winners).get(term, process) != process:
                    violated.append(E1.name)
                winners = tuple(
                    sorted({**dict(winners), term: dict(winners).get(term, process)}.items())
                )
            claims = tuple(sorted((*others, Claim(process, term))))
        after = Scene(
            scene.up, tuple(sorted(named.items())), claims, settled, winners, scene.called
        )
        return (_settle(after) if leader is not None else after), violated

    def at_rest(self, knowledge: Knowledge) -> Sequence[str]:
        assert isinstance(knowledge, Scene)
        if not knowledge.called and not knowledge.named:
            return []
        named = dict(knowledge.named)
        leaders = set(named.values())
        checks = {
            E1.name: self.scope == "term" or len(knowledge.claims) <= 1,
            E2.name: all(each in named for each in knowledge.up),
            E3.name: len(leaders) <= 1 and leaders <= set(knowledge.up),
        }
        return [name for name, kept in checks.items() if not kept]

    def unfulfilled(self, knowledge: Knowledge) -> Sequence[tuple[str, ProcessId]]:
        assert isinstance(knowledge, Scene)
        if not knowledge.called:
            return []
        named = dict(knowledge.named)
        return [(E2.name, process) for process in knowledge.up if process not in named]

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


def _settle(scene: Scene) -> Scene:
    named = dict(scene.named)
    leaders = set(named.values())
    if len(named) != len(scene.up) or len(leaders) != 1:
        return scene
    [leader] = leaders
    if leader not in [each.process for each in scene.claims]:
        return scene
    claims = tuple(
        each._replace(settled=True) if each.process == leader else each for each in scene.claims
    )
    return scene._replace(claims=claims, settled=leader)
