"""Errors of an algorithm become one line with its place; errors of habemus keep their traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from habemus.core.process import MistakeInAlgorithm, MistakeInPlan

CORE = ("habemus", "core")


@contextmanager
def attribute_to_algorithm() -> Iterator[None]:
    """Turn an exception that a handler raises into a `MistakeInAlgorithm` with its place."""
    try:
        yield
    except (MistakeInAlgorithm, MistakeInPlan):
        raise
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        if any(_place(frame) == (*CORE, "node.py") for frame in frames):
            where = [frame for frame in frames if _place(frame)[:-1] != CORE][-1]
            at = f"{Path(where.filename).name}, line {where.lineno}, in {where.name}"
            raise MistakeInAlgorithm(f"{at}: {type(error).__name__}: {error}") from error
        raise


def _place(frame: traceback.FrameSummary) -> tuple[str, ...]:
    """Return the last folders and the file.  The path of a compiled module has no others."""
    return Path(frame.filename).parts[-3:]
