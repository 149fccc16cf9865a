"""The run of a simulation: what is done between its parts."""

from __future__ import annotations

from habemus.algorithms.mutex.ricart_agrawala import RicartAgrawala
from habemus.problems.mutex import Clients
from habemus.runtimes.sim.faults import Crash
from habemus.runtimes.sim.simulation import Simulation


def test_a_reset_run_has_its_interventions_again() -> None:
    simulation = Simulation(
        RicartAgrawala.system(3), workload=Clients(1), interventions=[(5, Crash(2, 0))]
    )
    simulation.run()
    first = [event.line() for event in simulation.drained()]
    assert any("crash" in line for line in first)
    simulation.reset(0)
    simulation.run()
    assert [event.line() for event in simulation.drained()] == first
