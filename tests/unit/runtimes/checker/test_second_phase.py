"""The second phase against a brute-force search of the same model, written independently."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import product
from typing import Any

import pytest

from habemus.catalog.entries import entry_of
from habemus.core import Const, Message, ProcessId, Timer, upon
from habemus.core.node import (
    Broadcast,
    CancelTimer,
    Effect,
    Indicate,
    PureNode,
    Send,
    SetTimer,
    Stack,
)
from habemus.core.properties import Verdict
from habemus.problems.mutex import Granted, Mutex
from habemus.runs.check import Check, perform


class Ask(Message):
    pass


class Yes(Message):
    pass


class Done(Message):
    pass


class Freed(Message):
    pass


class Again(Timer):
    pass


class Retrying(Mutex):
    """Process 1 grants the lock to the first that asks; the others repeat what may be lost."""

    name = "retrying"

    wait: Const[int] = 5_000
    holder: ProcessId | None = None
    wanted: bool = False
    inside: bool = False
    finished: set[ProcessId] = set()  # those that have entered once and left
    tries: int = 0

    def acquire(self) -> None:
        self.wanted = True
        self.speak()

    def release(self) -> None:
        self.wanted = self.inside = False
        self.speak()

    def speak(self) -> None:
        self.send(Ask() if self.wanted else Done(), to=1)
        self.set_timer(Again(), after=self.wait)

    @upon(Again)
    def repeat(self, _: Again) -> None:
        self.speak()

    @upon(Ask)
    def grant(self, sender: ProcessId, _: Ask) -> None:
        if self.holder in (None, sender) and sender not in self.finished:
            self.holder = sender
            self.send(Yes(), to=sender)

    @upon(Yes)
    def enter_or_give_back(self, sender: ProcessId, _: Yes) -> None:
        if not self.wanted:
            self.speak()
        elif not self.inside:
            self.cancel_timer(Again())
            self.inside = True
            self.granted()

    @upon(Done)
    def free(self, sender: ProcessId, _: Done) -> None:
        self.finished.add(sender)
        if self.holder == sender:
            self.holder = None
        self.send(Freed(), to=sender)

    @upon(Freed)
    def rest(self, sender: ProcessId, _: Freed) -> None:
        self.cancel_timer(Again())


class NeverRepeats(Retrying):
    def repeat(self, _: Again) -> None:
        """Do nothing."""


class RepeatsTwice(Retrying):
    """Two repetitions are enough only if none of them is in vain."""

    def repeat(self, _: Again) -> None:
        self.tries += 1
        if self.tries <= 2:
            self.speak()


class RepeatsByChance(Retrying):
    def repeat(self, _: Again) -> None:
        if self.choose([True, False]):
            self.speak()
        else:
            self.set_timer(Again(), after=self.wait)


class RepeatsRarely(Retrying):
    """Waits for its time in vain for ever, by a choice that is no choice."""

    def repeat(self, _: Again) -> None:
        if self.choose([False]):
            self.speak()
        else:
            self.set_timer(Again(), after=self.wait)


State = tuple[Any, ...]


class BruteForce:
    """All states of two processes that enter once each, over links that lose messages.

    A state is, for each process, what it captures, its timers with the time left, and the stage of
    its application; and the messages in flight.
    """

    def __init__(self, algorithm: type[Mutex], timeouts: int) -> None:
        self.system = algorithm.system(2)
        self.timeouts = timeouts
        self.script: list[int] = []
        self.asked: list[int] = []
        self.nodes = {
            me: PureNode(Stack(plan), me, self.system.topology.neighbours[me], self._choose)
            for me, plan in self.system.plans.items()
        }

    def _choose(self, options: Sequence[Any]) -> Any:
        self.asked.append(len(options))
        place = len(self.asked) - 1
        return options[self.script[place] if place < len(self.script) else 0]

    def _outcomes(
        self, state: State, me: ProcessId, run: Callable[[PureNode], list[Effect]], timed: bool
    ) -> Iterator[State]:
        scripts: list[list[int]] = [[]]
        while scripts:
            self.script, self.asked = scripts.pop(), []
            node = self.nodes[me]
            nodes, timers, stages, flying = (
                dict(state[0]),
                dict(state[1]),
                dict(state[2]),
                state[3],
            )
            node.restore(nodes[me])
            effects = run(node)
            for place in range(len(self.script), len(self.asked)):
                padded = self.script + [0] * (place - len(self.script))
                scripts += [[*padded, other] for other in range(1, self.asked[place])]
            nodes[me] = node.capture()
            messages = list(flying)
            settings: list[list[tuple[Hashable, int | None]]] = []
            for effect in effects:
                match effect:
                    case Send(port, to, message):
                        messages.append((to, me, port, message))
                    case Broadcast(port, message):
                        peers = self.system.topology.neighbours[me]
                        messages += [(to, me, port, message) for to in peers]
                    case SetTimer(port, timer, after):
                        ends = {after} if isinstance(after, int) else set(after)
                        settings.append([((port, timer), end) for end in sorted(ends)])
                    case CancelTimer(port, timer):
                        settings.append([((port, timer), None)])
                    case Indicate(Granted()):
                        stages[me] = "inside"
            for setting in product(*settings):
                left = dict(timers[me])
                for key, end in setting:
                    left.pop(key, None)
                    if end is not None:
                        left[key] = end if timed else 0
                yield (
                    _frozen(nodes),
                    _frozen({**timers, me: _frozen(left)}),
                    _frozen(stages),
                    tuple(sorted(messages, key=repr)),
                )

    def start(self) -> State:
        empty = dict.fromkeys(self.nodes, ())
        state: State = (
            _frozen({me: node.stack.initial for me, node in self.nodes.items()}),
            _frozen(empty),
            _frozen(dict.fromkeys(self.system.clients, "outside")),
            (),
        )
        for me in self.nodes:
            (state,) = self._outcomes(state, me, lambda node: node.start(), timed=False)
        return state

    def _messages(self, state: State, timed: bool) -> Iterator[list[State]]:
        """Yield the outcomes of each receipt, and of each step of an application inside."""
        for flight in dict.fromkeys(state[3]):
            to, sender, port, message = flight
            rest = list(state[3])
            rest.remove(flight)

            def run(
                node: PureNode, port: int = port, sender: int = sender, message: Message = message
            ) -> list[Effect]:
                return node.deliver(port, sender, message)

            yield list(self._outcomes((*state[:3], tuple(rest)), to, run, timed))
        for me, stage in state[2]:
            if stage == "inside":
                after = (*state[:2], _frozen({**dict(state[2]), me: "left"}), state[3])
                yield list(self._outcomes(after, me, lambda node: node.request("release"), timed))

    def _timers(self, state: State, timed: bool) -> Iterator[list[State]]:
        for me, timers in state[1]:
            for key, left in timers:
                if left == 0:
                    rest = _frozen({other: time for other, time in timers if other != key})
                    after = (state[0], _frozen({**dict(state[1]), me: rest}), *state[2:])
                    port, timer = key

                    def run(node: PureNode, port: int = port, timer: Timer = timer) -> list[Effect]:
                        return node.fire(port, timer)

                    yield list(self._outcomes(after, me, run, timed))

    def first_phase(self) -> set[State]:
        seen = {(self.start(), self.timeouts)}
        queue = list(seen)
        for state, left in queue:
            following = [(after, left) for step in self._messages(state, False) for after in step]
            for flight in state[3]:
                if flight[0] != flight[1]:
                    rest = list(state[3])
                    rest.remove(flight)
                    following.append(((*state[:3], tuple(rest)), left))
            for me, stage in state[2]:
                if stage == "outside":
                    asked = (*state[:2], _frozen({**dict(state[2]), me: "waiting"}), state[3])
                    following += [
                        (after, left)
                        for after in self._outcomes(
                            asked, me, lambda node: node.request("acquire"), False
                        )
                    ]
            if left:
                following += [
                    (after, left - 1) for step in self._timers(state, False) for after in step
                ]
            for each in following:
                if each not in seen:
                    seen.add(each)
                    queue.append(each)
        return {state for state, _ in seen}

    def events(self, state: State) -> list[list[State]]:
        """Return the outcomes of each event in the second phase."""
        events = list(self._messages(state, True)) or list(self._timers(state, True))
        if events:
            return events
        lefts = [left for _, timers in state[1] for _, left in timers]
        if not lefts:
            return []
        timers = _frozen(
            {me: _frozen({key: left - min(lefts) for key, left in each}) for me, each in state[1]}
        )
        return [[(state[0], timers, *state[2:])]]

    def verdict(self, process: ProcessId) -> Verdict:
        """Whether a process that waits enters, from every state of the first phase."""
        events: dict[State, list[list[State]]] = {}
        queue = [state for state in self.first_phase() if dict(state[2])[process] == "waiting"]
        for state in queue:
            if state not in events:
                events[state] = self.events(state)
                queue += [
                    after
                    for step in events[state]
                    for after in step
                    if dict(after[2])[process] == "waiting"
                ]
        for quantifier, verdict in ((all, Verdict.VIOLATED), (any, Verdict.ALMOST_SURELY)):
            stays = set(events)
            while True:
                kept = {
                    state
                    for state in stays
                    if not events[state]
                    or any(quantifier(after in stays for after in step) for step in events[state])
                }
                if len(kept) == len(stays):
                    break
                stays = kept
            if stays:
                return verdict
        return Verdict.HOLDS


def _frozen(mapping: dict[Any, Any]) -> tuple[tuple[Any, Any], ...]:
    return tuple(sorted(mapping.items(), key=repr))


@pytest.mark.parametrize(
    ("algorithm", "timeouts", "expected"),
    [
        (Retrying, 1, Verdict.HOLDS),
        (NeverRepeats, 1, Verdict.VIOLATED),
        (RepeatsTwice, 2, Verdict.VIOLATED),
        (RepeatsTwice, 0, Verdict.HOLDS),
        (RepeatsByChance, 1, Verdict.ALMOST_SURELY),
        (RepeatsRarely, 1, Verdict.VIOLATED),
    ],
)
def test_verdicts_are_those_of_a_brute_force_search(
    algorithm: type[Mutex], timeouts: int, expected: Verdict
) -> None:
    found = perform(
        Check(
            "tried",
            2,
            network="lossy",
            timeouts=timeouts,
            timing="eventual",
            every=True,
        ),
        entry=entry_of(algorithm),
    )
    verdict = next(each.verdict for each in found.findings if each.name == "ME2-starvation")
    deadlock = next(each.verdict for each in found.findings if each.name == "ME2-deadlock")
    if deadlock is Verdict.VIOLATED:
        verdict = deadlock  # a process that waits in vain while no other one enters
    brute = BruteForce(algorithm, timeouts)
    by_process = {brute.verdict(process) for process in (1, 2)}
    worst = next(
        each
        for each in (Verdict.VIOLATED, Verdict.ALMOST_SURELY, Verdict.HOLDS)
        if each in by_process
    )
    assert verdict is worst is expected
