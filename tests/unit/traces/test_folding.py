"""What repeats is folded; what an application asks for, and what is new, is shown."""

from __future__ import annotations

from typing import Any

import pytest

from habemus.argument_names import FLAGS
from habemus.core.events import Event
from habemus.traces import Trace
from habemus.traces.folding import folded
from habemus.traces.view import Selection, UnknownWord, View, select


class Cluster:
    """Writes the events of two processes that send each other heartbeats."""

    def __init__(self) -> None:
        self.events: list[Event] = [Event(0, 1, "start"), Event(0, 2, "start")]
        self._number = 0

    def beats(self, times: int, term: int = 1, **counter: int) -> Cluster:
        for _ in range(times):
            self.event("timer", "Beat")
            self.message("Heartbeat", term=term, **dict.fromkeys(counter, self._number))
        return self

    def message(self, name: str, arrives: Any = "receive", **fields: Any) -> Cluster:
        self._number += 1
        time = self.events[-1].time
        sent = Event(time, 1, "send", name, fields, 2, self._number)
        self.events += [
            sent,
            sent._replace(time=time + 1_000, process=2, kind=arrives, peer=1),
        ]
        return self

    def event(self, kind: str, name: str = "", process: int = 1) -> Cluster:
        self.events.append(Event(self.events[-1].time + 10_000, process, kind, name))
        return self

    def views(self) -> list[View]:
        return list(folded(select(Trace({}, (1, 2), {}, tuple(self.events)))))


def labels(view: View) -> list[str]:
    """The messages that are shown, as they are labelled."""
    return [
        view.described(index, event).replace("\N{MULTIPLICATION SIGN}", "x")
        for index, event in enumerate(view.trace.events)
        if index in view.shown and event.kind in ("receive", "lost", "timer")
    ]


def test_heartbeats_fold_and_keep_their_term() -> None:
    view = Cluster().beats(14).views()[0]
    assert labels(view) == ["Beat x14", "Heartbeat(1) x14"]
    assert view.folded_events == 3 * 13


def test_two_are_shown_unless_room_is_short() -> None:
    first, second, *_ = Cluster().beats(2).views()
    assert labels(first) == ["Beat", "Heartbeat(1)"] * 2
    assert labels(second) == ["Beat x2", "Heartbeat(1) x2"]


def test_another_term_is_no_repetition() -> None:
    for view in Cluster().beats(14).beats(20, term=2).views():
        assert labels(view) == ["Beat x34", "Heartbeat(1) x14", "Heartbeat(2) x20"]


def test_a_term_is_no_counter() -> None:
    cluster = Cluster()
    for term in (1, 2, 3):
        cluster.beats(1, term=term)
    assert labels(cluster.views()[-1]) == [
        *("Beat x3", "Heartbeat(1)", "Heartbeat(2)", "Heartbeat(3)")
    ]


def test_a_counter_is_folded_and_not_shown_as_if_it_were_the_same() -> None:
    view = Cluster().beats(14, number=0).views()[0]
    assert labels(view) == ["Beat x14", "Heartbeat(term=1, number=…) x14"]


def test_after_news_each_sort_is_shown_again() -> None:
    cluster = Cluster().beats(5).event("crash", process=2)
    for _ in range(6):
        cluster.event("timer", "Beat").message("Heartbeat", "lost", term=1)
    *_, news_of_faults, last = cluster.views()
    assert labels(news_of_faults) == [
        *("Beat x5", "Heartbeat(1) x5"),
        *("Beat x6", "Heartbeat(1) x6"),
    ]
    assert labels(last) == ["Beat x11", "Heartbeat(1) x5", "Heartbeat(1) x6"]  # these are lost


def test_what_an_application_asks_for_is_never_folded() -> None:
    cluster = Cluster()
    for _ in range(9):
        cluster.event("request", "acquire").message("Request", stamp=1)
    for view in cluster.views():
        assert labels(view) == ["Request(1)"] * 9


def test_a_message_is_sent_again_by_a_timer() -> None:
    """The repetitions of a request by a timer fold into it, those of another one do not."""
    cluster = Cluster()
    for stamp in (1, 2):
        cluster.event("request", "acquire").message("Request", stamp=stamp)
        for _ in range(4):
            cluster.event("timer", "Retry").message("Request", stamp=stamp)
    assert labels(cluster.views()[-1]) == ["Request(1) x5", "Retry x8", "Request(2) x5"]


def test_a_step_with_an_indication_is_shown() -> None:
    cluster = Cluster().beats(5)
    cluster.event("timer", "Beat").events.append(
        Event(cluster.events[-1].time, 1, "indicate", "Leader")
    )
    assert labels(cluster.views()[-1]) == ["Beat x5", "Heartbeat(1) x5", "Beat"]


# Selections.


def test_hide_and_only_take_names_kinds_components_and_processes() -> None:
    trace = Trace({}, (1, 2), {2: "two"}, tuple(Cluster().beats(2).event("crash").events))

    def kinds(hide: tuple[str, ...] = (), only: tuple[str, ...] = ()) -> list[str]:
        view = select(trace, Selection(hide=hide, only=only))
        return [trace.events[index].kind for index in sorted(view.shown)]

    assert kinds(hide=("Heartbeat",)) == ["start", "start", "timer", "timer", "crash"]
    assert kinds(hide=("timer", "receive", "send")) == ["start", "start", "crash"]
    assert kinds(only=("Beat",)) == kinds(hide=("Heartbeat",))
    assert kinds(hide=("two",)) == ["start", "timer", "timer", "crash"]
    assert select(trace, Selection(only=("1",))).processes == (1,)
    with pytest.raises(UnknownWord, match=r"^hide Hartbeat: .* did you mean Heartbeat"):
        select(trace, Selection(hide=("Hartbeat",)))
    with FLAGS, pytest.raises(UnknownWord, match=r"^--hide Hartbeat: "):
        select(trace, Selection(hide=("Hartbeat",)))
