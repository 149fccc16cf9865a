"""Links: they carry messages between processes, and each kind of link has its guarantees.

An algorithm sends and receives without knowing the links.  A plan names them:

    RicartAgrawala()                            the raw network
    RicartAgrawala().over(PerfectLinks())       the same file, over perfect links

fair-loss     The raw network.  It may lose, duplicate and reorder messages.  It invents none; if a
              message is retransmitted for ever, some copies arrive.
stubborn      Every message arrives, again and again, in any order, unless one of the two crashes.
perfect       Every message arrives exactly once, in any order, unless one of the two crashes and
              does not recover.
perfect fifo  The same, and messages of one process to another arrive in the order of sending.

None of them bounds the delay: a message to a crashed process is retransmitted for ever, because a
crashed process cannot be told from a slow one.
"""

from abc import abstractmethod

from habemus.core import Message, Process, ProcessId, request
from habemus.core.node import Delivered


class Link(Process):
    """Base class of links.  A message that arrives is passed to the process above as `Delivered`,
    which handles it as the message itself.
    """

    indications = (Delivered,)

    @request
    @abstractmethod
    def transmit(self, message: Message, *, to: ProcessId) -> None:
        """Send a message to the process above the links of the receiver."""

    def deliver(self, message: Message, sender: ProcessId) -> None:
        """Pass a message to the process above."""
        self.indicate(Delivered(sender, message))
