"""Options for several algorithms at once."""

import pytest

from habemus.analysis.cards.crashes import cells
from habemus.analysis.cards.search import tasks_of, with_options
from habemus.analysis.numbers.compare import Comparison
from habemus.analysis.numbers.ranges import sizes
from habemus.analysis.sweeps.seeded_setups import SeededSetups
from habemus.catalog.entries import find
from habemus.runs.options import check_options, options_for
from habemus.runs.setup import BadSetup

GIVEN = ("timeout=30ms",)


def test_each_algorithm_gets_the_options_that_it_has() -> None:
    assert options_for(find("central-timeout"), GIVEN) == GIVEN
    assert options_for(find("central"), GIVEN) == ()


def test_an_option_that_none_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadSetup, match="no algorithm here has an option timout; did you mean time"):
        check_options([find("central-timeout")], ("timout=3ms",))


def test_the_options_reach_every_run() -> None:
    entry = find("central-timeout")
    assert all("--option timeout=30ms" in cell.command for cell in cells(entry, False, GIVEN))
    comparison = Comparison(("central-timeout", "central"), sizes("3"), options=GIVEN)
    comparison.check()
    assert [task.setup.options for task in comparison.tasks()] == [GIVEN, ()]
    assert SeededSetups(sizes("3"), options=GIVEN).setup(entry, 0).options == GIVEN


def test_the_options_reach_every_search_of_a_card() -> None:
    tasks = [with_options(task, GIVEN) for task in tasks_of(find("central-timeout"))]
    assert tasks and all(GIVEN[0] in check.options for task in tasks for check in task.checks)
