"""Processes, messages, effects, events and properties.  Standard library only."""

from habemus.core.process import (
    Const,
    Durable,
    MistakeInAlgorithm,
    MistakeInPlan,
    Process,
    ProcessId,
    Span,
    Unsynced,
    Uses,
    request,
    upon,
    whenever,
)
from habemus.core.system import System, Topology
from habemus.core.values import Indication, Message, Timer, Value

__all__ = [
    "Const",
    "Durable",
    "Indication",
    "Message",
    "MistakeInAlgorithm",
    "MistakeInPlan",
    "Process",
    "ProcessId",
    "Span",
    "System",
    "Timer",
    "Topology",
    "Unsynced",
    "Uses",
    "Value",
    "request",
    "upon",
    "whenever",
]
