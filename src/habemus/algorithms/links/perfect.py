"""Perfect links: nothing is lost, nothing comes twice, and in order if that is wanted.

Every message has a number, is sent again until it is acknowledged, and is dropped by a receiver
that has seen its number.  An acknowledgement is not acknowledged: if it is lost, the message comes
again and is acknowledged again.  When everything has been acknowledged, nothing is sent any more.

Numbers are counted for each receiver apart, so a receiver sees them without gaps and need not
remember all of them: one number below which everything has come, and the few above it that came
early.

A crash must not make the numbers start over, or the receiver would take new messages for repeats
and drop them. So all four variables are stored: numbers and what is not acknowledged yet, which
goes out again after a recovery; and what has come, so that a repeat is still a repeat.  A
recovery looks as if the links had only been slow.

Source   Cachin, Guerraoui, Rodrigues: Introduction to Reliable and Secure Distributed Programming,
         2nd ed., 2.4.4 and 2.4.5; Stenning: A data transfer protocol, Computer Networks 1, 1976
         (numbers and acknowledgements).
Assumes  fair-loss links; a process that crashes recovers with its stable memory, or its messages
         are sent for ever.
Cost     2 messages per message that is not lost: the message and its acknowledgement.
Ensures  every message arrives exactly once; with `fifo`, those of one sender in the order of
         sending.
Differs  The book eliminates repeats on top of stubborn links, which never stop sending; here an
         acknowledgement stops them. Amnesia breaks it, as it must: numbers start at 1 again, and a
         process that has seen that many drops (and acknowledges) what is new; and what the
         forgetful process had received is delivered to it once more if its acknowledgement was
         lost.
"""

from habemus.core import Const, Durable, Message, ProcessId, Span, Timer, upon
from habemus.core.assumptions import Assumptions, Links
from habemus.problems.link import Link


class Numbered(Message):
    number: int
    message: Message


class Acknowledgement(Message):
    number: int


class Unacknowledged(Timer):
    to: ProcessId
    number: int


class PerfectLinks(Link):
    assumes = Assumptions(links=Links.FAIR_LOSS)

    every: Const[Span] = (
        3_000,
        4_000,
    )  # longer than the way there and back, or messages are repeated for nothing
    fifo: Const[bool] = False

    last: Durable[dict[ProcessId, int]] = {}  # the number of the last message to each receiver
    outgoing: Durable[
        dict[tuple[ProcessId, int], Message]
    ] = {}  # not acknowledged yet, by receiver and number
    complete: Durable[
        dict[ProcessId, int]
    ] = {}  # up to this number, everything of that sender has come
    early: Durable[
        dict[tuple[ProcessId, int], Message]
    ] = {}  # came before one with a smaller number

    # The sender.  A message to oneself takes the same way: it must outlive a crash like any other.

    def transmit(self, message: Message, *, to: ProcessId) -> None:
        self.last[to] = self.last.get(to, 0) + 1
        self.outgoing[to, self.last[to]] = message
        self.send_until_acknowledged(Unacknowledged(to, self.last[to]))

    @upon(Unacknowledged)
    def send_until_acknowledged(self, timer: Unacknowledged) -> None:
        self.send(Numbered(timer.number, self.outgoing[timer.to, timer.number]), to=timer.to)
        self.set_timer(timer, after=self.every)

    @upon(Acknowledgement)
    def stop_sending(self, sender: ProcessId, acknowledgement: Acknowledgement) -> None:
        self.outgoing.pop(
            (sender, acknowledgement.number), None
        )  # None: this one has been acknowledged before
        self.cancel_timer(Unacknowledged(sender, acknowledgement.number))

    def on_recover(self) -> None:
        for to, number in sorted(self.outgoing):
            self.send_until_acknowledged(Unacknowledged(to, number))

    # The receiver.

    @upon(Numbered)
    def acknowledge_and_deliver(self, sender: ProcessId, numbered: Numbered) -> None:
        self.send(Acknowledgement(numbered.number), to=sender)
        if not self.is_repeat(sender, numbered.number):
            self.early[sender, numbered.number] = numbered.message
            if not self.fifo:
                self.deliver(numbered.message, sender)
            self.close_gap(sender)

    def is_repeat(self, sender: ProcessId, number: int) -> bool:
        return number <= self.complete.get(sender, 0) or (sender, number) in self.early

    def close_gap(self, sender: ProcessId) -> None:
        """Move up over all that has come without a gap; in order, this is when it is delivered."""
        number = self.complete.get(sender, 0) + 1
        while (sender, number) in self.early:
            message = self.early.pop((sender, number))
            if self.fifo:
                self.deliver(message, sender)
            self.complete[sender] = number
            number += 1
