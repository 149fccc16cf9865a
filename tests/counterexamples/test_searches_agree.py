"""All ways to search come to the same verdicts, on every algorithm of the catalog at small sizes:
with and without numpy, and among sets of states.
"""

from shlex import split

import pytest

from habemus.catalog.entries import entries
from habemus.runs.check import Check
from habemus.runs.simulate import system_of
from habemus.runtimes.checker.search import FoundViolation, Search
from habemus.runtimes.checker.symbolic import SymbolicSearch
from habemus.runtimes.checker.vectorised import TooWide, VectorisedSearch

LIMIT = 800
"""A check with more states is left out here: that is a matter of time."""

TOO_LARGE = {
    "elected-coordinator",
    "elected-coordinator-bully",
    "elected-coordinator-leased",
    "elected-coordinator-leased-members",
    "elected-coordinator-members",
    "elected-coordinator-plain",
    "elected-coordinator-unrecorded",
    "itai-rodeh",
    "probabilistic",
    "quorum",
    "quorum-any-release",
    "quorum-unnumbered",
    "quorum-durable",
    "quorum-retry",
    "quorum-yield",
    "ra-majority",
    "ra-reliable",
    "token-ring-repair",
}
"""No variant of these is as small as that."""

NAMES = [name for name, entry in entries().items() if entry.problem.model is not None]
VARIANTS: dict[str, dict[str, object]] = {
    "plain": {},
    "fifo": {"network": "fifo"},
    "lossy": {"network": "lossy"},
    "copies": {"network": "duplicating"},
    "crash": {"faults": (("crash", 1),)},
    "amnesia": {"faults": (("crash", 1), ("amnesia", 1))},
    "order": {"order": True},
}


def made(kind: type[Search], check: Check) -> Search:
    entry = entries()[check.algorithm]
    assert entry.problem.model is not None
    system = system_of(check.setup(), entry)
    uses, observer = entry.problem.model(check.entries, system)
    return kind(system, uses, observer, check.bound(entry))


def check_of(name: str, n: int, variant: str) -> Check:
    fewest = max(n, getattr(entries()[name].algorithm, "fewest", 1))
    timeouts = 2  # many algorithms set timers again and again
    return Check(name, fewest, timeouts=timeouts, **VARIANTS[variant])  # type: ignore[arg-type]


def compare(check: Check, limit: int = LIMIT) -> bool:
    """Whether it was small enough to compare."""
    expected = made(Search, check)
    expected.run(limit, stop_at_first=False)
    if not expected.extent.complete:
        return False
    depths = {name: wrong.depth for name, wrong in expected.wrong.items()}
    vectorised, sets = made(VectorisedSearch, check), made(SymbolicSearch, check)
    for search in (vectorised, sets):
        search.run(stop_at_first=False)
        assert (search.extent.states, search.extent.transitions) == (
            expected.extent.states,
            expected.extent.transitions,
        )
        assert search.wrong.keys() == depths.keys()
        assert search.resting == expected.resting
    assert {name: wrong.depth for name, wrong in vectorised.wrong.items()} == depths, (
        "breadth first too, so the ways are as short"
    )
    return True


@pytest.mark.parametrize("name", sorted(set(NAMES) - TOO_LARGE))
def test_the_searches_agree(name: str) -> None:
    compared = [variant for variant in VARIANTS if compare(check_of(name, 2, variant))]
    assert compared, "nothing was small enough to compare"


@pytest.mark.parametrize(
    "name",
    split("central token-ring ricart-agrawala suzuki-kasami raymond naimi-trehel maekawa"),
)
def test_the_searches_agree_on_three(name: str) -> None:
    options = ("tick=0",) if name == "ricart-agrawala" else ()
    assert compare(Check(name, 3, options=options, network="fifo"), 10_000)


@pytest.mark.parametrize("name", ["quorum", "quorum-durable"])
def test_the_searches_agree_on_quorums(name: str) -> None:
    assert compare(Check(name, 2), 10_000)


def test_a_state_may_take_all_bits_of_a_machine_word() -> None:
    """Fields that are nearly full grow only while there is room."""
    search = made(VectorisedSearch, Check("chang-roberts", 6, network="fifo"))
    search.run()
    assert sum(search._widths) == search.bits == 63
    assert (search.extent.complete, search.extent.states) == (True, 18_344)


def test_fields_with_room_give_bits_to_those_that_need_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The coordinator has more components than the participants."""
    check = Check("central", 4, faults=(("crash", 1), ("recover", 1)))
    plain = made(Search, check)
    plain.run(stop_at_first=False)
    needed = [(size() - 1).bit_length() for size in plain._sizes]
    monkeypatch.setattr(VectorisedSearch, "bits", sum(needed))
    monkeypatch.setattr("habemus.runtimes.checker.search.COMPACT", sum(needed))
    search = made(VectorisedSearch, check)
    before = list(search._widths)
    search.run(stop_at_first=False)
    assert any(after < width for after, width in zip(search._widths, before, strict=True))
    assert search._widths == needed
    assert (search.extent.states, search.extent.transitions) == (
        plain.extent.states,
        plain.extent.transitions,
    )
    for name, wrong in search.wrong.items():
        assert wrong.depth == plain.wrong[name].depth
        assert len(search.path_to(wrong.state)) == len(plain.path_to(plain.wrong[name].state))
    monkeypatch.setattr(VectorisedSearch, "bits", sum(needed) - 1)
    with pytest.raises(TooWide, match="search='breadth'"):
        made(VectorisedSearch, check).run(stop_at_first=False)


def test_the_field_on_top_keeps_its_room_when_another_one_needs_bits() -> None:
    """Else the numbers on top would lose their highest bits, and different states would be one."""
    search = made(VectorisedSearch, Check("central", 3))
    for place in (0, 1):
        components = search.models[place].components
        for known in range((3 - 2 * place << search._widths[place]) + 1):
            components.number(components.values[0]._replace(known=known))
    top = len(search.models[0].components) - 1
    assert 1 << search._widths[0] <= top <= search._masks[0]
    search.make_room(1)
    assert all(
        size() <= 1 << width
        for size, width in zip(search._sizes, search._widths, strict=True)
        if width
    )


@pytest.mark.parametrize("kind", [Search, VectorisedSearch, SymbolicSearch])
def test_a_search_that_is_watched_goes_to_its_end(
    kind: type[Search], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("habemus.runtimes.checker.search.CHUNK", 10)
    monkeypatch.setattr("habemus.runtimes.checker.symbolic.EDGES_BETWEEN_LOOKS", 10)
    check = Check("central", 3)
    alone, watched = made(kind, check), made(kind, check)
    alone.run()
    looks: list[int] = []
    watched.run(progress=lambda extent: looks.append(extent.states))
    assert looks, "nobody was told, so nothing was shown"
    assert watched.extent.complete
    assert watched.extent.states == alone.extent.states


def test_a_search_among_sets_ends_where_a_process_alone_has_no_end() -> None:
    """One that asks again and again, of somebody who need not hear it, goes on for ever before
    there is a second state.
    """
    search = made(SymbolicSearch, Check("quorum-retry", 2, timeouts=None))
    search.run(20_000)
    assert (
        "edges" in search.extent.stopped
        and sum(len(local.components.values) for local in search.models) < 20_000
    )


def test_only_what_makes_the_verdict_ends_a_search() -> None:
    """Not a property that nobody claims: what comes later may be worse."""
    for kind in (Search, VectorisedSearch):
        search = made(kind, Check("central", 2, timeouts=None))
        search.decides = lambda name: name != "ME1"
        search.wrong["ME1"] = FoundViolation("ME1", 0, "step", 0)
        search.run()
        assert search.extent.complete
        search = made(kind, Check("central", 2, timeouts=None))
        search.wrong["ME1"] = FoundViolation("ME1", 0, "step", 0)
        search.run()
        assert search.extent.stopped == "a property is violated"


def test_fields_that_become_too_narrow_are_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same search with fields of one bit to begin with."""
    for kind in (Search, VectorisedSearch):
        monkeypatch.setattr("habemus.runtimes.checker.search.COMPACT", 0)
        search = made(kind, Check("ricart-agrawala", 2, timeouts=2, entries=2))
        wide = search._widths[:2]
        search.run(stop_at_first=False)
        monkeypatch.setattr("habemus.runtimes.checker.search.COMPACT", 60)
        plain = made(Search, Check("ricart-agrawala", 2, timeouts=2, entries=2))
        plain.run(stop_at_first=False)
        assert search._widths[1] > wide[1], "nothing had to be widened, so nothing was shown"
        assert search.extent.states == plain.extent.states


def test_states_that_are_spread_over_several_sets_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """States that recur must be found again in whichever set they are: with entries without end,
    all of them do.
    """
    plain = made(Search, Check("central", 3, entries=None))
    plain.run(stop_at_first=False)
    monkeypatch.setattr("habemus.runtimes.checker.search.FULL_SET", 50)
    spread = made(Search, Check("central", 3, entries=None))
    spread.run(stop_at_first=False)
    assert len(spread._seen) > 2, "one set was enough, so nothing was shown"
    assert spread.visited() == plain.visited()
    assert spread.extent.transitions == plain.extent.transitions
