"""`cards`, and the card in the catalog, as a person meets them."""

import json

import pytest

from habemus.analysis.cards.table import cards
from habemus.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        main(list(arguments))
    said = capsys.readouterr()
    assert isinstance(leaving.value.code, int)
    return leaving.value.code, said.out, said.err


def test_the_card_of_one_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "cards", "token-ring", "--jobs", "1")
    assert (code, err) == (0, "")
    assert "ME1: at most one process is in the critical section" in out
    assert "✔ holds" in out and "✘ violated" in out
    assert (
        "habemus check token-ring -n 3 --entries unbounded --faults crash=1 --every --search"
        " breadth" in out
    )


def test_rows_with_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "cards", "ring-list", "--json", "--jobs", "1")
    document = json.loads(out)
    assert code == 0 and document["contradictions"] == []
    rows = {(row["faults"], row["property"]): row for row in document["rows"]}
    holds, violated = rows["none", "E1"], rows["crash", "E2"]
    assert (holds["verdict"], holds["n"], holds["exhaustive"], holds["steps"]) == (
        "holds",
        3,
        True,
        None,
    )
    assert holds["states"] > 0 and "3 participants" in holds["evidence"]
    assert violated["verdict"] == "violated" and violated["steps"] > 0
    assert document["rows"] == cards()["ring-list"].rows()


def test_a_command_of_a_card_shows_what_the_card_says(capsys: pytest.CaptureFixture[str]) -> None:
    card = cards()["maekawa"]
    cell = card.cells["", "crash", "ME2-deadlock"]
    program, *arguments = card.command(cell).split()
    code, out, _ = run(capsys, *arguments, "--json")
    assert (program, code) == ("habemus", 1)
    assert json.loads(out)["steps"]["ME2-deadlock"] == cell.steps


def test_markdown_and_stored_cards(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "cards", "central", "heartbeat", "--stored", "--markdown")
    assert code == 0
    assert "| [`central`](#central) |" in out and "only simulated" in out
    code, out, _ = run(capsys, "cards", "--stored")
    assert code == 0 and "To see the evidence of each cell, name the algorithms." in out
    assert run(capsys, "cards", "--json", "--markdown")[0] == 2


def test_the_catalog_shows_the_card(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "algorithms", "lamport")
    assert code == 0
    assert "unordered    ✘ ME1" in out
    code, out, _ = run(capsys, "algorithms", "lamport", "--json")
    rows = {
        (row["faults"], row["property"]): row["verdict"] for row in json.loads(out)["guarantees"]
    }
    assert (rows["none", "ME1"], rows["unordered", "ME1"]) == ("holds", "violated")


def test_every_verdict_has_its_bound(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "algorithms", "terms")
    lines = [line for line in out.splitlines() if "✔ E" in line or "✘ E" in line]
    assert lines and all(" within " in line or " by scenario " in line for line in lines)
    _, out, _ = run(capsys, "algorithms", "terms", "--json")
    rows = json.loads(out)["guarantees"]
    assert all(row["bound"] for row in rows if row["verdict"] != "not applicable")
    [amnesia] = [
        row
        for row in rows
        if (row["timing"], row["faults"], row["property"]) == ("asynchronous", "amnesia", "E1")
    ]
    assert (amnesia["verdict"], amnesia["n"], amnesia["steps"]) == ("violated", 3, 12)
    _, out, _ = run(capsys, "cards", "terms", "lamport", "--stored")
    assert "✔ holds n=2" in out and "✔ holds n=3" in out


@pytest.mark.parametrize("name", ["terms", "ra-majority", "maekawa-sanders", "quorum-yield"])
def test_what_a_majority_forgets_does_not_rest_on_two_participants(name: str) -> None:
    """Two are each other's majority, so with two somebody always remembers."""
    card = cards()[name]
    safety = "E1" if name == "terms" else "ME1"
    verdicts = [
        cell.word
        for (_, model, each), cell in card.cells.items()
        if (model, each) == ("amnesia", safety)
    ]
    assert verdicts[0] == "violated"
