"""A moment of a run that was recorded elsewhere, from which the simulator goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from habemus.core.node import State
from habemus.core.process import ProcessId, Span
from habemus.core.values import Message, Timer


class MessageUnderWay(NamedTuple):
    number: int
    sender: ProcessId
    to: ProcessId
    port: int
    message: Message
    clock: tuple[int, ...] | None  # vector clock at the sending


class TimerSet(NamedTuple):
    process: ProcessId
    port: int
    timer: Timer
    after: Span  # until it expires


class Situation(NamedTuple):
    """States of the processes, and what is under way."""

    time: int
    states: Mapping[ProcessId, State]
    down: tuple[ProcessId, ...]
    unstarted: tuple[ProcessId, ...]  # processes that start now
    messages: Sequence[MessageUnderWay]
    timers: Sequence[TimerSet]
    clocks: Mapping[ProcessId, tuple[int, ...]]
    last_number: int  # of a message
