"""Replacement of a process whose stable memory is lost: what it must know comes from the others."""

from __future__ import annotations

from collections.abc import Sequence

from habemus.core.node import PureNode, Stack
from habemus.core.process import Process


def keeps_memory(plan: Process) -> bool:
    """Return whether a part of a process has durable variables."""
    return any(variable.kind == "durable" for variable in type(plan).__variables__.values())


def is_replaceable(stack: Stack) -> bool:
    """Return whether every part with durable variables says how they are replaced."""
    return not any(
        keeps_memory(part.plan) and type(part.plan).on_replaced is Process.on_replaced
        for part in stack.parts
    )


def replace_memory(node: PureNode, others: Sequence[PureNode], life: int) -> None:
    """Set the durable variables of a new process from those of all others."""
    for port, part in enumerate(node.parts):
        if keeps_memory(part):
            part.on_replaced([other.parts[port] for other in others], life)
