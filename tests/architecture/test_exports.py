"""The public API: every name can be imported, is documented, and nothing else is public."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import habemus

PUBLIC = (
    "habemus",
    "habemus.algorithm",
    "habemus.faults",
    "habemus.fencing",
    "habemus.fencing.async_postgresql",
    "habemus.fencing.postgresql",
    "habemus.fencing.sqlite",
    "habemus.redis",
    "habemus.testing",
)
"""The modules that users import from; docs/api.md lists what they have."""


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_there_and_documented(module: str) -> None:
    found = importlib.import_module(module)
    assert found.__doc__
    assert sorted(found.__all__) == sorted(set(found.__all__))
    for name in found.__all__:
        member = getattr(found, name)
        if inspect.isclass(member) or inspect.isfunction(member):
            assert inspect.getdoc(member), f"{module}.{name} has no docstring"


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lock'"):
        _ = habemus.lock


def test_the_version_is_that_of_the_installation() -> None:
    assert habemus.__version__ == metadata.version("habemus")


def loaded_by(module: str) -> list[str]:
    """Return the modules of habemus that a new interpreter loads for this one."""
    script = f"import sys, {module}; print(*(n for n in sys.modules if n.startswith('habemus')))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return sorted(done.stdout.split())


def test_importing_habemus_loads_nothing_else() -> None:
    assert loaded_by("habemus") == ["habemus"]


def test_the_pytest_plugin_loads_nothing_else_of_habemus() -> None:
    """Pytest imports it in every project that has habemus installed, perhaps without extras."""
    plugin = "habemus.testing.plugin"
    assert loaded_by(plugin) == ["habemus", "habemus.testing", plugin]


def test_dir_lists_the_public_names() -> None:
    assert set(habemus.__all__) <= set(dir(habemus))


def test_an_algorithm_needs_only_public_names() -> None:
    """The token ring, with what `habemus.algorithm` exports in place of its imports."""
    file = Path(habemus.__file__).parent / "algorithms" / "mutex" / "token_ring.py"
    _, _, code = file.read_text(encoding="utf-8").partition("\nclass ")
    names = "from collections.abc import Sequence\nfrom typing import Any\n"
    scope: dict[str, Any] = {"__name__": "mine"}
    exec(f"{names}from habemus.algorithm import *\nclass {code}", scope)
    assert habemus.simulate(scope["TokenRing"], n=3).verdict is habemus.Verdict.HOLDS
