"""Parameters of a torture, and the claims of the algorithm's card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from habemus.catalog.entries import find
from habemus.core.assumptions import Assumptions, Links, Timing
from habemus.core.words import did_you_mean
from habemus.deployment.services import LINKS, RAW, links_for, live_options, services_of
from habemus.problems.fencing import GrantedWithToken
from habemus.problems.mutex import Mutex
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.peers.membership import irreplaceable
from habemus.torture.judge import TortureClaim
from habemus.torture.schedule import (
    DAMAGE_KINDS,
    FEWEST_REPLACING,
    GROUPS,
    KINDS,
    MEMBER_KINDS,
    NODE_ENDS,
    OF_THE_CLUSTER,
    Size,
)

LOCKS = "locks"
SHORTEST_THINK_S = 0.006
MOST_GRANTS = 400_000
"""Approximate limit of grants in a torture: the judge keeps all of them in memory."""
USUAL = ("kill", "stop-node", "pause", "cut", "close-client")


class BadPlan(ValueError):
    """Invalid parameters of a torture."""


def tolerated(assumes: Assumptions, over: str) -> set[str]:
    """Return the kinds of fault that an algorithm tolerates with these links under it."""
    found = set(KINDS)
    if not assumes.tolerates_restarts:
        found -= set(NODE_ENDS)
    if assumes.timing is Timing.SYNCHRONOUS:  # a link that is repaired later breaks the bound
        found -= {"pause-node", "pause-client", "cut-client", "delay", "cut", "cut-one-way", "drop"}
    is_repaired = bool(over) and not (assumes.fifo and over == "perfect")
    if assumes.links is Links.RELIABLE and not is_repaired:
        found -= {"cut", "cut-one-way", "drop", *NODE_ENDS}  # connections end with a node
    return found


def excuses(assumes: Assumptions) -> tuple[str, ...]:
    """Return the kinds of fault that excuse two leases on one lock at a time, whatever the clients.

    Where ME1 holds without pauses, only the two clients can be an excuse, if one was paused or cut
    off.
    """
    return () if "ME1" in assumes.holds_without_pauses else OF_THE_CLUSTER


def kinds_of(words: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds of fault that the words name; `kill` is `kill-node` and `kill-client`."""
    found: list[str] = []
    for word in words:
        if word not in GROUPS and word not in KINDS:
            known = [*GROUPS, *(kind for kind in KINDS if kind not in GROUPS)]
            raise BadPlan(f"unknown fault {word!r}; {did_you_mean(word, known)}")
        found += GROUPS.get(word, (word,))
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Plan:
    algorithm: str
    nodes: int
    clients: int
    seconds: float
    seed: int
    kinds: tuple[str, ...]
    options: tuple[str, ...]
    over: str
    locks: int
    claim: TortureClaim
    engine: str = ""  # whose servers take the place of nodes

    @property
    def lease_s(self) -> float:
        return self.claim.lease_s

    @property
    def think_s(self) -> float:
        """Longest pause of a client between two requests: a long torture has slower clients, so
        that its history fits in memory.
        """
        return max(SHORTEST_THINK_S, 2 * self.seconds * self.clients / MOST_GRANTS)

    @property
    def size(self) -> Size:
        return Size(
            self.nodes, self.clients, self.lease_s, self.kinds, spares_waking=self.claim.excludes
        )

    @property
    def names(self) -> list[str]:
        """Names of the locks."""
        return [f"lock-{number}" for number in range(1, self.locks + 1)]

    def plain(self) -> dict[str, object]:
        return {
            "algorithm": None if self.engine else self.algorithm,
            "engine": self.engine or None,
            "nodes": self.nodes,
            "clients": self.clients,
            "locks": self.locks,
            "seed": self.seed,
            "kinds": list(self.kinds),
            "beyond_card": list(self.claim.beyond),
            "options": list(self.options),
            "over": self.over or RAW,
            "fencing": self.claim.is_fenced and self.claim.has_tokens,
            "lease_s": self.lease_s or None,
        }

    def warnings(self) -> list[str]:
        found = []
        if self.claim.beyond:
            found.append(
                f"the card of {self.algorithm} does not claim to tolerate"
                f" {', '.join(self.claim.beyond)}"
            )
        if self.claim.is_fenced and not self.claim.has_tokens:
            found.append(
                f"{self.algorithm} has no fencing tokens, so the referee cannot check them"
            )
        return found


def plan_of(
    algorithm: str,
    *,
    nodes: int,
    clients: int,
    seconds: float,
    seed: int,
    faults: Sequence[str] = (),
    options: Sequence[str] = (),
    over: str | None = None,
    locks: int = 1,
    is_fenced: bool = True,
) -> Plan:
    """Return a plan.  Default faults: the usual ones that the card claims to tolerate."""
    entry = find(_from_anywhere(algorithm))
    if not issubclass(entry.algorithm, Mutex):
        raise BadPlan(f"{algorithm} is not a mutual exclusion algorithm; torture tests locks")
    if over is not None and over not in (*LINKS, RAW):
        raise BadPlan(f"unknown links {over!r}; use {', '.join(LINKS)} or {RAW}")
    over = links_for(entry.assumes, over)
    allowed = tolerated(entry.assumes, over)
    chosen = live_options(entry.name, options)
    services = services_of(
        LOCKS, entry.name, chosen, over, range(1, nodes + 1)
    )  # as a node would make them
    lease_s = _lease_s(services[-1])
    if not lease_s:  # the lock ends with the connection
        allowed.discard("close-client")
    kinds = (
        kinds_of(faults) if faults else tuple(kind for kind in kinds_of(USUAL) if kind in allowed)
    )
    if not kinds:
        raise BadPlan(
            f"the card of {algorithm} claims to tolerate none of {', '.join(USUAL)}; choose faults"
            " with --faults"
        )
    _check_replacing(algorithm, services, nodes, kinds)
    claim = TortureClaim(
        excludes=entry.claims("ME1") and not lease_s,
        progresses=entry.claims("ME2"),
        has_tokens=any(issubclass(each, GrantedWithToken) for each in entry.algorithm.indications),
        is_fenced=is_fenced,
        faults=kinds,
        beyond=tuple(kind for kind in kinds if kind not in allowed),
        lease_s=lease_s,
        excuses=excuses(entry.assumes),
    )
    return Plan(entry.name, nodes, clients, seconds, seed, kinds, chosen, over, locks, claim)


def _from_anywhere(algorithm: str) -> str:
    """Make the path of a user's file absolute: the nodes have another working folder."""
    path, colon, name = algorithm.rpartition(":")
    return f"{Path(path).absolute()}:{name}" if colon and path.endswith(".py") else algorithm


def _check_replacing(
    algorithm: str, services: Sequence[Service], nodes: int, kinds: Sequence[str]
) -> None:
    """Raise BadPlan for members that cannot change, and lost memories that cannot be replaced."""
    if not set(MEMBER_KINDS).isdisjoint(kinds) and not all(each.grows for each in services):
        raise BadPlan(
            f"{algorithm} has fixed members, and {' and '.join(MEMBER_KINDS)} change them; choose"
            " an algorithm whose name ends with -members"
        )
    lost = [kind for kind in (*DAMAGE_KINDS, "member-replace") if kind in kinds]
    if lost and nodes < FEWEST_REPLACING:
        raise BadPlan(
            f"{', '.join(lost)}: at least {FEWEST_REPLACING} nodes are needed to replace a lost"
            f" memory, and --nodes is {nodes}; disk-full and member-swap do not need that"
        )
    if lost and any(irreplaceable(services, node) for node in range(1, nodes + 1)):
        raise BadPlan(
            f"{algorithm} cannot replace a node that lost its memory, which {', '.join(lost)}"
            " need; disk-full does not"
        )


def _lease_s(service: Service) -> float:
    plan = next(iter(service.system.plans.values()))
    return float(getattr(plan, "lease", 0) or 0) / 1e6
