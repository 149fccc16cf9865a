"""One election shared by many locks.

Locks with the same participants can share the election of their coordinator: it runs once, and
every lock learns who leads.  This component takes the place of an election inside each lock.  The
runtime expires the timer `LeaderChanged` whenever the shared election indicates a leader, and once
when the process starts or recovers.  Where members change it does the same by `MembersChanged`, and
collects the confirmations of all locks before it confirms (docs/members.md).

Source   ours; Burrows: The Chubby lock service, OSDI 2006, has one master for all its locks.
Assumes  each `LeaderChanged` is what the election at this process indicated, in the same order.
Cost     no message.
Ensures  nothing of its own; what the shared election ensures.
"""

from habemus.core import ProcessId, Timer, upon
from habemus.problems.election import Election, Leader, Members


class LeaderChanged(Timer):
    """The shared election has indicated a leader."""

    process: ProcessId | None
    term: int


class SharedElection(Election):
    def elect(self) -> None:
        """Do nothing: the shared election detects failures by itself."""

    @upon(LeaderChanged)
    def pass_on(self, changed: LeaderChanged) -> None:
        self.indicate(Leader(changed.process, changed.term))


class MembersChanged(Timer):
    """The shared election has indicated the members."""

    term: int
    version: int
    members: tuple[ProcessId, ...]


class SharedElectionOfMembers(SharedElection):
    """A shared election whose members change."""

    indications = (Leader, Members)  # type: ignore[assignment]  # one more than every election

    @upon(MembersChanged)
    def pass_members_on(self, changed: MembersChanged) -> None:
        self.indicate(Members(changed.term, changed.version, changed.members))
