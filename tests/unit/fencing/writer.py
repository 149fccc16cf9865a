"""A process that writes to a fenced file.  It says on its standard output what was accepted, as
soon as it is.

writer.py append FILE TOKEN...       appends each token that is accepted as a line
writer.py loop FILE                  writes with the tokens 1, 2, 3 and so on, until it is killed
writer.py die FILE TOKEN STEP        writes, and kills itself before its system call STEP
writer.py hold FILE TOKEN            writes, but waits for a line of input after the check
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from habemus.fencing import FencedFile, StaleToken, file

CALLS = ("open", "fchmod", "write", "fsync", "replace", "close")


def content_of(token: int) -> bytes:
    """Large enough to be torn, and different for every token."""
    return f"{token:08d}".encode() * 2000


def say(what: object) -> None:
    print(what, flush=True)  # noqa: T201


def die_before(step: int) -> None:
    made = 0

    def counted(call: Any) -> Any:
        def counting(*arguments: Any) -> Any:
            nonlocal made
            made += 1
            if made == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments)

        return counting

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))


def main(do: str, path: str, *more: str) -> None:
    fenced = FencedFile(path)
    if do == "append":
        say("ready")
        sys.stdin.readline()
        for token in map(int, more):
            try:
                fenced.append(f"{token}\n".encode(), token)
            except StaleToken:
                continue
            say(token)
    elif do == "loop":
        for token in range(1, 1 << 40):
            fenced.write(content_of(token), token)
            say(token)
    elif do == "die":
        token, step = map(int, more)
        die_before(step)
        fenced.write(content_of(token), token)
        say(token)
    elif do == "hold":
        replace = file._replace

        def held(*arguments: Any) -> None:
            setattr(file, "_replace", replace)  # noqa: B010
            say("checked")
            sys.stdin.readline()
            replace(*arguments)

        setattr(file, "_replace", held)  # noqa: B010
        fenced.write(content_of(int(more[0])), int(more[0]))
        say(more[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
