"""Processes of a torture: whether a node ended because its disk was full."""

import asyncio
import resource
from pathlib import Path

import pytest

from habemus.torture.processes import NodeProcess


class ScriptedNode(NodeProcess):
    """A node that writes so many bytes while its disk is limited, and ends when asked again."""

    is_up = True

    def __init__(self, folder: Path, writes: int, *, ends: tuple[bool, ...]) -> None:
        super().__init__(folder, 1)
        self.memory.parent.mkdir(parents=True)
        self.memory.write_bytes(b"x" * 100)
        self.limits: list[int] = []
        self._writes = writes
        self._ends = iter(ends)

    def _limit(self, size: int) -> None:
        self.limits.append(size)

    async def ended(self, seconds: float) -> bool:
        room = self.limits[-1] - self.memory.stat().st_size
        if self.limits[-1] != resource.RLIM_INFINITY:
            with self.memory.open("ab") as file:
                file.write(b"x" * min(room, self._writes))
        return next(self._ends)


@pytest.mark.parametrize(
    ("writes", "ends", "is_ended_by_it"),
    [
        (50, (True,), True),
        (50, (False, True), True),  # it took a while to end
        (10, (False,), False),  # the disk was not full
        (20, (False, False), False),  # the last byte was written, and no write failed
    ],
)
def test_a_node_that_ends_late_has_ended_by_its_full_disk(
    tmp_path: Path, writes: int, ends: tuple[bool, ...], is_ended_by_it: bool
) -> None:
    node = ScriptedNode(tmp_path, writes, ends=ends)
    assert asyncio.run(node.ends_by_full_disk(20, 1.0)) is is_ended_by_it
    assert node.limits[0] == 120
    assert (node.limits[-1] == resource.RLIM_INFINITY) is (len(ends) > 1 or not is_ended_by_it)
