"""Ricart and Agrawala with a timeout that counts as a reply.

A process that has not replied in time is believed dead and no longer waited for.  That is right
when it has crashed. When it is only slow, or inside for longer than the timeout, its missing reply
was a refusal, and a second process enters.

Source   Lecture notes on Ricart-Agrawala, special case 2 (a process fails), whose calls give up
         after 5 seconds.
Assumes  reliable links; a bound on the time inside and under way, which an asynchronous system does
         not give.
Cost     2(N-1) messages per entry: request and reply; 3(N-1) with release notices.
Ensures  ME2; not ME1 (a slow process is taken for a dead one).
Differs  In the notes a reply is the return of a call, and that of a call given up is dropped.  Here
         a late reply counts for the next request, if there is one by then: one more way to be let
         in too early.
Unsafe   ra-timeout-slow
"""

from habemus.algorithms.mutex.ricart_agrawala import WANTED, RicartAgrawala
from habemus.core import Const, Span, Timer, upon
from habemus.core.assumptions import Assumptions, Timing


class Unanswered(Timer):
    stamp: int  # of the request


class RicartAgrawalaTimeout(RicartAgrawala):
    name = "ra-timeout"
    assumes = Assumptions(timing=Timing.SYNCHRONOUS)

    timeout: Const[Span] = 5_000_000

    def acquire(self) -> None:
        super().acquire()
        self.set_timer(Unanswered(self.stamp), after=self.timeout)

    @upon(Unanswered)
    def count_silence_as_replies(self, unanswered: Unanswered) -> None:
        if self.state == WANTED and self.stamp == unanswered.stamp:
            self.missing.clear()

    def release(self) -> None:
        self.cancel_timer(Unanswered(self.stamp))
        super().release()
