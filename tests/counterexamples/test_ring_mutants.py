"""Planted bugs, one broken rule each, in the elections on rings and graphs: every one of them must
be noticed.

A bug shows as a violated property, as a wrong winner (the monitors do not know who ought to win),
as a run that does not come to rest, or as a number of messages that differs from what the algorithm
is known to send.  The healthy algorithm passes the very same runs.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from habemus.algorithms.election import (
    chang_roberts,
    franklin,
    hirschberg_sinclair,
    itai_rodeh,
    peterson,
    ring_anonymous,
    ring_list,
    yo_yo,
)
from habemus.algorithms.election.chang_roberts import ChangRoberts
from habemus.algorithms.election.franklin import ASLEEP, PASSIVE, Franklin
from habemus.algorithms.election.hirschberg_sinclair import HirschbergSinclair
from habemus.algorithms.election.itai_rodeh import ItaiRodeh
from habemus.algorithms.election.peterson import Peterson
from habemus.algorithms.election.ring_anonymous import (
    CANDIDATE,
    ELECTED,
    FOLLOWER,
    IN_OFFICE,
    RingAnonymous,
)
from habemus.algorithms.election.ring_list import RingList
from habemus.algorithms.election.yo_yo import LEAVE, NO, PRUNE, YES, YoYo
from habemus.catalog.entries import entry_of
from habemus.core import Message, MistakeInAlgorithm, ProcessId, upon
from habemus.problems.election import Election, Leader
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute

RUNS = 40


# Identical processes.


class DoesNotStandBack(RingAnonymous):
    """As the notes have it: a candidate that hears of an election does nothing."""

    def follow_or_take_office(self, sender: ProcessId, habemus: ring_anonymous.Habemus) -> None:
        if self.standing == ELECTED:
            self.standing = IN_OFFICE
            self.know(self.me)
        elif self.standing == FOLLOWER:
            self.know(habemus.leader)
            self.send(habemus, to=self.right)


class KeepsTheNews(RingAnonymous):
    def follow_or_take_office(self, sender: ProcessId, habemus: ring_anonymous.Habemus) -> None:
        self.know(self.me if self.standing in (CANDIDATE, ELECTED) else habemus.leader)


class TakesEqualForAlone(ItaiRodeh):
    """Does not see on its token that another one has drawn the same."""

    def win_or_draw_again(self, token: itai_rodeh.Token) -> None:
        super().win_or_draw_again(itai_rodeh.Token(token.round, token.id, token.hops, True))


class LetsSmallerPass(ItaiRodeh):
    def compare(self, sender: ProcessId, token: itai_rodeh.Token) -> None:
        if token.hops == self.n:
            super().compare(sender, token)
        else:
            self.send(
                itai_rodeh.Token(token.round, token.id, token.hops + 1, token.alone), to=self.right
            )


# One-way rings.


class ChoosesTheFirst(RingList):
    """The caller takes the first of the list, which is itself."""

    def add_or_choose(self, sender: ProcessId, collect: ring_list.Collect) -> None:
        super().add_or_choose(
            sender, collect if self.me not in collect.ids else ring_list.Collect((self.me,))
        )


class DoesNotAnnounce(RingList):
    def follow(self, sender: ProcessId, chosen: ring_list.Chosen) -> None:
        pass


class ComparesTheWrongWay(ChangRoberts):
    """Smaller ids pass."""

    def compare(self, sender: ProcessId, candidate: chang_roberts.Candidate) -> None:
        if candidate.process < self.me:
            self.participant = True
            self.send(candidate, to=self.right)
        elif candidate.process == self.me:
            self.win()
        elif not self.participant:
            self.stand()


class LetsEverybodyPass(ChangRoberts):
    def compare(self, sender: ProcessId, candidate: chang_roberts.Candidate) -> None:
        if candidate.process == self.me:
            self.win()
        else:
            self.send(candidate, to=self.right)


class IgnoresTheFlag(ChangRoberts):
    """Puts its own id in place of every smaller one, although it has gone on already."""

    def compare(self, sender: ProcessId, candidate: chang_roberts.Candidate) -> None:
        self.participant = False
        super().compare(sender, candidate)


class NeverReplaces(ChangRoberts):
    """Drops smaller ids as the plain form does."""

    def compare(self, sender: ProcessId, candidate: chang_roberts.Candidate) -> None:
        if candidate.process >= self.me:
            super().compare(sender, candidate)


class WinsInSilence(ChangRoberts):
    def win(self) -> None:
        self.participant = False
        self.indicate(Leader(self.me))


class AnnouncesForEver(ChangRoberts):
    def follow(self, sender: ProcessId, elected: chang_roberts.Elected) -> None:
        self.indicate(Leader(elected.process))
        self.send(elected, to=self.right)


class ForgetsTheFarther(Peterson):
    """Compares with the nearest only."""

    def compare(self, sender: ProcessId, second: peterson.Second) -> None:
        super().compare(sender, peterson.Second(0) if self.standing != peterson.PASSIVE else second)


class KeepsItsOwnId(Peterson):
    """Goes on in its own name instead of the nearest one's."""

    def carry(self, process: ProcessId) -> None:
        super().carry(self.me)


class SleepsOn(Peterson):
    """Passes the first message on, but does not take part."""

    def learn_nearest(self, sender: ProcessId, first: peterson.First) -> None:
        if self.standing == peterson.ASLEEP:
            self.standing = peterson.PASSIVE
        super().learn_nearest(sender, first)


# Two-way rings.


class IgnoresRounds(Franklin):
    """Takes an id of the next round for one of this."""

    def take(self, nominee: franklin.Nominee) -> None:
        super().take(
            franklin.Nominee(nominee.process, min(nominee.round, self.round), nominee.rightwards)
        )


class LosesWhatCameEarly(Franklin):
    def compare(self) -> None:
        self.early = []
        super().compare()


class IsNotWoken(Franklin):
    def wake_and_take(self, sender: ProcessId, nominee: franklin.Nominee) -> None:
        if self.standing == ASLEEP:
            self.standing = PASSIVE
        self.take(nominee)


class SmallerSurvives(Franklin):
    def has_heard_both(self) -> bool:
        return len(self.heard) == 2

    def compare(self) -> None:
        self.heard = {side: 2 * self.me - process for side, process in sorted(self.heard.items())}
        super().compare()


class ProbesPassSmaller(HirschbergSinclair):
    """A smaller probe is not dropped but answered."""

    def examine(self, sender: ProcessId, probe: hirschberg_sinclair.Probe) -> None:
        if probe.process < self.me:
            self.wake()
            self.send(
                hirschberg_sinclair.Reply(probe.process, probe.phase, not probe.rightwards),
                to=sender,
            )
        else:
            super().examine(sender, probe)


class OneReplyIsEnough(HirschbergSinclair):
    def is_largest_around(self) -> bool:
        return self.replies >= 1


class GoesNoFurther(HirschbergSinclair):
    """Forgets to double the distance."""

    def go_further(self) -> None:
        self.replies = 0
        self.probe()


# Graphs.


class NoPruning(YoYo):
    """As the notes have it: nobody leaves and no link is dropped."""

    def is_useless(self) -> bool:
        return False

    def answer(self, answer: yo_yo.Answer, neighbour: ProcessId) -> None:
        pruned = self.unanimous and self.brought[neighbour] == self.smallest()
        super().answer((YES if pruned else NO) if answer == PRUNE else answer, neighbour)


class KeepsEqualLinks(YoYo):
    """Whoever is useless leaves, but links that bring the same are kept."""

    def answer(self, answer: yo_yo.Answer, neighbour: ProcessId) -> None:
        super().answer(YES if answer == PRUNE else answer, neighbour)


class DoesNotTurnLinks(YoYo):
    def count_vote(self, sender: ProcessId, vote: yo_yo.Vote) -> None:
        super().count_vote(sender, vote)
        if vote.answer == NO:
            self.incoming.discard(sender)
            self.outgoing.add(sender)

    def answer(self, answer: yo_yo.Answer, neighbour: ProcessId) -> None:
        super().answer(answer, neighbour)
        if answer == NO:
            self.outgoing.discard(neighbour)
            self.incoming.add(neighbour)


class PassesTheLargestDown(YoYo):
    def smallest(self) -> ProcessId:
        return max(self.brought.values(), default=self.me)


class OneYesIsEnough(YoYo):
    """As the notes have it: one yes from below outweighs a no, so a source that has lost may go on
    for another stage.
    """

    agreed: bool = False

    def count_vote(self, sender: ProcessId, vote: yo_yo.Vote) -> None:
        self.agreed = self.agreed or vote.answer == YES
        super().count_vote(sender, vote)

    def vote(self) -> None:
        self.unanimous = self.unanimous or self.agreed
        self.agreed = False
        super().vote()


class LosingPrune(Message):
    pass


class PruningCountsAsNo(YoYo):
    """A pruned link that brought a losing value also says no: the one above may become a source
    again, for another stage.
    """

    def answer(self, answer: yo_yo.Answer, neighbour: ProcessId) -> None:
        if answer == PRUNE and not (self.unanimous and self.brought[neighbour] == self.smallest()):
            self.send(LosingPrune(), to=neighbour)
            self.incoming.discard(neighbour)
        else:
            super().answer(answer, neighbour)

    @upon(LosingPrune)
    def lose(self, sender: ProcessId, _: LosingPrune) -> None:
        self.count_vote(sender, yo_yo.Vote(PRUNE))
        self.unanimous = False


class ForgetsItsChildren(YoYo):
    """The outcome goes down the tree, but not to those who left last."""

    def count_vote(self, sender: ProcessId, vote: yo_yo.Vote) -> None:
        super().count_vote(sender, vote)
        if vote.answer == LEAVE:
            self.children = [sender]


def runs(algorithm: type[Election]) -> Iterator[Setup]:
    """Many callers or one, calm or wild delays; several orders and topologies."""
    options = entry_of(algorithm).options
    for number in range(RUNS):
        setup = Setup(
            "mutant",
            3 + number % 7,
            seed=number,
            workload="burst" if number % 2 else "steady",
            until="2s",
            events=4_000,
        )
        if "arrangement" in options:
            setup = replace(setup, options=(f"arrangement={number}",))
        if "topology" in options:
            topology = ("tree", "ring", "random", "grid")[number // 4 % 4]
            setup = replace(
                setup, n=3 + 7 * number % 29, options=(*setup.options, f"topology={topology}")
            )
        yield replace(setup, delay="exp:1ms" if number % 4 < 2 else "1ms")


def winner(algorithm: type[Election], size: int) -> ProcessId | None:
    if issubclass(algorithm, RingAnonymous | ItaiRodeh):
        return None
    return 1 if issubclass(algorithm, RingList | YoYo) else size


def troubles(algorithm: type[Election], healthy: type[Election]) -> Iterator[str]:
    """What goes wrong in the runs; messages are compared with those of the healthy one where they
    do not depend on chance.
    """
    for setup in runs(algorithm):
        try:
            report = execute(setup, entry=entry_of(algorithm), keep=False)
        except MistakeInAlgorithm:
            yield "mistake"
            continue
        yield from (
            finding.name for finding in report.findings if finding.verdict.value == "violated"
        )
        wanted = winner(algorithm, setup.n)
        if wanted is not None and report.costs["leader"] not in (None, wanted):
            yield "winner"
        if report.ending.reason != "quiescent":
            yield "endless"
        if wanted is not None and setup.delay == "1ms" and setup.workload == "burst":
            right = execute(setup, entry=entry_of(healthy), keep=False)
            if right.costs["messages"] != report.costs["messages"]:
                yield "messages"


HEALTHY: dict[type[Election], set[str]] = {RingAnonymous: {"E1", "E3"}}
"""What goes wrong in the runs of the healthy one: two candidates at once are two leaders."""


@pytest.mark.parametrize(
    ("mutant", "healthy", "caught_by"),
    [
        (DoesNotStandBack, RingAnonymous, "E2"),
        (KeepsTheNews, RingAnonymous, "E2"),
        (TakesEqualForAlone, ItaiRodeh, "E1"),
        (LetsSmallerPass, ItaiRodeh, "E1"),
        (ChoosesTheFirst, RingList, "E3"),
        (DoesNotAnnounce, RingList, "E2"),
        (ComparesTheWrongWay, ChangRoberts, "winner"),
        (LetsEverybodyPass, ChangRoberts, "E1"),
        (IgnoresTheFlag, ChangRoberts, "messages"),
        (NeverReplaces, ChangRoberts, "E2"),
        (WinsInSilence, ChangRoberts, "E2"),
        (AnnouncesForEver, ChangRoberts, "endless"),
        (ForgetsTheFarther, Peterson, "messages"),
        (KeepsItsOwnId, Peterson, "winner"),
        (SleepsOn, Peterson, "winner"),
        (IgnoresRounds, Franklin, "E2"),
        (LosesWhatCameEarly, Franklin, "E2"),
        (IsNotWoken, Franklin, "winner"),
        (SmallerSurvives, Franklin, "winner"),
        (ProbesPassSmaller, HirschbergSinclair, "messages"),
        (OneReplyIsEnough, HirschbergSinclair, "messages"),
        (GoesNoFurther, HirschbergSinclair, "endless"),
        (NoPruning, YoYo, "endless"),
        (KeepsEqualLinks, YoYo, "E2"),
        (DoesNotTurnLinks, YoYo, "endless"),
        (PassesTheLargestDown, YoYo, "winner"),
        (OneYesIsEnough, YoYo, "messages"),
        (PruningCountsAsNo, YoYo, "messages"),
        (ForgetsItsChildren, YoYo, "E2"),
    ],
)
def test_mutant_is_caught(mutant: type[Election], healthy: type[Election], caught_by: str) -> None:
    assert caught_by in troubles(mutant, healthy)


@pytest.mark.parametrize(
    "healthy",
    [
        RingAnonymous,
        ItaiRodeh,
        RingList,
        ChangRoberts,
        Peterson,
        Franklin,
        HirschbergSinclair,
        YoYo,
    ],
)
def test_the_healthy_one_passes_the_same_runs(healthy: type[Election]) -> None:
    assert set(troubles(healthy, healthy)) == HEALTHY.get(healthy, set())
