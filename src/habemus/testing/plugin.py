"""The pytest plugin: golden files, compared or rewritten.

    def test_conversation(golden):
        golden("central-three.txt", text)

`pytest --rewrite` writes the files instead of comparing; review the changes before you commit them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="rewrite golden files instead of comparing with them",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that compares a text with a file in the folder `golden` beside the test."""
    rewrite = bool(request.config.getoption("--rewrite"))
    folder = Path(request.path).parent / "golden"

    def compare(name: str, text: str) -> None:
        file = folder / name
        if rewrite:
            folder.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        assert file.exists(), (
            f"{file} does not exist; run pytest with --rewrite and review the new file"
        )
        assert text == file.read_text(encoding="utf-8"), (
            f"{file} differs; if that is right, run pytest with --rewrite"
        )

    return compare
