"""That mypyc can compile what is said to be compiled, and would not misread it.  Only its front end
runs here: no C compiler.

`make test-compiled` compiles, and runs the tests of the live side on the result.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from habemus.runtimes.compiled import MODULES

SOURCE = Path(__file__).parents[2] / "src"
FRONT_END = """
import sys
from mypyc.build import mypycify

folder, config, *files = sys.argv[1:]
options = [f"--config-file={config}", f"--cache-dir={folder}/cache", "--follow-imports=silent"]
mypycify([*options, *files], target_dir=f"{folder}/c", group_name="habemus.runtimes.compiled")
"""
WORD_OF_C = re.compile(
    "__(alignof|asm|attribute|auto_type|complex|const|imag|inline|int128|label|real|restrict|signed|thread|typeof|volatile)(__)?"
    "|_(Alignas|Alignof|Atomic|Bool|Complex|Generic|Imaginary|Noreturn|Static_assert|Thread_local)"
)


def read_by_mypyc(folder: Path, source: Path, *files: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-c",
        FRONT_END,
        str(folder),
        str(SOURCE.parent / "pyproject.toml"),
        *files,
    ]
    return subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)


def misread(tree: ast.AST) -> list[str]:
    """What the front end takes, and gets wrong.

    The keywords of a class get lost; `_` before an attribute may make it a word of C; and a tuple
    is not the same one after a call, so nothing may depend on which one it is.
    """
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found += [
                f"line {node.lineno}: {node.name} has {each.arg}="
                for each in node.keywords
                if each.arg != "metaclass"
            ]
        if isinstance(node, ast.Attribute) and WORD_OF_C.fullmatch(f"_{node.attr}"):
            found.append(f"line {node.lineno}: an attribute {node.attr}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "id":
            found.append(f"line {node.lineno}: id()")
    return found


def file_of(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def test_mypyc_takes_all_modules(tmp_path: Path) -> None:
    done = read_by_mypyc(tmp_path, SOURCE, *map(file_of, MODULES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypyc_would_say_what_it_cannot_take(tmp_path: Path) -> None:
    (tmp_path / "sinner.py").write_text("class Failed(RuntimeError):\n    pass\n")
    done = read_by_mypyc(tmp_path, tmp_path, "sinner.py")
    assert done.returncode != 0
    assert (
        "sinner.py:1: error: Inheriting from most builtin types is unimplemented"
        in done.stdout + done.stderr
    )


@pytest.mark.parametrize("module", MODULES)
def test_nothing_would_be_misread(module: str) -> None:
    assert misread(ast.parse((SOURCE / file_of(module)).read_text(encoding="utf-8"))) == []


def test_what_would_be_misread_is_found() -> None:
    source = (
        "class Hello(Struct, tag='hello'):\n    def start(self):\n        self._thread ="
        " id(self.thread)\n"
    )
    assert sorted(misread(ast.parse(source))) == [
        "line 1: Hello has tag=",
        "line 3: an attribute _thread",
        "line 3: id()",
    ]


def test_no_algorithm_is_compiled() -> None:
    assert [
        module
        for module in MODULES
        if module.startswith("habemus.algorithms") or find_spec(module) is None
    ] == []
