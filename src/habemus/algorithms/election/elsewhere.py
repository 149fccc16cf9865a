"""An election that is held elsewhere.

Many locks that share their participants can share the election of their coordinator: it is held
once, and each lock is told who leads.  This is the part that each lock has in the place of an
election of its own.  Whoever runs it expires its timer with the news whenever the shared election
says who leads, and once when the process starts or comes back.

Source   ours; Burrows: The Chubby lock service, OSDI 2006, has one master for all its locks.
Assumes  what is told is what an election at this process indicated, in its order.
Cost     no message.
Ensures  what the election that is held elsewhere ensures.
"""

from habemus.core import ProcessId, Timer, upon
from habemus.problems.election import Election, Leader


class Told(Timer):
    """The news."""

    process: ProcessId | None
    term: int


class Elsewhere(Election):
    def elect(self) -> None:
        """Nothing to do: those who hold the election see to it."""

    @upon(Told)
    def pass_on(self, told: Told) -> None:
        self.indicate(Leader(told.process, told.term))
