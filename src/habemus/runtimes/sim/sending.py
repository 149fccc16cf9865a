"""Sending: the functions behind `send` and `broadcast` of a process.

They are made once per process and run, for just the features that the run uses.
`MessageTransport.transmit` can do everything: loss, duplication, cuts, delays per link.  Reliable
networks use the shorter functions at the end of this file, which draw the same random bits in the
same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappush
from typing import Any, TypeAlias

from habemus.core.process import Process, ProcessId
from habemus.core.values import Message
from habemus.runtimes.sim.calendar import TIE, Calendar, Queued
from habemus.runtimes.sim.faults import Cut, Fault, Slow
from habemus.runtimes.sim.network import MILLION, Network, Sampler, Uniform
from habemus.runtimes.sim.recorder import Lost, Twice

Senders: TypeAlias = tuple[Callable[..., None], Callable[..., None]]
"""The `send` and the `broadcast` of one process."""

SenderFactory: TypeAlias = Callable[[Process, int], Senders]
"""Makes the senders of a process, given the port of the part that sends."""


class MessageTransport:
    """The network of a run: which messages arrive, and when."""

    __slots__ = (
        "_constant",
        "_enter",
        "_is_steady",
        "_last_arrivals",
        "_network",
        "_orders",
        "calendar",
        "cuts",
        "default_sampler",
        "log",
        "ports",
        "records",
        "samplers",
        "senders",
        "sent",
    )

    def __init__(
        self,
        calendar: Calendar,
        network: Network,
        faults: Sequence[Fault],
        ports: int,
        log: list[Any],
        *,
        records: bool,
        enter: Callable[[int, Queued], None] | None = None,
        is_changed_later: bool = False,
    ) -> None:
        """Prepare the network.  is_changed_later: an intervention cuts or slows links.  Up to then
        the same random bits must be drawn as without it.
        """
        self.calendar = calendar
        self.ports = ports
        self.log = log
        self.records = records  # whether messages are recorded
        self.sent = 0
        self.cuts: set[tuple[ProcessId, ProcessId]] = set()
        self.default_sampler = network.delay.sampler(calendar.bits)
        self.samplers: dict[tuple[ProcessId, ProcessId], Sampler] = {}
        self._network = network
        self._last_arrivals: dict[tuple[ProcessId, int], int] = {}
        self._orders: list[dict[int, int]] = []  # the same for each sender on a steady network
        is_reshaped = any(isinstance(fault, Cut | Slow) for fault in faults)
        # Messages that wait for a busy process enter the calendar another way.
        self._enter = calendar.enter if enter is None else enter
        is_steady = network.is_steady and not is_reshaped and enter is None
        self._is_steady = is_steady and not is_changed_later
        law = network.delay
        is_constant = isinstance(law, Uniform) and law.low == law.high and not network.fifo
        self._constant = law.longest if is_constant else None
        if is_steady and is_changed_later and is_constant and ports == 1:
            constant = law.longest
            self.default_sampler = lambda _now: constant  # draws nothing, as constant-time senders
        self._sample_links()
        self.senders = self._choose_senders()
        """Makes the `send` and `broadcast` of a process that hands its messages to the network."""

    def _sample_links(self) -> None:
        bits = self.calendar.bits
        self.samplers.update(
            (link, delay.sampler(bits)) for link, delay in self._network.links.items()
        )

    def reset(self) -> None:
        self.sent = 0
        self.cuts.clear()
        self._last_arrivals.clear()
        for order in self._orders:
            order.clear()
        if self.samplers:
            self.samplers.clear()
            self._sample_links()

    def transmit(self, sender: ProcessId, to: ProcessId, address: int, message: Message) -> None:
        """Send one message, with every fault that the network may have."""
        if sender == to:
            self.send_to_itself(address, sender, message)
            return
        self.sent += 1
        bits, loss = self.calendar.bits, self._network.loss
        is_cut = self.cuts and (sender, to) in self.cuts
        if is_cut or (loss and bits(32) * MILLION >> 32 < loss):
            if self.records:
                self.log.append(Lost(self.calendar.now, sender, address, message))
            return
        sampler = self.samplers.get((sender, to), self.default_sampler)
        arrival = self._arrival(sampler, (sender, address))
        event = (bits(TIE), address, sender, message)
        self._enter(arrival, event)
        if self.records:
            self.log.append(event)
        duplication = self._network.duplication
        if duplication and bits(32) * MILLION >> 32 < duplication:
            copy = (bits(TIE), address, sender, message)
            self._enter(self._arrival(sampler, (sender, address)), copy)
            if self.records:
                self.log.append(Twice(event, copy))

    def _arrival(self, sampler: Sampler, link: tuple[ProcessId, int]) -> int:
        now = self.calendar.now
        arrival = now + sampler(now)
        if self._network.fifo:
            arrival = max(arrival, self._last_arrivals.get(link, 0) + 1)
            self._last_arrivals[link] = arrival
        return arrival

    def resend(self, sender: ProcessId, to: ProcessId, address: int, message: Message) -> Queued:
        """Put a message on its way that was sent before the run began."""
        calendar = self.calendar
        event = (calendar.bits(TIE), address, sender, message)
        if sender == to:
            calendar.enter(calendar.now + 1, event)
            return event
        sampler = self.samplers.get((sender, to), self.default_sampler)
        self._enter(self._arrival(sampler, (sender, address)), event)
        return event

    def send_to_itself(self, address: int, sender: ProcessId, message: Message) -> None:
        calendar = self.calendar
        event = (calendar.bits(TIE), address, sender, message)
        # No process has a delay to itself, unless a schedule dictates when every message arrives.
        sampler = self.samplers.get((sender, sender))
        calendar.enter(calendar.now + (1 if sampler is None else sampler(calendar.now)), event)
        if self.records:
            self.log.append(event)

    def _choose_senders(self) -> SenderFactory:
        """Return what makes the senders of each process of this run."""
        if not self._is_steady:
            return _careful_senders(self)
        if self._constant is not None and self.ports == 1:
            return _constant_time_senders(self, self._constant)
        return _steady_senders(self)

    def last_arrivals(self) -> dict[int, int] | None:
        """Make the times of last arrivals at each address for one sender, if links are FIFO."""
        if not self._network.fifo:
            return None
        arrivals: dict[int, int] = {}
        self._orders.append(arrivals)
        return arrivals


# What all processes share is bound in the outer functions: a variable of the inner ones costs each
# process of a large system an object of its own.


def _careful_senders(transport: MessageTransport) -> SenderFactory:
    ports, transmit = transport.ports, transport.transmit

    def senders(process: Process, port: int) -> Senders:
        me, peers = process.me, process.peers

        def send(message: Message, *, to: ProcessId) -> None:
            transmit(me, to, to * ports + port, message)

        def broadcast(message: Message) -> None:
            for to in peers:
                transmit(me, to, to * ports + port, message)

        return send, broadcast

    return senders


def _constant_time_senders(transport: MessageTransport, delay: int) -> SenderFactory:
    """Make senders for a steady network with one delay for all, and processes of one part."""
    calendar, records = transport.calendar, transport.records
    bits, buckets, instants = calendar.bits, calendar.buckets, calendar.instants
    log, log_all = transport.log.append, transport.log.extend
    send_to_itself = transport.send_to_itself

    def open_outgoing() -> list[Queued]:
        """Look up the list of the instant at which what is sent now arrives."""
        arrival = calendar.now + delay
        calendar.outgoing = outgoing = buckets[arrival]
        if not outgoing:
            heappush(instants, arrival)
        return outgoing

    def senders(process: Process, _: int) -> Senders:
        me, peers = process.me, process.peers

        def send(message: Message, *, to: ProcessId) -> None:
            if to == me:
                send_to_itself(to, me, message)
                return
            transport.sent += 1
            event = (bits(TIE), to, me, message)
            outgoing = calendar.outgoing
            if outgoing is None:
                outgoing = open_outgoing()
            outgoing.append(event)
            if records:
                log(event)

        def broadcast(message: Message) -> None:
            if not peers:
                return
            transport.sent += len(peers)
            outgoing = calendar.outgoing
            if outgoing is None:
                outgoing = open_outgoing()
            copies = [(bits(TIE), to, me, message) for to in peers]
            outgoing.extend(copies)
            if records:
                log_all(copies)

        return send, broadcast

    return senders


def _steady_senders(transport: MessageTransport) -> SenderFactory:
    """Make senders for a steady network."""
    ports, calendar = transport.ports, transport.calendar
    bits, buckets, instants = calendar.bits, calendar.buckets, calendar.instants
    sample, records, log = transport.default_sampler, transport.records, transport.log.append
    send_to_itself = transport.send_to_itself

    def senders(process: Process, port: int) -> Senders:
        me, peers, arrivals = process.me, process.peers, transport.last_arrivals()

        def send(message: Message, *, to: ProcessId) -> None:
            address = to * ports + port
            if to == me:
                send_to_itself(address, me, message)
                return
            transport.sent += 1
            now = calendar.now
            arrival = now + sample(now)
            if arrivals is not None:
                last = arrivals.get(to, 0)
                if arrival <= last:
                    arrival = last + 1
                arrivals[to] = arrival
            event = (bits(TIE), address, me, message)
            if arrival in buckets:
                buckets[arrival].append(event)
            else:  # with drawn delays nearly every message has an instant of its own
                buckets[arrival] = [event]
                heappush(instants, arrival)
            if records:
                log(event)

        def broadcast(message: Message) -> None:
            transport.sent += len(peers)
            now = calendar.now
            for to in peers:  # as in send, without a call for each
                arrival = now + sample(now)
                if arrivals is not None:
                    last = arrivals.get(to, 0)
                    if arrival <= last:
                        arrival = last + 1
                    arrivals[to] = arrival
                event = (bits(TIE), to * ports + port, me, message)
                if arrival in buckets:
                    buckets[arrival].append(event)
                else:
                    buckets[arrival] = [event]
                    heappush(instants, arrival)
                if records:
                    log(event)

        return send, broadcast

    return senders


def senders_over_links(process: Process) -> Senders:
    """Make senders that hand messages to the links below the process."""
    links, peers = process.links, process.peers

    def send(message: Message, *, to: ProcessId) -> None:
        # A Link, which core does not know.
        links.transmit(message, to=to)  # type: ignore[union-attr]

    def broadcast(message: Message) -> None:
        for to in peers:
            send(message, to=to)

    return send, broadcast
