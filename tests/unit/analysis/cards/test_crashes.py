"""What a crash of each role does: the textbook answers, and that the page says the same."""

import pytest

from habemus.analysis.cards.crashes import (
    BLOCKED,
    GO_ON,
    ROLES,
    SOME_WAIT,
    TWO_INSIDE,
    WORDS,
    cells,
    check,
    mutexes,
    page,
)
from habemus.catalog.entries import find
from habemus.runs.setup import BadSetup


def row(name: str, recover: bool = False) -> dict[str, str]:
    return {cell.role: cell.others for cell in cells(find(name), recover)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("central", {"holder": BLOCKED, "center": BLOCKED, "waiting": BLOCKED, "bystander": GO_ON}),
        (
            "central-timeout",
            {"holder": GO_ON, "center": BLOCKED, "waiting": GO_ON, "bystander": GO_ON},
        ),
        ("ricart-agrawala", dict.fromkeys(("holder", "waiting", "bystander"), BLOCKED)),
        ("lamport", dict.fromkeys(("holder", "waiting", "bystander"), BLOCKED)),
        ("token-ring", dict.fromkeys(ROLES, BLOCKED)),
        ("token-ring-repair", dict.fromkeys(ROLES, GO_ON)),
        (
            "suzuki-kasami",
            {"holder": BLOCKED, "center": BLOCKED, "waiting": BLOCKED, "bystander": GO_ON},
        ),
        # 2 is the parent of 4 in the tree, and so 4 does not get through; it is in some of the
        # voting sets.
        (
            "raymond",
            {"holder": BLOCKED, "center": BLOCKED, "waiting": BLOCKED, "bystander": SOME_WAIT},
        ),
        ("maekawa-sanders", {"holder": BLOCKED, "waiting": BLOCKED, "bystander": SOME_WAIT}),
        (
            "quorum-yield",
            {"holder": BLOCKED, "center": GO_ON, "waiting": BLOCKED, "bystander": GO_ON},
        ),
    ],
)
def test_crashes(name: str, expected: dict[str, str]) -> None:
    assert row(name) == expected


def test_stable_memory_makes_the_difference_when_it_comes_back() -> None:
    assert row("quorum", recover=True)["holder"] == BLOCKED
    assert set(row("quorum-durable", recover=True).values()) == {GO_ON}
    assert row("central", recover=True)["center"] == SOME_WAIT, "it forgot who waits"


def test_two_inside_is_said_before_anything_else() -> None:
    """A timeout shorter than the stay takes the lock from one who is inside, and the word must say
    so.
    """
    entry = find("central-timeout")
    original = entry.algorithm.system  # type: ignore[attr-defined]

    class Hasty(entry.algorithm):  # type: ignore[name-defined, misc]
        """The same with less patience."""

        @classmethod
        def system(cls, size: int, **options: object) -> object:
            return original(size, timeout=3_000, **options)

    from dataclasses import replace

    words = {cell.role: cell.others for cell in cells(replace(entry, algorithm=Hasty), False)}
    assert words["bystander"] == TWO_INSIDE


def test_a_cell_has_its_run() -> None:
    holder = cells(find("central"), False)[0]
    assert holder.command.startswith("habemus run central -n 4 ")
    assert "--crash '1@Granted#1'" in holder.command
    assert holder.properties["ME2-deadlock"] == "violated"
    assert "1 crashed inside" in holder.why
    assert holder.trace.title == "central: the one inside crashes"
    assert any(event.kind == "crash" for event in holder.trace.events)


def test_who_is_in_the_middle() -> None:
    centers = {
        name: next((cell.title for cell in cells(find(name), False) if cell.role == "center"), None)
        for name in mutexes()
    }
    assert centers["central"] == "the coordinator"
    assert centers["quorum"] == "a coordinator"
    assert centers["naimi-trehel"] == centers["token-ring"] == "the owner of the token"
    assert centers["ricart-agrawala"] is centers["maekawa"] is None


def test_only_mutual_exclusion_has_these_roles() -> None:
    with pytest.raises(BadSetup, match="leader election"):
        check(find("bully"))


def test_page() -> None:
    text = page(["central", "lamport"])
    assert "| `central` | blocked | blocked | blocked | go on |" in text
    assert "| `lamport` | blocked | - | blocked | blocked |" in text
    assert all(word in text for word in WORDS)
