"""Save a trace in the format that the suffix of the file name asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from habemus.traces.diagram import svg
from habemus.traces.file import write
from habemus.traces.mermaid import markdown, mermaid
from habemus.traces.png import png
from habemus.traces.shiviz import shiviz
from habemus.traces.trace import Trace
from habemus.traces.words import ENGLISH, Words


def _as_text(made: Callable[..., str]) -> Callable[[Trace, Path, Words, bool], None]:
    def save_text(trace: Trace, path: Path, words: Words, steps: bool) -> None:
        path.write_text(made(trace, words=words, steps=steps), encoding="utf-8", newline="\n")

    return save_text


def _save_png(trace: Trace, path: Path, words: Words, steps: bool) -> None:
    path.write_bytes(png(svg(trace, words=words, steps=steps)))


def _save_trace(trace: Trace, path: Path, words: Words, steps: bool) -> None:
    write(trace, path)


_SAVES: dict[str, Callable[[Trace, Path, Words, bool], None]] = {
    ".svg": _as_text(svg),
    ".png": _save_png,
    ".md": _as_text(markdown),
    ".mmd": _as_text(mermaid),
    ".json": _save_trace,
    ".jsonl": _save_trace,
    ".shiviz": _as_text(shiviz),
}

ENDINGS = tuple(_SAVES)


def check_ending(path: Path | str) -> None:
    """Refuse a file name with an unknown suffix, before a long run instead of after it."""
    if Path(path).suffix.lower() not in _SAVES:
        raise ValueError(
            f"cannot tell what to write into {str(path)!r}: the name must end in"
            f" {', '.join(ENDINGS)}"
        )


def save(trace: Trace, path: Path | str, *, words: Words = ENGLISH, steps: bool = False) -> None:
    """Write the trace as a picture, a diagram in text, a log, or a trace file.

    `steps`: the times of the trace count steps, not microseconds.
    """
    check_ending(path)
    _SAVES[Path(path).suffix.lower()](trace, Path(path), words, steps)
