"""Fencing tokens: whole numbers that grow, across crashes, restarts and changes of leader.

A token is made of the term of the coordinator and its count of grants: term * 2**32 + count.  So
tokens compare as plain numbers.  A term has at most 2**32 - 1 tokens; then the coordinator begins
the next one.  A token has at most 63 bits and fits into an integer column of any database.  For
people it is written as term and count: the third grant of term 2 has token 2.3, the number
8589934595.
"""

from __future__ import annotations

LARGEST = (1 << 63) - 1


class StaleToken(Exception):
    """Refused: the resource has accepted a newer token, so the lock of this token was lost.

    token: the token that was refused.
    newest: the newest token that the resource has accepted.
    """

    def __init__(self, token: int, newest: int) -> None:
        super().__init__(token, newest)
        self.token = token
        self.newest = newest

    def __str__(self) -> str:
        return (
            f"token {token_text(self.token)} is stale: the resource has accepted token"
            f" {token_text(self.newest)}, so the lock was lost; acquire it again"
        )


def check_token(token: int | None) -> int:
    """Return the token if it can be one; else raise `ValueError` or `TypeError`.

    A resource that keeps tokens by itself calls this first: a bad value must not count as the
    smallest or the largest.
    """
    if token is None:
        raise ValueError("token is None: the algorithm of this lock has no fencing tokens")
    if type(token) is not int:
        raise TypeError(f"a token is an int, not {token!r}")
    if not 0 <= token <= LARGEST:
        raise ValueError(
            f"token {token} is out of range: a token is at least 0 and has at most 63 bits"
        )
    return token


def token_from(text: str | None) -> int:
    """Parse a token from a header or HABEMUS_TOKEN: decimal digits and nothing else.

    `ValueError` if the text is anything else, or None.
    """
    if not text:
        raise ValueError("no token given; send the token of the lock with each write")
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST))):
        raise ValueError(
            f"{text[:40]!r} is not a token; a token has up to {len(str(LARGEST))} decimal digits"
        )
    return check_token(int(text))


def token_text(token: int) -> str:
    """Return the token as people read it: 2.3 for the third grant of term 2.

    A number without a term, from a counter of your own, is written as it is.
    """
    return f"{token >> 32}.{token & 0xFFFFFFFF}" if token >> 32 else str(token)


def admit(token: int, newest: int | None) -> None:
    """Raise StaleToken for a token smaller than the newest.

    An equal token is the next write of the same holder.
    """
    if newest is not None and token < newest:
        raise StaleToken(token, newest)
