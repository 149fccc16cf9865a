"""The conformance suite, for algorithms of the catalog and your own, schedules to play in tests,
and clusters for tests of programs.

Names are loaded when they are first used: pytest imports this package in every project that has
habemus installed, for the plugin.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from habemus.testing.clusters import NodeProcesses
    from habemus.testing.conformance import (
        CHECKS,
        check_detector,
        check_election,
        check_mutex,
        entry_of,
    )
    from habemus.testing.schedules import Played, play

__all__ = [
    "CHECKS",
    "NodeProcesses",
    "Played",
    "check_detector",
    "check_election",
    "check_mutex",
    "entry_of",
    "play",
]

_MODULES = {"NodeProcesses": "clusters", "Played": "schedules", "play": "schedules"}
"""The modules of the names that are not in `conformance`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'habemus.testing' has no attribute {name!r}")
    home = importlib.import_module(f"habemus.testing.{_MODULES.get(name, 'conformance')}")
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
