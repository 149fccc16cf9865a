"""Measure the page of the lab in Chromium: `make bench-lab`.

Times are taken in the page.  First paint is from the arrival of the last event to the end of the
first frame that shows the run; opening is from the request to that frame, with the execution of the
run.  Panning and zooming are the times between frames, which a browser draws every 16.7 ms at most.
"""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median
from typing import Any

from playwright.sync_api import Page, sync_playwright

RUNS = {
    "10,000 events": "ricart-agrawala -n 5 --requests 106",
    "100,000 events": "ricart-agrawala -n 5 --requests 1060",
}
GOALS = {"first paint": 500, "pan": 25, "zoom": 25, "step": 50, "fork": 200, "open": 3000}
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")

FRAMES = """(act) => new Promise((resolve) => {
    const times = [];
    let before = 0;
    const frame = (now) => {
        if (before) times.push(now - before);
        before = now;
        if (times.length >= 60) return resolve(times);
        act(times.length);
        lab.draw("diagram");
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
})"""

# A reader looks at an event before forking there: the state of the event is answered by then.
FORKS = """(async () => {
    const [first, times] = [lab.branch, []];
    for (let luck = 1; luck <= 5; luck++) {
        lab.switchTo(first.id);
        lab.go(Math.floor(first.length / 2));
        await new Promise((done) => setTimeout(done, 500));
        await lab.intervene(`luck ${luck}`);
        times.push(lab.marks.forked - lab.marks.fork);
    }
    return times;
})()"""


def measured(page: Page, run: str) -> dict[str, Any]:
    page.evaluate(f"lab.open({{run: {json.dumps(run)}}})")
    page.evaluate("new Promise((done) => setTimeout(done, 1500))")
    found = page.evaluate(
        "({events: lab.branch.length, open: lab.marks.painted - lab.marks.open,"
        " 'first paint': lab.marks.painted - lab.marks.arrived})"
    )
    for name, act in (
        ("pan", "() => lab.diagram.pan(180)"),
        ("zoom", "(n) => lab.diagram.scaleBy(n < 30 ? 0.9 : 1.1)"),
    ):
        found[name] = median(page.evaluate(f"({FRAMES})({act})"))
    found["whole run in sight"] = median(page.evaluate(f"({FRAMES})(() => lab.diagram.fit())"))
    steps = page.evaluate(
        """(async () => {
            const times = [];
            lab.go(Math.floor(lab.branch.length / 2));
            for (let n = 0; n < 30; n++) {
                const begin = performance.now();
                await lab.step();
                await new Promise((done) => requestAnimationFrame(done));
                times.push(performance.now() - begin);
            }
            return times;
        })()"""
    )
    found["step"] = median(steps)
    found["fork"] = median(page.evaluate(FORKS))
    return dict(found)


def main() -> None:
    command = [sys.executable, "-m", "habemus", "lab", "--json", "--no-browser", "--port", "0"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as lab,
        sync_playwright() as playwright,
    ):
        assert lab.stdout is not None
        url = json.loads(lab.stdout.readline())["url"]
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=list(FLAGS))
        try:
            for name, run in RUNS.items():
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                page.goto(url)
                page.wait_for_selector(".dialog")
                print(f"{name}: habemus lab {run}")
                for what, value in measured(page, run).items():
                    unit = "" if what == "events" else " ms"
                    goal = f"   (goal: {GOALS[what]} ms)" if what in GOALS else ""
                    print(f"  {what:20} {value:8,.1f}{unit}{goal}")
                page.close()
        finally:
            browser.close()
            lab.terminate()


if __name__ == "__main__":
    main()
