"""A branch to take away: picture, trace, log, command, link, test, scenario."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from habemus.core.properties import Verdict
from habemus.lab.branches import Branch, LabError, SimulatedBranch
from habemus.lab.links import link_to
from habemus.runs.parsing import initial, label, option
from habemus.runs.setup import Setup
from habemus.traces import Trace
from habemus.traces.view import EVERYTHING, Selection


def exported(branch: Branch, form: str, begin: int | None, end: int | None) -> dict[str, Any]:
    """Return a branch in a form; the events from `begin` to `end` in pictures."""
    if form not in _FORMS:
        raise LabError(f"there is no form {form[:40]!r}; there are {', '.join(_FORMS)}")
    suffix, mime, make = _FORMS[form]
    made = make(branch, _window(branch, begin, end))
    content = (
        {"base64": base64.b64encode(made).decode()} if isinstance(made, bytes) else {"text": made}
    )
    return {"name": f"{_file_name(branch)}{suffix}", "mime": mime, **content}


def trace_of(branch: Branch) -> Trace:
    processes = branch.system.topology.processes
    return Trace(
        dict(branch.run),
        processes,
        {process: branch.system.label(process) for process in processes},
        tuple(branch.events),
        tuple(branch.findings()),
        branch.title,
    )


def _window(branch: Branch, begin: int | None, end: int | None) -> Selection:
    """Return the selection of the events between two of them, by their times."""
    if begin is None and end is None:
        return EVERYTHING
    events = branch.events
    first = None if begin is None else events[begin].time
    last = None if end is None else events[end].time
    return Selection(begin=first, end=last)


def _svg(branch: Branch, selection: Selection) -> str:
    from habemus.traces.diagram import svg

    return svg(trace_of(branch), selection=selection)


def _png(branch: Branch, selection: Selection) -> bytes:
    from habemus.traces.png import png

    return png(_svg(branch, selection))


def _mermaid(branch: Branch, selection: Selection) -> str:
    from habemus.traces.mermaid import mermaid

    return mermaid(trace_of(branch), selection=selection)


def _shiviz(branch: Branch, _: Selection) -> str:
    from habemus.traces.shiviz import shiviz

    return shiviz(trace_of(branch))


def _jsonl(branch: Branch, _: Selection) -> str:
    from habemus.traces.file import written

    return "".join(f"{line}\n" for line in written(trace_of(branch)))


def _perfetto(branch: Branch, _: Selection) -> str:
    from habemus.traces.perfetto import perfetto

    return perfetto(trace_of(branch))


def _command(branch: Branch, _: Selection) -> str:
    if not branch.command:
        raise LabError("this trace was recorded elsewhere and has no command")
    return f"{branch.command}\n"


def _link(branch: Branch, _: Selection) -> str:
    return link_of(branch)


def link_of(branch: Branch) -> str:
    """Return the verified link of a branch."""
    if not branch.command:
        raise LabError("this trace was recorded elsewhere; save it instead of a link to it")
    kind = branch.command.split()[1]
    return link_to(kind, branch.command, branch.events, getattr(branch, "continuation", ""))


# Tests and scenarios.


def _simulated(branch: Branch) -> SimulatedBranch:
    if not isinstance(branch, SimulatedBranch):
        raise LabError("only a simulated run becomes a scenario")
    return branch


def _pytest(branch: Branch, _: Selection) -> str:
    played: Callable[[], str] | None = getattr(branch, "as_test", None)
    if played is not None:
        return played()
    setup = _cut(_simulated(branch))
    arguments = "".join(f"        {text},\n" for text in _arguments(setup))
    violated = _violated(branch)
    if violated:
        told = "".join(f"    assert {name!r} in result.violated, result.why\n" for name in violated)
    else:
        told = "    assert not result.violated, result.why\n"
    return f'''"""Taken from the lab:

    {setup.command()}
"""

import habemus


def test_the_run_of_the_lab() -> None:
    result = habemus.simulate(
{arguments}    )
{told}    assert result.digest == {branch.digest!r}
'''


def _cut(branch: SimulatedBranch) -> Setup:
    """Return the run up to the last event of the branch."""
    if branch.ended is not None:
        return branch.setup
    return replace(branch.setup, events=max(1, branch.execution.simulation.delivered))


def _violated(branch: Branch) -> list[str]:
    return [each.name for each in branch.findings() if each.verdict is Verdict.VIOLATED]


def _arguments(setup: Setup) -> list[str]:
    """Return the arguments of `habemus.simulate` that are not defaults."""
    given = {each.name: getattr(setup, each.name) for each in fields(setup)[2:]}
    usual = {each.name: each.default for each in fields(setup)[2:]}
    told = {name: value for name, value in given.items() if value != usual[name]}
    if "options" in told:
        told["options"] = dict(map(option, told["options"]))
    if "labels" in told:
        told["labels"] = dict(map(label, told["labels"]))
    if "initial" in told:
        values: dict[int, dict[str, Any]] = {}
        for process, name, value in map(initial, told["initial"]):
            values.setdefault(process, {})[name] = value
        told["initial"] = values
    if "faults" in told:
        told["faults"] = [f"{kind} {text}" for kind, text in told["faults"]]
    return [
        repr(setup.algorithm),
        f"n={setup.n}",
        *(f"{name}={value!r}" for name, value in told.items()),
    ]


def _scenario(branch: Branch, _: Selection) -> str:
    setup = _cut(_simulated(branch))
    given = [
        f"{each.name}={getattr(setup, each.name)!r}"
        for each in fields(setup)[2:]
        if getattr(setup, each.name) != each.default
    ]
    inside = ", ".join([repr(setup.algorithm), str(setup.n), *given])
    violates = tuple(_violated(branch))
    return f"""from habemus.runs.setup import Setup
from habemus.scenarios.scenario import Scenario

SCENARIOS = (
    Scenario(
        "name-of-the-scenario",
        {branch.title!r},
        "What happens, and what to look at.",
        Setup({inside}),
        violates={violates!r},
    ),
)
"""


def _file_name(branch: Branch) -> str:
    name = branch.entry.name.rpartition("/")[2].replace(".py:", "-")
    return f"habemus-{name}"


_FORMS: dict[str, tuple[str, str, Callable[[Branch, Selection], str | bytes]]] = {
    "svg": (".svg", "image/svg+xml", _svg),
    "png": (".png", "image/png", _png),
    "mermaid": (".mmd", "text/plain", _mermaid),
    "shiviz": (".shiviz", "text/plain", _shiviz),
    "jsonl": (".json", "application/json", _jsonl),
    "perfetto": (".perfetto.json", "application/json", _perfetto),
    "pytest": (".py", "text/x-python", _pytest),
    "scenario": (".py", "text/x-python", _scenario),
    "command": (".sh", "text/plain", _command),
    "link": (".txt", "text/plain", _link),
}
