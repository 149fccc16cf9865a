"""Figures of matplotlib: import it, check the name of a file, draw and save."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HINT = "pip install '.[plot]' in your clone"
ENDINGS = (".png", ".svg")


def matplotlib_for(what: str) -> Any:
    """Import matplotlib.  `ModuleNotFoundError` says what needs it."""
    try:
        import matplotlib
    except ImportError:
        raise ModuleNotFoundError(f"{what} need the package matplotlib: {HINT}") from None
    logging.getLogger("matplotlib.font_manager").addFilter(_is_of_interest)
    return matplotlib


def _is_of_interest(record: logging.LogRecord) -> bool:
    """Drop the remark, once on a slow machine, that a cache of fonts is being built."""
    return "building the font cache" not in record.getMessage()


def check_picture(path: Path) -> None:
    """Raise an exception for a file that cannot be drawn, before anything is computed."""
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(
            f"cannot tell what to write into {str(path)!r}: the name must end in"
            f" {' or '.join(ENDINGS)}"
        )
    matplotlib_for("plots")


@contextmanager
def picture(path: Path, width: float, height: float) -> Iterator[Any]:
    """Yield a figure and save it at the end. Text stays text, and the same numbers give the same
    file.
    """
    matplotlib = matplotlib_for("plots")
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "habemus", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        date = {"Date": None} if path.suffix.lower() == ".svg" else {}
        figure.savefig(path, dpi=150, metadata=date)


def plain_axes(axes: Any) -> None:
    axes.grid(color="#e9ecf0")
    axes.spines[["top", "right"]].set_visible(False)
