"""The public API: every name can be imported, is documented, and nothing else is public."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

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
