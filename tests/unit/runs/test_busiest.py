"""The load of the busiest process: all messages pass a coordinator, 2/N of them another process."""

from habemus.runs.setup import Setup
from habemus.runs.simulate import execute


def test_a_coordinator_is_a_bottleneck_and_a_participant_is_not() -> None:
    central = execute(Setup("central", 5)).costs
    assert (central["busiest_process"], central["busiest_share"]) == ("coordinator", 1.0)
    for size in (3, 5, 9):
        assert execute(Setup("ricart-agrawala", size)).costs["busiest_share"] == round(2 / size, 6)


def test_a_run_without_messages_has_no_busiest_process() -> None:
    assert execute(Setup("ricart-agrawala", 1)).costs["busiest_process"] is None
