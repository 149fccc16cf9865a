"""A counterexample as a test, which fails as long as the algorithm violates the property on that
schedule.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from textwrap import wrap
from typing import Any

from habemus.core.words import counted
from habemus.runs.check import Check, CheckReport
from habemus.runtimes.checker.counterexample import STEP_US
from habemus.schedules.schedule import Step, schedule_of

WIDTH = 88
PLAYED = (
    "options",
    "initial",
    "over",
    "abstract",
    "refines",
    "entries",
    "network",
    "faults",
    "merging",
    "order",
    "outside",
)
"""The parameters of a check on which a schedule depends."""


def regression_test(report: CheckReport, folder: Path | None = None) -> str:
    """Return the text of the test, for a file in that folder (default: the current one)."""
    name = report.explained[0]
    trace, story = report.traces[name], report.stories[name]
    return schedule_test(
        Check.from_plain(trace.run["check"]),
        schedule_of(trace.events, story.steps),
        name,
        trace.findings[0].why,
        found_by=report.check.command(),
        loop=None if story.loop is None else story.loop // STEP_US - 1,
        folder=folder,
    )


def schedule_test(
    check: Check,
    steps: Sequence[Step],
    name: str,
    why: str,
    *,
    found_by: str,
    loop: int | None = None,
    folder: Path | None = None,
) -> str:
    """Return a test that plays the steps, and fails as long as they violate the property."""
    count = sum(step.kind != "start" for step in steps)
    text = "\n".join(map(str, steps))
    arguments, imports = _algorithm(check.algorithm, folder or Path())
    words = ", ".join(
        [
            arguments,
            str(check.n),
            "STEPS",
            *_bound(check),
            *([f"loop={loop}"] if loop is not None else []),
        ]
    )
    what = (
        f"{name} is violated in {counted(count, 'step')}"
        if loop is None
        else f"after {loop} steps a loop of {count - loop} violates {name}"
    )
    return f'''"""Found by:

    {found_by}

{_paragraph(f"{what[0].upper()}{what[1:]}: {why}.")}

{_paragraph(_MEANING)}
"""

{imports}from habemus.testing import play

STEPS = """
{text}
"""


def test_{_identifier(name)}_in_{count}_steps() -> None:
{_call(words)}
    assert "{name}" not in played.violated, played.violated["{name}"]
'''


_MEANING = (
    "The test fails for as long as the algorithm does this.  It passes when the schedule leads"
    " there no more, also if the algorithm has changed so much that it cannot follow the schedule:"
    " `played.diverged` then says from which step on."
)


def _paragraph(text: str) -> str:
    return "\n".join(wrap(text.replace("\\", "\\\\").replace('"', "'"), WIDTH))


def _call(words: str) -> str:
    """Return the call, broken into lines as a code formatter would."""
    line = f"    played = play({words})"
    if len(line) <= WIDTH:
        return line
    parts = re.split(r", (?=[a-z_]+=|STEPS|\d+, STEPS)", words)
    return "    played = play(\n" + "".join(f"        {part},\n" for part in parts) + "    )"


def _algorithm(name: str, folder: Path) -> tuple[str, str]:
    """Return the algorithm as an argument, and the import it needs.  The path of a file is relative
    to the test.
    """
    path, _, cls = name.rpartition(":")
    if not path:
        return f'"{name}"', ""
    beside = Path(os.path.relpath(path, folder)).as_posix()
    return f'Path(__file__).parent / "{beside}:{cls}"', "from pathlib import Path\n\n"


def _bound(check: Check) -> list[str]:
    """Return the arguments that are not defaults."""
    usual = {each.name: each.default for each in fields(check)}
    given = {name: getattr(check, name) for name in PLAYED}
    return [f"{name}={_literal(value)}" for name, value in given.items() if value != usual[name]]


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        inside = ", ".join(map(_literal, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return (
        '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        if isinstance(value, str)
        else repr(value)
    )


def _identifier(name: str) -> str:
    return re.sub(r"\W+", "_", name).lower()
