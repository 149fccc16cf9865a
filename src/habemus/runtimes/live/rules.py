"""Access rules for clients: the `[[rules]]` of a cluster.toml.

    [[rules]]
    who = ["alice", "@ci"]          # clients
    may = ["lock"]                  # lock, watch, force, members
    names = ["reports/*"]           # of locks

Without rules every client may do everything.  Once there is a rule, what no rule allows is refused.

A client is known by the name in its certificate (`client-alice.office` is alice), by the secret
that it has proved (`@secret` is that of the cluster, `@ci` the secret `ci` under [secrets]), or by
the local socket (`@socket`).  A client may be known by several of them; one that is allowed
suffices.  `"*"` is every client.

A name is compared code point by code point, as locks are: "Reports/x" is another lock than
"reports/x", and "reports/../x" has nothing to do with "x".  A pattern is a name, or the beginning
of names followed by `*`, which stands for at least one character, "/" included.  Elections have the
names `leader/NAME`, semaphores `semaphore/NAME`.

`lock` includes to watch the same locks.  `force` is to release a lock of another client and to call
an election.  `members` is to see, add, remove and replace nodes, whatever the names are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LOCK, WATCH, FORCE, MEMBERS = "lock", "watch", "force", "members"
ACTIONS = (LOCK, WATCH, FORCE, MEMBERS)
STATUS = "status"
"""The status of a node; it lists the locks that the client may watch."""
ANY = "*"
BY_SOCKET = "@socket"
BY_SECRET = "@secret"
INCLUDED = {
    LOCK: (LOCK,),
    WATCH: (WATCH, LOCK),
    FORCE: (FORCE,),
    MEMBERS: (MEMBERS,),
    STATUS: (WATCH, LOCK, MEMBERS),
}
"""Permissions of which each suffices for an action."""


class AccessRule(NamedTuple):
    """One rule: who may do what with which locks."""

    who: tuple[str, ...]
    may: tuple[str, ...]
    names: tuple[str, ...]


class AccessRules:
    """The rules of a cluster."""

    def __init__(self, rules: Sequence[AccessRule]) -> None:
        self._rules = tuple(rules)

    def allow(self, who: Iterable[str], action: str, name: str) -> bool:
        """Return whether a client that is known by these words may do this with a lock."""
        return any(
            is_matched(pattern, name) for rule in self._of(who, action) for pattern in rule.names
        )

    def allow_some(self, who: Iterable[str], action: str) -> bool:
        """Return whether there are locks with which the client may do this."""
        return any(True for _ in self._of(who, action))

    def _of(self, who: Iterable[str], action: str) -> list[AccessRule]:
        known = {*who, ANY}
        return [
            rule
            for rule in self._rules
            if not known.isdisjoint(rule.who) and not set(INCLUDED[action]).isdisjoint(rule.may)
        ]


def is_matched(pattern: str, name: str) -> bool:
    """Return whether a pattern stands for a name."""
    if pattern.endswith(ANY):
        start = pattern.removesuffix(ANY)
        return len(name) > len(start) and name.startswith(start)
    return name == pattern


def pattern_error(pattern: str) -> str:
    """Return why a text cannot be a pattern of names; empty if it can."""
    if not pattern or not pattern.isprintable():
        return "it must be printable and not empty"
    if ANY in pattern[:-1]:
        return f"{ANY} may stand only at the end, for the rest of a name"
    return ""


def is_client_name(name: str) -> bool:
    """Return whether a client certificate may have this name; rules ignore any other."""
    return re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", name) is not None


def who_error(who: str, secrets: Iterable[str]) -> str:
    """Return why a text cannot name clients; empty if it can."""
    if who in (ANY, BY_SOCKET, BY_SECRET):
        return ""
    if who.startswith("@"):
        known = ", ".join([BY_SOCKET, BY_SECRET, *(f"@{name}" for name in secrets)])
        return "" if who[1:] in secrets else f"there is no such secret; there are {known}"
    if not is_client_name(who):
        return "write the name in a client certificate: lower-case letters, digits and hyphens"
    return ""
