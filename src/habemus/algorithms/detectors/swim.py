"""Failure detection for large groups: SWIM.

In each period a process pings one other.  If no answer comes in time it asks a few others to ping
that one for it, so that a bad link is not taken for a failure.  A process that gives no sign by the
end of the period is doubted, and has some periods of grace to deny it before it counts as failed.
All news travel on the pings and answers that are sent anyway, so the load of a process does not
depend on the size of the group.

Source   Das, Gupta, Motivala: SWIM: scalable weakly-consistent infection-style process group
         membership protocol, DSN 2002 (with the suspicion of section 4.2 and the turns of section
         4.3).
Assumes  links that lose some messages; partial synchrony: in the end an answer comes within the
         period by one of the ways, or the denial within the grace.  Crashes, and recoveries with
         stable memory for one number.
Cost     2 messages per process and period, whatever the size: 2n in all; up to 4 more for each
         helper after a ping without an answer in time.
Ensures  completeness, accuracy; both in the end, within 2n-3 periods, the grace and the time that
         news take.
Differs  `Suspected` tells the application of what the paper calls confirmed failures; processes
         that are only doubted are not reported.  A failure is news of an incarnation like a doubt,
         and can be denied as well, since a detector must be able to take back a mistake; in the
         paper it is final and the process leaves the group.  For that, the failed are pinged in
         their turn too (without helpers), and every message to a process carries what is held
         against it. Targets are drawn from those whose turn has not come yet, instead of from a
         shuffled list.  The group is known from the start: no process joins.
"""

from enum import IntEnum

from habemus.core import Const, Durable, Message, ProcessId, Timer, Value, upon
from habemus.core.assumptions import Assumptions, Crashes, Links, Timing
from habemus.problems.detector import Detector, Restored, Suspected


class Standing(IntEnum):
    ALIVE = 0
    DOUBTED = 1
    FAILED = 2


ALIVE, DOUBTED, FAILED = Standing


class News(Value):
    """News about a process.  Of two the larger is the later: only the process itself begins a new
    incarnation.
    """

    incarnation: int
    standing: Standing
    process: ProcessId


class Ping(Message):
    origin: ProcessId  # who wants to know
    number: int  # of its period
    news: tuple[News, ...]


class Answer(Message):
    origin: ProcessId
    number: int
    news: tuple[News, ...]


class PingForMe(Message):
    target: ProcessId
    number: int
    news: tuple[News, ...]


class Period(Timer):
    pass


class NoAnswer(Timer):
    """The direct ping has had its time."""


class Grace(Timer):
    """The doubted has had the time to deny it."""

    doubt: News


class Swim(Detector):
    name = "swim"
    shows = ("incarnation", "target")
    assumes = Assumptions(
        links=Links.MOSTLY_RELIABLE,
        crashes=Crashes.ANY,
        timing=Timing.PARTIALLY_SYNCHRONOUS,
        stable_memory=True,
    )

    period: Const[int] = 20_000
    timeout: Const[int] = (
        5_000  # for the direct ping; what is left of the period is for the helpers
    )
    helpers: Const[int] = 3
    grace: Const[int] = 2  # periods, times the logarithm of the size
    spread: Const[int] = 3  # how often news are passed on, times the logarithm of the size
    room: Const[int] = 6  # for so many news in a message
    incarnation: Durable[int] = 0
    number: int = 0  # of this period
    target: ProcessId | None = None
    answered: bool = False
    untested: set[ProcessId] = set()  # their turn has not come yet
    latest: dict[ProcessId, News] = {}  # of each process; none is as good as alive in incarnation 0
    told: dict[
        ProcessId, int
    ] = {}  # how often the latest of each has been passed on, until it is often enough

    def magnitude(self) -> int:
        """Return the logarithm of the group's size: the number of periods that news take to reach
        all processes.
        """
        return len(self.peers).bit_length()

    def on_start(self) -> None:
        self.begin_period()

    def on_recover(self) -> None:
        self.incarnation += 1
        self.speak_for_itself()
        self.begin_period()

    # One period.

    def begin_period(self) -> None:
        self.set_timer(Period(), after=self.period)
        self.number += 1
        self.answered = False
        if not self.untested:
            self.untested = set(self.peers)
        if self.untested:
            self.target = self.choose(sorted(self.untested))
            self.untested.discard(self.target)
            self.send(Ping(self.me, self.number, self.news_for(self.target)), to=self.target)
            self.set_timer(NoAnswer(), after=self.timeout)

    @upon(NoAnswer)
    def ask_others(self, _: NoAnswer) -> None:
        if self.answered or self.target is None or self.known(self.target).standing == FAILED:
            return
        trusted = [
            peer
            for peer in self.peers
            if peer != self.target and self.known(peer).standing != FAILED
        ]
        for _turn in range(min(self.helpers, len(trusted))):
            helper = self.choose(trusted)
            trusted.remove(helper)
            self.send(PingForMe(self.target, self.number, self.news_for(helper)), to=helper)

    @upon(Period)
    def end_period(self, _: Period) -> None:
        if self.target is not None and not self.answered:
            self.learn(News(self.known(self.target).incarnation, DOUBTED, self.target))
        self.begin_period()

    # Pings and answers.

    @upon(Ping)
    def answer(self, sender: ProcessId, ping: Ping) -> None:
        self.learn_all(ping.news)
        self.send(Answer(ping.origin, ping.number, self.news_for(sender)), to=sender)

    @upon(PingForMe)
    def ping_for_another(self, sender: ProcessId, request: PingForMe) -> None:
        self.learn_all(request.news)
        self.send(Ping(sender, request.number, self.news_for(request.target)), to=request.target)

    @upon(Answer)
    def note_or_return_answer(self, sender: ProcessId, answer: Answer) -> None:
        self.learn_all(answer.news)
        if answer.origin != self.me:
            self.send(
                Answer(answer.origin, answer.number, self.news_for(answer.origin)), to=answer.origin
            )
        elif answer.number == self.number:
            self.answered = True

    # News.

    def known(self, process: ProcessId) -> News:
        return self.latest.get(process, News(0, ALIVE, process))

    def learn_all(self, news: tuple[News, ...]) -> None:
        for each in news:
            if each.process != self.me:
                self.learn(each)
            elif each.standing != ALIVE and not self.is_denying(each):
                # no doubt about an earlier incarnation can touch this one
                self.incarnation = max(self.incarnation, each.incarnation + 1)
                self.speak_for_itself()

    def is_denying(self, doubt: News) -> bool:
        """Return whether the denial is on its way.  If it was sent often enough and a process still
        doubts, all copies were lost.
        """
        return doubt.incarnation < self.incarnation and self.me in self.told

    def speak_for_itself(self) -> None:
        self.latest[self.me] = News(self.incarnation, ALIVE, self.me)
        self.told[self.me] = 0

    def learn(self, news: News) -> None:
        before = self.known(news.process)
        if not before < news:
            return
        self.latest[news.process] = news
        self.told[news.process] = 0
        if before.standing == DOUBTED:
            self.cancel_timer(Grace(before))
        if news.standing == DOUBTED:
            self.set_timer(Grace(news), after=self.grace * self.period * self.magnitude())
        if news.standing == FAILED:
            self.indicate(Suspected(news.process))
        elif before.standing == FAILED:
            self.indicate(Restored(news.process))

    @upon(Grace)
    def give_up(self, grace: Grace) -> None:
        self.learn(News(grace.doubt.incarnation, FAILED, grace.doubt.process))

    def news_for(self, receiver: ProcessId) -> tuple[News, ...]:
        """Return what is held against the receiver, and the news that were passed on
        least often.
        """
        against = [self.known(receiver)] if self.known(receiver).standing != ALIVE else []
        fresh = sorted(self.told, key=lambda process: (self.told[process], process))
        passed_on = [process for process in fresh if process != receiver][: self.room]
        for process in passed_on:
            self.told[process] += 1
            if self.told[process] >= self.spread * self.magnitude():
                del self.told[process]
        return (*against, *(self.known(process) for process in passed_on))
