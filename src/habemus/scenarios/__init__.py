"""Named runs with a known outcome: every module here lists some as `SCENARIOS`."""

import importlib
import pkgutil
from functools import cache

from habemus.scenarios.scenario import Scenario, ScenarioOutcome, UnknownScenario, suggest


@cache
def scenarios() -> dict[str, Scenario]:
    """Return all scenarios by name."""
    found: dict[str, Scenario] = {}
    for module_info in pkgutil.iter_modules(__path__, f"{__name__}."):
        for scenario in getattr(importlib.import_module(module_info.name), "SCENARIOS", ()):
            if scenario.name in found:
                raise ValueError(f"two scenarios are called {scenario.name}")
            found[scenario.name] = scenario
    return found


def find(name: str) -> Scenario:
    known = scenarios()
    if name not in known:
        raise suggest(name, list(known))
    return known[name]


__all__ = ["Scenario", "ScenarioOutcome", "UnknownScenario", "find", "scenarios"]
