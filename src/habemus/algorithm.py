"""Names for authors of algorithms.

    from habemus.algorithm import Const, Message, Mutex, ProcessId, upon, whenever

A class that derives from `Mutex`, `Election` or `Detector` declares its variables and handles
events. The same file is then simulated, searched, drawn and run between real processes.
"""

from __future__ import annotations

from habemus.core import (
    Const,
    Durable,
    Indication,
    Message,
    MistakeInAlgorithm,
    MistakeInPlan,
    Process,
    ProcessId,
    Span,
    System,
    Timer,
    Topology,
    Unsynced,
    Uses,
    request,
    upon,
    whenever,
)
from habemus.core.assumptions import Assumptions, Crashes, Links, Timing
from habemus.core.invariants import (
    InTransit,
    Invariant,
    between,
    is_inside,
    is_leader,
    is_next,
    is_waiting,
    opposite,
    same_link,
    towards,
)
from habemus.core.node import Delivered
from habemus.core.system import complete, grid, line, random_connected, ring, star, tree
from habemus.problems.detector import Detector, Restored, Suspected
from habemus.problems.election import Election, ElectionCosts, Leader
from habemus.problems.link import Link
from habemus.problems.mutex import Granted, Mutex, MutexCosts, average

__all__ = [
    "Assumptions",
    "Const",
    "Crashes",
    "Delivered",
    "Detector",
    "Durable",
    "Election",
    "ElectionCosts",
    "Granted",
    "InTransit",
    "Indication",
    "Invariant",
    "Leader",
    "Link",
    "Links",
    "Message",
    "MistakeInAlgorithm",
    "MistakeInPlan",
    "Mutex",
    "MutexCosts",
    "Process",
    "ProcessId",
    "Restored",
    "Span",
    "Suspected",
    "System",
    "Timer",
    "Timing",
    "Topology",
    "Unsynced",
    "Uses",
    "average",
    "between",
    "complete",
    "grid",
    "is_inside",
    "is_leader",
    "is_next",
    "is_waiting",
    "line",
    "opposite",
    "random_connected",
    "request",
    "ring",
    "same_link",
    "star",
    "towards",
    "tree",
    "upon",
    "whenever",
]
