"""A class name occurs once in the package, so that a reader knows which class is meant.

Algorithm files keep the words of their literature (Request, Reply, Token), and so do the templates
of user algorithms.
"""

import ast
from collections import defaultdict
from pathlib import Path

import habemus

SOURCE = Path(habemus.__file__).parent
WORDS_OF_LITERATURE = ("algorithms/", "testing/templates/")


def test_a_class_name_occurs_once() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        path = file.relative_to(SOURCE).as_posix()
        if not path.startswith(WORDS_OF_LITERATURE):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(f"{path}:{node.lineno}")
    twice = {name: places for name, places in found.items() if len(places) > 1}
    assert not twice, f"class names that occur more than once: {twice}"
