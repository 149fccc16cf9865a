"""The house rules that can be checked: imports run one way, and the pure side is pure."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.architecture.test_exports import PUBLIC

import habemus

SOURCE = Path(habemus.__file__).parent
ROOT = SOURCE.parent.parent
PURE = sorted(file for part in ("problems", "algorithms") for file in (SOURCE / part).rglob("*.py"))
FORBIDDEN_CALLS = {
    "open",
    "print",
    "input",
    "id",
    "hash",
    "exec",
    "eval",
    "setattr",
    "delattr",
    "globals",
    "vars",
    "float",
}


def test_imports_run_one_way() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_diagram_of_the_architecture_is_the_contract() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^```layers\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[0].splitlines()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [layers] = [each for each in settings["tool"]["importlinter"]["contracts"] if "layers" in each]
    assert drawn == layers["layers"]


def test_the_architecture_names_every_room() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z_/]+)` \| (.*)$", text, re.MULTILINE))
    rooms = {path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("__init__.py")}
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    public = {name.removeprefix("habemus.") for name in PUBLIC}
    assert set(rows) <= rooms | modules
    assert modules - public <= set(rows)
    for room in rooms - {"."} - set(rows):
        above, _, name = room.rpartition("/")
        is_divided = any(row.startswith(f"{room}/") for row in rows)
        assert is_divided or f"`{name}/`" in rows.get(above, ""), f"no row names {room}"


@pytest.mark.parametrize("file", PURE, ids=lambda file: str(file.relative_to(SOURCE)))
def test_the_pure_side_is_pure(file: Path) -> None:
    # A monitor's dicts are never captured and restored, so their order is that of the events; a
    # process's are.
    unordered = ("set[", "frozenset[") if file.name.endswith("_monitor.py") else UNORDERED
    assert mistakes_in(ast.parse(file.read_text(encoding="utf-8")), unordered) == []


ORDER_FREE = ("any", "all", "sum", "min", "max", "len", "set", "frozenset", "sorted")
UNORDERED = ("set[", "frozenset[", "dict[")


def mistakes_in(tree: ast.AST, unordered: tuple[str, ...] = UNORDERED) -> list[str]:
    found: list[str] = []
    indifferent: list[
        ast.expr
    ] = []  # generators whose order nobody sees; the walk meets a call before its arguments
    sets = {name for name, kind in _variables(tree) if kind.startswith(unordered)}
    mutable = {
        name: kind for name, kind in _variables(tree) if kind.startswith(("list[", "set[", "dict["))
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Global | ast.Nonlocal):
            found.append(f"line {node.lineno}: global or nonlocal")
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
                found.append(f"line {node.lineno}: {node.func.id}()")
            if any(
                isinstance(argument, ast.Name) and argument.id == "self" for argument in node.args
            ):
                found.append(f"line {node.lineno}: passes bare self")
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Attribute)
            and _is_self(node.value.value)
            and node.value.attr in mutable
        ):
            found.append(
                f"line {node.lineno}: two names for one {mutable[node.value.attr]}; copy it"
            )
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ORDER_FREE
        ):
            indifferent += node.args
        if node in indifferent:
            continue
        loops = (
            [node.iter]
            if isinstance(node, ast.For)
            else [each.iter for each in getattr(node, "generators", [])]
        )
        found += [
            f"line {looped.lineno}: loops over a set or dict without sorted()"
            for looped in loops
            if _is_unordered(looped, sets)
        ]
    return found


def _variables(tree: ast.AST) -> list[tuple[str, str]]:
    """The declared variables and their types."""
    declared = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    return [
        (ast.unparse(node.target), ast.unparse(node.annotation).removeprefix("Durable["))
        for node in declared
    ]


def _is_unordered(looped: ast.expr, sets: set[str]) -> bool:
    of_self = isinstance(looped, ast.Attribute) and _is_self(looped.value) and looped.attr in sets
    return of_self or isinstance(looped, ast.Set | ast.SetComp)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


@pytest.mark.parametrize(
    "code",
    [
        "def f(self): print(1)",
        "def f(self): helper(self)",
        (
            "class C:\n    waiting: set[int] = set()\n    def f(self):\n        for each in"
            " self.waiting: pass"
        ),
        (
            "class C:\n    replies: dict[int, int] = {}\n    def f(self):\n        return [x for x"
            " in self.replies]"
        ),
        "def f():\n    global x\n    x = 1",
        "for x in {1, 2}: pass",
        (
            "class C:\n    a: list[int] = []\n    b: list[int] = []\n    def f(self):\n       "
            " self.a = self.b"
        ),
    ],
)
def test_the_check_itself_finds_mistakes(code: str) -> None:
    assert mistakes_in(ast.parse(code))


def test_no_float_is_a_time() -> None:
    """No division gives a float where algorithms compute: integers only, or // ."""
    for file in PURE:
        if "algorithms" in file.parts:
            divisions = [
                node.lineno
                for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
            ]
            assert divisions == [], f"{file.name}, lines {divisions}"
