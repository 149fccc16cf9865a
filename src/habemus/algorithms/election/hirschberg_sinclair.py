"""Election in a two-way ring by probes that go ever further: Hirschberg and Sinclair.

In phase k a candidate sends probes 2^k processes far, both ways.  A larger process on the way drops
a probe; the last one on the way sends a reply back.  With both replies the candidate knows that it
is the largest of its neighbourhood and goes on with twice the distance, until a probe comes all the
way round.

Source   Hirschberg, Sinclair: Decentralized extrema-finding in circular configurations of
         processors, CACM 23(11), 1980.
Assumes  reliable links, in any order; no process crashes.
Cost     at most 8n(1 + ceil(log2 n)) messages, and n to announce.
Ensures  E1, E2, E3, E4.
Differs  A process that did not call is woken by the first message and takes part.  A dropped probe
         is not answered; the paper sends the candidate a negative reply.  An election is held once,
         since no process crashes.
"""

from collections.abc import Sequence

from habemus.algorithms.election.ring import RingOfIds
from habemus.core import Message, ProcessId, upon, whenever
from habemus.problems.election import Leader


class Probe(Message):
    process: ProcessId
    phase: int
    hops: int  # how far it may still go
    rightwards: bool


class Reply(Message):
    process: ProcessId
    phase: int
    rightwards: bool  # the way of the reply, not of the probe


class Elected(Message):
    process: ProcessId


class HirschbergSinclair(RingOfIds):
    name = "hirschberg-sinclair"
    shows = ("phase", "leader")

    awake: bool = False
    phase: int = 0
    replies: int = 0  # in this phase
    leader: ProcessId | None = None

    def elect(self) -> None:
        self.wake()

    def wake(self) -> None:
        if not self.awake:
            self.awake = True
            self.probe()

    def probe(self) -> None:
        self.send(Probe(self.me, self.phase, 2**self.phase, True), to=self.right)
        self.send(Probe(self.me, self.phase, 2**self.phase, False), to=self.left)

    def onwards(self, rightwards: bool) -> ProcessId:
        return self.right if rightwards else self.left

    @upon(Probe)
    def examine(self, sender: ProcessId, probe: Probe) -> None:
        self.wake()
        if probe.process == self.me:
            self.win()
        elif probe.process > self.me and probe.hops > 1:
            self.send(
                Probe(probe.process, probe.phase, probe.hops - 1, probe.rightwards),
                to=self.onwards(probe.rightwards),
            )
        elif probe.process > self.me:
            self.send(Reply(probe.process, probe.phase, not probe.rightwards), to=sender)

    @upon(Reply)
    def count_or_relay(self, sender: ProcessId, reply: Reply) -> None:
        if reply.process != self.me:
            self.send(reply, to=self.onwards(reply.rightwards))
        elif reply.phase == self.phase:
            self.replies += 1

    def is_largest_around(self) -> bool:
        return self.replies == 2

    @whenever(is_largest_around)
    def go_further(self) -> None:
        self.replies = 0
        self.phase += 1
        self.probe()

    def win(self) -> None:
        if self.leader is None:  # both probes come round
            self.leader = self.me
            self.indicate(Leader(self.me))
            self.send(Elected(self.me), to=self.right)

    @upon(Elected)
    def follow(self, sender: ProcessId, elected: Elected) -> None:
        if elected.process != self.me:
            self.leader = elected.process
            self.indicate(Leader(elected.process))
            self.send(elected, to=self.right)

    # What the catalog needs to know.

    def awaits(self) -> Sequence[ProcessId]:
        return [self.left, self.right] if self.awake and self.leader is None else []
