"""Make the guarantee cards: one search for each algorithm, timing and fault model, and its verdict
on every property.

The bounds of a search stand beside the algorithm (`bounds.toml`). A search has as many participants
as can be explored to the end within the limit: three, or two where three are too many.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from habemus.analysis.cards.bounds import (
    ASYNCHRONOUS,
    EVENTUAL,
    SYNCHRONOUS,
    Bounds,
    bounds_of,
)
from habemus.analysis.cards.table import (
    MODELS,
    UNTIMED,
    Card,
    Cell,
    Place,
    Searched,
    fingerprint,
)
from habemus.analysis.sweeps.workers import results
from habemus.catalog.election import ELECTION
from habemus.catalog.entries import Entry, find
from habemus.catalog.mutex import MUTEX
from habemus.catalog.problems import Problem
from habemus.core.assumptions import Crashes, Timing
from habemus.core.properties import Verdict
from habemus.runs.check import Check, perform
from habemus.runs.options import options_for
from habemus.runs.setup import Setup
from habemus.runs.systems import system_of

TIMINGS = {
    UNTIMED: "it has no timers",
    ASYNCHRONOUS: "timers run out whenever they are set",
    SYNCHRONOUS: "messages are faster than timers",
    EVENTUAL: "timers run out whenever they are set, and from some moment on messages are faster",
}
ME3, DEADLOCK, STARVATION = "ME3", "ME2-deadlock", "ME2-starvation"
PROPERTIES: dict[str, tuple[str, ...]] = {
    MUTEX.name: ("ME1", DEADLOCK, STARVATION, ME3, "FENCE", "TOKEN"),
    ELECTION.name: ("E1", "E2", "E3", "E4"),
}
SAFETY = ("ME1", ME3, "FENCE", "TOKEN", "E1", "E3", "E4")
"""Properties judged with any number of losses. The others are judged with one: a process that may
lose every message may wait for ever.
"""


LIVENESS = (DEADLOCK, STARVATION, "E2", "E3")
SKIPPED = "not searched"
NOT_REFINED = (
    "it holds over the abstract election, which a real one need not refine if a process has lost"
    " its memory"
)
NEVER_IN_TIME = "timers may expire before every message, for ever: asked with eventual timing"


class Shown(NamedTuple):
    """A scenario that was run with the expected outcome, as evidence for cells of a card."""

    scenario: str
    algorithm: str
    faults: str  # the fault model
    violated: tuple[str, ...]


# What is to be searched.


@dataclass(frozen=True)
class CardTask:
    """A search that is tried with each size until it is complete, and the cells it decides."""

    algorithm: str
    timing: str
    models: tuple[str, ...]
    properties: tuple[str, ...]
    checks: tuple[Check, ...]


class Found(NamedTuple):
    """Result of one search."""

    searched: Searched
    verdicts: dict[
        str, tuple[Verdict, int | None, str]
    ]  # of each property, with the steps or the reason


def tasks_of(entry: Entry) -> list[CardTask]:
    """Return all searches that the card of an algorithm needs."""
    bounds = bounds_of(entry)
    if entry.problem.model is None:
        return []
    tasks: list[CardTask] = []
    for timing in bounds.timings:
        models = _models(entry, bounds.at(timing))
        for model in models:
            alike = (model, "unordered") if model == "none" and "unordered" not in models else ()
            tasks += _tasks_of_model(entry, bounds, timing, alike or (model,))
    return tasks


def _tasks_of_model(
    entry: Entry,
    bounds: Bounds,
    timing: str,
    models: tuple[str, ...],
) -> list[CardTask]:
    properties, ends = PROPERTIES[entry.problem.name], _about_the_end(entry)
    tasks: list[CardTask] = []
    here = bounds.at(timing, models[0])
    given = _models(entry, here)[models[0]]
    if not here.models or models[0] in here.models:
        for part, changes in given.items():
            named = tuple(
                name
                for name in here.properties or properties
                if name != ME3 and part in ("", _part(name, ends if timing == EVENTUAL else ()))
            )
            tasks += _tasks(entry, here, timing, models, named, changes, part)
    ordered = bounds.at(timing, models[0], order=True)
    if (
        ME3 in properties
        and ordered.order_sizes
        and (not ordered.models or models[0] in ordered.models)
    ):
        # What happened before what is kept track of for a number of entries only.
        given = _models(entry, ordered)[models[0]]
        changes = {**next(iter(given.values())), "order": True, "entries": ordered.entries or 1}
        ordered = ordered._replace(sizes=ordered.order_sizes, recovery_limit=0)
        tasks += _tasks(entry, ordered, timing, models, (ME3,), changes, "safety")
    return tasks


def _part(name: str, ends: Sequence[str]) -> str:
    return "safety" if name in SAFETY and name not in ends else "liveness"


def _models(entry: Entry, bounds: Bounds) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the fields of a check for each fault model, or of two checks where safety and liveness
    need different ones.
    """
    fifo = entry.assumes.fifo
    base = {"network": "fifo"} if bounds.fifo else {}
    lose: dict[str, Any] = {**base, "faults": (("lose", bounds.losses),)}
    models: dict[str, dict[str, dict[str, Any]]] = {"none": {"": base}}
    if fifo or bounds.fifo:
        models["unordered"] = {"": {"network": "unordered"}}
    # Where the order matters, loss is looked at on its own.
    models["lossy"] = (
        {"": lose} if fifo or bounds.fifo else {"safety": {"network": "lossy"}, "liveness": lose}
    )
    models["duplicating"] = {"": {**base, "faults": (("copy", 1),)}}
    models["crash"] = {"": {**base, "faults": (("crash", 1),)}}
    models["recovery"] = {"": {**base, "faults": (("crash", 1), ("recover", 1)), "returning": True}}
    models["amnesia"] = {"": {**base, "faults": (("amnesia", 1), ("crash", 1)), "returning": True}}
    return models


def _tasks(
    entry: Entry,
    bounds: Bounds,
    timing: str,
    models: tuple[str, ...],
    properties: tuple[str, ...],
    changes: Mapping[str, Any],
    part: str,
) -> list[CardTask]:
    if not properties:
        return []
    # The moment from which on messages are faster makes no difference to safety.
    searched = ASYNCHRONOUS if timing == EVENTUAL and part == "safety" else timing
    common: dict[str, Any] = {
        "options": bounds.options,
        "initial": bounds.initial,
        "entries": bounds.entries,
        "asking": bounds.asking,
        "abstract": bounds.abstract,
        "timeouts": bounds.timeouts,
        "timers": bounds.timers,
        "receipts": bounds.receipts,
        "draws": bounds.draws,
        "merging": bounds.merging,
        "limit": bounds.limit,
        "every": True,
        "search": bounds.search,
        **({"timing": searched} if searched else {}),
        **changes,
    }
    checks = tuple(Check(entry.name, size, **common) for size in bounds.sizes)
    if bounds.recovery_limit and {"recovery", "amnesia"} & set(models) and timing != SYNCHRONOUS:
        checks = (_of_three(entry, common, bounds.recovery_limit), *checks)
    return [CardTask(entry.name, timing, models, properties, checks)]


def _of_three(entry: Entry, common: Mapping[str, Any], limit: int) -> Check:
    """Return the search of `Bounds.recovery_limit`: with three voters, which are the coordinators
    where coordinators are separate processes.
    """
    apart = any(option.startswith("coordinators=") for option in common["options"])
    changes = {"options": ("coordinators=3",)} if apart else {}
    return Check(
        entry.name, 2 if apart else 3, **{**common, **changes, "network": "fifo", "limit": limit}
    )


# Searching.


def search(task: CardTask) -> list[Found]:
    """Run the searches of a task, from the largest size on, until one is complete."""
    found: list[Found] = []
    for check in task.checks:
        report = perform(check)
        extent = report.extent
        assert extent.depth is not None, "the searches of the cards go level by level"
        verdicts = {}
        for finding in report.findings:
            told = report.stories.get(finding.name)
            steps = told.steps if told is not None and finding.verdict is Verdict.VIOLATED else None
            verdicts[finding.name] = (
                finding.verdict,
                steps,
                finding.why if finding.verdict is Verdict.UNDECIDED else "",
            )
        found.append(
            Found(
                Searched(
                    check, extent.states, extent.depth, "" if extent.complete else extent.stopped
                ),
                verdicts,
            )
        )
        if extent.complete and not (report.liveness and report.liveness.cut_off):
            break
    return found


def with_options(task: CardTask, options: tuple[str, ...]) -> CardTask:
    """Return the task with these options in all its searches."""
    checks = (replace(each, options=(*each.options, *options)) for each in task.checks)
    return replace(task, checks=tuple(checks)) if options else task


def make(
    names: Iterable[str],
    shown: Iterable[Shown],
    jobs: int = 1,
    progress: Callable[[int, str], None] = lambda done, beside: None,
    options: tuple[str, ...] = (),
) -> list[Card]:
    """Return the cards of these algorithms. The number of workers does not change them.

    options: each algorithm is searched with those that it has.
    """
    chosen = list(dict.fromkeys(names))
    tasks = [
        with_options(task, options_for(find(name), options))
        for name in chosen
        for task in tasks_of(find(name))
    ]
    found: dict[CardTask, list[Found]] = {}
    for done, (task, result) in enumerate(results(search, tasks, jobs), start=1):
        found[task] = result
        progress(done, task.algorithm)
    # A violation without faults is the strongest evidence.
    given = sorted(shown, key=lambda each: each.faults != "none")
    return [
        _card(find(name), [(task, found[task]) for task in tasks if task.algorithm == name], given)
        for name in chosen
    ]


def _card(entry: Entry, searched: list[tuple[CardTask, list[Found]]], shown: list[Shown]) -> Card:
    plan = plan_of(task for task, _ in searched)
    card = Card(entry.name, entry.problem.name, fingerprint(entry), plan)
    cells: dict[Place, Cell] = {}
    for task, found in searched:
        for name in task.properties:
            cell = _decided(name, found, card.searches)
            if cell is not None:
                timing = _row(entry, task, name)
                if "amnesia" in task.models and any(each.abstract for each in task.checks):
                    cell = _unrefined(cell)
                cells |= {(timing, model, name): cell for model in task.models}
    if not searched:
        cells = _unsearched(entry)
    inherit(cells)
    _mark_unasked(cells)
    for timing, model, name in list(cells):
        if name == "ME1":
            cells.setdefault(
                (timing, model, ME3),
                Cell(
                    Verdict.UNDECIDED,
                    why="not searched: keeping track of the order takes too many states",
                ),
            )
    properties = [each.name for each in entry.problem.properties]
    order = {model.name: place for place, model in enumerate(MODELS)}
    timings = list(TIMINGS)
    ranked = sorted(
        cells,
        key=lambda place: (timings.index(place[0]), order[place[1]], properties.index(place[2])),
    )
    for place in ranked:
        timing, model, name = place
        cell = cells[place]
        if name == STARVATION:
            cell = _of_starvation(cell, card.cells.get((timing, model, DEADLOCK)))
        scenario = next((each.scenario for each in shown if _shows(each, entry, place)), "")
        if scenario:
            cell = replace(cell, verdict=Verdict.VIOLATED, why="", scenario=scenario)
        card.cells[place] = cell
    return card


def plan_of(tasks: Iterable[CardTask]) -> str:
    """Return the fingerprint of the searches of a card, in the order in which they are tried."""
    lines = [
        " ".join((task.timing, *task.models, *task.properties, *map(Check.command, task.checks)))
        for task in tasks
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def outdated(card: Card, entry: Entry) -> str:
    """Return why a stored card must be made anew; empty: it need not."""
    if card.sources != fingerprint(entry):
        return f"the code of {entry.name} has changed since its card was made"
    if card.plan != plan_of(tasks_of(entry)):
        return f"the bounds of {entry.name} have changed since its card was made"
    return ""


def _row(entry: Entry, task: CardTask, name: str) -> str:
    """Return the timing of the cells of a property. Safety does not depend on the moment from which
    on messages are faster than timers.
    """
    if task.timing != EVENTUAL or name in _about_the_end(entry):
        return task.timing
    return ASYNCHRONOUS


def _about_the_end(entry: Entry) -> tuple[str, ...]:
    """Return the properties that only the end of a run decides."""
    assert entry.problem.model is not None
    _, observer = entry.problem.model(1, system_of(Setup(entry.name, 2), entry))
    return (*LIVENESS, *observer.about_the_end())


def inherit(cells: dict[Place, Cell]) -> None:
    """Decide cells by others. Faults that may happen need not: a violation without faults is one
    with any, also where the search with faults had a smaller bound and found none.
    """
    models = dict.fromkeys(model for _, model, _ in cells)
    for timing, name in dict.fromkeys((timing, name) for timing, _, name in cells):
        known = cells.get((timing, "none", name))
        for model in models:
            cell = cells.setdefault((timing, model, name), Cell(Verdict.UNDECIDED, why=SKIPPED))
            if cell.verdict is not Verdict.VIOLATED and known and known.verdict is Verdict.VIOLATED:
                cells[timing, model, name] = known


def _mark_unasked(cells: dict[Place, Cell]) -> None:
    """Add the cells of what is asked with eventual timing only."""
    for timing, model, name in list(cells):
        if timing == EVENTUAL:
            cells.setdefault((ASYNCHRONOUS, model, name), Cell(None, why=NEVER_IN_TIME))


def _of_starvation(cell: Cell, deadlock: Cell | None) -> Cell:
    """Return the cell of ME2-starvation.  Where none of the waiting processes enters any more, each
    of them starves: the same run violates both.
    """
    if deadlock is None or Verdict.VIOLATED not in (deadlock.verdict, cell.verdict):
        return cell
    return cell if cell.verdict is Verdict.VIOLATED else deadlock


def _decided(name: str, found: list[Found], searches: list[Searched]) -> Cell | None:
    """Return the verdict of the searches of all sizes together; None if they do not judge this
    property.
    """
    told = [(each.searched, *each.verdicts[name]) for each in found if name in each.verdicts]
    if not told:
        return None
    violated = [each for each in told if each[1] is Verdict.VIOLATED]
    holding = [each for each in told if each[1] is Verdict.HOLDS] or [
        each for each in told if each[1] is Verdict.ALMOST_SURELY
    ]
    if violated:
        searched, verdict, steps, why = min(
            violated, key=lambda each: (each[2] or 0, each[0].check.n)
        )
    else:
        searched, verdict, steps, why = (holding or told)[0]
    if searched.stopped and verdict is Verdict.UNDECIDED:
        why = ""  # the search itself says it
    if searched not in searches:
        searches.append(searched)
    return Cell(verdict, searches.index(searched), steps, why)


def _unrefined(cell: Cell) -> Cell:
    """Return the cell of a search over an abstract election with amnesia.  A process that has
    forgotten its vote elects a second leader of a term, so no election keeps the properties of the
    abstract one, and nothing follows from what holds over it.
    """
    if cell.verdict not in (Verdict.HOLDS, Verdict.ALMOST_SURELY):
        return cell
    return replace(cell, verdict=Verdict.UNDECIDED, why=NOT_REFINED)


def _unsearched(entry: Entry) -> dict[Place, Cell]:
    why = "it is about time, which a search does not have; only simulated"
    cell = Cell(None, why=f"{why}: habemus sweep {entry.name}")
    return {(UNTIMED, "none", each.name): cell for each in entry.problem.properties}


def _shows(shown: Shown, entry: Entry, place: Place) -> bool:
    """Return whether a scenario is evidence for a cell. It never is for synchronous cells: in a run
    with clocks, messages need not be faster than timers.
    """
    timing, model, name = place
    if shown.algorithm != entry.name or name not in shown.violated or timing == SYNCHRONOUS:
        return False
    return shown.faults in ("none", model)  # where faults may happen, they need not


# What the cards say together.


def assumed(entry: Entry, place: Place, size: int) -> bool:
    """Return whether the algorithm claims its properties under these faults too, with this many
    participants.
    """
    timing, model, name = place
    assumes = entry.assumes
    if name in assumes.always:
        return model != "amnesia"  # without stable memory a process cannot keep its promises
    if timing == ASYNCHRONOUS and not assumes.tolerates_delays:
        return False
    if timing == EVENTUAL and assumes.timing is Timing.SYNCHRONOUS:
        return False
    minority = assumes.crashes is Crashes.MINORITY and size > 2
    return {
        "none": True,
        "unordered": not assumes.fifo,
        "lossy": assumes.tolerates_loss,
        "duplicating": assumes.tolerates_copies,
        "crash": assumes.crashes in (Crashes.STOP, Crashes.ANY) or minority,
        "recovery": assumes.crashes in (Crashes.RECOVER, Crashes.ANY) or minority,
        "amnesia": False,
    }[model]


def contradictions(card: Card) -> list[tuple[Place, Cell]]:
    """Return the violated cells of properties that the algorithm claims under these faults."""
    entry = find(card.algorithm)
    violated = [
        (place, cell)
        for place, cell in card.cells.items()
        if cell.verdict is Verdict.VIOLATED and entry.claims(place[2])
    ]
    return [(place, cell) for place, cell in violated if assumed(entry, place, _size(card, cell))]


def _size(card: Card, cell: Cell) -> int:
    """Return the number of participants; scenarios have enough that one process is no majority."""
    return 3 if cell.search is None or cell.steps is None else card.searches[cell.search].check.n


# The page of the documents.


class CardRow(NamedTuple):
    """A line of a table: one algorithm with one timing, and its cells of a property by
    fault model.
    """

    card: Card
    timing: str
    cells: dict[str, Cell]


def rows_of(made: Iterable[Card], name: str) -> list[CardRow]:
    rows = []
    for card in made:
        for timing in card.timings:
            cells = {
                model: cell
                for (each, model, one), cell in card.cells.items()
                if each == timing and one == name
            }
            if cells:
                rows.append(CardRow(card, timing, cells))
    return rows


def problems_of(made: Iterable[Card]) -> dict[Problem, list[Card]]:
    found: dict[str, tuple[Problem, list[Card]]] = {}
    for card in made:
        problem = find(card.algorithm).problem
        found.setdefault(problem.name, (problem, []))[1].append(card)
    return dict(found[name] for name in ("mutex", "election", "detector") if name in found)


def properties_of(problem: Problem, made: Iterable[Card]) -> dict[str, str]:
    """Return the properties that have cells, with their statements."""
    named = {name for card in made for name in card.properties}
    return {each.name: each.says for each in problem.properties if each.name in named}


_INTRODUCTION = """\
# What each algorithm guarantees, and under which faults

This page is generated. `make cards` makes anew the cards of algorithms whose code or bounds have
changed, and `habemus cards central` makes one card. A test fails when the code of an algorithm has
changed since its card was made.

The evidence for every cell is a search through *all* possible runs within a bound, or a scenario:

- **✔ holds**: in every state within the bound, and the case that the property is about did occur.
  That does not prove it for every number of participants. Each cell has its number (n=3; n=2+3 is
  two participants and three coordinators), and the evidence has the whole bound: how often
  participants enter or call an election, which of them, how often timers expire, messages that go
  round are received and lots are drawn, and which component below is an abstract one.
- **≈ with probability one**: as *holds*, unless random draws fail for ever.
- **✘ violated**: a run is known that violates it. The first number is the length of a shortest one
  in steps, and the evidence has the command that shows it. Where the search is over an abstract
  election, the run is a shortest one there, and its length is that of a run over the real election
  that follows it. Most algorithms do not claim to tolerate
  most faults: a ✘ is not a mistake where the algorithm does not claim the property, or assumes that
  there is no such fault.
- **? undecided**: the search was cut off at its limit, or could not judge. The evidence says which.
  Nothing follows from it.
- **n/a, not applicable**: it cannot be asked. A property is about time, which a search does not
  have; or it is about the end of runs in which timers may expire too early for ever, and is
  asked with eventual timing.

The fault models, each in addition to links as the algorithm assumes them:

{models}

Every search includes arbitrary delays and pauses, so they have no column. Algorithms with timers
have two or more rows: *asynchronous*, timers expire at any moment, before or after any message;
*synchronous*, time passes only when no message is under way; and *eventual*, timers expire at any
moment as often as the bound says, and then time passes only when no message is under way, without a
bound.

What these sizes cannot show:

- Two participants: a cycle of three, or a third that is overtaken again and again.
- Three voters: two faults at a time. A majority is two of them, so one that forgets its vote is
  enough for two majorities without a common member; five tolerate two crashes.
- Two leaders, one after the other: a third one that meets the records of both.
- One entry of each participant: messages of an earlier request that arrive during the next.

Notes for reading:

- Liveness (ME2, E2) in the columns *recovery* and *amnesia* is about runs in which the process does
  recover (`--returning`).
- With *lossy* links any messages are lost, for safety. For liveness one is lost, since a process
  that may lose every message may wait for ever; and one for all properties where links keep the
  order. Two are lost where a majority does without any one: one of three voters may be cut off, so
  `ra-majority` with three keeps ME2 when one message is lost, and not when two are; with two
  participants, which need both votes, one is enough.
- ME3 is about the causal order among the algorithm's own messages. Applications that also
  communicate in other ways can learn of a request earlier; only a card that claims ME3 covers that.
- Faults that may happen need not: a violation without faults is one in every column.
- With *amnesia*, what holds over an abstract election is undecided: a process that has forgotten
  its vote elects a second leader of a term, which the abstract one never has.
- Where none of the waiting processes enters any more, each of them starves: a run that violates
  ME2-deadlock violates ME2-starvation too.
- *claimed* means that the card of the algorithm names the property among those that it ensures,
  under its own assumptions.
"""


def page(made: Sequence[Card]) -> str:
    """Return all cards as Markdown: first the tables, then the evidence for each algorithm."""
    lines = [
        _INTRODUCTION.format(
            models="\n".join(f"- *{model.name}*: {model.title}." for model in MODELS)
        )
    ]
    for problem, cards in problems_of(made).items():
        lines += [f"## {problem.title[0].upper()}{problem.title[1:]}", ""]
        if problem.model is None:
            lines += [
                "About time, which a search does not have: only simulated, see the evidence.",
                "",
            ]
        for name, says in properties_of(problem, cards).items():
            lines += _matrix(rows_of(cards, name), name, says)
    lines += ["## The evidence", ""]
    for card in sorted(made, key=lambda each: each.algorithm):
        lines += _evidence(card)
    return "\n".join(lines)


def _matrix(rows: list[CardRow], name: str, says: str) -> list[str]:
    models = [model.name for model in MODELS if any(model.name in row.cells for row in rows)]
    lines = [
        f"### {name}: {says}",
        "",
        f"| algorithm | timing | claimed | {' | '.join(models)} |",
        f"|---|---|---|{'---|' * len(models)}",
    ]
    for row in rows:
        algorithm = row.card.algorithm
        claimed = "claimed" if find(algorithm).claims(name) else ""
        cells = " | ".join(_brief(row.card, row.cells.get(model)) for model in models)
        lines.append(f"| [`{algorithm}`](#{algorithm}) | {row.timing} | {claimed} | {cells} |")
    return [*lines, ""]


def _brief(card: Card, cell: Cell | None) -> str:
    """Return a cell in a few characters."""
    if cell is None:
        return "-"
    steps = str(cell.steps) if cell.steps is not None else ""
    return " ".join(filter(None, [cell.mark, steps, card.size(cell)]))


def _evidence(card: Card) -> list[str]:
    lines = [f"### {card.algorithm}", "", "<details><summary>What its cells rest on</summary>", ""]
    lines += ["| faults | verdicts | within | command |", "|---|---|---|---|"]
    for ground in grounds(card):
        if all(each.endswith(f"({NEVER_IN_TIME})") for each in ground.verdicts):
            continue  # the introduction says it once
        told = "; ".join(ground.verdicts)
        lines.append(
            f"| {ground.faults} | {told} | {ground.bound} |"
            f" {f'`{ground.command}`' if ground.command else ''} |"
        )
    return [*lines, "", "</details>", ""]


class Ground(NamedTuple):
    """Evidence for some cells of a fault model."""

    faults: str
    verdicts: list[str]
    bound: str
    command: str


def grounds(card: Card) -> list[Ground]:
    """Return the evidence for all cells, grouped by search or scenario."""
    return [
        ground
        for timing in card.timings
        for model in card.models
        for ground in _grounds(card, timing, model)
    ]


def _grounds(card: Card, timing: str, model: str) -> list[Ground]:
    together: dict[tuple[int | None, str], list[str]] = {}
    for (each, one, name), cell in card.cells.items():
        if (each, one) != (timing, model):
            continue
        if model == "unordered" and cell == card.cells.get((timing, "none", name)):
            continue  # the algorithm asks for no order: it is the same search
        steps = f" after {cell.steps} steps" if cell.steps is not None else ""
        told = f"{cell.mark} {name}{steps}" + (f" ({cell.why})" if cell.why else "")
        together.setdefault(
            (cell.search if cell.steps is not None or not cell.scenario else None, cell.scenario),
            [],
        ).append(told)
    faults = ", ".join(filter(None, [model, timing]))
    found = []
    for (search, scenario), verdicts in together.items():
        also = f"scenario {scenario}" if scenario else ""
        if search is None:
            found.append(
                Ground(faults, verdicts, also, f"habemus scenario {scenario}" if scenario else "")
            )
            continue
        searched = card.searches[search]
        states = f"{searched.states:,} states" + (
            f", {searched.stopped}" if searched.stopped else ""
        )
        bound = "; ".join(filter(None, [f"{searched.bound(find(card.algorithm))}: {states}", also]))
        found.append(Ground(faults, verdicts, bound, searched.command()))
    return found
