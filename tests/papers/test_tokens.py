"""The claims of the papers on tokens, each measured: Suzuki-Kasami, Raymond, Naimi-Trehel, and the
ring that repairs itself.
"""

import math
import random
from typing import Any

import pytest

from habemus.algorithms.mutex.raymond import Raymond
from habemus.catalog.entries import entry_of, find
from habemus.core import System
from habemus.core.properties import Verdict, worst
from habemus.core.system import star
from habemus.runs.commands import run_of
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute
from habemus.scenarios import find as find_scenario

SIZES = (8, 16, 32, 64)


def one_by_one(algorithm: str, size: int, who: list[int], **more: Any) -> Report:
    """These processes enter one after the other, each when everything is quiet."""
    asks = tuple(f"{process}@{1 + 100 * turn}ms+1ms" for turn, process in enumerate(who))
    report = execute(Setup(algorithm, size, asks=asks, **more), keep=False)
    assert report.costs["entries"] == len(who)
    return report


def anybody(size: int, times: int) -> list[int]:
    draw = random.Random(size)
    return [draw.randrange(1, size + 1) for _ in range(times)]


@pytest.mark.parametrize(
    "algorithm", ["suzuki-kasami", "raymond", "naimi-trehel", "token-ring-repair"]
)
def test_claims_over_many_seeds(algorithm: str) -> None:
    """What the cards claim, on links that reorder; Raymond 1989, abstract: it operates correctly
    despite message overtaking.
    """
    claimed = find(algorithm).box.ensures
    assert claimed == ("ME1", "ME2")
    for seed in range(300):
        setup = Setup(
            algorithm,
            2 + seed % 4,
            seed=seed,
            workload="burst",
            requests=3,
            delay="exp:1ms",
            until="60s",
        )
        report = execute(setup, keep=False)
        assert report.verdict.value == "holds", f"{setup.command()}: {report.why}"
        assert report.costs["entries"] == 3 * setup.n


# Suzuki and Kasami, ACM TOCS 3(4), 1985.


@pytest.mark.parametrize("size", [3, 5, 10])
def test_suzuki_kasami_needs_n_messages_or_none(size: int) -> None:
    """Abstract: at most N messages for one invocation; and none if the process has the privilege
    already.
    """
    assert one_by_one("suzuki-kasami", size, [1, 1, 1]).costs["messages"] == 0
    assert one_by_one("suzuki-kasami", size, [2]).costs["messages"] == size
    assert one_by_one("suzuki-kasami", size, [2, 2, size, size, 2]).costs["messages"] == 3 * size


@pytest.mark.parametrize("algorithm", ["suzuki-kasami", "naimi-trehel"])
def test_the_token_goes_straight_to_the_next(algorithm: str) -> None:
    """With a queue that is known, one message lies between an exit and the next entry."""
    for size in (3, 8, 20):
        costs = execute(Setup(algorithm, size, workload="burst", hold="100ms"), keep=False).costs
        assert costs["entries"] == size
        assert costs["sync_delay"] == 1


def test_suzuki_kasami_does_not_serve_in_order_of_asking() -> None:
    """The card claims no ME3: in the scenario 3 asks before 1, 1 knows it, and 1 enters first."""
    findings = {
        finding.name: finding.verdict.value
        for finding in find_scenario("suzuki-kasami-three").run().report.findings
    }
    assert findings["ME3"] == "violated"


# Raymond, ACM TOCS 7(1), 1989.


def distance(one: int, other: int) -> int:
    """Between two nodes of the binary tree: to the parent is to halve the number."""
    steps = 0
    while one != other:
        one, other = max(one, other) // 2, min(one, other)
        steps += 1
    return steps


@pytest.mark.parametrize("size", SIZES)
def test_raymond_needs_two_messages_for_each_edge_to_the_token(size: int) -> None:
    """Section 4: a request goes to the token and the token comes back, so 2 messages for each edge,
    at most twice the diameter.
    """
    who = anybody(size, 5 * size)
    expected = [
        2 * distance(holder, process) for holder, process in zip([1, *who], who, strict=False)
    ]
    assert one_by_one("raymond", size, who).costs["messages"] == sum(expected)
    assert max(expected) <= 4 * int(math.log2(size))


@pytest.mark.parametrize("size", SIZES)
def test_raymond_is_logarithmic_under_light_demand(size: int) -> None:
    """Abstract: typically O(log N) under light demand.  Measured: 1.6 to 2.2 times log2 N."""
    assert one_by_one("raymond", size, anybody(size, 10 * size)).costs[
        "messages_per_entry"
    ] < 2.4 * math.log2(size)


@pytest.mark.parametrize("size", SIZES)
def test_raymond_needs_about_four_messages_under_saturated_demand(size: int) -> None:
    """Abstract: reduces to approximately four messages."""
    costs = execute(Setup("raymond", size, workload="burst", requests=10), keep=False).costs
    assert 3 < costs["messages_per_entry"] <= 4


class RaymondOnAStar(Raymond):
    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        nodes = range(1, size + 1)
        return System({me: cls(holder=1, **options) for me in nodes}, star(nodes), tuple(nodes))


def test_raymond_depends_on_the_tree_and_not_on_its_size() -> None:
    """Abstract: the number of messages depends on the topology of the tree; in a star no two nodes
    are more than two edges apart.
    """
    for size in SIZES:
        asks = tuple(
            f"{process}@{1 + 100 * turn}ms" for turn, process in enumerate(anybody(size, 3 * size))
        )
        report = execute(
            Setup("raymond", size, asks=asks), entry=entry_of(RaymondOnAStar), keep=False
        )
        assert report.verdict.value == "holds"
        assert report.costs["messages_per_entry"] <= 4
    for seed in range(60):
        setup = Setup("raymond", 6, seed=seed, workload="burst", requests=3, delay="exp:1ms")
        assert execute(setup, entry=entry_of(RaymondOnAStar), keep=False).verdict.value == "holds"


# Naimi, Trehel and Arnold, JPDC 34(1), 1996.


@pytest.mark.parametrize("size", SIZES)
def test_naimi_trehel_is_logarithmic_on_average(size: int) -> None:
    """O(log N) messages on average.  If anybody is as likely to ask as anybody else, it is the
    harmonic number H(N-1) (Lavault: Average-case analysis of path reversal, 1992), request and
    token together."""
    measured = one_by_one("naimi-trehel", size, anybody(size, 2_000)).costs["messages_per_entry"]
    harmonic = sum(1 / k for k in range(1, size))
    assert measured == pytest.approx(harmonic, rel=0.05)
    assert measured < math.log2(size)


def test_naimi_trehel_needs_n_messages_at_worst() -> None:
    """If the pointers make a chain, a request from its end goes through all others; after that,
    everybody points at the same one.
    """
    chain = tuple(f"{process}.last={process - 1}" for process in range(2, 11))
    assert one_by_one("naimi-trehel", 10, [10], initial=chain).costs["messages"] == 10
    assert one_by_one("naimi-trehel", 10, [10, 5], initial=chain).costs["messages"] == 12
    assert one_by_one("naimi-trehel", 10, [10, 10, 10], initial=chain).costs["messages"] == 10


# The ring, plain and repaired.


def test_plain_ring_dies_of_any_crash() -> None:
    """The notes on coordination: if any process fails, the ring is broken; the repaired one lives
    on.
    """
    for process in (1, 2, 3, 4):
        crash = (("crash", f"{process}@3500us"),)
        asks = tuple(f"{other}@5500us+2ms" for other in (1, 2, 3, 4) if other != process)
        plain = execute(Setup("token-ring", 4, asks=asks, faults=crash), keep=False)
        assert plain.violated == ["ME2-deadlock"]
        repaired = execute(Setup("token-ring-repair", 4, asks=asks, faults=crash), keep=False)
        assert repaired.verdict.value == "holds"
        assert repaired.costs["entries"] == 3


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("process", [1, 2, 3])
def test_repaired_ring_survives_a_crash_at_every_step(process: int, back: bool) -> None:
    """Before each single message that it sends: as a bystander, inside, with the token, with the
    token under way to it or from it.
    """
    recovery = (
        tuple(("recover", f"{process}@{moment}ms") for moment in (12, 24, 36, 48)) if back else ()
    )
    crashes = recoveries = 0
    for count in range(2, 22):
        setup = Setup(
            "token-ring-repair",
            3,
            seed=count,
            options=("patience=2500", "silence=8ms"),
            workload="burst",
            requests=20,
            hold="500us",
            delay="500..1000",
            faults=(("crash", f"{process}@send#{count}"), *recovery),
            until="2s",
        )
        report = execute(setup)
        # Of the recoveries only the first one after the crash strikes.
        assert worst(report.counted) is Verdict.HOLDS, f"{setup.command()}: {report.why}"
        assert report.trace is not None
        crashes += sum(event.kind == "crash" for event in report.trace.events)
        recoveries += sum(event.kind == "recover" for event in report.trace.events)
    assert crashes == 20
    assert recoveries == (20 if back else 0)


def test_repaired_ring_survives_two_crashes_at_once() -> None:
    """The holder inside and any other at the same moment, which may be the one that would have
    looked for the token first.
    """
    for first in (1, 2, 3, 4):
        for second in sorted({1, 2, 3, 4} - {first}):
            faults = (("crash", f"{first}@Granted#1"), ("crash", f"{second}@{first}.Granted#1"))
            report = execute(
                Setup(
                    "token-ring-repair", 4, workload="burst", requests=2, faults=faults, until="5s"
                ),
                keep=False,
            )
            assert report.verdict.value == "holds", report.why
            served = report.costs["entries_by_process"]
            assert all(served[str(process)] == 2 for process in {1, 2, 3, 4} - {first, second})


def test_repaired_ring_costs_two_messages_a_step() -> None:
    """The token and its acknowledgement: 2 messages per entry when everybody wants in."""
    costs = execute(Setup("token-ring-repair", 10, workload="burst", requests=50), keep=False).costs
    assert costs["messages_per_entry"] == pytest.approx(2, rel=0.05)
    assert costs["sync_delay"] == 1


def test_repaired_ring_asks_in_vain_for_a_token_that_lives() -> None:
    """How long one waits before one asks is no matter of safety: the holder stops the inquiry,
    however long it stays inside.
    """
    for seed in range(8):
        options = ("patience=2500", "silence=500")
        setup = Setup(
            "token-ring-repair",
            4,
            seed=seed,
            options=options,
            workload="burst",
            requests=2,
            hold="8ms",
            delay="1..1000",
            until="5s",
        )
        report = execute(setup)
        assert report.verdict.value == "holds", report.why
        assert report.trace is not None
        assert sum(event.name == "Inquiry" for event in report.trace.events) > 100
        epochs = {
            str(getattr(event.value, "epoch", ""))
            for event in report.trace.events
            if event.name == "Token"
        }
        assert epochs == {"(0, 0)"}


def test_repaired_ring_needs_its_bound() -> None:
    """With a patience shorter than a message and its acknowledgement, even a run without any fault
    has two inside.
    """
    violated = 0
    for seed in range(20):
        setup = run_of(
            f"habemus run token-ring-repair -n 4 --seed {seed} -o patience=1500 --workload burst "
            "--requests 5 --hold 3ms --until 5s"
        )
        violated += "ME1" in execute(setup, keep=False).violated
    assert violated > 10
