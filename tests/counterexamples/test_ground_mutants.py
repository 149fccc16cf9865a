"""Planted bugs, one broken line each, in the first algorithms: the monitors must find every one of
them.

A check that lets a mutant pass is worth nothing, so each mutant is caught within a bounded number
of seeds, by the named property, and the healthy algorithm passes the very same runs.
"""

from collections.abc import Iterator

import pytest

from habemus.algorithms.mutex.central import Central, Grant, Release, Request
from habemus.algorithms.mutex.central_timeout import CentralTimeout
from habemus.algorithms.mutex.ricart_agrawala import HELD, RELEASED, WANTED, Reply, RicartAgrawala
from habemus.algorithms.mutex.ricart_agrawala import Request as Ask
from habemus.algorithms.mutex.token_ring import Token, TokenRing
from habemus.catalog.entries import entry_of
from habemus.core import MistakeInAlgorithm, ProcessId
from habemus.problems.mutex import Mutex
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute
from habemus.testing import CHECKS

SEEDS = 60


class GrantsWhileHeld(Central):
    """The coordinator forgets to look whether somebody is inside."""

    def is_free_and_wanted(self) -> bool:
        return bool(self.waiting)


class ForgetsTheQueue(Central):
    """The coordinator keeps only the last who asked."""

    def enqueue(self, sender: ProcessId, _: Request) -> None:
        self.waiting = [sender]


class NeverFrees(Central):
    def vacate(self, sender: ProcessId, _: Release) -> None:
        pass


class TakesBackNothing(CentralTimeout):
    """The timer runs out and nothing follows, so a crashed holder blocks the others."""

    def take_back(self, overdue: object) -> None:
        pass


class LosesTheTieBreak(RicartAgrawala):
    """Equal stamps: both think that the other goes first."""

    def reply_or_defer(self, sender: ProcessId, request: Ask) -> None:
        self.clock = max(self.clock, request.stamp) + 1
        if self.state == HELD or (self.state == WANTED and self.stamp < request.stamp):
            self.deferred.add(sender)
        else:
            self.send(Reply(self.clock), to=sender)


class RepliesWhileHeld(RicartAgrawala):
    def reply_or_defer(self, sender: ProcessId, request: Ask) -> None:
        self.clock = max(self.clock, request.stamp) + 1
        if self.state == WANTED and (self.stamp, self.me) < (request.stamp, sender):
            self.deferred.add(sender)
        else:
            self.send(Reply(self.clock), to=sender)


class ForgetsTheDeferred(RicartAgrawala):
    def release(self) -> None:
        self.clock += 1
        self.state = RELEASED
        self.deferred.clear()


class StampsWithoutReceiving(RicartAgrawala):
    """The clock only counts its own requests, so a later request can carry an earlier stamp: ME3
    goes.
    """

    def reply_or_defer(self, sender: ProcessId, request: Ask) -> None:
        if self.state == HELD or (
            self.state == WANTED and (self.stamp, self.me) < (request.stamp, sender)
        ):
            self.deferred.add(sender)
        else:
            self.send(Reply(0), to=sender)

    def count_reply(self, sender: ProcessId, reply: Reply) -> None:
        self.missing.discard(sender)


class DropsTheToken(TokenRing):
    """Whoever has no use for the token forgets to pass it on."""

    def pass_on(self) -> None:
        self.has_token = False


class EntersUnasked(TokenRing):
    """Still wants in after it has left, so it enters again although nobody asked."""

    def release(self) -> None:
        self.inside = False


class CopiesTheToken(TokenRing):
    """Passes the token on and keeps it."""

    def take_token(self, sender: ProcessId, _: Token) -> None:
        self.has_token = True
        if self.wanted:
            self.send(Token(), to=self.successor)


def runs(crash: bool = False) -> Iterator[Setup]:
    for seed in range(SEEDS):
        faults = (("crash", "1@Granted#1"),) if crash else ()
        workload = "burst" if seed % 2 else "steady"
        yield Setup(
            "mutant",
            3,
            seed=seed,
            workload=workload,
            requests=3,
            delay="exp:1ms",
            faults=faults,
            until="1s",
        )


def violations(algorithm: type[Mutex], crash: bool = False) -> dict[str, int]:
    """Which properties are violated, with the first seed that shows it."""
    found: dict[str, int] = {}
    for setup in runs(crash):
        try:
            report = execute(setup, entry=entry_of(algorithm), keep=False)
        except MistakeInAlgorithm:
            found.setdefault("mistake", setup.seed)
            continue
        for finding in report.findings:
            if finding.verdict.value == "violated":
                found.setdefault(finding.name, setup.seed)
    return found


@pytest.mark.parametrize(
    ("mutant", "healthy", "caught_by"),
    [
        (GrantsWhileHeld, Central, "ME1"),
        (ForgetsTheQueue, Central, "ME2-deadlock"),
        (NeverFrees, Central, "ME2-deadlock"),
        (LosesTheTieBreak, RicartAgrawala, "ME1"),
        (RepliesWhileHeld, RicartAgrawala, "ME1"),
        (ForgetsTheDeferred, RicartAgrawala, "ME2-deadlock"),
        (StampsWithoutReceiving, RicartAgrawala, "ME3"),
        (DropsTheToken, TokenRing, "ME2-deadlock"),
        (CopiesTheToken, TokenRing, "ME1"),
    ],
)
def test_mutant_is_caught(mutant: type[Mutex], healthy: type[Mutex], caught_by: str) -> None:
    assert caught_by in violations(mutant)
    claimed = entry_of(healthy).box.ensures
    assert not [name for name in violations(healthy) if name.partition("-")[0] in claimed]


def test_timeout_that_does_nothing_is_caught() -> None:
    assert "ME2-deadlock" in violations(TakesBackNothing, crash=True)
    assert "ME2-deadlock" not in violations(CentralTimeout, crash=True)


def test_entry_that_nobody_asked_for_is_caught() -> None:
    with pytest.raises(AssertionError, match="entered without a request"):
        CHECKS["claims"](entry_of(EntersUnasked))


def test_grant_is_not_a_release() -> None:
    """Values of different types are different, even without fields: a set of messages would lose
    one otherwise.
    """
    assert len({Grant(), Release(), Request()}) == 3
