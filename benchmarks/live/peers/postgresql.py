"""Advisory locks of PostgreSQL, through psycopg."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
import zlib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.live.rival import Service, free_port, program


class PostgreSQL(Service):
    def __init__(self) -> None:
        super().__init__("PostgreSQL")
        self._home = ""

    def start(self, folder: Path) -> None:
        import_module("psycopg")
        places = [
            str(each) for each in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        ]
        initdb, postgres = (
            program("initdb", "postgresql", *places),
            program("postgres", "postgresql", *places),
        )
        self._home = tempfile.mkdtemp(
            prefix="habemus-bench-"
        )  # of another user: the server refuses to be run by root
        prefix: list[str] = []
        if not os.geteuid():
            user = pwd.getpwnam("postgres")
            os.chown(self._home, user.pw_uid, user.pw_gid)
            prefix = [
                "setpriv",
                f"--reuid={user.pw_uid}",
                f"--regid={user.pw_gid}",
                "--clear-groups",
            ]
        data = f"{self._home}/data"
        made = [
            *prefix,
            initdb,
            "-D",
            data,
            "-U",
            "bench",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "--no-sync",
        ]
        self.spawn(made, folder, lambda: Path(f"{data}/global/pg_control").exists())
        self._processes.pop().wait()
        port = free_port()
        self._place = f"host=127.0.0.1 port={port} user=bench dbname=postgres"
        listening = ["-p", f"{port}", "-k", self._home, "-c", "listen_addresses=127.0.0.1"]
        self.spawn([*prefix, postgres, "-D", data, *listening], folder, self._is_up)

    def _is_up(self) -> bool:
        psycopg = import_module("psycopg")
        try:
            psycopg.connect(self._place).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def door(self) -> Door:
        return Door(self._place)


@dataclass(frozen=True)
class Door:
    place: str

    def open(self) -> _Client:
        connection = import_module("psycopg").connect(
            self.place, autocommit=True, prepare_threshold=0
        )
        return _Client(connection)


class _Client:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def lock(self, name: str) -> _Lock:
        return _Lock(self._connection.cursor().execute, zlib.crc32(name.encode()))


class _Lock:
    def __init__(self, execute: Any, key: int) -> None:
        self._execute = execute
        self._key = (key,)

    def acquire(self) -> None:
        self._execute("SELECT pg_advisory_lock(%s)", self._key)

    def release(self) -> None:
        self._execute("SELECT pg_advisory_unlock(%s)", self._key)
