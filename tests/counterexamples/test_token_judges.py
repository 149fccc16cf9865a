"""TOKEN is judged in runs, in the conformance suite and in live traces: each judge must see a
coordinator that counts tokens anew.  Sweeps see it in `test_take_over_mutants`, torture in
`tests/unit/torture/test_judge.py` and `make torture-campaign`.
"""

from dataclasses import replace

import pytest
from tests.counterexamples.test_elected_coordinator_mutants import CountsTokensAnew

from habemus.algorithms.mutex.elected_coordinator import ElectedCoordinator
from habemus.catalog.entries import entry_of, find
from habemus.core.properties import Verdict
from habemus.deployment.services import judged
from habemus.problems.fencing import Token
from habemus.runs.commands import run_of
from habemus.runs.simulate import Report, execute
from habemus.testing.conformance import check_claims, check_crashes

# The coordinator crashes after the first grant, and the next one counts from 1 again.
RUN = run_of(
    "habemus run elected-coordinator -n 3 --ask 2@10ms --ask 3@2s --crash 1@1s --until 10s"
)


class GivesTheSameTokenTwice(ElectedCoordinator):
    def next_token(self) -> Token:
        return (1, 1)


def run(mutant: type[ElectedCoordinator]) -> Report:
    return execute(RUN, entry=replace(entry_of(mutant), box=find(mutant.name).box))


def verdict(report: Report) -> Verdict:
    [found] = [each.verdict for each in report.findings if each.name == "TOKEN"]
    return found


def test_in_runs() -> None:
    assert verdict(run(ElectedCoordinator)) is Verdict.HOLDS
    assert verdict(run(CountsTokensAnew)) is Verdict.VIOLATED


def test_in_live_traces() -> None:
    """The events of the run, as if nodes had recorded them."""
    for mutant, expected in (
        (ElectedCoordinator, Verdict.HOLDS),
        (CountsTokensAnew, Verdict.VIOLATED),
    ):
        trace = run(mutant).trace
        assert trace is not None
        recorded = {"algorithm": "elected-coordinator", "n": 3, "live": True}
        assert verdict(judged(replace(trace, run=recorded, findings=()))) is expected


def test_in_the_conformance_suite() -> None:
    check_claims(find(ElectedCoordinator.name))
    mutant = replace(entry_of(GivesTheSameTokenTwice), box=find(ElectedCoordinator.name).box)
    with pytest.raises(AssertionError, match="TOKEN"):
        check_claims(mutant)


def test_in_the_conformance_suite_with_crashes() -> None:
    mutant = replace(entry_of(CountsTokensAnew), box=find(ElectedCoordinator.name).box)
    with pytest.raises(AssertionError, match="has the token"):
        check_crashes(mutant)
