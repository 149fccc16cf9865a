"""The senders of a simulated run: short functions and the one that can do everything agree."""

from __future__ import annotations

import random
from typing import Any

import pytest

from habemus.algorithms.mutex.ricart_agrawala import Reply, RicartAgrawala
from habemus.core.node import Stack
from habemus.runtimes.sim.calendar import Calendar
from habemus.runtimes.sim.faults import Cut, Fault, one_way
from habemus.runtimes.sim.network import MILLION, Exponential, Network, Uniform
from habemus.runtimes.sim.recorder import Lost, Twice
from habemus.runtimes.sim.sending import MessageTransport

NEVER = Cut(one_way(1, 2), 10**12)
"""A fault that never strikes, but for which the transport has to be prepared."""


def transport(
    network: Network, *faults: Fault, ports: int = 1, source: random.Random | None = None
) -> MessageTransport:
    calendar = Calendar((source or random.Random(5)).getrandbits)
    return MessageTransport(calendar, network, faults, ports, [], records=True)


def sent_by(made: MessageTransport) -> tuple[dict[int, list[Any]], list[Any], int]:
    """Let process 1 of three send to another, to all and to itself, at two instants."""
    [process] = Stack(RicartAgrawala()).spawn(1, (2, 3))
    send, broadcast = made.senders(process, 0)
    for moment in (10, 20):
        made.calendar.move_to(moment)
        send(Reply(1), to=3)
        broadcast(Reply(2))
        send(Reply(3), to=1)
    return dict(made.calendar.buckets), made.log, made.sent


@pytest.mark.parametrize("ports", [1, 2])
@pytest.mark.parametrize(
    "network",
    [
        Network(delay=Uniform(1, 9)),
        Network(delay=Exponential(1_000)),
        Network(delay=Exponential(1_000), fifo=True),
    ],
    ids=["uniform", "exponential", "fifo"],
)
def test_short_senders_draw_and_deliver_as_the_general_one(network: Network, ports: int) -> None:
    assert sent_by(transport(network, ports=ports)) == sent_by(
        transport(network, NEVER, ports=ports)
    )


def test_with_one_delay_for_all_what_is_sent_together_arrives_together() -> None:
    buckets, log, sent = sent_by(transport(Network(delay=Uniform(50, 50))))
    assert {instant: len(events) for instant, events in buckets.items()} == {
        60: 3,
        11: 1,  # to itself
        70: 3,
        21: 1,
    }
    assert sorted(log) == sorted(event for events in buckets.values() for event in events)
    assert sent == 6


def test_an_instant_is_looked_up_again_after_its_last_event_was_removed() -> None:
    made = transport(Network(delay=Uniform(50, 50)))
    [process] = Stack(RicartAgrawala()).spawn(1, (2, 3))
    send, _ = made.senders(process, 0)
    send(Reply(1), to=3)
    [event] = made.calendar.buckets[50]
    made.calendar.remove(50, event)
    send(Reply(2), to=3)
    assert made.calendar.instants == [50]
    assert [message for *_, message in made.calendar.buckets[50]] == [Reply(2)]


def test_fifo_keeps_the_order_of_a_link() -> None:
    made = transport(Network(delay=Exponential(1_000), fifo=True))
    sent_by(made)
    instants = sorted(made.calendar.buckets)
    events = [event for instant in instants for event in made.calendar.buckets[instant]]
    assert [message.stamp for _, address, _, message in events if address == 3] == [1, 2, 1, 2]


def test_a_cut_link_loses_what_is_sent_over_it_and_counts_it() -> None:
    made = transport(Network(), NEVER)
    made.cuts.add((1, 3))
    _, log, sent = sent_by(made)
    assert sent == 6
    assert [(entry.sender, entry.address) for entry in log if isinstance(entry, Lost)] == [
        (1, 3)
    ] * 4


def test_certain_loss_and_certain_duplication() -> None:
    buckets, log, _ = sent_by(transport(Network(loss=MILLION)))
    assert sum(isinstance(entry, Lost) for entry in log) == 6
    assert {event[1] for events in buckets.values() for event in events} == {1}, "only to itself"
    _, log, sent = sent_by(transport(Network(duplication=MILLION)))
    assert sent == sum(isinstance(entry, Twice) for entry in log) == 6


def test_after_a_reset_the_same_draws_give_the_same_messages() -> None:
    source = random.Random(5)
    made = transport(Network(delay=Exponential(1_000), fifo=True), source=source)
    buckets, log, sent = sent_by(made)
    first = (buckets, list(log), sent)
    made.log.clear()
    made.calendar.clear()
    made.reset()
    source.seed(5)
    assert sent_by(made) == first


def test_a_message_sent_before_the_run_takes_the_time_of_its_link() -> None:
    network = Network(delay=Uniform(10, 10), links={(1, 2): Uniform(90, 90)})
    made = transport(network)
    made.resend(1, 2, 0, Reply(1))
    made.resend(2, 1, 0, Reply(2))
    assert sorted(made.calendar.buckets) == [10, 90]
