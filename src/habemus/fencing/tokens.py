"""A fencing token: one whole number that only grows, over crashes, restarts and changes of the
coordinator.

The term of the coordinator is in the upper bits and its count of grants in the lower 32, so that
tokens compare as plain numbers do.  It fits in 63 bits, and so into a column of any database.
"""

from __future__ import annotations

LARGEST = (1 << 63) - 1


class StaleToken(Exception):
    """Refused: the resource has accepted a write with a newer token, so the lock of this one was
    lost before.
    """

    def __init__(self, token: int, newest: int) -> None:
        super().__init__(token, newest)
        self.token = token
        self.newest = newest

    def __str__(self) -> str:
        return (
            f"token {self.token} is stale: {self.newest} has been accepted, so the lock was lost"
            " and another has it or had it"
        )


def check_token(token: int | None) -> int:
    """The token, if it is one.  What is not must never be taken for the smallest, or the largest."""
    if token is None:
        raise ValueError("this lock gives no token: its algorithm has none")
    if type(token) is not int:
        raise TypeError(f"a token is a whole number, not {token!r}")
    if not 0 <= token <= LARGEST:
        raise ValueError(f"a token is at least 0 and has at most 63 bits, unlike {token}")
    return token


def token_from(text: str | None) -> int:
    """A token as it is written in a header or in HABEMUS_TOKEN: decimal digits and nothing else."""
    if not text:
        raise ValueError("there is no token; whoever writes has to show the one of its lock")
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST))):
        raise ValueError(
            f"{text[:40]!r} is not a token; one has up to {len(str(LARGEST))} decimal digits"
        )
    return check_token(int(text))


def admit(token: int, newest: int | None) -> None:
    """The rule of every guard: not older than the newest.  The same one again is the same holder's
    next write.
    """
    if newest is not None and token < newest:
        raise StaleToken(token, newest)
