"""The page of the lab in a real browser, as a user sees it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.lab.conftest import LabPage, until

pytestmark = pytest.mark.browser
NewPage = Callable[..., LabPage]


def test_the_dialog_opens_a_run_and_a_scenario(lab: LabPage) -> None:
    page = lab.page
    page.get_by_role("dialog").get_by_label("Run", exact=True).fill("central -n 2 --seed 3")
    page.keyboard.press("Enter")
    until(lambda: lab.js("lab.branch?.processes.length") == 3, "the run is open")
    assert page.locator("#title").inner_text() == "central, 2 participants"
    page.click("#open")
    page.get_by_role("searchbox").fill("slow second")
    page.get_by_role("dialog").get_by_role("button", name="central-holder-slow").click()
    until(lambda: lab.js("lab.branch.length") == 35, "the scenario is open")
    page.click("#open")
    page.get_by_role("dialog").get_by_label("Run", exact=True).fill("ricart-agrawla -n 3")
    page.keyboard.press("Enter")
    until(lambda: "ricart-agrawala" in lab.notice, "one line says what is wrong")
    assert lab.js("lab.branch.length") == 35


@pytest.mark.parametrize("width", [1280, 400])
def test_a_run_is_drawn_and_stepped(new_page: NewPage, width: int) -> None:
    lab = new_page(width)
    lab.open(run="ricart-agrawala -n 3")
    lab.idle()
    assert inked(lab, "canvas") > 1000
    assert inked(lab, "overview") > 50
    assert lab.js("lab.diagram.vertical") is (width == 400)
    assert lab.js("document.documentElement.scrollWidth <= innerWidth"), "no scrolling sideways"
    assert lab.cursor == 0, "a run without a violation is opened at its first event"
    lab.press("End")
    assert lab.cursor == 35
    lab.press("Home", "ArrowRight", "ArrowRight")
    first = lab.cursor
    lab.press("ArrowRight")
    assert lab.cursor > first
    lab.press("ArrowLeft")
    assert lab.cursor == first
    lab.press(".")
    assert lab.cursor == first + 1
    lab.press("End")
    assert lab.cursor == 35
    lab.idle()
    lamps = lab.page.locator("#lamp-list").inner_text().split()
    assert {"ME1", "ME2-deadlock", "ME3", "holds"} <= set(lamps)
    assert {"1", "2", "3", "Reply(9)"} <= set(lab.drawn())
    assert "messages per entry 4 formula 4" in " ".join(
        lab.page.locator("#costs").inner_text().split()
    )
    strip = lab.page.locator("#overview").bounding_box()
    assert strip is not None
    lab.page.mouse.click(strip["x"] + strip["width"] / 2, strip["y"] + 10)
    assert 5 < lab.cursor < 30


def inked(lab: LabPage, canvas: str) -> int:
    """Return how many pixels of a canvas are drawn."""
    count = lab.js(
        f"(() => {{ const c = document.getElementById('{canvas}');"
        " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " let n = 0; for (let i = 3; i < d.length; i += 4) if (d[i]) n++; return n; })()"
    )
    return int(count)


def test_a_click_shows_state_source_and_causes(lab: LabPage) -> None:
    lab.open(run="ricart-agrawala -n 3")
    index = lab.js("lab.branch.lines.findIndex((each) => each.name === 'Granted')")
    receipt = index - 1  # the reply with which the process enters
    lab.page.mouse.click(*lab.point(receipt))
    until(lambda: lab.js("lab.details?.state !== undefined"), "the state is shown")
    lab.idle()
    panel = lab.page.locator("#panel")
    text = " ".join(panel.inner_text().split())
    assert "3 gets Reply(2) from 1" in text
    assert "state WANTED HELD" in text
    assert "ricart_agrawala.py" in text
    ran = panel.locator("pre span.ran").all_inner_texts()
    assert any("self.state = HELD" in each for each in ran)
    lab.press("c")
    until(lambda: lab.js("lab.cone !== null"), "causes are shown")
    past = lab.js("[...lab.cone.past].map((each) => lab.branch.lines[each].e)")
    assert "request" in past
    assert lab.js("lab.cone.future.size") > 0
    lab.idle()
    in_cone = "[...lab.cone.past, ...lab.cone.future].length"
    assert f"{lab.js('lab.cone.past.size')} causes" in panel.inner_text()
    assert lab.js(in_cone) < lab.js("lab.branch.length") - 1, "the rest is faint"
    lab.press("Escape")
    assert lab.js("lab.cone") is None
    lab.page.mouse.move(*lab.point(receipt))
    until(lambda: lab.page.locator("#tip").is_visible(), "fields are shown by name")
    assert "stamp: 2" in lab.page.locator("#tip").inner_text()


def test_the_table_has_the_same_events(lab: LabPage) -> None:
    lab.open(run="ricart-agrawala -n 3")
    lab.press("t")
    rows = lab.page.locator("#table .space .row")
    until(lambda: rows.count() > 5, "rows are drawn")
    grid = "document.activeElement.getAttribute('role') === 'grid'"
    until(lambda: lab.js(grid), "the table has the focus")
    assert int(lab.page.locator("#table [role=grid]").get_attribute("aria-rowcount") or 0) == 37
    lab.press("PageUp", "PageUp", "PageUp", "PageUp")
    until(lambda: lab.js("lab.selected") == 0, "the first event is selected")
    lab.idle()
    first = " ".join(rows.first.inner_text().split())
    assert first == "1 0 ms 1 starts"


def test_play_halts_at_the_violation_and_goes_on(lab: LabPage) -> None:
    lab.open(scenario="central-holder-slow")
    at = lab.js("lab.firstViolation().event")
    assert lab.cursor == at, "a run with a violation is opened there"
    lab.page.select_option("#speed", "40")
    lab.press("Home")
    lamps = lab.page.locator("#lamp-list")
    until(lambda: "violated" not in lamps.inner_text(), "nothing is violated at the beginning")
    lab.press("Space")
    until(lambda: lab.notice_kind == "violation", "play halts")
    assert lab.cursor == at
    assert "ME1 violated: at 19 ms 3 entered" in lab.notice
    lab.page.focus("#canvas")
    lab.press("Space")
    until(lambda: lab.cursor == 34, "play goes on")
    lab.press("v")
    assert lab.cursor == at
    lab.page.get_by_role("button", name="ME1").click()
    reason = lab.page.get_by_role("dialog").inner_text()
    assert "while 2 was inside since 9 ms and paused" in reason
    assert "violated" in reason
    # The second level of a lamp: what a search of all states has found, for each fault model.
    assert "In all states of the check" in reason
    cells = lab.page.get_by_role("dialog").locator("table.cells tr")
    assert cells.count() > 2
    assert "crash" in " ".join(cells.all_inner_texts())
    lab.press("Escape")
    cards = {
        lamp.locator("b").inner_text(): lamp.locator(".card").inner_text()
        for lamp in lamps.locator(".lamp").all()
    }
    assert (cards["ME1"], cards["ME2-deadlock"]) == ("∃", "∀")
    assert "ME1" in lab.drawn(), "the violation is marked in the diagram"


def test_where_play_ends_the_state_is_shown(lab: LabPage) -> None:
    lab.open(run="ricart-agrawala -n 3")
    lab.page.select_option("#speed", "1")
    lab.press("End", "ArrowLeft")
    lab.idle()
    lab.page.focus("#canvas")
    lab.press("Space")
    until(lambda: lab.js("!lab.playing"), "play ends")
    until(lambda: lab.js("lab.details?.state !== undefined"), "the state is shown")
    assert lab.cursor == lab.js("lab.details.event") == 35


@pytest.mark.parametrize(
    ("control", "acts"),
    [
        ("#lamp-list button >> nth=0", "document.querySelector('[role=dialog]') !== null"),
        ("#panel button >> nth=0", "lab.cone !== null"),
        ("#filters summary >> nth=0", "document.querySelector('#filters details').open"),
    ],
)
def test_a_click_counts_though_the_page_draws_meanwhile(
    lab: LabPage, control: str, acts: str
) -> None:
    """While a run plays, frames come between the two ends of a click."""
    lab.open(scenario="central-holder-slow")
    lab.idle()
    assert not lab.js(acts)
    lab.page.hover(control)
    lab.page.mouse.down()
    lab.js("lab.draw('all'), new Promise((done) => requestAnimationFrame(done))")
    lab.page.mouse.up()
    until(lambda: lab.js(acts), "the click counts")
    lab.idle()
    assert lab.js("lab.stale.size") == 0, "what was held back is drawn"


@pytest.mark.parametrize("width", [1280, 700, 400])
def test_the_cursor_is_in_sight_though_nothing_was_drawn_since(
    new_page: NewPage, width: int
) -> None:
    """A busy machine draws no frame between a notice and the next key, a hidden tab none at all."""
    lab = new_page(width)
    lab.js("lab.paint = requestAnimationFrame, requestAnimationFrame = () => 1")
    lab.open(scenario="central-holder-slow")
    assert in_sight(lab), "the violation, in a tab that was never seen"
    lab.js("lab.go(lab.branch.length - 1), lab.notice('no further event'), lab.toViolation()")
    assert in_sight(lab), "the violation, after a notice"
    lab.js("requestAnimationFrame = lab.paint, lab.frame = 0, lab.draw('all')")
    lab.idle()
    assert "ME1" in lab.drawn(), "the violation is marked in the diagram"
    lab.js("lab.diagram.scaleBy(4), lab.go(lab.cursor), lab.draw('diagram')")
    lab.idle()
    lab.js("lab.notice('a long line '.repeat(90))")
    lab.page.set_viewport_size({"width": width * 3 // 4, "height": 500})
    until(lambda: lab.js("innerHeight") == 500, "the page is smaller")
    lab.idle()
    assert in_sight(lab), "the cursor, on a smaller canvas"


def in_sight(lab: LabPage) -> bool:
    """Return whether the event at the cursor is within the canvas."""
    along, first, end = lab.js(
        "(() => { const d = lab.diagram, b = d.canvas.getBoundingClientRect();"
        " return [d.along(lab.branch.atSlot[lab.cursor]), d.origin,"
        " d.vertical ? b.height : b.width]; })()"
    )
    return bool(first <= along <= end)


def test_filters_folding_variables_and_scale(lab: LabPage) -> None:
    lab.open(scenario="terms-partition")
    page = lab.page
    shown = "lab.branch.hidden.reduce((sum, each) => sum + (each ? 0 : 1), 0)"
    folded = lab.js(shown)
    assert folded < 500 < lab.js("lab.branch.length")
    assert max(lab.js("[...lab.branch.repeats.values()]")) > 10
    page.get_by_role("button", name="Fold repetitions").click()
    until(lambda: lab.js(shown) == lab.js("lab.branch.length"), "everything is shown")
    page.locator("#filters summary", has_text="Messages").click()
    page.get_by_label("Heartbeat").uncheck()
    until(lambda: lab.js(shown) < 700, "no heartbeats")
    page.locator("#filters summary", has_text="Messages").click()
    page.locator("#filters summary", has_text="Processes").click()
    page.get_by_label("5", exact=True).uncheck()
    until(lambda: lab.js("lab.branch.processes.length") == 4, "four processes")
    page.locator("#filters summary", has_text="Processes").click()
    page.locator("#filters summary", has_text="Variables").click()
    page.get_by_label("stage", exact=True).check()
    until(lambda: lab.js("lab.branch.along.stage?.length > 3"), "stages along the lines")
    lab.js("lab.first()")
    lab.idle()
    changes = lab.js("lab.branch.along.stage.map((each) => each.text)")
    assert "FOLLOWING" in changes
    assert set(changes) & set(lab.drawn()), "values are drawn"
    page.get_by_role("button", name="Time to scale").click()
    until(lambda: lab.js("lab.branch.scale") == "time", "time to scale")
    lab.press("w", "s", "a", "d", "0")
    lab.idle()
    assert inked(lab, "canvas") > 500
    lab.open(run="elected-coordinator -n 3")
    parts = "new Set(lab.branch.lines.filter((_, i) => !lab.branch.hidden[i]).map((l) => l.part))"
    assert lab.js(f"{parts}.has('.election')")
    page.locator("#filters summary", has_text="Components").click()
    page.get_by_label(".election", exact=True).uncheck()
    until(lambda: not lab.js(f"{parts}.has('.election')"), "one component is hidden")
    assert lab.js(f"{parts}.has('')"), "the others are not"


@pytest.mark.parametrize("width", [1280, 400])
def test_faults_by_menu_make_branches_that_stay(new_page: NewPage, width: int) -> None:
    lab = new_page(width)
    lab.open(run="ricart-agrawala -n 3")
    lab.press("Home", *["ArrowRight"] * 6)

    def choose(name: str) -> Callable[[], None]:
        def act() -> None:
            lab.js("lab.menuOfProcess(2, 50, 100)")
            lab.page.get_by_role("menuitem", name=re.compile(rf"^{name}( \w)?$")).click()

        return act

    assert lab.forks(choose("Crash")).endswith(": 2 crashes")
    assert lab.kinds()[lab.cursor] == "crash"
    assert lab.forks(choose("Recover without memory")).endswith(": 2 forgets")
    lab.js("lab.switchTo(1)")
    assert lab.forks(choose("Recover")).endswith(": 2 recovers")
    assert lab.kinds()[lab.cursor] == "recover"
    lab.js("lab.switchTo(0)")
    assert lab.forks(choose("Cut from 3")).endswith(": cut 2-3")
    cut = lab.js("[...lab.branch.cutAt(lab.cursor)].sort()")
    assert cut == ["2>3", "3>2"], "both ways"
    lab.js("lab.switchTo(0)")
    assert lab.forks(choose("Cut off from all")).endswith(": cut 2|1,3")
    assert lab.kinds()[lab.cursor] == "cut"
    assert lab.forks(choose("Heal all links")).endswith(": heal all")
    lab.js("lab.switchTo(0)")
    assert lab.forks(choose("Cut only 2 → 1")).endswith(": cut 2>1")
    assert lab.js("[...lab.branch.cutAt(lab.cursor)]") == ["2>1"], "one way"
    lab.js("lab.switchTo(0)")
    lab.js("lab.menuOfProcess(2, 50, 100)")
    lab.page.get_by_role("menuitem", name="Partition…").click()
    made = lab.forks(lambda: lab.page.get_by_role("button", name="Apply").click())
    assert made.endswith(": cut 1|2,3")
    lab.js("lab.switchTo(0)")
    lab.js("lab.menuOfProcess(2, 50, 100)")
    lab.page.get_by_role("menuitem", name="Pause…").click()
    assert "2 pauses for" in lab.forks(lambda: lab.press("Enter"))
    lab.js("lab.switchTo(0)")
    assert "luck 1" in lab.forks(lambda: lab.press("l"))
    lab.page.click("#tab-tree")
    until(lambda: lab.page.get_by_role("treeitem").count() == 11, "every branch is in the tree")
    lab.page.get_by_role("treeitem").first.click()
    until(lambda: lab.branch == 0, "the first branch is shown again")
    assert lab.js("lab.branch.length") == 36


def test_one_message_is_lost_duplicated_delayed_or_chosen(lab: LabPage) -> None:
    lab.open(run="ricart-agrawala -n 3")
    sent = lab.js("lab.branch.lines.findIndex((each) => each.e === 'send')")

    def choose(name: str) -> Callable[[], None]:
        lab.js("lab.switchTo(0)")

        def act() -> None:
            lab.js(f"lab.go(lab.branch.endOfStep({sent}))")
            lab.js(f"lab.menuOfFlight(lab.branch.flightOf[{sent}], 300, 300)")
            lab.page.get_by_role("menuitem", name=name).click()

        return act

    assert lab.forks(choose("Lose it")).endswith(": Request(1) from 3 to 1 is lost")
    assert "lost" in lab.kinds()
    assert lab.forks(choose("Duplicate it")).endswith(": Request(1) from 3 to 1 is duplicated")
    assert "duplicate" in lab.kinds()
    choose("Deliver later")()
    lab.page.get_by_label("Time", exact=True).fill("7ms")
    assert "is delayed by" in lab.forks(lambda: lab.press("Enter"))
    sent += 1  # the other request, as that one comes next anyway
    assert lab.forks(choose("Deliver now")).endswith(": 2 receives Request(1) from 3")


def test_pending_events_are_listed_and_a_click_delivers(lab: LabPage) -> None:
    lab.open(run="ricart-agrawala -n 3")
    lab.press("Home", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight")
    assert lab.js("lab.branch.lines[lab.cursor].e") == "send"
    lab.page.click("#tab-pending")
    until(lambda: lab.js("lab.pending?.length > 0"), "events are pending")
    lab.idle()
    second = lab.page.locator(".pending .choice", has_text="3 → 2 Request(1)")
    assert lab.forks(second.click).endswith(": 2 receives Request(1) from 3")
    assert lab.js("lab.branch.lines[lab.branch.opened.shared].p") == 2
    # The event that comes next anyway is a step, and no branch.
    lab.js("lab.switchTo(0)")
    before, branches = lab.cursor, lab.js("lab.branches.size")
    natural = lab.page.locator(".pending .choice.natural")
    until(lambda: lab.js("lab.pending?.length > 0") and natural.count() == 1, "it is marked")
    assert "comes next" in natural.inner_text()
    natural.click()
    until(lambda: lab.cursor > before, "a step")
    assert (lab.branch, lab.js("lab.branches.size")) == (0, branches)
    until(lambda: lab.js("lab.pending?.length > 0"), "the list is that of the next moment")
    at = lab.cursor
    lab.press("1")
    until(lambda: lab.cursor > at, "the key does the same")
    assert lab.branch == 0


def test_a_right_click_breaks_what_it_hits(lab: LabPage) -> None:
    lab.open(run="ricart-agrawala -n 3")
    lab.press("Home", *["ArrowRight"] * 6)
    lab.idle()
    box = lab.page.locator("#canvas").bounding_box()
    assert box is not None
    lane = lab.js("lab.diagram.laneAt(2)")
    lab.page.mouse.click(box["x"] + 20, box["y"] + lane, button="right")
    crash = lab.page.get_by_role("menuitem", name="Crash")
    assert lab.forks(crash.click).endswith(": 2 crashes")
    lab.js("lab.switchTo(0)")
    lab.idle()
    box = lab.page.locator("#canvas").bounding_box()
    assert box is not None
    arrow = lab.js(
        "lab.diagram.arrows.find((each) => lab.branch.flights[each.flight].ended > lab.cursor)"
    )
    x, y = (arrow["x"] + arrow["x2"]) / 2, (arrow["y"] + arrow["y2"]) / 2
    lab.page.mouse.click(box["x"] + x, box["y"] + y, button="right")
    lose = lab.page.get_by_role("menuitem", name="Lose it")
    assert lab.forks(lose.click).endswith(" is lost")
    lost = lab.js("lab.branch.lines[lab.branch.opened.shared]")
    assert lost["e"] == "lost"


def test_the_keyboard_alone_tells_a_whole_story(lab: LabPage) -> None:
    """Open, step to the violation, fork, crash, export: no mouse."""
    lab.press("Tab")  # the dialog is open and has the focus
    lab.press("Escape", "o")
    lab.page.keyboard.type("central-timeout -n 3 --ask 1@1ms+4ms --ask 2@4ms+3ms")
    until(lambda: lab.page.get_by_role("dialog").count() == 1, "the dialog is open")
    lab.press("Control+a")
    lab.page.keyboard.type(
        "central-timeout -n 3 --ask 1@1ms+4ms --ask 2@4ms+3ms --ask 3@6ms+15ms"
        " --pause 2@Granted#1+20ms"
    )
    lab.press("Enter")
    until(lambda: lab.js("lab.branch?.length") == 35, "the run is open")
    lab.press("Home")
    while lab.cursor < lab.js("lab.firstViolation().event"):
        before = lab.cursor
        lab.press("ArrowRight")
        until(lambda before=before: lab.cursor > before, "a step")  # type: ignore[misc]
    lab.press("ArrowDown", "ArrowDown")
    assert lab.js("lab.process") == 1
    made = lab.forks(lambda: lab.press("x"))
    assert made.endswith(": 1 crashes")
    lab.press("e")
    until(lambda: lab.page.get_by_role("menu").count() == 1, "the menu is open")
    lab.press("ArrowDown", "Enter")
    until(lambda: lab.page.get_by_role("dialog").count() == 1, "the command is shown")
    command = lab.page.get_by_role("dialog").get_by_role("textbox").input_value()
    assert command.startswith("habemus run central-timeout -n 3")
    assert "1 crashes" in command
    lab.press("Escape")
    assert lab.page.get_by_role("dialog").count() == 0


def test_the_graph_is_in_step(lab: LabPage) -> None:
    lab.open(scenario="ring-four")
    lab.page.click("#tab-graph")
    lab.page.focus("#canvas")
    nodes = lab.page.locator(".graph .node")
    for scenario, kind in (
        ("ring-four", "ring"),
        ("maekawa-cycle", "voting"),
        ("yo-yo-graph", "edges"),
        ("raymond-tree", "tree"),
    ):
        lab.open(scenario=scenario)
        until(lambda: nodes.count() == lab.js("lab.branch.processes.length"), "all nodes")
        assert lab.js("lab.branch.opened.graph.kind") == kind
        lab.press("Home", "ArrowRight", "ArrowRight", "ArrowRight")
        lab.idle()
        label = lab.js("lab.branch.label(lab.branch.lines[lab.cursor].p)")
        assert label in (lab.page.locator(".graph .node.acts").text_content() or "")


def test_languages_and_keys(lab: LabPage) -> None:
    lab.open(run="ricart-agrawala -n 3")
    lab.press("?")
    assert "Causes and effects" in lab.page.get_by_role("dialog").inner_text()
    lab.press("Escape")
    lab.page.click("#language")
    until(lambda: lab.js("document.documentElement.lang") == "pt", "Portuguese")
    lab.idle()
    assert lab.page.locator("#tab-event").inner_text() == "Evento"
    assert "começa" in lab.page.locator("#panel").inner_text()
    english, portuguese = lab.js(
        "import('/texts.js').then((m) => m.LANGUAGES.map((l) => Object.keys(m.TEXTS[l])))"
    )
    assert english == portuguese
    reasons = sorted(
        {
            line.partition(": ")[2]
            for file in GOLDEN.glob("*.txt")
            for line in file.read_text(encoding="utf-8").replace("\n  ", " ").splitlines()
            if VERDICT.match(line)
        }
    )
    assert len(reasons) > 60
    translated = lab.page.evaluate(
        "(all) => import('/reasons.js').then((m) => all.map((each) => m.translated(each)))", reasons
    )
    assert [each for each in translated if ENGLISH.search(each)] == []
    lab.open(scenario="central-holder-slow")
    lab.page.get_by_role("button", name="ME1").click()
    assert "enquanto 2 estava dentro desde 9 ms" in lab.page.get_by_role("dialog").inner_text()
    lab.press("Escape")


GOLDEN = Path(__file__).parents[1] / "scenarios" / "golden"
VERDICT = re.compile(r"[\w-]+ (holds|violated|undecided): ")
ENGLISH = re.compile(
    r"\b(the|was|were|of|at|that|which|never|with|while|since|entered|leader|waiting|process|all|and"
    r"|is|are|has|to|from|on|end|nothing|changed|for|entries|requests)\b"
)


def test_a_live_trace_is_forked_and_goes_on(lab: LabPage, tmp_path: Path) -> None:
    """Real nodes serve a lock.  In the lab, one of them crashes before it replies."""
    habemus = [sys.executable, "-m", "habemus"]
    folder, merged = tmp_path / "cluster", tmp_path / "run.json"
    nodes = ["up", "-n", "3", "--algorithm", "ricart-agrawala", "--record", "--folder", str(folder)]
    subprocess.run(
        [*habemus, *nodes, "--", *habemus, "lock", "printer", "--", "true"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    records = sorted((folder / "records").glob("*.jsonl"))
    subprocess.run(
        [*habemus, "trace", "merge", *records, "-o", merged, "--expect", "ME1=holds"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    with lab.page.expect_file_chooser() as chooser:
        lab.page.get_by_role("button", name="Drop a trace").click()
    chooser.value.set_files(merged)
    until(lambda: lab.js("lab.branch?.header.run.live"), "the trace is open")
    assert lab.page.locator("#title").inner_text() == "locks/printer, live"
    recorded = lab.js("lab.branch.lines.map((each) => `${each.t} ${each.p} ${each.e}`)")
    asked = lab.js("lab.branch.lines.findIndex((each) => each.name === 'acquire')")
    who = lab.js(f"lab.branch.lines[{asked}].p")
    other = 1 if who != 1 else 2
    lab.js(f"lab.go(lab.branch.endOfStep({asked}))")
    lab.js(f"lab.chooseProcess({other})")
    lab.page.focus("#canvas")
    assert lab.forks(lambda: lab.press("x")).endswith(f": {other} crashes")
    shared = lab.js("lab.branch.opened.shared")
    forked = lab.js("lab.branch.lines.map((each) => `${each.t} ${each.p} ${each.e}`)")
    assert forked[:shared] == recorded[:shared] and shared < len(recorded)
    assert "crash" in lab.kinds()[shared:]
    lab.press("End")
    until(lambda: lab.cursor == len(forked) - 1, "the simulator has gone on")
    deadlock = "lab.branch.lamps.find((each) => each.property === 'ME2-deadlock')"
    assert lab.js(deadlock)["run"] == "violated", lab.js(deadlock)
    lab.press("e")
    with lab.page.expect_download() as download:
        lab.page.get_by_role("menuitem", name=MENU["jsonl"]).click()
    saved = tmp_path / "fork.json"
    download.value.save_as(saved)
    followed = subprocess.run(
        [*habemus, "replay", saved], capture_output=True, text=True, timeout=60, check=False
    )
    assert followed.returncode == 0, followed.stdout + followed.stderr


def test_everything_can_be_taken_away(lab: LabPage) -> None:
    lab.open(scenario="central-holder-slow")
    found = {}
    for kind in ("svg", "png", "mermaid", "shiviz", "jsonl", "perfetto", "pytest", "scenario"):
        lab.press("e")
        with lab.page.expect_download() as download:
            lab.page.get_by_role("menuitem", name=MENU[kind], exact=True).click()
        found[kind] = Path(download.value.path()).read_bytes()
    assert b"<svg" in found["svg"][:200]
    assert found["png"].startswith(b"\x89PNG")
    assert b"sequenceDiagram" in found["mermaid"]
    assert json.loads(found["jsonl"].splitlines()[0])["habemus"] == 1
    assert json.loads(found["perfetto"])["traceEvents"]
    assert b"def test_" in found["pytest"]
    assert b"Scenario(" in found["scenario"]
    assert b"Request" in found["shiviz"]


MENU = {
    "svg": "Picture (SVG)",
    "png": "Picture (PNG)",
    "mermaid": "Mermaid",
    "shiviz": "ShiViz",
    "jsonl": "Trace (JSON lines)",
    "perfetto": "Perfetto",
    "pytest": "pytest file",
    "scenario": "Scenario",
}


def test_a_link_is_the_same_run_in_another_browser(new_page: NewPage) -> None:
    lab = new_page()
    lab.open(run="ricart-agrawala -n 3")
    lab.press("Home", *["ArrowRight"] * 9, "ArrowDown")
    lab.forks(lambda: lab.press("x"))
    digest = lab.js("lab.branch.digest")
    lab.press("e")
    lab.page.get_by_role("menuitem", name="Link").click()
    link = lab.page.get_by_role("dialog").get_by_role("textbox").input_value()
    lab.press("Escape")
    other = new_page(400)
    dialog = other.page.get_by_role("dialog")
    dialog.get_by_label("Link", exact=True).fill(link)
    other.press("Enter")
    until(lambda: other.js("lab.branch?.digest") == digest, "the same events")
    assert other.js("lab.branch.command.includes('crashes')")
    other.press("o")
    dialog.get_by_label("Link", exact=True).fill(link.replace("crashes", "forgets"))
    other.press("Enter")
    until(lambda: other.notice_kind == "error", "one line says what differs")
    other.press("o")
    tampered = link.replace("-n%203", "-n%203%20--seed%201")
    assert tampered != link
    dialog.get_by_label("Link", exact=True).fill(tampered)
    other.press("Enter")
    until(lambda: "event #" in other.notice, "the first event that differs is named")
    assert other.cursor == int(other.notice.partition("#")[2].split()[0]) - 1
    lab.open(run="ricart-agrawala -n 3 --requests 40")
    assert lab.js("lab.branch.length") > 1000
    lab.press("e")
    lab.page.get_by_role("menuitem", name="Link").click()
    link = lab.page.get_by_role("dialog").get_by_role("textbox").input_value()
    late = lab.js("lab.branch.deliveries[900]")
    other.open(
        link=link.replace("%20--requests", f"%20--then%20'{late}%3A%20luck%201'%20--requests")
    )
    until(lambda: "is not that of the link: here it is" in other.notice, "one event is named")
    assert 900 < other.cursor < 960


def test_a_trace_and_a_counterexample_are_opened(lab: LabPage, tmp_path: Path) -> None:
    lab.open(scenario="central-holder-slow")
    digest = lab.js("lab.branch.digest")
    lab.press("e")
    with lab.page.expect_download() as download:
        lab.page.get_by_role("menuitem", name=MENU["jsonl"]).click()
    saved = tmp_path / "run.json"
    download.value.save_as(saved)
    lab.open(run="central -n 2")
    lab.press("o")
    with lab.page.expect_file_chooser() as chooser:
        lab.page.get_by_role("button", name="Drop a trace").click()
    chooser.value.set_files(saved)
    until(lambda: lab.js("lab.branch.digest") == digest, "the same events")
    lab.press("o")
    lab.page.get_by_role("dialog").get_by_label("Counterexample", exact=True).fill("maekawa -n 3")
    lab.press("Enter")
    until(lambda: lab.js("lab.branch.header.run.property") == "ME2-deadlock", "it is searched")
    lab.press("v", "t")
    until(lambda: lab.page.locator(".row.now").count() == 1, "the violation is shown")
    assert "step" in lab.page.locator(".row.now").inner_text()
    assert "violated" in lab.page.locator("#lamp-list").inner_text()


@pytest.mark.parametrize(("width", "kind"), [(1280, "light"), (400, "dark")])
def test_axe_finds_no_serious_violation(new_page: NewPage, width: int, kind: str) -> None:
    lab = new_page(width, color_scheme=kind, reduced_motion="reduce")
    found = [*axe(lab)]  # the dialog
    lab.open(scenario="central-holder-slow")
    lab.press("t")
    for tab in ("event", "pending", "graph", "tree"):
        lab.page.click(f"#tab-{tab}")
        lab.idle()
        found += axe(lab)
    assert found == []


def axe(lab: LabPage) -> list[str]:
    """Return the serious and critical findings of axe-core."""
    from tests.lab.conftest import AXE

    if not lab.js("Boolean(window.axe)"):
        lab.page.evaluate(AXE.read_text(encoding="utf-8") + "\n;0")
    result: Any = lab.js("axe.run(document, {resultTypes: ['violations']})")
    assert result["passes"], "axe has looked at something"
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in result["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def test_the_scripts_are_small() -> None:
    import gzip

    from habemus.lab import server

    page = Path(server.__file__).parent / "page"
    scripts = b"".join(file.read_bytes() for file in sorted(page.glob("*.js")))
    assert len(gzip.compress(scripts)) < 150_000
    assert json.dumps("innerHTML").strip('"').encode() not in scripts


def test_axe_is_the_file_that_was_published() -> None:
    import hashlib

    from tests.lab.conftest import AXE

    found = hashlib.sha256(AXE.read_bytes()).hexdigest()
    assert found == "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"
