"""Lock queues with a scripted node: orders of events that real ones have rarely."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests import virtual

from habemus.algorithms.mutex.elected_coordinator import ElectedCoordinatorLeased
from habemus.core.system import System
from habemus.problems.fencing import GrantedWithToken, LockLostWithToken, ResumedWithToken
from habemus.runtimes.live.clients.lock_queues import (
    MOST_ACTIVE,
    SHORT_STAY_US,
    ClientSession,
    LockQueues,
    number_of,
)
from habemus.runtimes.live.clients.tickets import Tickets
from habemus.runtimes.live.clients.window import NARROWEST, WIDEST
from habemus.runtimes.live.hosting.failures import NodeStopped
from habemus.runtimes.live.hosting.instance import Instance, LocalProcess
from habemus.runtimes.live.hosting.service import Service
from habemus.runtimes.live.hosting.slices import TimeSlicer
from habemus.runtimes.live.hosting.timers import Timers, random_source
from habemus.runtimes.live.hosting.turn import Turn
from habemus.runtimes.live.peers.frames import Frame


class Wished(ElectedCoordinatorLeased):
    wished: bool = False

    def is_wanted(self) -> bool:
        return self.wished


class Script:
    """A node: notes what it is asked, and says what it is told to say."""

    def __init__(self) -> None:
        system: System = Wished.system(1)
        self.services = (Service("locks", system, [1]),)
        self.me = 1
        self.asked: list[str] = []
        self.untold: list[Callable[[], None]] = []
        self.listener: Any = None
        self.listeners: dict[str, Any] = {}
        self.grants_at_once = False
        self.has_stopped = False
        self.left = 1_000_000
        self.instance = Instance(self.services[0], 0, "x", 1, lambda options: options[0])

    def subscribe(self, service: str, name: str, listener: Any) -> Callable[[], None]:
        self.listener = self.listeners[name] = listener
        return lambda: None

    def participant(self, service: str, name: str) -> LocalProcess:
        return self.instance.processes[1]

    def make_request(
        self,
        service: str,
        name: str,
        request: str,
        *arguments: Any,
        on_done: Callable[[], None] | None = None,
    ) -> None:
        self.make_request_of(self.participant(service, name), request, arguments, on_done)

    def make_request_of(
        self,
        hosted: LocalProcess,
        request: str,
        arguments: tuple[Any, ...] = (),
        on_done: Callable[[], None] | None = None,
    ) -> None:
        if self.has_stopped:
            raise NodeStopped("node 1 has stopped")
        self.asked.append(request)
        if on_done is not None:
            self.untold.append(on_done)
        if request == "acquire" and self.grants_at_once:
            self.listener(1, GrantedWithToken((1, len(self.asked))))

    def be_wished(self, wished: bool) -> None:
        process = self.instance.processes[1].pure.parts[0]
        assert isinstance(process, Wished)
        process.wished = wished

    def left_us(self, hosted: LocalProcess) -> int:
        return self.left

    def is_late(self, hosted: LocalProcess) -> bool:
        return self.left == 0

    def is_recorded(self, service: str, name: str) -> bool:
        return False

    def reaches(self) -> list[int]:
        return []

    def send(self, peer: int, frame: Frame) -> None: ...

    def service_index(self, service: str) -> int:
        return 0


class Said:
    def __init__(self) -> None:
        self.lines: list[tuple[object, ...]] = []

    def send(self, *line: object) -> None:
        self.lines.append(line)


def run(check: Callable[[LockQueues, Script, Said, ClientSession], None]) -> None:
    async def main() -> None:
        node, connection = Script(), Said()
        loop = asyncio.get_running_loop()
        slicer = TimeSlicer(loop, Turn(loop), lambda: 0)
        lock_queues = LockQueues(node, Timers(loop, random_source(1)), slicer)
        session = lock_queues.join(connection, "client", None)
        assert session is not None
        check(lock_queues, node, connection, session)

    virtual.run(main())


def test_a_client_with_many_requests_does_not_fill_the_queues_of_others() -> None:
    """The next one starts when one is granted, and more when none is: their locks may be free."""

    async def main() -> None:
        node, connection = Script(), Said()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual.VirtualLoop)
        timers = Timers(loop, random_source(1), loop.now_us)
        lock_queues = LockQueues(node, timers, TimeSlicer(loop, Turn(loop), lambda: 0))
        session = lock_queues.join(connection, "client", None)
        assert session is not None

        def request(id: int, *names: str) -> None:
            lock_queues.request(connection, session, id, "locks", list(names), None, None, 0)

        def grant(name: str) -> None:
            node.listeners[name](1, GrantedWithToken((1, 1)))

        for id in range(NARROWEST + 10):
            request(id, f"x{id}")
        some = [f"y{each}" for each in range(NARROWEST)]
        request(10_000, *some)
        assert len(node.listeners) == NARROWEST
        request(10_001, "x0")  # requested already
        assert len(session.postponed) == 11
        lock_queues.release(session, NARROWEST)  # has not begun, and never does
        grant("x5")  # a prompt answer, which widens the window
        assert list(node.listeners)[NARROWEST:] == [f"x{NARROWEST + 1}", f"x{NARROWEST + 2}"]
        await asyncio.sleep(0.15)
        assert len(node.listeners) == NARROWEST + 2, "the client waits for answers"
        await asyncio.sleep(0.1)
        assert len(node.listeners) == 2 * NARROWEST + 3, "there are none, so it goes on"
        await asyncio.sleep(0.25)
        assert len(node.listeners) == NARROWEST + 9 + NARROWEST
        grant("y0")
        assert not session.postponed, "one of several is granted"
        for id in list(session.requests):
            lock_queues.release(session, id)
        await asyncio.sleep(2)
        assert session.asked == len(timers) == 0

    virtual.run(main())


def test_a_client_has_so_many_locks_at_work_and_the_others_wait_in_order() -> None:
    async def main() -> None:
        node, connection = Script(), Said()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual.VirtualLoop)
        timers = Timers(loop, random_source(1), loop.now_us)
        lock_queues = LockQueues(node, timers, TimeSlicer(loop, Turn(loop), lambda: 0))
        session = lock_queues.join(connection, "client", None)
        other = lock_queues.join(Said(), "other", None)
        assert session is not None and other is not None
        node.grants_at_once = True
        for id in range(5_000):
            lock_queues.request(connection, session, id, "locks", [f"x{id}"], None, None, 0)
        await asyncio.sleep(0.2)
        assert list(session.holding) == list(range(MOST_ACTIVE))
        for id in (3, 4):
            lock_queues.release(session, id)
        await asyncio.sleep(0.2)
        assert list(session.holding)[-2:] == [MOST_ACTIVE, MOST_ACTIVE + 1]
        assert len(session.holding) == MOST_ACTIVE
        [place] = other.connections
        lock_queues.request(place, other, 1, "locks", ["free"], None, None, 0)
        assert list(other.holding) == [1]

    virtual.run(main())


def test_one_of_several_is_requested_at_all_of_them_at_once() -> None:
    """All but one may be held: a semaphore of many places."""

    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        places = [f"place{each}" for each in range(WIDEST)]
        for id in range(3):
            lock_queues.request(connection, session, id, "locks", places, None, None, 0)
        assert len(node.listeners) == WIDEST
        assert not session.postponed
        lock_queues.request(connection, session, 9, "locks", ["a", "b"], None, None, 0)
        assert len(node.listeners) == WIDEST, "the client has enough under way"

    run(check)


def test_a_lock_that_is_granted_to_no_client_is_released_before_it_is_acquired_again() -> None:
    """The end of its request makes room for another one, which wants the same lock."""

    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        for id in range(NARROWEST + 1):
            lock_queues.request(connection, session, id, "locks", [f"x{id}"], None, None, 0)
        session.postponed[0] = (session.postponed[0][0], ("x0",))
        lock_queues.reserve("locks", "x0", "another client")
        node.listeners["x0"](1, GrantedWithToken((1, 1)))
        assert node.asked == ["acquire"] * NARROWEST + ["release", "acquire"]

    run(check)


def acquire(lock_queues: LockQueues, connection: Said, session: ClientSession, id: int) -> None:
    lock_queues.request(connection, session, id, "locks", ["x"], None, None, id)


def test_a_grant_that_was_on_its_way_when_the_request_was_taken_back_is_nobodys() -> None:
    """The process was let in, what it stored is being written, and meanwhile the client gives up
    and another one asks.
    """

    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        acquire(lock_queues, connection, session, 1)
        lock_queues.release(session, 1)
        acquire(lock_queues, connection, session, 2)
        assert node.asked == ["acquire", "release", "acquire"]
        node.listener(1, GrantedWithToken((1, 1)))  # the old one
        assert connection.lines == []
        node.untold.pop()()  # the release has been stored and sent
        node.listener(1, GrantedWithToken((1, 2)))
        assert [(line[0], line[1], line[2]) for line in connection.lines] == [
            ("granted", 2, number_of((1, 2)))
        ]

    run(check)


def test_a_loss_that_was_on_its_way_is_not_the_next_holders() -> None:
    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        acquire(lock_queues, connection, session, 1)
        acquire(lock_queues, connection, session, 2)
        node.listener(1, GrantedWithToken((1, 1)))
        lock_queues.release(session, 1)
        node.listener(1, GrantedWithToken((1, 2)))
        node.listener(1, LockLostWithToken((1, 1)))
        assert [line[:2] for line in connection.lines] == [("granted", 1), ("granted", 2)]
        node.listener(1, LockLostWithToken((1, 2)))
        assert connection.lines[-1][:2] == ("lost", 2)

    run(check)


def claim(lock_queues: LockQueues, connection: Said, session: ClientSession, id: int) -> None:
    """Claim the lock x by the token of a loan at another node."""
    claim_token(lock_queues, connection, session, id, number_of((1, 1)))


def claim_token(
    lock_queues: LockQueues, connection: Said, session: ClientSession, id: int, token: int
) -> None:
    lock_queues.outlasting_us = lambda service: 0  # type: ignore[method-assign]  # held by nobody
    other = Tickets(2)
    lock_queues.stay_claims.tickets.learn(2, other.key)
    ticket = other.maker("locks", "x")(token)
    lock_queues.claim(
        connection, session, id, "locks", "x", token, token, None, 1, keeps=False, ticket=ticket
    )


def test_a_lock_that_its_client_has_released_while_it_claimed_it_is_released_when_granted() -> None:
    """If the claim were withdrawn, the lock would stay lent to the node that the client left."""

    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        claim(lock_queues, connection, session, 1)
        lock_queues.release(session, 1)
        assert node.asked == ["claim"]
        assert not lock_queues.is_unused()  # so the node does not stop meanwhile
        claim(lock_queues, connection, session, 2)
        assert connection.lines[-1][:3] == ("refused", 2, "unavailable")
        node.listener(1, ResumedWithToken((1, 1), (1, 9)))
        assert node.asked == ["claim", "release"]
        assert lock_queues.is_unused()
        assert session.requests == {}

    run(check)


def test_a_claim_of_a_client_that_is_gone_is_withdrawn() -> None:
    """The client may claim the lock at another node."""

    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        claim(lock_queues, connection, session, 1)
        lock_queues.leave(connection, session)
        assert node.asked == ["claim", "release"]

    run(check)


def test_a_claim_is_refused_if_the_loan_is_over() -> None:
    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        for id, is_released in ((1, False), (2, True)):
            claim(lock_queues, connection, session, id)
            if is_released:
                lock_queues.release(session, id)
            node.listener(1, LockLostWithToken((1, 1)))
            assert lock_queues.is_unused()
        assert [line[:3] for line in connection.lines] == [("refused", 1, "lost")]

    run(check)


def test_a_claim_on_several_locks_is_content_with_one() -> None:
    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        lock_queues.request(connection, session, 1, "locks", ["a", "b"], None, None, 1)
        assert node.asked == ["acquire", "acquire"]
        node.listener(1, GrantedWithToken((1, 1)))  # that of b, which was subscribed to last
        assert connection.lines[0][0] == "granted"
        assert connection.lines[0][5] == "b"
        assert node.asked == ["acquire", "acquire", "release"]  # a is not wanted any more
        lock_queues.release(session, 1)
        assert node.asked[-1] == "release"
        assert not any(lock_queues.table())

    run(check)


def test_who_keeps_a_lock_is_told_of_others_and_not_of_itself() -> None:
    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        node.grants_at_once = True
        lock_queues.request(connection, session, 1, "locks", ["x"], None, None, 1, keeps=True)
        assert [line[:2] for line in connection.lines] == [("granted", 1)]
        node.be_wished(True)  # somebody at another node
        assert node.instance.after_delivery is not None
        node.instance.after_delivery()
        node.instance.after_delivery()
        assert [line[:2] for line in connection.lines] == [("granted", 1), ("wanted", 1)]
        lock_queues.release(session, 1)
        node.be_wished(False)
        lock_queues.request(connection, session, 2, "locks", ["x"], None, None, 2, keeps=True)
        acquire(lock_queues, connection, session, 3)  # somebody at this one
        assert [line[:2] for line in connection.lines[2:]] == [("granted", 2), ("wanted", 2)]

    run(check)


def test_after_a_short_stay_the_next_client_of_the_node_lines_up() -> None:
    """If clients of other nodes wait as well; if not, the lock stays with the node anyway."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual.VirtualLoop)
        node, connection = Script(), Said()
        node.grants_at_once = True
        turn = Turn(loop)
        timers = Timers(loop, random_source(1), loop.now_us)
        lock_queues = LockQueues(node, timers, TimeSlicer(loop, turn, lambda: 0))
        session = lock_queues.join(connection, "client", None)
        assert session is not None
        acquire(lock_queues, connection, session, 1)
        for id, wished, stay_us, reserved_for in (
            (2, True, SHORT_STAY_US, ""),
            (3, False, SHORT_STAY_US, ""),
            (4, True, SHORT_STAY_US + 1, ""),
            (5, True, SHORT_STAY_US, "a client elsewhere"),
        ):
            node.be_wished(wished)
            node.asked.clear()
            acquire(lock_queues, connection, session, id)
            await asyncio.sleep(stay_us / 1e6)
            lock_queues._local_locks["locks", "x"].reserved_for = reserved_for
            lock_queues.release(session, id - 1)
            lines_up = id == 2
            assert node.asked[:2] == (
                ["line_up", "release"] if lines_up else ["release", "acquire"]
            )

    virtual.run(main())


def test_a_lock_that_no_client_uses_is_given_back_and_forgotten() -> None:
    """Not at once: a lock that is used in between stays with the node."""

    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        node.grants_at_once = True
        for id in (1, 2):
            acquire(lock_queues, connection, session, id)
            list(lock_queues.sweep())
            lock_queues.release(session, id)
            list(lock_queues.sweep())
            assert len(lock_queues._local_locks) == 1
        assert node.asked == ["acquire", "release"] * 2
        list(lock_queues.sweep())
        assert lock_queues._local_locks == {}
        assert node.asked[-1] == "return_unused"

    run(check)


def test_who_is_silent_loses_each_lock_when_its_own_lease_is_over() -> None:
    """One look at a session serves all that it holds, and comes in time for the shortest of its
    leases.
    """

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual.VirtualLoop)
        node, connection = Script(), Said()
        node.grants_at_once = True
        lock_queues = LockQueues(
            node,
            Timers(loop, random_source(1), loop.now_us),
            TimeSlicer(loop, Turn(loop), lambda: loop.now_us() * 1_000),
        )
        session = lock_queues.join(connection, "client", None)
        assert session is not None
        for id, lease_us in ((1, 60_000), (2, None), (3, 10_000), (4, 5_000)):
            lock_queues.request(
                connection, session, id, "locks", [f"lock {id}"], None, lease_us, id
            )
        lock_queues.release(session, 4)
        for at_ms, lost in ((9, []), (11, [3]), (59, [3]), (61, [3, 1]), (10_000, [3, 1])):
            await asyncio.sleep(at_ms / 1_000 - loop.time())
            assert [line[1] for line in connection.lines if line[0] == "lost"] == lost
        assert list(session.requests) == [2]

    virtual.run(main())


def test_a_closed_service_sends_waiters_elsewhere_and_lets_holders_stay() -> None:
    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        acquire(lock_queues, connection, session, 1)
        acquire(lock_queues, connection, session, 2)
        node.listener(1, GrantedWithToken((1, 1)))
        lock_queues.close("locks", "node 1 is shutting down")
        acquire(lock_queues, connection, session, 3)
        assert [line[:3] for line in connection.lines[1:]] == [
            ("refused", 2, "unavailable"),
            ("refused", 3, "unavailable"),
        ]
        assert lock_queues.has_holders()
        assert not lock_queues.is_unused()
        lock_queues.release(session, 1)
        assert lock_queues.is_unused()
        assert node.asked == ["acquire", "release", "return_unused"]
        lock_queues.reopen("locks")
        acquire(lock_queues, connection, session, 4)
        assert node.asked[-1] == "acquire"

    run(check)


def test_a_lock_that_stayed_by_an_expired_lease_is_given_back_before_it_is_acquired() -> None:
    """After a pause the timer of the lease may fire later than the request arrives."""

    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        node.grants_at_once = True
        for id, left in ((1, 1_000_000), (2, 0)):
            node.left = left
            acquire(lock_queues, connection, session, id)
            lock_queues.release(session, id)
        assert node.asked == ["acquire", "release", "return_unused", "acquire", "release"]

    run(check)


def test_a_lock_that_an_operator_releases_does_not_stay() -> None:
    """The coordinator may reclaim it at the same time, and grant it to another node."""

    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        acquire(lock_queues, connection, session, 1)
        node.listener(1, GrantedWithToken((1, 1)))
        acquire(lock_queues, connection, session, 2)
        assert lock_queues.force("locks", "x") == {"taken": "client", "reclaims": True}
        assert node.asked == ["acquire", "release", "return_unused", "acquire"]

    run(check)


def test_a_connection_that_ends_when_the_node_has_stopped_ends_all_its_claims() -> None:
    """Ending the first claim gives up the lock, and with it the second claim of the same
    connection.
    """

    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        acquire(lock_queues, connection, session, 1)
        acquire(lock_queues, connection, session, 2)
        acquire(lock_queues, connection, session, 3)
        node.listener(1, GrantedWithToken((1, 1)))
        node.has_stopped = True
        lock_queues.end(session)
        lock_queues.leave(connection, session)
        assert session.requests == {}
        assert not any(lock_queues.table())

    run(check)


def test_one_client_has_so_many_locks_and_no_more() -> None:
    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        for id in range(10):
            lock_queues.request(
                connection,
                session,
                id,
                "locks",
                [f"{id} {number}" for number in range(1_000)],
                None,
                None,
                id,
            )
        assert connection.lines == []
        acquire(lock_queues, connection, session, 11)
        assert [line[:3] for line in connection.lines] == [("refused", 11, "full")]
        assert "10000 locks" in str(connection.lines[0][3])
        other = lock_queues.join(Said(), "another", None)
        assert other is not None
        lock_queues.release(session, 1)
        acquire(lock_queues, connection, session, 12)
        assert len(connection.lines) == 1

    run(check)


def test_a_claim_on_many_locks_is_made_in_slices_and_passes_over_what_it_no_longer_wants() -> None:
    class Slow(Script):
        """Each request takes a millisecond."""

        def __init__(self) -> None:
            super().__init__()
            self.now = 0
            self.listeners: dict[str, Any] = {}

        def subscribe(self, service: str, name: str, listener: Any) -> Callable[[], None]:
            self.listeners[name] = listener
            return lambda: None

        def make_request_of(self, *given: Any) -> None:
            self.now += 1_000
            super().make_request_of(*given)

    async def main() -> None:
        node, connection = Slow(), Said()
        loop = asyncio.get_running_loop()
        lock_queues = LockQueues(
            node,
            Timers(loop, random_source(1)),
            TimeSlicer(loop, Turn(loop), lambda: node.now * 1_000),
        )
        session = lock_queues.join(connection, "client", None)
        assert session is not None
        lock_queues.request(
            connection, session, 1, "locks", [f"{number}" for number in range(1_000)], None, None, 1
        )
        assert node.asked == ["acquire"] * 5  # one slice
        for _ in range(10):
            await asyncio.sleep(0)
        asked = len(node.asked)
        assert 5 < asked < 100
        node.listeners["3"](1, GrantedWithToken((1, 7)))
        node.listeners["40"](
            1, GrantedWithToken((1, 8))
        )  # before the withdrawal from that queue had its turn
        assert [line[:3] for line in connection.lines] == [("granted", 1, number_of((1, 7)))]
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert node.asked.count("acquire") == asked
        assert node.asked.count("release") == asked - 1
        assert (list(session.holding), session.locks) == ([1], 1)

    virtual.run(main())


def test_a_lock_that_is_claimed_here_has_a_holder() -> None:
    """Else a node that restarts before the claim is granted would not wait for its lease."""

    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        claim_token(lock_queues, connection, session, 1, number_of((1, 5)))
        assert node.asked == ["claim"]
        assert lock_queues.has_holders()
        node.listener(1, LockLostWithToken((1, 5)))
        assert not lock_queues.has_holders()

    run(check)


def test_a_lock_on_its_way_to_another_node_is_in_use_until_it_is_there() -> None:
    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        node.grants_at_once = True
        lock_queues.request(connection, session, 1, "locks", ["x"], None, None, 1)
        process = node.instance.processes[1].pure.parts[0]
        assert isinstance(process, Wished)
        lock_queues.move(session, 1)
        process.moving = True
        for _ in range(3):
            list(lock_queues.sweep())
        assert lock_queues.is_left() and lock_queues.has_holders()
        assert not lock_queues.is_unused()
        process.moving = False
        assert lock_queues.is_unused() and not lock_queues.has_holders()

    run(check)


def cut_off(
    check: Callable[[LockQueues, Script, ClientSession], Any], *, lease_us: int | None
) -> None:
    """Run a check, in virtual time, after the only connection of a client that holds x closed."""

    async def main() -> None:
        node, connection = Script(), Said()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual.VirtualLoop)
        timers = Timers(loop, random_source(1), loop.now_us)
        lock_queues = LockQueues(node, timers, TimeSlicer(loop, Turn(loop), lambda: 0))
        session = lock_queues.join(connection, "client", None)
        assert session is not None
        lock_queues.request(connection, session, 1, "locks", ["x"], None, lease_us, 1)
        lock_queues.request(connection, session, 2, "locks", ["y"], None, lease_us, 1)
        node.listeners["x"](1, GrantedWithToken((1, 1)))
        node.asked.clear()
        lock_queues.leave(connection, session)
        assert node.asked == ["release"], "the request that waits is withdrawn, and x stays lent"
        node.asked.clear()
        await check(lock_queues, node, session)
        assert len(timers) == 0

    virtual.run(main())


@pytest.mark.parametrize("lease_us, lent_s", [(50_000, 0.05), (None, 0.1)])
def test_a_lock_of_a_client_that_was_cut_off_stays_lent_until_its_lease_is_over(
    lease_us: int | None, lent_s: float
) -> None:
    """Without a lease of its own it counts as long as that of the algorithm: 0.1 s here."""

    async def check(lock_queues: LockQueues, node: Script, session: ClientSession) -> None:
        await asyncio.sleep(lent_s * 0.99)
        assert node.asked == [] and lock_queues.sessions() == 1
        await asyncio.sleep(lent_s * 0.02)
        assert node.asked == ["break_off"]
        assert lock_queues.sessions() == 0

    cut_off(check, lease_us=lease_us)


def test_a_client_that_was_cut_off_joins_its_session_again_and_keeps_its_lock() -> None:
    async def check(lock_queues: LockQueues, node: Script, session: ClientSession) -> None:
        again = Said()
        await asyncio.sleep(0.045)
        assert lock_queues.join(again, "client", session.key) is session
        lock_queues.alive(again, session, 2)
        assert again.lines == [("alive", 2, [(1, 50)])]
        await asyncio.sleep(0.045)
        assert node.asked == []
        lock_queues.release(session, 1)
        assert node.asked == ["release"]
        lock_queues.leave(again, session)
        assert lock_queues.join(again, "client", session.key) is None

    cut_off(check, lease_us=50_000)


def test_a_client_that_says_goodbye_releases_at_once() -> None:
    async def check(lock_queues: LockQueues, node: Script, session: ClientSession) -> None:
        lock_queues.end(session)
        assert node.asked == ["release"]
        assert lock_queues.sessions() == 0

    cut_off(check, lease_us=50_000)


def test_the_end_of_a_connection_releases_at_once_where_the_operator_says_so() -> None:
    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        lock_queues.releases_on_disconnect = True
        acquire(lock_queues, connection, session, 1)
        node.listener(1, GrantedWithToken((1, 1)))
        lock_queues.leave(connection, session)
        assert node.asked == ["acquire", "break_off"]
        assert lock_queues.sessions() == 0

    run(check)


@pytest.mark.parametrize("timeout_us", [0, 50_000])
@pytest.mark.parametrize("is_here", [True, False])
def test_a_short_timeout_ends_as_soon_as_the_node_knows_that_the_lock_is_held(
    timeout_us: int, is_here: bool
) -> None:
    """And not before: the lock may be free."""

    async def main() -> None:
        node, connection = Script(), Said()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual.VirtualLoop)
        timers = Timers(loop, random_source(1), loop.now_us)
        lock_queues = LockQueues(node, timers, TimeSlicer(loop, Turn(loop), lambda: 0))
        asked: list[tuple[str, str]] = []
        lock_queues.asked_about = lambda *key: asked.append(key)
        session = lock_queues.join(connection, "client", None)
        assert session is not None
        if is_here:
            acquire(lock_queues, connection, session, 1)
            node.listener(1, GrantedWithToken((1, 1)))
            connection.lines.clear()
        lock_queues.request(connection, session, 2, "locks", ["x"], timeout_us, None, 2)
        if timeout_us:
            assert connection.lines == [] and asked == []
            await asyncio.sleep(0.051)
        if not is_here:
            assert connection.lines == [] and asked == [("locks", "x")]
            lock_queues.note_held("locks", "x")
        assert [line[:3] for line in connection.lines] == [("refused", 2, "timeout")]
        lock_queues.request(connection, session, 3, "locks", ["y"], timeout_us, None, 2)
        await asyncio.sleep(0.2)
        assert len(connection.lines) == 1, "no node knows a holder"
        await asyncio.sleep(0.1)
        assert connection.lines[-1][:3] == ("refused", 3, "timeout")

    virtual.run(main())


def test_a_lock_that_its_holder_only_keeps_is_waited_for() -> None:
    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        lock_queues.request(connection, session, 1, "locks", ["x"], None, None, 1, keeps=True)
        node.listener(1, GrantedWithToken((1, 1)))
        lock_queues.request(connection, session, 2, "locks", ["x"], 0, None, 2)
        assert [line[0] for line in connection.lines] == ["granted", "wanted"]
        lock_queues.release(session, 1)
        node.listener(1, GrantedWithToken((1, 2)))
        assert connection.lines[-1][:2] == ("granted", 2)

    run(check)


def test_a_client_learns_the_reason_of_a_loss_before_its_first_heartbeat_is_answered() -> None:
    def check(
        lock_queues: LockQueues, node: Script, connection: Said, session: ClientSession
    ) -> None:
        acquire(lock_queues, connection, session, 1)
        node.listener(1, GrantedWithToken((1, 1)))
        lock_queues.force("locks", "x")
        keeper = Said()
        assert lock_queues.join(keeper, "client", session.key) is session
        lock_queues.alive(keeper, session, 2)
        lock_queues.alive(keeper, session, 3)
        why = "released by an operator (habemus release --force)"
        assert keeper.lines == [("lost", 1, why), ("alive", 2, []), ("alive", 3, [])]

    run(check)
