"""Mutual exclusion by the votes of a few: Maekawa, as in textbooks.

Every process has a voting set.  It enters when all of its set have voted for it, and a process
votes for one at a time. Any two sets have a process in common, so no two are inside at once; and
sets of about sqrt(N) are enough for that. But when three processes each have a vote that the next
one needs, all wait for ever: maekawa-sanders cures that.

A voter that two processes ask votes for the one whose request reaches it first.  It looks at no
time stamp: the earlier request may have to wait, and only maekawa-sanders compares stamps.

Source   Maekawa: A sqrt(N) algorithm for mutual exclusion in decentralized systems, ACM TOCS 3(2),
         1985, without its handling of deadlocks, as in Coulouris et al., Distributed Systems, 5th
         ed., 15.2, and in lecture notes.
Assumes  reliable links, in any order; no process crashes.
Cost     3(K-1) messages per entry, K the size of the voting set: request, vote, release.  The next
         one enters after 2 message times, or 1 where the vote that it lacks is its own or that of
         the one before.
Ensures  ME1; not ME2 (votes can be held in a cycle), no ME3.
Differs  The notes check whether the voter itself is inside.  That is left out: a process in its own
         voting set that is inside has voted for itself.  They also say that this needs more
         messages than asking all others.  It does not, from N = 5 on: 3 sqrt(N) is more than 2(N-1)
         only below N = 4.  And a process outside all voting sets in use may crash unnoticed, as
         they say, but a single voter that crashes blocks all that need its vote.
Unsafe   maekawa-cycle
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from habemus.algorithms.mutex.ricart_agrawala import HELD, RELEASED, WANTED, Standing
from habemus.core import Const, Message, MistakeInPlan, ProcessId, System, upon, whenever
from habemus.core.quorums import VotingSets, grid, majority, projective_plane, sizes_with_plane
from habemus.core.system import complete
from habemus.problems.mutex import Mutex, MutexCosts


class Request(Message):
    pass


class Vote(Message):
    pass


class Release(Message):
    pass


Sets: TypeAlias = str | Sequence[Sequence[ProcessId]]
"""The name of a construction, or the voting sets of 1, 2, ... themselves."""

PLANE_OR_GRID = "plane-or-grid"


class Maekawa(Mutex):
    name = "maekawa"
    shows = ("state", "voted_for", "queue")

    sets: Const[Sets] = (
        # grid, plane, majority, or [[1,2],[2,3],[3,1]]; by default, plane where there is one, else
        # grid
        PLANE_OR_GRID
    )
    voters: Const[tuple[ProcessId, ...]]  # the voting set of this process

    state: Standing = RELEASED
    votes: set[ProcessId] = set()  # who has voted for this process
    voted_for: ProcessId | None = None  # for whom this process has voted
    queue: list[ProcessId] = []  # who else wants its vote, in order of arrival

    # A process that wants to enter.

    def acquire(self) -> None:
        self.state = WANTED
        self.votes.clear()
        for voter in self.voters:
            self.send(Request(), to=voter)

    @upon(Vote)
    def count_vote(self, sender: ProcessId, _: Vote) -> None:
        self.votes.add(sender)

    def has_every_vote(self) -> bool:
        return self.state == WANTED and len(self.votes) == len(self.voters)

    @whenever(has_every_vote)
    def enter(self) -> None:
        self.state = HELD
        self.granted()

    def release(self) -> None:
        self.state = RELEASED
        for voter in self.voters:
            self.send(Release(), to=voter)

    # A voter.

    @upon(Request)
    def enqueue(self, sender: ProcessId, _: Request) -> None:
        self.queue.append(sender)

    @upon(Release)
    def take_vote_back(self, sender: ProcessId, _: Release) -> None:
        if sender == self.voted_for:
            self.voted_for = None

    def can_vote(self) -> bool:
        return self.voted_for is None and bool(self.queue)

    @whenever(can_vote)
    def vote_for_next(self) -> None:
        self.voted_for = self.queue.pop(0)
        self.send(Vote(), to=self.voted_for)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        if self.voted_for is not None and self.voted_for != self.me:
            return [self.voted_for]
        return (
            [voter for voter in self.voters if voter not in self.votes]
            if self.state == WANTED
            else []
        )

    def costs(self, size: int) -> MutexCosts:
        return costs_of_voting(voting_sets(size, self.sets))

    @classmethod
    def system(cls, size: int, **options: Any) -> System:
        """Return participants 1 to N, each with its voting set."""
        sets = voting_sets(size, options.get("sets", PLANE_OR_GRID))
        plans = {me: cls(voters=voters, **options) for me, voters in sets.items()}
        return System(plans, complete(sets), tuple(sets))


def voting_sets(size: int, wanted: Sets) -> VotingSets:
    """Return the voting sets of 1 to N by the named construction, or those that are given."""
    constructions = {"plane": projective_plane, "grid": grid, "majority": majority}
    if wanted == PLANE_OR_GRID:
        wanted = "plane" if size in sizes_with_plane(size) else "grid"
    if isinstance(wanted, str) and wanted in constructions:
        return constructions[wanted](size)
    if isinstance(wanted, list | tuple) and all(
        isinstance(voters, list | tuple) for voters in wanted
    ):
        if len(wanted) != size:
            raise MistakeInPlan(f"there are {len(wanted)} voting sets for {size} processes")
        return VotingSets(dict(enumerate(wanted, 1))).check()
    raise MistakeInPlan(
        f"{wanted!r} are no voting sets; there are {', '.join(constructions)}, or write them down:"
        " [[1,2],[2,3],[3,1]]"
    )


def costs_of_voting(sets: VotingSets) -> MutexCosts:
    """Return the costs: three messages for each voter but oneself. Costs that depend on the asking
    process have no formula.
    """
    messages = 3 * (sets.size - 1) if sets.is_regular else None
    # The vote that the next one lacks goes through a third process, unless one of the two is in the
    # voting set of the other.
    neighbours = ((one, other) for one in sets for other in sets[one] if other != one)
    by_a_third = all({*sets[one]} & {*sets[other]} - {one, other} for one, other in neighbours)
    alone = len(sets) == 1
    return MutexCosts(
        messages,
        client_delay=None if alone else 2,
        sync_delay=2 if by_a_third and not alone else None,
    )
