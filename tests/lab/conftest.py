"""A lab and a real Chromium for each module of these tests."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright
from tests.requirements import program

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
PATIENCE_S = 60
# The page measures its canvas in the frame after a change of the layout.
IDLE = """
(() => { const { diagram } = lab, box = diagram.canvas.getBoundingClientRect();
    return diagram.width === Math.max(box.width, 50) && diagram.height === Math.max(box.height, 50);
})() && lab.busy === 0 && lab.frame === 0 && lab.stale.size === 0 && (lab.branch === null
    || (lab.tab !== "event" || lab.focus < 0 || lab.details !== null)
    && (lab.tab !== "pending" || !lab.branch.playable || lab.pending !== null))
"""


def until(condition: Callable[[], Any], what: str = "") -> Any:
    """Wait for a condition; it is an event of the page, and not a duration."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"this never happened: {what or condition}")


class LabPage:
    """One page of the lab, as a user has it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.requested: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.requested.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._console)
        page.on("dialog", lambda dialog: self.errors.append(f"dialog {dialog.message}"))
        page.goto(url)
        until(lambda: self.js("Boolean(lab.catalog.algorithms.length)"), "the page is welcomed")

    def _console(self, line: ConsoleMessage) -> None:
        if line.type == "error":
            self.errors.append(line.text)

    def js(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    def open(self, **what: str) -> None:
        """Open something by a request; the dialog that does it has a test of its own."""
        self.js(f"lab.open({json.dumps(what)})")
        assert self.js("lab.branch !== null"), self.notice

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    @property
    def notice(self) -> str:
        return self.page.locator("#notice").inner_text()

    @property
    def cursor(self) -> int:
        return int(self.js("lab.cursor"))

    @property
    def branch(self) -> int:
        return int(self.js("lab.branch.id"))

    def forks(self, act: Callable[[], Any]) -> str:
        """Do something that makes a branch; return its last intervention."""
        before = self.branch
        act()
        until(lambda: self.branch != before or self.notice_kind == "error", "a branch begins")
        assert self.branch != before, self.notice
        made = self.js("lab.branch.interventions")
        return str(made[-1]) if made else ""

    @property
    def notice_kind(self) -> str:
        return str(self.js("document.getElementById('notice').className"))

    def kinds(self) -> list[str]:
        found = self.js("lab.branch.lines.map((each) => each.e)")
        assert isinstance(found, list)
        return found

    def point(self, event: int) -> tuple[float, float]:
        """Return where an event is drawn, on the screen."""
        self.idle()
        found = self.js(
            f"(() => {{ const b = lab.diagram.canvas.getBoundingClientRect();"
            f" lab.diagram.reveal({event}); lab.diagram.draw();"
            f" const who = lab.branch.lines[{event}].p;"
            f" const p = lab.diagram.point(lab.branch.atSlot[{event}], who);"
            f" return [b.left + p[0], b.top + p[1]]; }})()"
        )
        return found[0], found[1]

    def drawn(self) -> list[str]:
        """Draw the diagram again; return the texts on it."""
        self.idle()
        found = self.js(
            "(() => { const c = lab.diagram.context; const texts = [];"
            " c.fillText = (text) => texts.push(String(text));"
            " try { lab.diagram.draw(); } finally { delete c.fillText; } lab.diagram.draw();"
            " return texts; })()"
        )
        assert isinstance(found, list)
        return found

    def idle(self) -> None:
        """Wait until nothing is asked for and everything is drawn."""
        until(lambda: self.js(IDLE), "the page is idle")


@contextmanager
def running_lab() -> Iterator[str]:
    """Start a lab and yield its address."""
    command = [sys.executable, "-m", "habemus", "lab", "--json", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as lab:
        try:
            assert lab.stdout is not None
            yield json.loads(lab.stdout.readline())["url"]
        finally:
            lab.terminate()
            assert lab.wait(30) in (0, -signal.SIGTERM)


@pytest.fixture(scope="module")
def lab_url() -> Iterator[str]:
    with running_lab() as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = program("Chromium", "chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def new_page(browser: Browser, lab_url: str) -> Iterator[Callable[..., LabPage]]:
    """Open pages; at the end, none has asked another origin for anything or met an error."""
    contexts: list[BrowserContext] = []
    pages: list[LabPage] = []

    def make(width: int = 1280, **how: Any) -> LabPage:
        how.setdefault("viewport", {"width": width, "height": 800})
        how.setdefault("locale", "en-US")
        context = browser.new_context(accept_downloads=True, **how)
        context.set_default_timeout(PATIENCE_S * 1000)
        contexts.append(context)
        pages.append(LabPage(context.new_page(), lab_url))
        return pages[-1]

    yield make
    origin = lab_url.partition("#")[0]
    for page in pages:
        assert page.requested
        assert [each for each in page.requested if not each.startswith((origin, "blob:"))] == []
        assert page.errors == []
    for context in contexts:
        context.close()


@pytest.fixture
def lab(new_page: Callable[..., LabPage]) -> LabPage:
    return new_page()


@pytest.fixture
def narrow(new_page: Callable[..., LabPage]) -> LabPage:
    return new_page(400)


AXE = Path(__file__).parent / "axe" / "axe.min.js"
