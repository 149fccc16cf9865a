"""Counts of messages and bytes of a run; a message of a process to itself costs nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from habemus.core.events import Event
from habemus.core.values import Value, size_of

SIZES_KEPT = 100_000


class Sizes:
    """Encoded sizes of messages, computed once for each."""

    def __init__(self) -> None:
        self._known: dict[Value, int] = {}

    def of(self, event: Event) -> int:
        if not isinstance(event.value, Value):
            return len(event.line())
        size = self._known.get(event.value)
        if size is None:
            if len(self._known) > SIZES_KEPT:
                self._known.clear()
            size = self._known[event.value] = size_of(event.value)
        return size


@dataclass
class Traffic:
    messages: int = field(default=0, init=False)
    bytes: int = field(default=0, init=False)
    by_name: Counter[str] = field(default_factory=Counter, init=False)

    _sizes: Sizes = field(default_factory=Sizes, init=False, repr=False)

    def observe(self, event: Event) -> None:
        if event.kind == "send" and event.peer != event.process:
            self.messages += 1
            self.bytes += self._sizes.of(event)
            self.by_name[event.name] += 1
