"""Feeds: what one instance indicates is news for all instances of another service.

So many locks share one election.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from habemus.core.process import ProcessId
from habemus.core.values import Indication, Timer
from habemus.runtimes.live.hosting.instance import Instance, Listener, LocalProcess
from habemus.runtimes.live.hosting.service import Feed, Service
from habemus.runtimes.live.hosting.slices import TimeSlicer
from habemus.runtimes.live.hosting.steps import Steps


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
        self._news: dict[int, Timer] = {}  # latest of each service with a feed
        self._steps: Steps
        self._slices: TimeSlicer
        self.sources: dict[tuple[int, str], list[Listener]] = {}
        """The instances that feed others, and their listeners."""
        index_of = {service.name: index for index, service in enumerate(services)}
        for index, service in enumerate(services):
            if service.feed is not None:
                source = (index_of[service.feed.service], service.feed.instance)
                listener = partial(self._hear, index, service.feed)
                self.sources.setdefault(source, []).append(listener)

    def begin(self, steps: Steps, slices: TimeSlicer) -> None:
        """Carry out the deliveries of news by these from now on."""
        self._steps, self._slices = steps, slices

    def tell(self, local_process: LocalProcess) -> None:
        """Deliver the latest news to a process that has just started."""
        instance = local_process.instance
        news = self._news.get(instance.service_index)
        if news is not None and instance.service.feed is not None:
            self._steps.tell(local_process, instance.service.feed.part, news)

    def _hear(self, index: int, feed: Feed, process: ProcessId, indication: Indication) -> None:
        news = feed.news(indication) if process == self._me else None
        if news is not None:
            self._news[index] = news
            if index in self._representatives:  # first, for the copies that are made meanwhile
                self._tell(self._representatives[index], feed.part, news)
            affected = [
                instance for instance in self._instances.values() if instance.service_index == index
            ]
            self._slices.run(feed, self._tell_all(affected, feed.part, news))

    def _tell_all(self, instances: list[Instance], part: str, news: Timer) -> Iterator[None]:
        for instance in instances:
            self._tell(instance, part, news)
            yield

    def _tell(self, instance: Instance, part: str, news: Timer) -> None:
        for local_process in instance.processes.values():
            self._steps.tell(local_process, part, news)
