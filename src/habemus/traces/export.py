"""Save a trace in the format that the suffix of the file name asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from habemus.traces.diagram import svg
from habemus.traces.file import write
from habemus.traces.mermaid import markdown, mermaid
from habemus.traces.perfetto import perfetto
from habemus.traces.png import png
from habemus.traces.shiviz import shiviz
from habemus.traces.trace import Trace
from habemus.traces.view import EVERYTHING, Selection, States
from habemus.traces.words import ENGLISH, Words


def _as_text(made: Callable[..., str]) -> Callable[..., None]:
    def save_text(trace: Trace, path: Path, **how: Any) -> None:
        path.write_text(made(trace, **how), encoding="utf-8", newline="\n")

    return save_text


def _save_png(trace: Trace, path: Path, **how: Any) -> None:
    path.write_bytes(png(svg(trace, **how)))


# Programs read the other formats, so these have all events; a selection is for the eye.


def _save_trace(trace: Trace, path: Path, **_: Any) -> None:
    write(trace, path)


def _save_shiviz(trace: Trace, path: Path, *, words: Words, **_: Any) -> None:
    path.write_text(shiviz(trace, words), encoding="utf-8", newline="\n")


def _save_perfetto(trace: Trace, path: Path, *, words: Words, **_: Any) -> None:
    path.write_text(perfetto(trace, words), encoding="utf-8", newline="\n")


_SAVES: dict[str, Callable[..., None]] = {
    ".svg": _as_text(svg),
    ".png": _save_png,
    ".md": _as_text(markdown),
    ".mmd": _as_text(mermaid),
    ".json": _save_trace,
    ".jsonl": _save_trace,
    ".shiviz": _save_shiviz,
    ".perfetto": _save_perfetto,
    ".perfetto.json": _save_perfetto,
}

ENDINGS = tuple(_SAVES)


def _ending(path: Path | str) -> str:
    name = Path(path).name.lower()
    return ".perfetto.json" if name.endswith(".perfetto.json") else Path(name).suffix


def check_ending(path: Path | str) -> None:
    """Refuse a file name with an unknown suffix, before a long run instead of after it."""
    if _ending(path) not in _SAVES:
        raise ValueError(
            f"cannot tell what to write into {str(path)!r}: the name must end in"
            f" {', '.join(ENDINGS)}"
        )


def save(
    trace: Trace,
    path: Path | str,
    *,
    words: Words = ENGLISH,
    selection: Selection = EVERYTHING,
    states: States | None = None,
) -> None:
    """Write the trace as a picture, a diagram in text, a log, or a trace file."""
    check_ending(path)
    _SAVES[_ending(path)](trace, Path(path), words=words, selection=selection, states=states)
