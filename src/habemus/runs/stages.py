"""The stages of a run as pictures of its network, with the effect of each message on the graph.

Stages are derived from the messages of the trace and not from the states of the processes.  Links
are asynchronous, so there may be no moment at which all processes are in the same stage, but every
link carries one Yo and one vote in each stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from habemus.core.process import ProcessId
from habemus.core.system import Topology
from habemus.core.words import counted
from habemus.runs.simulate import Report
from habemus.traces.graph import DrawnLink, GraphStage, graph
from habemus.traces.trace import Trace

Pair: TypeAlias = tuple[ProcessId, ProcessId]
Label: TypeAlias = Callable[[ProcessId], str]

MOST_NAMES = 14
"""Largest number of processes that are named one by one."""


class NoStages(ValueError):
    """The algorithm has no stages to draw, or the run has no trace."""


def stages(report: Report) -> list[GraphStage]:
    """Return the stages of a run; raise `NoStages` if there are none."""
    read = READERS.get(report.entry.name)
    if read is None:
        raise NoStages(f"{report.entry.name} has no stages to draw; {' and '.join(READERS)} have")
    if report.trace is None:
        raise NoStages("the run is too long to draw its stages")
    return read(report.trace, report.system.topology)


def picture(report: Report, title: str = "") -> str:
    """Return the stages of a run as one SVG."""
    caption = title or f"{report.entry.name}, {counted(report.setup.n, 'participant')}"
    return graph(stages(report), title=caption, label=report.system.label)


# Yo-Yo.


@dataclass
class _YoYoRun:
    """Messages of each link, in the order of the stages."""

    down: dict[Pair, list[tuple[ProcessId, ProcessId, ProcessId]]] = field(
        default_factory=dict
    )  # from, to, value
    answers: dict[Pair, list[str]] = field(default_factory=dict)
    # the process from which each process learnt the outcome
    parents: dict[ProcessId, ProcessId] = field(default_factory=dict)
    leaders: dict[ProcessId, ProcessId] = field(default_factory=dict)
    cut: set[Pair] = field(default_factory=set)

    @classmethod
    def of(cls, trace: Trace) -> _YoYoRun:
        run = cls()
        for event in trace.events:
            if event.kind == "indicate" and event.name == "Leader":
                run.leaders[event.process] = event.fields()["process"]
            if event.peer is None:
                continue
            pair = (min(event.process, event.peer), max(event.process, event.peer))
            match event.kind, event.name:
                case "send", "Yo":
                    run.down.setdefault(pair, []).append(
                        (event.process, event.peer, event.fields()["smallest"])
                    )
                case "send", "Vote":
                    run.answers.setdefault(pair, []).append(event.fields()["answer"])
                case "send", "Elected":
                    run.parents[event.peer] = event.process
                case "cut", _:
                    run.cut.add(pair)
        return run


def yo_yo(trace: Trace, topology: Topology) -> list[GraphStage]:
    run = _YoYoRun.of(trace)
    last = max(map(len, run.down.values()), default=0)
    found = [_yo_yo_stage(run, topology, number, trace.label) for number in range(1, last + 1)]
    return [*found, _outcome(run, topology, trace.label)]


def _yo_yo_stage(run: _YoYoRun, topology: Topology, number: int, label: Label) -> GraphStage:
    links = []
    above: dict[ProcessId, list[ProcessId]] = {
        process: [] for process in topology.processes
    }  # the values that came to each
    below: dict[ProcessId, list[str]] = {
        process: [] for process in topology.processes
    }  # the answers that came to each
    left = []
    for one, other in topology.edges:
        sent, answers = run.down.get((one, other), []), run.answers.get((one, other), [])
        if len(sent) < number:
            links.append(DrawnLink(one, other, "cut" if (one, other) in run.cut else "gone"))
            continue
        sender, receiver, value = sent[number - 1]
        answer = answers[number - 1] if len(answers) >= number else "OPEN"
        links.append(DrawnLink(sender, receiver, answer.lower()))
        above[receiver].append(value)
        below[sender].append(answer)
        if answer == "LEAVE":
            left.append(receiver)
    roles = {
        process: _role(process, bool(above[process]), bool(below[process]), run)
        for process in topology.processes
    }
    sources = [process for process in topology.processes if roles[process] == "source"]
    lost = [process for process in sources if "NO" in below[process]]
    caption = f"{counted(len(sources), 'source')}" + (
        f": {_listed(sorted(sources), label)}." if len(sources) <= MOST_NAMES else "."
    )
    if lost:
        caption += f"  {_listed(sorted(lost), label)} {'loses' if len(lost) == 1 else 'lose'}."
    if left:
        caption += f"  {_listed(sorted(left), label)} {'leaves' if len(left) == 1 else 'leave'}."
    tags = {process: str(min(values)) for process, values in above.items() if values}
    return GraphStage(f"Stage {number}", caption, roles, links, tags)


def _role(process: ProcessId, gets: bool, gives: bool, run: _YoYoRun) -> str:
    if gets or gives:
        return "inner" if gets and gives else "sink" if gets else "source"
    return "leader" if run.leaders.get(process) == process else "out"


def _outcome(run: _YoYoRun, topology: Topology, label: Label) -> GraphStage:
    """Return the last picture: the leader, and the links over which the others learnt of it."""
    links = []
    for one, other in topology.edges:
        if run.parents.get(other) == one:
            links.append(DrawnLink(one, other, "tree"))
        elif run.parents.get(one) == other:
            links.append(DrawnLink(other, one, "tree"))
        else:
            links.append(DrawnLink(one, other, "cut" if (one, other) in run.cut else "gone"))
    leaders = [process for process in topology.processes if run.leaders.get(process) == process]
    roles = {
        process: "leader" if process in leaders else "follower" if process in run.leaders else "out"
        for process in topology.processes
    }
    caption = (
        f"{_listed(leaders, label)} {'is' if len(leaders) == 1 else 'are'} elected."
        if leaders
        else "No process is elected."
    )
    silent = [process for process in topology.processes if process not in run.leaders]
    if leaders and silent:
        caption += (
            f"  {_listed(silent, label)} {'does' if len(silent) == 1 else 'do'} not hear of it."
        )
    return GraphStage("The end", caption, roles, links)


# Franklin.


def franklin(trace: Trace, topology: Topology) -> list[GraphStage]:
    rounds: dict[int, set[ProcessId]] = {}
    leader = None
    for event in trace.events:
        if (
            event.kind == "send"
            and event.name == "Nominee"
            and event.fields()["process"] == event.process
        ):
            rounds.setdefault(event.fields()["round"], set()).add(event.process)
        elif event.kind == "indicate" and event.fields()["process"] == event.process:
            leader = event.process
    plain = [DrawnLink(one, other, "plain") for one, other in topology.edges]
    found = []
    for number, active in sorted(rounds.items()):
        lost = active - rounds.get(number + 1, set()) - {leader}
        caption = f"{len(active)} active: {_listed(sorted(active), trace.label)}."
        caption += (
            f"  {_listed(sorted(lost), trace.label)} {'goes' if len(lost) == 1 else 'go'} passive."
            if lost
            else "  Its own id returns to it."
        )
        roles = {
            process: "active" if process in active else "passive" for process in topology.processes
        }
        found.append(GraphStage(f"Round {number}", caption, roles, plain))
    if leader is not None and found:
        ending = {
            process: "leader" if process == leader else "follower" for process in topology.processes
        }
        found.append(GraphStage("The end", f"{trace.label(leader)} is elected.", ending, plain))
    return found


def _listed(processes: Sequence[ProcessId], label: Label) -> str:
    if len(processes) > MOST_NAMES:
        return f"{len(processes)} processes"
    names = [label(process) for process in processes]
    return (
        f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names) or "none"
    )


READERS: dict[str, Callable[[Trace, Topology], list[GraphStage]]] = {
    "yo-yo": yo_yo,
    "franklin": franklin,
}
