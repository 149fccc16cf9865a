"""`tests/unit` mirrors `src/habemus`: the tests of a module stand in the folder of its package.

A test may have the name of a behaviour instead of that of a module, but a folder has the name of a
package, and a test that has the name of a module stands where the module does, or
in the package of that name.
"""

from pathlib import Path

import habemus

SOURCE = Path(habemus.__file__).parent
UNIT = Path(__file__).parents[1] / "unit"


def test_unit_tests_mirror_the_source() -> None:
    modules = {
        path.relative_to(SOURCE).with_suffix("")
        for path in SOURCE.rglob("*")
        if path.suffix == ".py" or (path.is_dir() and path.name != "__pycache__")
    }
    names = {module.name.strip("_") for module in modules}
    tests = [path.relative_to(UNIT) for path in sorted(UNIT.rglob("test_*.py"))]
    assert tests
    strange = {test.parent for test in tests} - {*modules, Path()}
    assert not strange, f"folders of tests that are not packages: {sorted(strange)}"
    places = {(module.parent, module.name.strip("_")) for module in modules}
    misplaced = [
        str(test)
        for test in tests
        if (name := test.stem.removeprefix("test_")) in names - {test.parent.name}
        and (test.parent, name) not in places
    ]
    assert not misplaced, f"tests of modules that are elsewhere: {misplaced}"
