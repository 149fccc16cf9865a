"""The guarantee cards: they are about the algorithms that there are, within the bounds of the
table, and contradict no claim.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from habemus.analysis.cards import search as cards_search
from habemus.analysis.cards import table as stored
from habemus.analysis.cards.bounds import (
    ASYNCHRONOUS,
    EVENTUAL,
    SYNCHRONOUS,
    Bounds,
    bounds_in,
    bounds_of,
)
from habemus.analysis.cards.search import (
    CardTask,
    Shown,
    assumed,
    contradictions,
    inherit,
    make,
    outdated,
    page,
    search,
    tasks_of,
)
from habemus.analysis.cards.table import (
    MODELS,
    Card,
    Cell,
    Place,
    cards,
    code_of,
    fingerprint,
    text_of,
)
from habemus.catalog.entries import entries, find
from habemus.cli.commands.cards import shown_by_scenarios
from habemus.core.properties import Verdict
from habemus.runs.check import Check, perform
from habemus.scenarios import find as find_scenario
from habemus.scenarios import scenarios

ROOT = Path(__file__).parents[4]
CHEAP = 40_000
"""States of all searches of a card together: such a card is made anew by the tests, unless a
second phase takes longer than these states.
"""


def cheap() -> list[str]:
    return [
        name
        for name, card in cards().items()
        if card.searches
        and sum(each.states for each in card.searches) < CHEAP
        and not any(each.check.has_second_phase for each in card.searches)
    ]


def test_every_algorithm_has_a_card() -> None:
    assert list(cards()) == list(entries()), "run make cards"


@pytest.mark.parametrize("name", entries())
def test_the_card_is_about_the_algorithm_and_the_bounds_that_there_are(name: str) -> None:
    assert not outdated(cards()[name], find(name)), "run make cards"


def test_a_card_of_other_code_or_other_bounds_is_outdated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card, entry = cards()["suzuki-kasami"], find("suzuki-kasami")
    assert bounds_of(entry) == Bounds()
    assert "code" in outdated(replace(card, sources="other"), entry)
    assert not outdated(card, entry)
    for changes in (
        {"sizes": (4, 3, 2)},  # a larger one, tried first
        {"sizes": (2, 3)},
        {"limit": 1},
        {"timings": (ASYNCHRONOUS,)},
        {"models": ("none",)},
        {"properties": ("ME1",)},
    ):
        monkeypatch.setattr(cards_search, "bounds_of", lambda _, given=changes: Bounds(**given))
        assert "bounds" in outdated(card, entry), changes


def test_the_file_and_the_page_are_those_of_the_cards() -> None:
    file = ROOT / "src/habemus/analysis/cards" / stored.FILE
    assert file.read_text(encoding="utf-8") == text_of(cards().values()), "run make cards"
    assert (ROOT / "docs/cards.md").read_text(encoding="utf-8") == page(list(cards().values())), (
        "run make cards"
    )


def test_there_are_cheap_ones() -> None:
    problems = {cards()[name].problem for name in cheap()}
    assert len(cheap()) >= 6 and problems == {"mutex", "election"}


@pytest.mark.parametrize("name", cheap())
def test_a_card_made_anew_is_the_one_that_is_stored(name: str) -> None:
    [card] = make([name], shown_by_scenarios([name]))
    assert card == cards()[name], (
        f"what is found of {name} has changed since its card was made: run make cards"
    )


@pytest.mark.parametrize("name", entries())
def test_no_cell_contradicts_what_the_algorithm_claims(name: str) -> None:
    card = cards()[name]
    assert not [(place, card.command(cell)) for place, cell in contradictions(card)]


@pytest.mark.parametrize("name", list(cards()))
def test_every_claim_under_assumed_faults_is_decided(name: str) -> None:
    card, entry = cards()[name], find(name)
    undecided = [
        place
        for place, cell in card.cells.items()
        if cell.verdict is Verdict.UNDECIDED
        and entry.claims(place[2])
        and assumed(entry, place, 3 if cell.search is None else card.searches[cell.search].check.n)
    ]
    assert not undecided


@pytest.mark.parametrize("name", [name for name in cards() if name.startswith("elected-")])
def test_nothing_that_holds_with_amnesia_rests_on_an_abstract_election(name: str) -> None:
    """A process that has forgotten its vote elects a second leader of a term."""
    card = cards()[name]
    cells = {place: cell for place, cell in card.cells.items() if place[1] == "amnesia"}
    abstract = {
        place: cell
        for place, cell in cells.items()
        if cell.search is not None and card.searches[cell.search].check.abstract
    }
    assert abstract or name == "elected-coordinator-bully"
    assert Verdict.HOLDS not in {cell.verdict for cell in abstract.values()}


def test_the_repaired_ring_is_searched_with_three() -> None:
    """Only with three is a token sent past a process to another one."""
    card = cards()["token-ring-repair"]
    for model in ("none", "duplicating", "crash", "recovery"):
        for name in ("ME1", "ME2-deadlock", "ME2-starvation"):
            cell = card.cells[SYNCHRONOUS, model, name]
            assert cell.verdict is Verdict.HOLDS and cell.search is not None
            assert card.searches[cell.search].check.n == 3


@pytest.mark.parametrize(
    ("n", "lost", "expected"),
    [(2, 1, (Verdict.VIOLATED, 4)), (3, 1, (Verdict.HOLDS, 0)), (3, 2, (Verdict.VIOLATED, 5))],
)
def test_a_majority_of_three_does_without_one_message(
    n: int, lost: int, expected: tuple[Verdict, int]
) -> None:
    """Two need both votes.  So the card of ra-majority is made with two messages lost."""
    check = Check("ra-majority", n, asking=(1, 2), faults=(("lose", lost),), every=True)
    report = perform(check)
    [found] = [each.verdict for each in report.findings if each.name == "ME2-deadlock"]
    steps = report.stories["ME2-deadlock"].steps if found is Verdict.VIOLATED else 0
    assert (found, steps) == expected
    card = cards()["ra-majority"]
    cell = card.cells["", "lossy", "ME2-deadlock"]
    assert cell.search is not None and (cell.verdict, cell.steps) == (Verdict.VIOLATED, 5)
    assert card.searches[cell.search].check.faults == (("lose", 2),)


def test_a_contradiction_is_seen() -> None:
    card = cards()["central"]
    broken = replace(card.cells["", "none", "ME1"], verdict=Verdict.VIOLATED, steps=3)
    with_it = Card(
        card.algorithm,
        card.problem,
        card.sources,
        card.plan,
        card.searches,
        {**card.cells, ("", "none", "ME1"): broken},
    )
    assert [place for place, _ in contradictions(with_it)] == [("", "none", "ME1")]
    unclaimed = Card(
        card.algorithm,
        card.problem,
        card.sources,
        card.plan,
        card.searches,
        {("", "none", "ME3"): broken, ("", "crash", "ME1"): broken},
    )
    assert contradictions(unclaimed) == []


@pytest.mark.parametrize(
    ("name", "place", "size", "expected"),
    [
        ("lamport", ("", "none", "ME1"), 3, True),
        ("lamport", ("", "unordered", "ME1"), 3, False),
        ("central", ("", "unordered", "ME1"), 3, True),
        ("bully", (SYNCHRONOUS, "none", "E1"), 3, True),
        ("bully", (ASYNCHRONOUS, "none", "E1"), 3, False),
        ("terms", (ASYNCHRONOUS, "recovery", "E1"), 2, True),
        ("terms", (ASYNCHRONOUS, "amnesia", "E1"), 3, False),
        ("terms", (SYNCHRONOUS, "recovery", "E4"), 2, False),
        ("terms", (SYNCHRONOUS, "recovery", "E4"), 3, True),
        ("terms", (EVENTUAL, "crash", "E2"), 3, True),
        ("terms", (EVENTUAL, "crash", "E2"), 2, False),
        ("bully", (EVENTUAL, "none", "E2"), 3, False),
        ("quorum-durable", ("", "recovery", "ME1"), 2, True),
        ("ra-reliable", (ASYNCHRONOUS, "lossy", "ME2-deadlock"), 2, True),
    ],
)
def test_what_a_card_assumes(name: str, place: Place, size: int, expected: bool) -> None:
    assert assumed(find(name), place, size) is expected


def test_a_claim_of_me2_is_one_of_both_parts() -> None:
    assert find("central").claims("ME2-deadlock") and find("central").claims("ME2-starvation")
    assert not find("central").claims("ME3")


@pytest.mark.parametrize("name", [each.name for each in scenarios().values() if each.shows])
def test_a_scenario_has_the_faults_of_its_model(name: str) -> None:
    scenario = find_scenario(name)
    kinds = {kind for kind, _ in scenario.setup.faults} - {"slow", "pause", "heal"}
    lossy = scenario.setup.loss != "0"
    expected = {
        "none": set(),
        "unordered": set(),
        "lossy": {"cut"},
        "crash": {"crash"},
        "recovery": {"crash", "recover"},
        "amnesia": {"crash", "amnesia"},
    }[scenario.shows]
    assert scenario.violates
    assert kinds == (expected - {"cut"} if lossy else expected)
    assert not lossy or scenario.shows == "lossy"
    assert scenario.setup.fifo is not True or scenario.shows != "unordered"


def test_a_scenario_violates_what_a_search_within_its_bound_does_not() -> None:
    """A process starves in a run without end, and a bound on the entries excludes such runs."""
    card = cards()["ra-priority"]
    cell = card.cells["", "none", "ME2-starvation"]
    assert (cell.verdict, cell.steps, cell.scenario) == (
        Verdict.VIOLATED,
        None,
        "ra-priority-starved",
    )
    assert card.command(cell) == "habemus scenario ra-priority-starved"
    assert "not within the bound" in card.evidence(cell)
    assert card.cells["", "none", "ME2-deadlock"].verdict is Verdict.HOLDS
    [lone] = make(
        ["chang-roberts-plain"],
        [Shown("ra-priority-starved", "chang-roberts-plain", "none", ("E1",))],
    )
    assert (
        lone.cells["", "none", "E1"].scenario
        and lone.cells["", "crash", "E1"].verdict is Verdict.VIOLATED
    )


def test_a_deadlock_starves_every_process_that_waits() -> None:
    [card] = make(["central"], [])
    deadlock, starvation = (
        card.cells["", "crash", name] for name in ("ME2-deadlock", "ME2-starvation")
    )
    assert starvation == deadlock and deadlock.verdict is Verdict.VIOLATED
    for card in cards().values():
        for (timing, model, name), cell in card.cells.items():
            if name == "ME2-deadlock" and cell.verdict is Verdict.VIOLATED:
                also = card.cells[timing, model, "ME2-starvation"]
                assert also.verdict is Verdict.VIOLATED, (card.algorithm, timing, model)


def test_a_search_without_time_cannot_ask_about_time() -> None:
    for card in cards().values():
        for (timing, model, name), cell in card.cells.items():
            asked_later = (EVENTUAL, model, name) in card.cells and timing == ASYNCHRONOUS
            assert (cell.verdict is None) <= (card.problem == "detector" or asked_later)
    assert all(cell.verdict is None for cell in cards()["heartbeat"].cells.values())
    [card] = make(["heartbeat"], [])
    [row, _] = card.rows()
    assert row["verdict"] == "not applicable" and "about time" in row["evidence"]


def test_a_violation_without_faults_is_one_with_any() -> None:
    known, open_ = Cell(Verdict.VIOLATED, 0, 5), Cell(Verdict.UNDECIDED, 1)
    cells: dict[Place, Cell] = {
        ("", "none", "ME3"): known,
        ("", "crash", "ME3"): open_,
        ("", "lossy", "ME3"): Cell(Verdict.HOLDS, 3),
        ("", "none", "ME1"): open_,
        ("", "crash", "ME1"): Cell(Verdict.VIOLATED, 2, 7),
        ("", "lossy", "ME1"): Cell(Verdict.HOLDS, 3),
    }
    inherit(cells)
    assert cells["", "crash", "ME3"] == cells["", "lossy", "ME3"] == known
    assert cells["", "none", "ME1"] == open_, "a fault may be what it takes"


def test_liveness_is_asked_where_messages_are_faster_in_the_end() -> None:
    card = cards()["bully"]
    assert card.cells[EVENTUAL, "none", "E2"].verdict is Verdict.HOLDS
    assert card.cells[ASYNCHRONOUS, "none", "E2"].verdict is None
    assert (EVENTUAL, "none", "E1") not in card.cells, "safety is asked with any timing"


def test_bounds_differ_by_timing_and_fault_model() -> None:
    plain = Bounds(limit=1)
    bounds = plain._replace(
        exceptions={
            "eventual": {"limit": 2},
            "crash": {"timeouts": 3},
            "eventual-crash": {"limit": 4},
            "order": {"limit": 5},
        }
    )
    assert [
        (each.limit, each.timeouts)
        for each in (
            bounds.at(ASYNCHRONOUS, "none"),
            bounds.at(EVENTUAL, "none"),
            bounds.at(EVENTUAL, "crash"),
            bounds.at(EVENTUAL, "crash", order=True),
        )
    ] == [(1, None), (2, None), (4, 3), (5, 3)]


def test_bounds_of_receipts_and_draws_are_those_of_the_searches_and_are_shown() -> None:
    bounds = {check.receipts for check in checks_of("token-ring-repair", "crash")}
    assert bounds == {(("Token", 2),), (("Token", 3),)}
    assert {check.draws for check in checks_of("itai-rodeh", "duplicating")} == {4}
    assert {check.draws for check in checks_of("bully", "none")} == {None}
    ring, lots = cards()["token-ring-repair"], cards()["itai-rodeh"]
    decided = ring.cells[SYNCHRONOUS, "crash", "ME2-starvation"]
    assert decided.verdict is Verdict.HOLDS
    assert "at most 3 receipts of Token" in ring.bound(decided)
    assert "--receipts Token=3" in ring.command(decided)
    decided = lots.cells["", "duplicating", "E2"]
    assert decided.verdict is Verdict.ALMOST_SURELY
    assert "at most 4 random draws" in lots.bound(decided)
    assert "--draws 4" in lots.command(decided)


def checks_of(name: str, model: str) -> list[Check]:
    return [check for task in tasks_of(find(name)) if model in task.models for check in task.checks]


def test_where_three_are_too_many_two_are_searched() -> None:
    checks = (
        Check("ricart-agrawala", 3, search="breadth", limit=50),
        Check("ricart-agrawala", 2, search="breadth"),
    )
    found = search(CardTask("ricart-agrawala", "", ("none",), ("ME1",), checks))
    assert [(each.searched.check.n, bool(each.searched.stopped)) for each in found] == [
        (3, True),
        (2, False),
    ]
    alone = search(CardTask("ricart-agrawala", "", ("none",), ("ME1",), checks[::-1]))
    assert [each.searched.check.n for each in alone] == [2]


def test_whoever_crashes_comes_back() -> None:
    """Liveness with recovery is not about those that stay down."""
    checks = [
        check
        for task in tasks_of(find("central"))
        for check in task.checks
        if ("recover", 1) in check.faults
    ]
    assert checks and all(check.returning for check in checks)
    check = Check(
        "central",
        2,
        faults=(("crash", 1), ("recover", 1)),
        returning=True,
        every=True,
        search="breadth",
    )
    returning, plain = perform(check), perform(replace(check, returning=False))
    assert returning.stories["ME2-deadlock"].steps > plain.stories["ME2-deadlock"].steps


@pytest.mark.parametrize(
    "cell",
    [
        Cell(Verdict.HOLDS, 0),
        Cell(Verdict.VIOLATED, 2, 17),
        Cell(Verdict.VIOLATED, 2, 17, "", "ra-lossy"),
        Cell(Verdict.UNDECIDED, 1, None, "why"),
        Cell(Verdict.UNDECIDED, None, None, "why"),
        Cell(Verdict.VIOLATED, None, None, "", "ra-lossy"),
        Cell(None, None, None, "why"),
    ],
)
def test_a_cell_is_read_as_it_was_written(cell: Cell) -> None:
    assert Cell.from_plain(cell.plain()) == cell


def test_a_fingerprint_is_of_the_code_and_not_of_its_comments() -> None:
    code = 'def f() -> int:\n    """Words."""\n    return 1  # one\n'
    assert (
        code_of(code)
        == code_of("def f() -> int:\n    # other\n    return 1\n")
        == code_of("def f() -> (\n    int\n):\n    return (1)\n")
    )
    assert code_of(code) != code_of(code.replace("return 1", "return 2"))
    assert fingerprint(find("maekawa-sanders")) != fingerprint(find("maekawa"))


def test_a_fingerprint_is_not_of_declared_assumptions() -> None:
    plain = "class Mine(Mutex):\n    def acquire(self) -> None: ...\n"
    declaring = (
        "from habemus.core.assumptions import Assumptions\n"
        "class Mine(Mutex):\n    assumes = Assumptions(fifo=True)\n"
        "    def acquire(self) -> None: ...\n"
    )
    assert code_of(declaring) == code_of(plain)
    assert code_of(declaring) != code_of(declaring.replace("assumes =", "largest ="))


@pytest.mark.parametrize("problem", ["mutex", "election"])
def test_bounds_stand_beside_algorithms_of_their_folder(problem: str) -> None:
    package = f"habemus.algorithms.{problem}"
    listed = bounds_in(package)
    assert listed
    assert all(find(name).algorithm.__module__.startswith(package) for name in listed)
    assert bounds_of(find("bully-stable")) == bounds_of(find("bully")) != Bounds()
    assert bounds_of(find("suzuki-kasami")) == Bounds()


def test_a_scenario_is_evidence_for_a_fault_model_that_there_is() -> None:
    shown = {each.shows for each in scenarios().values()} - {""}
    assert shown <= {model.name for model in MODELS}
