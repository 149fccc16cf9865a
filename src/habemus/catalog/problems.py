"""Problems as the catalog describes them: base class, properties, workload and judge."""

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
    """Reads every event of a run in order, and returns verdicts and costs at its end."""

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
    # properties that count for every verdict; the others count if the algorithm claims them
    always_counted: tuple[str, ...]
    workload: Callable[[Setup, System], Workload]
    judge: Callable[[Setup, System, Network], Judge]
    model: (
        Callable[[int | None, System], tuple[Mapping[ProcessId, ClientModel], Observer]] | None
    ) = None
    """Clients with so many requests each, and the observer; None if the problem is about time."""


def lazy(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports its module when it is called: a search needs no workloads, no
    judges and no simulator.
    """

    def call(*arguments: Any) -> Any:
        return getattr(import_module(module), name)(*arguments)

    return call


def exact(numerator: int, denominator: int) -> float:
    """Return a quotient, as an integer where it is one, for comparison with formulas."""
    return (
        numerator // denominator
        if numerator % denominator == 0
        else round(numerator / denominator, 6)
    )
