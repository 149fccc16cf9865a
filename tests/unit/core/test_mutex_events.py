"""Which events are requests, entries and exits."""

from typing import get_args

import pytest

from habemus.catalog.entries import entries
from habemus.core.events import Event
from habemus.core.mutex_events import CHANGES, MutexChange, mutex_change
from habemus.problems.mutex import Granted, Mutex


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        ("request", "acquire", "request"),
        ("indicate", Granted.__name__, "entry"),
        ("request", "release", "exit"),
        ("request", "break_off", "break_off"),
        ("request", "elect", None),
        ("receive", "Granted", None),
        ("recover", "", None),
        ("crash", "", "crash"),
    ],
)
def test_the_meaning_of_an_event(kind: str, name: str, change: MutexChange | None) -> None:
    assert mutex_change(Event(0, 1, kind, name)) == change
    assert mutex_change(Event(0, 1, kind, name, part=".lock")) is None


def test_every_indication_of_a_mutex_has_a_meaning() -> None:
    indications = {
        each.__name__
        for entry in entries().values()
        if issubclass(entry.algorithm, Mutex)
        for each in entry.algorithm.indications
    }
    assert {"Granted", "LockLost"} <= indications
    assert indications == {name for kind, name in CHANGES if kind == "indicate"}


def test_every_meaning_has_an_event() -> None:
    assert sorted(CHANGES.values()) == sorted(get_args(MutexChange))
