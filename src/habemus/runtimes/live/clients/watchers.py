"""Onlookers: who holds a lock, who leads, told to clients that watch.

A node knows only of its own clients.  If one of them watches a lock, the node asks its peers to
tell it of theirs; that wish has to be repeated now and then, so a peer that has gone is forgotten
and a peer that has come hears of it.  What they tell is gossip: it comes late, and nothing that an
algorithm does depends on it.

Wishes are repeated a few at a time, so that many of them are a steady trickle and no flood.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from habemus.core.process import ProcessId
from habemus.core.values import Indication
from habemus.problems.election import Leader
from habemus.runtimes.live.clients.lock_queues import Desk, Standing, Wire
from habemus.runtimes.live.hosting.slices import Slices
from habemus.runtimes.live.hosting.timers import Alarm, Timers
from habemus.runtimes.live.peers.frames import News, StandBack, Watch

if TYPE_CHECKING:
    from habemus.runtimes.live.hosting.node import Node

REPEAT_US = 2_000_000
TICK_US = 50_000
FIRST_US = 200_000
"""How long the first answer waits for peers that are slow to say what they know."""
FORGET_US = 3 * REPEAT_US
MOST_WISHES = 100_000
"""Locks of which the peers may want to know."""

Key = tuple[str, str]


@dataclass(eq=False)
class _Watched:
    """A lock or an election that clients of this node watch."""

    watchers: dict[tuple[Wire, int], None] = field(default_factory=dict)
    told: dict[str, Any] | None = None  # what the watchers know
    unheard: set[int] = field(
        default_factory=set
    )  # peers that have not answered, while the watchers know nothing
    heard: dict[int, Standing] = field(default_factory=dict)  # what peers said
    asked_us: int = 0  # when the peers were asked
    leave: Callable[[], None] | None = None  # stops listening to an election


class Watching:
    def __init__(self, node: Node, desk: Desk, timers: Timers, slices: Slices) -> None:
        self._node = node
        self._desk = desk
        self._timers = timers
        self._slices = slices
        self._elections: dict[Key, _Watched] = {}
        self._locks: OrderedDict[Key, _Watched] = (
            OrderedDict()
        )  # first those of which the peers were asked longest ago
        self._unanswered: deque[tuple[int, Key]] = (
            deque()
        )  # when the watchers are told, whoever has not answered
        self._tick: Alarm | None = None
        self._wishes: dict[Key, dict[int, int]] = {}  # which peers want to know, and until when
        self._forgetting: Alarm | None = None
        desk.changed = self._changed
        desk.transferred = self._transferred

    # Clients.

    def watch(self, wire: Wire, id: int, service: str, name: str) -> None:
        key = (service, name)
        watched = self._elections.get(key) or self._locks.get(key)
        if watched is not None:
            watched.watchers[wire, id] = None
            if watched.told is not None:
                wire.say("news", id, watched.told)
        elif self._desk.kind(service) == "election":
            leave = self._node.subscribe(service, name, partial(self._hear_leader, key))
            watched = self._elections[key] = _Watched({(wire, id): None}, leave=leave)
            self._say(watched, {"service": service, "name": name, "leader": None, "term": 0})
        else:
            watched = self._locks[key] = _Watched(
                {(wire, id): None}, unheard=set(self._node.reaches())
            )
            self._ask_peers(key, watched)
            self._unanswered.append((self._timers.now_us() + FIRST_US, key))
            self._tell_if_new(key)
            if self._tick is None:
                self._tick = self._timers.set(TICK_US, self._go_on)

    def unwatch(self, wire: Wire, id: int, key: Key) -> None:
        watched = self._elections.get(key) or self._locks.get(key)
        if watched is None:
            return
        watched.watchers.pop((wire, id), None)
        if not watched.watchers:
            (self._locks if watched.leave is None else self._elections).pop(key, None)
            if watched.leave is not None:
                watched.leave()

    @staticmethod
    def _say(watched: _Watched, told: dict[str, Any]) -> None:
        watched.told = told
        for wire, id in watched.watchers:
            wire.say("news", id, told)

    def _hear_leader(self, key: Key, process: ProcessId, said: Indication) -> None:
        watched = self._elections.get(key)
        if watched is not None and isinstance(said, Leader) and process == self._node.me:
            self._say(
                watched,
                {"service": key[0], "name": key[1], "leader": said.process, "term": said.term},
            )

    def _view(self, key: Key, heard: dict[int, Standing]) -> dict[str, Any]:
        """Who holds it.  While news is under way two may seem to; then it is the one with the
        larger token.
        """
        known = {self._node.me: self._desk.standing(*key), **heard}
        holding = [
            (standing.token or 0, node, standing)
            for node, standing in known.items()
            if standing.holder is not None
        ]
        _, node, standing = max(holding, default=(0, None, Standing()))
        waiting = sum(each.waiting for each in known.values())
        told = {
            "holder": standing.holder,
            "node": node,
            "token": standing.token,
            "waiting": waiting,
        }
        return {"service": key[0], "name": key[1], **told}

    def _tell_if_new(self, key: Key) -> None:
        watched = self._locks.get(key)
        if watched is not None and not watched.unheard:
            view = self._view(key, watched.heard)
            if view != watched.told:
                self._say(watched, view)

    def _go_on(self) -> None:
        """Tell watchers that have waited long enough, and repeat wishes, a share of all at most."""
        self._tick = None
        now = self._timers.now_us()
        self._slices.run(self, self._tell_overdue(now))
        for _ in range(-(-len(self._locks) * TICK_US // REPEAT_US)):
            key, watched = next(iter(self._locks.items()))
            if watched.asked_us + REPEAT_US > now:
                break
            self._locks.move_to_end(key)
            self._ask_peers(key, watched)
        if self._locks:
            self._tick = self._timers.set(TICK_US, self._go_on)
        else:
            self._unanswered.clear()

    def _tell_overdue(self, now: int) -> Iterator[None]:
        while self._unanswered and self._unanswered[0][0] <= now:
            _, key = self._unanswered.popleft()
            watched = self._locks.get(key)
            if watched is not None:
                watched.unheard.clear()
                self._tell_if_new(key)
            yield

    # Between nodes.

    def _ask_peers(self, key: Key, watched: _Watched) -> None:
        watched.asked_us = self._timers.now_us()
        wish = Watch(self._node.number_of(key[0]), key[1])
        for peer in self._node.settings.peers:
            self._node.send(peer, wish)

    def connected(self, peer: int) -> None:
        self._slices.run(self, self._ask_again(peer, list(self._locks)))

    def _ask_again(self, peer: int, keys: list[Key]) -> Iterator[None]:
        for key in keys:
            if key in self._locks:
                self._node.send(peer, Watch(self._node.number_of(key[0]), key[1]))
            yield

    def _changed(self, service: str, name: str) -> None:
        if not self._wishes and not self._locks:
            return
        key = (service, name)
        wishes = self._wishes.get(key)
        if wishes is not None:
            news = News(self._node.number_of(service), name, *self._desk.standing(*key))
            for peer in wishes:
                self._node.send(peer, news)
        self._tell_if_new(key)

    def _transferred(self, service: str, name: str, label: str) -> None:
        for peer in self._node.settings.peers:
            self._node.send(peer, StandBack(self._node.number_of(service), name, label))

    def hear(self, peer: int, service: str, frame: Watch | News | StandBack) -> None:
        key = (service, frame.instance)
        if isinstance(frame, StandBack):
            self._desk.stand_back(service, frame.instance, frame.label)
        elif isinstance(frame, Watch):
            self._note_wish(peer, key)
            self._node.send(peer, News(frame.service, frame.instance, *self._desk.standing(*key)))
        else:
            watched = self._locks.get(key)
            if watched is not None:
                watched.heard[peer] = Standing(frame.holder, frame.token, frame.waiting)
                watched.unheard.discard(peer)
                self._tell_if_new(key)

    def _note_wish(self, peer: int, key: Key) -> None:
        if key in self._wishes or len(self._wishes) < MOST_WISHES:
            self._wishes.setdefault(key, {})[peer] = self._timers.now_us() + FORGET_US
            if self._forgetting is None:
                self._forgetting = self._timers.set(FORGET_US, self._forget)

    def _forget(self) -> None:
        """Drop the wishes that were not repeated in time."""
        self._forgetting = None
        self._slices.run(self, self._drop_wishes(list(self._wishes), self._timers.now_us()))
        if self._wishes:
            self._forgetting = self._timers.set(FORGET_US, self._forget)

    def _drop_wishes(self, keys: list[Key], now: int) -> Iterator[None]:
        for key in keys:
            wishes = self._wishes.get(key, {})
            for peer in [peer for peer, until in wishes.items() if until < now]:
                del wishes[peer]
            if not wishes:
                self._wishes.pop(key, None)
            yield
