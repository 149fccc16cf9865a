"""Planted bugs, one broken line each, in SWIM and in the probabilistic election: each is caught
where the healthy one keeps all.
"""

from dataclasses import replace

from tests.counterexamples.running import assert_caught, each_of

from habemus.algorithms.detectors.swim import ALIVE, Answer, Grace, News, NoAnswer, PingForMe, Swim
from habemus.algorithms.election.probabilistic import (
    Candidate,
    Patience,
    Probabilistic,
    Rumour,
    mixed,
)
from habemus.catalog.entries import entry_of
from habemus.core import ProcessId
from habemus.core.process import Process
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute


class AsksNobody(Swim):
    """No indirect pings."""

    def ask_others(self, _: NoAnswer) -> None:
        pass


class AnswersForAnother(Swim):
    """A helper says yes without having pinged."""

    def ping_for_another(self, sender: ProcessId, request: PingForMe) -> None:
        self.send(Answer(sender, request.number, ()), to=sender)


class KeepsAnswers(Swim):
    """A helper does not return the answer that it got."""

    def note_or_return_answer(self, sender: ProcessId, answer: Answer) -> None:
        if answer.origin == self.me:
            super().note_or_return_answer(sender, answer)


class NeverGivesUp(Swim):
    def give_up(self, grace: Grace) -> None:
        pass


class NeverDenies(Swim):
    def learn_all(self, news: tuple[News, ...]) -> None:
        super().learn_all(tuple(each for each in news if each.process != self.me))


class DeniesInTheSameLife(Swim):
    """Says that it is alive without a new incarnation."""

    def learn_all(self, news: tuple[News, ...]) -> None:
        super().learn_all(news)
        self.incarnation = 0
        if self.me in self.latest:
            self.latest[self.me] = News(0, ALIVE, self.me)


class HoldsItAgainstNobody(Swim):
    """Does not tell a process what is held against it, once the news are old."""

    def news_for(self, receiver: ProcessId) -> tuple[News, ...]:
        return tuple(each for each in super().news_for(receiver) if each.process != receiver)


class PingsTheSame(Swim):
    """Turns are not kept: only the first is ever pinged."""

    def begin_period(self) -> None:
        self.untested = set(self.peers[:1])
        super().begin_period()


class StaysWithTheFirst(Probabilistic):
    """A better candidate does not replace the first one."""

    def hear(self, sender: ProcessId, rumour: Rumour) -> None:
        if self.election < rumour.election:
            self.take_part(rumour.election)
            self.best = self.best or rumour.best
            self.pass_on()


class KeepsItToItself(Probabilistic):
    """Rumours are heard and not passed on."""

    def hear(self, sender: ProcessId, rumour: Rumour) -> None:
        if self.election < rumour.election:
            self.take_part(rumour.election)
        if rumour.best is not None and (self.best is None or rumour.best < self.best):
            self.best = rumour.best


class GivesUp(Probabilistic):
    """When nobody stands there is no next round."""

    def decide(self, patience: Patience) -> None:
        if self.best is not None:
            super().decide(patience)


class SameLots(Probabilistic):
    """The round does not change the lots, so who did not stand never will."""

    def lot(self) -> int:
        return mixed(self.election.number, self.election.caller, self.election.nonce, self.me)


class NamesItself(Probabilistic):
    """Each candidate takes itself for the leader."""

    def decide(self, patience: Patience) -> None:
        if self.stands():
            self.best = Candidate(self.lot(), self.me)
        super().decide(patience)


CUT = Setup("swim", 3, options=("grace=0",), faults=(("cut", "1-2@0"),), until="500ms")
CRASH = Setup("swim", 4, faults=(("crash", "4@50ms"),), until="800ms")
PAUSE = Setup("swim", 3, options=("grace=3",), faults=(("pause", "2@45ms+80ms"),), until="800ms")
SPLIT = Setup("swim", 4, faults=(("cut", "1,2|3,4@50ms"), ("heal", "all@1s")), until="2s")
ALL_STAND = Setup("probabilistic", 5, asks=("1@0",), delay="exp:1ms", until="500ms")
FEW_STAND = Setup("probabilistic", 8, options=("candidates=1",), asks=("1@0",), until="2s")

CASES: list[tuple[type[Process], type[Process], Setup, tuple[str, ...]]] = [
    (AsksNobody, Swim, CUT, ("accuracy",)),
    (KeepsAnswers, Swim, CUT, ("accuracy",)),
    (AnswersForAnother, Swim, CRASH, ("completeness",)),
    (NeverGivesUp, Swim, CRASH, ("completeness",)),
    (PingsTheSame, Swim, CRASH, ("completeness",)),
    (NeverDenies, Swim, PAUSE, ("accuracy",)),
    (DeniesInTheSameLife, Swim, PAUSE, ("accuracy",)),
    (HoldsItAgainstNobody, Swim, SPLIT, ("accuracy",)),
    (StaysWithTheFirst, Probabilistic, ALL_STAND, ("E3",)),
    (KeepsItToItself, Probabilistic, ALL_STAND, ("E3",)),
    (NamesItself, Probabilistic, ALL_STAND, ("E1", "E3")),
    (GivesUp, Probabilistic, FEW_STAND, ("E2",)),
    (SameLots, Probabilistic, FEW_STAND, ("E2",)),
]


def runs(algorithm: type[Process], setup: Setup, seeds: int = 5) -> list[Report]:
    return [
        execute(replace(setup, seed=seed, events=20_000), entry=entry_of(algorithm), keep=False)
        for seed in range(seeds)
    ]


@each_of(CASES)
def test_mutant_is_caught(
    mutant: type[Process], healthy: type[Process], setup: Setup, caught: tuple[str, ...]
) -> None:
    assert_caught(runs(healthy, setup), runs(mutant, setup), caught)
