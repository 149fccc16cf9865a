"""Feeds: what one instance indicates is news for all instances of another service.

So many locks share one election.  News reach an instance before any other event, as if each had an
election of its own: the time slices in which all of them are told make no difference to it.

A lock whose coordinator has used up the tokens of a term indicates that, and the node passes it on
to the election, which begins a new term for all locks.

Where members change, an election waits until the processes above it confirm the present members.
It gets the confirmation of all instances together: of those in use at this node, and of the
representative for the idle ones (docs/members.md).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import cast

from habemus.core.process import ProcessId
from habemus.core.values import Indication, Timer
from habemus.problems.election import Election
from habemus.problems.fencing import TermUsedUp
from habemus.problems.mutex import Mutex
from habemus.runtimes.live.hosting.instance import Instance, Listener, LocalProcess
from habemus.runtimes.live.hosting.service import Feed, Service
from habemus.runtimes.live.hosting.slices import TimeSlicer
from habemus.runtimes.live.hosting.steps import Steps
from habemus.runtimes.live.hosting.timers import Timers

log = logging.getLogger("habemus.live")

CONFIRM_US = 20_000
"""How often a node looks whether all instances have confirmed the members."""
CONFIRM_SHARE_US = 10
"""More time between two looks for each instance."""


class Feeds:
    """The feeds of a node's services.

    instances: all instances of the node, by the index of the service and the name.
    representatives: the instance of each service that stands for the idle ones (`idle`).
    """

    def __init__(
        self,
        me: int,
        services: Sequence[Service],
        instances: Mapping[tuple[int, str], Instance],
        representatives: Mapping[int, Instance],
    ) -> None:
        self._me = me
        self._instances = instances
        self._representatives = representatives
        # latest of each kind, for each service with a feed
        self._news: dict[int, dict[type[Timer], Timer]] = {}
        self._steps: Steps
        self._slices: TimeSlicer
        self.sources: dict[tuple[int, str], list[Listener]] = {}
        """The instances that feed others, and their listeners."""
        self._growing: dict[int, tuple[int, str]] = {}  # services that confirm members, to whom
        self.feedback: dict[int, dict[type[Indication], tuple[Listener, ...]]] = {}
        """The listeners to some indications of the instances of each service."""
        self._used_up: dict[tuple[int, str], int] = {}  # the last term without tokens, by election
        index_of = {service.name: index for index, service in enumerate(services)}
        for index, service in enumerate(services):
            if service.feed is not None:
                source = (index_of[service.feed.service], service.feed.instance)
                listener = partial(self._hear, index, service.feed)
                self.sources.setdefault(source, []).append(listener)
                self.feedback[index] = {TermUsedUp: (partial(self._hear_used_up, source),)}
                if service.grows:
                    self._growing[index] = source

    def begin(self, steps: Steps, slices: TimeSlicer, timers: Timers, counts: Counter[str]) -> None:
        """Carry out the deliveries of news by these from now on, and count terms that end."""
        self._steps, self._slices, self._timers, self._counts = steps, slices, timers, counts
        if self._growing:
            self._timers.set(CONFIRM_US, self._look_for_confirmations)

    def tell(self, local_process: LocalProcess) -> None:
        """Deliver the latest news to a process that has just started."""
        instance = local_process.instance
        latest, feed = self._news.get(instance.service_index), instance.service.feed
        if latest is not None and feed is not None:
            for kind in feed.kinds:
                if kind in latest:
                    self._steps.tell(local_process, feed.part, latest[kind])

    def _hear(self, index: int, feed: Feed, process: ProcessId, indication: Indication) -> None:
        news = feed.news(indication) if process == self._me else None
        if news is not None:
            self._news.setdefault(index, {})[type(news)] = news
            if index in self._representatives:  # first, for the copies that are made meanwhile
                self._tell(self._representatives[index], feed.part, news)
            affected = [
                instance for instance in self._instances.values() if instance.service_index == index
            ]
            for instance in affected:
                instance.unheard.append(news)
            self._slices.run(feed, self._tell_all(affected))

    def _hear_used_up(
        self, source: tuple[int, str], process: ProcessId, indication: Indication
    ) -> None:
        """Have the election begin a new term if a lock has no token left in this one."""
        if not isinstance(indication, TermUsedUp) or process != self._me:
            return
        election = self._instances.get(source)
        if election is None or not election.processes[self._me].has_request("begin_term"):
            return
        if self._used_up.get(source) != indication.term:
            self._used_up[source] = indication.term
            self._counts["used-up terms"] += 1
            log.info("the tokens of term %d are used up: the next term begins", indication.term)
        self._steps.request(election.processes[self._me], "begin_term", (indication.term,), None)

    def _tell_all(self, instances: list[Instance]) -> Iterator[None]:
        for instance in instances:
            self._steps.catch_up(instance)
            yield

    def _tell(self, instance: Instance, part: str, news: Timer) -> None:
        for local_process in instance.processes.values():
            self._steps.tell(local_process, part, news)

    # Confirmations of members.

    def _look_for_confirmations(self) -> None:
        for index, source in self._growing.items():
            election = self._instances.get(source)
            if election is not None and election.failed is None:
                self._confirm(index, election)
        after = CONFIRM_US + CONFIRM_SHARE_US * len(self._instances)
        self._timers.set(after, self._look_for_confirmations)

    def _confirm(self, index: int, election: Instance) -> None:
        """Confirm the present members to the election if all instances of the service do."""
        local_process = election.processes[self._me]
        wanted = cast(Election, local_process.pure.parts[0]).unconfirmed()
        if wanted is None:
            return
        representative = self._representatives.get(index)
        if representative is not None and not self._has_confirmed(representative, wanted):
            return
        for (service, _), instance in self._instances.items():
            if service == index and not self._has_confirmed(instance, wanted):
                return
        self._steps.request(local_process, "confirm", (wanted[1],), None)

    def _has_confirmed(self, instance: Instance, wanted: tuple[int, int]) -> bool:
        top = cast(Mutex, instance.processes[self._me].pure.parts[0])
        return not instance.unheard and top.confirmed_members() == wanted
