"""PNG: the size is right, text is there, and what is missing is said."""

from __future__ import annotations

import importlib
import struct
import sys
import types
from typing import Any

import pytest

from habemus.traces import TooLargeToDraw, Trace
from habemus.traces.diagram import svg
from habemus.traces.png import CannotDraw, png

resvg = pytest.importorskip("resvg_py")
module: Any = importlib.import_module("habemus.traces.png")

PAPER = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" height="{}">{}</svg>'
)


@pytest.fixture(autouse=True)
def fresh() -> None:
    module._fonts.cache_clear()
    module._shows_text.cache_clear()


def size(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


def test_a_diagram_becomes_a_picture_of_twice_its_size(stories: dict[str, Trace]) -> None:
    picture = svg(stories["violation"])
    width, height = (
        float(each) for each in picture.split('viewBox="0 0 ')[1].split('"')[0].split()
    )
    found = size(png(picture))
    assert found == pytest.approx((2 * width, 2 * height), abs=2)


def test_text_leaves_a_trace() -> None:
    blank = png(PAPER.format(60, 20, 60, 20, ""))
    assert png(PAPER.format(60, 20, 60, 20, '<text x="4" y="14">Habemus</text>')) != blank


def test_a_tall_picture_is_drawn_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PIXELS", 10_000)
    assert size(png(PAPER.format(100, 100, 100, 100, ""))) == (100, 100)
    with pytest.raises(TooLargeToDraw, match="too tall"):
        png(PAPER.format(100, 1_000, 100, 1_000, ""))


def test_a_missing_library_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(CannotDraw) as raised:
        png(PAPER.format(10, 10, 10, 10, ""))
    assert str(raised.value) == "PNG needs the package resvg-py: pip install '.[png]' in your clone"


def without_system_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = types.ModuleType("resvg_py")
    bare.svg_to_bytes = lambda **options: resvg.svg_to_bytes(**options, skip_system_fonts=True)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "resvg_py", bare)


def test_a_picture_without_any_font_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    without_system_fonts(monkeypatch)
    monkeypatch.setattr(module, "_FONTS", ())
    with pytest.raises(
        CannotDraw,
        match=r"there is no font to write with: pip install '\.\[png\]'",
    ):
        png(PAPER.format(10, 10, 10, 10, ""))


def test_a_font_of_a_package_is_enough(
    monkeypatch: pytest.MonkeyPatch, stories: dict[str, Trace]
) -> None:
    files, family = module._fonts()
    if files is None:
        pytest.skip("no package that ships a font is installed")
    assert family in ("Open Sans", "DejaVu Sans")
    without_system_fonts(monkeypatch)
    assert size(png(svg(stories["violation"])))
