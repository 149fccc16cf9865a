"""Which cluster is meant when nobody names one: what `habemus up` left here, or left last.

What nobody named is trusted only if no other user can have put it there: a folder that belongs to
this user, is no link, and cannot be written to by others.

Everything here is needed before a lock can be asked for, by a command that should not take longer
than it takes to start Python: so it imports nothing that is not there anyway.
"""

from __future__ import annotations

import os

FOLDER = ".habemus"
SOCKET = ".sock"
SECRET = "secret"
"""The name of the file, in the folder of `habemus up`, that has the cluster's secret."""


def last_file() -> str:
    """Where `habemus up` writes down which folder it used last."""
    home = os.path.expanduser("~")  # noqa: PTH111
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")  # noqa: PTH118
    return os.path.join(state, "habemus", "last")  # noqa: PTH118  # pathlib takes longer to load than all of this


def cluster_meant(named: str | None) -> str:
    """As named, or as HABEMUS_CLUSTER says, or what `habemus up` left; nothing if there is none of
    these.

    `ValueError` for an empty name: a variable that was never set must not lead to another cluster.
    """
    said = os.environ.get("HABEMUS_CLUSTER") if named is None else named
    if said is None:
        return _left_here() or _left_last()
    if not said.strip():
        name = "HABEMUS_CLUSTER" if named is None else "the name of the cluster"
        raise ValueError(f"{name} is empty: give addresses, a socket, a cluster.toml or a folder")
    return said


def sockets_in(folder: str) -> list[str]:
    """Of the nodes that are, or were, up in the folder."""
    return [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.endswith(SOCKET)]  # noqa: PTH208


def check_own(path: str) -> None:
    """`ValueError` unless the file or folder is this user's, no link, and closed to the writing of
    others.
    """
    found = os.lstat(path)
    if found.st_mode & 0o170000 == 0o120000:
        raise ValueError(
            f"{path} is a link, and nobody can tell who made it: name what it leads to"
        )
    if found.st_uid != os.geteuid():
        raise ValueError(
            f"{path} belongs to another user (uid {found.st_uid}): name the cluster that you mean"
        )
    if found.st_mode & 0o022:
        raise ValueError(
            f"{path} can be written to by other users (mode {found.st_mode & 0o777:o}): run chmod"
            f" go-w {path}"
        )


def _left_here() -> str:
    if not os.path.isdir(FOLDER):  # noqa: PTH112
        return ""
    check_own(FOLDER)
    return FOLDER


def _left_last() -> str:
    try:
        with open(last_file(), encoding="utf-8") as file:  # noqa: PTH123
            folder = file.read().strip()
        check_own(folder)
    except OSError:
        return ""
    return folder
