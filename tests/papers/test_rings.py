"""Claims about elections on rings, each with its source."""

import ast
import inspect
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations, permutations
from math import ceil, factorial, log2

import pytest

from habemus.algorithms.election import itai_rodeh, ring_anonymous
from habemus.algorithms.election.chang_roberts import ChangRoberts
from habemus.algorithms.election.chang_roberts_plain import ChangRobertsPlain
from habemus.algorithms.election.franklin import Franklin
from habemus.algorithms.election.hirschberg_sinclair import HirschbergSinclair
from habemus.algorithms.election.itai_rodeh import ItaiRodeh
from habemus.algorithms.election.peterson import Peterson
from habemus.algorithms.election.ring import Ring, arranged, shuffled
from habemus.algorithms.election.ring_anonymous import RingAnonymous
from habemus.algorithms.election.ring_list import RingList
from habemus.catalog.entries import entries
from habemus.core import MistakeInPlan, ProcessId
from habemus.core.properties import Verdict
from habemus.problems.election import Call, Calls, Election
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute
from habemus.runtimes.sim.network import Exponential, Network, Uniform
from habemus.runtimes.sim.simulation import Record, Simulation
from habemus.scenarios import find

RINGS = 200


def messages(
    algorithm: type[Election],
    size: int,
    callers: Iterable[ProcessId] | None = None,
    *,
    seed: int = 0,
    delay: int = 0,
    **options: object,
) -> int:
    """How many messages an election takes; all call at once unless told otherwise.  With a delay,
    links are slow by chance.
    """
    calls = [Call(process, 1) for process in (range(1, size + 1) if callers is None else callers)]
    network = Network(Exponential(delay) if delay else Uniform(), fifo=algorithm.assumes.fifo)
    simulation = Simulation(
        algorithm.system(size, **options),
        workload=Calls(calls),
        network=network,
        seed=seed,
        record=Record.NOTHING,
    )
    ending = simulation.run(events=1_000_000)
    assert ending.reason == "quiescent"
    return ending.sent


def harmonic(size: int) -> Fraction:
    return sum((Fraction(1, k) for k in range(1, size + 1)), Fraction())


def run(name: str, size: int, **more: object) -> Report:
    return execute(Setup(name, size, **more), keep=False)  # type: ignore[arg-type]  # any field of a setup


# Arrangements.


def test_arrangements_are_permutations_and_reproducible() -> None:
    assert list(arranged(4, "increasing")) == [1, 2, 3, 4]
    assert list(arranged(4, "decreasing")) == [4, 3, 2, 1]
    assert list(arranged(4, (2, 4, 1, 3))) == [2, 4, 1, 3]
    assert list(shuffled(10, 0)) == [
        5,
        10,
        3,
        6,
        2,
        8,
        7,
        1,
        4,
        9,
    ]  # the same on every machine, for ever
    for arrangement in range(50):
        assert sorted(shuffled(17, arrangement)) == list(range(1, 18))
    assert len({tuple(shuffled(17, arrangement)) for arrangement in range(50)}) == 50


def test_shuffling_is_fair() -> None:
    """Every id is first about equally often: 1000 of 5000 times, give or take five deviations of
    28.
    """
    firsts = [shuffled(5, arrangement)[0] for arrangement in range(5_000)]
    assert all(abs(firsts.count(process) - 1_000) < 145 for process in range(1, 6))


@pytest.mark.parametrize("order", [(1, 2), (1, 1, 2), (0, 1, 2), (2, 3, 4)])
def test_an_order_names_everybody_once(order: tuple[int, ...]) -> None:
    with pytest.raises(MistakeInPlan, match="each of the ids 1 to 3 once"):
        ChangRoberts.system(3, order=order)


@pytest.mark.parametrize(
    "name", [name for name, entry in entries().items() if issubclass(entry.algorithm, Ring)]
)
def test_the_formula_is_exact(name: str) -> None:
    """Where an algorithm states its costs for a lone caller, the measurement equals them, in rings
    of any size and order.
    """
    stated = 0
    for size in (1, 2, 3, 4, 7, 20):
        for arrangement in range(4):
            options = (
                (f"arrangement={arrangement}",) if "arrangement" in entries()[name].options else ()
            )
            costs = run(name, size, workload="in-turn", options=options).costs
            for formula, measured in (("messages", "messages"), ("turnaround", "turnaround")):
                if costs["formula"][formula] is not None:
                    stated += 1
                    assert costs[measured] == costs["formula"][formula], (
                        f"{name}, {size}: {measured}"
                    )
    assert stated or name in ("chang-roberts-plain", "franklin", "hirschberg-sinclair", "peterson")


# Identical processes: lecture notes on coordination, first algorithm on rings; Angluin 1980.


def test_with_one_candidate_one_is_elected() -> None:
    for size in range(1, 8):
        report = run("ring-anonymous", size, asks=(f"{size}@1ms",))
        assert report.verdict is Verdict.HOLDS
        assert report.costs["leader"] == size
        assert report.costs["messages"] == (2 * size if size > 1 else 0)


def test_every_candidate_of_the_same_moment_is_elected() -> None:
    """Identical processes that see the same do the same: whoever is a candidate takes office, in 2n
    messages.
    """
    for size in (2, 3, 4, 5):
        for number in range(2, size + 1):
            for candidates in combinations(range(1, size + 1), number):
                report = run(
                    "ring-anonymous", size, asks=tuple(f"{process}@1ms" for process in candidates)
                )
                assert report.costs["elections"] == number
                assert report.costs["messages"] == 2 * size
                assert "E1" in report.violated


def test_everybody_gets_a_leader_whoever_stands_when() -> None:
    """E2 holds with any number of candidates at any moments, over links that do not keep the
    order.
    """
    for seed in range(100):
        report = run(
            "ring-anonymous",
            3 + seed % 5,
            seed=seed,
            workload="burst" if seed % 2 else "steady",
            requests=3,
            delay="exp:1ms",
        )
        assert {finding.name: finding.verdict for finding in report.findings}[
            "E2"
        ] is Verdict.HOLDS, report.setup.command()


@pytest.mark.parametrize("module", [ring_anonymous, itai_rodeh])
def test_anonymous_processes_do_not_look_at_their_ids(module: object) -> None:
    tree = ast.parse(inspect.getsource(module))  # type: ignore[arg-type]  # a module
    tests = [
        node.test for node in ast.walk(tree) if isinstance(node, ast.If | ast.IfExp | ast.While)
    ]
    decisions = [
        *tests,
        *(node for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.BoolOp)),
    ]
    assert decisions
    for decision in decisions:
        named = {node.attr for node in ast.walk(decision) if isinstance(node, ast.Attribute)}
        assert named.isdisjoint({"me", "peers", "leader", "left", "right"})


def test_itai_and_rodeh_break_the_symmetry() -> None:
    """Itai, Rodeh 1990: with the size known, drawing lots elects exactly one of identical
    candidates.
    """
    leaders = set()
    for seed in range(RINGS):
        size = 2 + seed % 7
        report = run(
            "itai-rodeh",
            size,
            seed=seed,
            workload="burst" if seed % 2 else "steady",
            requests=2,
            delay="exp:1ms" if seed % 3 else "1ms",
        )
        assert report.verdict is Verdict.HOLDS, report.setup.command()
        leaders.add((size, report.costs["leader"]))
    assert len(leaders) > 20  # not always the same one


def test_itai_and_rodeh_cost_n_log_n_on_average() -> None:
    for size in (10, 40, 160):
        average = Fraction(sum(messages(ItaiRodeh, size, seed=seed) for seed in range(30)), 30)
        assert size * log2(size) < average < 2 * size * log2(size)


def test_two_candidates_draw_three_times() -> None:
    trace = find("itai-rodeh-two").run().report.trace
    assert trace is not None
    assert max(event.fields()["round"] for event in trace.events if event.name == "Token") == 3


# Collecting all ids: lecture notes on coordination, second algorithm on rings.


def test_a_list_costs_2n_for_each_caller() -> None:
    for size in (2, 5, 20):
        for callers in (1, 2, size):
            assert messages(RingList, size, range(1, callers + 1)) == 2 * size * callers
    report = execute(Setup("ring-list", 9, asks=("4@1ms",)))
    assert report.trace is not None
    lists = [
        event.fields()["ids"]
        for event in report.trace.events
        if event.kind == "send" and event.name == "Collect"
    ]
    assert [len(ids) for ids in lists] == list(range(1, 10))
    assert report.costs["leader"] == 1


# Chang, Roberts 1979.


@pytest.mark.parametrize("size", [2, 3, 4, 10, 33, 100])
def test_chang_roberts_worst_case_is_exact(size: int) -> None:
    """Ids that decrease in the direction of travel, all start: n(n+1)/2 messages, and n to
    announce.
    """
    assert messages(ChangRoberts, size, order="decreasing") == size * (size + 1) // 2 + size
    assert messages(ChangRobertsPlain, size, order="decreasing") == size * (size + 1) // 2


@pytest.mark.parametrize("size", [2, 3, 10, 100])
def test_chang_roberts_best_case_is_exact(size: int) -> None:
    """Ids that increase in the direction of travel: every other id is dropped at once."""
    assert messages(ChangRoberts, size, order="increasing") == 2 * size - 1 + size


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_chang_roberts_average_over_all_orders_is_exact(size: int) -> None:
    """n*H_n messages on average, and n to announce."""
    counts = [
        messages(ChangRoberts, size, order=order) for order in permutations(range(1, size + 1))
    ]
    assert Fraction(sum(counts), factorial(size)) == size * harmonic(size) + size
    assert max(counts) == size * (size + 1) // 2 + size


def test_chang_roberts_average_over_random_rings() -> None:
    """Within 5 % of n*H_n + n; over 1,000 rings instead of 200 it was found to be 618.60, where the
    formula gives 618.74.
    """
    size = 100
    average = Fraction(
        sum(messages(ChangRoberts, size, arrangement=ring) for ring in range(RINGS)), RINGS
    )
    assert abs(average / (size * harmonic(size) + size) - 1) < Fraction(5, 100)


def test_chang_roberts_lone_caller() -> None:
    """Coulouris et al., 15.3: at most 3n-1 messages, when the largest stands just before the
    caller.
    """
    size = 9
    counts = [
        messages(ChangRoberts, size, [caller], order="increasing") for caller in range(1, size + 1)
    ]
    assert max(counts) == counts[0] == 3 * size - 1
    assert min(counts) == counts[-1] == 2 * size


def test_chang_roberts_can_be_called_again() -> None:
    report = run("chang-roberts", 6, workload="in-turn", requests=6)
    assert report.verdict is Verdict.HOLDS
    around = list(shuffled(6, 0))
    assert report.costs["messages"] == sum(
        (around.index(6) - around.index(caller)) % 6 + 12 for caller in range(1, 7)
    )


def test_the_plain_form_needs_the_largest_to_call() -> None:
    """Lecture notes on coordination, read literally: a lone caller gets an answer only if it is the
    largest.
    """
    for caller in range(1, 6):
        report = run("chang-roberts-plain", 5, options=("announce",), asks=(f"{caller}@1ms",))
        assert report.violated == ([] if caller == 5 else ["E2"])
    silent = run("chang-roberts-plain", 5, workload="burst")
    assert silent.violated == ["E2"]  # only 5 itself knows
    assert silent.costs["elections"] == 1
    assert (
        run("chang-roberts-plain", 5, options=("announce",), workload="burst").verdict
        is Verdict.HOLDS
    )


# Franklin 1982.


def franklin_rounds(around: Sequence[ProcessId]) -> int:
    """By the definition: in each round those smaller than a neighbour among the active ones drop
    out.
    """
    active = list(around)
    rounds = 1
    while len(active) > 1:
        size = len(active)
        active = [
            each
            for index, each in enumerate(active)
            if each >= max(active[index - 1], active[(index + 1) % size])
        ]
        rounds += 1
    return rounds


def test_franklin_elects_the_largest_in_logarithmically_many_rounds() -> None:
    """2n messages in each of at most floor(log2 n) + 1 rounds, whatever the timing and the callers;
    then n to announce.
    """
    for number in range(RINGS):
        size = 2 + number % 60
        report = run(
            "franklin",
            size,
            seed=number,
            options=(f"arrangement={number}",),
            workload="burst" if number % 3 else "steady",
            delay="exp:1ms" if number % 2 else "1ms",
        )
        rounds = franklin_rounds(shuffled(size, number))
        assert report.verdict is Verdict.HOLDS
        assert report.costs["leader"] == size
        assert report.costs["messages"] == 2 * size * rounds + size
        assert rounds <= int(log2(size)) + 1


def test_franklin_rounds_can_be_as_many_as_the_bound() -> None:
    outcome = find("franklin-rounds").run()
    assert outcome.report.costs["messages"] == 2 * 8 * 4 + 8
    trace = outcome.report.trace
    assert trace is not None
    own = [
        event
        for event in trace.events
        if event.kind == "send"
        and event.name == "Nominee"
        and event.fields()["process"] == event.process
    ]
    active = [
        sorted({event.process for event in own if event.fields()["round"] == number})
        for number in (1, 2, 3, 4)
    ]
    assert active == [[1, 2, 3, 4, 5, 6, 7, 8], [5, 6, 7, 8], [7, 8], [8]]


# Hirschberg, Sinclair 1980.


def hirschberg_sinclair_messages(around: Sequence[ProcessId]) -> int:
    """By the definition: every candidate's probes go as far as to a larger process, and replies
    come back if there was none.
    """
    size = len(around)
    total = 0
    for index, process in enumerate(around):
        phase = 0
        while True:
            reach = 2**phase
            free = 0
            for way in (1, -1):
                steps = next(
                    steps
                    for steps in range(1, size + 1)
                    if around[(index + way * steps) % size] >= process
                )
                total += min(steps, reach)
                if reach < steps:
                    total += reach
                    free += 1
            if free < 2:
                break
            phase += 1
    return total + size


def test_hirschberg_sinclair_elects_the_largest_within_its_bound() -> None:
    for number in range(100):
        size = 2 + number % 60
        report = run(
            "hirschberg-sinclair",
            size,
            seed=number,
            options=(f"arrangement={number}",),
            delay="exp:1ms" if number % 2 else "1ms",
        )
        assert report.verdict is Verdict.HOLDS
        assert report.costs["leader"] == size
        assert report.costs["messages"] == hirschberg_sinclair_messages(shuffled(size, number))
        assert report.costs["messages"] <= 8 * size * (1 + ceil(log2(size))) + size


def test_the_hardest_rings_stay_within_the_bounds() -> None:
    """Also where every second one survives each phase, which is the most that can; there Franklin's
    bound is met.
    """
    for exponent in range(1, 9):
        size = 2**exponent
        order = _halving(exponent)
        assert messages(HirschbergSinclair, size, order=order) <= 8 * size * (1 + exponent) + size
        assert messages(Peterson, size, order=order) <= 2 * size * exponent + 2 * size
        assert messages(Franklin, size, order=order) == 2 * size * (exponent + 1) + size


def _halving(exponent: int) -> tuple[ProcessId, ...]:
    """An order in which every second one drops out in each round: the positions with their bits
    reversed.
    """
    return tuple(int(f"{index:0{exponent}b}"[::-1], 2) + 1 for index in range(2**exponent))


# Peterson 1982; Dolev, Klawe, Rodeh 1982.


def peterson_phases(around: Sequence[ProcessId]) -> int:
    """How often the ids that are no local maximum drop out before one is left."""
    return franklin_rounds(around) - 1


def test_peterson_elects_the_largest_within_its_bound() -> None:
    """2n messages in each of at most floor(log2 n) phases, n in the last, n to announce."""
    for number in range(RINGS):
        size = 2 + number % 60
        report = run(
            "peterson",
            size,
            seed=number,
            options=(f"arrangement={number}",),
            delay="exp:1ms" if number % 2 else "1ms",
        )
        assert report.verdict is Verdict.HOLDS
        assert report.costs["leader"] == size
        assert (
            report.costs["messages"]
            == 2 * size * peterson_phases(shuffled(size, number)) + 2 * size
        )
        assert report.costs["messages"] <= 2 * size * int(log2(size)) + 2 * size


def test_peterson_needs_the_order_of_messages() -> None:
    """The card says so: over links that reorder, some runs elect nobody or the wrong one."""
    wrong = 0
    for seed in range(60):
        report = run(
            "peterson",
            12,
            seed=seed,
            options=(f"arrangement={seed}",),
            workload="burst",
            delay="exp:1ms",
            fifo=False,
            events=100_000,
        )
        wrong += report.verdict is not Verdict.HOLDS or report.costs["leader"] != 12
    assert wrong > 0


@pytest.mark.parametrize(
    "algorithm", [ChangRoberts, Franklin, HirschbergSinclair, RingList, RingAnonymous]
)
def test_the_others_do_not_need_the_order_of_messages(algorithm: type[Election]) -> None:
    assert not algorithm.assumes.fifo
    for seed in range(40):
        report = run(algorithm.name, 8, seed=seed, asks=(f"{1 + seed % 8}@1ms",), delay="heavy:1ms")
        assert report.verdict is Verdict.HOLDS, report.setup.command()
