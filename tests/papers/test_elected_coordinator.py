"""Claims about the elected coordinator (spec: its two options and the card of each combination),
one test each.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import median

import pytest

from habemus.catalog import entries as catalog
from habemus.core import MistakeInPlan
from habemus.core.events import Event
from habemus.core.properties import Finding, Verdict
from habemus.deployment.services import live_options
from habemus.problems.fencing import Token
from habemus.runs import notation
from habemus.runs.mutex import MutexJudge, workload
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute, faults_of, system_of
from habemus.runtimes.sim.network import Network
from habemus.runtimes.sim.simulation import Simulation
from habemus.scenarios import find
from habemus.traces import Trace

RECORDED, LEASED, PLAIN, UNRECORDED = (
    f"elected-coordinator{suffix}" for suffix in ("", "-leased", "-plain", "-unrecorded")
)


def traced(report: Report) -> Trace:
    assert report.trace is not None
    return report.trace


def verdicts(report: Report) -> dict[str, Verdict]:
    return {finding.name: finding.verdict for finding in report.findings}


def tokens(report: Report) -> list[tuple[int, Token]]:
    """Of all entries, in their order: who entered, with which token."""
    return [
        (event.process, tuple(event.fields()["token"]))
        for event in traced(report).events
        if event.name == "Granted"
    ]


def sent(report: Report) -> Counter[str]:
    return Counter(
        event.name
        for event in traced(report).events
        if event.kind == "send" and event.peer != event.process and not event.part
    )


def troubled(algorithm: str, seed: int, pauses: bool = True) -> Setup:
    """Crashes at any moment and in the middle of every kind of step, recoveries, pauses, cuts of
    both kinds, loss, copies and wild delays.  All is healed in the end, and everybody who has
    crashed by 1.2 s comes back."""
    draw = random.Random(seed)
    size = draw.choice((3, 4, 5))
    faults: list[tuple[str, str]] = []
    for _ in range(draw.randrange(2, 8)):
        who, moment = draw.randrange(1, size + 1), draw.randrange(0, 900)
        back = ("recover", f"{who}@{moment + draw.randrange(1, 400)}ms")
        match draw.choice(("crash", "step", "entry", "pause", "cut", "one-way")):
            case "crash":
                faults += [("crash", f"{who}@{moment}ms"), back]
            case "step":
                step = draw.choice(
                    ("Record", "Recorded", "Inquire", "Answer", "Request", "Release", "send")
                )
                faults += [
                    ("crash", f"{who}@{step}#{draw.randrange(1, 6)}"),
                    back,
                    ("recover", f"{who}@1200ms"),
                ]
            case "entry":
                faults += [
                    ("crash", f"{who}@Granted#{draw.randrange(1, 4)}"),
                    back,
                    ("recover", f"{who}@1200ms"),
                ]
            case "pause" if pauses:
                when = draw.choice((f"{moment}ms", "Granted#1"))
                faults.append(("pause", f"{who}@{when}+{draw.randrange(1, 500)}ms"))
            case "cut":
                everybody = list(range(1, size + 1))
                draw.shuffle(everybody)
                border = draw.randrange(1, size)
                groups = "|".join(
                    ",".join(map(str, group)) for group in (everybody[:border], everybody[border:])
                )
                faults += [
                    ("cut", f"{groups}@{moment}ms"),
                    ("heal", f"all@{moment + draw.randrange(50, 600)}ms"),
                ]
            case _:
                other = draw.choice([each for each in range(1, size + 1) if each != who])
                faults.append(("cut", f"{who}>{other}@{moment}ms"))
    return Setup(
        algorithm,
        size,
        seed=seed,
        requests=draw.choice((2, 5)),
        think=draw.choice(("0..10ms", "0..300ms")),
        hold=draw.choice(("1ms", "20ms..150ms")),
        delay=draw.choice(("1ms", "exp:3ms", "heavy:1ms")),
        loss=draw.choice(("0", "0.05")),
        duplicate=draw.choice(("0", "0.1")),
        faults=(*faults, ("heal", "all@1200ms")),
        until="5s",
    )


@dataclass
class Run:
    """A run without its trace, which three hundred of them have no use for."""

    setup: Setup
    judge: MutexJudge
    tokens: dict[int, list[Token]] = field(
        default_factory=dict
    )  # of each process, in the order of its entries
    down: set[int] = field(default_factory=set)  # who is down in the end
    findings: dict[str, Finding] = field(default_factory=dict)

    def observe(self, event: Event) -> None:
        if event.kind == "indicate" and event.name == "Granted":
            self.tokens.setdefault(event.process, []).append(event.fields()["token"])
        elif event.kind in ("crash", "recover"):
            (self.down.add if event.kind == "crash" else self.down.discard)(event.process)

    def is_violated(self, name: str) -> bool:
        return name in self.findings and self.findings[name].verdict is Verdict.VIOLATED

    def told(self) -> str:
        return f"{self.setup.command()}: {[finding.why for finding in self.findings.values()]}"


def troubled_runs(algorithm: str, seeds: int) -> Iterator[Run]:
    entry = catalog.find(algorithm)
    for seed in range(seeds):
        setup = troubled(algorithm, seed)
        system = system_of(setup, entry)
        network = Network(
            notation.delay(setup.delay),
            False,
            notation.chance(setup.loss),
            notation.chance(setup.duplicate),
        )
        simulation = Simulation(
            system,
            workload=workload(setup, system),
            network=network,
            faults=faults_of(setup),
            seed=seed,
        )
        run = Run(setup, MutexJudge(setup, system, network))
        simulation.observers += [run.judge.observe, run.observe]
        ending = simulation.run(5_000_000)
        run.findings = {finding.name: finding for finding in run.judge.findings(ending.reason, {})}
        yield run


# The cost.


@pytest.mark.parametrize("size", [2, 3, 4, 5, 10])
def test_a_recorded_entry_costs_three_messages_and_a_majority(size: int) -> None:
    """The borrower is one of the majority, and its record costs no message.  Each of the others is
    asked to record the loan, and told that it is over.
    """
    report = execute(Setup(RECORDED, size, asks=("2@50ms", f"{size}@150ms")))
    assert report.costs["messages_per_entry"] == 3 + 3 * (size // 2 - 1)
    assert report.costs["client_delay"] == (2 if size <= 3 else 4)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 10])
@pytest.mark.parametrize("algorithm", [PLAIN, UNRECORDED])
def test_an_unrecorded_entry_costs_three_messages(algorithm: str, size: int) -> None:
    report = execute(Setup(algorithm, size, asks=("2@50ms", f"{size}@150ms")))
    assert report.costs["messages_per_entry"] == 3
    assert report.costs["client_delay"] == 2


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_the_borrower_is_among_those_who_record(size: int) -> None:
    """It records the loan as it enters, so it is not asked to, and one process fewer is."""
    report = execute(
        Setup(
            RECORDED,
            size,
            asks=tuple(f"{process}@{50 * process}ms" for process in range(2, size + 1)),
        )
    )
    records = [
        event for event in traced(report).events if event.kind == "send" and event.name == "Record"
    ]
    assert not [
        record
        for record in records
        if record.fields()["loan"]["Loan"]["borrower"] in (record.peer, record.process)
    ]
    assert len(records) == (size - 1) * (size // 2 - 1)
    assert [process for process, _ in tokens(report)] == list(range(2, size + 1))


def test_the_coordinator_itself_pays_for_the_records_only() -> None:
    assert execute(Setup(RECORDED, 5, asks=("1@50ms",))).costs["messages_per_entry"] == 6
    assert execute(Setup(PLAIN, 5, asks=("1@50ms",))).costs["messages_per_entry"] == 0


@pytest.mark.parametrize(
    ("algorithm", "size", "delay"),
    [
        (RECORDED, 3, 2),
        (LEASED, 3, 2),
        (RECORDED, 5, 4),
        (LEASED, 5, 4),
        (PLAIN, 5, 2),
        (UNRECORDED, 5, 2),
    ],
)
def test_synchronisation_delay(algorithm: str, size: int, delay: int) -> None:
    report = execute(Setup(algorithm, size, asks=("2@50ms+20ms", "3@55ms")))
    assert report.costs["sync_delay"] == delay


@pytest.mark.parametrize("algorithm", [RECORDED, PLAIN])
def test_a_take_over_costs_a_question_and_an_answer_each(algorithm: str) -> None:
    counted = sent(execute(Setup(algorithm, 5, asks=("2@10ms",))))
    assert (counted["Inquire"], counted["Answer"]) == (4, 4)


def test_a_renewal_is_recorded_like_a_grant() -> None:
    """Inside for 300 ms by leases of 90 ms, renewed every 30 ms."""
    report = execute(Setup(LEASED, 5, options=("lease=90ms",), asks=("2@10ms+300ms",)))
    counted = sent(report)
    assert verdicts(report)["ME1"] is Verdict.HOLDS and len(tokens(report)) == 1
    renewals = counted["Request"] - 1
    assert renewals == 10
    assert counted["Grant"] == counted["Record"] == counted["Recorded"] == 1 + renewals


# Loans that stay.


def test_an_entry_by_a_loan_that_has_stayed_costs_nothing() -> None:
    report = execute(Setup(LEASED, 3, asks=("2@50ms", "2@55ms", "2@60ms", "2@65ms")))
    counted = sent(report)
    assert (counted["Request"], counted["Grant"], counted["Recall"]) == (1, 1, 0)
    assert tokens(report) == [(2, (1, count)) for count in (1, 2, 3, 4)]


@pytest.mark.parametrize("size", [3, 5, 7])
def test_costs_are_as_in_the_table_of_the_documentation(size: int) -> None:
    page = (Path(__file__).parents[2] / "docs" / "lending.md").read_text()
    [row] = [line for line in page.splitlines() if line.startswith(f"| {size} | ")]
    alone = execute(Setup(LEASED, size, workload="in-turn", requests=10)).costs
    fair, turns = (
        execute(Setup(LEASED, size, think="0", requests=30, options=(option,))).costs
        for option in ("turns=0", "turns=4")
    )
    found = (
        *(f"{alone[name]:.2f}" for name in ("messages_per_entry", "client_delay")),
        *(f"{fair[name]:.2f}" for name in ("messages_per_entry", "sync_delay")),
        *(str(fair["largest_overtaking"]), f"{turns['messages_per_entry']:.2f}"),
        str(turns["largest_overtaking"]),
    )
    assert row == f"| {size} | {' | '.join(found)} |"
    assert turns["largest_overtaking"] == (size - 1) * (1 + 4)


def test_a_loan_for_which_others_wait_goes_back_when_its_borrower_leaves() -> None:
    """The tokens that were not used are lent to the next borrower."""
    report = execute(Setup(LEASED, 3, asks=("2@50ms", "2@55ms+10ms", "3@60ms", "2@66ms")))
    assert sent(report)["Recall"] == 2
    assert tokens(report) == [(2, (1, 1)), (2, (1, 2)), (3, (1, 3)), (2, (1, 4))]


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_recalled_loan_serves_a_few_more_applications_of_its_borrower(turns: int) -> None:
    """All three processes want the lock all the time, and have another entry ready."""
    report = execute(
        Setup(LEASED, 3, think="0", requests=12, options=(f"turns={turns}", "block=20"))
    )
    in_a_row = [len(list(each)) for _, each in groupby(tokens(report), key=itemgetter(0))]
    # without the first one, and the last ones, who find no others that wait
    assert set(in_a_row[1:-3]) == {1 + turns}
    counts = [count for _, (_, count) in tokens(report)]
    assert counts == sorted(set(counts)), "each entry has a token of its own"
    assert verdicts(report)["ME1"] is Verdict.HOLDS


def test_a_turn_is_taken_only_by_an_application_that_waits() -> None:
    """2 asks again when it has left: 3, which waited, comes first."""
    report = execute(Setup(LEASED, 3, asks=("2@50ms+10ms", "3@55ms", "2@60001us")))
    assert [process for process, _ in tokens(report)] == [2, 3, 2]


def test_an_unused_loan_goes_back_at_once_when_it_is_recalled() -> None:
    report = execute(Setup(LEASED, 3, asks=("2@50ms", "3@60ms")))
    [_, entered] = [event.time for event in traced(report).events if event.name == "Granted"]
    assert entered == 64_000, "request, recall, release, grant"


def test_a_grant_says_that_others_wait_and_saves_the_recall() -> None:
    report = execute(Setup(LEASED, 3, asks=("2@50ms+9ms", "3@52ms+9ms", "1@54ms+9ms")))
    assert sent(report)["Recall"] == 1, "when 3 came; 1 waited already when 3 was let in"
    assert [process for process, _ in tokens(report)] == [2, 3, 1]


def test_a_loan_has_as_many_entries_as_tokens() -> None:
    asks = tuple(f"2@{moment}ms" for moment in range(50, 70, 4))
    report = execute(Setup(LEASED, 3, options=("block=2",), asks=asks))
    assert sent(report)["Request"] == 3
    assert [count for _, (_, count) in tokens(report)] == [1, 2, 3, 4, 5]


def test_a_loan_that_nobody_uses_goes_back_when_its_renewal_is_due() -> None:
    """After a third of a lease; the next one to ask pays for no recall."""
    report = execute(Setup(LEASED, 3, options=("lease=90ms",), asks=("2@50ms", "3@85ms")))
    assert (sent(report)["Recall"], sent(report)["Request"]) == (0, 2)
    released = [
        event.time
        for event in traced(report).events
        if event.kind == "send" and event.name == "Release"
    ]
    assert released[0] == 80_000


def test_no_token_of_a_block_is_used_after_a_crash() -> None:
    """2 has used two of its tokens.  Nobody else knows how many."""
    setup = Setup(
        LEASED,
        3,
        asks=("2@50ms", "2@52ms", "2@70ms", "3@90ms"),
        faults=(("crash", "2@55ms"), ("recover", "2@60ms")),
    )
    assert [token for _, token in tokens(execute(setup))] == [(1, 1), (1, 2), (1, 1001), (1, 1002)]


@pytest.mark.parametrize("seed", range(8))
def test_others_are_not_overtaken_after_a_recall(seed: int) -> None:
    """2 asks again as soon as it has left; 3 is let in after the recall, one message time later."""
    asks = (*(f"2@{50 + moment}ms+2ms" for moment in range(30)), "3@60500us")
    report = execute(Setup(LEASED, 3, seed=seed, asks=asks))
    entries = [
        (event.process, event.time) for event in traced(report).events if event.name == "Granted"
    ]
    recalled = next(
        event.time
        for event in traced(report).events
        if event.kind == "receive" and event.name == "Recall"
    )
    [entered] = [time for process, time in entries if process == 3]
    assert not [time for process, time in entries if process == 2 and recalled < time < entered]


# Safety.


def test_never_two_inside_whatever_happens() -> None:
    """Recorded, without a lease: ME1 under any timing, and tokens that only grow."""
    entries = takeovers = 0
    for run in troubled_runs(RECORDED, 300):
        check_that_nobody_believes_wrongly(run)
        entries += len(run.judge.fence.tokens)
        takeovers += len({term for term, _ in run.judge.fence.tokens}) - 1 if entries else 0
    assert entries > 2_500 and takeovers > 100, "or little was shown"


def test_never_two_inside_if_everybody_is_asked() -> None:
    """Not recorded, without a lease."""
    for run in troubled_runs(PLAIN, 60):
        check_that_nobody_believes_wrongly(run)


def check_that_nobody_believes_wrongly(run: Run) -> None:
    granted = run.judge.fence.tokens
    assert not run.is_violated("ME1") and not run.is_violated("FENCE"), run.told()
    assert granted == sorted(set(granted)), f"{run.told()}: {granted}"
    assert not run.judge.fence.refused
    if not run.down:
        assert run.findings["ME2-deadlock"].verdict is Verdict.HOLDS, run.told()


@pytest.mark.parametrize("algorithm", [LEASED, UNRECORDED])
def test_with_a_lease_two_may_believe_but_the_resource_is_not_deceived(algorithm: str) -> None:
    two_inside = refused = 0
    for run in troubled_runs(algorithm, 60):
        assert not run.is_violated("FENCE"), run.told()
        for process, own in run.tokens.items():
            assert own == sorted(own), f"{run.told()}: the tokens of {process} are {own}"
        granted = run.judge.fence.tokens
        assert len(set(granted)) == len(granted), f"{run.told()}: a token was given twice"
        two_inside += run.is_violated("ME1")
        refused += run.judge.fence.refused
    assert two_inside and refused, "nobody was late, so nothing was shown"


def test_recorded_leases_keep_two_apart_as_long_as_nobody_stands_still() -> None:
    """And no clock is slower than another by more than a tenth."""
    for seed in range(60):
        setup = troubled(LEASED, seed, pauses=False)
        drift = (("skew", f"{1 + seed % 3}=+45000"), ("skew", f"{1 + (seed + 1) % 3}=-45000"))
        report = execute(replace(setup, faults=(*setup.faults, *drift)), keep=False)
        assert verdicts(report)["ME1"] is not Verdict.VIOLATED, f"{setup.command()}: {report.why}"


def test_the_lock_moves_on_with_leases_as_long_as_a_majority_is_up() -> None:
    for seed in range(20):
        faults = (
            ("crash", f"{1 + seed % 5}@Granted#1"),
            ("crash", f"{1 + (seed + 1) % 5}@{100 + 20 * seed}ms"),
        )
        report = execute(
            Setup(LEASED, 5, seed=seed, requests=3, hold="20ms", faults=faults), keep=False
        )
        assert verdicts(report)["ME2-deadlock"] is Verdict.HOLDS, f"{seed}: {report.why}"


# The required scenarios.


def test_two_leaders_of_the_bully_give_the_same_token_twice() -> None:
    report = find("split-brain-two-in").run().report
    assert report.violated == ["ME1"]
    assert tokens(report) == [(4, (0, 1)), (1, (0, 1))]
    assert verdicts(report)["FENCE"] is Verdict.VIOLATED, "a token without a term does not help"


def test_the_minority_side_waits() -> None:
    outcome = find("split-brain-recorded").run()
    assert outcome.as_expected
    entered = {
        event.process: event.time
        for event in traced(outcome.report).events
        if event.name == "Granted"
    }
    assert entered[4] < 25_000 < entered[3] < 160_000 < entered[2], (
        "2 is cut off from the majority from 25 to 160 ms"
    )
    assert [token for _, token in tokens(outcome.report)] == [(1, 1), (2, 1), (2, 2)]


def test_the_late_write_is_refused() -> None:
    report = find("split-brain-fenced").run().report
    assert report.violated == ["ME1"] and verdicts(report)["FENCE"] is Verdict.HOLDS
    assert report.costs["writes"] == {"accepted": 3, "refused": 1}
    [lost] = [event for event in traced(report).events if event.name == "LockLost"]
    assert lost.process == 2 and lost.time == 220_000, "when it wakes up"


def test_a_new_coordinator_goes_on_at_once() -> None:
    """3 enters within four messages of the release, though the coordinator that let 2 in is
    gone.
    """
    report = find("coordinator-crash-recorded").run().report
    events = traced(report).events
    left = next(event.time for event in events if event.name == "release")
    entered = [event.time for event in events if event.name == "Granted"][-1]
    assert entered - left <= 4_010


# Details.


def test_one_alone() -> None:
    report = execute(Setup(RECORDED, 1, requests=3))
    assert report.verdict is Verdict.HOLDS and report.costs["messages"] == 0


@pytest.mark.parametrize("election", ["terms", "bully", "bully-stable", "omega", "omega-recovery"])
def test_over_any_election(election: str) -> None:
    report = execute(
        Setup(
            RECORDED,
            4,
            options=(f"elected_by={election}",),
            requests=3,
            faults=(("crash", "4@Granted#2"), ("recover", "4@400ms")),
        )
    )
    assert report.verdict is Verdict.HOLDS, report.why


@pytest.mark.parametrize(
    "option",
    [
        *("elected_by=lot", "recording=some", "lease=-1", "lease=50", "block=0"),
        *("largest_count=0", "largest_count=4294967296"),
    ],
)
def test_options_that_make_no_sense_are_refused(option: str) -> None:
    with pytest.raises(MistakeInPlan):
        execute(Setup(RECORDED, 3, options=(option,)))


def test_no_lease_is_granted_that_ran_out_in_the_queue() -> None:
    """3 waits for far longer than a lease; when its turn comes the lease counts from its latest
    request.
    """
    report = execute(
        Setup(LEASED, 3, options=("lease=30ms",), asks=("2@10ms+200ms", "3@20ms+100ms"))
    )
    assert report.verdict is Verdict.HOLDS
    assert not [event for event in traced(report).events if event.name == "LockLost"]


@pytest.mark.parametrize("seed", range(6))
def test_a_lock_at_the_node_of_a_dead_leader_is_granted_again_after_its_lease(seed: int) -> None:
    """With the defaults of live clusters: an election of less than a second, then 1.1 leases."""
    algorithm = "elected-coordinator-leased-members"
    setup = Setup(
        algorithm,
        3,
        seed=seed,
        options=live_options(algorithm, ()),
        requests=40,
        think="0..50ms",
        hold="20ms..80ms",
        delay="exp:1ms",
        until="20s",
    )
    leader = next(event.process for event in traced(execute(setup)).events if event.name == "Grant")
    crash = ("crash", f"{leader}@Granted#5")
    events = traced(execute(replace(setup, faults=(crash,)))).events
    [crashed] = [event.time for event in events if event.kind == "crash"]
    granted = [e.time for e in events if e.name == "Granted" and e.process != leader]
    assert any(time < crashed for time in granted)
    assert 10_000_000 < next(time for time in granted if time > crashed) - crashed < 12_000_000


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_the_lock_survives_the_crash_of_a_minority_and_of_no_more(size: int) -> None:
    for crashed in range(size):
        crashes = tuple(("crash", f"{size - each}@30ms") for each in range(crashed))
        asks = ("1@500ms+1ms", "1@900ms+1ms")
        report = execute(Setup(LEASED, size, asks=asks, faults=crashes, until="3s"))
        entered = [event for event in traced(report).events if event.name == "Granted"]
        assert len(entered) == (2 if crashed <= (size - 1) // 2 else 0), report.why


# A process that is down.


def waits(algorithm: str, size: int, askers: list[int], crashed: int | None) -> list[int]:
    """Return how long each of two processes waits that take turns; another one may be down."""
    report = execute(
        Setup(
            algorithm,
            size,
            asks=tuple(f"{askers[turn % 2]}@{1_000 + 4 * turn}ms+3ms" for turn in range(40)),
            faults=() if crashed is None else (("crash", f"{crashed}@200ms"),),
        )
    )
    since: dict[int, int] = {}
    found = []
    for event in traced(report).events:
        if event.name == "acquire":
            since[event.process] = event.time
        elif event.name == "Granted":
            found.append(event.time - since[event.process])
    assert len(found) == 40
    return found


@pytest.mark.parametrize("crashed", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("algorithm", [RECORDED, LEASED, f"{LEASED}-members"])
def test_a_process_that_is_down_delays_each_of_two_others_once_at_most(
    algorithm: str, crashed: int
) -> None:
    """The coordinator asks the processes that answered last to record a loan."""
    for size in (3, 5):
        if crashed > size:
            continue
        askers = [process for process in range(1, size + 1) if process != crashed][-2:]
        healthy = waits(algorithm, size, askers, None)
        degraded = waits(algorithm, size, askers, crashed)
        assert median(degraded) <= 2 * median(healthy)
        assert len([wait for wait in degraded if wait > 2 * max(healthy)]) <= len(askers)


# The end of the count of a term.


@pytest.mark.parametrize("algorithm", [RECORDED, LEASED, PLAIN, f"{LEASED}-members"])
def test_a_new_term_begins_before_a_block_of_tokens_goes_beyond_the_last_one(
    algorithm: str,
) -> None:
    """11 tokens are no room for a third block of 4: so the coordinator begins the next term, and
    stays the coordinator.
    """
    options = ("block=4", "largest_count=11")
    report = execute(Setup(algorithm, 3, options=options, requests=12, workload="burst"))
    found = [token for _, token in tokens(report)]
    assert len(found) == 36
    assert found == sorted(set(found))
    assert max(count for _, count in found) <= 11
    ended = [event for event in traced(report).events if event.name == "TermUsedUp"]
    assert len(ended) == found[-1][0] - found[0][0] >= 2
    assert {event.process for event in ended} == {ended[0].process}
    assert report.verdict is Verdict.HOLDS, report.why


def test_a_claim_waits_for_the_next_term() -> None:
    """A claim takes a new token, and there is none: the application goes on in the next term."""
    options = ("moves=1", "largest_count=1")
    report = execute(Setup(RECORDED, 3, options=options, asks=("2@50ms+20ms",)))
    resumed = [event.time for event in traced(report).events if event.name == "Resumed"]
    used_up = [event.time for event in traced(report).events if event.name == "TermUsedUp"]
    assert len(resumed) == len(used_up) == 1
    assert used_up[0] < resumed[0]
    assert verdicts(report)["ME1"] is Verdict.HOLDS


def test_without_terms_the_lock_ends_and_no_token_falls() -> None:
    options = ("elected_by=bully", "largest_count=3")
    report = execute(Setup(RECORDED, 3, options=options, requests=2))
    assert [token for _, token in tokens(report)] == [(0, 1), (0, 2), (0, 3)]
