"""The window of a client: how many of its requests may be unanswered at a time.

Every node serves many clients, and all share the connections between nodes, the disks and the
coordinator.  What one client has under way there is what others wait behind.  So it is bounded, as
the data of a sender is by the congestion window of TCP: the bound grows by one with each prompt
answer, and is halved when answers take longer than they have to.  What exceeds it waits at the
client's own node.

A request may remain unanswered because another client holds the lock.  After `PATIENCE_US` it does
not count any more.
"""

from __future__ import annotations

from typing import Final

NARROWEST: Final = 16
WIDEST: Final = 256
PROMPT_US: Final = 20_000
"""An answer is prompt if it takes at most so much more than twice the quickest one."""
PATIENCE_US: Final = 200_000


class RequestWindow:
    """The unanswered requests of one client.  Times are microseconds."""

    def __init__(self) -> None:
        self.size = NARROWEST
        self._sent: dict[object, int] = {}  # when each was sent, in this order
        self._quickest_us = PATIENCE_US
        self._halved_us = 0

    def room(self, now_us: int) -> int:
        """Return how many more may be sent now."""
        while self._sent:
            oldest = next(iter(self._sent))
            if now_us - self._sent[oldest] < PATIENCE_US:
                break
            del self._sent[oldest]
        return self.size - len(self._sent)

    def send(self, what: object, now_us: int) -> None:
        self._sent[what] = now_us

    def answer(self, what: object, now_us: int) -> None:
        """Note that a request was answered, if it still counts."""
        sent_us = self._sent.pop(what, None)
        if sent_us is None:
            return
        took_us = now_us - sent_us
        self._quickest_us = min(self._quickest_us, took_us)
        if took_us <= 2 * self._quickest_us + PROMPT_US:
            self.size = min(self.size + 1, WIDEST)
        elif sent_us >= self._halved_us:  # once for all that were under way then
            self.size = max(self.size // 2, NARROWEST)
            self._halved_us = now_us

    def withdraw(self, what: object) -> None:
        self._sent.pop(what, None)
