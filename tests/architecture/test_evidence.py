"""What the guarantee cards claim of algorithms with majorities rests on searches that mean
something: three voters, two leaders one after the other, and a crash with recovery.

A majority of two is both of them, so two voters show nothing about a vote that is forgotten. Which
algorithms count votes is derived from their classes, and what their claims rest on from the stored
cards. A claim that rests on less is explained here, and in the note of its bounds.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from habemus.analysis.cards.search import LIVENESS, assumed
from habemus.analysis.cards.table import Card, Cell, Place, cards, others
from habemus.catalog.entries import entries, find
from habemus.core.properties import Verdict
from habemus.runs.check import Check

COUNTS_VOTES = re.compile("majorit|quorum|voters")
KEPT = (Verdict.HOLDS, Verdict.ALMOST_SURELY)
MANY = 1_000

ASKS_ALL = "a new coordinator asks all processes, and no majority"
EXPLAINED = {
    ("elected-coordinator-bully", "synchronous"): {"none unordered": ASKS_ALL},
}
"""Claims that rest on less, by algorithm, timing and fault models, with the reason."""


def explained() -> set[tuple[str, str, str]]:
    return {
        (name, timing, model)
        for (name, timing), reasons in EXPLAINED.items()
        for models in reasons
        for model in models.split()
    }


def voting() -> list[str]:
    """Return the algorithms in which processes count votes or records."""
    return [name for name in entries() if any(map(COUNTS_VOTES.search, dir(find(name).algorithm)))]


def has_leaders(name: str) -> bool:
    entry = find(name)
    return entry.problem.name == "election" or hasattr(entry.algorithm, "elected_by")


def voters_of(check: Check) -> int:
    return max(check.n, others(check))


def leaders_of(check: Check, name: str) -> int:
    """Return how many leaders there can be before a property is judged, by the timers that make a
    process lead. The second phase of a search elects one more, and judges liveness.
    """
    timers = dict(check.timers)
    bounds = (check.timeouts, timers.get("Lead" if check.abstract else "Patience"))
    first = min(MANY if bound is None else bound for bound in bounds)
    return first + (name in LIVENESS and check.has_second_phase)


def lacking(card: Card, place: Place, cell: Cell) -> str:
    """Return what the evidence of a claim lacks; empty: nothing."""
    if cell.search is None:
        return "no search"
    check = card.searches[cell.search].check
    if voters_of(check) < 3:
        return f"{voters_of(check)} voters"
    if has_leaders(card.algorithm) and leaders_of(check, place[2]) < 2:
        return f"{leaders_of(check, place[2])} leaders"
    return ""


def claimed(card: Card) -> dict[Place, Cell]:
    """Return the cells in which a claimed property holds, whether the faults are assumed or not."""
    entry = find(card.algorithm)
    return {
        place: cell
        for place, cell in card.cells.items()
        if entry.claims(place[2]) and cell.verdict in KEPT
    }


def weak(card: Card) -> dict[Place, str]:
    """Return the claims of a card that rest on too little."""
    found = {place: lacking(card, place, cell) for place, cell in claimed(card).items()}
    return {place: what for place, what in found.items() if what}


def without_recovery(card: Card) -> set[str]:
    """Return the properties that are claimed with crashes and recoveries, and not shown there."""
    entry = find(card.algorithm)
    asked = {
        place: cell
        for place, cell in card.cells.items()
        if place[1] == "recovery" and entry.claims(place[2]) and assumed(entry, place, 3)
    }
    shown = {name for (_, _, name), cell in asked.items() if cell.verdict in KEPT}
    return {name for _, _, name in asked} - shown


def test_algorithms_that_count_votes_are_found() -> None:
    found = voting()
    assert {"maekawa", "quorum-durable", "ra-majority", "terms-members"} <= set(found)
    assert {"elected-coordinator", "elected-coordinator-leased-members"} <= set(found)
    assert not {"central", "ricart-agrawala", "bully", "token-ring", "yo-yo"} & set(found)


@pytest.mark.parametrize("name", voting())
def test_claims_rest_on_three_voters_and_two_leaders(name: str) -> None:
    card = cards()[name]
    found = {
        (name, *place[:2]): what
        for place, what in weak(card).items()
        if (name, *place[:2]) not in explained()
    }
    assert not found, "find bounds that decide it, or explain it here and in bounds.toml"


def test_what_is_explained_is_still_so() -> None:
    found = {(name, *place[:2]) for name in voting() for place in weak(cards()[name])}
    assert explained() <= found
    assert sum(len(claimed(cards()[name])) for name in voting()) > 100


@pytest.mark.parametrize("name", voting())
def test_claims_of_recovery_are_shown_with_recovery(name: str) -> None:
    assert not without_recovery(cards()[name])


def with_check(card: Card, place: Place, **changes: object) -> Card:
    """Return the card with other bounds of the search behind a cell."""
    number = card.cells[place].search
    assert number is not None
    searched = list(card.searches)
    searched[number] = replace(
        searched[number],
        check=replace(searched[number].check, **changes),  # type: ignore[arg-type]
    )
    return replace(card, searches=searched)


def test_evidence_that_is_too_small_is_seen() -> None:
    card = cards()["elected-coordinator"]
    place = ("asynchronous", "recovery", "ME1")
    assert place in claimed(card) and place not in weak(card)
    assert weak(with_check(card, place, n=2))[place] == "2 voters"
    assert weak(with_check(card, place, timeouts=1))[place] == "1 leaders"
    assert weak(with_check(card, place, timers=(("Lead", 1),)))[place] == "1 leaders"
    broken = replace(card.cells[place], verdict=Verdict.UNDECIDED)
    assert without_recovery(replace(card, cells={**card.cells, place: broken})) == {"ME1"}
    assert not without_recovery(card)


def test_few_cells_are_undecided() -> None:
    cells = [cell for card in cards().values() for cell in card.cells.values()]
    undecided = [cell for cell in cells if cell.verdict is Verdict.UNDECIDED]
    assert 0 < len(undecided) <= 0.05 * len(cells)
