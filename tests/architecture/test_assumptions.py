"""The sentence `Assumes` in the card of every algorithm says what the class declares.

Only the declared data decides which faults are injected. The phrases below are the vocabulary of
the sentences; a sentence in other words needs a phrase here.
"""

from __future__ import annotations

import re

import pytest

from habemus.catalog.entries import entries, find
from habemus.core.assumptions import Assumptions, Crashes, Links, Timing

CRASHES: tuple[tuple[str, Crashes], ...] = (
    (r"no process crashes", Crashes.NONE),
    (r"neither waiting nor inside may crash, while more than half are up", Crashes.IDLE),
    (r"neither the coordinator nor a process that waits or is inside crashes", Crashes.IDLE),
    (r"neither the coordinator nor the process inside crashes", Crashes.OUTSIDE),
    (r"a process that crashes recovers with its stable memory", Crashes.RECOVER),
    (r"any number may crash.* recover with their stable memory", Crashes.ANY),
    (r"more than half of the weight stays up", Crashes.MINORITY),
    (r"more than half of the members of the newest configuration stay up", Crashes.MINORITY),
    (r"stable memory; (?:me1|fence) needs nothing else", Crashes.RECOVER),
    (r"but not recover in the middle of an election", Crashes.BETWEEN_ELECTIONS),
    (r"crashes; a process that recovers may lead again", Crashes.STOP),
    (r"at least one process stays up from some moment on", Crashes.ANY),
    (r"crashes, and recoveries with stable memory", Crashes.ANY),
    (r"(?:^|[.;] )crashes\.$", Crashes.STOP),
)
BOUNDED = ("a bound", "a synchronous system")
BOUNDED_IN_THE_END = (
    "partial synchrony",
    "settles in the end",
    "heartbeats arrive within",
    "delays that differ, from some moment on,",
)


def words_of(name: str) -> str:
    """Return the sentence of a card, with a reference to another card replaced by its sentence."""
    words = " ".join(find(name).box.sections["Assumes"].split())
    return re.sub(r"as `([\w-]+)`", lambda other: words_of(other[1]), words)


def read(words: str) -> Assumptions:
    """Return what a sentence says, as data."""
    lowered = words.lower()
    first = re.split(r"(?<=\.)\s", lowered, maxsplit=1)[0]
    links = Links.MOSTLY_RELIABLE
    if "reliable links" in lowered:
        links = Links.RELIABLE
    elif "fair-loss links" in lowered:
        links = Links.FAIR_LOSS
    timing = Timing.ASYNCHRONOUS
    if any(each in first for each in BOUNDED):
        timing = Timing.SYNCHRONOUS
    elif any(each in lowered for each in BOUNDED_IN_THE_END):
        timing = Timing.PARTIALLY_SYNCHRONOUS
    return Assumptions(
        links=links,
        fifo="keep the order" in lowered,
        copies="copies do no harm" in lowered,
        crashes=next((each for told, each in CRASHES if re.search(told, lowered)), Crashes.NONE),
        timing=timing,
        stable_memory="stable memory" in lowered,
        always=tuple(re.findall(r"(\w+) needs nothing else", words)),
        holds_without_pauses=tuple(
            name
            for names in re.findall(
                r"([\w ]+), which (?:is|are) not claimed, also holds? "
                r"as long as no process is paused",
                words,
            )
            for name in names.strip().split(" and ")
        ),
    )


@pytest.mark.parametrize("name", entries())
def test_the_sentence_says_what_the_class_declares(name: str) -> None:
    declared, told = find(name).assumes, read(words_of(name))
    for field in ("links", "fifo", "copies", "crashes", "timing", "always", "holds_without_pauses"):
        assert getattr(told, field) == getattr(declared, field), (field, words_of(name))
    # Without crashes, the sentence has no reason to speak of what survives them.
    assert told.stable_memory == declared.stable_memory or declared.crashes is Crashes.NONE


@pytest.mark.parametrize("name", entries())
def test_stable_memory_is_assumed_by_algorithms_with_durable_variables(name: str) -> None:
    variables = find(name).algorithm.__variables__.values()
    assert find(name).assumes.stable_memory == any(each.kind == "durable" for each in variables)


@pytest.mark.parametrize("name", entries())
def test_a_sentence_that_speaks_of_crashes_is_understood(name: str) -> None:
    words = words_of(name).lower()
    assert "crash" not in words or any(re.search(told, words) for told, _ in CRASHES)


@pytest.mark.parametrize(
    ("words", "assumptions"),
    [
        ("reliable links, in any order; no process crashes.", Assumptions()),
        ("reliable links that keep the order; no process crashes.", Assumptions(fifo=True)),
        (
            "reliable links; a bound on the time inside.",
            Assumptions(timing=Timing.SYNCHRONOUS),
        ),
        (
            "reliable links; partial synchrony. Crashes.",
            Assumptions(crashes=Crashes.STOP, timing=Timing.PARTIALLY_SYNCHRONOUS),
        ),
        (
            "reliable links, copies do no harm; a process that crashes recovers with its stable"
            " memory.",
            Assumptions(copies=True, crashes=Crashes.RECOVER, stable_memory=True),
        ),
        ("fair-loss links; no process crashes.", Assumptions(links=Links.FAIR_LOSS)),
    ],
)
def test_phrases(words: str, assumptions: Assumptions) -> None:
    assert read(words) == assumptions


def test_what_follows_from_declared_assumptions() -> None:
    fair, plain = Assumptions(links=Links.FAIR_LOSS), Assumptions()
    assert fair.tolerates_loss and fair.tolerates_copies and fair.tolerates_delays
    assert not plain.tolerates_loss and not plain.tolerates_copies
    assert Assumptions(copies=True).tolerates_copies
    assert not Assumptions(timing=Timing.PARTIALLY_SYNCHRONOUS).tolerates_delays
    assert Assumptions(crashes=Crashes.RECOVER, stable_memory=True).tolerates_restarts
    assert not Assumptions(stable_memory=True).tolerates_restarts
    assert not Assumptions(crashes=Crashes.STOP).tolerates_restarts
