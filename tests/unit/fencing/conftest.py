"""A PostgreSQL server of the tests' own, on a Unix socket in a folder that only it and the tests
can enter.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from shlex import split
from typing import Any

import pytest
from tests.requirements import program

PATIENCE = 60


def as_another() -> tuple[int, int]:
    """The server refuses to be run by root: who is to run it."""
    if os.geteuid():
        return os.getuid(), os.getgid()
    names = {user.pw_name: user for user in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    return user.pw_uid, user.pw_gid


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """How to connect to it."""
    initdb, pg_ctl = (program("PostgreSQL", name) for name in ("initdb", "pg_ctl"))
    user, group = as_another()
    others: dict[str, Any] = (
        {"user": user, "group": group, "extra_groups": []} if not os.geteuid() else {}
    )
    with tempfile.TemporaryDirectory(prefix="habemus-", ignore_cleanup_errors=True) as folder:
        os.chown(folder, user, group)
        data = f"{folder}/data"
        settings = f"-c listen_addresses= -k {folder} -c fsync=off"

        def run(*command: str) -> None:
            options = {"cwd": folder, "timeout": PATIENCE, "check": False, **others}
            done = subprocess.run(command, capture_output=True, text=True, **options)
            assert done.returncode == 0, done.stdout + done.stderr

        run(initdb, "-D", data, *split("-U habemus -A trust -E UTF8 --no-locale --no-sync"))
        run(
            pg_ctl,
            "-D",
            data,
            "-l",
            f"{folder}/log",
            "-w",
            f"-t{PATIENCE}",
            "-o",
            settings,
            "start",
        )
        try:
            yield f"host={folder} user=habemus dbname=postgres"
        finally:
            run(pg_ctl, "-D", data, "-w", "-m", "immediate", "stop")
