"""The desk of a node: where its clients queue for locks.

A node takes part in every lock once, however many clients it has.  They queue here, and when the
node's own process is let in, the first of them is.  When that one leaves, the process leaves too,
and asks again if there are others: so the clients of one node have no advantage over those of
another, and every stay has a grant, and a token, of its own.

A *claim* is one wish of one client.  It may name several locks and is content with one of them.
Who owns a lock is a claim, not a client: two tasks of one program have two claims, and one of them
waits.  A claim ends when it is released, when the connection on which it was made closes, when its
time is over, or when the lock is lost; whichever comes first, and only once.

A client that stands still loses its locks, if it gave them a lease: nothing was heard of its
session for that long.  Where grants of the algorithm run out themselves, a client is told how long
its grant is good for, and nobody's lease is longer.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

from habemus.core.process import ProcessId
from habemus.core.values import Indication
from habemus.problems.election import Election
from habemus.problems.fencing import Granted as GrantedWithToken
from habemus.problems.fencing import LockLost, Token
from habemus.problems.mutex import Granted, Mutex
from habemus.runtimes.live.hosting.failures import NodeStopped
from habemus.runtimes.live.hosting.instance import Hosted, Listener
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.hosting.slices import Slices
from habemus.runtimes.live.hosting.timers import Alarm, Timers
from habemus.runtimes.live.peers.codec import check_name

TRANSFER_US = 2_000_000
"""How long others stand back for the one to whom a lock was transferred."""
MOST_CLAIMS = 100_000
"""Claims that wait or hold at one node."""
MOST_OF_ONE_CLIENT = 10_000
"""Locks that one client may wait for or hold.  A claim on one of several locks counts for all of
them.
"""


def number_of(token: Token) -> int:
    """A token as one number, which grows as tokens do: a resource has only to compare."""
    term, count = token
    return term << 32 | count


def _nothing(*_: object) -> None:
    pass


class Standing(NamedTuple):
    """How a lock stands, as far as one node can tell."""

    holder: str | None = None  # the label of its client that holds it
    token: int | None = None
    waiting: int = 0  # how many of its clients wait


class Wire(Protocol):
    """A connection of a client."""

    def say(self, *line: object) -> None: ...


class Host(Protocol):
    """What a desk needs of the node that it stands on; a test gives one that keeps to a script."""

    @property
    def me(self) -> int: ...

    @property
    def services(self) -> tuple[Service, ...]: ...

    def participant(self, service: str, name: str) -> Hosted: ...

    def ask_of(
        self,
        hosted: Hosted,
        request: str,
        arguments: tuple[Any, ...] = (),
        told: Callable[[], None] | None = None,
    ) -> None: ...

    def ask(
        self,
        service: str,
        name: str,
        request: str,
        *arguments: Any,
        told: Callable[[], None] | None = None,
    ) -> None: ...

    def subscribe(self, service: str, name: str, listener: Listener) -> Callable[[], None]: ...

    def left_us(self, hosted: Hosted) -> int | None: ...

    def is_recorded(self, service: str, name: str) -> bool: ...


@dataclass(eq=False)
class Session:
    """What one client process has."""

    key: str
    label: str
    wires: dict[Wire, set[Claim]] = field(
        default_factory=dict
    )  # its connections, and what was claimed on each
    claims: dict[int, Claim] = field(default_factory=dict)
    holding: dict[int, Claim] = field(default_factory=dict)  # those of them that hold a lock
    locks: int = 0  # for which it waits or which it holds
    watches: int = 0
    at: int = 0  # the last time on its clock that was heard
    heard_us: int = 0  # and when that was, on ours
    watch: Alarm | None = None  # looks whether that was too long ago
    keeper: Wire | None = (
        None  # the connection that says that it is alive, if that is one of its own
    )


@dataclass(eq=False)
class Claim:
    session: Session
    wire: Wire
    id: int
    service: str
    names: tuple[str, ...]
    lease_us: int | None
    # its client has perhaps left already, and wants to know if somebody else would like to have it
    keeps: bool = False
    is_told: bool = False  # that somebody would
    places: list[Place] = field(default_factory=list)  # where it waits
    is_over: bool = False
    held: Place | None = None
    token: int | None = None
    since_us: int = 0
    time_out: Alarm | None = None  # ends it while it waits

    @property
    def is_waiting(self) -> bool:
        return self.held is None and not self.is_over


@dataclass(eq=False)
class Place:
    """One lock, as far as the clients of this node are concerned."""

    service: str
    name: str
    hosted: Hosted  # the participant of this node
    queue: OrderedDict[Claim, None] = field(default_factory=OrderedDict)
    holder: Claim | None = None
    has_asked: bool = False
    # requests that were taken back, and whose grant may still be on its way from stable memory
    withdrawing: int = 0
    stands_back_for: str = ""  # the client that is to be next
    stand_up: Alarm | None = None  # when that has been long enough
    leave: Callable[[], None] = _nothing  # stops listening to the instance

    @property
    def key(self) -> tuple[str, str]:
        return self.service, self.name


class Desk:
    def __init__(self, node: Host, timers: Timers, slices: Slices) -> None:
        self._node = node
        self._me = node.me
        self._timers = timers
        self._slices = slices
        self._places: dict[tuple[str, str], Place] = {}
        self._sessions: dict[str, Session] = {}
        self._claims = 0
        self._closed: dict[str, str] = {}  # services that cannot be had here for now, and why
        self._kinds: dict[str, type[Any]] = {
            each.name: type(next(iter(each.system.plans.values()))) for each in node.services
        }
        self._locks = [name for name, kind in self._kinds.items() if issubclass(kind, Mutex)]
        self.changed: Callable[[str, str], None] = _nothing
        self.transferred: Callable[[str, str, str], None] = _nothing

    # Sessions.

    def join(self, wire: Wire, label: str, key: str | None) -> Session | None:
        """A new session, or one that there is already; None if that is over."""
        if key is None:
            key = os.urandom(16).hex()
            self._sessions[key] = Session(key, label)
        session = self._sessions.get(key)
        if session is not None:
            session.wires[wire] = set()
        return session

    def leave(self, wire: Wire, session: Session) -> None:
        """The connection has closed, and whatever was claimed on it is over."""
        claims = session.wires.pop(wire)
        if session.keeper is wire:
            session.keeper = None
        if not session.wires:
            del self._sessions[session.key]
            self._timers.cancel(session.watch)
        self._slices.run(session, self._end_all(sorted(claims, key=lambda claim: claim.id)))

    def _end_all(self, claims: list[Claim]) -> Iterator[None]:
        for claim in claims:
            self._end(claim)
            yield

    def hear(self, session: Session, at: int) -> None:
        if at >= session.at:
            session.at, session.heard_us = at, self._timers.now_us()

    def alive(self, wire: Wire, session: Session, at: int) -> None:
        self.hear(session, at)
        session.keeper = wire
        held = [(claim, claim.held) for claim in session.holding.values() if claim.held is not None]
        wire.say(
            "alive", at, [(claim.id, _in_ms(self._left_us(claim, place))) for claim, place in held]
        )
        for claim, _ in held:
            if claim.is_told:
                wire.say("wanted", claim.id)  # it may have been said where nobody listens

    # Claims.

    def acquire(
        self,
        wire: Wire,
        session: Session,
        id: int,
        service: str,
        names: list[str],
        timeout_us: int | None,
        lease_us: int | None,
        at: int,
        keeps: bool = False,
    ) -> None:
        self.hear(session, at)
        if service not in self._locks:
            wire.say(
                "refused",
                id,
                "unknown",
                f"there is no service {service} with locks; there are"
                f" {', '.join(self._locks) or 'none'}",
            )
            return
        if id in session.claims:
            wire.say("refused", id, "rude", f"the id {id} is in use")
            return
        if service in self._closed:
            wire.say("refused", id, "unavailable", self._closed[service])
            return
        wanted = tuple(dict.fromkeys(names))
        refusal = self._refusal(session, wanted)
        if refusal is not None:
            wire.say("refused", id, *refusal)
            return
        claim = session.claims[id] = Claim(session, wire, id, service, wanted, lease_us, keeps)
        session.wires[wire].add(claim)
        session.locks += len(wanted)
        self._claims += 1
        if timeout_us is not None:
            claim.time_out = self._timers.set(timeout_us, partial(self._time_out, claim))
        if len(wanted) == 1:
            self._queue_at(claim, wanted[0])
        else:
            self._slices.run(session, self._queue_at_all(claim))

    def _refusal(self, session: Session, names: tuple[str, ...]) -> tuple[str, str] | None:
        """Why nobody can wait for these locks now: a word and a sentence."""
        if not names:
            return "rude", "a request names at least one lock"
        if self._claims >= MOST_CLAIMS:
            return (
                "full",
                f"{self._claims} claims wait or hold at this node, as many as it may have",
            )
        if session.locks + len(names) > MOST_OF_ONE_CLIENT:
            has = (
                f"this client waits for or holds {session.locks} locks and asks for {len(names)}"
                " more"
            )
            return "full", f"{has}; one client may have {MOST_OF_ONE_CLIENT}"
        try:
            for name in names:
                check_name(name)
        except ValueError as reason:
            return "rude", str(reason)
        return None

    def _queue_at_all(self, claim: Claim) -> Iterator[None]:
        """Wait for one lock after the other, until one of them is granted."""
        for name in claim.names:
            if not claim.is_waiting:
                return
            self._queue_at(claim, name)
            yield

    def _queue_at(self, claim: Claim, name: str) -> None:
        try:
            place = self._places.get((claim.service, name)) or self._new_place(claim.service, name)
        except RuntimeError as reason:  # too many instances, or one that failed, or the node ends
            word = "unavailable" if isinstance(reason, NodeStopped) else "full"
            claim.wire.say("refused", claim.id, word, str(reason))
            self._end(claim)
            return
        claim.places.append(place)
        place.queue[claim] = None
        self._see_to(place)
        holder = place.holder
        if holder is not None and holder.keeps and holder is not claim:
            self._tell_wish(holder)

    def release(self, session: Session, id: int) -> None:
        claim = session.claims.get(id)
        if claim is not None:
            self._end(claim)

    def transfer(self, session: Session, id: int, label: str) -> None:
        """The holder leaves, and the others stand back for a while, so that the client it names can
        be next.
        """
        claim = session.claims.get(id)
        if claim is None or claim.held is None:
            return
        place = claim.held
        self.stand_back(place.service, place.name, label)
        self.transferred(place.service, place.name, label)
        self._end(claim)

    def stand_back(self, service: str, name: str, label: str) -> None:
        place = self._places.get((service, name))
        if place is not None:
            place.stands_back_for = label
            self._timers.cancel(place.stand_up)
            place.stand_up = self._timers.set(TRANSFER_US, partial(self._stand_up, place))

    def _stand_up(self, place: Place) -> None:
        place.stands_back_for = ""
        self._see_to(place)

    def force(self, service: str, name: str) -> dict[str, Any]:
        """Takes a lock from the client of this node that holds it; else tells the algorithm that
        whoever holds it is gone.
        """
        if service not in self._locks:
            return {"taken": None, "reclaims": False}
        place = self._places.get((service, name))
        if place is not None and place.holder is not None:
            holder = place.holder
            self._lose(holder, "an operator has released it")
            self._leave(place)
            return {"taken": holder.session.label, "reclaims": True}
        reclaims = "reclaim" in self._kinds[service].__behaviour__.requests
        if reclaims:
            self._node.ask(service, name, "reclaim")
        return {"taken": None, "reclaims": reclaims}

    def note_write(self, service: str, name: str, token: int) -> None:
        """A client has written to the resource: an event of the local participant, for whoever
        judges its record.
        """
        if service in self._locks and self._node.is_recorded(service, name):
            self._node.ask(service, name, "write", token >> 32, token & 0xFFFFFFFF)

    def _time_out(self, claim: Claim) -> None:
        claim.wire.say("refused", claim.id, "timeout", "not in time")
        self._end(claim)

    def close(self, service: str, why: str) -> None:
        """Send the clients that wait, and all that ask from now on, to another node; holders stay."""
        self._closed[service] = why
        for session in list(self._sessions.values()):
            for claim in list(session.claims.values()):
                if claim.is_waiting and claim.service == service:  # the end of one may end others
                    claim.wire.say("refused", claim.id, "unavailable", why)
                    self._end(claim)
                elif claim.held is not None and claim.keeps:
                    self._tell_wish(claim)  # its client may not use it, and would keep it for ever

    def reopen(self, service: str) -> None:
        self._closed.pop(service, None)

    def _end(self, claim: Claim) -> None:
        """The claim is over: nobody waits for it, and what it held is free."""
        if claim.is_over:
            return  # the end of another claim has ended it: its instance has failed
        self._forget(claim)
        if claim.time_out is not None:
            self._timers.cancel(claim.time_out)
        place = claim.held
        if place is not None:
            place.holder = None
            self._leave(place)
        else:
            self._slices.run(claim.session, self._stop_waiting(claim, claim.places))

    def _forget(self, claim: Claim) -> None:
        session = claim.session
        claim.is_over = True
        del session.claims[claim.id]
        session.holding.pop(claim.id, None)
        session.locks -= len(claim.names)
        on_wire = session.wires.get(claim.wire)
        if on_wire is not None:
            on_wire.discard(claim)
        self._claims -= 1

    def _stop_waiting(self, claim: Claim, places: list[Place]) -> Iterator[None]:
        """Leave the queues; whoever is let in meanwhile passes over a claim that is over or has
        another lock (`_next`).
        """
        for place in places:
            if claim in place.queue:
                del place.queue[claim]
                if not place.queue:
                    self._withdraw(place)
            yield

    # Places.

    def _new_place(self, service: str, name: str) -> Place:
        place = Place(service, name, self._node.participant(service, name))
        place.leave = self._node.subscribe(service, name, partial(self._hear, place))
        self._places[service, name] = place
        return place

    def sweep(self) -> None:
        """Forgets the places that nobody uses; not at once, because most are used again."""
        for place in list(self._places.values()):
            if not (place.queue or place.has_asked or place.holder or place.withdrawing):
                del self._places[place.key]
                self._timers.cancel(place.stand_up)
                place.leave()

    def _see_to(self, place: Place) -> None:
        """Asks, if somebody waits."""
        if place.queue and not place.has_asked and place.holder is None:
            place.has_asked = True
            self._ask(place, "acquire")

    def _ask(self, place: Place, request: str, told: Callable[[], None] | None = None) -> None:
        try:
            self._node.ask_of(place.hosted, request, (), told)
        except RuntimeError as reason:  # the instance has failed, or the node ends
            self.give_up(place.service, place.name, str(reason))

    def give_up(self, service: str, name: str, why: str) -> None:
        """The instance does nothing any more, and those who hold or await the lock had better know."""
        place = self._places.pop((service, name), None)
        if place is None:
            return
        place.leave()
        if place.holder is not None:
            self._lose(place.holder, why)
        while place.queue:
            claim = place.queue.popitem(last=False)[0]
            if claim.is_waiting:
                claim.wire.say("refused", claim.id, "stopped", why)
                self._end(claim)

    def _withdraw(self, place: Place) -> None:
        """Nobody waits here any more.  Where the algorithm cannot take a request back, it is let in
        first, and leaves at once.
        """
        if place.has_asked and place.holder is None and self._kinds[place.service].withdraws:
            place.has_asked = False
            place.withdrawing += 1
            self._ask(place, "release", lambda: self._withdrawn(place))
        self._see_to(place)

    @staticmethod
    def _withdrawn(place: Place) -> None:
        """What the process said before the release has been heard by now: it is told in order."""
        place.withdrawing -= 1

    def _leave(self, place: Place) -> None:
        self.changed(place.service, place.name)
        self._ask(place, "release")
        self._see_to(place)

    def _hear(self, place: Place, process: ProcessId, said: Indication) -> None:
        if process != self._me:
            return
        if isinstance(said, LockLost):
            holder = place.holder
            if holder is not None and holder.token == number_of(said.token):
                self._lose(holder, "its lease could not be renewed in time")
                self.changed(place.service, place.name)
                self._see_to(place)
        elif isinstance(said, Granted) and place.has_asked and not place.withdrawing:
            place.has_asked = False
            self._give(place, number_of(said.token) if isinstance(said, GrantedWithToken) else None)

    def _give(self, place: Place, token: int | None) -> None:
        """The process has been let in, and the first who waits is."""
        claim = self._next(place)
        if claim is None:
            self._ask(place, "release")
            if not place.stands_back_for:
                self._see_to(place)
            return
        place.holder, place.stands_back_for = claim, ""
        claim.held, claim.token, claim.since_us = place, token, self._timers.now_us()
        claim.session.holding[claim.id] = claim
        if len(claim.names) > 1:
            self._hold_one(claim, place)
        if claim.time_out is not None:
            self._timers.cancel(claim.time_out)
        if claim.lease_us is not None:
            self._watch_over(claim.session, claim.since_us + claim.lease_us)
        claim.wire.say(
            "granted",
            claim.id,
            token,
            _in_ms(self._left_us(claim, place)),
            claim.session.at,
            place.name,
        )
        if claim.keeps:
            self._listen_for_wishes(claim, place)
        self.changed(place.service, place.name)

    def _listen_for_wishes(self, claim: Claim, place: Place) -> None:
        def look() -> None:
            if place.holder is not claim:
                instance.onlooker = None
            elif place.queue or mutex.is_wanted():
                self._tell_wish(claim)

        instance = place.hosted.instance
        mutex = cast(Mutex, place.hosted.pure.parts[0])
        instance.onlooker = look
        look()

    @staticmethod
    def _tell_wish(holder: Claim) -> None:
        if not holder.is_told:
            holder.is_told = True
            (holder.session.keeper or holder.wire).say("wanted", holder.id)

    @staticmethod
    def _next(place: Place) -> Claim | None:
        """Take the next claim from the queue."""
        label = place.stands_back_for
        if label:
            found = next(
                (
                    claim
                    for claim in place.queue
                    if claim.session.label == label and claim.is_waiting
                ),
                None,
            )
            if found is not None:
                del place.queue[found]
            return found
        while place.queue:
            claim = place.queue.popitem(last=False)[0]
            if claim.is_waiting:
                return claim
        return None

    def _hold_one(self, claim: Claim, place: Place) -> None:
        """Count the one lock that a claim on several has got, and stop waiting for the others."""
        others = [each for each in claim.places if each is not place]
        claim.session.locks -= len(claim.names) - 1
        claim.names, claim.places = (place.name,), [place]
        self._slices.run(claim.session, self._stop_waiting(claim, others))

    # Leases.

    def _left_us(self, claim: Claim, held: Place) -> int | None:
        """How long a claim is good for, if nothing is heard any more."""
        left, lease = self._node.left_us(held.hosted), claim.lease_us
        if left is None or lease is None:
            return lease if left is None else left
        return min(left, lease)

    def _watch_over(self, session: Session, until_us: int) -> None:
        """One look at a session serves all that it holds: who takes and leaves a lock again and
        again is looked at once in a lease.
        """
        watch = session.watch
        if watch is None or not watch.is_set or until_us < watch.deadline:
            self._timers.cancel(watch)
            session.watch = self._timers.set(
                max(0, until_us - self._timers.now_us()), partial(self._look_at, session)
            )

    def _look_at(self, session: Session) -> None:
        """Takes from a session what it holds by leases that have run out: nothing was heard of it
        for that long.
        """
        now = self._timers.now_us()
        for claim in list(session.holding.values()):
            place = claim.held
            if place is None or claim.lease_us is None or claim.is_over:
                continue
            until_us = max(session.heard_us, claim.since_us) + claim.lease_us
            if until_us <= now:
                self._lose(claim, "nothing was heard of its client for the time of its lease")
                self._leave(place)
            else:
                self._watch_over(session, until_us)

    def _lose(self, claim: Claim, why: str) -> None:
        """The holder has lost the lock, and is told so."""
        assert claim.held is not None
        claim.held.holder = None
        self._forget(claim)
        for wire in {claim.wire, claim.session.keeper} - {None}:
            wire.say("lost", claim.id, why)  # type: ignore[union-attr]  # none of them is None

    # Telling.

    def standing(self, service: str, name: str) -> Standing:
        place = self._places.get((service, name))
        if place is None:
            return Standing()
        holder = place.holder
        return (
            Standing(waiting=len(place.queue))
            if holder is None
            else Standing(holder.session.label, holder.token, len(place.queue))
        )

    def has_holders(self) -> bool:
        return any(place.holder is not None for place in self._places.values())

    def is_unused(self) -> bool:
        """Whether no client holds a lock, and no request of this node is on its way."""
        return not any(
            place.holder is not None or place.has_asked or place.withdrawing
            for place in self._places.values()
        )

    @property
    def locks(self) -> list[str]:
        """Services that clients of this node can take locks of."""
        return self._locks

    def places(self) -> Iterator[dict[str, Any]]:
        """Who holds and who waits, for whoever asks."""
        for (service, name), place in sorted(self._places.items()):
            holder = place.holder
            if holder is None and not place.queue:
                continue
            yield {
                "service": service,
                "name": name,
                "holder": None if holder is None else holder.session.label,
                "token": None if holder is None else holder.token,
                "held_ms": (
                    None if holder is None else (self._timers.now_us() - holder.since_us) // 1_000
                ),
                "waiting": [claim.session.label for claim in place.queue],
            }

    def kind(self, service: str) -> str:
        kind = self._kinds.get(service, object)
        return (
            "mutex"
            if issubclass(kind, Mutex)
            else "election"
            if issubclass(kind, Election)
            else "other"
        )


def _in_ms(time_us: int | None) -> int | None:
    return None if time_us is None else time_us // 1_000
