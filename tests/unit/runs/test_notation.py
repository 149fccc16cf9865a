"""The notation of runs: what is written is what is meant, and what cannot be meant gets one clear
line.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from habemus.problems.mutex import Ask
from habemus.runs import notation
from habemus.runs.notation import BadNotation
from habemus.runs.setup import FAULT_FLAGS, BadSetup, Setup
from habemus.runtimes.sim.faults import (
    Crash,
    Cut,
    Heal,
    Nth,
    Pause,
    Recover,
    Replace,
    Skew,
    Slow,
    between,
)
from habemus.runtimes.sim.network import Exponential, HeavyTail, Uniform


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("5", 5), ("5us", 5), ("5ms", 5_000), ("2s", 2_000_000), ("1.5ms", 1_500), ("0", 0)],
)
def test_times(text: str, microseconds: int) -> None:
    assert notation.time(text) == microseconds


def test_delays() -> None:
    assert notation.delay("1ms") == Uniform(1_000, 1_000)
    assert notation.delay("500..1500") == Uniform(500, 1_500)
    assert notation.delay("exp:2ms") == Exponential(2_000)
    assert notation.delay("heavy:1ms") == HeavyTail(1_000)


def test_chances_are_millionths() -> None:
    assert [notation.chance(text) for text in ("0", "0.3", "30%", "1", "0.000001")] == [
        0,
        300_000,
        300_000,
        1_000_000,
        1,
    ]


def test_faults() -> None:
    faults = notation.FAULT_PARSERS
    assert faults["crash"]("2@5ms") == Crash(2, 5_000)
    assert faults["crash"]("2@send#3") == Crash(2, Nth("send", 3))
    assert faults["crash"]("2@1.Granted#2") == Crash(2, Nth("Granted", 2, 1))
    assert faults["recover"]("2@9ms") == Recover(2, 9_000)
    assert faults["amnesia"]("2@9ms") == Recover(2, 9_000, amnesia=True)
    assert faults["replace"]("2@9ms") == Replace(2, 9_000)
    assert faults["pause"]("2@5ms+20ms") == Pause(2, 5_000, 20_000)
    assert faults["cut"]("1-2@5") == Cut(((1, 2), (2, 1)), 5)
    assert faults["cut"]("1>2@5") == Cut(((1, 2),), 5)
    assert faults["cut"]("1,2|3@5") == Cut(between((1, 2), (3,)), 5)
    assert faults["heal"]("all@9") == Heal((), 9)
    assert faults["slow"]("1>2@0=9ms") == Slow(((1, 2),), 0, Uniform(9_000, 9_000))
    assert faults["skew"]("3=-50000") == Skew(3, -50_000)


def test_asks_and_initial_values() -> None:
    assert notation.ask("1@2ms+3ms") == Ask(1, 2_000, 3_000)
    assert notation.ask("1@2ms") == Ask(1, 2_000)
    assert notation.initial("1.clock=5") == (1, "clock", 5)
    assert notation.option("notices") == ("notices", True)
    assert notation.option("timeout=5ms") == ("timeout", 5_000)
    assert notation.option("timeout=5ms..9ms") == ("timeout", (5_000, 9_000))


WRONG = [
    (notation.time, "soon"),
    (notation.time, "1.5us"),
    (notation.time, "99999999999999999s"),
    (notation.span, "9..5"),
    (notation.delay, "0"),
    (notation.delay, "wild:1ms"),
    (notation.chance, "1.5"),
    (notation.chance, "often"),
    (notation.chance, "nan"),
    (notation.when, "send#0"),
    (notation.crash, "2"),
    (notation.crash, "two@5"),
    (notation.pause, "2@5ms"),
    (notation.cut, "12@5"),
    (notation.cut, "1-@5"),
    (notation.slow, "1>2@5"),
    (notation.skew, "1=fast"),
    (notation.skew, "1=99999999"),
    (notation.ask, "1"),
    (notation.initial, "clock=5"),
    (notation.initial, "1.clock=five"),
    (notation.label, "1="),
]


@pytest.mark.parametrize(("read", "text"), WRONG)
def test_what_cannot_be_meant_is_refused_in_one_line(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(BadNotation) as refused:
        read(text)
    assert "\n" not in str(refused.value)


@given(st.text(max_size=20))
def test_no_text_breaks_a_reader(text: str) -> None:
    readers = [
        notation.time,
        notation.span,
        notation.delay,
        notation.chance,
        notation.when,
        notation.ask,
        notation.initial,
        notation.label,
    ]
    for read in [*readers, *notation.FAULT_PARSERS.values()]:
        try:
            read(text)
        except BadNotation as refused:
            assert "\n" not in str(refused) or "\n" in text


def test_setup_survives_json() -> None:
    setup = Setup(
        "central",
        4,
        seed=7,
        options=("acknowledged",),
        asks=("1@1ms",),
        faults=(("crash", "2@5ms"), ("pause", "1@2ms+3ms")),
        loss="0.1",
    )
    assert Setup.from_plain(json.loads(json.dumps(setup.plain()))) == setup
    assert (
        setup.command()
        == "habemus run central -n 4 --seed 7 --option acknowledged --ask 1@1ms --loss 0.1 --crash"
        " 2@5ms --pause 1@2ms+3ms"
    )


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"algorithm": "central"},
        {"algorithm": 5, "n": 3},
        {"algorithm": "central", "n": "3"},
        {"algorithm": "central", "n": True},
        {"algorithm": "central", "n": 3, "colour": "red"},
        {"algorithm": "central", "n": 3, "faults": ["crash"]},
        {"algorithm": "central", "n": 3, "faults": [["crash", 2]]},
        {"algorithm": "central", "n": 3, "asks": [1]},
        {"algorithm": "central", "n": 3, "options": "all"},
    ],
)
def test_a_description_that_is_none_is_refused(plain: dict[str, object]) -> None:
    with pytest.raises(BadSetup):
        Setup.from_plain(plain)


def test_every_fault_has_a_place_in_the_order() -> None:
    assert tuple(notation.FAULT_PARSERS) == FAULT_FLAGS
    shuffled = Setup("central", 2, faults=(("recover", "1@2"), ("crash", "1@1"), ("crash", "1@3")))
    assert shuffled.faults == (("crash", "1@1"), ("crash", "1@3"), ("recover", "1@2"))
