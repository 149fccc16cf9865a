"""Planted bugs that an exhaustive search must find: what the galleries of mutants share.

A row of a gallery says which line is broken, within which bound it is searched for, which property
it violates, after how many steps at the earliest, and how many states were visited until then.
Both numbers are exact: a search visits the same states every time, so a changed number is a changed
algorithm or a changed search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import pytest

from habemus.catalog.entries import entry_of
from habemus.core.process import Process
from habemus.core.properties import Verdict
from habemus.runs.check import Check, CheckReport, perform


class Bug(NamedTuple):
    """A mutant, the property that tells it from the healthy algorithm, and within which bound."""

    mutant: type[Process]
    broken: str
    check: Check
    steps: int  # of the shortest counterexample
    # visited until it was found; all of them, where the search goes on after the first violation;
    # None: not pinned
    states: int | None

    @property
    def healthy(self) -> type[Process]:
        """The nearest base class that is in the catalog."""
        return next(base for base in self.mutant.__mro__[1:] if vars(base).get("name"))


def gallery(quick: Sequence[Bug], long: Sequence[Bug] = ()) -> pytest.MarkDecorator:
    """Parametrize a test with planted bugs; a long search is made by `--times 10` or more."""
    rows = [
        pytest.param(
            each,
            id=f"{each.mutant.__name__}-{each.check.n}",
            marks=[pytest.mark.long_search] if each in long else [],
        )
        for each in (*quick, *long)
    ]
    return pytest.mark.parametrize("planted", rows)


def within(n: int, **bound: Any) -> Check:
    """The bound of a search, by the fields of a check; of the plain one, which visits the same
    states on every machine.
    """
    return Check("mutant", n, **{"search": "breadth", **bound})


def verdict_of(report: CheckReport, name: str) -> Verdict:
    return next(finding.verdict for finding in report.findings if finding.name == name)


@cache
def healthy_report(healthy: type[Process], check: Check) -> CheckReport:
    """Of the healthy algorithm, looked through to the end: it may violate other properties, which
    are not looked for here.
    """
    return perform(replace(check, every=True), entry=entry_of(healthy))


def assert_caught(planted: Bug) -> None:
    """The mutant violates the property as pinned, and the healthy algorithm does not within the
    same bound.

    Where the states have no end, the search of the healthy one is cut off by the bound's limit, and
    must have come deeper by then than the counterexample.
    """
    report = perform(planted.check, entry=entry_of(planted.mutant))
    states = None if planted.states is None else report.extent.states
    found = {name: (told.steps, states) for name, told in report.stories.items()}
    assert found.get(planted.broken) == (
        planted.steps,
        planted.states,
    ), f"{report.check.command()}: {found}"
    healthy = healthy_report(planted.healthy, planted.check)
    # What was found over an abstract component only is undecided.
    assert planted.broken not in healthy.stories, healthy.check.command()
    if healthy.extent.complete:
        assert verdict_of(healthy, planted.broken) is Verdict.HOLDS, healthy.check.command()
    else:
        assert verdict_of(healthy, planted.broken) is Verdict.UNDECIDED
        assert healthy.extent.depth is not None
        assert healthy.extent.depth > planted.steps, (
            "cut off before the depth of the counterexample"
        )
