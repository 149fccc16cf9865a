"""Run the tests of the pure part under every Python that habemus supports beside the one at hand.

    python -m tests.pythons [3.14 ...]

A `python3.N` on the path is used if there is one.  Otherwise it is Pyodide, CPython compiled to
WebAssembly, from npm under node; tests that need processes, threads or a compiled package are not
run there. One line per version says what ran.  Exit code 1: a test failed; 2: a version could not
be run.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "pythons"
PYODIDE = {"3.12": "0.27.7", "3.13": "0.29.5", "3.14": "314.0.7"}
UNIT = (
    "core",
    "problems",
    "algorithms",
    "runtimes/sim",
    "traces",
    "catalog",
    "runs",
)
TESTS = (*(f"tests/unit/{name}" for name in UNIT), "tests/scenarios")
NEEDS = ("pytest", "hypothesis", "click", "rich")
STACK = 1 << 29
"""Bytes.  Python's recursion limit lies far above what node's usual stack holds."""
LIMIT_SECONDS = 3600.0


class CannotRun(Exception):
    """There is no such interpreter, or it could not be set up."""


@dataclass(frozen=True)
class Outcome:
    interpreter: str
    passed: int
    failed: int
    skipped: int

    def __str__(self) -> str:
        told = f"{self.interpreter}: {self.passed} passed"
        if self.skipped:
            told += f", {self.skipped} not run there"
        return told + (f", {self.failed} FAILED" if self.failed else "")


def main(versions: list[str]) -> int:
    unknown = [each for each in versions if each not in PYODIDE]
    if unknown:
        sys.stderr.write(f"no such version: {unknown[0]}; there are {', '.join(PYODIDE)}\n")
        return 2
    _raise_stack_limit()
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        codes = list(pool.map(_tell, versions or list(PYODIDE)))
    return 1 if 1 in codes else max(codes)


def _tell(version: str) -> int:
    """Run one version, say in a line what came of it, and return its exit code."""
    try:
        outcome = run(version)
    except CannotRun as reason:
        sys.stdout.write(f"Python {version}: NOT RUN: {reason}\n")
        return 2
    sys.stdout.write(f"{outcome}\n")
    if not outcome.failed:
        return 0
    sys.stdout.write(f"see {_log(version)}\n")
    return 1


def run(version: str) -> Outcome:
    BUILD.mkdir(parents=True, exist_ok=True)
    results = BUILD / f"{version}.xml"
    results.unlink(missing_ok=True)
    python = _interpreter(version)
    command, name = (_native(python, version), "") if python else _pyodide(version)
    options = ["-p", "no:cacheprovider", f"--junitxml={results}", *TESTS]
    with _log(version).open("w") as log:
        limit = LIMIT_SECONDS
        subprocess.run(
            [*command, *options], cwd=ROOT, stdout=log, stderr=log, timeout=limit, check=False
        )
    return _outcome(version, name, results)


def _outcome(version: str, name: str, results: Path) -> Outcome:
    found = re.search(r"-- Python (\S+?),", _log(version).read_text(errors="replace"))
    if found is None or not results.exists():
        raise CannotRun(f"it ended without a result; see {_log(version)}")
    if not found[1].startswith(f"{version}."):
        raise CannotRun(f"this is Python {found[1]}")
    suite = ElementTree.parse(results).getroot().find("testsuite")
    assert suite is not None
    tests, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    if tests == skipped:
        raise CannotRun(f"no test was run; see {_log(version)}")
    return Outcome(f"Python {found[1]}{name}", tests - skipped - failed, failed, skipped)


def _interpreter(version: str) -> str | None:
    """The interpreter on the path, if it can be started: it may be the empty shell of a version
    manager.
    """
    found = shutil.which(f"python{version}")
    if found is None:
        return None
    starts = (
        subprocess.run(
            [found, "-c", "import venv"], capture_output=True, timeout=60, check=False
        ).returncode
        == 0
    )
    return found if starts else None


def _native(python: str, version: str) -> list[str]:
    folder = BUILD / f"venv-{version}"
    _set_up(python, "-m", "venv", str(folder))
    pip = (
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    )
    _set_up(*pip, "-c", "constraints.txt", "-e", ".[check,live]", *NEEDS)
    return [str(folder / "bin" / "python"), "-m", "pytest"]


def _pyodide(version: str) -> tuple[list[str], str]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise CannotRun(
            f"there is no python{version} on the path, and no node with npm for Pyodide"
        )
    folder = BUILD / f"pyodide-{version}"
    _set_up(
        npm,
        "install",
        "--silent",
        "--no-save",
        "--prefix",
        str(folder),
        f"pyodide@{PYODIDE[version]}",
    )
    packages = BUILD / f"packages-{version}"
    if not packages.exists():
        pure = (
            "--only-binary",
            ":all:",
            "--implementation",
            "py",
            "--abi",
            "none",
            "--platform",
            "any",
        )
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        made = packages.with_name(f"{packages.name}.new")
        shutil.rmtree(made, ignore_errors=True)  # from an installation that was interrupted
        _set_up(*pip, "--target", str(made), "--python-version", version, *pure, *NEEDS)
        made.rename(packages)
    stack = f"--stack-size={_raise_stack_limit() * 3 // 4 // 1024}"
    script = Path(__file__).with_name("pyodide.mjs")
    pyodide = folder / "node_modules" / "pyodide"
    return [
        node,
        stack,
        str(script),
        str(pyodide),
        str(ROOT),
        str(packages),
    ], f" (Pyodide {PYODIDE[version]})"


def _raise_stack_limit() -> int:
    """Let node have a large stack, and return how large it can be."""
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    size = STACK if hard == resource.RLIM_INFINITY else min(STACK, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (size, hard))
    return size


def _set_up(*command: str) -> None:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )
    if done.returncode:
        last = (
            done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        ).splitlines()[-1]
        raise CannotRun(f"{Path(command[0]).name} failed: {last}")


def _log(version: str) -> Path:
    return BUILD / f"{version}.log"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
