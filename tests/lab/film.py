"""The moving picture of the lab: `python -m tests.lab.film docs/images/lab-film.png`.

The page steps in Chromium through a scenario, until two processes are inside.  Each step is a frame
of an animated PNG that has only the pixels that differ from those before; the browser finds them,
so it needs no library.  What the page says at each step is stored in the picture as text.  A second
picture, `...-dark.png`, has the dark colours.
"""

from __future__ import annotations

import base64
import json
import shutil
import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, sync_playwright
from tests.lab.conftest import FLAGS, LabPage, running_lab

SCENARIO = "central-holder-slow"
FIRST = 4
"""Event at which the film begins; before it, processes start."""
SIZE = {"width": 1080, "height": 640}
SCALE = 1.5
STEP_MS, LOOK_MS, LAST_MS = 800, 2_000, 5_000
LOOK_AT = ("pauses", "violated")
"""Frames that are shown longer."""
SIGNATURE = b"\x89PNG\r\n\x1a\n"
KEYWORD = b"habemus\0"
KEEP, OVER = 0, 1
"""A frame stays, and the next one is drawn over it."""

DIFFERENCE = """async (shots) => {
    const pixels = [];
    let context;
    for (const shot of shots) {
        const image = new Image();
        image.src = `data:image/png;base64,${shot}`;
        await image.decode();
        context = new OffscreenCanvas(image.width, image.height).getContext("2d");
        context.drawImage(image, 0, 0);
        pixels.push(context.getImageData(0, 0, image.width, image.height));
    }
    const [before, after] = pixels.map((each) => new Uint32Array(each.data.buffer));
    if (after) {
        for (let at = 0; at < after.length; at++) if (after[at] === before[at]) after[at] = 0;
        context.putImageData(pixels[1], 0, 0);
    }
    const blob = await context.canvas.convertToBlob();
    return btoa(Array.from(new Uint8Array(await blob.arrayBuffer()), (each) =>
        String.fromCharCode(each)).join(""));
}"""


class Frame(NamedTuple):
    png: bytes
    caption: str
    milliseconds: int


# The film.


def shots(browser: Browser, url: str, colours: str) -> Iterator[Frame]:
    """Step through the scenario until two processes are inside, and one step more."""
    context = browser.new_context(
        viewport=SIZE,  # type: ignore[arg-type]
        device_scale_factor=SCALE,
        color_scheme=colours,  # type: ignore[arg-type]
        reduced_motion="reduce",
        locale="en-US",
    )
    lab = LabPage(context.new_page(), url)
    lab.open(scenario=SCENARIO)
    lab.idle()
    lab.page.get_by_role("button", name="Show what follows").click()
    lab.js("lab.diagram.fit()")
    lab.js(f"lab.go({FIRST})")
    was_violated = False
    while not was_violated:
        was_violated = "violated" in caption_of(lab)
        lab.press("ArrowRight")
        lab.page.mouse.move(0, 0)
        lab.idle()
        caption = caption_of(lab)
        looks = any(part in caption for part in LOOK_AT)
        length = LAST_MS if was_violated else LOOK_MS if looks else STEP_MS
        yield Frame(lab.page.screenshot(), caption, length)
    context.close()


def caption_of(lab: LabPage) -> str:
    """Return the number of the event, the event, and the state of the lamps."""
    said = (
        lab.page.locator(part).first.inner_text()
        for part in ("#count", ".event-title", "#lamp-list li")
    )
    return "; ".join(" ".join(each.split()) for each in said)


def frames(browser: Browser, taken: Sequence[Frame]) -> Iterator[Frame]:
    """Keep of each picture what differs from the one before it."""
    page = browser.new_page()
    codes = [base64.b64encode(shot.png).decode() for shot in taken]
    for order, shot in enumerate(taken):
        made = page.evaluate(DIFFERENCE, codes[max(0, order - 1) : order + 1])
        yield shot._replace(png=base64.b64decode(made))
    page.close()


# The file.


def chunks(png: bytes) -> list[tuple[bytes, bytes]]:
    """Return the types and contents of the chunks of a PNG."""
    found, at = [], len(SIGNATURE)
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack(">I", png[at + 8 + length : at + 12 + length])
        if checksum != zlib.crc32(kind + body):
            raise ValueError(f"the chunk {kind.decode()} is damaged")
        found.append((kind, body))
        at += 12 + length
    return found


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def animated(pictures: Sequence[Frame]) -> bytes:
    """Return an animated PNG that repeats for ever."""
    [header] = {dict(chunks(each.png))[b"IHDR"] for each in pictures}
    told = json.dumps([each.caption for each in pictures]).encode()
    parts = [
        _chunk(b"IHDR", header),
        _chunk(b"tEXt", KEYWORD + told),
        _chunk(b"acTL", struct.pack(">II", len(pictures), 0)),
    ]
    numbers = count()
    for each in pictures:
        place = header[:8] + bytes(8)  # the whole picture
        timing = struct.pack(">HHBB", each.milliseconds, 1_000, KEEP, OVER)
        parts.append(_chunk(b"fcTL", struct.pack(">I", next(numbers)) + place + timing))
        data = zlib.decompress(b"".join(body for kind, body in chunks(each.png) if kind == b"IDAT"))
        packed = zlib.compress(data, 9)
        if each is pictures[0]:
            parts.append(_chunk(b"IDAT", packed))
        else:
            parts.append(_chunk(b"fdAT", struct.pack(">I", next(numbers)) + packed))
    return SIGNATURE + b"".join(parts) + _chunk(b"IEND", b"")


def captions(png: bytes) -> Any:
    """Return what the page said at each frame of an animated PNG."""
    return json.loads(dict(chunks(png))[b"tEXt"].removeprefix(KEYWORD))


def main(path: Path) -> None:
    with running_lab() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(FLAGS)
        )
        for colours, file in (
            ("light", path),
            ("dark", path.with_stem(f"{path.stem}-dark")),
        ):
            file.write_bytes(animated(list(frames(browser, list(shots(browser, url, colours))))))
            print(f"saved {file}, {file.stat().st_size:,} bytes")  # noqa: T201
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
