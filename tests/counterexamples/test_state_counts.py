"""How many states there are: the numbers that Spin finds for the models in benchmarks/check/models,
to the last one.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from habemus.algorithms.election.chang_roberts import ChangRoberts
from habemus.algorithms.mutex.maekawa import Maekawa
from habemus.algorithms.mutex.ricart_agrawala import RicartAgrawala
from habemus.problems.election_observer import ElectionClientModel, ElectionObserver
from habemus.problems.mutex import Mutex
from habemus.problems.mutex_observer import MutexClientModel, MutexObserver
from habemus.runtimes.checker.process_model import Bound
from habemus.runtimes.checker.search import Search

BENCHMARK = Path(__file__).parents[2] / "benchmarks/check/bench.py"


def counts(search: Search) -> tuple[int, int, int]:
    extent = search.run(stop_at_first=False)
    assert extent.complete
    assert extent.depth is not None
    return extent.states, extent.transitions, extent.depth


@pytest.mark.parametrize(
    ("algorithm", "options", "expected", "wrong"),
    [
        (RicartAgrawala, {"tick": 0}, (2_101, 5_545, 18), []),
        (RicartAgrawala, {}, (11_361, 21_755, 18), []),
        (Maekawa, {"sets": [[1, 2], [2, 3], [3, 1]]}, (2_153, 7_038, 24), ["ME2-deadlock"]),
    ],
    ids=["ricart-agrawala", "ricart-agrawala-ticks", "maekawa-cycle"],
)
def test_three_enter_once(
    algorithm: type[Mutex],
    options: dict[str, Any],
    expected: tuple[int, int, int],
    wrong: list[str],
) -> None:
    system = algorithm.system(3, **options)
    search = Search(
        system, dict.fromkeys(system.plans, MutexClientModel(1)), MutexObserver(), Bound(fifo=True)
    )
    assert counts(search) == expected
    assert list(search.wrong) == wrong


@pytest.mark.parametrize(
    ("size", "expected"), [(5, (4_332, 14_315, 32)), (6, (18_344, 73_456, 41))]
)
def test_everybody_in_a_ring_calls_once(size: int, expected: tuple[int, int, int]) -> None:
    system = ChangRoberts.system(size)
    observer = ElectionObserver(tuple(system.plans), ChangRoberts.scope, called=False)
    search = Search(
        system, dict.fromkeys(system.plans, ElectionClientModel(1)), observer, Bound(fifo=True)
    )
    assert counts(search) == expected
    assert not search.wrong


@pytest.mark.parametrize("size", [5, 6, 7])
def test_the_benchmark_has_our_rings(size: int) -> None:
    around = ", ".join(map(str, ChangRoberts().around(size)))
    assert re.search(rf'"chang-roberts-{size}"[^_]*_ring\({around}\)', BENCHMARK.read_text())
