"""A mistake in somebody's algorithm is told with its line, in one sentence; a mistake in this
program is not hidden behind it.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from habemus.core.process import MistakeInAlgorithm, MistakeInPlan

CORE = ("habemus", "core")


@contextmanager
def attribute_to_algorithm() -> Iterator[None]:
    """Whatever a handler raises inside is a `MistakeInAlgorithm` that says where."""
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
    """The last folders and the file: that of a compiled module has no others, and is not where the
    module was loaded from.
    """
    return Path(frame.filename).parts[-3:]
