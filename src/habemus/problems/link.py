"""Links: what carries the messages of a process to another one, and what each kind of link
promises.

A process sends and receives without knowing how.  A plan says what its messages travel over:

    RicartAgrawala()                            the raw network
    RicartAgrawala().over(PerfectLinks())       the same file, its messages carried by perfect links

fair-loss     The raw network.  It may lose a message, bring it twice, and bring a later one first.  It invents none, and of
              a message that is sent again and again, some copies arrive.
stubborn      Every message arrives, again and again, in any order, unless one of the two crashes.
perfect       Every message arrives exactly once, in any order, unless one of the two crashes and does not come back.
perfect fifo  The same, and the messages from one process to another arrive in the order in which they were sent.

What none of them promises is *when*: a message to a process that has crashed is sent again for
ever, because nobody can tell a crashed process from a slow one.
"""

from abc import abstractmethod

from habemus.core import Message, Process, ProcessId, request
from habemus.core.node import Delivered


class Link(Process):
    """Carries the messages of the process above it; what arrives goes up as `Delivered` and is
    handled there as the message.
    """

    indications = (Delivered,)

    @request
    @abstractmethod
    def transmit(self, message: Message, *, to: ProcessId) -> None:
        """Sends the message to the process that stands above the links of the receiver."""

    def deliver(self, message: Message, sender: ProcessId) -> None:
        """Hands a message up."""
        self.indicate(Delivered(sender, message))
