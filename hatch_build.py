"""The build of a wheel: pure Python, or with the modules of `habemus.runtimes.compiled` compiled.

    HABEMUS_COMPILE=1 pip install '.[live]'

The compiled modules lie beside their sources, and are found before them; tracebacks name the files
and lines of the sources.
"""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import sysconfig
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ASKED = os.environ.get("HABEMUS_COMPILE", "0") not in ("", "0")
TOOLS = ("mypy", "msgspec", "setuptools")
"""What the compilation needs, at the versions in constraints.txt; of msgspec only the types."""


class Compilation(BuildHookInterface[BuilderConfig]):
    def dependencies(self) -> list[str]:
        pinned = Path(self.root, "constraints.txt").read_text(encoding="utf-8").splitlines()
        return [line for line in pinned if line.partition("==")[0] in TOOLS] if ASKED else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not ASKED:
            return
        if version == "editable":
            self.app.abort(
                "HABEMUS_COMPILE=1: an editable install runs the sources as they stand; to compile"
                " them, install without -e"
            )
        compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "")
        if compiler and shutil.which(compiler[0]) is None:
            self.app.abort(
                f"HABEMUS_COMPILE=1: there is no C compiler {compiler[0]}; install one, or install"
                " without HABEMUS_COMPILE"
            )
        self._folder = tempfile.mkdtemp(prefix="habemus-")
        build_data["force_include"] |= {
            str(file): str(place) for place, file in self._compiled().items()
        }
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if ASKED:
            shutil.rmtree(self._folder)

    def _compiled(self) -> dict[Path, Path]:
        """By their places in the wheel: one library with all the code, and for each module a small
        one that leads to it.
        """
        from mypyc.build import mypycify
        from setuptools import Distribution
        from setuptools.errors import CCompilerError

        source = Path(self.root, "src")
        modules = runpy.run_path(str(source / "habemus/runtimes/compiled.py"))["MODULES"]
        made = Path(self._folder, "made")
        # From where the sources lie: the paths of tracebacks begin there.
        with chdir(source):
            extensions = mypycify(
                [
                    f"--config-file={Path(self.root, 'pyproject.toml')}",
                    f"--cache-dir={Path(self._folder, 'cache')}",
                    "--follow-imports=silent",
                    *(f"{module.replace('.', '/')}.py" for module in modules),
                ],
                target_dir=str(Path(self._folder, "c")),
                group_name="habemus.runtimes.compiled",
                debug_level="0",
                opt_level="2",  # with 3 a lock and release takes 2 to 4 % more processor time
            )
            distribution = Distribution({"name": "habemus", "ext_modules": extensions})
            command = distribution.get_command_obj("build_ext")
            command.build_lib, command.build_temp = str(made), str(Path(self._folder, "objects"))
            command.ensure_finalized()
            try:
                command.run()
            except CCompilerError as reason:
                self.app.abort(f"HABEMUS_COMPILE=1: the C compiler failed: {reason}")
        return {file.relative_to(made): file for file in made.rglob("*") if file.is_file()}
