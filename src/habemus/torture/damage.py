"""Damage to the stable memory of a node that is down.  A node must detect all of it at its start.

Only the first part of a file is damaged.  Its end may be a write that was in progress when the node
was killed, and a node need not detect the loss of that.  The room behind its batches has no data.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

from habemus.runtimes.live.storage.log import FILE

MOST_BITS = 8
LEAST_ZEROS = 64


def damage(kind: str, folder: Path, draw: Random) -> str:
    """Damage the memory in the folder by a fault of this kind.  Return a description."""
    return {"disk-cut": cut, "disk-garble": garble, "disk-lost": lose}[kind](folder, draw)


def cut(folder: Path, draw: Random) -> str:
    path = folder / FILE
    size = draw.randrange(_first_part(path))
    with path.open("rb+") as file:
        file.truncate(size)
    return f"cut at byte {size}"


def garble(folder: Path, draw: Random) -> str:
    path = folder / FILE
    content = bytearray(path.read_bytes())
    if draw.random() < 0.5:
        zeros = draw.randrange(LEAST_ZEROS, max(LEAST_ZEROS + 1, size_without_room(path)))
        content[:zeros] = bytes(min(zeros, len(content)))
        done = f"{zeros} bytes are zeros"
    else:
        places = sorted(draw.sample(range(8 * _first_part(path)), draw.randint(1, MOST_BITS)))
        for place in places:
            content[place // 8] ^= 1 << place % 8
        done = f"flipped bits {', '.join(map(str, places))}"
    path.write_bytes(content)
    return done


def lose(folder: Path, draw: Random) -> str:
    if draw.random() < 0.5:
        (folder / FILE).unlink()
        return "file removed"
    shutil.rmtree(folder)
    return "folder removed"


def size_without_room(path: Path) -> int:
    """Return the size of a file of stable memory, without the zeros at its end."""
    return len(path.read_bytes().rstrip(b"\0"))


def _first_part(path: Path) -> int:
    return max(2, size_without_room(path) * 3 // 4)
