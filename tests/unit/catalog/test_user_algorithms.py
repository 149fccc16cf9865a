"""A user's own algorithm: `path/to/mine.py:MyMutex` wherever a name of the catalog can stand."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from habemus.analysis.numbers.ranges import sizes
from habemus.analysis.sweeps.seeded_setups import SeededSetups
from habemus.analysis.sweeps.sweep import Sweep
from habemus.catalog.entries import CannotLoad, find
from habemus.core import MistakeInAlgorithm
from habemus.core.process import MistakeInPlan
from habemus.core.properties import Verdict
from habemus.runs.check import Check, perform
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute

OWN = '''"""Mine: as the book has it.

Assumes  reliable links.
Ensures  ME1; no more.
"""

from habemus.algorithms.mutex.central import Central


class MyMutex(Central):
    {body}
'''
MUTEX = """from habemus.core import Message
from habemus.problems.mutex import Mutex

class Hello(Message):
    stamp: int
class MyMutex(Mutex):
    queue: list[int] = []
    def acquire(self) -> None:
        {body}
"""
RELEASE = """
    def release(self) -> None:
        pass
"""

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)

    def to(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return Path(name)

    return to


def test_it_is_found_by_its_path_and_has_its_own_card(write: Write) -> None:
    path = write("folder/mine.py", OWN.format(body="pass"))
    entry = find(f"{path}:MyMutex")
    assert entry.name == "folder/mine.py:MyMutex"
    assert entry.box.title == "Mine: as the book has it."
    assert entry.box.ensures == ("ME1",)
    assert (
        find(f"{path.resolve()}:MyMutex").algorithm is entry.algorithm
    )  # one file is one module, by whatever path
    assert execute(Setup(entry.name, 3)).verdict is Verdict.HOLDS
    assert perform(Check(entry.name, 2)).verdict is Verdict.HOLDS


def test_a_short_docstring_of_the_class_does_not_hide_the_card_of_the_file(write: Write) -> None:
    path = write("mine.py", OWN.format(body='"""Just a word."""'))
    assert find(f"{path}:MyMutex").box.ensures == ("ME1",)


@pytest.mark.parametrize(
    ("ensures", "claims"),
    [
        ("Ensures  ME1, ME2.", ("ME1", "ME2")),
        ("Ensures: ME1, ME2.", ("ME1", "ME2")),
        ("Ensures:ME1,ME2", ("ME1", "ME2")),
        ("Ensures ME1 and ME2; no ME3.", ("ME1", "ME2")),
        ("Ensures  ME1, ME2, and TOKEN; and more.", ("ME1", "ME2", "TOKEN")),
        ("Ensures  ME2-deadlock.", ("ME2-deadlock",)),
        ("Ensures  ME1,\n         ME3.", ("ME1", "ME3")),
        ("Source   ours.\nEnsures: ME1.\nDiffers: ME2.", ("ME1",)),
        ("Ensures  nothing under contention; ME1 if there is none.", ()),
    ],
)
def test_claims_are_a_plain_list_of_properties(
    write: Write, ensures: str, claims: tuple[str, ...]
) -> None:
    path = write("mine.py", f'"""Mine.\n\n{ensures}\n"""\n' + MUTEX.format(body="pass") + RELEASE)
    assert find(f"{path}:MyMutex").box.ensures == claims


@pytest.mark.parametrize(
    ("ensures", "why"),
    [
        ("ME1 and ME2, but not ME3; x.", 'Ensures says "but not ME3" among its claims; name only'),
        ("ME1 (if no process crashes).", "Ensures says"),
        ("mutual exclusion.", 'Ensures says "mutual exclusion"'),
        ("everything.", "Ensures names everything, and mutual exclusion has no such property"),
        ("ME1 ME2.", 'Ensures says "ME1 ME2"'),
        ("me1.", "Ensures names me1, and mutual exclusion has no such property; it has FENCE, ME1"),
    ],
)
def test_a_clause_that_is_no_list_of_properties_is_refused(
    write: Write, ensures: str, why: str
) -> None:
    """The names in it were claimed, also those after a `not`, and other words claimed nothing."""
    card = f'"""Mine.\n\nEnsures  {ensures}\n"""\n'
    path = write("mine.py", card + MUTEX.format(body="pass") + RELEASE)
    with pytest.raises(MistakeInPlan) as caught:
        find(f"{path}:MyMutex")
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_claim_covers_the_parts_of_a_property() -> None:
    central, broken = find("central"), find("quorum-any-release")
    assert central.claims("ME1") and central.claims("ME2")
    assert central.claims("ME2-deadlock") and central.claims("ME2-starvation")
    assert not central.claims("ME3") and not broken.claims("ME1")


def test_a_file_without_a_docstring_claims_nothing_and_can_be_judged(write: Write) -> None:
    path = write(
        "mine.py",
        "from habemus.algorithms.mutex.central import Central\nclass MyMutex(Central):\n    pass\n",
    )
    entry = find(f"{path}:MyMutex")
    assert (entry.box.title, entry.box.ensures) == ("MyMutex", ())
    assert execute(Setup(entry.name, 3)).verdict is Verdict.HOLDS


def test_the_name_of_a_catalog_algorithm_does_no_harm(write: Write) -> None:
    text = (
        "from habemus.algorithms.mutex import central\nclass Central(central.Central):\n    name ="
        " 'central'\n"
    )
    path = write("central.py", text)
    assert find(f"{path}:Central").name == "central.py:Central"
    assert find("central").algorithm.__module__ == "habemus.algorithms.mutex.central"


def test_files_beside_it_can_be_imported_and_two_files_may_have_one_name(write: Write) -> None:
    write("a/words_of_mine.py", "WORD = 'a'\n")
    sibling = write("a/same.py", "import words_of_mine\n" + OWN.format(body="pass"))
    before = list(sys.path)
    other = write("b/same.py", OWN.replace("Mine: as", "Another, as").format(body="pass"))
    first, second = find(f"{sibling}:MyMutex"), find(f"{other}:MyMutex")
    assert first.algorithm is not second.algorithm
    assert find(f"{sibling}:MyMutex").box.title != second.box.title
    assert sys.path == before


NO_CLASS = (
    "mine.py has no algorithm MyMutex; no class in it derives from Mutex, Election or Detector"
)


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        (None, "absent.py:MyMutex", "there is no file absent.py"),
        (OWN, "mine.py:MyMutx", "mine.py has no algorithm MyMutx; did you mean mine.py:MyMutex?"),
        (OWN, "mine.py:Other", "mine.py has no algorithm Other; did you mean mine.py:MyMutex?"),
        (OWN, "mine.py", "which class of mine.py? did you mean mine.py:MyMutex?"),
        (OWN, "mine.py:", "which class of mine.py? did you mean mine.py:MyMutex?"),
        ("", "mine.py:MyMutex", NO_CLASS),
        ("MyMutex = 3\n", "mine.py:MyMutex", NO_CLASS),
        (
            "def f(:\n",
            "mine.py:MyMutex",
            "mine.py cannot be imported: SyntaxError: invalid syntax (mine.py, line 1)",
        ),
        (
            "\nfrom .other import x\n",
            "mine.py:MyMutex",
            (
                "mine.py cannot be imported: line 2: ImportError: attempted relative import with no"
                " known parent package; import files beside it by their plain names"
            ),
        ),
        (
            "import nothing_of_the_kind\n",
            "mine.py:MyMutex",
            (
                "mine.py cannot be imported: line 1: ModuleNotFoundError: No module named"
                " 'nothing_of_the_kind'"
            ),
        ),
        (
            "x = 1\ny = {}[0]\n",
            "mine.py:MyMutex",
            "mine.py cannot be imported: line 2: KeyError: 0",
        ),
        (
            "raise SystemExit(3)\n",
            "mine.py:MyMutex",
            "mine.py cannot be imported: line 1: SystemExit: 3",
        ),
        (
            MUTEX,
            "mine.py:MyMutex",
            "mine.py: MyMutex does not implement release; define release",
        ),
    ],
)
def test_what_cannot_be_loaded_says_why_in_one_line(
    write: Write, text: str | None, name: str, why: str
) -> None:
    if text is not None:
        write("mine.py", text.format(body="pass") if "{body}" in text else text)
    with pytest.raises(CannotLoad) as caught:
        find(name)
    assert str(caught.value) == why


def test_a_class_that_solves_no_problem_is_refused(write: Write) -> None:
    path = write("mine.py", "from habemus.core import Process\nclass Mine(Process):\n    pass\n")
    with pytest.raises(
        MistakeInPlan,
        match="Mine solves no problem that is known: derive it from Mutex or Election or Detector",
    ):
        find(f"{path}:Mine")


AT = "mine.py, line 9, in acquire: "


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("self.granted(1)", AT + "TypeError"),
        ("self.count = 1", AT + ".*no attribute 'count'.*; declare it .* as in count: int = 0"),
        ("self.queu = 1", AT + ".*no attribute 'queu'.*; did you mean self.queue"),
        (
            "self.send(Hello(1))",
            AT + r"send needs the receiver by name: self.send\(message, to=...",
        ),
        ("self.send(Hello(1), 2)", AT + r"send needs the receiver by name: .* to=2\)"),
        (
            "self.send(Hello(1), to=9)",
            AT + r"Hello\(stamp=1\) is sent to 9, which is not a process",
        ),
        ("self.send(Hello(1), to=None)", AT + ".* is sent to None, which is not a process"),
        ("self.send(Hello(1), to=[2])", AT + r".* is sent to \[2\], which is not a process"),
        ("self.send('hello', to=2)", AT + "send takes a message, and 'hello' is none"),
        ("self.send(Hello, to=2)", AT + r"send takes a message, not its class: write Hello\("),
        ("self.send(Hello('1'), to=2)", AT + "Hello.stamp is declared as int, and is '1'"),
        ("self.broadcast(3)", AT + "broadcast takes a message, and 3 is none"),
        ("self.set_timer(Hello(1), after=5)", AT + "set_timer takes a timer, and Hello"),
        ("self.set_timer(Hello(1))", AT + "set_timer needs its delay by name"),
        ("self.cancel_timer(3)", AT + "cancel_timer takes a timer"),
        ("self.indicate('x')", AT + "indicate takes an indication, and 'x' is none"),
        ("self.choose([])", AT + "choose has no options"),
        ("raise SystemExit(0)", AT + "SystemExit: 0"),
        ("self.queue = 'x'", "mine.py, line 8, in acquire .*: queue is declared as list.* is 'x'"),
        ("self.queue = [None]", "mine.py, line 8, in acquire .*: queue is declared as list"),
        ("self.queue = (1,)", "mine.py, line 8, in acquire .*: queue is declared as list"),
        ("self.send(Hello(1), to=self.peers[0])", r"MyMutex has no @upon\(Hello\)"),
    ],
)
@pytest.mark.parametrize("command", ["run", "check"])
def test_a_mistake_in_a_handler_is_one_line_with_its_place(
    write: Write, command: str, body: str, why: str
) -> None:
    path = write("mine.py", MUTEX.format(body=body) + RELEASE)
    assert re.search(why, mistake(command, f"{path}:MyMutex"))


def mistake(command: str, place: str) -> str:
    """Return what is said of an exception in a handler: a run ends with it, a check shows the way
    there.
    """
    if command == "run":
        with pytest.raises(MistakeInAlgorithm) as caught:
            execute(Setup(place, 2))
        return str(caught.value)
    report = perform(Check(place, 2))
    assert report.violated == ["no exception"]
    assert report.trace is not None
    return next(each.why for each in report.findings if each.name == "no exception")


@pytest.mark.parametrize(
    ("head", "body", "line", "why"),
    [
        ("import random\n", "random.random()", 10, "random is not part of the state.* self.choose"),
        ("", "import time; time.time()", 9, "time is not part of the state.* self.set_timer"),
        ("from time import monotonic\n", "monotonic()", 10, "time is not part of the state"),
        (
            "from random import randint\ndef draw() -> int:\n return randint(1, 2)\n",
            "draw()",
            3,
            "random is not part of the state",
        ),
        ("import os\n", "os.urandom(1)", 10, "os is not part of the state.* self.choose"),
        ("from os import urandom\n", "urandom(1)", 10, ".* is not part of the state"),
        ("", "open('/etc/hostname').read()", 9, "open is not part of the state"),
        ("", "global seen; seen = 1", 9, "seen is a variable outside, .* as in seen: int = 0"),
        (
            "seen = 0\ndef count() -> None:\n global seen\n seen += 1\n",
            "count()",
            4,
            "seen is a variable outside",
        ),
        (
            "SEEN: dict[int, int] = {}\n",
            "SEEN[self.me] = 1",
            10,
            "SEEN is a dict outside, .*MappingProxyType",
        ),
        (
            "import itertools\nNUMBERS = itertools.count()\n",
            "next(NUMBERS)",
            11,
            "NUMBERS is a count outside",
        ),
    ],
)
def test_what_is_no_part_of_the_state_is_refused(
    write: Write, head: str, body: str, line: int, why: str
) -> None:
    path = write("mine.py", head + MUTEX.format(body=body) + RELEASE)
    why = f"line {line}, in MyMutex.acquire: {why}"
    with pytest.raises((CannotLoad, MistakeInPlan), match=why):
        find(f"{path}:MyMutex")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            MUTEX.format(body="self.limit += 1")
            .replace("queue: list[int] = []", "limit: Const[int] = 3")
            .replace("import Message", "import Const, Message"),
            "line 9, in MyMutex.acquire: limit is declared as Const or Uses, which no step may set",
        ),
        (
            MUTEX.format(body="pass").replace("queue: list[int]", "queue"),
            r"MyMutex.queue = \[\] is shared by all processes .* declare it with its type",
        ),
        (
            '"""Mine.\n\nEnsures  ME1, ME9; no more.\n"""\n' + MUTEX.format(body="pass"),
            "Ensures names ME9, and mutual exclusion has no such property",
        ),
        (
            '"""Mine.\n\nEnsures  E1.\n"""\n' + MUTEX.format(body="pass"),
            "Ensures names E1, and mutual exclusion has no such property",
        ),
    ],
)
def test_a_mistake_in_a_class_is_refused_before_it_runs(write: Write, text: str, why: str) -> None:
    path = write("mine.py", text + RELEASE)
    with pytest.raises((CannotLoad, MistakeInPlan), match=why):
        find(f"{path}:MyMutex")


def test_a_time_that_is_an_attribute_is_no_clock(write: Write) -> None:
    text = MUTEX.format(body="self.time = 1").replace("queue: list[int] = []", "time: int = 0")
    assert find(f"{write('mine.py', 'import time' + chr(10) + text + RELEASE)}:MyMutex").name


def test_a_variable_outside_may_stand_below_the_class(write: Write) -> None:
    text = MUTEX.format(body="SEEN.append(1)") + RELEASE + "SEEN: list[int] = []\n"
    path = write("mine.py", text)
    with pytest.raises(CannotLoad, match=r"^mine.py, line 9, in MyMutex.acquire: SEEN is a list"):
        find(f"{path}:MyMutex")


def test_constants_of_the_file_may_be_used(write: Write) -> None:
    text = "from types import MappingProxyType\nNEXT = MappingProxyType({1: 2})\nFEW = (1, 2)\n"
    text += MUTEX.format(body="self.queue = [NEXT.get(self.me, FEW[0])]") + RELEASE
    assert find(f"{write('mine.py', text)}:MyMutex").name


@pytest.mark.parametrize(
    "body", ["setattr(self, 'order', [self.me])", "self.order.append(self.me)", "change(self)"]
)
@pytest.mark.parametrize("command", ["run", "check"])
def test_a_constant_that_changes_is_refused(write: Write, command: str, body: str) -> None:
    """It would leak from one branch of a search into the others."""
    text = MUTEX.format(body=body).replace("queue: list[int]", "order: Const[list[int]]")
    text = "from habemus.core import Const\n" + text + RELEASE
    text += "def change(process: MyMutex) -> None:\n    process.order = []\n"
    path = write("mine.py", text)
    why = r"mine.py, line 9, in acquire .*: order is declared as Const, and changes from \[\] to \["
    with pytest.raises(MistakeInAlgorithm, match=why):
        if command == "run":
            execute(Setup(f"{path}:MyMutex", 2))
        else:
            perform(Check(f"{path}:MyMutex", 2))


def test_an_edit_of_the_file_counts_at_once(write: Write) -> None:
    """A notebook got the verdict of the file as it was when it was first used."""
    good, bad = "self.queue = [1]", "self.granted()  "
    assert len(good) == len(bad)  # an edit that neither the size nor a clock in seconds shows
    text = '"""Mine.\n\nEnsures  ME1.\n"""\n' + MUTEX + RELEASE
    path = write("mine.py", text.format(body=good))
    moment = path.stat().st_mtime_ns
    name = f"{path}:MyMutex"
    first = find(name)
    assert find(name).algorithm is first.algorithm
    assert "ME1" not in perform(Check(name, 2)).violated
    write("mine.py", text.format(body=bad))
    os.utime(path, ns=(moment, moment))
    assert find(name).algorithm is not first.algorithm
    assert "ME1" in perform(Check(name, 2)).violated
    write("mine.py", "def f(:\n")
    with pytest.raises(CannotLoad, match="SyntaxError"):
        find(name)
    write("mine.py", text.format(body=good))
    assert "ME1" not in perform(Check(name, 2)).violated


def test_worker_processes_find_it(write: Write) -> None:
    path = write("mine.py", OWN.format(body="pass"))
    sweep = Sweep((f"{path}:MyMutex",), SeededSetups(sizes("2..3")), seeds=60)
    sweep.run(jobs=2)
    assert sweep.made == 60
    assert sweep.verdict is Verdict.HOLDS


def test_every_command_that_takes_an_algorithm_takes_it(write: Write, tmp_path: Path) -> None:
    write("deep/mine.py", OWN.format(body="pass"))
    mine = "deep/mine.py:MyMutex"
    environment = {**os.environ, "HOME": str(tmp_path)}

    def habemus(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error", "-m", "habemus", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
        )

    for arguments in (
        ("algorithms", mine),
        ("check", mine, "-n", "2"),
        ("run", mine, "--diagram", "run.json"),
        ("replay", "run.json", "--trust"),
        ("compare", mine, "central", "-n", "3", "--requests", "2"),
        ("faults", mine, "--diagrams", "pictures"),
    ):
        done = habemus(*arguments, "--json")
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        json.loads(done.stdout)
    assert len(list((tmp_path / "pictures").glob("*.svg"))) == 4
    done = habemus("check", "deep/mine.py:MyMutx")
    assert done.returncode == 2
    assert (
        done.stderr
        == "habemus: deep/mine.py has no algorithm MyMutx; did you mean deep/mine.py:MyMutex?\n"
    )


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(
    "after",
    ["1.5", "'5ms'", "-5", "None", "True", "(1,)", "(9, 5)", "(-1, 5)", "(1, 2.5)", "[1, 2]"],
)
def test_a_delay_of_the_wrong_kind_is_refused(write: Write, command: str, after: str) -> None:
    """A run failed in the simulator or accepted it, and a check accepted every one."""
    text = MUTEX.format(body=f"self.set_timer(Hello(1), after={after})")
    path = write("mine.py", text.replace("Message", "Timer") + RELEASE)
    assert mistake(command, f"{path}:MyMutex") == (
        f"{AT}after={after} is not a delay; after is in microseconds: 5_000, or (5_000, 9_000) for"
        " one that is drawn"
    )


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize("leaving", ["SystemExit(0)", "SystemExit('enough')"])
def test_a_handler_that_leaves_the_program_is_a_mistake(
    write: Write, command: str, leaving: str
) -> None:
    """It once ended `habemus run` with exit code 0, as if all had gone well."""
    write("mine.py", MUTEX.format(body=f"raise {leaving}") + RELEASE)
    words = [sys.executable, "-W", "error", "-m", "habemus", command, "mine.py:MyMutex"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if command == "check":  # the way there is a counterexample
        assert (done.returncode, done.stderr) == (1, "")
        assert "SystemExit: " in done.stdout
    else:
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert done.stderr.startswith("habemus: ") and "SystemExit: " in done.stderr


BROKEN_METHODS = {
    "on_start raises": (
        "    def on_start(self) -> None:\n        self.queue[0]",
        "line 13, in on_start: IndexError: list index out of range",
    ),
    "on_start has a typo": (
        "    def on_start(self) -> None:\n        self.queu.append(1)",
        "line 13, in on_start: AttributeError: .* did you mean self.queue?",
    ),
    "a guard raises": (
        "    def is_full(self) -> bool:\n        return self.queu\n    @whenever(is_full)\n"
        "    def empty(self) -> None:\n        pass",
        "line 13, in is_full: AttributeError: .* did you mean self.queue?",
    ),
    "system raises": (
        "    @classmethod\n    def system(cls, size, **options):\n        return {}[size]",
        "line 14, in system: KeyError: 2",
    ),
    "system returns nothing": (
        "    @classmethod\n    def system(cls, size, **options):\n        pass",
        r"line 12, in system: it returns None; return System\(plans, topology, clients\)",
    ),
}
AT_THE_END = {
    "awaits raises": (
        "    def awaits(self):\n        return [1 // 0]",
        "line 13, in awaits: ZeroDivisionError",
    ),
    "awaits returns a number": (
        "    def awaits(self):\n        return 1",
        "line 12, in awaits: it returns 1; return the processes that it waits for",
    ),
    "awaits returns nothing": (
        "    def awaits(self):\n        return [None]",
        r"line 12, in awaits: it returns \[None\]; return the processes",
    ),
    "costs raises": (
        "    def costs(self, size):\n        return size / 0",
        "line 13, in costs: ZeroDivisionError",
    ),
    "costs returns a number": (
        "    def costs(self, size):\n        return 3",
        r"line 12, in costs: it returns 3; return MutexCosts\(",
    ),
}


def _with_method(method: str) -> str:
    text = MUTEX.format(body="self.granted()").replace("import Message", "import Message, whenever")
    return text + RELEASE.lstrip("\n") + method + "\n"


@pytest.mark.parametrize("case", [*BROKEN_METHODS, *AT_THE_END])
def test_a_mistake_in_another_method_is_one_line_in_a_run(write: Write, case: str) -> None:
    """Each was a traceback and exit code 1, which is that of a violation."""
    method, why = {**BROKEN_METHODS, **AT_THE_END}[case]
    path = write("mine.py", _with_method(method))
    with pytest.raises(MistakeInAlgorithm, match=f"^mine.py, {why}") as caught:
        execute(Setup(f"{path}:MyMutex", 2))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("case", BROKEN_METHODS)
def test_a_mistake_in_another_method_is_one_line_in_a_check(write: Write, case: str) -> None:
    method, why = BROKEN_METHODS[case]
    path = write("mine.py", _with_method(method))
    if case.startswith("system"):  # before the search
        with pytest.raises(MistakeInAlgorithm, match=f"^mine.py, {why}"):
            perform(Check(f"{path}:MyMutex", 2))
    else:
        assert re.match(f"mine.py, {why}", mistake("check", f"{path}:MyMutex"))


def test_a_wrong_awaits_is_one_line_in_the_story_of_a_deadlock(write: Write) -> None:
    text = _with_method("    def awaits(self):\n        return 1")
    path = write("mine.py", text.replace("self.granted()", "pass"))
    with pytest.raises(MistakeInAlgorithm, match=r"^mine.py, line 12, in awaits: it returns 1"):
        assert perform(Check(f"{path}:MyMutex", 2)).findings


@pytest.mark.parametrize("command", ["run", "sweep", "compare"])
def test_commands_end_with_a_usage_error_on_a_mistake(write: Write, command: str) -> None:
    write("mine.py", _with_method("    def on_start(self) -> None:\n        self.queue[0]"))
    words = [sys.executable, "-W", "error", "-m", "habemus", command, "mine.py:MyMutex", "-n", "2"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "mine.py, line 13, in on_start: IndexError" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("member", "why"),
    [
        ("assumes = 'reliable'", r"MyMutex.assumes = 'reliable': write assumes = Assumptions\("),
        ("def __init__(self): self.queue = []", "MyMutex.__init__: .* or set them in on_start"),
        ("@whenever\n    def empty(self): ...", "MyMutex.empty: @whenever takes the guard of the"),
        ("@whenever(True)\n    def empty(self): ...", r"@whenever\(True\): the guard of a rule is"),
        ("async def acquire(self): ...", "MyMutex.acquire is async, and would never run;"),
        ("async def acquire(self): yield", "MyMutex.acquire is async, and would never run;"),
        ("def release(self): yield", "MyMutex.release is a generator .* write a plain def"),
        ("def on_start(self): yield", "MyMutex.on_start is a generator"),
        (
            "def is_on(self): yield\n    @whenever(is_on)\n    def rule(self): ...",
            "MyMutex.is_on is",
        ),
        ("shows = ('zz',)", "MyMutex.shows names 'zz', which is not a variable; there are queue"),
        (
            "shows = 'queue'",
            r'MyMutex.shows = .*: write a tuple of names, as in shows = \("queue",\)',
        ),
        ("name = 5", "MyMutex.name = 5: the name of an algorithm is a string"),
        ("def system(self, size): ...", "MyMutex.system is called on the class: .*@classmethod"),
    ],
)
def test_a_member_of_the_wrong_kind_is_refused(write: Write, member: str, why: str) -> None:
    path = write("mine.py", _with_method(f"    {member}"))
    with pytest.raises(CannotLoad, match=why):
        find(f"{path}:MyMutex")
