"""Planted bugs, one broken line each, in the elections of complete graphs and the detectors below
them: each is caught.

Every mutant is run in setups in which the healthy algorithm keeps everything, and must show there
something else than that.
"""

from collections.abc import Callable
from dataclasses import replace

from tests.counterexamples.running import assert_caught, each_of

from habemus.algorithms.detectors.adaptive import Adaptive
from habemus.algorithms.detectors.eventually_perfect import Answer, EventuallyPerfect, Interval
from habemus.algorithms.detectors.heartbeat import Alive, Heartbeat, Silence
from habemus.algorithms.detectors.phi_accrual import PhiAccrual
from habemus.algorithms.election.bully import Bully, Coordinator, Elect, Ok, Unfinished
from habemus.algorithms.election.bully_stable import BullyStable
from habemus.algorithms.election.omega import Omega
from habemus.algorithms.election.omega_recovery import Heartbeat as RecoveryHeartbeat
from habemus.algorithms.election.omega_recovery import OmegaRecovery
from habemus.algorithms.election.terms import (
    LEADING,
    SOUNDING,
    STANDING,
    Backing,
    Candidacy,
    Sounding,
    Terms,
    Vote,
)
from habemus.algorithms.election.terms import Heartbeat as TermHeartbeat
from habemus.catalog.entries import entry_of
from habemus.core import ProcessId
from habemus.core.process import Process
from habemus.problems.detector import Restored, Suspected
from habemus.runs.commands import run_of
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute

SHORT = ("timeout=5ms", "patience=15ms")

# The bully.


class AnswersAndRests(Bully):
    """Whoever answers Ok leaves it at that, as in the listing of the notes."""

    def bully_the_smaller(self, sender: ProcessId, elect: Elect) -> None:
        if self.outranks(elect.key, sender):
            self.send(Ok(), to=sender)


class WaitsForEver(Bully):
    """After an Ok, no second try, as in the listing of the notes."""

    def call_again(self, _: Unfinished) -> None:
        pass


class ObeysAnybody(Bully):
    """Follows a coordinator that is smaller than itself."""

    def obey_or_object(self, sender: ProcessId, coordinator: Coordinator) -> None:
        self.follow(sender)


class ComesBackQuietly(Bully):
    """Calls no election on recovery, and so knows of no leader."""

    def on_recover(self) -> None:
        pass


class DoubtsAtOnce(Bully):
    """Forgets that the leader has just announced itself: the messages that cross multiply."""

    def follow(self, leader: ProcessId) -> None:
        super().follow(leader)
        self.is_fresh = False


class IgnoresOk(Bully):
    """Makes itself leader although a larger one has answered."""

    def stand_back(self, sender: ProcessId, _: Ok) -> None:
        pass


class TellsNobody(Bully):
    def announce(self) -> None:
        self.follow(self.me)


class ForgetsItsRestarts(BullyStable):
    """The count of restarts is not in the key."""

    def key(self) -> tuple[int, ...]:
        return self.key_of(self.me)


# Terms.


class VotesTwice(Terms):
    def vote_once(self, sender: ProcessId, candidacy: Candidacy) -> None:
        if self.is_current(candidacy.term):
            self.send(Vote(self.term), to=sender)


class ForgetsItsVote(Terms):
    """The vote is kept in memory only."""

    voted: ProcessId | None = None

    def vote_once(self, sender: ProcessId, candidacy: Candidacy) -> None:
        if (
            self.is_current(candidacy.term)
            and self.voted in (None, sender)
            and self.stage != STANDING
            and self.stage != LEADING
        ):
            self.voted = sender
            self.send(Vote(self.term), to=sender)

    def adopt(self, term: int) -> None:
        super().adopt(term)
        self.voted = None


class ForgetsItsTerm(Terms):
    """After a crash it counts terms from the beginning."""

    def on_recover(self) -> None:
        self.term = 0
        self.voted_for = None
        super().on_recover()


class HalfIsEnough(Terms):
    def has_majority(self) -> bool:
        return 2 * self.weight_of(self.supporters) >= self.weight_of((self.me, *self.peers))


class CountsOldVotes(Terms):
    """A vote of any term counts for the present candidacy."""

    def count_vote(self, sender: ProcessId, vote: Vote) -> None:
        if self.stage == STANDING:
            self.supporters.add(sender)


class KeepsOldSupporters(Terms):
    """What was given to the sounding counts as votes."""

    def stand(self) -> None:
        supporters = set(self.supporters)
        super().stand()
        self.supporters |= supporters


class BacksAnybody(Terms):
    """Backs a pre-vote although it hears from a leader."""

    def back_unless_led(self, sender: ProcessId, sounding: Sounding) -> None:
        if sounding.next_term > self.term:
            self.send(Backing(sounding.next_term), to=sender)


class FollowsOldTerms(Terms):
    """Heartbeats of an older term are obeyed."""

    def stay_loyal(self, sender: ProcessId, heartbeat: TermHeartbeat) -> None:
        self.is_current(heartbeat.term)
        if self.stage != LEADING:
            self.follow(sender)


class NeverGivesUp(Terms):
    """A process whose sounding fails does not try again."""

    def call(self) -> None:
        if self.stage != SOUNDING:
            super().call()


class LeavesTheLeaderInTheDark(Terms):
    """A heartbeat of an older term is dropped without an answer, and the one that drops it never
    follows anybody again.
    """

    def stay_loyal(self, sender: ProcessId, heartbeat: TermHeartbeat) -> None:
        if heartbeat.term >= self.term:
            super().stay_loyal(sender, heartbeat)


# Detectors.


class NeverGrows(EventuallyPerfect):
    def judge_all(self, interval: Interval) -> None:
        super().judge_all(interval)
        self.growth = 0


class NeverSuspects(EventuallyPerfect):
    def note_answer(self, sender: ProcessId, _: Answer) -> None:
        self.answered.add(sender)

    def judge_all(self, interval: Interval) -> None:
        self.answered = set(self.peers)
        super().judge_all(interval)


class NeverRestores(EventuallyPerfect):
    def judge_all(self, interval: Interval) -> None:
        self.answered -= self.suspected
        super().judge_all(interval)


class ForgetsToWait(Heartbeat):
    """The timer is not set again by a heartbeat."""

    def hear(self, sender: ProcessId, alive: Alive) -> None:
        if sender in self.suspected:
            super().hear(sender, alive)


class SuspectsInSilence(Heartbeat):
    """Suspects and tells nobody."""

    def suspect(self, silence: Silence) -> None:
        self.suspected.add(silence.of)


class ExpectsTheLastOne(Adaptive):
    """The next heartbeat is expected when the last one came."""

    def note_arrival(self, sender: ProcessId, number: int) -> None:
        super().note_arrival(sender, number)
        self.deadlines[sender] -= self.period


class WaitsForTheImpossible(PhiAccrual):
    """The deviation grows with the silence that it is to judge."""

    def note_arrival(self, sender: ProcessId, number: int) -> None:
        super().note_arrival(sender, number)
        self.deadlines[sender] = self.now * 1_000


# Elections on them.


class NeverTrustsAgain(Omega):
    def trust_again(self, event: Restored) -> None:
        pass


class TrustsTheDead(Omega):
    def distrust(self, event: Suspected) -> None:
        pass


class OnlyReplaces(OmegaRecovery):
    """The rule of the notes: a heartbeat changes an entry, and never adds one."""

    def add_candidate(self, sender: ProcessId, heartbeat: RecoveryHeartbeat) -> None:
        if sender in self.candidates:
            super().add_candidate(sender, heartbeat)


class CountsNoIncarnation(OmegaRecovery):
    def on_start(self) -> None:
        self.incarnation = 1
        self.begin_interval()


class RemembersTheGone(OmegaRecovery):
    """Candidates of earlier intervals are kept."""

    def begin_interval(self) -> None:
        kept = dict(self.candidates)
        super().begin_interval()
        self.candidates = kept | self.candidates


CALM = Setup("bully", 5, options=SHORT, asks=("1@1ms",))
LEADER_DIES = Setup(
    "bully", 5, options=SHORT, asks=("5@0", "2@15ms", "3@15ms"), faults=(("crash", "5@10ms"),)
)
WINNER_DIES = Setup(
    "bully", 5, options=SHORT, asks=("3@5ms",), faults=(("crash", "5@1ms"), ("crash", "4@8ms"))
)
# 4 has won while 5 was away; its announcement crosses the return of 5.
RETURN = Setup(
    "bully", 5, options=SHORT, asks=("4@5ms",), faults=(("crash", "5@1ms"), ("recover", "5@9900us"))
)
BACK = Setup(
    "bully", 4, options=SHORT, asks=("4@0",), faults=(("crash", "2@10ms"), ("recover", "2@30ms"))
)
FLAPPING = Setup(
    "bully-stable",
    5,
    options=SHORT,
    asks=("5@0", "2@25ms"),
    faults=(("crash", "5@20ms"), ("recover", "5@50ms")),
    until="200ms",
)
ALL_STAND = Setup("terms", 3, options=("prevote=false",), asks=("1@1ms", "2@1ms", "3@1ms"))
# 2 votes for 1, restarts, and is then asked by 3 in the same term.
ASKED_TWICE = run_of(
    "habemus run terms -n 3 -o prevote=false --ask 1@1ms --ask 3@1ms --cut 1-3@0 "
    "--slow '3>2@0=5ms' --crash 2@3ms --recover 2@4ms --heal all@20ms"
)
HALVES = Setup(
    "terms", 4, asks=("1@1ms", "3@1ms"), faults=(("cut", "1,2|3,4@0"), ("heal", "all@500ms"))
)
REJOIN = Setup("terms", 5, asks=("1@1ms",), faults=(("cut", "1,2,3,4|5@300ms"), ("heal", "all@1s")))
PARTITION = Setup(
    "terms", 5, asks=("1@1ms",), faults=(("cut", "1,2|3,4,5@300ms"), ("heal", "all@1s"))
)
# 1 stands in term 1; the vote of 2 comes when it stands in term 2 already, in which 2 votes for 3.
LATE_VOTES = run_of(
    "habemus run terms -n 3 -o prevote=false -o 'patience=[30000, 30000]' --ask 1@1ms --ask 1@4ms "
    "--ask 3@3500us --ask 3@4500us --slow '2>1@0=4ms' --slow '1>2@3ms=20ms' --cut 1-3@0 "
    "--heal all@100ms"
)
# Twice 3 is backed, and cut off before anybody hears that it stands; so 1 leads in the first term
# and 3 is in the second.
AHEAD = Setup(
    "terms",
    3,
    asks=("3@1ms", "3@6ms", "1@10ms"),
    faults=(
        *(("cut", f"3>{other}@2500us") for other in (1, 2)),
        ("heal", "all@5ms"),
        *(("cut", f"3>{other}@7500us") for other in (1, 2)),
        ("heal", "all@300ms"),
    ),
)
WILD = run_of(
    "habemus run eventually-perfect -n 3 --delay gst:200ms:heavy:4ms:500..1500 --crash 3@400ms "
    "--until 2s"
)
SLOW = Setup("eventually-perfect", 3, delay="16ms..24ms", until="3s")
BEATS = Setup("heartbeat", 3, faults=(("crash", "3@400ms"),))
ELECTED_WILD = Setup("omega", 3, delay="gst:200ms:heavy:4ms:500..1500", until="1500ms")
ELECTED_CRASH = Setup("omega", 3, faults=(("crash", "1@100ms"),))
UNSTABLE = Setup(
    "omega-recovery",
    3,
    faults=tuple(
        fault
        for turn in range(3)
        for fault in (("crash", f"1@{105 + 200 * turn}ms"), ("recover", f"1@{205 + 200 * turn}ms"))
    ),
    until="2600ms",
)
RECOVERY_CRASH = Setup("omega-recovery", 3, faults=(("crash", "1@100ms"),))

CASES: list[tuple[type[Process], type[Process], Setup, tuple[str, ...]]] = [
    (AnswersAndRests, Bully, LEADER_DIES, ("E3",)),
    (WaitsForEver, Bully, WINNER_DIES, ("E2", "E3")),
    (ObeysAnybody, Bully, RETURN, ("E3",)),
    (ComesBackQuietly, Bully, BACK, ("E2",)),
    (IgnoresOk, Bully, LEADER_DIES, ("E1",)),
    (TellsNobody, Bully, CALM, ("E2",)),
    (ForgetsItsRestarts, BullyStable, FLAPPING, ("E4",)),
    (VotesTwice, Terms, ALL_STAND, ("E1",)),
    (ForgetsItsVote, Terms, ASKED_TWICE, ("E1",)),
    (ForgetsItsTerm, Terms, ASKED_TWICE, ("E1",)),
    (HalfIsEnough, Terms, HALVES, ("E1",)),
    (CountsOldVotes, Terms, LATE_VOTES, ("E1",)),
    (KeepsOldSupporters, Terms, Setup("terms", 3, asks=("1@1ms", "2@1ms", "3@1ms")), ("E1",)),
    (BacksAnybody, Terms, REJOIN, ("E4",)),
    (FollowsOldTerms, Terms, PARTITION, ("E3", "E4")),
    (NeverGivesUp, Terms, HALVES, ("E2",)),
    (LeavesTheLeaderInTheDark, Terms, AHEAD, ("E2",)),
    (NeverGrows, EventuallyPerfect, SLOW, ("accuracy",)),
    (NeverSuspects, EventuallyPerfect, WILD, ("completeness",)),
    (NeverRestores, EventuallyPerfect, WILD, ("accuracy",)),
    (ForgetsToWait, Heartbeat, BEATS, ("accuracy",)),
    (SuspectsInSilence, Heartbeat, BEATS, ("completeness",)),
    (
        ExpectsTheLastOne,
        Adaptive,
        Setup("adaptive", 3, options=("margin=3", "step=0"), until="2s"),
        ("accuracy",),
    ),
    (
        WaitsForTheImpossible,
        PhiAccrual,
        Setup("phi-accrual", 3, faults=(("crash", "3@400ms"),)),
        ("completeness",),
    ),
    (NeverTrustsAgain, Omega, ELECTED_WILD, ("E1", "E3")),
    (TrustsTheDead, Omega, ELECTED_CRASH, ("E3",)),
    (OnlyReplaces, OmegaRecovery, RECOVERY_CRASH, ("E1", "E3")),
    (CountsNoIncarnation, OmegaRecovery, UNSTABLE, ()),
    (RemembersTheGone, OmegaRecovery, RECOVERY_CRASH, ("E3",)),
]


def runs(algorithm: type[Process], setup: Setup, seeds: int = 5) -> list[Report]:
    entry = entry_of(algorithm)
    if (
        setup.until is None
        and entry.problem.name == "election"
        and getattr(algorithm, "duration", None) is None
    ):
        setup = replace(setup, until="500ms")  # a mutant may never come to rest
    return [
        execute(Setup.from_plain({**setup.plain(), "seed": seed}), entry=entry)
        for seed in range(seeds)
    ]


@each_of(CASES)
def test_mutant_is_caught(
    mutant: type[Process], healthy: type[Process], setup: Setup, caught: tuple[str, ...]
) -> None:
    assert_caught(runs(healthy, setup), runs(mutant, setup), caught)


def test_the_unstable_process_leads_without_incarnations() -> None:
    leaders: Callable[[type[Process]], set[int]] = lambda algorithm: {  # noqa: E731
        report.costs["leader"] for report in runs(algorithm, UNSTABLE)
    }
    assert leaders(OmegaRecovery) == {2}
    assert leaders(CountsNoIncarnation) == {1}


def test_messages_that_cross_multiply_without_the_fresh_leader() -> None:
    setup = Setup("bully", 8, workload="in-turn", until="200ms")
    healthy, mutant = (
        execute(setup, entry=entry_of(each), keep=False) for each in (Bully, DoubtsAtOnce)
    )
    assert healthy.costs["messages"] == healthy.costs["formula"]["messages"]
    assert mutant.costs["messages"] > 2 * healthy.costs["messages"]
