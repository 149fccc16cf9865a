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


def test_importing_habemus_loads_nothing_else() -> None:
    script = "import sys, habemus; print([name for name in sys.modules if 'habemus.' in name])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_dir_lists_the_public_names() -> None:
    assert set(habemus.__all__) <= set(dir(habemus))
