"""Errors of an algorithm become one line with its place; errors of habemus keep their traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from habemus.core.mistakes import hint
from habemus.core.process import MistakeInAlgorithm, MistakeInPlan, Process, ProcessType

HABEMUS = Path(__file__).parents[1]
LIBRARY = Path(traceback.__file__).parent  # of Python; it may be an archive
ALGORITHMS = (HABEMUS / "algorithms", HABEMUS / "problems")


@contextmanager
def attribute_to_algorithm() -> Iterator[None]:
    """Turn an exception that a method of an algorithm raises into a `MistakeInAlgorithm` with its
    place.
    """
    try:
        yield
    except MistakeInPlan:
        raise
    except MistakeInAlgorithm as mistake:
        error = mistake.__cause__ or mistake
        at = _place(error)
        if not at or str(mistake).startswith(f"{at}: "):  # which an inner one has done
            raise
        raise MistakeInAlgorithm(f"{at}: {mistake}{_hint(error)}") from mistake
    except (Exception, SystemExit) as error:
        at = _place(error)
        if at and any(map(_is_method, _own_frames(error))):
            text = f"{type(error).__name__}: {error}{_hint(error)}"
            raise MistakeInAlgorithm(f"{at}: {text}") from error
        raise


def _hint(error: BaseException) -> str:
    """Return a hint for the author of the process whose handler raised the error, or ""."""
    processes = [
        frame.f_locals["self"]
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if isinstance(frame.f_locals.get("self"), Process)
    ]
    return hint(error, processes[-1]) if processes else ""


def _place(error: BaseException) -> str:
    """Return the last place of the algorithm's own code on the way to the error."""
    places = [
        f"{Path(frame.f_code.co_filename).name}, line {line}, in {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_own(frame)
    ]
    return places[-1] if places else ""


def _own_frames(error: BaseException) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__) if _is_own(frame)]


def _is_method(frame: FrameType) -> bool:
    """Return whether code is a method of a process, or of its class."""
    code = frame.f_code
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    return isinstance(first, Process | ProcessType)


def _is_own(frame: FrameType) -> bool:
    """Return whether code belongs to an algorithm: not to habemus, Python, or generated code."""
    path = Path(frame.f_code.co_filename)
    if path.is_relative_to(HABEMUS):
        return any(path.is_relative_to(each) for each in ALGORITHMS)
    in_library = path.is_relative_to(LIBRARY) and "site-packages" not in path.parts
    return not in_library and not str(path).startswith("<")
