"""Onlookers: who holds a lock, who leads, told to clients that watch.

A node knows only of its own clients.  If one of them watches a lock, the node asks its peers to tell it of theirs; that wish has to
be repeated now and then, so a peer that has gone is forgotten and a peer that has come hears of it.  What they tell is gossip: it
comes late, and nothing that an algorithm does depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from habemus.core.process import ProcessId
from habemus.core.values import Indication
from habemus.problems.election import Leader
from habemus.runtimes.live.desk import Desk, Standing, Wire
from habemus.runtimes.live.frames import News, StandBack, Watch
from habemus.runtimes.live.timers import Alarm, Timers

if TYPE_CHECKING:
    from habemus.runtimes.live.node import Node

REPEAT_US = 2_000_000
FIRST_US = 200_000
"""How long the first answer waits for peers that are slow to say what they know."""
FORGET_US = 3 * REPEAT_US

Key = tuple[str, str]


class _Watcher(NamedTuple):
    wire: Wire
    id: int


class Watching:
    def __init__(self, node: Node, desk: Desk, timers: Timers) -> None:
        self._node = node
        self._desk = desk
        self._timers = timers
        self._watchers: dict[Key, list[_Watcher]] = {}
        self._peers: dict[Key, dict[int, int]] = {}  # which of them want to know, and until when
        self._heard: dict[Key, dict[int, Standing]] = {}  # what they said
        self._told: dict[Key, dict[str, Any]] = {}  # what the watchers know
        self._unheard: dict[Key, set[int]] = {}  # the peers that have not answered yet, while the watchers have not been told anything
        self._leaving: dict[Key, Callable[[], None]] = {}
        self._first: dict[Key, Alarm] = {}  # when the watchers are told, whoever has not answered
        self._asking: dict[Key, Alarm] = {}  # when the peers are asked again
        desk.changed = self._changed
        desk.transferred = self._transferred

    # Clients.

    def watch(self, wire: Wire, id: int, service: str, name: str) -> None:
        key = (service, name)
        watchers = self._watchers.setdefault(key, [])
        watchers.append(_Watcher(wire, id))
        if len(watchers) > 1:
            if key in self._told:
                wire.say("news", id, self._told[key])
            return
        if self._desk.kind(service) == "election":
            self._told[key] = {"service": service, "name": name, "leader": None, "term": 0}
            self._leaving[key] = self._node.subscribe(service, name, lambda process, said: self._hear_leader(key, process, said))
            self._say(key, self._told[key])
        else:
            self._unheard[key] = set(self._node.reaches())
            self._ask_peers(key)
            self._first[key] = self._timers.set(FIRST_US, partial(self._tell_first, key))
            self._tell_if_new(key)

    def unwatch(self, wire: Wire, id: int | None = None) -> None:
        """One of the things that a client watches, or all."""
        for key, watchers in list(self._watchers.items()):
            watchers[:] = [each for each in watchers if each.wire is not wire or id not in (None, each.id)]
            if not watchers:
                del self._watchers[key]
                self._heard.pop(key, None)
                self._told.pop(key, None)
                self._unheard.pop(key, None)
                self._timers.cancel(self._asking.pop(key, None))
                self._timers.cancel(self._first.pop(key, None))
                leave = self._leaving.pop(key, None)
                if leave is not None:
                    leave()

    def _say(self, key: Key, told: dict[str, Any]) -> None:
        self._told[key] = told
        for wire, id in self._watchers.get(key, ()):
            wire.say("news", id, told)

    def _hear_leader(self, key: Key, process: ProcessId, said: Indication) -> None:
        if isinstance(said, Leader) and process == self._node.me:
            self._say(key, {"service": key[0], "name": key[1], "leader": said.process, "term": said.term})

    def _view(self, key: Key) -> dict[str, Any]:
        """Who holds it.  While news is under way two may seem to; then it is the one with the larger token."""
        known = {self._node.me: self._desk.standing(*key), **self._heard.get(key, {})}
        holding = [(standing.token or 0, node, standing) for node, standing in known.items() if standing.holder is not None]
        _, node, standing = max(holding, default=(0, None, Standing()))
        waiting = sum(each.waiting for each in known.values())
        told = {"holder": standing.holder, "node": node, "token": standing.token, "waiting": waiting}
        return {"service": key[0], "name": key[1], **told}

    # Between nodes.

    def _ask_peers(self, key: Key) -> None:
        for peer in self._node.settings.peers:
            self._node.send(peer, Watch(self._node.number_of(key[0]), key[1]))
        self._asking[key] = self._timers.set(REPEAT_US, partial(self._ask_peers, key))

    def connected(self, peer: int) -> None:
        for service, name in self._watchers:
            self._node.send(peer, Watch(self._node.number_of(service), name))

    def _changed(self, service: str, name: str) -> None:
        if not self._peers and not self._watchers:
            return
        key = (service, name)
        interested = self._peers.get(key)
        if interested is not None:
            now, standing = self._timers.now_us(), self._desk.standing(*key)
            for peer, until in list(interested.items()):
                if until < now:
                    del interested[peer]
                else:
                    self._node.send(peer, News(self._node.number_of(service), name, *standing))
            if not interested:
                del self._peers[key]
        self._tell_if_new(key)

    def _tell_first(self, key: Key) -> None:
        self._unheard.pop(key, None)
        self._tell_if_new(key)

    def _tell_if_new(self, key: Key) -> None:
        if key in self._watchers and not self._unheard.get(key):
            view = self._view(key)
            if view != self._told.get(key):
                self._say(key, view)

    def _transferred(self, service: str, name: str, label: str) -> None:
        for peer in self._node.settings.peers:
            self._node.send(peer, StandBack(self._node.number_of(service), name, label))

    def hear(self, peer: int, service: str, frame: Watch | News | StandBack) -> None:
        key = (service, frame.instance)
        if isinstance(frame, StandBack):
            self._desk.stand_back(service, frame.instance, frame.label)
        elif isinstance(frame, Watch):
            self._peers.setdefault(key, {})[peer] = self._timers.now_us() + FORGET_US
            self._node.send(peer, News(frame.service, frame.instance, *self._desk.standing(*key)))
        elif key in self._watchers:
            self._heard.setdefault(key, {})[peer] = Standing(frame.holder, frame.token, frame.waiting)
            self._unheard.get(key, set()).discard(peer)
            self._tell_if_new(key)
