"""What the catalog needs to know of each problem: who solves it, what drives a run of it, and who
judges it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from habemus.core.model import ClientModel, Observer
from habemus.core.process import Process, ProcessId
from habemus.core.properties import Finding, Property
from habemus.core.system import System

if TYPE_CHECKING:
    from habemus.core.application import Workload
    from habemus.core.events import Event
    from habemus.runs.setup import Setup
    from habemus.runtimes.sim.network import Network
    from habemus.runtimes.sim.simulation import Ending


class Judge(Protocol):
    """Sees every event of a run, in order, and says at its end what became of the properties and
    what it cost.
    """

    def observe(self, event: Event) -> None: ...

    def findings(
        self, ending: str, awaits: Mapping[ProcessId, Sequence[ProcessId]]
    ) -> list[Finding]: ...

    def costs(self, ending: Ending) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Problem:
    name: str
    title: str
    base: type[Process]
    properties: tuple[Property, ...]
    always_counted: tuple[
        str, ...
    ]  # make the verdict of every run; the others only where the algorithm claims them
    workload: Callable[[Setup, System], Workload]
    judge: Callable[[Setup, System, Network], Judge]
    model: (
        Callable[[int | None, System], tuple[Mapping[ProcessId, ClientModel], Observer]] | None
    ) = None
    """What a search needs, for so many requests of each client; None where a problem is about time."""


def lazy(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is loaded when it is called: a search needs no workloads and no
    judges, nor the simulator under them.
    """

    def call(*arguments: Any) -> Any:
        return getattr(import_module(module), name)(*arguments)

    return call


def exact(numerator: int, denominator: int) -> float:
    """A whole number where it is one: costs are compared with formulas."""
    return (
        numerator // denominator
        if numerator % denominator == 0
        else round(numerator / denominator, 6)
    )
