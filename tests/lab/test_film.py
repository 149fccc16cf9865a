"""The moving picture of the lab shows what the page says; `make film` makes it anew."""

from __future__ import annotations

import struct
from base64 import b64encode
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.lab.film import Frame, animated, captions, chunks, frames, shots

IMAGES = Path(__file__).parents[2] / "docs" / "images"
FILMS = {"light": "lab-film.png", "dark": "lab-film-dark.png"}
MOST_BYTES = 2_000_000


@pytest.fixture(scope="module")
def taken(browser: Browser, lab_url: str) -> list[Frame]:
    return list(shots(browser, lab_url, "light"))


@pytest.mark.parametrize("film", FILMS.values())
def test_the_film_shows_what_the_page_says(film: str, taken: list[Frame]) -> None:
    png = (IMAGES / film).read_bytes()
    assert captions(png) == [shot.caption for shot in taken], "out of date; run make film"
    assert len(png) <= MOST_BYTES


@pytest.mark.parametrize("film", FILMS.values())
def test_the_film_is_an_animated_png_that_repeats(film: str) -> None:
    found = chunks((IMAGES / film).read_bytes())
    pictures = len(captions((IMAGES / film).read_bytes()))
    assert dict(found)[b"acTL"] == struct.pack(">II", pictures, 0)
    kinds = [kind for kind, _ in found if kind in (b"fcTL", b"IDAT", b"fdAT")]
    assert kinds == [b"fcTL", b"IDAT", *[b"fcTL", b"fdAT"] * (pictures - 1)]
    order = [int.from_bytes(body[:4], "big") for kind, body in found if kind in (b"fcTL", b"fdAT")]
    assert order == list(range(2 * pictures - 1))


def test_the_film_ends_with_two_processes_inside(taken: list[Frame]) -> None:
    told = [shot.caption for shot in taken]
    assert "2 pauses; ME1 holds so far" in " ".join(told)
    assert "3 enters; ME1 violated" in told[-2]
    assert taken[-1].milliseconds > taken[0].milliseconds


def test_a_browser_sees_each_frame_as_the_page_was(taken: list[Frame], browser: Browser) -> None:
    """The second frame, drawn over the first one, is the second screenshot."""
    first, second = list(frames(browser, taken[:2]))
    assert len(second.png) < len(first.png)
    painted = """async (pictures) => {
        let context;
        for (const picture of pictures) {
            const image = new Image();
            image.src = `data:image/png;base64,${picture}`;
            await image.decode();
            context ??= new OffscreenCanvas(image.width, image.height).getContext("2d");
            context.drawImage(image, 0, 0);
        }
        const { data } = context.getImageData(0, 0, context.canvas.width, context.canvas.height);
        return data.reduce((sum, each) => (31 * sum + each) % 0x7fffffff, 0);
    }"""
    page = browser.new_page()

    def seen(*pictures: bytes) -> int:
        return int(page.evaluate(painted, [b64encode(each).decode() for each in pictures]))

    assert seen(first.png, second.png) == seen(taken[1].png) != seen(taken[0].png)
    page.close()
    assert animated([first, second]).count(b"fdAT") == 1
