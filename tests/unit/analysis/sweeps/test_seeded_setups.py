"""The run of a seed: several sizes, workloads and delays, and only those crashes that the card
allows.
"""

from dataclasses import replace

import pytest

from habemus.analysis.numbers.ranges import SizeRange
from habemus.analysis.sweeps.seeded_setups import SeededSetups
from habemus.catalog.entries import entries, find
from habemus.core.system import TOPOLOGIES
from habemus.runs.setup import BadSetup
from habemus.runs.simulate import faults_of, system_of
from habemus.runtimes.sim.faults import Crash, Cut, Heal, Nth, Recover

PLAIN = SeededSetups(SizeRange(2, 6))
CRASHING = SeededSetups(SizeRange(2, 6), crashes=True)


def test_the_seed_decides_everything() -> None:
    entry = find("quorum-yield")
    assert [CRASHING.setup(entry, seed) for seed in range(20)] == [
        CRASHING.setup(entry, seed) for seed in range(20)
    ]
    assert len({CRASHING.setup(entry, seed).faults for seed in range(20)}) > 10


def test_sizes_workloads_and_delays_vary() -> None:
    setups = [PLAIN.setup(find("ricart-agrawala"), seed) for seed in range(60)]
    assert {setup.n for setup in setups} == {2, 3, 4, 5, 6}
    assert {(setup.n, setup.workload) for setup in setups} == {
        (n, workload) for n in range(2, 7) for workload in ("steady", "burst")
    }
    assert {setup.delay for setup in setups} == {"exp:1ms", "100..3000", "heavy:100us", "1ms"}
    assert {setup.hold for setup in setups} == {"1ms", "30ms", "900ms"}
    assert not any(setup.faults for setup in setups)


def test_arrangements_and_topologies_vary() -> None:
    of_rings = {PLAIN.setup(find("chang-roberts"), seed).options for seed in range(40)}
    assert {options[0] for options in of_rings} == {
        "order=random",
        "order=increasing",
        "order=decreasing",
    } and len(of_rings) > 20
    assert len({PLAIN.setup(find("yo-yo"), seed).options[-1] for seed in range(60)}) == len(
        TOPOLOGIES
    )
    assert {PLAIN.setup(find("maekawa"), seed).options for seed in range(20)} == {
        ("sets=plane-or-grid",),
        ("sets=majority",),
    }


def test_everybody_crashes_at_once() -> None:
    setups = [CRASHING.setup(find("elected-coordinator"), seed) for seed in range(60)]
    struck = [
        (setup.n, [text.partition("@")[2] for kind, text in setup.faults if kind == "crash"])
        for setup in setups
    ]
    assert any(len(moments) == size and len(set(moments)) == 1 for size, moments in struck)


def test_a_given_delay_is_used() -> None:
    assert SeededSetups(SizeRange(3, 3), delay="2ms").setup(find("central"), 7).delay == "2ms"


def test_links_are_as_bad_as_the_card_allows() -> None:
    assert {PLAIN.setup(find("ra-reliable"), seed).loss for seed in range(30)} == {
        "0",
        "0.1",
        "0.3",
    }
    assert {PLAIN.setup(find("quorum"), seed).duplicate for seed in range(30)} == {"0", "0.2"}
    assert {PLAIN.setup(find("lamport"), seed).duplicate for seed in range(30)} == {"0"}


@pytest.mark.parametrize("name", list(entries()))
def test_every_algorithm_can_be_drawn(name: str) -> None:
    CRASHING.check(find(name))
    for seed in range(10):
        setup = CRASHING.setup(find(name), seed)
        faults_of(setup)
        system_of(setup, find(name))


@pytest.mark.parametrize("name", ["ra-reliable", "quorum-yield", "terms", "bully", "central"])
def test_no_word_of_the_card_decides_which_faults_are_injected(name: str) -> None:
    entry = find(name)
    words = "fair-loss links, copies do no harm; a bound; nobody crashes."
    reworded = replace(entry, box=replace(entry.box, sections={"Assumes": words}))
    for seed in range(20):
        assert CRASHING.setup(reworded, seed) == CRASHING.setup(entry, seed)


def test_no_crash_where_the_card_allows_none() -> None:
    for name in ("lamport", "ricart-agrawala", "quorum", "central-timeout"):
        assert not any(CRASHING.setup(find(name), seed).faults for seed in range(20))


CUT = {
    "adaptive",
    "elected-coordinator",
    "elected-coordinator-leased",
    "elected-coordinator-leased-members",
    "elected-coordinator-members",
    "elected-coordinator-plain",
    "elected-coordinator-unrecorded",
    "omega",
    "phi-accrual",
    "ra-reliable",
    "swim",
    "terms",
    "terms-members",
}


@pytest.mark.parametrize("name", list(entries()))
def test_links_are_cut_only_where_the_assumptions_tolerate_it(name: str) -> None:
    setups = [CRASHING.setup(find(name), seed) for seed in range(30)]
    is_cut = any(kind == "cut" for setup in setups for kind, _ in setup.faults)
    assert is_cut == (name in CUT)


def test_cuts_go_one_way_and_both_ways_and_end_long_after_an_election() -> None:
    both = one_way = in_steps = 0
    for seed in range(200):
        setup = CRASHING.setup(find("elected-coordinator"), seed)
        faults = faults_of(setup)
        cuts = [fault for fault in faults if isinstance(fault, Cut)]
        if not cuts:
            continue
        links = {link for cut in cuts for link in cut.links}
        both += all((to, by) in links for by, to in links)
        one_way += not any((to, by) in links for by, to in links)
        *steps, last = [fault for fault in faults if isinstance(fault, Heal)]
        in_steps += bool(steps)
        assert last.links == () and isinstance(last.when, int) and isinstance(cuts[0].when, int)
        assert last.when - cuts[0].when >= 200_000, "longer than the patience of an election"
        named = {process for link in links for process in link}
        assert len(named) == setup.n, "every process is on one of two sides"
        assert setup.hold in ("300ms", "900ms")
    assert min(both, one_way, in_steps) > 5


def test_elections_meet_restarts_amid_the_votes() -> None:
    restarts = [
        sum(kind == "crash" for kind, _ in CRASHING.setup(find("terms"), seed).faults)
        for seed in range(40)
    ]
    assert max(restarts) >= 10


def test_whoever_must_come_back_does() -> None:
    for seed in range(200):
        faults = faults_of(CRASHING.setup(find("quorum-yield"), seed))
        crashes = {fault.process: fault.when for fault in faults if isinstance(fault, Crash)}
        returns = {fault.process: fault.when for fault in faults if isinstance(fault, Recover)}
        assert crashes.keys() == returns.keys()
        for process, when in crashes.items():
            back = returns[process]
            assert isinstance(back, int)
            assert isinstance(when, Nth) or when < back
        assert sum(isinstance(when, Nth) for when in crashes.values()) <= 1, (
            "the second could come after its return"
        )


def test_more_than_half_stay_up_where_the_card_says_so() -> None:
    for seed in range(100):
        setup = CRASHING.setup(find("ra-majority"), seed)
        struck = [fault for fault in faults_of(setup) if isinstance(fault, Crash)]
        assert len(struck) <= (setup.n - 1) // 2
        assert all(
            isinstance(fault.when, Nth) and fault.when.kind == "release" for fault in struck
        ), "it must not wait or be inside"


def test_somebody_stays_up() -> None:
    for seed in range(200):
        setup = CRASHING.setup(find("token-ring-repair"), seed)
        faults = faults_of(setup)
        back = {fault.process for fault in faults if isinstance(fault, Recover)}
        assert len({fault.process for fault in faults if isinstance(fault, Crash)} - back) < setup.n


def test_sizes_that_no_run_can_have() -> None:
    with pytest.raises(BadSetup, match="other numbers of participants"):
        SeededSetups(SizeRange(5_000, 6_000)).check(find("ricart-agrawala"))
