"""Text of others stays text, code of others asks first, and code that hangs ends with a line."""

from __future__ import annotations

import hashlib
import http.client
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser
from tests.lab.conftest import LabPage, until

pytestmark = pytest.mark.browser
NewPage = Callable[..., LabPage]
LABEL = "<img src=x onerror=hacked=1>"
SCRIPT = "<img src=x onerror=hacked=1><script>hacked=1</script>"

HANGS = '''
"""Mutual exclusion that never answers.

Source   None.
Assumes  reliable links, in any order; no process crashes.
Cost     None.
Ensures  ME1.
"""
from pathlib import Path

from habemus.algorithm import Mutex

Path(__file__).with_suffix(".imported").touch()


class Hangs(Mutex):
    def acquire(self) -> None:
        kept = []
        while True:
            kept.append(BODY)

    def release(self) -> None:
        pass
'''


LIMITS = ("--limit-seconds", "3", "--limit-mb", "400")


def _algorithm(folder: Path, name: str, body: str) -> Path:
    file = folder / f"{name}.py"
    file.write_text(HANGS.replace("BODY", body), encoding="utf-8")
    return file


def test_script_in_labels_and_traces_is_text(new_page: NewPage, tmp_path: Path) -> None:
    lab = new_page()
    lab.open(run=f"central -n 2 --label '1={LABEL}'")
    for tab in ("event", "pending", "graph", "tree"):
        lab.page.click(f"#tab-{tab}")
        lab.idle()
    lab.press("t")
    lab.page.locator("#filters summary", has_text="Processes").click()
    lab.idle()
    assert LABEL in lab.page.locator("#filters").inner_text()
    lab.page.locator("#filters summary", has_text="Processes").click()
    lab.js("lab.menuOfProcess(1, 10, 10)")
    assert LABEL in lab.page.get_by_role("menu").inner_text()
    lab.press("Escape")
    # The name of a lock is the title of the merged trace of a live cluster.
    lab.open(run="central -n 2")
    lab.js("lab.branch.header.title = " + json.dumps(f"locks/{SCRIPT}"))
    lab.js("lab.show(lab.branch)")
    assert lab.page.locator("#title").inner_text() == f"locks/{SCRIPT}"
    # A trace with script in its title, its labels and its findings.
    lab.press("e")
    with lab.page.expect_download() as download:
        lab.page.get_by_role("menuitem", name="Trace (JSON lines)").click()
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    header = json.loads(lines[0])
    header["title"] = SCRIPT
    header["labels"]["1"] = LABEL
    text = "\n".join([json.dumps(header, separators=(",", ":")), *lines[1:], ""])
    lab.js(f"lab.open({{trace: {json.dumps(text)}}})")
    lab.idle()
    assert lab.page.locator("#title").inner_text() == SCRIPT, lab.notice
    lab.js("lab.open({run: '<b>bold</b>'})")
    until(lambda: "<b>bold</b>" in lab.notice, "it is not an algorithm")
    assert lab.js("typeof hacked") == "undefined"
    assert lab.page.locator("img[src=x]").count() == 0


def test_a_trace_that_names_a_file_asks_first(lab: LabPage, tmp_path: Path) -> None:
    file = _algorithm(tmp_path, "named", "1")
    header = {
        "habemus": 1,
        "title": "x",
        "run": {"algorithm": f"{file}:Hangs", "n": 2},
        "processes": [1, 2],
        "labels": {},
    }
    event = {"t": 0, "p": 1, "e": "start", "vc": [1, 0]}
    trace = "\n".join(json.dumps(each, separators=(",", ":")) for each in (header, event)) + "\n"
    digest = hashlib.sha256(b'{"t":0,"p":1,"e":"start"}\n').hexdigest()
    trace += (
        json.dumps({"digest": digest, "events": 1, "findings": []}, separators=(",", ":")) + "\n"
    )
    lab.js(f"lab.open({{trace: {json.dumps(trace)}}})")
    dialog = lab.page.get_by_role("dialog", name="Run this file?")
    assert str(file) in dialog.inner_text()
    lab.press("Enter")  # the safe answer has the focus
    until(lambda: dialog.count() == 0, "the dialog is closed")
    assert not file.with_suffix(".imported").exists()


def test_an_algorithm_that_hangs_or_takes_all_memory_ends_with_a_line(
    browser: Browser, tmp_path: Path
) -> None:
    loops = _algorithm(tmp_path, "loops", "1 if len(kept) < 9 else kept.pop()")
    hungry = _algorithm(tmp_path, "hungry", "bytes(10_000_000)")
    command = [sys.executable, "-m", "habemus", "lab", "--json", "--no-browser", "--port", "0"]
    with subprocess.Popen([*command, *LIMITS], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            lab = LabPage(context.new_page(), json.loads(server.stdout.readline())["url"])
            lab.open(run="central -n 2")
            events = lab.js("lab.branch.length")
            for file, line in ((loops, "no answer within 3 s"), (hungry, "MemoryError")):
                lab.js(f"lab.open({{run: {json.dumps(f'{file}:Hangs -n 2')}}})")
                until(lambda line=line: line in lab.notice, line)  # type: ignore[misc]
                lab.idle()
                lab.open(run="central -n 2")
                assert lab.js("lab.branch.length") == events
            context.close()
        finally:
            server.terminate()
            server.wait(30)


class _Evil(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<p>another origin</p>")

    def log_message(self, *_: object) -> None:
        pass


def test_a_page_of_another_origin_gets_no_session(browser: Browser, lab_url: str) -> None:
    """A page of another server of this machine opens a WebSocket: the handshake is refused."""
    context = browser.new_context()
    page = context.new_page()

    def handshake() -> object:
        return page.evaluate(
            f"""new Promise((resolve) => {{
                const socket = new WebSocket("ws://127.0.0.1:{urlsplit(lab_url).port}/session");
                socket.onopen = () => resolve("open");
                socket.onerror = () => resolve("refused");
            }})"""
        )

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Evil) as evil:
        threading.Thread(target=evil.serve_forever).start()
        try:
            page.goto(f"http://127.0.0.1:{evil.server_port}/")
            assert handshake() == "refused"
        finally:
            evil.shutdown()
    page.goto(lab_url.partition("#")[0])
    assert handshake() == "open"
    context.close()


def test_without_the_token_the_page_stays_empty(browser: Browser, lab_url: str) -> None:
    context = browser.new_context(locale="en-US")
    page = context.new_page()
    page.goto(lab_url.partition("#")[0])
    notice = page.locator("#notice")
    until(lambda: "no valid token" in notice.inner_text(), "one line says why")
    assert page.evaluate("lab.branch") is None
    context.close()


def test_another_host_is_refused(lab_url: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(lab_url).port, timeout=30)
    connection.request("GET", "/", headers={"Host": "rebound.example"})
    assert connection.getresponse().status == 403
    connection.close()
