"""Figures of matplotlib."""

from __future__ import annotations

import logging

import pytest

from habemus.analysis.pictures.figures import matplotlib_for


def test_the_cache_of_fonts_is_built_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    fonts = logging.getLogger("matplotlib.font_manager")
    matplotlib_for("plots")
    fonts.warning("Matplotlib is building the font cache; this may take a moment.")
    fonts.warning("findfont: Font family 'x' not found.")
    assert [record.getMessage() for record in caplog.records] == [
        "findfont: Font family 'x' not found."
    ]
