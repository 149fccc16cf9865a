"""Process classes: their variables, their marks, and the rules that follow a handler."""

from __future__ import annotations

import textwrap
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from enum import Enum, IntEnum
from functools import partialmethod, wraps
from operator import attrgetter
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habemus.core import (
    Const,
    Durable,
    Indication,
    Message,
    MistakeInAlgorithm,
    MistakeInPlan,
    Process,
    ProcessId,
    Timer,
    Uses,
    Value,
    request,
    upon,
    whenever,
)
from habemus.core import process as engine
from habemus.core.node import Stack
from habemus.core.process import ProcessType
from habemus.core.shapes import UnsupportedType

relaxed = settings(derandomize=True)


class Ask(Message):
    pass


class Grant(Message):
    pass


class Release(Message):
    number: int = 0


class Tick(Timer):
    pass


class Suspected(Indication):
    process: ProcessId


class Standing(IntEnum):
    IDLE = 0
    BUSY = 1


def made(name: str, base: type[Process], **namespace: Any) -> Any:
    """Make a class that a class statement could not define for the type checker."""
    return ProcessType(name, (base,), {"__module__": __name__, "__qualname__": name, **namespace})


def alone(plan: Process) -> tuple[Any, list[tuple[str, Any]]]:
    """One process made from the plan, and the list in which its effects will stand."""
    [process] = Stack(plan).spawn(1, (2, 3))
    effects: list[tuple[str, Any]] = []
    process.send = lambda message, *, to: effects.append(("send", (message, to)))
    process.broadcast = lambda message: effects.append(("broadcast", message))
    process.set_timer = lambda timer, *, after: effects.append(("set", (timer, after)))
    process.cancel_timer = lambda timer: effects.append(("cancel", timer))
    process.choose = lambda options: options[0]
    process.indicate = lambda indication: effects.append(("indicate", indication))
    return process, effects


def handle(process: Any, event: Value, sender: ProcessId = 2, *, skipping: bool = True) -> None:
    """One event, followed by the rules that the engine thinks it needs, or by all of them."""
    behaviour = type(process).__behaviour__
    arguments = (sender, event) if isinstance(event, Message) else (event,)
    if skipping:
        behaviour.settled[type(event), None](process, *arguments)
    else:
        behaviour.upon[type(event), None](process, *arguments)
        behaviour.settle(process)


class Central(Process):
    coordinator: Const[ProcessId]
    holder: ProcessId | None = None
    waiting: list[ProcessId] = []
    grants: Durable[int] = 0

    @upon(Ask)
    def enqueue(self, sender: ProcessId, _: Ask) -> None:
        self.waiting.append(sender)

    @upon(Release)
    def vacate(self, sender: ProcessId, _: Release) -> None:
        self.holder = None

    def is_free_and_wanted(self) -> bool:
        return self.holder is None and bool(self.waiting)

    @whenever(is_free_and_wanted)
    def admit_next(self) -> None:
        self.holder = self.waiting.pop(0)
        self.grants += 1
        self.send(Grant(), to=self.holder)


# Variables.


def test_the_kinds_of_variables() -> None:
    class Top(Process):
        limit: Const[int] = 3
        below: Uses[Central]
        number: Durable[int] = 0
        marks: set[int] = set()

    kinds = {name: variable.kind for name, variable in Top.__variables__.items()}
    assert kinds == {"limit": "const", "below": "uses", "number": "durable", "marks": "state"}
    assert Top.__state_names__ == ("number", "marks")


def test_constants_and_components_are_not_part_of_the_state() -> None:
    process, _ = alone(Central(coordinator=7, waiting=[4]))
    assert process.coordinator == 7
    assert Central.__capture__(process) == (None, (4,), 0)
    Central.__restore__(process, (9, (1, 2), 5))
    assert (process.holder, process.waiting, process.grants, process.coordinator) == (
        9,
        [1, 2],
        5,
        7,
    )


def test_a_captured_state_is_hashable_and_stays_when_the_process_goes_on() -> None:
    process, _ = alone(Central(coordinator=1))
    before = Central.__capture__(process)
    process.waiting.append(3)
    assert before == (None, (), 0)
    assert hash(before) != hash(Central.__capture__(process))
    Central.__restore__(process, before)
    process.waiting.append(8)
    assert before == (None, (), 0)


def test_processes_and_plans_do_not_share_what_can_change() -> None:
    given_list = [5]
    plan = Central(coordinator=1, waiting=given_list)
    (one, _), (other, _) = alone(plan), alone(plan)
    one.waiting.append(6)
    given_list.append(7)
    assert other.waiting == plan.waiting == [5]
    default, _ = alone(Central(coordinator=1))
    default.waiting.append(1)
    assert Central(coordinator=1).waiting == []


@pytest.mark.parametrize("name", ["undeclared", "holdr", "__dict__"])
def test_an_undeclared_attribute_is_refused(name: str) -> None:
    process, _ = alone(Central(coordinator=1))
    with pytest.raises(AttributeError):
        setattr(process, name, 1)
    assert not hasattr(process, "__dict__")


def test_an_undeclared_attribute_is_refused_in_a_class_derived_twice() -> None:
    class Middle(Central):
        pass

    class Low(Middle):
        extra: int = 0

    process, _ = alone(Low(coordinator=1))
    process.extra = 2
    with pytest.raises(AttributeError):
        process.unknown = 2


def test_class_variables_are_no_variables() -> None:
    class Limited(Process):
        limit: ClassVar[int] = 5
        number: int = 0

    assert list(Limited.__variables__) == ["number"]
    assert Limited().limit == 5


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ("float", r"Wrong\.field: float: use int"),
        ("set[int] | None", r"Wrong\.field: set\[int\] inside a union"),
        ("tuple[list[int], ...]", r"Wrong\.field: list\[int\] inside a tuple"),
        ("dict[int, object]", r"Wrong\.field: object: use int"),
        ("list", r"Wrong\.field: list without the type"),
        ("Durable[set[set[int]]]", r"Wrong\.field: set\[int\] inside a set"),
        ("Missing", "Wrong: name 'Missing' is not defined; define it above"),
    ],
)
def test_a_type_that_cannot_be_captured_is_refused_when_the_class_is_made(
    annotation: str, reason: str
) -> None:
    with pytest.raises(UnsupportedType, match=reason):
        made("Wrong", Process, __annotations__={"field": annotation})


def test_a_constant_may_be_anything() -> None:
    class Timed(Process):
        every: Const[tuple[int, int]]
        names: Const[dict[int, list[str]]] = {}
        key: Const[Callable[[int], int]] = abs

    plan = Timed(every=(1, 2))
    assert plan.key(-3) == 3
    assert Timed.__capture__(plan) == ()


def test_local_classes_see_the_names_around_them() -> None:
    class Side(Enum):
        LEFT = 1

    class Turn(Message):
        side: Side

    class Turner(Process):
        sides: list[Side] = []
        last: Turn | None = None

        @upon(Turn)
        def turn(self, sender: ProcessId, turn: Turn) -> None:
            self.sides.append(turn.side)
            self.last = turn

    process, _ = alone(Turner())
    handle(process, Turn(Side.LEFT))
    assert Turner.__capture__(process) == ((Side.LEFT,), Turn(Side.LEFT))


# Plans.


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(
        MistakeInPlan,
        match=r"Central.coordinator has no value: give it a default, or pass it in system\(\)",
    ):
        Central()  # type: ignore[call-arg]  # the mistake under test


def test_an_unknown_variable_is_refused_with_a_suggestion() -> None:
    with pytest.raises(
        MistakeInPlan, match=r"Central has no variable cordinator; did you mean coordinator\?"
    ):
        Central(cordinator=1)  # type: ignore[call-arg]  # the mistake under test
    with pytest.raises(
        MistakeInPlan,
        match="Central has no variable zzz; there are coordinator, holder, waiting, grants",
    ):
        Central(coordinator=1, zzz=1)  # type: ignore[call-arg]  # the mistake under test
    with pytest.raises(MistakeInPlan, match="Process has no variable x; there are none"):
        Process(x=1)


def test_variables_are_given_by_name_only() -> None:
    with pytest.raises(TypeError):
        Central(1)  # type: ignore[call-arg]  # the mistake under test


def test_a_component_of_the_wrong_kind_is_refused() -> None:
    class Top(Process):
        below: Uses[Central]

    with pytest.raises(MistakeInPlan, match=r"Top\.below must be a Central, not Process"):
        Top(below=Process())  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(MistakeInPlan, match=r"Top\.below must be a Central, not int"):
        Top(below=3)  # type: ignore[arg-type]  # the mistake under test


def test_an_abstract_process_makes_no_plan() -> None:
    class Problem(Process):
        @request
        @abstractmethod
        def acquire(self) -> None: ...

    with pytest.raises(TypeError, match="acquire"):
        Problem()  # type: ignore[abstract]  # the mistake under test


def test_but_and_over_leave_the_original_alone() -> None:
    links, plan = Process(), Central(coordinator=1, waiting=[3])
    over = plan.over(links)
    other = over.replace(coordinator=2)
    assert (plan.links, over.links, other.links) == (None, links, links)
    assert (plan.coordinator, over.coordinator, other.coordinator) == (1, 1, 2)
    over.waiting.append(4)
    assert plan.waiting == other.waiting == [3]
    assert repr(other) == "Central(coordinator=2, holder=None, waiting=[3], grants=0)"
    with pytest.raises(MistakeInPlan, match="no variable"):
        plan.replace(holdr=1)


def test_recovering_is_starting_unless_said_otherwise() -> None:
    class Starter(Process):
        log: list[str] = []

        def on_start(self) -> None:
            self.log.append("start")

    class Recoverer(Starter):
        def on_recover(self) -> None:
            self.log.append("recover")

    (starter, _), (recoverer, _) = alone(Starter()), alone(Recoverer())
    starter.on_recover()
    recoverer.on_recover()
    assert (starter.log, recoverer.log) == (["start"], ["recover"])
    assert starter.awaits() == ()


# Inheritance.


def test_an_override_keeps_the_mark_of_what_it_overrides() -> None:
    class Impolite(Central):
        def enqueue(self, sender: ProcessId, _: Ask) -> None:
            self.waiting.insert(0, sender)

    class Suspicious(Central):
        def is_free_and_wanted(self) -> bool:
            return super().is_free_and_wanted() and 9 not in self.waiting

    class Silent(Central):
        def admit_next(self) -> None:
            self.holder = self.waiting.pop()

    for skipping in (True, False):
        process, _ = alone(Impolite(coordinator=1, holder=8))
        for sender in (2, 3):
            handle(process, Ask(), sender, skipping=skipping)
        assert process.waiting == [3, 2]

        process, _ = alone(Suspicious(coordinator=1, waiting=[9]))
        handle(process, Ask(), skipping=skipping)
        assert (process.holder, process.waiting) == (None, [9, 2])

        process, effects = alone(Silent(coordinator=1))
        handle(process, Ask(), skipping=skipping)
        assert (process.holder, process.waiting, process.grants, effects) == (2, [], 0, [])


def test_an_override_of_an_override_keeps_the_mark_too() -> None:
    class Middle(Central):
        def enqueue(self, sender: ProcessId, _: Ask) -> None:
            self.grants = 10

    class Low(Middle):
        def enqueue(self, sender: ProcessId, _: Ask) -> None:
            self.grants = 20

    process, _ = alone(Low(coordinator=1))
    handle(process, Ask())
    assert process.grants == 20


def test_a_new_mark_replaces_the_old_one() -> None:
    class Other(Central):
        @upon(Grant)
        def enqueue(self, sender: ProcessId, _: Grant) -> None:  # type: ignore[override]
            self.waiting.append(sender)

        def has_many(self) -> bool:
            return len(self.waiting) > 1

        @whenever(has_many)
        def admit_next(self) -> None:
            self.waiting.clear()

    assert set(Other.__behaviour__.upon) == {(Grant, None), (Release, None)}
    assert [rule.name for rule in Other.__behaviour__.rules] == ["admit_next"]
    process, _ = alone(Other(coordinator=1))
    handle(process, Grant())
    assert process.waiting == [2]
    handle(process, Grant())
    assert process.waiting == []


def test_a_new_default_needs_no_annotation() -> None:
    class Seeded(Central):
        coordinator = 5
        waiting = [8]

    class Deeper(Seeded):
        grants = 2

    plan = Deeper()  # type: ignore[call-arg]  # defaults without annotations
    assert (plan.coordinator, plan.waiting, plan.grants) == (5, [8], 2)
    assert Deeper(coordinator=6).coordinator == 6
    process, _ = alone(plan)
    process.waiting.append(9)
    assert Deeper(coordinator=6).waiting == [8]
    assert list(Deeper.__variables__) == list(Central.__variables__), (
        "the order of the state does not change"
    )


def test_a_variable_may_be_declared_anew() -> None:
    class Durably(Central):
        holder: Durable[ProcessId | None] = 4

    assert Durably.__variables__["holder"].kind == "durable"
    assert Durably(coordinator=1).holder == 4
    assert Central.__variables__["holder"].kind == "state"


def test_super_without_arguments_works() -> None:
    class Counting(Central):
        asked: int = 0

        def enqueue(self, sender: ProcessId, _: Ask) -> None:
            super().enqueue(sender, _)
            self.asked += 1

        def on_start(self) -> None:
            super().on_start()

    process, _ = alone(Counting(coordinator=1))
    process.on_start()
    handle(process, Ask())
    assert (process.asked, process.holder) == (1, 2)


# Handlers.


def test_two_handlers_of_one_message_are_refused() -> None:
    with pytest.raises(MistakeInAlgorithm, match="Twice: both enqueue and also handle Ask"):

        class Twice(Central):
            @upon(Ask)
            def also(self, sender: ProcessId, _: Ask) -> None: ...


def test_one_handler_may_handle_several_kinds() -> None:
    class Many(Process):
        seen: list[str] = []

        @upon(Ask, Grant)
        def hear(self, sender: ProcessId, message: Ask | Grant) -> None:
            self.seen.append(type(message).__name__)

    process, _ = alone(Many())
    handle(process, Grant())
    handle(process, Ask())
    assert process.seen == ["Grant", "Ask"]
    assert Many.__behaviour__.values == {"Ask": Ask, "Grant": Grant}


def test_one_indication_of_two_components_may_have_two_handlers() -> None:
    class Two(Process):
        near: Uses[Process]
        far: Uses[Process]

        @upon(Suspected, of="near")
        def distrust_near(self, event: Suspected) -> None: ...

        @upon(Suspected, of="far")
        def distrust_far(self, event: Suspected) -> None: ...

    assert set(Two.__behaviour__.upon) == {(Suspected, "near"), (Suspected, "far")}


@pytest.mark.parametrize(
    ("kind", "parameters", "wanted"),
    [
        (Ask, "self, message", "self and the sender and the message"),
        (Ask, "self, sender, message, more", "self and the sender and the message"),
        (Ask, "self", "self and the sender and the message"),
        (Tick, "self", "self and the event"),
        (Tick, "self, sender, timer", "self and the event"),
        (Suspected, "self, sender, event", "self and the event"),
    ],
)
def test_a_handler_with_the_wrong_parameters_is_refused(
    kind: type[Value], parameters: str, wanted: str
) -> None:
    handler: Callable[..., None] = eval(f"lambda {parameters}: None")
    with pytest.raises(
        MistakeInAlgorithm,
        match=(
            rf"Wrong\.hear handles {kind.__name__} and so takes {wanted}; it has \({parameters}\)"
        ),
    ):
        made("Wrong", Process, hear=upon(kind)(handler))


def test_an_override_with_the_wrong_parameters_is_refused() -> None:
    with pytest.raises(MistakeInAlgorithm, match=r"Wrong\.enqueue handles Ask"):

        class Wrong(Central):
            def enqueue(self, _: Ask) -> None:  # type: ignore[override]
                ...


def test_requests_are_followed_by_rules() -> None:
    class Problem(Process):
        @request
        @abstractmethod
        def acquire(self) -> None: ...

    class Solution(Problem):
        wanted: bool = False
        entries: int = 0

        def acquire(self) -> None:
            self.wanted = True

        def is_wanted(self) -> bool:
            return self.wanted

        @whenever(is_wanted)
        def enter(self) -> None:
            self.wanted = False
            self.entries += 1

    assert list(Solution.__behaviour__.requests) == ["acquire"]
    process, _ = alone(Solution())
    Solution.__behaviour__.requests["acquire"](process)
    assert (process.wanted, process.entries) == (False, 1)


# Rules.


def test_rules_are_applied_until_none_holds() -> None:
    process, effects = alone(Central(coordinator=1))
    handle(process, Ask(), 4)
    handle(process, Ask(), 5)
    assert (process.holder, process.waiting) == (4, [5])
    handle(process, Release())
    assert (process.holder, process.waiting, process.grants) == (5, [], 2)
    assert effects == [("send", (Grant(), 4)), ("send", (Grant(), 5))]
    assert Central.__behaviour__.settle(process) is False
    process.holder = None
    process.waiting = [1]
    assert Central.__behaviour__.settle(process) is True
    assert process.holder == 1


class Ordered(Process):
    first: int = 0
    second: int = 0
    log: list[str] = []

    @upon(Ask)
    def both(self, sender: ProcessId, _: Ask) -> None:
        self.second += 1
        self.first += 2

    def is_first(self) -> bool:
        return self.first > 0

    @whenever(is_first)
    def one(self) -> None:
        self.first -= 1
        self.log.append("first")

    def is_second(self) -> bool:
        return self.second > 0

    @whenever(is_second)
    def two(self) -> None:
        self.second -= 1
        self.log.append("second")
        if len(self.log) < 5:
            self.first += 1


@pytest.mark.parametrize("skipping", [True, False])
def test_an_earlier_rule_goes_first_whenever_it_holds(skipping: bool) -> None:
    process, _ = alone(Ordered())
    handle(process, Ask(), skipping=skipping)
    assert process.log == ["first", "first", "second", "first"]


def test_endless_rules_are_refused() -> None:
    class Endless(Process):
        number: int = 0

        @upon(Ask)
        def begin(self, sender: ProcessId, _: Ask) -> None:
            self.number = 1

        def is_on(self) -> bool:
            return self.number > 0

        @whenever(is_on)
        def count(self) -> None:
            self.number += 1

    for skipping in (True, False):
        process, _ = alone(Endless())
        with pytest.raises(
            MistakeInAlgorithm,
            match=f"Endless: the rules count still apply after {engine.RULE_LIMIT} times",
        ):
            handle(process, Ask(), skipping=skipping)


def test_a_rule_that_a_handler_cannot_affect_is_not_looked_at() -> None:
    """Not for the result but for the speed, and so on every version of Python."""

    class Quiet(Central):
        clock: int = 0
        marks: set[int] = set()

        @upon(Grant)
        def count(self, sender: ProcessId, _: Grant) -> None:
            self.clock = max(self.clock, sender) + 1
            self.send(Ask(), to=sender)
            self.note(sender)

        def note(self, sender: ProcessId) -> None:
            self.marks.add(sender)
            for mark in sorted(self.marks):
                self.clock += mark

        @upon(Tick)
        def look(self, _: Tick) -> None:
            if self.holder is None:  # reading an immutable variable changes nothing
                self.clock += 1

    behaviour = Quiet.__behaviour__
    for skipped in (Grant, Tick):
        assert behaviour.settled[skipped, None] is behaviour.upon[skipped, None]
    for followed in (Ask, Release):
        assert behaviour.settled[followed, None] is not behaviour.upon[followed, None]


# Rule skipping must never skip a rule that a handler could enable.  Each class below is put
# together from a way to change a variable and a way to look at it, as somebody might write them;
# what the engine does after a handler is compared with applying all rules.


class Held(Process):
    count: int = 0
    items: list[int] = []
    marks: set[int] = set()
    table: dict[int, list[int]] = {}
    standing: Standing = Standing.IDLE
    spare: int = 0
    done: int = 0

    def fill_count(self) -> None:
        self.count = 1

    def fill_items(self) -> None:
        self.items.append(1)

    def fill_marks(self) -> None:
        self.marks.add(1)

    def fill_table(self) -> None:
        self.table.setdefault(1, []).append(1)

    def fill_standing(self) -> None:
        self.standing = Standing.BUSY

    def seen_count(self) -> bool:
        return bool(self.count)

    def seen_items(self) -> bool:
        return bool(self.items)

    def seen_marks(self) -> bool:
        return bool(self.marks)

    def seen_table(self) -> bool:
        return bool(self.table)

    def seen_standing(self) -> bool:
        return bool(self.standing)


class Poke(Message):
    pass


class Nudge(Message):
    pass


VARIABLES = ("count", "items", "marks", "table", "standing")
STATEMENTS = {
    "count": [
        "self.count = 1",
        "self.count += 1",
        "self.count, spare = 1, 2",
        "for self.count in (0, 1): pass",
    ],
    "items": [
        "self.items.append(1)",
        "self.items[:] = [1]",
        "self.items += [1]",
        "self.items = [1]",
        "[*self.items, self.items.append(1)]",
    ],
    "marks": [
        "self.marks.add(1)",
        "self.marks |= {1}",
        "self.marks = {1}",
        "held = self.marks\nheld.add(1)",
    ],
    "table": [
        "self.table[1] = []",
        "self.table.setdefault(1, []).append(1)",
        "self.table = {1: []}",
        "(lambda held: held.update({1: []}))(self.table)",
    ],
    "standing": ["self.standing = Standing.BUSY"],
}
EXPRESSIONS = {
    "count": "self.fill_count()",
    "items": "self.items.append(1)",
    "marks": "self.marks.add(1)",
    "table": "self.table.update({1: [1]})",
    "standing": "self.fill_standing()",
}
VALUES = {
    "count": "1",
    "items": "[1]",
    "marks": "{1}",
    "table": "{1: []}",
    "standing": "Standing.BUSY",
}
EMPTY = {"count": "0", "items": "[]", "marks": "set()", "table": "{}", "standing": "Standing.IDLE"}


class Way:
    """A way of writing something: lines of a handler or guard, further members of the class,
    functions beside it.
    """

    def __init__(self, body: str, *, members: str = "", beside: str = "", after: str = "") -> None:
        self.body, self.members, self.beside, self.after = body, members, beside, after

    def lines(self, part: str, variable: str, statement: str) -> str:
        text = textwrap.dedent(getattr(self, part)).strip("\n")
        for line in text.splitlines():
            if line.strip() == "STATEMENT":  # keeps the indentation of a statement of several lines
                text = text.replace(
                    line, textwrap.indent(statement, line[: len(line) - len(line.lstrip())])
                )
        return (
            text.replace("EXPRESSION", EXPRESSIONS[variable])
            .replace("VARIABLE", variable)
            .replace("VALUE", VALUES[variable])
            .replace("AFTER", "pass")
        )


CHANGES = {
    "directly": Way("STATEMENT"),
    "in a branch": Way("if sender:\n    STATEMENT\nelse:\n    self.spare = 1"),
    "in a loop": Way("while True:\n    STATEMENT\n    break"),
    "while an error is handled": Way("try:\n    raise KeyError\nexcept KeyError:\n    STATEMENT"),
    "in a method": Way("self.fill()", members="def fill(self):\n    STATEMENT"),
    "two methods down": Way(
        "self.fill()",
        members="def fill(self):\n    return self.really()\ndef really(self):\n    STATEMENT",
    ),
    "in an inherited method": Way("self.fill_VARIABLE()"),
    "in a method by super": Way("super().fill_VARIABLE()"),
    "in a method by the name of the class": Way("Held.fill_VARIABLE(self)"),
    "in a bound method given to a function": Way(
        "call(self.fill)",
        members="def fill(self):\n    STATEMENT",
        beside="def call(function): function()",
    ),
    "in a bound method kept in a variable": Way(
        "fill = self.fill\nfill()", members="def fill(self):\n    STATEMENT"
    ),
    "in a method with a private name": Way(
        "self.__fill()", members="def __fill(self):\n    STATEMENT"
    ),
    "in a property": Way("self.filled", members="@property\ndef filled(self):\n    STATEMENT"),
    "in a nested function": Way("def fill():\n    STATEMENT\nfill()"),
    "in a function nested twice": Way(
        "def fill():\n    def really():\n        STATEMENT\n    really()\nfill()"
    ),
    "in a lambda": Way("(lambda: EXPRESSION)()"),
    "in a lambda with self as its default": Way("(lambda self=self: EXPRESSION)()"),
    "in a comprehension": Way("[EXPRESSION for _ in (1,)]"),
    "in a generator": Way("any(EXPRESSION for _ in (1,))"),
    "in a sorting key": Way("sorted((1, 2), key=lambda number: (EXPRESSION, number)[1])"),
    "in a function": Way("fill(self)", beside="def fill(self):\n    STATEMENT"),
    "in a function given self by name": Way(
        "fill(process=self)", beside="def fill(process):\n    process.VARIABLE = VALUE"
    ),
    "in a function given self among others": Way(
        "fill(*[self])", beside="def fill(process):\n    process.VARIABLE = VALUE"
    ),
    "in a static method": Way(
        "self.fill(self)", members="@staticmethod\ndef fill(process):\n    process.VARIABLE = VALUE"
    ),
    "in a class method": Way(
        "self.fill(self)",
        members="@classmethod\ndef fill(cls, process):\n    process.VARIABLE = VALUE",
    ),
    "by setattr": Way("setattr(self, 'VARIABLE', VALUE)"),
    "by setattr of object": Way("object.__setattr__(self, 'VARIABLE', VALUE)"),
    "under another name": Way("process = self\nprocess.VARIABLE = VALUE"),
    "under another name in a function": Way(
        "process = self\nfill(process)", beside="def fill(process):\n    process.VARIABLE = VALUE"
    ),
    "in a context": Way("with nullcontext(VALUE) as self.VARIABLE:\n    pass"),
    "in a match": Way("match message:\n    case Poke():\n        STATEMENT"),
    "after a variable is deleted": Way("del self.spare\nself.spare = 0\nSTATEMENT"),
    "in a lambda bound by a loop": Way("for fill in [lambda: EXPRESSION]:\n    fill()"),
    "by a rule": Way(
        "self.spare = 1",
        members="""
        def is_spare(self): return self.spare == 1
        @whenever(is_spare)
        def use_spare(self):
            self.spare = 0
            STATEMENT
        """,
    ),
    "by a rule that comes last": Way(
        "self.spare = 1",
        after="""
        def is_spare(self): return self.spare == 1
        @whenever(is_spare)
        def use_spare(self):
            self.spare = 0
            STATEMENT
        """,
    ),
}

LOOKS = {
    "directly": Way("return bool(self.VARIABLE)"),
    "in a method": Way("return self.look()", members="def look(self): return bool(self.VARIABLE)"),
    "two methods down": Way(
        "return self.look()",
        members=(
            "def look(self): return self.really()\ndef really(self): return bool(self.VARIABLE)"
        ),
    ),
    "in an inherited method": Way("return self.seen_VARIABLE()"),
    "in a method by super": Way("return super().seen_VARIABLE()"),
    "in a property": Way(
        "return self.is_filled",
        members="@property\ndef is_filled(self): return bool(self.VARIABLE)",
    ),
    "in a lambda": Way("return (lambda: bool(self.VARIABLE))()"),
    "in a comprehension": Way("return any([self.VARIABLE for _ in (1,)])"),
    "in a generator": Way("return any(self.VARIABLE for _ in (1,))"),
    "in a nested function": Way("def look():\n    return bool(self.VARIABLE)\nreturn look()"),
    "in a function": Way(
        "return look(self)", beside="def look(process): return bool(process.VARIABLE)"
    ),
    "in a static method": Way(
        "return self.look(self)",
        members="@staticmethod\ndef look(process): return bool(process.VARIABLE)",
    ),
    "by getattr": Way("return bool(getattr(self, 'VARIABLE'))"),
    "by attrgetter": Way("return bool(attrgetter('VARIABLE')(self))"),
    "under another name": Way("process = self\nreturn bool(process.VARIABLE)"),
    "in a match": Way("match self:\n    case Process(VARIABLE=found):\n        return bool(found)"),
    "in a bound method": Way(
        "return any(map(self.look, (1,)))", members="def look(self, _): return bool(self.VARIABLE)"
    ),
}

SAMPLE = """
{beside}

class Sample(Held):
    @upon(Poke)
    def poke(self, sender, message):
        {change}

    @upon(Nudge)
    def nudge(self, sender, message):
        self.done += 10

{members}

    def is_filled_somehow(self):
        {look}

    @whenever(is_filled_somehow)
    def use(self):
        self.{variable} = {empty}
        self.done += 1

{after}
"""


def sample(change: Way, look: Way, variable: str, statement: str) -> type[Held]:
    def part(way: Way, name: str, depth: int) -> str:
        return textwrap.indent(way.lines(name, variable, statement), "    " * depth)

    source = SAMPLE.format(
        beside=part(change, "beside", 0) + "\n" + part(look, "beside", 0),
        change=part(change, "body", 2).strip(),
        look=part(look, "body", 2).strip(),
        # The names of two ways must not meet.
        members=part(change, "members", 1)
        + "\n"
        + part(look, "members", 1).replace("really", "truly"),
        after=part(change, "after", 1),
        variable=variable,
        empty=EMPTY[variable],
    )
    return _class_of(source)


def _class_of(source: str) -> type[Held]:
    scope: dict[str, Any] = {
        **{each.__name__: each for each in (Held, Poke, Nudge, Process, Standing)},
        **{
            each.__name__: each
            for each in (upon, whenever, attrgetter, partialmethod, nullcontext, passed_on)
        },
        "__name__": __name__,
    }
    exec(compile(source, "<sample>", "exec"), scope)
    made_class: type[Held] = scope["Sample"]
    return made_class


def passed_on(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator as people write them, which names no `self`."""

    @wraps(function)
    def pass_on(*arguments: Any) -> Any:
        return function(*arguments)

    return pass_on


def assert_no_rule_is_skipped_wrongly(cls: type[Held], events: Sequence[Message]) -> int:
    """Says how often a rule was applied, so that a test can see that something was compared."""
    (skipping, one), (full, other) = alone(cls()), alone(cls())
    for event in events:
        handle(skipping, event, skipping=True)
        handle(full, event, skipping=False)
        assert cls.__capture__(skipping) == cls.__capture__(full)
        assert one == other
    done: int = full.done
    return done


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("change", CHANGES)
def test_no_rule_is_skipped_that_a_handler_could_enable(change: str, look: str) -> None:
    for variable in VARIABLES if look == "directly" else ("count", "items"):
        for statement in STATEMENTS[variable] if look == "directly" else STATEMENTS[variable][:1]:
            cls = sample(CHANGES[change], LOOKS[look], variable, statement)
            assert (
                assert_no_rule_is_skipped_wrongly(cls, [Nudge(), Poke(), Nudge(), Poke()]) == 22
            ), f"{variable}: {statement}"


# Ways that hide what they do.
BLIND_CHANGES = {
    "by a property that can be set": Way(
        "self.filled = VALUE",
        members="""
        @property
        def filled(self): return 0
        @filled.setter
        def filled(self, value): self.VARIABLE = value
        """,
    ),
    "by a property that can be deleted": Way(
        "del self.filled",
        members="""
        @property
        def filled(self): return 0
        @filled.deleter
        def filled(self): self.VARIABLE = VALUE
        """,
    ),
    "in a decorated method": Way(
        "self.fill()", members="@passed_on\ndef fill(self):\n    self.VARIABLE = VALUE"
    ),
    "in a partial method": Way(
        "self.fill()",
        members=(
            "def put(self, value):\n    self.VARIABLE = value\nfill = partialmethod(put, VALUE)"
        ),
    ),
    "by __setattr__": Way("self.__setattr__('VARIABLE', VALUE)"),
    "in a function, named on the way": Way(
        "fill(process := self)", beside="def fill(process):\n    process.VARIABLE = VALUE"
    ),
    "in a function, with two names at once": Way(
        "one = other = self\nfill(one)", beside="def fill(process):\n    process.VARIABLE = VALUE"
    ),
    "by exec": Way("exec('self.VARIABLE = VALUE')"),
}
BLIND_LOOKS = {
    "in a match with two cases": Way(
        "match self:\n    case Process(spare=-1): return False\n    case Process(VARIABLE=found):"
        " return bool(found)"
    ),
    "in a decorated method": Way(
        "return self.look()", members="@passed_on\ndef look(self): return bool(self.VARIABLE)"
    ),
    "by __getattribute__": Way("return bool(self.__getattribute__('VARIABLE'))"),
    "by eval": Way("return bool(eval('self.VARIABLE'))"),
}


@pytest.mark.parametrize("change", BLIND_CHANGES)
def test_no_rule_is_skipped_after_an_unusual_change(change: str) -> None:
    cls = sample(BLIND_CHANGES[change], LOOKS["directly"], "count", "")
    assert assert_no_rule_is_skipped_wrongly(cls, [Nudge(), Poke(), Nudge(), Poke()]) == 22


@pytest.mark.parametrize("look", BLIND_LOOKS)
def test_no_rule_is_skipped_before_an_unusual_look(look: str) -> None:
    cls = sample(CHANGES["directly"], BLIND_LOOKS[look], "count", "self.count = 1")
    assert assert_no_rule_is_skipped_wrongly(cls, [Nudge(), Poke(), Nudge(), Poke()]) == 22


def test_no_rule_is_skipped_when_self_is_collected() -> None:
    change = Way(
        "fill([self for number in (1,)])", beside="def fill(processes):\n    processes[0].count = 1"
    )
    cls = sample(change, LOOKS["directly"], "count", "")
    assert assert_no_rule_is_skipped_wrongly(cls, [Nudge(), Poke(), Nudge(), Poke()]) == 22


def test_no_rule_is_skipped_when_self_has_another_name() -> None:
    source = """
def fill(process):
    process.count = 1

class Sample(Held):
    @upon(Poke)
    def poke(this, sender, message):
        fill(this)

    def is_filled(self):
        return self.count > 0

    @whenever(is_filled)
    def use(self):
        self.count = 0
        self.done += 1
"""
    assert assert_no_rule_is_skipped_wrongly(_class_of(source), [Poke()]) == 1


# The same for whole networks of rules: each rule empties its variable and fills later ones.


@st.composite
def rule_networks(draw: st.DrawFn) -> str:
    ways = st.sampled_from(
        ["directly", "in a method", "in a function", "in a nested function", "by setattr"]
    )
    looks = st.sampled_from(
        ["directly", "in a method", "in a property", "in a lambda", "in a function"]
    )
    beside: list[str] = []
    members: list[str] = []

    def renamed(way: Way, variable: str, statement: str) -> str:
        """The lines of a way, with its members and functions under names of their own."""
        number = str(len(beside))
        for part, into in (("beside", beside), ("members", members)):
            text = way.lines(part, variable, statement)
            into.append(
                text.replace("def fill(", f"def fill{number}(")
                .replace("def look(", f"def look{number}(")
                .replace("is_filled", f"is_filled{number}")
            )
        body = (
            way.lines("body", variable, statement)
            .replace("fill(self)", f"fill{number}(self)")
            .replace("look(self)", f"look{number}(self)")
        )
        return (
            body.replace("self.fill()", f"self.fill{number}()")
            .replace("self.look()", f"self.look{number}()")
            .replace("is_filled", f"is_filled{number}")
        )

    def filling(variables: list[str]) -> str:
        return (
            "\n".join(
                renamed(CHANGES[draw(ways)], each, draw(st.sampled_from(STATEMENTS[each])))
                for each in variables
            )
            or "pass"
        )

    rules = []
    order = draw(st.permutations(range(len(VARIABLES))))
    for index in draw(st.lists(st.sampled_from(order), unique=True)):
        variable = VARIABLES[index]
        later = (
            draw(st.lists(st.sampled_from(VARIABLES[index + 1 :]), unique=True))
            if index + 1 < len(VARIABLES)
            else []
        )
        guard = textwrap.indent(renamed(LOOKS[draw(looks)], variable, ""), "    ")
        action = textwrap.indent(
            f"self.{variable} = {EMPTY[variable]}\nself.done = self.done * 7 % 1000 +"
            f" {index + 1}\n{filling(later)}",
            "    ",
        )
        rules.append(
            f"def guard{index}(self):\n{guard}\n@whenever(guard{index})\ndef"
            f" rule{index}(self):\n{action}"
        )
    handlers = []
    for kind in ("Poke", "Nudge"):
        body = textwrap.indent(
            filling(draw(st.lists(st.sampled_from(VARIABLES), unique=True, max_size=2))), "    "
        )
        handlers.append(
            f"@upon({kind})\ndef on_{kind}(self, sender, message):\n    self.spare += 1\n{body}"
        )
    inside = textwrap.indent("\n".join([*handlers, *members, *rules]), "    ")
    return "\n".join([*beside, "class Sample(Held):", inside])


@settings(relaxed, max_examples=150)
@given(rule_networks(), st.lists(st.sampled_from([Poke(), Nudge()]), max_size=5))
def test_no_rule_is_skipped_in_a_network_of_rules(source: str, events: list[Message]) -> None:
    assert_no_rule_is_skipped_wrongly(_class_of(source), events)


# Mistakes that are refused, and corners.


def test_a_request_may_have_a_default() -> None:
    class Solution(Process):
        number: int = 0

        @request
        def acquire(self, number: int, more: int = 5) -> None:
            self.number = number + more

        def is_wanted(self) -> bool:
            return self.number > 100

        @whenever(is_wanted)
        def enter(self) -> None:
            self.number = 0

    process, _ = alone(Solution())
    Solution.__behaviour__.requests["acquire"](process, 1)
    assert process.number == 6


def test_defaults_follow_the_order_of_the_ancestors() -> None:
    class Plain(Central):
        pass

    class Seeded(Central):
        coordinator = 5

    class Both(Plain, Seeded):
        pass

    assert Both().coordinator == 5  # type: ignore[call-arg]  # as above


@pytest.mark.parametrize("name", ["me", "peers", "send", "links", "indicate", "choose"])
def test_a_variable_with_the_name_of_something_given_is_refused(name: str) -> None:
    with pytest.raises((MistakeInAlgorithm, UnsupportedType), match=name):
        made("Wrong", Process, __annotations__={name: "int"}, **{name: 3})


def test_upon_without_what_it_is_upon_is_refused() -> None:
    mistake: Any = lambda self, sender, message: None  # noqa: E731
    with pytest.raises((MistakeInAlgorithm, TypeError)):
        made("Wrong", Process, hear=upon(mistake))
    with pytest.raises((MistakeInAlgorithm, TypeError)):
        made("Wrong", Process, hear=upon()(lambda self, sender, message: None))


def test_a_message_of_a_component_is_refused() -> None:
    with pytest.raises((MistakeInAlgorithm, TypeError)):
        made("Wrong", Process, hear=upon(Ask, of="detector")(lambda self, sender, message: None))


def test_a_guard_that_is_no_method_is_refused() -> None:
    with pytest.raises(MistakeInAlgorithm, match="act"):
        made("Wrong", Process, act=whenever(lambda self: False)(lambda self: None))


@pytest.mark.parametrize(
    ("name", "value"),
    [("waiting", None), ("waiting", 3), ("holder", "two"), ("grants", True), ("grants", 1.5)],
)
def test_a_value_of_the_wrong_type_is_a_mistake_in_the_plan(name: str, value: Any) -> None:
    with pytest.raises(MistakeInPlan, match=name):
        Central(**{"coordinator": 1, name: value})


def test_two_messages_of_one_name_are_refused() -> None:
    other = type(Message)("Ask", (Message,), {"__module__": "elsewhere"})  # type: ignore[misc]  # by metaclass
    with pytest.raises(MistakeInAlgorithm, match="Ask"):
        made("Wrong", Central, hear=upon(other)(lambda self, sender, message: None))
