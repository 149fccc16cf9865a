"""The checker on algorithms made to try it: what it searches, what it calls fair, and what it says
when it is cut off.
"""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from habemus.algorithms.mutex.ricart_agrawala import RicartAgrawala
from habemus.catalog.entries import entry_of
from habemus.core import Const, Durable, Message, ProcessId, Timer, upon, whenever
from habemus.core.process import Process
from habemus.core.properties import Verdict
from habemus.problems.mutex import Mutex
from habemus.problems.mutex_observer import MutexClientModel, MutexObserver
from habemus.runs.check import Check, CheckReport, perform
from habemus.runs.setup import BadSetup
from habemus.runtimes.checker.fairness import has_loops
from habemus.runtimes.checker.process_model import BUDGETS, Bound, process_models, spent
from habemus.runtimes.checker.search import Extent, Search
from habemus.runtimes.replay import Replay


class May(Message):
    """May I enter?"""


class Yes(Message):
    pass


class No(Message):
    pass


class Again(Timer):
    pass


class Later(Timer):
    pass


class Polite(Mutex):
    """Whoever wants to enter asks the other, and asks again if that one wants to enter too.  Two
    can go on like that for ever.
    """

    wanted: bool = False

    def acquire(self) -> None:
        self.wanted = True
        self.broadcast(May())

    @upon(May)
    def answer(self, sender: ProcessId, _: May) -> None:
        self.send(No() if self.wanted else Yes(), to=sender)

    @upon(Yes)
    def enter(self, _: ProcessId, __: Yes) -> None:
        self.granted()

    @upon(No)
    def wait_a_while(self, _: ProcessId, __: No) -> None:
        self.set_timer(Again(), after=1_000)

    @upon(Again)
    def ask_again(self, _: Again) -> None:
        self.broadcast(May())

    def release(self) -> None:
        self.wanted = False


class Patient(Polite):
    """The same, but the first one insists: only the other asks again."""

    def answer(self, sender: ProcessId, _: May) -> None:
        self.send(No() if self.wanted and self.me < sender else Yes(), to=sender)


class Chooser(Mutex):
    """Enters or not, as a coin says."""

    def acquire(self) -> None:
        if self.choose((False, True)):
            self.granted()

    def release(self) -> None:
        pass


class Counter(Message):
    number: int


class Ordered(Mutex):
    """Is right only if two messages arrive in the order in which they were sent: the second one
    opens a door that the first one shuts.
    """

    asked: bool = False
    shut: bool = False

    def acquire(self) -> None:
        self.asked = True
        if self.me == 1:
            self.send(Counter(1), to=2)
            self.send(Counter(2), to=2)
            self.granted()
        elif self.shut:
            self.granted()

    @upon(Counter)
    def note(self, _: ProcessId, counter: Counter) -> None:
        self.shut = counter.number == 1

    def release(self) -> None:
        pass


class Voter(Mutex):
    """1 asks 2 for its only vote, and so does 3.  The vote is kept in stable memory, or not."""

    careful: Const[bool] = True
    kept: Durable[ProcessId | None] = None
    loose: ProcessId | None = None

    def acquire(self) -> None:
        if self.me != 2:
            self.send(May(), to=2)

    @upon(May)
    def vote_once(self, sender: ProcessId, _: May) -> None:
        if (self.kept if self.careful else self.loose) is None:
            self.kept = self.loose = sender
            self.send(Yes(), to=sender)

    @upon(Yes)
    def enter(self, _: ProcessId, __: Yes) -> None:
        self.granted()

    def release(self) -> None:
        pass

    def awaits(self) -> Sequence[ProcessId]:
        return [2]


class Tired(Mutex):
    """Waits for one of two timers; the short one lets it in."""

    late: bool = False

    def acquire(self) -> None:
        self.set_timer(Again(), after=10)
        self.set_timer(Later(), after=(20, 30))

    @upon(Later)
    def give_up(self, _: Later) -> None:
        self.late = True

    @upon(Again)
    def try_to_enter(self, _: Again) -> None:
        pass

    def is_awake(self) -> bool:
        return False

    @whenever(is_awake)
    def never(self) -> None:
        raise AssertionError

    def release(self) -> None:
        pass


def checked(algorithm: type[Process], n: int = 2, **given: object) -> CheckReport:
    check = Check(algorithm.__name__, n, **given)  # type: ignore[arg-type]
    return perform(check, entry=entry_of(algorithm))


def verdicts(report: CheckReport) -> dict[str, str]:
    return {finding.name: finding.verdict.value for finding in report.findings}


# Loops.


def test_two_that_give_way_for_ever() -> None:
    report = checked(Polite, every=True)
    assert verdicts(report)["ME2-deadlock"] == "violated"
    told = report.stories["ME2-deadlock"]
    assert told.loop is not None
    in_loop = [event for event in told.events if event.time >= told.loop]
    assert {event.process for event in in_loop if event.kind == "timer"} == {
        1,
        2,
    }, "a fair loop lets the timers of both run out"
    assert not any(event.name == "Granted" for event in in_loop)
    assert "for ever" in next(
        finding.why for finding in report.findings if finding.name == "ME2-deadlock"
    )


class Chatter(Mutex):
    """Talks to itself for ever."""

    def acquire(self) -> None:
        self.send(Yes(), to=self.me)
        self.send(No(), to=self.me)
        self.granted()

    @upon(Yes)
    def contradict(self, _: ProcessId, __: Yes) -> None:
        self.send(No(), to=self.me)

    @upon(No)
    def agree(self, _: ProcessId, __: No) -> None:
        self.send(Yes(), to=self.me)

    def release(self) -> None:
        pass


@pytest.mark.parametrize("merging", [False, True])
def test_a_message_that_is_under_way_already_goes_round_all_the_same(merging: bool) -> None:
    system = Chatter.system(1)
    search = Search(system, {1: MutexClientModel(1)}, MutexObserver(), Bound(merging=merging))
    search.run(1_000)
    assert has_loops(search)


def test_a_loop_that_is_not_fair_is_no_violation() -> None:
    """The second one could ask again for ever while the first one never gets its answer; but that
    would not be fair.
    """
    report = checked(Patient, every=True)
    assert report.loops == "no fair run goes on for ever"
    assert (verdicts(report)["ME2-deadlock"], verdicts(report)["ME2-starvation"]) == (
        "holds",
        "holds",
    )


def test_entries_without_end_where_the_states_close() -> None:
    for name in ("token-ring", "central", "raymond", "naimi-trehel"):
        report = perform(Check(name, 3, entries=None))
        assert report.verdict is Verdict.HOLDS and report.extent.complete, name


# What is searched.


def test_every_choice_is_followed() -> None:
    report = checked(Chooser, 1, every=True)
    assert verdicts(report)["ME1"] == "holds", "one way to choose lets it in"
    assert verdicts(report)["ME2-deadlock"] == "violated", "and one does not"


def test_links_that_keep_the_order_or_do_not() -> None:
    assert "ME1" in checked(Ordered, network="fifo", every=True).violated, (
        "between the two messages the door is shut"
    )
    steps = {
        network: checked(Ordered, network=network, every=True).stories["ME1"].steps
        for network in ("fifo", "unordered")
    }
    assert steps == {"fifo": 3, "unordered": 3}


@pytest.mark.parametrize(
    ("careful", "faults", "violated"),
    [
        (True, (("crash", 1), ("recover", 1)), False),
        (False, (("crash", 1), ("recover", 1)), True),
        (True, (("crash", 1), ("amnesia", 1)), True),
    ],
)
def test_what_is_durable_survives_a_crash(
    careful: bool, faults: tuple[tuple[str, int], ...], violated: bool
) -> None:
    report = checked(
        Voter, 3, options=(f"careful={str(careful).lower()}",), faults=faults, every=True
    )
    assert ("ME1" in report.violated) is violated


def test_whoever_comes_back_is_waited_for() -> None:
    """A coordinator with stable memory that goes down blocks everybody for as long as it stays
    down, and no longer.
    """
    faults = (("crash", 1), ("recover", 1))
    staying, returning = (
        perform(
            Check("quorum-durable", 1, options=("coordinators=1",), faults=faults, returning=each)
        )
        for each in (False, True)
    )
    assert "ME2-deadlock" in staying.violated
    assert returning.verdict is Verdict.HOLDS
    assert (
        "every crashed process recovers" in returning.plain()["bound"]
        and "--returning" in returning.plain()["command"]
    )
    assert returning.extent.states >= staying.extent.states


def test_nobody_comes_back_without_recoveries() -> None:
    with pytest.raises(BadSetup, match="add recover=1"):
        Check("central", 2, faults=(("crash", 1),), returning=True)


def test_a_crash_in_the_middle_of_a_broadcast() -> None:
    """A step is torn after each message but the last: a crash after that is a move of its own."""
    system = RicartAgrawala.system(4)
    [first, *_] = process_models(
        system, dict.fromkeys(system.plans, MutexClientModel(1)), Bound(budgets=(("crash", 1),))
    )
    [start] = first.starts()
    torn = [move for move in first.moves(start.target) if move.label.torn is not None]
    assert [move.label.torn for move in torn] == [0, 1, 2]
    assert [[place for place, _ in move.sends] for move in torn] == [[], [1], [1, 2]]
    assert all(not first.is_up(move.target) for move in torn)


class Caller(Mutex):
    """Calls the others, once a timer has run out."""

    def acquire(self) -> None:
        self.set_timer(Again(), after=10)

    @upon(Again)
    def call(self, _: Again) -> None:
        self.broadcast(May())

    @upon(May)
    def listen(self, _: ProcessId, __: May) -> None:
        pass

    def release(self) -> None:
        pass


@pytest.mark.parametrize(
    ("budgets", "cost"),
    [((("crash", 1),), "crash"), ((("crash", 1), ("timeout", 1)), "crash+timeout")],
)
def test_a_crash_in_the_middle_of_a_step_on_a_timer(
    budgets: tuple[tuple[str, int], ...], cost: str
) -> None:
    """It takes from both budgets, where both are bounded."""
    system = Caller.system(3)
    [first, *_] = process_models(
        system, dict.fromkeys(system.plans, MutexClientModel(1)), Bound(budgets=budgets)
    )
    [start] = first.starts()
    [asked] = [
        move.target
        for move in first.moves(start.target)
        if move.label.kind == "request" and move.label.torn is None
    ]
    torn = [
        move
        for move in first.moves(asked)
        if move.label.kind == "timer" and move.label.torn is not None
    ]
    assert [(move.label.torn, move.cost) for move in torn] == [(0, cost), (1, cost)]


def test_budgets_are_spent_together_or_not_at_all() -> None:
    left = tuple(1 if kind in ("crash", "timeout") else 0 for kind in BUDGETS)
    after = spent(left, "crash+timeout")
    assert after == (0,) * len(BUDGETS)
    assert spent(after, "crash") is None
    one = spent(left, "timeout")
    assert one is not None and spent(one, "crash+timeout") is None


def test_timers_in_their_order() -> None:
    asynchronous, synchronous = (
        checked(Tired, 1, timing=timing, every=True) for timing in ("asynchronous", "synchronous")
    )
    assert synchronous.extent.complete and asynchronous.extent.complete
    assert synchronous.extent.depth == 5, "ask, wait, the short one, wait, the long one"
    assert asynchronous.extent.depth == 3


def test_messages_that_get_lost_or_come_twice() -> None:
    assert perform(Check("central", 2, network="lossy")).violated == ["ME2-deadlock"]
    assert perform(Check("central", 2, faults=(("lose", 1),))).violated == ["ME2-deadlock"]
    twice = perform(Check("central", 2, network="duplicating"))
    assert twice.violated == ["ME1"] or twice.violated == ["ME2-deadlock"]


# What it says.


def test_an_interrupt_leaves_it_undecided() -> None:
    def interrupt(extent: Extent) -> None:
        raise KeyboardInterrupt

    for search in ("auto", "breadth", "numpy"):
        report = perform(Check("lamport", 3, search=search), progress=interrupt)
        assert report.verdict is Verdict.UNDECIDED
        assert report.extent.stopped == "it was interrupted" and not report.extent.complete
        assert report.extent.states > 0


def test_an_interrupt_leaves_what_sets_were_found() -> None:
    seen: list[int] = []

    def interrupt(extent: Extent) -> None:
        seen.append(extent.states)
        if extent.states > 0:
            raise KeyboardInterrupt

    report = perform(
        Check("ricart-agrawala", 4, options=("tick=0",), network="fifo", search="symbolic"),
        progress=interrupt,
    )
    assert report.verdict is Verdict.UNDECIDED
    assert report.extent.stopped == "it was interrupted" and not report.extent.complete
    assert 0 < seen[-1] <= report.extent.states < 1_412_505


@pytest.mark.parametrize("search", ["auto", "breadth", "numpy", "symbolic"])
def test_a_limit_leaves_it_undecided(search: str) -> None:
    report = perform(Check("lamport", 3, limit=1_000, search=search))
    assert report.verdict is Verdict.UNDECIDED
    assert all("1,000" in finding.why for finding in report.findings)


# Sets of states.


def test_a_large_check_goes_by_sets_of_states() -> None:
    """As many states and steps as Spin's model has."""
    report = perform(Check("ricart-agrawala", 4, options=("tick=0",), network="fifo"))
    assert report.search.description == "by decision diagrams"
    assert (report.extent.states, report.extent.transitions, report.extent.depth) == (
        1_412_505,
        7_430_854,
        None,
    )
    assert report.verdict is Verdict.HOLDS and report.extent.complete
    assert report.loops == "no run goes on for ever"


def test_sets_that_do_not_suit_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")  # which `make test` has
    monkeypatch.setattr("habemus.runs.check.SMALL", 100)
    monkeypatch.setattr("habemus.runs.check.SMALL_DIAGRAM", 1_000)
    report = perform(Check("ricart-agrawala", 3, options=("tick=0",), network="fifo"))
    assert report.search.description == "breadth first, with numpy"
    assert report.extent.states == 2_101 and report.verdict is Verdict.HOLDS


def test_where_loops_matter_every_state_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("habemus.runs.check.SMALL", 10)
    report = perform(Check("central", 3, entries=None))
    assert report.search.description.startswith("breadth first")
    assert report.loops == "every loop was looked at"


def test_what_is_wrong_in_a_set_is_told_by_a_shortest_way() -> None:
    among_sets, by_levels = (
        perform(Check("central", 2, network="lossy", search=search))
        for search in ("symbolic", "breadth")
    )
    assert among_sets.violated == by_levels.violated == ["ME2-deadlock"]
    assert among_sets.stories["ME2-deadlock"].steps == by_levels.stories["ME2-deadlock"].steps


def test_what_is_wrong_far_away_is_said_to_be_wrong() -> None:
    """The sets are small, and the way is beyond as many states as may be visited."""
    report = perform(Check("quorum", 3, search="symbolic", limit=60_000))
    assert report.verdict is Verdict.VIOLATED and report.violated == ["ME2-deadlock"]
    [finding] = [each for each in report.findings if each.name == "ME2-deadlock"]
    assert finding.why == (
        "violated in some state, but no path to it was found: the limit of 60,000 states was"
        " reached"
    )
    assert report.trace is None and report.plain()["trace"] == []


def test_sets_of_states_know_no_time() -> None:
    with pytest.raises(BadSetup, match="time passes for all"):
        perform(Check("central", 2, timing="synchronous", search="symbolic"))


def test_nothing_passes_on_nothing() -> None:
    """Nobody ever asks, so no property is shown to hold."""
    report = perform(Check("central", 2, entries=0))
    assert set(verdicts(report).values()) == {"undecided"}


def test_wrong_checks_are_refused() -> None:
    for wrong in (
        {"network": "pigeon"},
        {"timing": "late"},
        {"faults": (("fire", 1),)},
        {"search": "luck"},
        {"entries": -1},
        {"order": True, "entries": None},
        {"faults": (("crash", 1_000),)},
    ):
        with pytest.raises(BadSetup):
            Check("central", 2, **wrong)
    with pytest.raises(BadSetup):
        perform(Check("heartbeat", 2))
    with pytest.raises(BadSetup):
        perform(Check("central", 0))


def test_a_check_and_its_plain_form_are_the_same() -> None:
    check = Check(
        "quorum",
        2,
        options=("n=3",),
        entries=None,
        network="fifo",
        faults=(("crash", 1),),
        timeouts=3,
        merging=True,
        every=True,
    )
    assert Check.from_plain(check.plain()) == check
    for wrong in (
        {},
        {"algorithm": "central"},
        {"algorithm": "central", "n": 2, "colour": "red"},
        {"algorithm": "central", "n": 2, "faults": 3},
    ):
        with pytest.raises(BadSetup):
            Check.from_plain(wrong)


@pytest.mark.parametrize(
    "check",
    [
        Check("ra-majority-naive", 3),
        Check("maekawa", 3),
        Check("lamport", 2, network="unordered"),
        Check("central-timeout", 2),
        Check("quorum", 2, faults=(("crash", 1), ("amnesia", 1)), every=True),
        Check("ring-anonymous", 3),
        Check("chang-roberts-plain", 3),
    ],
)
def test_the_processes_do_what_the_counterexample_says(check: Check) -> None:
    """Every counterexample is fed to the pure processes again, and judged by the monitors of the
    problem.
    """
    report = perform(check)
    assert report.verdict is Verdict.VIOLATED
    for trace in report.traces.values():
        assert list(Replay(report.system).states(trace.events)), "nothing was replayed"
        [finding] = trace.findings
        assert finding.verdict is Verdict.VIOLATED and "is violated after" not in finding.why, (
            "the monitors see it too"
        )
    other = perform(replace(check, search="numpy"))
    assert {name: told.steps for name, told in other.stories.items()} == {
        name: told.steps for name, told in report.stories.items()
    }


def test_a_search_loads_neither_the_simulator_nor_numpy() -> None:
    """Starting up is most of the time that a small check takes."""
    words = ["check", "ricart-agrawala", "-n", "2", "--search", "breadth"]
    source = f"""
import sys
from habemus.cli.app import habemus
assert habemus.main({words}, standalone_mode=False) == 0
slow = ("habemus.runtimes.sim", "habemus.traces", "numpy", "rich")
print(*(name for name in sys.modules if name.startswith(slow)))
"""
    told = subprocess.run(
        [sys.executable, "-c", source], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert any("holds" in line for line in told)
    assert told[-1] == ""


def test_reasons_name_their_subject() -> None:
    nothing = perform(Check("central", 2, entries=0))
    assert {finding.why for finding in nothing.findings} == {
        "no run has an event that this property is about, so nothing was shown"
    }
    peterson = perform(Check("peterson", 3, faults=(("copy", 1),), every=True))
    [end] = [finding.why for finding in peterson.findings if finding.name == "E3"]
    assert end == (
        "no dead end in 878 states, but runs may go on for ever, and this property is about the end"
        " of a run"
    )


# Exceptions in handlers.


class Breaks(Timer):
    pass


class FailsAtATimeout(Mutex):
    """Every participant enters at once; a handler of a timer raises an exception."""

    def acquire(self) -> None:
        self.set_timer(Breaks(), after=5)
        self.granted()

    def release(self) -> None:
        self.cancel_timer(Breaks())

    @upon(Breaks)
    def fail(self, _: Breaks) -> None:
        raise ValueError("no such entry")


@pytest.mark.parametrize("search", ["breadth", "numpy", "symbolic", "auto"])
def test_an_exception_in_a_handler_is_a_counterexample(search: str) -> None:
    check = Check("mine", 1, search=search)
    report = perform(check, entry=entry_of(FailsAtATimeout))
    assert report.verdict is Verdict.VIOLATED
    assert report.violated == ["no exception"]
    assert report.trace is not None
    assert [event.name for event in report.trace.events[-1:]] == ["Breaks"]
    assert "in fail: ValueError: no such entry" in report.why
    assert report.plain()["steps"] == {"no exception": 2}


@pytest.mark.parametrize("search", ["breadth", "numpy", "symbolic", "auto"])
def test_a_step_outside_the_bound_may_raise_an_exception(search: str) -> None:
    check = Check("mine", 1, search=search, timeouts=0)
    report = perform(check, entry=entry_of(FailsAtATimeout))
    assert report.violated == []
    assert "no exception" not in verdicts(report)
    assert verdicts(report)["ME1"] == "holds"


def test_a_command_shows_the_way_to_an_exception(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from habemus.algorithm import Mutex\n\n\nclass MyMutex(Mutex):\n"
        "    def acquire(self) -> None:\n        self.granted()\n\n"
        "    def release(self) -> None:\n        raise KeyError('queue')\n"
    )
    command = [sys.executable, "-m", "habemus", "check", f"{path}:MyMutex", "-n", "2"]
    test = tmp_path / "test_it.py"
    done = subprocess.run(
        [*command, "--pytest", str(test)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "mine.py, line 9, in release: KeyError: 'queue'" in done.stdout
    assert "1        leaves" in done.stdout


# Applications that stop waiting, and leaders that resign.


def test_requests_with_a_budget_are_made_only_within_it() -> None:
    bound: dict[str, Any] = {"network": "fifo", "timeouts": 1, "every": True, "search": "breadth"}
    plain, withdrawing = (
        perform(Check("elected-coordinator", 2, withdrawals=count, **bound)) for count in (0, 1)
    )
    assert plain.extent.states < withdrawing.extent.states
    assert "at most 1 withdrawal" in withdrawing.check.description(withdrawing.entry)
    assert verdicts(withdrawing)["ME1"] == "holds"


def test_a_leader_steps_down_in_its_own_term() -> None:
    """Its resignation is no offence against E4."""
    timers = (("Patience", 1), ("Beat", 0))
    check = Check("terms", 3, timers=timers, resignations=1, search="numpy")
    report = perform(check)
    assert verdicts(report)["E1"] == verdicts(report)["E4"] == "holds"
    assert report.extent.states > 100_000


@pytest.mark.parametrize(
    ("algorithm", "name", "lacking"),
    [
        ("central", "withdrawals", "central cannot cancel a request"),
        ("bully", "resignations", "bully cannot resign"),
        ("terms", "withdrawals", "terms cannot cancel a request"),
    ],
)
def test_requests_that_an_algorithm_does_not_have_are_refused(
    algorithm: str, name: str, lacking: str
) -> None:
    bound: dict[str, Any] = {name: 1}
    with pytest.raises(BadSetup, match=lacking):
        perform(Check(algorithm, 2, **bound))
