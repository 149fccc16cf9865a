"""Claims of Ricart and Agrawala 1981 (CACM 24(1)), of Carvalho and Roucairol 1983, and of the
lecture notes, one test each.
"""

import pytest

from habemus.algorithms.mutex.ra_priority import RicartAgrawalaPriority
from habemus.catalog.entries import entry_of, find
from habemus.core import ProcessId
from habemus.core.properties import Verdict
from habemus.runs.check import Check, perform
from habemus.runs.commands import run_of
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute
from habemus.scenarios import find as scenario
from habemus.traces import Trace

VARIANTS = (
    "ra-timeout",
    "ra-majority-naive",
    "ra-majority",
    "ra-priority",
    "ra-priority-aging",
    "ra-reliable",
    "roucairol-carvalho",
)


def traced(report: Report) -> Trace:
    assert report.trace is not None
    return report.trace


def entered(report: Report) -> list[ProcessId]:
    return [event.process for event in traced(report).events if event.name == "Granted"]


def found(report: Report) -> dict[str, Verdict]:
    return {finding.name: finding.verdict for finding in report.findings}


# The worked example and the special cases of the notes.


def test_worked_example_has_the_stamps_of_the_clock_rule() -> None:
    """A asks with 6, B answers 7, C answers 8, B asks with 8, C answers 9.  Then the notes have A
    release at 9; by the rule it is 11.
    """
    report = scenario("ra-three").run().report
    said = [
        (trace_label(report, event.process), event.name, event.fields()["stamp"])
        for event in traced(report).events
        if event.kind == "send"
    ]
    assert list(dict.fromkeys(said)) == [
        ("A", "Request", 6),
        ("B", "Reply", 7),
        ("C", "Reply", 8),
        ("B", "Request", 8),
        ("C", "Reply", 9),
        ("A", "Reply", 11),
        ("A", "Release", 11),
        ("B", "Release", 14),
    ]
    assert list(dict.fromkeys(stamp for _, _, stamp in said))[:5] == [6, 7, 8, 9, 11]
    assert entered(report) == [1, 2]


def trace_label(report: Report, process: ProcessId) -> str:
    return traced(report).label(process)


def test_equal_stamps_are_decided_by_the_id() -> None:
    """Special case 1: both ask with stamp 10, and the smaller id goes first."""
    report = scenario("ra-tie").run().report
    requests = [
        event for event in traced(report).events if event.kind == "send" and event.name == "Request"
    ]
    assert [event.fields()["stamp"] for event in requests] == [10, 10]
    assert entered(report) == [1, 2]


def test_three_at_once_enter_by_their_stamps() -> None:
    """Special case 3: stamps 10, 11, 12 enter in this order; also when the ids run the other
    way.
    """
    assert entered(scenario("ra-order").run().report) == [1, 2, 3]
    turned = Setup(
        "ricart-agrawala",
        3,
        initial=("1.clock=11", "2.clock=10", "3.clock=9"),
        asks=("1@1ms", "2@1ms", "3@1ms"),
    )
    assert entered(execute(turned)) == [3, 2, 1]


def test_timeout_of_the_notes_is_right_about_a_dead_peer_and_wrong_about_a_slow_one() -> None:
    """Special case 2 counts a call that failed as a reply."""
    assert scenario("ra-timeout-crash").run().verdict == "all hold"
    report = scenario("ra-timeout-slow").run().report
    assert report.violated == ["ME1"]
    assert (
        "when its timer Unanswered(3) ran out, while 1 was inside since 3 ms and paused"
        in report.why
    )


def test_one_crashed_process_blocks_all_others() -> None:
    """The table of the notes calls the algorithm tolerant of a failure.  It is not, whoever
    crashes.
    """
    for victim in (1, 2, 3):
        others = tuple(f"{process}@2ms" for process in (1, 2, 3) if process != victim)
        report = execute(
            Setup("ricart-agrawala", 3, asks=others, faults=(("crash", f"{victim}@1ms"),))
        )
        assert report.violated == ["ME2-deadlock"]
        assert f"{victim} (crashed)" in report.why


# Costs.


@pytest.mark.parametrize("size", range(2, 21))
def test_two_messages_for_everybody_else(size: int) -> None:
    """The paper: 2(N-1) messages, the least possible.  The notes say (N-1) in one place and 3(N-1)
    in another, which is with notices.
    """
    costs = execute(Setup("ricart-agrawala", size, workload="in-turn"), keep=False).costs
    assert (costs["messages_per_entry"], costs["client_delay"]) == (2 * (size - 1), 2)
    costs = execute(
        Setup("ricart-agrawala", size, options=("notices",), workload="in-turn"), keep=False
    ).costs
    assert costs["messages_per_entry"] == 3 * (size - 1)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_costs_what_its_formula_says(name: str) -> None:
    for size in range(2, 21):
        costs = execute(Setup(name, size, workload="in-turn"), keep=False).costs
        formula = costs["formula"]
        assert (costs["messages_per_entry"], costs["client_delay"]) == (
            formula["messages"],
            formula["client_delay"],
        ), size
    for size in (4, 7):
        costs = execute(Setup(name, size, workload="burst", hold="50ms"), keep=False).costs
        assert costs["formula"]["sync_delay"] in (None, costs["sync_delay"]), size


@pytest.mark.parametrize("size", [2, 3, 7])
def test_the_next_one_enters_one_message_after_the_exit(size: int) -> None:
    assert (
        execute(Setup("ricart-agrawala", size, workload="burst", hold="50ms"), keep=False).costs[
            "sync_delay"
        ]
        == 1
    )


def test_the_messages_per_entry_do_not_depend_on_contention() -> None:
    """The paper: always 2(N-1), also under load."""
    for seed in range(20):
        costs = execute(
            Setup("ricart-agrawala", 5, seed=seed, workload="burst", requests=4, delay="exp:1ms"),
            keep=False,
        ).costs
        assert costs["messages_per_entry"] == 8


# What holds.


@pytest.mark.parametrize("delay", ["exp:1ms", "heavy:1ms"])
def test_safety_progress_fairness_and_order_hold_in_any_order_of_arrival(delay: str) -> None:
    """The paper proves mutual exclusion, freedom from deadlock and from starvation; the notes claim
    the causal order as well.
    """
    for seed in range(300):
        report = execute(
            Setup(
                "ricart-agrawala",
                3 + (seed % 4 == 0),
                seed=seed,
                workload="burst",
                requests=3,
                delay=delay,
            ),
            keep=False,
        )
        for finding in report.findings:
            assert finding.verdict is Verdict.HOLDS, (
                f"{report.setup.command()}: {finding.name}: {finding.why}"
            )


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_keeps_what_its_card_claims(name: str) -> None:
    claimed = find(name).box.ensures
    assert claimed
    for seed in range(300 if "ME1" in claimed else 60):
        workload = "burst" if seed % 2 else "steady"
        delay = "heavy:1ms" if seed % 3 == 0 else "exp:1ms"
        setup = Setup(
            name,
            3 + (seed % 6 == 0),
            seed=seed,
            workload=workload,
            requests=3,
            delay=delay,
            until="60s",
        )
        report = execute(setup, keep=False)
        for property_name, verdict in found(report).items():
            if property_name.partition("-")[0] in claimed:
                assert verdict is Verdict.HOLDS, f"{setup.command()}: {property_name}: {report.why}"


# Optimisation 1: a majority.


def test_a_majority_of_replies_lets_two_in() -> None:
    report = scenario("ra-majority-naive").run().report
    assert report.violated == ["ME1"]
    replies = [
        event
        for event in traced(report).events
        if event.kind == "send" and event.name == "Reply" and event.process == 3
    ]
    assert {event.peer for event in replies} == {1, 2}, "3 replied to both"


def test_a_majority_of_votes_lets_in_one() -> None:
    assert entered(scenario("ra-majority-votes").run().report) == [1, 2]


def test_split_votes_are_gathered_by_yielding() -> None:
    report = scenario("ra-majority-split").run().report
    first_votes = [
        (event.process, event.peer)
        for event in traced(report).events
        if event.kind == "send" and event.name == "Vote"
    ][:4]
    assert sorted(first_votes) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert entered(report) == [1, 2, 3, 4]
    assert any(event.name == "Yield" for event in traced(report).events)


def test_a_majority_needs_no_reply_from_the_dead() -> None:
    assert scenario("ra-majority-crash").run().verdict == "all hold"
    setup = scenario("ra-majority-crash").setup
    blocked = execute(Setup("ricart-agrawala", 5, asks=setup.asks, faults=setup.faults))
    assert blocked.violated == ["ME2-deadlock"]


def test_a_dead_majority_blocks_all() -> None:
    faults = tuple(("crash", f"{process}@1ms") for process in (3, 4, 5))
    report = execute(Setup("ra-majority", 5, asks=("1@2ms", "2@2ms"), faults=faults))
    assert report.violated == ["ME2-deadlock"]


def test_a_majority_does_not_keep_the_causal_order() -> None:
    """Two majorities need not contain the process whose request happened before: the card does not
    claim ME3.
    """
    assert "ME3" not in find("ra-majority").box.ensures
    runs = (
        execute(Setup("ra-majority", 5, seed=seed, requests=6, delay="heavy:1ms"), keep=False)
        for seed in range(200)
    )
    assert any(found(report)["ME3"] is Verdict.VIOLATED for report in runs)


# Optimisation 2: priorities.


def urgent(seed: int, **changes: object) -> Setup:
    """Random priorities 0 to 2 of three to five processes."""
    size = 3 + seed % 3
    priorities = tuple(
        f"{process}.priority={(7 * seed + process * process) % 3}" for process in range(1, size + 1)
    )
    plain = {
        "algorithm": "ra-priority",
        "n": size,
        "seed": seed,
        "workload": "burst",
        "requests": 4,
        "delay": "exp:1ms",
    }
    return Setup.from_plain({**plain, "initial": list(priorities), **changes})


@pytest.mark.parametrize(
    ("name", "options"), [("ra-priority", []), ("ra-priority-aging", ["handicap=5"])]
)
def test_priorities_keep_one_out_and_end(name: str, options: list[str]) -> None:
    for seed in range(150):
        report = execute(urgent(seed, algorithm=name, options=options), keep=False)
        verdicts = found(report)
        assert (
            verdicts["ME1"]
            is verdicts["ME2-deadlock"]
            is verdicts["ME2-starvation"]
            is Verdict.HOLDS
        ), f"{report.setup.command()}: {report.why}"


class OnlyComparesDifferently(RicartAgrawalaPriority):
    """The priorities of the notes: another order of requests and nothing else."""

    def ask_again(self, process: ProcessId) -> None:
        pass


def test_priorities_as_the_notes_have_them_let_two_in() -> None:
    """Who has replied and then asks with a higher priority is let in as well: its reply should no
    longer have counted.
    """
    broken = [
        seed
        for seed in range(30)
        if "ME1"
        in execute(urgent(seed), entry=entry_of(OnlyComparesDifferently), keep=False).violated
    ]
    assert len(broken) > 5


def test_priorities_need_links_that_keep_the_order() -> None:
    broken = [
        seed
        for seed in range(30)
        if "ME1" in execute(urgent(seed, fifo=False), keep=False).violated
    ]
    assert broken


def test_the_more_urgent_goes_first_and_the_earlier_among_equals() -> None:
    """All wait while 4 is inside; 1 has the earliest stamp and the lowest priority, 2 a later stamp
    than 3.
    """
    first = ("1.priority=2", "2.priority=1", "3.priority=1", "2.clock=20", "3.clock=10")
    report = execute(
        Setup("ra-priority", 4, initial=first, asks=("4@1ms+9ms", "1@5ms", "2@7ms", "3@7ms"))
    )
    assert entered(report) == [4, 3, 2, 1]


def test_fixed_priorities_starve_the_less_urgent() -> None:
    report = scenario("ra-priority-starved").run().report
    assert report.violated == ["ME2-starvation"]
    assert 3 not in entered(report)
    assert len(entered(report)) > 150
    assert "low has waited since" in report.why


def test_aging_serves_the_same_load() -> None:
    outcome = scenario("ra-priority-aging").run()
    assert outcome.verdict == "all hold"
    assert outcome.report.costs["entries_by_process"] == {"1": 120, "2": 120, "3": 120}
    assert 20 < outcome.report.costs["largest_overtaking"] < 40
    starved = scenario("ra-priority-starved").setup
    assert (outcome.report.setup.requests, outcome.report.setup.initial) == (
        starved.requests,
        starved.initial,
    )


def test_a_larger_handicap_means_a_longer_wait() -> None:
    def wait(handicap: int) -> int:
        setup = Setup(
            "ra-priority-aging",
            3,
            workload="burst",
            requests=60,
            initial=("3.priority=1",),
            options=(f"handicap={handicap}",),
        )
        return int(execute(setup, keep=False).costs["largest_overtaking"])

    assert wait(0) < wait(50) < wait(100)


# Optimisation 3: reliable broadcast.


def test_it_keeps_its_properties_when_three_of_ten_are_lost_and_repeated() -> None:
    for seed in range(60):
        setup = run_of(
            f"habemus run ra-reliable -n 3 --seed {seed} --workload burst --requests 2 "
            "--delay exp:1ms --loss 30% --duplicate 30% --until 60s"
        )
        report = execute(setup, keep=False)
        assert report.verdict is Verdict.HOLDS, f"{setup.command()}: {report.why}"
    assert scenario("ra-reliable").run().verdict == "all hold"


def test_without_perfect_links_it_does_not() -> None:
    assert scenario("ra-lossy").run().report.violated == ["ME2-deadlock"]
    repeated = (
        execute(
            run_of(
                f"habemus run ricart-agrawala -n 3 --seed {seed} --workload burst --requests 3 "
                "--duplicate 30% --delay exp:1ms"
            ),
            keep=False,
        )
        for seed in range(30)
    )
    assert any("ME1" in report.violated for report in repeated)


def test_an_acknowledgement_is_a_cause_without_a_stamp() -> None:
    """Why ra-reliable does not claim ME3: the links' acknowledgement of an old message can tell of
    a new request, and no clock sees it.
    """
    assert "ME3" not in find("ra-reliable").box.ensures
    runs = (
        execute(
            Setup("ra-reliable", 3, seed=seed, requests=4, delay="exp:1ms", loss="30%"), keep=False
        )
        for seed in range(300)
    )
    assert any(found(report)["ME3"] is Verdict.VIOLATED for report in runs)


# Roucairol and Carvalho.


def test_who_enters_again_sends_nothing() -> None:
    report = scenario("roucairol-carvalho-kept").run().report
    assert (report.costs["entries"], report.costs["messages"]) == (3, 4)
    assert entered(report) == [1, 1, 1]


def test_never_more_than_two_messages_for_everybody_else() -> None:
    fewer = 0
    for seed in range(100):
        size = 2 + seed % 4
        costs = execute(
            Setup(
                "roucairol-carvalho", size, seed=seed, requests=5, think="0..30ms", delay="exp:1ms"
            ),
            keep=False,
        ).costs
        assert costs["messages_per_entry"] <= 2 * (size - 1)
        fewer += costs["messages_per_entry"] < 2 * (size - 1)
    assert fewer > 50


def test_a_permission_given_away_is_asked_for_again() -> None:
    """A request with an older stamp takes a permission that was kept, and so never asked for: it
    must be asked for now.
    """
    report = scenario("roucairol-carvalho-again").run().report
    at_that_moment = [
        (event.name, event.peer)
        for event in traced(report).events
        if event.kind == "send" and (event.process, event.time) == (1, 21_000)
    ]
    assert at_that_moment == [("Reply", 2), ("Request", 2)]
    assert entered(report) == [1, 3, 2, 1]


def test_kept_permissions_do_not_keep_the_causal_order() -> None:
    """Who has all permissions asks nobody, even if a request that happened before its own is under
    way to it.
    """
    assert "ME3" not in find("roucairol-carvalho").box.ensures
    runs = (
        execute(
            Setup("roucairol-carvalho", 4, seed=seed, requests=4, delay="heavy:1ms"), keep=False
        )
        for seed in range(100)
    )
    assert any(found(report)["ME3"] is Verdict.VIOLATED for report in runs)


def test_without_a_clock_in_the_replies_the_order_is_not_kept() -> None:
    """In the paper only requests carry a number.  A process can then learn of a request by a reply,
    and ask with a smaller number.
    """
    paper = perform(Check("ricart-agrawala", 3, options=("tick=0",), entries=2, order=True))
    assert paper.violated == ["ME3"]
    assert paper.stories["ME3"].steps == 13
    assert perform(Check("ricart-agrawala", 2, entries=2, order=True)).verdict is Verdict.HOLDS
