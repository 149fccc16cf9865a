"""The space-time diagram: everything is in it, nothing covers anything, and no text can break out
of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest

from habemus.argument_names import FLAGS
from habemus.core.events import Event
from habemus.core.properties import Finding, Verdict
from habemus.runs.setup import Setup
from habemus.runs.simulate import execute
from habemus.traces import Trace
from habemus.traces.diagram import drawing, ink, svg
from habemus.traces.diagram.lettering import clipped, variants, width, wrapped
from habemus.traces.flights import flights
from habemus.traces.view import Selection, View
from habemus.traces.words import ENGLISH

SVG = "{http://www.w3.org/2000/svg}"


def drawn(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture.encode())


def words_in(picture: str) -> list[str]:
    return ["".join(each.itertext()) for each in drawn(picture).iter(f"{SVG}text")]


def tooltips(picture: str) -> list[str]:
    return [each.text or "" for each in drawn(picture).iter(f"{SVG}title")]


def with_fill(picture: str, tag: str, colour: str) -> list[ElementTree.Element]:
    return [each for each in drawn(picture).iter(f"{SVG}{tag}") if each.get("fill") == colour]


class Lettering(NamedTuple):
    """A text and the rectangle in which it stands."""

    text: str
    x: float
    y: float
    half_width: float
    half_height: float
    angle: float

    def points(self) -> Iterator[tuple[float, float]]:
        across, down = math.cos(self.angle), math.sin(self.angle)
        for step in range(-10, 11):
            for other in (-1, 0, 1):
                u, v = self.half_width * step / 10, self.half_height * other
                yield self.x + u * across - v * down, self.y + u * down + v * across

    def holds(self, x: float, y: float) -> bool:
        across, down = math.cos(self.angle), math.sin(self.angle)
        u = (x - self.x) * across + (y - self.y) * down
        v = (y - self.y) * across - (x - self.x) * down
        return abs(u) < self.half_width and abs(v) < self.half_height


def letterings(picture: str) -> list[Lettering]:
    """All texts of the drawing below the head, with the places that they take."""
    root = drawn(picture)
    group = root.find(f"{SVG}g")
    assert group is not None
    shift = float(re.findall(r"[-0-9.]+", group.get("transform", ""))[1])
    found = []
    for each in group.iter(f"{SVG}text"):
        size = float(each.get("font-size", "11"))
        turn = re.findall(r"[-0-9.]+", each.get("transform", "0"))[0]
        angle = math.radians(float(turn))
        text = "".join(each.itertext())
        half = width(text, size) / 2
        x, y = float(each.get("x", "")), float(each.get("y", ""))
        along = {"middle": 0.0, "end": -half}.get(each.get("text-anchor", ""), half)
        rise = size * 0.35
        found.append(
            Lettering(
                text,
                x + along * math.cos(angle) + rise * math.sin(angle),
                shift + y + along * math.sin(angle) - rise * math.cos(angle),
                half * 0.95,
                size * 0.36,
                angle,
            )
        )
    return found


# Soundness of the text.


def test_the_picture_is_well_formed_and_says_what_it_is(story: Trace) -> None:
    root = drawn(svg(story))
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert root[0].tag == f"{SVG}title"
    assert root[0].text == story.title
    assert root[1].tag == f"{SVG}desc"
    assert f"{len(story.events)} events" in (root[1].text or "")


def test_the_same_trace_gives_the_same_picture(story: Trace) -> None:
    assert svg(story) == svg(replace(story))


def test_pictures_can_share_a_page(story: Trace) -> None:
    """A picture has no ids, styles or links, so it refers neither to another one nor to the net."""
    picture = svg(story)
    assert not re.search(r"\s(id|class|href|style)=", picture)
    assert "<style" not in picture
    assert "<script" not in picture


HOSTILE = "</text><script>alert(1)</script>\"'&<!--\x00\ud800\n]]>"


def test_no_text_breaks_out() -> None:
    events = (
        Event(0, 1, "start"),
        Event(1, 1, "send", HOSTILE, {HOSTILE: HOSTILE}, 2, 1, HOSTILE),
        Event(2, 2, "receive", HOSTILE, {HOSTILE: HOSTILE}, 1, 1, HOSTILE),
        Event(3, 2, "indicate", HOSTILE, {"x": HOSTILE}),
        Event(3, 1, "timer", HOSTILE, {"x": HOSTILE}),
    )
    findings = (
        Finding(HOSTILE, Verdict.VIOLATED, HOSTILE, 3, (1, 2)),
        Finding(HOSTILE, Verdict.HOLDS, HOSTILE),
    )
    picture = svg(Trace({}, (1, 2), {1: HOSTILE, 2: HOSTILE}, events, findings, HOSTILE))
    assert not list(drawn(picture).iter(f"{SVG}script"))
    picture.encode()


@pytest.mark.parametrize("processes", [(), (1,), (1, 2)])
def test_a_trace_without_events_can_be_drawn(processes: tuple[int, ...]) -> None:
    assert "A run" in words_in(svg(Trace({}, processes, {}, ())))


def height(picture: str) -> float:
    return float(drawn(picture).get("height", ""))


def talkative(entries: int, violated_at: int | None = None) -> Trace:
    """Two processes that ask and answer, on behalf of their applications, so often."""
    events = []
    for number in range(entries):
        time = number * 1_000
        events += [
            Event(time, 1, "request", "ask"),
            Event(time, 1, "send", "Question", {"number": number}, 2, number),
            Event(time + 500, 2, "receive", "Question", {"number": number}, 1, number),
        ]
    findings: tuple[Finding, ...] = ()
    if violated_at is not None:
        findings = (Finding("E1", Verdict.VIOLATED, "wrong", violated_at * 1_000 + 500, (2,)),)
    return Trace({}, (1, 2), {}, tuple(events), findings)


def test_a_picture_of_more_events_than_fit_says_so() -> None:
    picture = svg(talkative(4_000))
    assert height(picture) <= 2_000
    words = " ".join(words_in(picture))
    assert "of 12,000 events shown" in words and "choose others" not in words
    assert re.search(r"[\d,]+ events left out, from [\d.]+ ms to [\d.]+ ms", words)
    assert "Question(0)" in words  # the beginning
    assert "Question(3999)" in words  # and the end
    with FLAGS:
        words = " ".join(words_in(svg(talkative(4_000))))
    assert "of 12,000 events shown; choose others with --from, --to, --hide, --only" in words


def test_the_window_is_around_the_violation() -> None:
    picture = svg(talkative(4_000, violated_at=2_000))
    assert height(picture) <= 2_000
    words = words_in(picture)
    assert {"Question(0)", "Question(1999)", "Question(2000)", "Question(2001)"} <= set(words)
    assert "E1" in words
    assert "Question(3999)" not in words
    assert sum("events left out" in each for each in words) == 2


def test_a_window_is_drawn_as_asked() -> None:
    words = words_in(svg(talkative(4_000), selection=Selection(begin=9_000, end=10_500)))
    assert "Question(9)" in words and "Question(10)" in words
    assert "Question(8)" not in words and "Question(11)" not in words
    assert "6 of 12,000 events shown" in words


# What is in it.


def test_every_process_is_named_above_and_below(story: Trace) -> None:
    words = words_in(svg(story))
    for process in story.processes:
        assert words.count(story.label(process)) >= 2


def test_every_message_is_an_arrow_that_can_be_pointed_at(story: Trace) -> None:
    told = tooltips(svg(story))
    for flight in flights(story.events):
        event = story.events[flight.sent or 0]
        beginning = (
            f"{event.described()} from {story.label(flight.sender)} to"
            f" {story.label(flight.receiver)}"
        )
        assert any(each.startswith(beginning) for each in told)
    arrows = sum(1 for each in told if " from " in each and ", sent at " in each)
    assert arrows == len(flights(story.events))


def test_in_small_pictures_every_message_has_its_label(stories: dict[str, Trace]) -> None:
    for name in ("contention", "violation", "links", "faults", "election", "simulated"):
        words = words_in(svg(stories[name]))
        for flight in flights(stories[name].events):
            event = stories[name].events[flight.sent or 0]
            expected = variants(event.described(), event.name)
            assert any(form in words for form in expected), (name, event.described())


def test_most_labels_are_whole(simulated: Callable[..., Trace]) -> None:
    trace = simulated(4, 2)
    words = words_in(svg(trace))
    sent = [event.described() for event in trace.events if event.kind == "send"]
    assert sum(words.count(each) for each in set(sent)) >= 0.9 * len(sent)


def covering(picture: str) -> list[tuple[str, str]]:
    """Pairs of texts of which one covers the other."""
    found = sorted(letterings(picture), key=lambda each: each.y)
    pairs = []
    for index, one in enumerate(found):
        for other in found[index + 1 :]:
            if other.y - one.y > one.half_width + other.half_width + 20:
                break
            if abs(other.x - one.x) <= one.half_width + other.half_width and any(
                other.holds(x, y) for x, y in one.points()
            ):
                pairs.append((one.text, other.text))
    return pairs


def test_labels_do_not_cover_each_other(story: Trace) -> None:
    assert covering(svg(story)) == []


def test_labels_do_not_cover_each_other_in_dense_pictures(simulated: Callable[..., Trace]) -> None:
    for trace in (simulated(5, 2), simulated(7, 1, constant=True)):
        assert covering(svg(trace)) == []


def test_nothing_is_cut_off_at_the_borders(story: Trace) -> None:
    for wanted in (None, 480, 1_400):
        picture = svg(story, width=wanted)
        _, _, right, bottom = (float(each) for each in drawn(picture).get("viewBox", "").split())
        for lettering in letterings(picture):
            for x, y in lettering.points():
                assert 0 <= x <= right, lettering.text
                assert 0 <= y <= bottom, lettering.text
        for each in drawn(picture).iter(f"{SVG}text"):
            if each.get("text-anchor") is None and each.get("transform") is None:
                size = float(each.get("font-size", "11"))
                assert float(each.get("x", "")) + width("".join(each.itertext()), size) <= right


def test_the_width_is_what_was_asked_for(stories: dict[str, Trace]) -> None:
    assert drawn(svg(stories["contention"], width=900)).get("width") == "900"
    wide = drawn(svg(Trace({}, tuple(range(40)), {}, ()), width=300))
    assert float(wide.get("width", "")) > 1_500  # forty processes need room, whatever was asked for


def test_bars_show_who_waits_and_who_is_inside(stories: dict[str, Trace]) -> None:
    picture = svg(stories["contention"])
    legend = 1
    assert len(with_fill(picture, "rect", ink.INSIDE)) == 3 + legend
    assert len(with_fill(picture, "rect", ink.WAITING)) == 3 + legend
    assert {"1", "2", "3"} <= set(words_in(picture))
    assert "A is inside from 3 ms to 5 ms" in tooltips(picture)
    assert "C waits from 2.5 ms to 10 ms" in tooltips(picture)


def test_red_is_for_violations_only(stories: dict[str, Trace]) -> None:
    assert ink.VIOLATION not in svg(stories["contention"])
    assert ink.VIOLATION_TINT not in svg(stories["contention"])
    picture = svg(stories["violation"])
    words = words_in(picture)
    assert "ME1" in words
    head = " ".join(words[:4])
    assert "ME1 violated at 12.5 ms: coordinator <1> let B in while A was still inside" in head
    red = " ".join("".join(each.itertext()) for each in with_fill(picture, "text", ink.VIOLATION))
    assert "ME1" in red
    assert "ME2-deadlock" not in red


def test_one_alone_inside_is_no_band() -> None:
    events = (
        Event(0, 1, "indicate", "Granted"),
        Event(1_000, 2, "request", "acquire"),
        Event(2_000, 1, "request", "release"),
    )
    finding = Finding("FENCE", Verdict.VIOLATED, "an old write was accepted", 1_000, (1,))
    picture = svg(Trace({}, (1, 2), {}, events, (finding,)))
    assert "FENCE" in words_in(picture)
    assert [each.get("r") for each in with_fill(picture, "circle", ink.VIOLATION_TINT)] == ["10"]
    legend, head = 1, 1
    assert len(with_fill(picture, "rect", ink.VIOLATION_TINT)) == legend + head


def test_the_red_band_covers_the_overlap_of_the_two_inside(stories: dict[str, Trace]) -> None:
    """From the entry of the second to the exit of the first, and from one line to the other."""
    picture = svg(stories["violation"])
    inside = [
        each
        for each in with_fill(picture, "rect", ink.INSIDE)
        if float(each.get("height", "")) > 20
    ]
    first, second = (
        (
            float(each.get("x", "")),
            float(each.get("y", "")),
            float(each.get("y", "")) + float(each.get("height", "")),
        )
        for each in inside
    )
    group = drawn(picture).find(f"{SVG}g")
    assert group is not None
    [band] = [each for each in group.iter(f"{SVG}rect") if each.get("fill") == ink.VIOLATION_TINT]
    top = float(band.get("y", ""))
    assert top == pytest.approx(second[1], abs=0.2)
    assert top + float(band.get("height", "")) == pytest.approx(first[2], abs=0.2)
    left, right = sorted((first[0], second[0]))
    assert float(band.get("x", "")) < left
    assert float(band.get("x", "")) + float(band.get("width", "")) > right


@pytest.mark.parametrize(
    ("finding", "tags"),
    [
        (Finding("ME2-deadlock", Verdict.VIOLATED, "both wait", 2_000, (1, 2)), 2),
        (Finding("E1", Verdict.VIOLATED, "two lead", 3_000, (1, 2)), 1),
        (Finding("E2", Verdict.VIOLATED, "nobody leads", 3_000), 1),
        (Finding("E2", Verdict.VIOLATED, "nobody leads"), 0),
        (Finding("E2", Verdict.UNDECIDED, "nobody leads yet", 3_000, (1,)), 0),
    ],
)
def test_other_violations_are_marked_too(finding: Finding, tags: int) -> None:
    events = (
        *(
            Event(0, 1, "start"),
            Event(0, 2, "start"),
            Event(1_000, 1, "request", "acquire"),
            Event(2_000, 2, "request", "acquire"),
        ),
        *(Event(2_500, 1, "crash"), Event(3_000, 2, "indicate", "Leader", {"process": 2})),
    )
    words = words_in(svg(Trace({}, (1, 2), {}, events, (finding,))))
    assert words.count(finding.name) == tags


def test_faults_are_marked(stories: dict[str, Trace]) -> None:
    words = words_in(svg(stories["faults"]))
    assert words.count("crash") == 2
    assert {"back, amnesia", "paused", "cut 1 2 | 3 4 5", "mended 1-3", "cut 4>5"} <= set(words)
    assert {"crashed", "lost", "the network changes", "a wait, shortened"} <= set(words)


def test_losses_and_copies_are_marked(stories: dict[str, Trace]) -> None:
    told = tooltips(svg(stories["links"]))
    assert sum(each.endswith(", lost") for each in told) == 1
    assert sum("second copy" in each for each in told) == 1
    assert sum("under way at the end" in each for each in told) == 1


def test_answers_of_an_election_are_marked(stories: dict[str, Trace]) -> None:
    words = words_in(svg(stories["election"]))
    assert words.count("Leader(3)") == 3
    assert {"Leader(4)", "Suspected(4)", "Answer", "elect", "E1"} <= set(words)


def test_the_legend_explains_what_is_there_and_nothing_else(stories: dict[str, Trace]) -> None:
    words = set(words_in(svg(stories["contention"])))
    assert {"waiting to enter", "Request", "Grant", "Release"} <= words
    assert not words & {
        ENGLISH["legend lost"],
        ENGLISH["legend violation"],
        ENGLISH["legend timer"],
        ENGLISH["legend down"],
    }


def test_whoever_points_at_a_step_reads_all_of_it(stories: dict[str, Trace]) -> None:
    told = tooltips(svg(stories["simulated"]))
    assert (
        "1, 1.343 ms\nasks to enter\nsends Request(1) to 2\nsends Request(1) to 3\nvector clock [4,"
        " 0, 0]" in told
    )


def test_messages_of_components_step_back(stories: dict[str, Trace]) -> None:
    """They are drawn in a muted colour, unless the algorithm on top sends nothing itself."""
    trace = stories["links"]
    assert ink.COMPONENT not in svg(trace)
    on_top = replace(
        trace,
        events=tuple(
            event._replace(part="") if event.name == "Ack" else event for event in trace.events
        ),
    )
    assert ink.COMPONENT in svg(on_top)


def test_a_clock_that_had_long_been_running_is_set_to_zero(stories: dict[str, Trace]) -> None:
    trace = stories["violation"]
    late = 1_700_000_000_000_000
    events = tuple(event._replace(time=event.time + late) for event in trace.events)
    findings = tuple(
        each._replace(time=each.time + late) if each.time is not None else each
        for each in trace.findings
    )
    assert svg(replace(trace, events=events, findings=findings)) == svg(trace)


# Lettering.


def test_text_is_clipped_and_wrapped_to_its_room() -> None:
    text = "the quick brown fox jumps over the lazy dog " * 5
    for room in (40, 90, 200):
        assert width(clipped(text, 11, room), 11) <= room
        lines = wrapped(text, 11, room, most=4)
        assert len(lines) <= 4
        assert all(width(line, 11) <= room for line in lines)
    assert wrapped("a b", 11, 500) == ["a b"]
    assert wrapped("", 11, 500) == []
    assert clipped("short", 11, 500) == "short"


def test_messages_are_shortened_from_the_inside() -> None:
    assert variants("Data(3, Request(6))", "Data") == [
        "Data(3, Request(6))",
        "Data(3, Request)",
        "Data",
    ]
    assert variants("Ack", "Ack") == ["Ack"]
    assert variants("Data(1, A(B(2)), [C(3)])", "Data") == [
        "Data(1, A(B(2)), [C(3)])",
        "Data(1, A, [C])",
        "Data",
    ]


def test_views_that_are_too_tall_are_not_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels and columns of a long run would be measured for nothing, again for each folding."""
    trace = execute(Setup("ricart-agrawala", 8, requests=8)).trace
    assert trace is not None
    laid_out = []
    lay_out = drawing._sheet

    def counted(view: View, *rest: Any) -> Any:
        laid_out.append(bool(view.left_out))
        return lay_out(view, *rest)

    monkeypatch.setattr(drawing, "_sheet", counted)
    assert svg(trace)
    assert laid_out and all(laid_out), "only views that leave events out"
