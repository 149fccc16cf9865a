"""The default cluster: the one that `habemus up` started in this folder, or started last.

A default is used only if no other user can have put it there: a folder that belongs to this user,
is no symbolic link, and is not writable by others.

`habemus lock` imports this module before it asks for a lock, and should not take longer than Python
takes to start: so only modules that are loaded anyway are imported here.
"""

from __future__ import annotations

import os

FOLDER = ".habemus"
SOCKET = ".sock"
SECRET = "secret"
"""Name of the secret file in the folder of `habemus up`."""


def last_file() -> str:
    """Return the path of the file in which `habemus up` notes its folder."""
    home = os.path.expanduser("~")
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    return os.path.join(state, "habemus", "last")


def cluster_meant(named: str | None) -> str:
    """Return the named cluster, that of HABEMUS_CLUSTER, or the default; empty if there is none.

    Raise `ValueError` for an empty name: an unset variable must not select another cluster.
    """
    found = os.environ.get("HABEMUS_CLUSTER") if named is None else named
    if found is None:
        return _left_here() or _left_last()
    if not found.strip():
        name = "HABEMUS_CLUSTER" if named is None else "the name of the cluster"
        raise ValueError(f"{name} is empty; give addresses, a socket, a cluster.toml or a folder")
    return found


def sockets_in(folder: str) -> list[str]:
    """Return the sockets of nodes in the folder, which may be stale."""
    return [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.endswith(SOCKET)]


def check_own(path: str) -> None:
    """Raise `ValueError` if the file or folder belongs to another user, is a symbolic link, or is
    writable by others.
    """
    found = os.lstat(path)
    if found.st_mode & 0o170000 == 0o120000:
        raise ValueError(
            f"{path} is a symbolic link, which another user may have made; name its target"
        )
    if found.st_uid != os.geteuid():
        raise ValueError(
            f"{path} belongs to another user (uid {found.st_uid}); name the cluster explicitly"
        )
    if found.st_mode & 0o022:
        raise ValueError(
            f"{path} is writable by other users (mode {found.st_mode & 0o777:o}); run chmod go-w"
            f" {path}"
        )


def _left_here() -> str:
    if not os.path.isdir(FOLDER):
        return ""
    check_own(FOLDER)
    return FOLDER


def _left_last() -> str:
    try:
        with open(last_file(), encoding="utf-8") as file:
            folder = file.read().strip()
        check_own(folder)
    except OSError:
        return ""
    return folder
