"""What the words of a card allow."""

from dataclasses import replace

import pytest

from habemus.analysis.cards.tolerance import (
    Tolerance,
    mentions_crashes,
    stands_copies,
    stands_late_messages,
    stands_loss,
    tolerates,
)
from habemus.catalog.entries import Entry, entries, find


def card(assumes: str) -> Entry:
    entry = find("central")
    return replace(entry, box=replace(entry.box, sections={"Assumes": assumes}))


@pytest.mark.parametrize(
    ("assumes", "tolerance"),
    [
        ("reliable links, in any order; no process crashes.", Tolerance.NOBODY),
        (
            "reliable links; nobody crashes; a coordinator that restarts forgets its grants.",
            Tolerance.NOBODY,
        ),
        ("reliable links; a bound on the time inside.", Tolerance.NOBODY),
        ("", Tolerance.NOBODY),
        (
            "reliable links; neither the coordinator nor the process inside crashes.",
            Tolerance.OUTSIDERS,
        ),
        (
            (
                "reliable links; neither the coordinator nor a process that waits or is inside"
                " crashes."
            ),
            Tolerance.BYSTANDERS,
        ),
        (
            "links.  Whoever is neither waiting nor inside may crash, while more than half are up.",
            Tolerance.BYSTANDERS,
        ),
        (
            "copies do no harm; whoever crashes comes back with its stable memory.",
            Tolerance.RETURNING,
        ),
        (
            "a bound.  Any number may crash at any moment and come back with their stable memory.",
            Tolerance.ANYBODY,
        ),
        (
            (
                "stable memory; E1 needs nothing else.  E2: more than half of the weight stays up"
                " and connected."
            ),
            Tolerance.MINORITY,
        ),
        (
            (
                "synchronous.  Processes may crash and come back, but not come back in the middle"
                " of an election."
            ),
            Tolerance.BETWEEN,
        ),
        ("reliable links; partial synchrony.  Crashes.", Tolerance.FOR_GOOD),
        (
            (
                "few losses; partial synchrony.  Crashes, and recoveries with stable memory for one"
                " number."
            ),
            Tolerance.ANYBODY,
        ),
    ],
)
def test_words(assumes: str, tolerance: Tolerance) -> None:
    assert tolerates(card(assumes)) is tolerance


def test_a_card_that_speaks_of_crashes_is_understood() -> None:
    """A card whose words are not listed would be taken for one that allows nothing, and its claims
    would go untried.
    """
    words = {
        entry.name: entry.box.sections["Assumes"]
        for entry in entries().values()
        if mentions_crashes(entry)
    }
    allowing = {name for name in words if tolerates(find(name)) is not Tolerance.NOBODY}
    refusing = {
        name
        for name, text in words.items()
        if "no process crashes" in text or "nobody crashes" in text
    }
    assert set(words) == allowing | refusing
    assert not allowing & refusing
    assert {"quorum-durable", "quorum-yield", "ra-majority", "token-ring-repair"} <= allowing


def test_links() -> None:
    assert stands_late_messages(find("ricart-agrawala"))
    assert not stands_late_messages(find("central-timeout"))
    assert not stands_late_messages(find("token-ring-repair"))
    assert stands_copies(find("quorum-yield"))
    assert not stands_copies(find("ricart-agrawala"))
    assert stands_loss(find("ra-reliable"))
    assert not stands_loss(find("quorum-yield"))
