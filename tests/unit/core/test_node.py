"""Nodes and stacks: parts and paths, indications, state over a crash, links below a process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from habemus.core import (
    Const,
    Durable,
    Indication,
    Message,
    MistakeInAlgorithm,
    MistakeInPlan,
    Process,
    ProcessId,
    Timer,
    Uses,
    request,
    upon,
    whenever,
)
from habemus.core.node import (
    Broadcast,
    CancelTimer,
    Chosen,
    Delivered,
    Indicate,
    PureNode,
    Send,
    SetTimer,
    Stack,
)


class Heartbeat(Message):
    pass


class Vote(Message):
    number: int


class Check(Timer):
    peer: ProcessId = 0


class Suspected(Indication):
    process: ProcessId


class Restored(Indication):
    process: ProcessId


class Leader(Indication):
    process: ProcessId


class Detector(Process):
    indications = (Suspected, Restored)

    @request
    @abstractmethod
    def watch(self, process: ProcessId) -> None: ...


class Simple(Detector):
    watched: list[ProcessId] = []
    suspected: set[ProcessId] = set()

    def watch(self, process: ProcessId) -> None:
        self.watched.append(process)
        self.set_timer(Check(process), after=(10, 20))

    @upon(Check)
    def suspect(self, timer: Check) -> None:
        self.suspected.add(timer.peer)
        self.indicate(Suspected(timer.peer))

    @upon(Heartbeat)
    def restore(self, sender: ProcessId, _: Heartbeat) -> None:
        self.cancel_timer(Check(sender))
        if sender in self.suspected:
            self.suspected.discard(sender)
            self.indicate(Restored(sender))


class Omega(Process):
    indications = (Leader,)
    detector: Uses[Detector]
    suspected: set[ProcessId] = set()
    leader: ProcessId | None = None

    def on_start(self) -> None:
        for peer in self.peers:
            self.detector.watch(peer)

    @upon(Suspected)
    def distrust(self, event: Suspected) -> None:
        self.suspected.add(event.process)

    @upon(Restored)
    def trust_again(self, event: Restored) -> None:
        self.suspected.discard(event.process)

    def first_trusted(self) -> ProcessId:
        return min({self.me, *self.peers} - self.suspected)

    def leader_is_outdated(self) -> bool:
        return self.leader != self.first_trusted()

    @whenever(leader_is_outdated)
    def follow(self) -> None:
        self.leader = self.first_trusted()
        self.indicate(Leader(self.leader))


class Carried(Message):
    message: Message


class Links(Process):
    """Hands every message on, in a message of its own, and counts."""

    indications: ClassVar[tuple[type[Indication], ...]] = (Delivered,)
    carried: int = 0

    def transmit(self, message: Message, *, to: ProcessId) -> None:
        self.carried += 1
        self.send(Carried(message), to=to)

    @upon(Carried)
    def deliver(self, sender: ProcessId, carried: Carried) -> None:
        self.indicate(Delivered(sender, carried.message))


class Voter(Process):
    votes: list[int] = []

    @request
    def propose(self, number: int) -> None:
        self.broadcast(Vote(number))

    @upon(Vote)
    def count(self, sender: ProcessId, vote: Vote) -> None:
        self.votes.append(vote.number)
        self.send(Vote(-vote.number), to=sender)


def first(options: Sequence[Any]) -> Any:
    return options[0]


def node(plan: Process, me: ProcessId = 2, peers: tuple[ProcessId, ...] = (1, 3)) -> PureNode:
    return PureNode(Stack(plan), me, peers, first)


# Stacks.


def test_parts_are_numbered_depth_first() -> None:
    class Both(Process):
        left: Uses[Process]
        right: Uses[Omega]

        @upon(Leader)
        def follow(self, event: Leader) -> None: ...

    plan = Both(left=Voter().over(Links()), right=Omega(detector=Simple()).over(Links())).over(
        Links().over(Links())
    )
    parts = Stack(plan).parts
    assert [(part.port, part.path, part.above, part.name) for part in parts] == [
        (0, "", None, ""),
        (1, ".links", 0, "links"),
        (2, ".links.links", 1, "links"),
        (3, ".left", 0, "left"),
        (4, ".left.links", 3, "links"),
        (5, ".right", 0, "right"),
        (6, ".right.links", 5, "links"),
        (7, ".right.detector", 5, "detector"),
    ]
    assert [type(part.plan).__name__ for part in parts] == [
        "Both",
        "Links",
        "Links",
        "Voter",
        "Links",
        "Omega",
        "Links",
        "Simple",
    ]


def test_every_node_of_a_stack_has_processes_of_its_own() -> None:
    stack = Stack(Omega(detector=Simple(watched=[9])))
    one, other = PureNode(stack, 1, (2,), first), PureNode(stack, 2, (1,), first)
    assert [process.me for process in one.parts] == [1, 1]
    assert [process.peers for process in other.parts] == [(1,), (1,)]
    assert one.parts[0].detector is one.parts[1]  # type: ignore[attr-defined]  # an Omega
    assert other.parts[0].detector is other.parts[1]  # type: ignore[attr-defined]
    one.start()
    assert one.capture() != stack.initial
    assert other.capture() == stack.initial == ((frozenset(), None), ((9,), frozenset()))


def test_an_indication_that_nobody_handles_is_refused_with_the_plan() -> None:
    class Deaf(Process):
        detector: Uses[Detector]

        @upon(Suspected)
        def distrust(self, event: Suspected) -> None: ...

    with pytest.raises(
        MistakeInPlan,
        match=r"Simple may indicate Restored, and Deaf has no @upon\(Restored\) for it",
    ):
        Stack(Deaf(detector=Simple()))


def test_links_may_say_more_than_that_a_message_has_come() -> None:
    class Telling(Links):
        indications = (Delivered, Suspected)

    class Listening(Voter):
        @upon(Suspected, of="links")
        def distrust(self, event: Suspected) -> None: ...

    with pytest.raises(
        MistakeInPlan, match=r"Telling may indicate Suspected, and Voter has no @upon\(Suspected\)"
    ):
        Stack(Voter().over(Telling()))
    assert len(Stack(Listening().over(Telling())).parts) == 2


def test_the_values_and_the_durability_of_a_stack() -> None:
    class Lasting(Simple):
        terms: Durable[int] = 0

    stack = Stack(Omega(detector=Simple()).over(Links()))
    assert [sorted(stack.known_at(part.port)) for part in stack.parts] == [
        ["Restored", "Suspected"],
        ["Carried"],
        ["Check", "Heartbeat"],
    ]
    assert sorted(stack.known_at(1).inside) == ["Restored", "Suspected"]
    assert not stack.durable
    assert Stack(Omega(detector=Lasting())).durable


# Effects.


class Busy(Process):
    every: Const[tuple[int, int]] = (5, 9)
    drawn: int = 0

    @upon(Vote)
    def answer(self, sender: ProcessId, vote: Vote) -> None:
        self.send(Vote(1), to=sender)
        self.set_timer(Check(7), after=self.every)
        self.drawn = self.choose(range(3, 6))
        self.cancel_timer(Check(7))
        self.broadcast(Heartbeat())
        self.indicate(Leader(self.me))


def test_effects_come_in_the_order_in_which_they_were_made() -> None:
    it = node(Busy())
    assert it.deliver(0, 3, Vote(0)) == [
        Send(0, 3, Vote(1)),
        SetTimer(0, Check(7), (5, 9)),
        Chosen(0, 3),
        CancelTimer(0, Check(7)),
        Broadcast(0, Heartbeat()),
        Indicate(Leader(2)),
    ]
    assert it.capture() == ((3,),)
    assert len(it.deliver(0, 1, Vote(0))) == 6, "the effects of a step are those of this step only"


def test_what_is_chosen_comes_from_outside() -> None:
    it = PureNode(Stack(Busy()), 1, (2,), lambda options: options[-1])
    assert Chosen(0, 5) in it.deliver(0, 2, Vote(0))
    assert it.capture() == ((5,),)


def test_a_step_is_a_function_of_state_and_event() -> None:
    it, other = node(Omega(detector=Simple())), node(Omega(detector=Simple()))
    it.start()
    state = it.capture()
    effects = it.fire(1, Check(1))
    after = it.capture()
    for again in (it, other):
        again.restore(state)
        assert again.capture() == state
        assert again.fire(1, Check(1)) == effects
        assert again.capture() == after


def test_an_event_without_a_handler_is_a_mistake_in_the_algorithm() -> None:
    it = node(Voter())
    with pytest.raises(
        MistakeInAlgorithm, match=r"Voter has no @upon\(Heartbeat\) and got Heartbeat\(\)"
    ):
        it.deliver(0, 1, Heartbeat())
    with pytest.raises(MistakeInAlgorithm, match=r"Voter has no @upon\(Check\)"):
        it.fire(0, Check(1))


# Up and down.


def test_components_start_before_what_stands_on_them() -> None:
    started: list[str] = []

    class Below(Process):
        def on_start(self) -> None:
            started.append("below")

    class Above(Process):
        below: Uses[Below]

        def on_start(self) -> None:
            started.append("above")

        def on_recover(self) -> None:
            started.append("again")

    it = node(Above(below=Below()))
    it.start()
    it.recover()
    assert started == ["below", "above", "below", "again"]


def test_down_is_a_call_and_up_an_indication() -> None:
    it = node(Omega(detector=Simple()))
    assert it.start() == [
        SetTimer(1, Check(1), (10, 20)),
        SetTimer(1, Check(3), (10, 20)),
        Indicate(Leader(1)),
    ]
    assert it.fire(1, Check(1)) == [Indicate(Leader(2))]
    assert it.deliver(1, 1, Heartbeat()) == [CancelTimer(1, Check(1)), Indicate(Leader(1))]
    assert it.capture() == ((frozenset(), 1), ((1, 3), frozenset()))


class Echo(Process):
    indications = (Suspected,)
    log: list[str] = []

    @request
    def poke(self, number: int) -> None:
        self.log.append(f"poked {number}")
        self.indicate(Suspected(number))
        self.log.append(f"end {number}")

    def is_long(self) -> bool:
        return len(self.log) == 4

    @whenever(is_long)
    def mark(self) -> None:
        self.log.append("rule")
        self.indicate(Suspected(0))


class Asking(Process):
    echo: Uses[Echo]
    heard: list[int] = []
    inside: bool = False

    @request
    def go(self) -> None:
        self.inside = True
        self.echo.poke(2)
        self.echo.poke(1)
        assert self.heard == [], "an indication waits until the handler has ended"
        self.inside = False

    @upon(Suspected)
    def hear(self, event: Suspected) -> None:
        assert not self.inside
        self.inside = True
        self.heard.append(event.process)
        if event.process == 2:
            self.echo.poke(5)
        self.inside = False


def test_an_indication_waits_until_the_handler_has_ended() -> None:
    it = node(Asking(echo=Echo()))
    it.request("go")
    asking, echo = it.capture()
    assert asking == ((2, 1, 5), False), (
        "first come, first served, and never one handler inside another"
    )
    assert echo == (("poked 2", "end 2", "poked 1", "end 1", "poked 5", "end 5"),), (
        "indications go up before rules are applied"
    )


def test_a_call_can_enable_a_rule_of_the_component() -> None:
    class Calling(Process):
        echo: Uses[Echo]
        heard: list[int] = []

        @request
        def go(self) -> None:
            self.echo.poke(1)
            self.echo.poke(2)

        @upon(Suspected)
        def hear(self, event: Suspected) -> None:
            self.heard.append(event.process)

    it = node(Calling(echo=Echo()))
    it.request("go")
    assert it.capture() == (((1, 2, 0),), (("poked 1", "end 1", "poked 2", "end 2", "rule"),))


def test_of_tells_components_apart() -> None:
    class LockWatchers(Process):
        near: Uses[Detector]
        far: Uses[Detector]
        log: list[str] = []

        @upon(Suspected, of="near")
        def lose_near(self, event: Suspected) -> None:
            self.log.append(f"near {event.process}")

        @upon(Suspected, of="far")
        def lose_far(self, event: Suspected) -> None:
            self.log.append(f"far {event.process}")

        @upon(Restored, of="far")
        def regain_far(self, event: Restored) -> None:
            self.log.append("far again")

        @upon(Restored)
        def regain(self, event: Restored) -> None:
            self.log.append("somebody again")

    it = node(LockWatchers(near=Simple(), far=Simple()))
    it.fire(1, Check(1))
    it.fire(2, Check(1))
    it.deliver(2, 1, Heartbeat())
    it.deliver(1, 1, Heartbeat())
    assert it.capture()[0] == (("near 1", "far 1", "far again", "somebody again"),)


def test_a_missing_handler_for_one_of_two_components_is_refused() -> None:
    class Half(Process):
        near: Uses[Detector]
        far: Uses[Detector]

        @upon(Suspected, of="near")
        def lose_near(self, event: Suspected) -> None: ...

        @upon(Restored)
        def regain(self, event: Restored) -> None: ...

    with pytest.raises(MistakeInPlan, match="Simple may indicate Suspected, and Half"):
        Stack(Half(near=Simple(), far=Simple()))


def test_an_indication_that_was_not_announced_is_a_mistake() -> None:
    class Sly(Simple):
        @upon(Vote)
        def surprise(self, sender: ProcessId, _: Vote) -> None:
            self.indicate(Leader(sender))

    it = node(Omega(detector=Sly()))
    with pytest.raises(
        MistakeInAlgorithm, match=r"Sly indicates Leader\(process=3\), which Omega does not handle"
    ):
        it.deliver(1, 3, Vote(1))


def test_parts_that_keep_waking_each_other_are_refused() -> None:
    class Pong(Process):
        indications = (Suspected,)
        turn: bool = False

        @request
        def hit(self) -> None:
            self.turn = True

        def is_on(self) -> bool:
            return self.turn

        @whenever(is_on)
        def back(self) -> None:
            self.turn = False
            self.indicate(Suspected(0))

    class Ping(Process):
        pong: Uses[Pong]

        @upon(Suspected)
        def hit(self, _: Suspected) -> None:
            self.pong.hit()

        @request
        def serve(self) -> None:
            self.pong.hit()

    with pytest.raises(
        MistakeInAlgorithm, match="Ping and its components do not come to rest after one event"
    ):
        node(Ping(pong=Pong())).request("serve")


# State over a crash.


class Register(Process):
    indications = (Suspected,)
    limit: Const[int] = 3
    stored: Durable[int] = 1
    history: Durable[list[int]] = []
    scratch: int = 0
    marks: set[int] = {7}

    @upon(Vote)
    def store(self, sender: ProcessId, vote: Vote) -> None:
        self.stored = self.scratch = vote.number
        self.history.append(vote.number)
        self.marks.add(vote.number)


class Above(Process):
    register: Uses[Register]
    seen: int = 0
    terms: Durable[int] = 0

    @upon(Suspected)
    def ignore(self, event: Suspected) -> None: ...

    @upon(Vote)
    def see(self, sender: ProcessId, vote: Vote) -> None:
        self.seen += 1
        self.terms = vote.number


def test_a_crash_leaves_what_is_durable() -> None:
    it = node(Above(register=Register(scratch=4)))
    for port in (0, 1):
        it.deliver(port, 1, Vote(9))
    state = it.capture()
    assert state == ((1, 9), (9, (9,), 9, frozenset({7, 9})))
    left = it.stack.forget(state)
    assert left == ((0, 9), (9, (9,), 4, frozenset({7})))
    it.restore(left)
    register: Any = it.parts[1]
    assert (
        register.stored,
        register.history,
        register.scratch,
        register.marks,
        register.limit,
    ) == (9, [9], 4, {7}, 3)
    assert it.stack.forget(it.stack.initial) == it.stack.initial
    assert it.stack.forget(left) == left


def test_a_captured_state_does_not_change_with_the_process() -> None:
    it = node(Register())
    before = it.capture()
    it.deliver(0, 1, Vote(2))
    after = it.capture()
    assert before == it.stack.initial != after
    assert len({before, after, it.capture()}) == 2
    it.restore(before)
    it.deliver(0, 1, Vote(2))
    assert it.capture() == after


# Links.


def test_messages_go_over_links_and_arrive_as_themselves() -> None:
    plan = Voter()
    it = node(plan.over(Links()))
    assert it.request("propose", 5) == [Send(1, 1, Carried(Vote(5))), Send(1, 3, Carried(Vote(5)))]
    assert it.deliver(1, 3, Carried(Vote(8))) == [Send(1, 3, Carried(Vote(-8)))]
    assert it.capture() == (((8,),), (3,))
    assert plan.links is None
    assert node(plan).request("propose", 5) == [Broadcast(0, Vote(5))], (
        "the plan itself is unchanged"
    )


def test_links_over_links() -> None:
    it = node(Voter().over(Links().over(Links())), 1, (2,))
    assert it.request("propose", 1) == [Send(2, 2, Carried(Carried(Vote(1))))]
    assert it.deliver(2, 2, Carried(Carried(Vote(4)))) == [Send(2, 2, Carried(Carried(Vote(-4))))]


def test_links_carry_only_what_the_part_above_them_sends() -> None:
    class Beating(Simple):
        def on_start(self) -> None:
            self.broadcast(Heartbeat())

    class Chatty(Omega):
        def on_start(self) -> None:
            self.broadcast(Vote(1))

    chatty = node(Chatty(detector=Beating()).over(Links()), 1, (2,))
    assert chatty.start() == [
        Broadcast(2, Heartbeat()),
        Send(1, 2, Carried(Vote(1))),
        Indicate(Leader(1)),
    ]
    beating = node(Chatty(detector=Beating().over(Links())), 1, (2,))
    assert beating.start() == [
        Send(2, 2, Carried(Heartbeat())),
        Broadcast(0, Vote(1)),
        Indicate(Leader(1)),
    ]


def test_a_message_over_links_without_a_handler_is_a_mistake() -> None:
    with pytest.raises(MistakeInAlgorithm, match=r"Voter has no @upon\(Heartbeat\)"):
        node(Voter().over(Links())).deliver(1, 3, Carried(Heartbeat()))


# Mistakes that are refused, and corners.


def test_a_step_that_failed_leaves_nothing_behind() -> None:
    class Failing(Process):
        detector: Uses[Simple]
        heard: list[int] = []

        @upon(Vote)
        def fail(self, sender: ProcessId, vote: Vote) -> None:
            self.send(Vote(1), to=sender)
            self.detector.suspect(Check(4))
            if vote.number:
                raise MistakeInAlgorithm("this step ends in the middle")

        @upon(Suspected)
        def hear(self, event: Suspected) -> None:
            self.heard.append(event.process)

        @upon(Restored)
        def ignore(self, event: Restored) -> None: ...

        @upon(Check)
        def rest(self, timer: Check) -> None: ...

    it = node(Failing(detector=Simple()))
    before = it.capture()
    with pytest.raises(MistakeInAlgorithm, match="in the middle"):
        it.deliver(0, 1, Vote(1))
    it.restore(before)
    assert it.fire(0, Check()) == []
    assert it.capture() == before


def test_two_components_with_one_indication_need_of() -> None:
    class Vague(Process):
        near: Uses[Detector]
        far: Uses[Detector]

        @upon(Suspected)
        def lose(self, event: Suspected) -> None: ...

        @upon(Restored)
        def regain(self, event: Restored) -> None: ...

    with pytest.raises(MistakeInPlan, match="of="):
        Stack(Vague(near=Simple(), far=Simple()))


def test_of_must_name_a_component() -> None:
    with pytest.raises((MistakeInPlan, MistakeInAlgorithm)) as raised:

        class Misspelt(Process):
            detector: Uses[Detector]

            @upon(Suspected, of="detektor")
            def lose(self, event: Suspected) -> None: ...

            @upon(Restored)
            def regain(self, event: Restored) -> None: ...

        Stack(Misspelt(detector=Simple()))
    assert "detektor" in str(raised.value)


def test_only_requests_can_be_asked_for() -> None:
    it = node(Voter())
    for name in ("on_start", "nothing"):
        with pytest.raises((MistakeInPlan, MistakeInAlgorithm), match=name):
            it.request(name)


def test_two_messages_of_one_name_in_a_stack_are_kept_apart() -> None:
    def another() -> type[Process]:
        class Vote(Message):
            text: str

        class Registry(Process):
            @upon(Vote)
            def hear(self, sender: ProcessId, vote: Vote) -> None: ...

        return Registry

    class Both(Voter):
        below: Uses[Process]

    stack = Stack(Both(below=another()()))
    assert (
        list(stack.known_at(0)["Vote"].__fields__)
        != list(stack.known_at(1)["Vote"].__fields__)
        == ["text"]
    )


def test_a_node_looks_at_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the analysis of handlers says, by which the simulator skips rules."""
    monkeypatch.setattr("habemus.core.process._affected", lambda cls, handler, rules: ())

    class Doubles(Process):
        count: int = 1

        @request
        def grow(self) -> None:
            self.count += 1

        @upon(Heartbeat)
        def receive(self, sender: ProcessId, _: Heartbeat) -> None:
            self.count += 1

        def is_even(self) -> bool:
            return self.count % 2 == 0

        @whenever(is_even)
        def make_odd(self) -> None:
            self.count += 1

    node = PureNode(Stack(Doubles()), 1, (2,), lambda options: options[0])
    node.request("grow")
    assert node.capture() == ((3,),)
    node.deliver(0, 2, Heartbeat())
    assert node.capture() == ((5,),)
