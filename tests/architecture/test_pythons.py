"""Each version of Python that the package names has a target of make that tests it."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PURE = "3.12"
"""By `make test-pythons`; the others are those of Debian's suites, by `make test-debian`."""
SUITES = {"bookworm": "3.11", "trixie": "3.13", "forky": "3.14"}


def test_every_version_that_the_package_names_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert named[0] == project["requires-python"].removeprefix(">=")
    assert named == sorted((PURE, *SUITES.values()))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"--python-version {PURE}" in makefile and all(suite in makefile for suite in SUITES)
