"""The first version of a user's algorithm and of its test, from the files in `templates`."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple


class BadName(ValueError):
    """The name cannot be that of a Python file, or the folder does not exist."""


class Template(NamedTuple):
    algorithm: str
    cls: str
    test: str


TEMPLATES = {
    "mutex": Template("mutex", "MyMutex", "checked"),
    "election": Template("election", "MyElection", "checked"),
    "detector": Template("detector", "MyDetector", "timed"),
}
TAKEN = {*sys.stdlib_module_names, "habemus", "pytest", "conftest"}
"""Names of modules that a file of that name would hide from its own test."""


def class_name(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def scaffold(problem: str, name: str, folder: Path) -> list[Path]:
    """Write NAME.py and test_NAME.py, and return their paths.  No file is overwritten."""
    _check(name)
    if not folder.is_dir():
        raise BadName(f"there is no folder {folder}")
    template = TEMPLATES[problem]
    texts = {
        folder / f"{name}.py": _text(template.algorithm).replace(template.cls, class_name(name)),
        folder / f"test_{name}.py": (
            _text(template.test).replace("MyAlgorithm", class_name(name)).replace("my_file", name)
        ),
    }
    for path in texts:
        if path.exists():
            raise FileExistsError(f"{path} exists already; choose another name or --folder")
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return list(texts)


def _check(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,60}", name) or keyword.iskeyword(name):
        near = (
            re.sub(r"\W+|_+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).strip("_").lower()
        )
        fits = re.fullmatch(r"[a-z][a-z0-9_]{0,60}", near) and not keyword.iskeyword(near)
        hint = f"did you mean {near}?" if fits else "write for example my_lock"
        raise BadName(
            f"{name!r} is not a name for a Python file: use small letters, digits and _; {hint}"
        )
    if name in TAKEN or name.startswith("test_"):
        raise BadName(
            f"{name}.py would be taken for another module; choose another name, for example"
            f" my_{name}"
        )


def _text(name: str) -> str:
    return files("habemus.testing.templates").joinpath(f"{name}.py").read_text(encoding="utf-8")
