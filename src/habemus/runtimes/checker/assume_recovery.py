"""Observers that assume recovery: the end of a run is not judged while a process is down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from habemus.core.model import ExternalEvent, Knowledge, Observer
from habemus.core.process import ProcessId


class _KnowledgeAndDown(NamedTuple):
    """The knowledge of an observer, and the processes that are down."""

    knowledge: Knowledge
    down: frozenset[ProcessId] = frozenset()


class AssumeRecovery:
    """An observer that does not judge the end of a run while a process is down."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer

    def first(self) -> Knowledge:
        return _KnowledgeAndDown(self.observer.first())

    def sees(self, knowledge: Knowledge, seen: ExternalEvent) -> tuple[Knowledge, Sequence[str]]:
        assert isinstance(knowledge, _KnowledgeAndDown)
        known, violated = self.observer.sees(knowledge.knowledge, seen)
        down = knowledge.down
        if seen.kind == "crash":
            down |= {seen.process}
        elif seen.kind == "recover":
            down -= {seen.process}
        return _KnowledgeAndDown(known, down), violated

    def at_rest(self, knowledge: Knowledge) -> Sequence[str]:
        assert isinstance(knowledge, _KnowledgeAndDown)
        return () if knowledge.down else self.observer.at_rest(knowledge.knowledge)

    def unfulfilled(self, knowledge: Knowledge) -> Sequence[tuple[str, ProcessId]]:
        assert isinstance(knowledge, _KnowledgeAndDown)
        return () if knowledge.down else self.observer.unfulfilled(knowledge.knowledge)

    def pending(self, knowledge: Knowledge) -> Knowledge:
        assert isinstance(knowledge, _KnowledgeAndDown)
        return knowledge._replace(knowledge=self.observer.pending(knowledge.knowledge))

    def progress(self, seen: ExternalEvent) -> Sequence[str]:
        return self.observer.progress(seen)

    def shown(self, seen: ExternalEvent) -> Sequence[str]:
        return self.observer.shown(seen)

    def about_the_end(self) -> Sequence[str]:
        return self.observer.about_the_end()


__all__ = ["AssumeRecovery"]
