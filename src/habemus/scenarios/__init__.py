"""Named runs with a known outcome: every module here lists some as `SCENARIOS`."""

import importlib
import pkgutil
import re
from dataclasses import replace
from functools import cache

from habemus.core.words import did_you_mean
from habemus.scenarios.scenario import Scenario, ScenarioOutcome, UnknownScenario


@cache
def scenarios() -> dict[str, Scenario]:
    """Return all scenarios by name."""
    found: dict[str, Scenario] = {}
    for module_info in pkgutil.iter_modules(__path__, f"{__name__}."):
        module = importlib.import_module(module_info.name)
        for scenario in getattr(module, "SCENARIOS", ()):
            if scenario.name in found:
                raise ValueError(f"two scenarios are called {scenario.name}")
            found[scenario.name] = replace(scenario, chapter=_chapter(module.__doc__ or ""))
    return found


def _chapter(docstring: str) -> str:
    """Return what the scenarios of a module are about: "Scenarios of leader election." """
    about = re.split(r"[.:]", docstring, maxsplit=1)[0].removeprefix("Scenarios of ")
    return f"{about[:1].upper()}{about[1:]}"


def find(name: str) -> Scenario:
    known = scenarios()
    if name not in known:
        hint = did_you_mean(name, known, "habemus scenario lists all")
        raise UnknownScenario(f"there is no scenario {name}; {hint}")
    return known[name]


__all__ = ["Scenario", "ScenarioOutcome", "UnknownScenario", "find", "scenarios"]
