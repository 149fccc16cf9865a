"""What targets of the Makefile need beside Python packages, and Debian's packages that bring it.

    python3 tests/requirements.py check TARGET      fail if something is absent
    python3 tests/requirements.py install TARGET    install what is absent, as root

This file needs the standard library only: it runs before there is a virtual environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

FOLDERS = (
    *os.environ.get("PATH", "").split(os.pathsep),
    *("/usr/sbin", "/usr/bin", "/usr/share/java"),
    *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)),
)


class Requirement(NamedTuple):
    files: tuple[str, ...]
    """Programs and archives, all of which are used."""
    packages: tuple[str, ...]
    """Debian's packages that bring them."""


REQUIREMENTS = {
    "Chromium": Requirement(("chromium",), ("chromium", "fonts-liberation")),
    "PostgreSQL": Requirement(("initdb", "pg_ctl", "postgres"), ("postgresql",)),
    "PgBouncer": Requirement(("pgbouncer",), ("pgbouncer",)),
    "Redis": Requirement(("redis-server",), ("redis-server",)),
    "etcd": Requirement(("etcd",), ("etcd-server",)),
    "ZooKeeper": Requirement(("java", "zookeeper.jar"), ("zookeeper", "default-jre-headless")),
    "Prometheus": Requirement(("prometheus", "promtool"), ("prometheus",)),
    "curl": Requirement(("curl",), ("curl",)),
    "Spin": Requirement(("spin",), ("spin",)),
    "gcc": Requirement(("gcc",), ("gcc", "libc6-dev")),
    "iproute2": Requirement(("ip",), ("iproute2",)),
    "npm": Requirement(("node", "npm"), ("nodejs", "npm")),
    "debootstrap": Requirement(("debootstrap",), ("debootstrap",)),
}
ENGINES = ("PostgreSQL", "Redis", "etcd", "ZooKeeper")
TARGETS = {
    "test": ("Chromium", "PostgreSQL", "PgBouncer", "Redis"),
    "test-engines": ENGINES,
    "test-prometheus": ("Prometheus", "curl"),
    "test-namespaces": ("iproute2",),
    "test-pgbouncer": ("debootstrap", "PostgreSQL"),
    "test-debian": ("debootstrap",),
    "lint-page": ("npm",),
    "bench-check": ("Spin", "gcc"),
    "bench-lab": ("Chromium",),
    "bench-live": ENGINES,
}


def find(file: str) -> str | None:
    """Return the path of a program or of an archive."""
    return shutil.which(file, os.F_OK, os.pathsep.join(FOLDERS))


def absent(target: str) -> list[str]:
    """Return what a target needs and this machine does not have."""
    return [name for name in TARGETS[target] if not all(map(find, REQUIREMENTS[name].files))]


def joined(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def program(name: str, file: str) -> str:
    """Return the path of a file of a requirement; skip the test if the requirement is absent."""
    import pytest

    found = [find(each) for each in REQUIREMENTS[name].files]
    if None in found:
        pytest.skip(reason(name))
    return str(found[REQUIREMENTS[name].files.index(file)])


def reason(name: str) -> str:
    return f"{name} is absent"


def left_out(reasons: list[str]) -> str | None:
    """Return the line that says what skipped tests lacked, and how to install that."""
    skipped = {reason(name): name for name in REQUIREMENTS}
    count = sum(each in skipped for each in reasons)
    names = [name for each, name in skipped.items() if each in reasons]
    if not names:
        return None
    target = next(key for key, needs in TARGETS.items() if {*names} <= {*needs, *TARGETS["test"]})
    return (
        f"left out: {count} tests that need {joined(names)};"
        f" as root, `make {target}-deps` installs what they need"
    )


def install(target: str, names: list[str]) -> None:
    """Install Debian's packages; exit with one line if that is impossible here."""
    packages = [package for name in names for package in REQUIREMENTS[name].packages]
    if shutil.which("apt-get") is None:
        sys.exit(f"make {target}-deps needs Debian's apt-get: install {joined(names)} yourself")
    if os.geteuid():
        sys.exit(f"make {target}-deps needs root: it installs Debian's {joined(packages)}")
    # dpkg needs programs that an ordinary user does not have on the path.
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"
    environment = {**os.environ, "PATH": path, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        words = ["apt-get", "-qq", *command]
        if subprocess.run(words, env=environment, stdout=subprocess.DEVNULL).returncode:
            sys.exit(f"{' '.join(words)} failed")


def main(action: str, target: str) -> None:
    """Check or install what a target needs; exit with one line if that fails."""
    if target not in TARGETS:
        sys.exit(f"make {target} needs no packages of Debian; these do: {', '.join(TARGETS)}")
    names = absent(target)
    if names and action == "check":
        sys.exit(f"make {target} needs {joined(names)}: as root, `make {target}-deps`")
    if names:
        install(target, names)


if __name__ == "__main__":
    main(*sys.argv[1:])
