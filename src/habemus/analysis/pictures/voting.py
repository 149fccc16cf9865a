"""Voting sets in words and numbers: the votes that each participant needs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from math import isqrt
from typing import Any

from habemus.algorithms.mutex.maekawa import PLANE_OR_GRID, voting_sets
from habemus.catalog.entries import Entry, entries
from habemus.core.process import ProcessId
from habemus.core.quorums import VotingSets, sizes_with_plane
from habemus.runs.setup import BadSetup

LARGEST = 400
"""Largest number of participants of a picture, or of a list."""
MATRIX_UP_TO = 31
"""Largest number of columns of the table in the text form."""
HOW = ("grid", "plane", "majority")
_BY = {"grid": "a grid", "plane": "a projective plane", "majority": "majorities"}


@dataclass(frozen=True)
class Voting:
    """Voting sets of a number of participants, and their construction."""

    how: str
    sets: VotingSets

    @property
    def messages(self) -> float:
        """Messages per entry: 3(K-1), on average over the sets."""
        voters = sum(map(len, self.sets.values()))
        return 3 * (voters - len(self.sets)) / len(self.sets)

    @property
    def votes(self) -> dict[ProcessId, int]:
        """Return the number of sets in which each process votes."""
        counted = Counter(voter for voters in self.sets.values() for voter in voters)
        return {process: counted[process] for process in self.sets}

    @property
    def meetings(self) -> tuple[int, int]:
        """Least and largest number of processes that two sets share."""
        as_sets = [frozenset(voters) for voters in self.sets.values()]
        shared = [len(one & other) for one, other in combinations(as_sets, 2)]
        return min(shared), max(shared)

    def title(self) -> str:
        size = f"K = {self.sets.size}" + ("" if self.sets.is_regular else " at most")
        return f"Voting sets of {len(self.sets)} by {_BY[self.how]}: {size}"

    def remarks(self) -> list[str]:
        """Return remarks on the sets as a whole."""
        least, most = self.meetings
        work = sorted(set(self.votes.values()))
        return [
            f"any two sets have {least if least == most else f'{least} to {most}'} in common",
            f"each votes in {work[0] if len(work) == 1 else f'{work[0]} to {work[-1]}'} sets",
            (
                f"an entry costs 3(K-1) = {self.messages:.4g}"
                f" messages{'' if self.sets.is_regular else ' on average'}, asking all 2(N-1)"
                f" = {2 * (len(self.sets) - 1)}"
            ),
        ]

    def plain(self) -> dict[str, Any]:
        return {
            "n": len(self.sets),
            "how": self.how,
            "k": self.sets.size,
            "regular": self.sets.is_regular,
            "sets": {str(process): list(voters) for process, voters in self.sets.items()},
            "votes": {str(process): count for process, count in self.votes.items()},
            "in_common": list(self.meetings),
            "messages_per_entry": self.messages,
        }


def voting_of(entry: Entry, size: int, how: str | None) -> Voting:
    """Return the sets that the algorithm would use for this many participants, by the given
    construction or its default.
    """
    if "sets" not in entry.options:
        having = [each.name for each in entries().values() if "sets" in each.options]
        raise BadSetup(f"{entry.name} has no voting sets; {' and '.join(having)} have")
    if not 2 <= size <= LARGEST:
        raise BadSetup(f"voting sets are shown for 2 to {LARGEST} participants, not for {size}")
    sets = voting_sets(size, how or PLANE_OR_GRID)
    return Voting(how or ("plane" if size in sizes_with_plane(size) else "grid"), sets)


def in_words(voting: Voting) -> str:
    """Return the sets as text, one on a line, for few participants with a table of votes."""
    sets = voting.sets
    width = len(str(max(sets)))
    lines = [voting.title(), *(f"  {remark}" for remark in voting.remarks()), ""]
    if voting.how == "grid":
        lines += [
            "  " + " ".join(f"{process:>{width}}" for process in row) for row in rows_of(sets)
        ] + [""]
    with_table = len(sets) <= MATRIX_UP_TO
    if with_table:
        lines.append(" " * (width + 2) + " ".join(f"{voter:>{width}}" for voter in sets))
    for process, voters in sets.items():
        table = (
            " ".join(("●" if voter in voters else "·").rjust(width) for voter in sets) + "   "
            if with_table
            else ""
        )
        lines.append(f"{process:>{width}}  {table}{{{', '.join(map(str, voters))}}}")
    return "\n".join(lines)


def rows_of(sets: VotingSets) -> list[list[ProcessId]]:
    """Return the square into which a grid writes the processes."""
    everybody = list(sets)
    width = isqrt(len(everybody) - 1) + 1
    return [everybody[start : start + width] for start in range(0, len(everybody), width)]
