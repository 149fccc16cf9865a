"""What a fenced file leaves when the power goes, at every step and for everything that a disk may
have kept.

The calls to the system are carried out and written down.  A model of the disk then gives every
state that the calls so far allow: content that was not synced is there, or half, or not at all; a
name that was given in a folder that was not synced since is there or not, each by itself.  That is
less than any file system in use promises, so that nothing rests on what one of them happens to do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from habemus.fencing import FencedFile, file
from habemus.fencing.tokens import admit

OLD, NEW = b"old content\n", b"the new content\n"
Files = dict[str, bytes]


class Killed(BaseException):
    """The process is gone, but the machine is not."""


class Inode:
    def __init__(self) -> None:
        self.content = b""
        self.synced = b""

    def may_have(self) -> set[bytes]:
        if self.content == self.synced:
            return {self.synced}
        return {self.synced, self.content[: len(self.content) // 2], self.content}


class Disk:
    """Stands between a process and the system; `kept` has every state that the disk may be in,
    after each call.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._names: dict[str, Inode] = {}  # as processes see them
        self._synced: dict[str, Inode] = {}
        self._pending: list[
            tuple[str, Inode | None]
        ] = []  # names given and taken since the folder was synced
        self._opened: dict[int, Inode | None] = {}  # None: the folder
        self.kept: list[list[Files]] = []
        self.die_at: int | None = None  # which call is never made
        for name in ("open", "write", "fsync", "replace", "unlink"):
            patch.setattr(os, name, self._noted(getattr(os, name), getattr(self, f"note_{name}")))

    def _noted(self, call: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
        def both(*arguments: Any) -> Any:
            if self.die_at == len(self.kept):
                raise Killed
            done = call(*arguments)
            note(done, *arguments)
            self.kept.append(list(self._states()))
            return done

        return both

    def note_open(self, descriptor: int, path: Path, flags: int, mode: int = 0) -> None:
        if flags & os.O_DIRECTORY:
            self._opened[descriptor] = None
            return
        if path.name not in self._names:
            self._name(path.name, Inode())
        inode = self._names[path.name]
        if flags & os.O_TRUNC:
            inode.content = b""
        self._opened[descriptor] = inode

    def note_write(self, count: int, descriptor: int, content: memoryview) -> None:
        inode = self._opened[descriptor]
        assert inode is not None
        inode.content += bytes(content[:count])

    def note_fsync(self, done: None, descriptor: int) -> None:
        inode = self._opened[descriptor]
        if inode is None:
            self._synced = dict(self._names)
            self._pending = []
        else:
            inode.synced = inode.content

    def note_replace(self, done: None, old: Path, new: Path) -> None:
        inode = self._names[old.name]
        self._name(old.name, None)
        self._name(new.name, inode)

    def note_unlink(self, done: None, path: Path) -> None:
        self._name(path.name, None)

    def _name(self, name: str, inode: Inode | None) -> None:
        self._pending.append((name, inode))
        if inode is None:
            del self._names[name]
        else:
            self._names[name] = inode

    def _states(self) -> Iterator[Files]:
        for chosen in product((False, True), repeat=len(self._pending)):
            names = dict(self._synced)
            for (name, inode), happened in zip(self._pending, chosen, strict=True):
                if happened and inode is None:
                    names.pop(name, None)
                elif happened and inode is not None:
                    names[name] = inode
            for contents in product(*(sorted(inode.may_have()) for inode in names.values())):
                yield dict(zip(names, contents, strict=True))


def mistake_in(state: Files, acknowledged: int) -> str:
    """What is wrong with what the disk kept; `acknowledged` is the token of the last write that
    returned.
    """
    content, line = state.get("report"), state.get("report.token")
    token = (
        None if line is None else next((token for token in (1, 2) if line == file._line(token)), -1)
    )
    if token == -1:
        return "the token is torn"
    if content not in (None, OLD, NEW):
        return "the content is torn"
    written = {None: 0, OLD: 1, NEW: 2}[content]
    if written > (token or 0):
        return "the token of the content is forgotten"
    if written < acknowledged:
        return "a write that was acknowledged is lost"
    return ""


class Run(NamedTuple):
    """Two writes; the second is made again by another process if the first one's is killed."""

    kept: list[list[Files]]
    first: int  # calls until the first write was acknowledged
    was_killed: bool


def run(folder: Path, patch: pytest.MonkeyPatch, killed_at: int | None) -> Run:
    folder.mkdir()
    with patch.context() as patched:
        disk = Disk(patched)
        FencedFile(folder / "report").write(OLD, 1)
        first, was_killed = len(disk.kept), False
        disk.die_at = None if killed_at is None else first + killed_at
        try:
            FencedFile(folder / "report").write(NEW, 2)
        except Killed:
            was_killed, disk.die_at = True, None
            FencedFile(folder / "report").write(NEW, 2)
    return Run(disk.kept, first, was_killed)


def mistakes(base: Path, patch: pytest.MonkeyPatch) -> set[str]:
    """In what the disk may keep when the power goes after any call, with the process killed before
    at any other or not at all.
    """
    whole = run(base / "whole", patch, None)
    found = mistakes_of(whole)
    for step in range(len(whole.kept) - whole.first):
        if found:
            break
        killed = run(base / f"killed at {step}", patch, step)
        assert killed.was_killed
        found |= mistakes_of(killed)
    return found


def mistakes_of(run: Run) -> set[str]:
    found = set()
    for made, states in enumerate(run.kept, start=1):
        acknowledged = 2 if made == len(run.kept) else 1 if made >= run.first else 0
        found |= {mistake_in(state, acknowledged) for state in states}
    return found - {""}


def test_whatever_the_disk_kept_is_whole_and_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mistakes(tmp_path, monkeypatch) == set()


# Planted bugs, each of which must be found.


def written_in_place(patch: pytest.MonkeyPatch) -> None:
    whole = file._replace

    def replace(path: Path, content: bytes) -> None:
        if path.name != "report":
            whole(path, content)
            return
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.write(descriptor, memoryview(content))
        os.fsync(descriptor)
        os.close(descriptor)
        file._sync(path.parent)

    patch.setattr(file, "_replace", replace)


def content_not_synced(patch: pytest.MonkeyPatch) -> None:
    def replace(path: Path, content: bytes) -> None:
        made = path.with_name(f"{path.name}.new")
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.write(descriptor, memoryview(content))
        os.close(descriptor)
        os.replace(made, path)  # noqa: PTH105
        file._sync(path.parent)

    patch.setattr(file, "_replace", replace)


def folder_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(file, "_sync", lambda folder: None)


def token_after_the_content(patch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def admitted(self: FencedFile, token: int) -> Iterator[None]:
        admit(token, self.newest)
        yield
        file._replace(self._token_path, file._line(token))

    patch.setattr(FencedFile, "_admitted", admitted)


def token_of_one_who_died_taken_for_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        FencedFile,
        "_durable",
        property(lambda self: self.newest, lambda self, token: None),
        raising=False,
    )


@pytest.mark.parametrize(
    ("bug", "mistake"),
    [
        (written_in_place, "the content is torn"),
        (content_not_synced, "the content is torn"),
        (folder_not_synced, "a write that was acknowledged is lost"),
        (token_after_the_content, "the token of the content is forgotten"),
        (token_of_one_who_died_taken_for_durable, "the token of the content is forgotten"),
    ],
)
def test_planted(
    bug: Callable[[pytest.MonkeyPatch], None],
    mistake: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bug(monkeypatch)
    assert mistake in mistakes(tmp_path, monkeypatch)
