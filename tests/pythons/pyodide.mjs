// Runs pytest in Pyodide: node pyodide.mjs PYODIDE ROOT PACKAGES [PYTEST ARGUMENT]...
// ROOT is mounted under its own path, and PACKAGES lies in it.
import { pathToFileURL } from "node:url";

const [folder, root, packages, ...given] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`));
const python = await loadPyodide({ indexURL: folder, env: { HOME: "/tmp", PYTHONDONTWRITEBYTECODE: "1" } });
python.FS.mkdirTree(root);
python.FS.mount(python.FS.filesystems.NODEFS, { root }, root);
python.globals.set("given", python.toPy({ root, packages, options: given }));
process.exitCode = python.runPython(`
import os, sys

os.chdir(given["root"])
sys.path[:0] = [given["root"], given["root"] + "/src", given["packages"]]

import pytest

own = ("habemus.testing.plugin", "tests.pythons.unsupported")
# Capturing descriptors needs a file without a name, which not every version of its file system has.
int(pytest.main(["--capture=sys", *(f"-p{each}" for each in own), *given["options"]]))
`);
