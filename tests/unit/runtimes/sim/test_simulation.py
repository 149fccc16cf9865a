"""The run of a simulation: what is done between its parts."""

from __future__ import annotations

import pytest

from habemus.algorithms.mutex.ricart_agrawala import RicartAgrawala
from habemus.problems.mutex import Clients
from habemus.runtimes.sim.faults import Crash, Cut, Slow, one_way
from habemus.runtimes.sim.interventions import Intervention, Luck
from habemus.runtimes.sim.network import Uniform
from habemus.runtimes.sim.simulation import Simulation


@pytest.mark.parametrize(
    "intervention",
    [Crash(2, 0), Cut(one_way(1, 2), 0), Slow(one_way(1, 2), 0, Uniform(9, 9)), Luck(3)],
)
def test_a_reset_run_has_its_interventions_again(intervention: Intervention) -> None:
    simulation = Simulation(
        RicartAgrawala.system(3), workload=Clients(1), interventions=[(5, intervention)]
    )
    simulation.run()
    first = [event.line() for event in simulation.drained()]
    undisturbed = Simulation(RicartAgrawala.system(3), workload=Clients(1))
    undisturbed.run()
    assert first != [event.line() for event in undisturbed.drained()]
    simulation.reset(0)
    simulation.run()
    assert [event.line() for event in simulation.drained()] == first
