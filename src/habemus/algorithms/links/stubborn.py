"""Stubborn links: send it again, for ever.

A network that loses only some of the copies cannot lose all of them.  No process counts and none
acknowledges, so the receiver gets the same message again and again, and the sender stops only
when `cease` is called.

Source   Guerraoui, Oliveira, Schiper: Stubborn communication channels, EPFL 1998; Cachin,
         Guerraoui, Rodrigues: Introduction to Reliable and Secure Distributed Programming, 2nd ed.,
         2.4.3.
Assumes  fair-loss links: of infinitely many copies of a message, some arrive; neither end crashes.
Cost     1 message per message and period, until `cease`.
Ensures  every message arrives; more than once, in any order.
Differs  `cease` ends the sending to one process; in the book, nothing ever does. What is being sent
         is not stored: a sender that crashes forgets it.
"""

from habemus.core import Const, Message, ProcessId, Span, Timer, request, upon
from habemus.core.assumptions import Assumptions, Links
from habemus.problems.link import Link


class Copy(Message):
    message: Message


class Again(Timer):
    to: ProcessId
    number: int


class StubbornLinks(Link):
    assumes = Assumptions(links=Links.FAIR_LOSS)

    every: Const[Span] = (3_000, 4_000)
    number: int = 0  # counted, so that equal messages have a timer each
    outgoing: dict[tuple[ProcessId, int], Message] = {}

    def transmit(self, message: Message, *, to: ProcessId) -> None:
        self.number += 1
        self.outgoing[to, self.number] = message
        self.send_again(Again(to, self.number))

    @upon(Again)
    def send_again(self, again: Again) -> None:
        self.send(Copy(self.outgoing[again.to, again.number]), to=again.to)
        self.set_timer(again, after=self.every)

    @upon(Copy)
    def deliver_every_copy(self, sender: ProcessId, copy: Copy) -> None:
        self.deliver(copy.message, sender)

    @request
    def cease(self, to: ProcessId) -> None:
        """Stop sending to this process what has been sent to it so far."""
        for receiver, number in sorted(self.outgoing):
            if receiver == to:
                del self.outgoing[receiver, number]
                self.cancel_timer(Again(receiver, number))
