"""Planted bugs, one broken line each, in the algorithms with a token: every one must be caught, and
the healthy ones pass the same runs.

Where a mutant survives the properties, the comment says why, and its cost must give it away.
"""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from habemus.algorithms.mutex.naimi_trehel import NaimiTrehel
from habemus.algorithms.mutex.naimi_trehel import Request as PathRequest
from habemus.algorithms.mutex.raymond import Raymond
from habemus.algorithms.mutex.raymond import Request as TreeRequest
from habemus.algorithms.mutex.raymond import Token as TreeToken
from habemus.algorithms.mutex.suzuki_kasami import Request, SuzukiKasami
from habemus.algorithms.mutex.suzuki_kasami import Token as QueueToken
from habemus.algorithms.mutex.token_ring_repair import (
    Heard,
    Inquiry,
    NotHeard,
    NotTaken,
    Settled,
    Silence,
    Taken,
    Token,
    TokenRingRepair,
)
from habemus.catalog.entries import entry_of
from habemus.core import MistakeInAlgorithm, ProcessId
from habemus.problems.mutex import Mutex
from habemus.runs.commands import run_of
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute

# Suzuki-Kasami.


class SendsTwoTokens(SuzukiKasami):
    """Serves the first two of the queue at once."""

    def pass_token(self) -> None:
        everybody = self.queue + self.newcomers()
        self.has_token = False
        for first in everybody[:2]:
            self.send(
                QueueToken(tuple(sorted(self.served.items())), tuple(everybody[2:])), to=first
            )


class LendsTheTokenWhileInside(SuzukiKasami):
    def is_idle_and_asked_for(self) -> bool:
        return self.has_token and bool(self.queue or self.newcomers())


class ForgetsWhomItServed(SuzukiKasami):
    """LN is not updated: the next request of a process that has been served is not LN + 1, and
    nobody sees it.
    """

    def release(self) -> None:
        self.inside = False
        self.wanted = False


class BelievesOldRequests(SuzukiKasami):
    """RN is whatever came last, so an old request that was overtaken by a newer one hides it."""

    def note_request(self, sender: ProcessId, request: Request) -> None:
        self.requested[sender] = request.number


# Raymond.


class GivesWhileInside(Raymond):
    def has_token_to_give(self) -> bool:
        return self.holder == self.me and bool(self.queue)


class KeepsPointingAtItself(Raymond):
    """Sends the token and believes to have it still."""

    def give_token(self) -> None:
        following = self.queue.pop(0)
        self.asked = False
        if following == self.me:
            self.inside = True
            self.granted()
        else:
            self.send(TreeToken(), to=following)


class KeepsOnlyTheLast(Raymond):
    def enqueue(self, sender: ProcessId, _: TreeRequest) -> None:
        self.queue = [sender]


class AsksOnlyOnce(Raymond):
    """Still believes to have asked when the token has come and gone."""

    def give_token(self) -> None:
        super().give_token()
        self.asked = True


# Naimi-Trehel.


class KeepsACopy(NaimiTrehel):
    def release(self) -> None:
        super().release()
        self.has_token = True


class ForgetsWhoIsNext(NaimiTrehel):
    def release(self) -> None:
        self.inside = False
        self.wanted = False


class RootForgetsWhoAsked(NaimiTrehel):
    """The old root does not point at the new one, so there are two roots."""

    def serve_or_forward(self, sender: ProcessId, request: PathRequest) -> None:
        if self.last is not None:
            self.send(request, to=self.last)
            self.last = request.requester
        elif self.wanted:
            self.next = request.requester
        else:
            self.pass_token(request.requester)


class NeverBecomesTheRoot(NaimiTrehel):
    """Asks and goes on pointing at whom it asked: the pointers make a circle."""

    def acquire(self) -> None:
        self.wanted = True
        if self.last is not None:
            self.send(PathRequest(self.me), to=self.last)


class DoesNotReverse(NaimiTrehel):
    """Forwards without turning its pointer round.  The old root still leads to the new one, so
    nothing breaks; the paths grow.
    """

    def serve_or_forward(self, sender: ProcessId, request: PathRequest) -> None:
        before = self.last
        super().serve_or_forward(sender, request)
        self.last = self.last if before is None else before


# The repaired ring.


class NeverGivesUpOnANeighbour(TokenRingRepair):
    def skip_with_token(self, missed: NotTaken) -> None:
        pass


class NeverLooksForTheToken(TokenRingRepair):
    def inquire(self, _: Silence) -> None:
        pass


class LosesItsInquiries(TokenRingRepair):
    def skip_with_inquiry(self, missed: NotHeard) -> None:
        pass


class StopsNoInquiry(TokenRingRepair):
    """The holder passes inquiries on, as if it had no token."""

    def may_be_here(self) -> bool:
        return False


class ForgetsTheTokenUnderWay(TokenRingRepair):
    """Answers for the token only until it is sent, so an inquiry can overtake it."""

    def may_be_here(self) -> bool:
        return self.has_token or self.absent


class ElectsEverybody(TokenRingRepair):
    """Sends every inquiry on, also while it asks itself: each starter makes its own token."""

    def stop_or_send_on(self, sender: ProcessId, inquiry: Inquiry) -> None:
        self.send(Heard(inquiry), to=sender)
        if self.may_be_here():
            return
        if inquiry.starter == self.me:
            self.make_token(inquiry)
        else:
            seen = Inquiry(inquiry.starter, inquiry.number, max(inquiry.newest, self.epoch))
            self.send_inquiry(seen, to=self.after(self.me))


class AnswersTooSoon(TokenRingRepair):
    """Takes part at once when it comes back, though its last token may still be on the way."""

    def on_recover(self) -> None:
        self.set_timer(Silence(), after=self.silence)


class RejoinsTooSoon(TokenRingRepair):
    """Waits for what it sent itself, but not for the token that found it down and is about to be
    sent past it.
    """

    def on_recover(self) -> None:
        super().on_recover()
        self.set_timer(Settled(), after=self.patience // 2)


class AcceptsOldTokens(TokenRingRepair):
    """Looks at no epoch."""

    def take_token(self, sender: ProcessId, token: Token) -> None:
        self.send(Taken(token), to=sender)
        self.epoch, self.hop = token.epoch, token.hop
        self.has_token = True
        self.passing = False
        self.asking = 0
        self.set_timer(Silence(), after=self.silence)


# The runs.


def calm(seed: int) -> Setup:
    workload = "burst" if seed % 2 else "steady"
    return Setup(
        "mutant",
        3 + seed % 3,
        seed=seed,
        workload=workload,
        requests=3,
        delay="exp:1ms",
        until="2s",
        events=5_000,
    )


def wild(seed: int) -> Setup:
    """Now and then a message is very late."""
    return run_of(
        f"habemus run mutant -n 3 --seed {seed} --workload burst --requests 10 --hold 10us "
        "--delay heavy:10us --until 2s --events 5000"
    )


def crash_inside(seed: int) -> Setup:
    """One crashes inside and never comes back."""
    return run_of(
        f"habemus run mutant -n 4 --seed {seed} --requests 2 --delay exp:1ms "
        f"--crash {1 + seed % 4}@Granted#1 --until 2s"
    )


def long_stays(seed: int) -> Setup:
    """Everybody asks for the token long before it can come."""
    options = ("patience=2100", "silence=700")
    return Setup(
        "mutant",
        5,
        seed=seed,
        options=options,
        workload="burst",
        requests=4,
        hold="3ms",
        delay="1..1000",
        until="2s",
        events=40_000,
    )


def crowd_of_starters(seed: int) -> Setup:
    """One crashes inside, and the others notice it at about the same time."""
    return replace(crash_inside(seed), options=("silence=3ms",), workload="burst", hold="10ms")


def forgotten_token(seed: int) -> Setup:
    """1 sends the token to 2 over a slow link, crashes and is back at once, before an inquiry of 3
    comes by and takes a fast link to 2.
    """
    return Setup(
        "mutant",
        3,
        seed=seed,
        options=("patience=2100", "silence=400"),
        asks=("2@10150us+1ms", "3@10150us+1ms"),
        delay="100us",
        faults=(
            ("slow", "1>2@10050us=1ms"),
            ("crash", "1@10300us"),
            ("recover", "1@10350us"),
            ("slow", "1>2@10400us=10us"),
            (
                "skew",
                "2=+2000000",
            ),  # so that it is not 2 that asks first, which would refuse the old token
        ),
        until="1s",
    )


def token_sent_past(seed: int) -> Setup:
    """1 is down for a moment and misses the token.  Its inquiries go round while 3 still waits
    before it sends the token past it to 2.
    """
    return run_of(
        f"habemus run mutant -n 3 --seed {seed} -o patience=2100 -o silence=400 --ask 1@1ms+10us "
        "--ask 1@13300us+1ms --ask 1@13300us+1ms --ask 2@12ms+3ms --delay 100us --crash 1@10150us "
        "--recover 1@10250us --slow '3>2@12100us=1ms' --slow '2>3@13050us=1ms' "
        "--slow '2>3@13180us=10us' --until 1s"
    )


def stormy(seed: int) -> Setup:
    """Crashes and recoveries within what the repaired ring assumes; the last process stays up, so
    that the run has an end.

    Nobody stays inside for as long as the shortest crash lasts, so a release never comes to a
    process that has forgotten its entry.
    """
    draw = random.Random(seed)
    size = draw.randrange(3, 5)
    hold, shortest = draw.choice(((60, 100), (1_500, 1_600)))
    faults = []
    for process in range(1, size):
        moment = draw.randrange(1_000)
        for _ in range(draw.randrange(4)):
            moment += draw.randrange(300, 6_000)
            faults.append(("crash", f"{process}@{moment}us"))
            moment += draw.choice(
                (draw.randrange(shortest, shortest + 1_000), draw.randrange(shortest, 6_000))
            )
            faults.append(("recover", f"{process}@{moment}us"))
    return Setup(
        "mutant",
        size,
        seed=seed,
        options=("patience=2100", f"silence={draw.choice((1_500, 5_000, 15_000))}"),
        workload="burst",
        requests=13,
        hold=f"{hold}us",
        delay=draw.choice(("1ms", "200..1000", "1..1000")),
        faults=tuple(faults),
        until="2s",
        events=40_000,
    )


def verdict(algorithm: type[Mutex], setup: Setup) -> tuple[str, ...]:
    """What went wrong: the violated properties, or that the run came to no end."""
    try:
        report = execute(setup, entry=entry_of(algorithm), keep=False)
    except MistakeInAlgorithm:
        return ("mistake",)
    return tuple(report.violated) or (() if report.verdict.value == "holds" else ("stuck",))


def test_repaired_ring_weathers_the_storm() -> None:
    """Hundreds of crashes and recoveries at random moments, and every process that is up gets in,
    one at a time.
    """
    crashes = 0
    for seed in range(300):
        setup = stormy(seed)
        report = execute(setup, entry=entry_of(TokenRingRepair), keep=False)
        assert report.verdict.value == "holds", f"seed {seed}: {report.why}"
        moments = [int(text.partition("@")[2].removesuffix("us")) for _, text in setup.faults]
        assert report.ending.time > max(moments, default=0)
        crashes += sum(kind == "crash" for kind, _ in setup.faults)
    assert crashes > 900


@pytest.mark.parametrize(
    ("mutant", "healthy", "runs", "caught_as"),
    [
        (SendsTwoTokens, SuzukiKasami, calm, "ME1"),
        (LendsTheTokenWhileInside, SuzukiKasami, calm, "ME1"),
        (ForgetsWhomItServed, SuzukiKasami, calm, "ME2-deadlock"),
        (BelievesOldRequests, SuzukiKasami, wild, "ME2-deadlock"),
        (GivesWhileInside, Raymond, calm, "ME1"),
        (KeepsPointingAtItself, Raymond, calm, "ME1"),
        (KeepsOnlyTheLast, Raymond, calm, "ME2-deadlock"),
        (AsksOnlyOnce, Raymond, calm, "ME2-deadlock"),
        (KeepsACopy, NaimiTrehel, calm, "ME1"),
        (ForgetsWhoIsNext, NaimiTrehel, calm, "ME2-deadlock"),
        (RootForgetsWhoAsked, NaimiTrehel, calm, "ME1"),
        (NeverBecomesTheRoot, NaimiTrehel, calm, "stuck"),
        (NeverLooksForTheToken, TokenRingRepair, crash_inside, "ME2-deadlock"),
        (LosesItsInquiries, TokenRingRepair, crash_inside, "ME2-deadlock"),
        (NeverGivesUpOnANeighbour, TokenRingRepair, stormy, "ME2-deadlock"),
        (StopsNoInquiry, TokenRingRepair, long_stays, "ME1"),
        (ForgetsTheTokenUnderWay, TokenRingRepair, long_stays, "ME1"),
        (ElectsEverybody, TokenRingRepair, crowd_of_starters, "ME1"),
        (AnswersTooSoon, TokenRingRepair, forgotten_token, "ME1"),
        (RejoinsTooSoon, TokenRingRepair, token_sent_past, "ME1"),
    ],
)
def test_mutant_is_caught(
    mutant: type[Mutex], healthy: type[Mutex], runs: Callable[[int], Setup], caught_as: str
) -> None:
    for seed in range(150):
        assert verdict(healthy, runs(seed)) == ()
        if caught_as in verdict(mutant, runs(seed)):
            return
    pytest.fail(f"{mutant.__name__} was not caught")


def last_moment_with_two_inside(algorithm: type[Mutex], seed: int) -> int:
    """1 is paused inside for 40 ms, so there is a second token for a while: when do two stand
    inside for the last time?
    """
    setup = run_of(
        f"habemus run mutant -n 4 --seed {seed} -o patience=3ms -o silence=10ms --workload burst "
        "--requests 30 --hold 1ms --delay 500..1000 --pause '1@Granted#2+40ms' --until 2s"
    )
    report = execute(setup, entry=entry_of(algorithm))
    assert report.trace is not None
    assert report.violated == ["ME1"]
    inside: set[ProcessId] = set()
    last = resumed = 0
    for event in report.trace.events:
        if event.name == "Granted":
            inside.add(event.process)
        elif event.name == "release":
            inside.discard(event.process)
        elif event.kind == "resume":
            resumed = event.time
        if len(inside) > 1:
            last = event.time
    return last - resumed


def test_an_old_token_dies_by_its_epoch() -> None:
    """No timeout can keep a slow process from being taken for dead; the epoch sees to it that the
    mistake ends.
    """
    healthy = [last_moment_with_two_inside(TokenRingRepair, seed) for seed in range(10)]
    mutant = [last_moment_with_two_inside(AcceptsOldTokens, seed) for seed in range(10)]
    assert max(healthy) < 10_000
    assert max(mutant) > 50_000  # not each of them: two tokens that meet at one process become one


def messages_of(algorithm: type[Mutex], size: int) -> float:
    draw = random.Random(size)
    asks = tuple(f"{draw.randrange(1, size + 1)}@{100 * turn}ms+1ms" for turn in range(20 * size))
    return float(
        execute(Setup("mutant", size, asks=asks), entry=entry_of(algorithm), keep=False).costs[
            "messages_per_entry"
        ]
    )


def test_paths_that_are_not_reversed_grow() -> None:
    """No property is violated, so only the cost tells."""
    assert messages_of(DoesNotReverse, 32) > 1.5 * messages_of(NaimiTrehel, 32)
