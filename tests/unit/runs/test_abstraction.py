"""Checks over an abstract election: what they decide, and when a violation is called one."""

import json
import shlex
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import habemus
from habemus.algorithms.mutex.elected_coordinator import ElectedCoordinator
from habemus.cli import main
from habemus.core import ProcessId, System, Uses, upon
from habemus.core.node import Indicate, PureNode, Stack
from habemus.core.properties import Verdict
from habemus.core.system import complete
from habemus.experiments import CheckResult
from habemus.problems.abstract_election import AbstractElection, Doubt, Follow, Lead
from habemus.problems.election import Election, Leader
from habemus.problems.election_refinement import LeaderNames
from habemus.problems.mutex import Granted, Mutex
from habemus.runs.check import Check
from habemus.runs.setup import BadSetup
from habemus.schedules.counterexamples import again


def verdicts(result: CheckResult) -> dict[str, str]:
    return {name: verdict.value for name, verdict in result.properties.items()}


# What holds over the abstract election.


def test_the_elected_coordinator_over_the_abstract_election() -> None:
    result = habemus.check(
        "elected-coordinator", 2, abstract="election", network="fifo", timeouts="2,Doubt=0"
    )
    assert verdicts(result) == dict.fromkeys(("ME1", "FENCE", "TOKEN"), "holds")
    assert result.states == 22_118
    assert "over an abstract election (terms 2)" in result.bound


def test_more_terms_are_more_states() -> None:
    states = [
        habemus.check(
            "elected-coordinator", 2, abstract=f"election:terms={terms}", timeouts=1, network="fifo"
        ).states
        for terms in (1, 2, 3)
    ]
    assert states == sorted(set(states))


# A violation over it is tried over the real election.


class Hasty(ElectedCoordinator):
    """A coordinator that asks nobody what the coordinators before it have granted."""

    name = ""

    def majority(self) -> int:
        return 1


class NeverElects(Election):
    def elect(self) -> None:
        pass


class LeaderEnters(Mutex):
    """Whoever hears that it leads is in.  Safe over an election that never elects."""

    election: Uses[Election]
    wanted: bool = False
    leads: bool = False

    def acquire(self) -> None:
        self.wanted = True
        self.enter()

    def enter(self) -> None:
        if self.wanted and self.leads:
            self.wanted = False
            self.indicate(Granted())

    def release(self) -> None:
        pass

    @upon(Leader)
    def follow(self, leader: Leader) -> None:
        self.leads = leader.process == self.me
        self.enter()

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        everybody = range(1, size + 1)
        plan = cls(election=NeverElects())
        return System(dict.fromkeys(everybody, plan), complete(everybody), tuple(everybody))


@pytest.mark.parametrize("network", ["fifo", "unordered"])
@pytest.mark.parametrize("election", ["terms", "bully"])
def test_a_planted_bug_is_found_over_the_real_election(network: str, election: str) -> None:
    result = habemus.check(
        Hasty,
        3,
        abstract="election",
        timeouts=2,
        network=network,
        asking=[1, 2],
        options={"elected_by": election},
    )
    assert result.violated == ["ME1"]
    trace = result.trace
    assert trace is not None and "abstract" not in trace.run["check"]
    assert {event.part for event in trace.events} == {"", ".election"}
    assert not {"Lead", "Follow", "Doubt"} & {event.name for event in trace.events}
    repeated = again(trace)
    assert repeated.same and repeated.simulated == "ME1 is violated too"


def test_a_violation_is_found_although_another_process_may_be_elected_first() -> None:
    """In the run over the abstract election 2 leads, and 1 calls an election as it starts."""
    result = habemus.check(
        "elected-coordinator-leased",
        3,
        abstract="election",
        timeouts="Lead=1,Overdue=1,Follow=0,Doubt=0,Repeat=0,RunOut=0,Remind=0",
        network="fifo",
        asking=[1, 2],
    )
    assert result.violated == ["ME1"]
    trace = result.trace
    assert trace is not None and "abstract" not in trace.run["check"]
    repeated = again(trace)
    assert repeated.same and repeated.simulated == "ME1 is violated too"


def test_a_violation_over_the_abstraction_only_is_not_called_one() -> None:
    result = habemus.check(LeaderEnters, 2, abstract="election")
    assert (result.verdict, result.violated) == (Verdict.UNDECIDED, [])
    why = result.reasons["ME1"]
    assert why.startswith("violated over the abstract component only: at 4 ms 2 entered")
    assert "over NeverElects" in why
    trace = result.trace
    assert trace is not None and trace.run["check"]["abstract"] == "election"
    repeated = again(trace)
    assert repeated.same and repeated.simulated == "ME1 is violated too"
    assert result.plain["over_abstraction"] == ["ME1"]


def test_the_counterexample_over_the_abstraction_becomes_a_test(tmp_path: Path) -> None:
    from habemus.runs.check import perform
    from habemus.schedules.regression import regression_test

    entry = habemus.check(LeaderEnters, 2).plain["check"]["algorithm"]
    text = regression_test(perform(Check(entry, 2, abstract="election")), tmp_path)
    assert 'abstract="election"' in text
    names: dict[str, Any] = {"__file__": str(tmp_path / "test_it.py")}
    exec(compile(text, "<test>", "exec"), names)
    [test] = [each for name, each in names.items() if name.startswith("test_")]
    with pytest.raises(AssertionError, match="2 entered"):
        test()


# Refinement.


@pytest.mark.parametrize(
    ("name", "n", "bound", "states"),
    [
        ("terms", 3, {"timeouts": 1}, 433),
        ("terms", 2, {"timeouts": 2, "faults": {"crash": 1, "recover": 1}}, 1_461),
    ],
)
def test_terms_refine_the_abstract_election(
    name: str, n: int, bound: dict[str, Any], states: int
) -> None:
    result = habemus.check(name, n, refines="election", **bound)
    assert verdicts(result) == dict.fromkeys(("T1", "T2", "T3"), "holds")
    assert result.states == states


@pytest.mark.parametrize(
    ("name", "n", "bound", "broken", "why"),
    [
        ("bully", 3, {}, "T1", "3 names 3 as the leader of term 0, which was 1"),
        ("omega", 3, {}, "T1", "2 names 2 as the leader of term 0, which was 1"),
        (
            "terms",
            3,
            {"timeouts": 2, "faults": {"crash": 1, "amnesia": 1}, "options": {"prevote": False}},
            "T2",
            "1 begins to lead term 1 for the second time",
        ),
    ],
)
def test_the_property_that_an_election_breaks(
    name: str, n: int, bound: dict[str, Any], broken: str, why: str
) -> None:
    result = habemus.check(name, n, refines="election", **bound)
    assert result.violated == [broken]
    assert result.reasons[broken] == why
    assert result.trace is not None and again(result.trace).same


def test_the_abstract_election_keeps_its_properties() -> None:
    for faults in ({}, {"crash": 1, "recover": 1}):
        result = habemus.check(AbstractElection, 2, refines="election", faults=faults)
        assert verdicts(result) == dict.fromkeys(("T1", "T2", "T3"), "holds")


class NotPossible(Exception):
    pass


def names_leader(me: ProcessId, node: PureNode, wanted: list[int], leader: Leader) -> bool:
    """Return whether the abstract election at a process may indicate this now; then it does."""
    timer = {me: Lead(), None: Doubt()}.get(leader.process, Follow())
    wanted[:] = [leader.term]
    try:
        return Indicate(leader) in node.fire(0, timer)
    except NotPossible:
        return False


def test_it_does_everything_that_its_properties_allow() -> None:
    """Of terms 1 and 2, which belong to 1 and 2, it names every leader that breaks nothing."""
    wanted: list[int] = []

    def choose(options: Sequence[Any]) -> Any:
        if wanted[0] not in options:
            raise NotPossible
        return wanted[0]

    leaders = (Leader(None, 1), Leader(None, 2), Leader(1, 1), Leader(2, 2))
    for names in product(list(product((1, 2), leaders)), repeat=3):
        nodes = {me: PureNode(Stack(AbstractElection()), me, (3 - me,), choose) for me in (1, 2)}
        kept, latest = LeaderNames(), {1: Leader(None, 0), 2: Leader(None, 0)}
        for me, leader in names:
            after, broken = kept.after(me, leader)
            may = not broken and latest[me] != leader
            assert names_leader(me, nodes[me], wanted, leader) == may, names
            if not may:
                break
            kept, latest[me] = after, leader


# Bad input, and the command.


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--abstract detector", "there is no abstract detector; there are election"),
        ("--abstract election:trms=2", "has no option trms; did you mean terms?"),
        ("--abstract election:terms=100", "terms is from 1 to 99"),
        ("--abstract election:terms=x", "AbstractElection.terms must be int"),
        ("--refines election", "elected-coordinator is not a kind of election"),
        ("--abstract election --refines election", "are two checks; give one of them"),
        ("--timeouts Repet=1", "has no timer Repet; did you mean Repeat?"),
        ("--timeouts Lead=1", "elected-coordinator has no timer Lead;"),
        ("--timeouts Repeat", "'Repeat' is not a bound of timeouts"),
        ("--timeouts 1,2", "'2' is not a bound of timeouts"),
        ("--timeouts Repeat=100", "from 0 to 99 timeouts"),
        ("--asking 3", "asking 3: only 1, 2 can make requests"),
        ("--asking 1,", "'' is not the number of a process"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    arguments: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["check", "elected-coordinator", "-n", "2", *arguments.split()])
    error = capsys.readouterr().err
    assert leaving.value.code == 2
    assert says in error and error.count("\n") == 1


def test_an_algorithm_without_an_election_has_none_to_replace() -> None:
    with pytest.raises(BadSetup, match="central uses no election that could be replaced"):
        habemus.check("central", 2, abstract="election")


def test_the_command_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    result = habemus.check(
        "elected-coordinator", 2, abstract="election:terms=1", timeouts="1,Repeat=0", asking=[2]
    )
    plain = result.plain
    assert plain["command"] == (
        "habemus check elected-coordinator -n 2 --abstract election:terms=1 --asking 2"
        " --timeouts 1,Repeat=0"
    )
    with pytest.raises(SystemExit):
        main([*shlex.split(plain["command"])[1:], "--json"])
    again = json.loads(capsys.readouterr().out)
    assert (again["check"], again["states"]) == (plain["check"], plain["states"])
    assert Check.from_plain(again["check"]) == Check.from_plain(plain["check"])


# Budgets by the name of a timer, and participants that ask.


@pytest.mark.parametrize("search", ["breadth", "numpy", "symbolic"])
def test_the_only_timer_by_its_name(search: str) -> None:
    for faults in ({}, {"crash": 1}):
        one, other = (
            habemus.check(
                "central-timeout", 2, timeouts=timeouts, faults=faults, every=True, search=search
            )
            for timeouts in (1, "Overdue=1")
        )
        assert (one.states, verdicts(one)) == (other.states, verdicts(other))


def test_a_bound_in_all_and_one_by_name() -> None:
    def states(timeouts: str) -> int:
        return habemus.check("terms", 2, timeouts=timeouts).states

    assert states("2,Beat=0") < states("2") < states("3")
    assert states("2,Beat=0") == states("Patience=2,Beat=0")


def test_timers_that_are_bounded_by_name_leave_liveness_undecided() -> None:
    result = habemus.check("terms", 2, timeouts="Patience=1,Beat=0")
    assert verdicts(result)["E2"] == "undecided"
    assert "at most 0 timeouts of Beat, at most 1 timeout of Patience" in result.bound


def test_only_some_ask() -> None:
    def states(**asking: Any) -> int:
        return habemus.check("ricart-agrawala", 3, **asking).states

    assert states(asking=[1, 2, 3]) == states() == 28_582
    assert states(asking=[1, 2]) == 447
    assert (
        "1 entry of 1 and 2 only"
        in habemus.check("ricart-agrawala", 3, asking=[1, 2]).plain["bound"]
    )
