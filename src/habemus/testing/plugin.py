"""The pytest plugin: golden files, compared or written anew.

    def test_conversation(golden):
        golden("central-three.txt", text)

`pytest --rewrite` writes the files instead of comparing; look at the difference before you commit
it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write golden files anew instead of comparing with them",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with the file of that name in the folder `golden` beside the test."""
    rewrite = bool(request.config.getoption("--rewrite"))
    folder = Path(request.path).parent / "golden"

    def compare(name: str, text: str) -> None:
        file = folder / name
        if rewrite:
            folder.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        assert file.exists(), (
            f"{file} does not exist; run pytest with --rewrite and look at what it wrote"
        )
        assert text == file.read_text(encoding="utf-8"), (
            f"{file} differs; if that is right, run pytest with --rewrite"
        )

    return compare
