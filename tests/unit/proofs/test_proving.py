"""Proofs for every number of processes: of the catalog, of mutants, and by a faulty executor."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from habemus.algorithms.election.chang_roberts import Candidate, ChangRoberts
from habemus.algorithms.election.chang_roberts_plain import Candidate as PlainCandidate
from habemus.algorithms.election.chang_roberts_plain import ChangRobertsPlain
from habemus.algorithms.mutex.central import Central
from habemus.algorithms.mutex.maekawa import Maekawa
from habemus.algorithms.mutex.raymond import Raymond
from habemus.algorithms.mutex.ricart_agrawala import (
    HELD,
    WANTED,
    Reply,
    Request,
    RicartAgrawala,
)
from habemus.algorithms.mutex.roucairol_carvalho import RoucairolCarvalho
from habemus.algorithms.mutex.suzuki_kasami import SuzukiKasami
from habemus.algorithms.mutex.token_ring import Token, TokenRing
from habemus.catalog.entries import entry_of, find
from habemus.core import Process, ProcessId
from habemus.core.invariants import between, is_inside, same_link
from habemus.core.properties import Verdict
from habemus.proofs import reachable
from habemus.proofs.axioms import AXIOMS
from habemus.proofs.executor import BUILTINS, Frame
from habemus.proofs.proving import ExecutorDisagrees, proof_of, prove, proved_names
from habemus.proofs.solver import Answer, second_opinion
from habemus.proofs.steps import Model, SymbolicStep
from habemus.proofs.symbols import NotUnderstood
from habemus.proofs.terms import FALSE

pytest.importorskip("z3")

PROVED = {
    "central": "ME1",
    "chang-roberts": "E1",
    "chang-roberts-plain": "E1",
    "maekawa": "ME1",
    "quorum": "ME1",
    "ra-majority": "ME1",
    "raymond": "ME1",
    "ricart-agrawala": "ME1",
    "roucairol-carvalho": "ME1",
    "suzuki-kasami": "ME1",
    "token-ring": "ME1",
}


def test_these_algorithms_of_the_catalog_have_a_proof() -> None:
    assert proved_names() == sorted(PROVED)


LONG = ("quorum", "ra-majority")
"""Proofs that take half a minute each."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long_search] if name in LONG else [])
        for name in PROVED
    ],
)
def test_it_is_proved(name: str) -> None:
    report = prove(find(name))
    assert report.verdict is Verdict.HOLDS, (report.why, report.case)
    assert report.proof.ensures == PROVED[name]
    # Not vacuously: the searches have reached states and steps, and all of them.
    if name not in LONG:  # whose searches are cut off
        assert all(each.is_complete for each in report.searched[:2])
    assert report.compared > 20
    assert report.obligations > report.ways
    exercised = {name for each in report.searched for name in each.exercised}
    # A clause that is never called says that there are no two such messages.
    says_never = {"grant_or_release"}
    for name in set(report.proof.clauses) - exercised - says_never:
        assert name.startswith("one_"), f"no state is about {name}"


# Mutants.


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("habemus.proofs.proving.SEARCHED", ((2, 2),))


class DefersLaterRequestsOnly(RicartAgrawala):
    def reply_or_defer(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp) + self.tick
        if self.state == HELD or (
            self.state == WANTED and (self.stamp, self.me) > (request.stamp, sender)
        ):
            self.deferred.add(sender)
        else:
            self.send(Reply(self.clock * self.tick), to=sender)


class RepliesWhileInside(RicartAgrawala):
    def reply_or_defer(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp) + self.tick
        if self.state == WANTED and (self.stamp, self.me) < (request.stamp, sender):
            self.deferred.add(sender)
        else:
            self.send(Reply(self.clock * self.tick), to=sender)


class ComparesStampsOnly(RicartAgrawala):
    def reply_or_defer(self, sender: ProcessId, request: Request) -> None:
        self.clock = max(self.clock, request.stamp) + self.tick
        if self.state == HELD or (self.state == WANTED and self.stamp < request.stamp):
            self.deferred.add(sender)
        else:
            self.send(Reply(self.clock * self.tick), to=sender)


class IgnoresStamps(RicartAgrawala):
    def reply_or_defer(self, sender: ProcessId, request: Request) -> None:
        self.clock += self.tick
        if self.state == HELD or (
            self.state == WANTED and (self.stamp, self.me) < (request.stamp, sender)
        ):
            self.deferred.add(sender)
        else:
            self.send(Reply(self.clock * self.tick), to=sender)


class EntersOnTheFirstReply(RicartAgrawala):
    def count_reply(self, sender: ProcessId, reply: Reply) -> None:
        super().count_reply(sender, reply)
        self.missing.clear()


class KeepsWhatItPassesOn(TokenRing):
    def pass_on(self) -> None:
        self.has_token = False
        self.send(Token(), to=self.successor)
        self.send(Token(), to=self.successor)


class PassesOnWhileInside(TokenRing):
    def has_no_use_for_it(self) -> bool:
        return self.has_token


class LetsTheSmallPass(ChangRobertsPlain):
    def compare(self, sender: ProcessId, candidate: PlainCandidate) -> None:
        if candidate.process == self.me:
            self.win()
        elif candidate.process < self.me:
            self.send(candidate, to=self.right)


class WinsAtTheNext(ChangRobertsPlain):
    def compare(self, sender: ProcessId, candidate: PlainCandidate) -> None:
        if candidate.process >= self.me:
            self.win()


class GrantsTwice(Central):
    def is_free_and_wanted(self) -> bool:
        return bool(self.waiting)


class VotesForAll(Maekawa):
    def can_vote(self) -> bool:
        return bool(self.queue)


class PermitsWithoutLoss(RoucairolCarvalho):
    def permit(self, process: ProcessId) -> None:
        self.send(Reply(self.clock), to=process)


class KeepsTheToken(SuzukiKasami):
    def pass_token(self) -> None:
        super().pass_token()
        self.has_token = True
        self.wanted = True


class LetsEverybodyPass(ChangRoberts):
    def compare(self, sender: ProcessId, candidate: Candidate) -> None:
        if candidate.process == self.me:
            self.win()
        else:
            self.send(candidate, to=self.right)


class GivesTheTokenWhileInside(Raymond):
    def has_token_to_give(self) -> bool:
        return self.holder == self.me and bool(self.queue)


MUTANTS = {
    GrantsTwice: "grant_goes_to_the_holder",
    VotesForAll: "vote_is_given",
    PermitsWithoutLoss: "reply_carries_the_permission",
    KeepsTheToken: "token_is_held_or_in_transit",
    LetsEverybodyPass: "candidate_has_beaten_those_behind",
    GivesTheTokenWhileInside: "inside_has_the_token",
    DefersLaterRequestsOnly: "reply_permits",
    RepliesWhileInside: "reply_permits",
    ComparesStampsOnly: "reply_permits",
    IgnoresStamps: "reply_permits",
    EntersOnTheFirstReply: "request_is_open",
    KeepsWhatItPassesOn: "one_token_is_in_transit",
    PassesOnWhileInside: "inside_has_the_token",
    LetsTheSmallPass: "candidate_has_beaten_those_behind",
    WinsAtTheNext: "leader_is_the_largest",
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_refuted_with_the_clause_and_a_run(mutant: type[Process]) -> None:
    report = prove(entry_of(mutant))
    assert report.verdict is Verdict.VIOLATED
    assert report.refutation is not None
    assert report.refutation.clause == MUTANTS[mutant]
    assert report.trace is not None
    assert report.trace.events


@pytest.mark.parametrize("mutant", [ComparesStampsOnly, EntersOnTheFirstReply, LetsTheSmallPass])
def test_induction_alone_rejects_a_mutant(
    mutant: type[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("habemus.proofs.proving.SEARCHED", ())
    refute = reachable.Explored.refute
    monkeypatch.setattr(reachable.Explored, "refute", lambda *given: refute(*given) and None)
    report = prove(entry_of(mutant))
    assert report.verdict is Verdict.VIOLATED
    assert report.case is not None
    assert report.case.clause in {*report.proof.clauses, "ME1"}


@pytest.mark.parametrize(
    ("name", "clause"),
    [
        ("ricart-agrawala", "reply_was_a_permission"),
        ("ricart-agrawala", "request_is_not_answered"),
        ("token-ring", "one_token_is_in_transit"),
        ("chang-roberts-plain", "candidate_has_beaten_those_behind"),
    ],
)
def test_without_one_clause_the_others_are_not_inductive(
    name: str, clause: str, two_processes: None
) -> None:
    proof = proof_of(find(name))
    gone = proof.clauses.pop(clause)
    try:
        report = prove(find(name))
    finally:
        proof.clauses[clause] = gone
    assert report.verdict is Verdict.VIOLATED
    assert report.refutation is None  # it holds wherever the searches have been
    assert report.case is not None
    assert report.case.processes
    assert report.case.step


# The executor is checked.


def test_a_lost_way_is_noticed(monkeypatch: pytest.MonkeyPatch, two_processes: None) -> None:
    steps = Model.steps

    def fewer(self: Model) -> Iterator[SymbolicStep]:
        found = list(steps(self))
        found.remove([each for each in found if each.event == "Request" and each.effects][-1])
        yield from found

    monkeypatch.setattr(Model, "steps", fewer)
    with pytest.raises(ExecutorDisagrees, match="has 0 such steps"):
        prove(find("ricart-agrawala"))


def test_a_broadcast_that_misses_one_is_noticed(
    monkeypatch: pytest.MonkeyPatch, two_processes: None
) -> None:
    def forgetful(self: reachable._Case, step: SymbolicStep) -> list[Any]:
        return sent(self, step)[:-1]

    sent = reachable._Case._sent
    monkeypatch.setattr(reachable._Case, "_sent", forgetful)
    with pytest.raises(ExecutorDisagrees, match="the messages are"):
        prove(find("ricart-agrawala"))


def test_a_set_that_is_read_after_its_change_is_noticed(
    monkeypatch: pytest.MonkeyPatch, two_processes: None
) -> None:
    loop = Frame._do_For

    def too_early(self: Frame, node: Any) -> None:
        self._mutate(node.iter.args[0], "clear", [])
        loop(self, node)

    monkeypatch.setattr(Frame, "_do_For", too_early)
    with pytest.raises(ExecutorDisagrees, match="the messages are"):
        prove(find("ricart-agrawala"))


@pytest.mark.parametrize("question", [is_inside, same_link])
def test_a_misread_clause_is_noticed(
    question: Callable[..., bool], monkeypatch: pytest.MonkeyPatch, two_processes: None
) -> None:
    monkeypatch.setitem(BUILTINS, question, lambda *_: FALSE)
    with pytest.raises(ExecutorDisagrees, match="as a formula is"):
        prove(find("ricart-agrawala"))


class NamesItTwice(RicartAgrawala):
    def release(self) -> None:
        missing = self.missing
        missing.clear()
        super().release()


class CountsInALoop(RicartAgrawala):
    def release(self) -> None:
        for _ in sorted(self.deferred):
            self.clock += 1
        super().release()


class LeavesALoop(RicartAgrawala):
    def release(self) -> None:
        for _ in sorted(self.deferred):
            break
        super().release()


class TriesIt(RicartAgrawala):
    def release(self) -> None:
        try:
            super().release()
        finally:
            self.clock += 1


@pytest.mark.parametrize(
    ("mutant", "what"),
    [
        (CountsInALoop, "an assignment to clock in a loop"),
        (NamesItTwice, "two names for one collection"),
        (LeavesALoop, "the statement Break"),
        (TriesIt, "the statement Try"),
    ],
)
def test_what_the_executor_does_not_know_is_refused_by_its_line(
    mutant: type[Process], what: str, two_processes: None
) -> None:
    with pytest.raises(
        NotUnderstood, match=rf"^test_proving.py, line \d+: the executor does not know {what}"
    ):
        prove(entry_of(mutant))


# Axioms.


def test_a_false_axiom_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody_is_between(a: Process, b: Process, c: Process) -> bool:
        return not between(a, b, c)

    monkeypatch.setitem(AXIOMS, "ring", (*AXIOMS["ring"], nobody_is_between))
    with pytest.raises(ValueError, match="nobody_is_between does not hold for 3 processes"):
        prove(find("chang-roberts-plain"))


def test_a_second_solver_agrees() -> None:
    pytest.importorskip("cvc5")
    asked = 0
    for obligation in _obligations("token-ring"):
        if obligation.formulas:
            asked += 1
            assert second_opinion(obligation.document()) is Answer.IMPOSSIBLE
    assert asked > 20


def _obligations(name: str) -> Iterator[Any]:
    from habemus.proofs.induction import Induction
    from habemus.proofs.proving import AXIOM_SIZES, initial_values, topology_of

    entry = find(name)
    proof = proof_of(entry)
    systems = {size: entry.system(size, {}) for size in AXIOM_SIZES}
    model = Model(proof, next(iter(systems[3].plans.values())))
    values = initial_values(model, systems)
    yield from Induction(
        model, values, topology_of(proof, systems), list(model.steps())
    ).all_obligations()
