"""Claims about Yo-Yo, each with its source, and the stages that are read from its runs."""

from collections.abc import Sequence
from itertools import combinations
from math import ceil, log, log2

import pytest

from habemus.algorithms.election.ring import shuffled
from habemus.algorithms.election.yo_yo import YoYo
from habemus.core import MistakeInPlan, ProcessId, Topology
from habemus.core.events import Event
from habemus.core.properties import Verdict
from habemus.core.system import TOPOLOGIES, random_connected
from habemus.problems.election import Call, Calls
from habemus.runs.setup import Setup
from habemus.runs.simulate import Report, execute, system_of
from habemus.runs.stages import NoStages, picture, stages
from habemus.runtimes.replay import Replay
from habemus.runtimes.sim.network import Exponential, Network
from habemus.runtimes.sim.simulation import Record, Simulation
from habemus.scenarios import find

GRAPHS = 200
GOLDEN = (1 + 5**0.5) / 2

Edges = Sequence[tuple[ProcessId, ProcessId]]


def as_option(edges: Edges) -> str:
    return f"edges={[list(edge) for edge in edges]}".replace(" ", "")


def run(size: int, *options: str, **more: object) -> Report:
    return execute(Setup("yo-yo", size, options=options, **more))  # type: ignore[arg-type]  # any field of a setup


def stages_of(report: Report) -> int:
    return len(stages(report)) - 1  # the last picture is the outcome


def test_the_smallest_is_elected_on_random_graphs() -> None:
    """Santoro, 3.8.3: the smallest id, 2m messages to set up and at most 2m in each stage; then n-1
    to announce.
    """
    most = 0
    for number in range(GRAPHS):
        size = 2 + number % 30
        network = random_connected(shuffled(size, number), seed=number, extra=number % 5)
        workload, delay = ("burst", "1ms") if number % 2 else ("steady", "exp:1ms")
        report = run(size, as_option(network.edges), seed=number, workload=workload, delay=delay)
        links, number_of_stages = len(report.system.topology.edges), stages_of(report)
        assert report.verdict is Verdict.HOLDS, report.setup.command()
        assert report.costs["leader"] == 1
        assert number_of_stages <= ceil(log2(size)) + 1
        assert report.costs["messages"] <= 2 * links + 2 * links * number_of_stages + size - 1
        by_name = report.costs["messages_by_name"]
        assert by_name["Id"] == 2 * links
        assert by_name["Yo"] == by_name["Vote"]
        assert by_name["Elected"] == size - 1
        most = max(most, number_of_stages)
    assert most >= 3  # some of them were not trivial


def every_connected_graph(size: int) -> list[Edges]:
    pairs = list(combinations(range(1, size + 1), 2))
    graphs = [
        chosen
        for number in range(size - 1, len(pairs) + 1)
        for chosen in combinations(pairs, number)
    ]
    return [
        chosen
        for chosen in graphs
        if Topology.of_edges("any", range(1, size + 1), chosen).is_connected()
    ]


def test_the_smallest_is_elected_on_every_graph_of_up_to_five() -> None:
    """All 1 + 4 + 38 + 728 connected graphs, over links that reorder."""
    graphs = [(size, edges) for size in (2, 3, 4, 5) for edges in every_connected_graph(size)]
    assert len(graphs) == 1 + 4 + 38 + 728
    for number, (size, edges) in enumerate(graphs):
        calls = Calls([Call(1 + number % size, 1)])
        simulation = Simulation(
            YoYo.system(size, edges=tuple(edges)),
            workload=calls,
            network=Network(Exponential()),
            seed=number,
            record=Record.NOTHING,
        )
        assert simulation.run(events=10_000).reason == "quiescent", edges
        named = [part.leader for [part] in simulation.processes.values() if isinstance(part, YoYo)]
        assert named == [1] * size, edges


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_any_topology(topology: str) -> None:
    for size in (1, 2, 3, 9, 20):
        for arrangement in range(3):
            report = run(
                size, f"topology={topology}", f"arrangement={arrangement}", delay="exp:1ms"
            )
            assert report.verdict is Verdict.HOLDS
            assert report.costs["leader"] == 1


def test_the_timing_does_not_matter() -> None:
    """Who wins where depends on the ids alone, so the same messages are sent whatever the delays
    and the callers.
    """
    counts = {
        run(25, "arrangement=4", seed=seed, delay="heavy:1ms", workload=workload).costs["messages"]
        for seed in range(20)
        for workload in ("burst", "steady")
    }
    assert len(counts) == 1


# How many stages there can be.


def fibonacci_graph(wanted: int) -> tuple[int, Edges]:
    """A graph of 3, 5, 8, 13, ... processes that takes so many stages.

    Built from the last stage backwards.  A group is a set of sources that meet at one process below
    them.  A stage back, there is one more source for each group, which loses to all of its members,
    because each member met it at a place of its own.  So each stage has as many sources as the next
    two together.
    """
    sources = [1, 2]
    groups = [{1, 2}]
    for _ in range(wanted - 2):
        losers = [len(sources) + 1 + index for index in range(len(groups))]
        groups = [
            {source} | {losers[index] for index, group in enumerate(groups) if source in group}
            for source in sources
        ]
        sources += losers
    sinks = [len(sources) + 1 + index for index in range(len(groups))]
    return len(sources) + len(sinks), [
        (source, sink)
        for sink, group in zip(sinks, groups, strict=True)
        for source in sorted(group)
    ]


@pytest.mark.parametrize("wanted", range(2, 10))
def test_the_number_of_sources_may_fall_as_slowly_as_fibonacci(wanted: int) -> None:
    """At most 1 + log n to the base of the golden ratio, which these graphs come near to.

    It is often said that every stage loses at least half of the sources.  That is not so: one
    source may lose to many.  But then these meet in the next stage, where it was.
    """
    size, edges = fibonacci_graph(wanted)
    report = run(size, as_option(edges))
    assert report.verdict is Verdict.HOLDS
    assert stages_of(report) == wanted
    assert wanted <= 1 + log(size, GOLDEN)
    if wanted >= 8:
        assert wanted > ceil(log2(size)) + 1


# A cut link: lecture notes on coordination, split-brain.


def test_a_cut_bridge_elects_the_smallest_of_each_side() -> None:
    report = find("yo-yo-cut").run().report
    assert report.violated == ["E1", "E3"]
    leaders = {
        event.process
        for event in _events(report)
        if event.kind == "indicate" and event.fields()["process"] == event.process
    }
    assert leaders == {1, 2}


def test_without_patience_everybody_waits_for_the_cut_link() -> None:
    setup = find("yo-yo-cut").setup
    report = execute(
        Setup("yo-yo", 12, options=setup.options[:1], asks=setup.asks, faults=setup.faults)
    )
    assert report.violated == ["E2"]
    assert "2 (waits for 10)" in report.why


def test_patience_does_not_matter_where_no_link_is_cut() -> None:
    for seed in range(20):
        calm, patient = (
            run(15, "arrangement=3", *more, seed=seed, delay="500..1500")
            for more in ((), ("patience=10ms",))
        )
        assert calm.costs["messages"] == patient.costs["messages"]
        assert patient.verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"edges": ((1, 2), (3, 4))}, "do not connect all processes"),
        ({"edges": ((1, 5),)}, "there is no process 5"),
        ({"topology": "torus"}, "there is no topology 'torus'"),
        ({"topology": "ring", "order": (1, 2)}, "each of the ids 1 to 4 once"),
    ],
)
def test_networks_that_cannot_be(options: dict[str, object], reason: str) -> None:
    with pytest.raises(MistakeInPlan, match=reason):
        YoYo.system(4, **options)


# The stages that are drawn.


def _events(report: Report) -> Sequence[Event]:
    assert report.trace is not None
    return report.trace.events


def test_stages_are_those_of_the_processes() -> None:
    """What is read from the messages is what the processes themselves have in their variables."""
    seen = 0
    for seed in range(20):
        report = run(14, "topology=tree", f"arrangement={seed}", seed=seed, delay="exp:1ms")
        assert report.trace is not None
        told = stages(report)
        names = YoYo.__state_names__
        before: dict[ProcessId, int] = {}
        for event, [state] in Replay(system_of(report.setup, report.entry)).states(
            report.trace.events
        ):
            now = dict(zip(names, state, strict=True))
            if now["is_down"] and now["stage"] != before.get(event.process):
                before[event.process] = now["stage"]
                role = {(False, True): "source", (True, False): "sink", (True, True): "inner"}[
                    bool(now["brought"]), bool(now["awaited"])
                ]
                assert told[now["stage"] - 1].roles[event.process] == role
                seen += 1
        assert len(told) == 1 + max(before.values())
    assert (
        seen > 200
    )  # sources and those between; a sink votes in the same step and is not seen in between


def test_the_stages_of_a_small_network() -> None:
    told = stages(find("yo-yo-graph").run().report)
    assert [stage.title for stage in told] == ["Stage 1", "Stage 2", "Stage 3", "The end"]
    assert told[0].description.startswith("6 sources: 1, 2, 3, 4, 5 and 7.")
    assert told[0].roles[10] == "sink"
    assert told[1].roles[4] == "sink"
    assert told[2].roles[5] == "out"
    assert told[3].roles[1] == "leader"
    assert [sum(link.sign == "tree" for link in stage.links) for stage in told] == [0, 0, 0, 11]
    assert {len(stage.links) for stage in told} == {15}


def test_the_stages_of_a_cut_network() -> None:
    told = stages(find("yo-yo-cut").run().report)
    assert all(
        [(link.one, link.other) for link in stage.links if link.sign == "cut"] == [(2, 10)]
        for stage in told
    )
    assert [process for process, role in told[-1].roles.items() if role == "leader"] == [1, 2]


def test_franklin_has_stages_too_and_others_have_none() -> None:
    told = stages(find("franklin-rounds").run().report)
    assert [stage.title for stage in told] == [
        "Round 1",
        "Round 2",
        "Round 3",
        "Round 4",
        "The end",
    ]
    assert [sum(role == "active" for role in stage.roles.values()) for stage in told] == [
        8,
        4,
        2,
        1,
        0,
    ]
    with pytest.raises(
        NoStages, match="chang-roberts has no stages to draw; yo-yo and franklin have"
    ):
        stages(find("chang-roberts-worst").run().report)


def test_the_picture_has_every_stage_and_the_title() -> None:
    report = find("yo-yo-graph").run().report
    drawn = picture(report, "Twelve")
    assert drawn == picture(report, "Twelve")
    for words in ("Twelve", "Stage 1", "Stage 2", "Stage 3", "The end", "1 is elected."):
        assert f">{words}</text>" in drawn
