"""Idle instances: one process of a node stands for all of them, and they cost nothing.

Most locks are used for a moment and then not for long.  A *forgetful* service (`service`) has one
unnamed instance on each node, the *representative*.  An instance that a node does not host is in
the state of the representative.  When it is used, by a client or by a message, it begins as a copy
of the representative, with its timers.  When it is idle again the representative absorbs it, and
its entry in stable memory is removed.

Why that is the algorithm, for each instance:

1. A copy changes no state: the instance is in the state in which it was.
2. An absorption only raises values, and the algorithm says when it can be done (`Process.absorb`).
3. A step of the representative is a step of every idle instance.  Its messages go to the
   representatives of other nodes.  Such a message is a message of all instances that are idle at
   both ends.  For one that is in use at the receiver it is lost.  For one that is in use at the
   sender it was never sent: so the message names those (`besides`), and the receiver wakes them
   before its own representative gets the message.
4. What a copy does may rest on values of the representative that are not stored yet, so its outputs
   wait for them.  A raised value and the removal of the absorbed entry are in one batch.  No
   instance is absorbed while a message of the representative waits to be sent: the message would
   speak for that instance, too.
5. An instance that has stored nothing of its own recovers in the state of the representative.  That
   has only got newer since the copy was made.

A message that names more instances than fit into a frame is not sent.  Then an instance that is
used asks for itself, as it does whenever it wakes before the representative has its answers.

While a node records its events, nothing is forgotten: a trace has each instance from its start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from habemus.core.process import ProcessId
from habemus.core.values import Message
from habemus.runtimes.live.hosting.instance import Instance, LocalProcess
from habemus.runtimes.live.hosting.slices import TimeSlicer
from habemus.runtimes.live.hosting.steps import Steps

Key = tuple[int, str]


class IdleInstances:
    """The representatives of a node.

    instances: all other instances of the node, by the index of the service and the name.
    """

    def __init__(self, instances: dict[Key, Instance]) -> None:
        self._instances = instances
        self.representatives: dict[int, Instance] = {}
        """The representative of each service, by the index of the service."""
        # messages to representatives that wait until the instances they name are awake
        self._waiting: Counter[int] = Counter()
        self._steps: Steps
        self._slices: TimeSlicer

    def begin(self, steps: Steps, slices: TimeSlicer) -> None:
        """Carry out the steps of representatives by these from now on."""
        self._steps, self._slices = steps, slices

    def add(self, representative: Instance) -> None:
        index = representative.service_index
        representative.besides = partial(self._in_use, index)
        self.representatives[index] = representative

    def _in_use(self, index: int) -> list[str]:
        return [name for service, name in self._instances if service == index]

    def wake(self, local_process: LocalProcess) -> bool:
        """Make a new process a copy of the representative.  Return whether there is one."""
        instance = local_process.instance
        representative = self.representatives.get(instance.service_index)
        if representative is None:
            return False
        instance.failed = representative.failed
        self._steps.wake(local_process, representative.processes[local_process.me])
        return True

    def deliver(
        self,
        index: int,
        to: ProcessId,
        sender: ProcessId,
        port: int,
        message: Message,
        besides: list[str],
        mention: Callable[[int, str], Instance | None],
    ) -> None:
        """Deliver a message to a representative, after the instances that it does not speak for
        are awake.  It is lost if there are too many instances.
        """
        representative = self.representatives.get(index)
        if representative is not None:

            def work() -> Iterator[None]:
                self._waiting[index] += 1
                try:
                    for name in besides:
                        if mention(index, name) is None:
                            return
                        yield
                    process = representative.processes[to]
                    self._steps.deliver(process, sender, port, message, 0)
                finally:
                    self._waiting[index] -= 1

            self._slices.run(representative, work())

    def sweep(self, forget: Callable[[Key, Instance], None]) -> Iterator[None]:
        """Absorb all instances that are idle, and call `forget` for each."""
        for key, instance in list(self._instances.items()):
            if self._instances.get(key) is instance and self._is_absorbed(instance):
                forget(key, instance)
            yield

    def _is_absorbed(self, instance: Instance) -> bool:
        index = instance.service_index
        representative = self.representatives.get(index)
        if (
            representative is None
            or representative.failed is not None
            or self._waiting[index]
            or instance.listeners
            or instance.failed is not None
        ):
            return False
        return all(
            self._steps.absorb(representative.processes[me], local_process)
            for me, local_process in instance.processes.items()
        )
