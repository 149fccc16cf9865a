"""Observers that judge events and not the end of a run.

An abstract component need not do anything, so a search over it decides safety only.
"""

from __future__ import annotations

from collections.abc import Sequence

from habemus.core.model import ExternalEvent, Knowledge, Observer
from habemus.core.process import ProcessId


class SafetyOnly:
    """An observer that judges what happens, and not what never happens."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer

    def first(self) -> Knowledge:
        return self.observer.first()

    def sees(self, knowledge: Knowledge, seen: ExternalEvent) -> tuple[Knowledge, Sequence[str]]:
        return self.observer.sees(knowledge, seen)

    def at_rest(self, knowledge: Knowledge) -> Sequence[str]:
        return ()

    def unfulfilled(self, knowledge: Knowledge) -> Sequence[tuple[str, ProcessId]]:
        return ()

    def pending(self, knowledge: Knowledge) -> Knowledge:
        return ()

    def progress(self, seen: ExternalEvent) -> Sequence[str]:
        return self.observer.progress(seen)

    def shown(self, seen: ExternalEvent) -> Sequence[str]:
        return self.observer.shown(seen)

    def about_the_end(self) -> Sequence[str]:
        return ()


__all__ = ["SafetyOnly"]
