"""Liveness: fair loops in which an obligation stays pending.

An infinite run in a finite state space ends in a loop.  The loop is *fair* if every step that is
possible all along it is taken: every message that stays in flight is received eventually, every
timer that stays set expires, an application inside the critical section leaves.  A timer that is
reset again and again need not expire, an application need not ask, faults need not happen, and only
finitely many messages are lost.  A fair loop with an obligation that is pending all along is a
violation, and the path to it is shown with the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from habemus.core.process import ProcessId
from habemus.runtimes.checker.graphs import strong_components
from habemus.runtimes.checker.process_model import Move
from habemus.runtimes.checker.search import GlobalStep, Search

Local = tuple[int, int]
"""The numbers of the state of a process and of that of its application."""


class Edge(NamedTuple):
    target: int  # a position in the list of states
    class_: int  # the class of the step in which fairness requires one; -1: none is required
    progress: tuple[str, ...]
    served: frozenset[int]  # classes that are served: its own, and those of timers that it resets


class Lasso(NamedTuple):
    name: str
    process: ProcessId
    path: list[int]  # to the first state of the loop
    loop: list[int]  # from that state round to it again


def has_loops(search: Search) -> bool:
    """Whether a run may go on for ever; if not, there are no loops to search.

    An infinite run takes infinitely many steps; without timers these are receipts and requests.
    """
    return search.bound.synchronous or _has_timeouts(search) or has_endless_messages(search)


def _has_timeouts(search: Search) -> bool:
    """Return whether a timer may expire any number of times."""
    return any(
        move.label.kind == "timer" and not move.cost
        for place in range(len(search.models))
        for _, moves in search.known_moves(place)
        for move in moves
    )


def has_endless_messages(search: Search) -> bool:
    """Whether messages may be in flight for ever, or applications make requests for ever.

    Then a run takes such steps in a loop, in which every process returns to its state, and each
    message is sent again upon a receipt.  So only steps in a loop of their own process matter, and
    the graph of which of their messages causes which has a cycle.
    """
    leads_to: dict[Hashable, set[Hashable]] = {}
    for place, model in enumerate(search.models):
        steps = _local_steps(search, place)
        part_of = _parts({(before, after) for _, before, after, _ in steps})
        for number, before, after, move in steps:
            if part_of[before] != part_of[after]:
                continue
            if move.label.kind == "request":
                return True
            sent = leads_to.setdefault((place, move.label.what), set())
            sent.update(
                (to, model.messages.values[each])
                for to, bundle in move.sends
                for each in model.messages.bundles.values[bundle]
            )
            sent.update((place, pending) for pending in model.sent_to_itself(number, move))
    return _is_cyclic(leads_to)


def _local_steps(search: Search, place: int) -> list[tuple[int, Local, Local, Move]]:
    """Return the receipts and requests of a process, each with a component in which it is possible
    and the states of process and application before and after it.
    """
    components = search.models[place].components.values
    steps = []
    looked_at: set[int] = set()
    for number, moves in search.known_moves(place):
        node, use = components[number].node, components[number].use
        for move in moves:
            # A receipt does not depend on other messages, and then it has the same label.
            if not move.cost and id(move.label) not in looked_at:
                looked_at.add(id(move.label))
                if move.label.kind in ("receive", "request"):
                    after = components[move.target]
                    steps.append((number, (node, use), (after.node, after.use), move))
    return steps


def _parts(edges: set[tuple[Local, Local]]) -> dict[Local, int]:
    """Number the strongly connected components of a graph; return that of each node."""
    nodes = list(dict.fromkeys(node for edge in sorted(edges) for node in edge))
    numbers = {node: number for number, node in enumerate(nodes)}
    following: list[list[int]] = [[] for _ in nodes]
    for before, after in sorted(edges):
        following[numbers[before]].append(numbers[after])
    return {
        nodes[member]: part
        for part, members in enumerate(strong_components(len(nodes), following.__getitem__))
        for member in members
    }


def _is_cyclic(graph: dict[Hashable, set[Hashable]]) -> bool:
    positions = {
        node: position
        for position, node in enumerate(
            dict.fromkeys([*graph, *(each for others in graph.values() for each in others)])
        )
    }
    following = [[positions[each] for each in graph.get(node, ())] for node in positions]
    return any(
        len(part) > 1 or part[0] in following[part[0]]
        for part in strong_components(len(following), following.__getitem__)
    )


def lassos(
    search: Search, names: Sequence[str], progress: Callable[[int, int], None] | None = None
) -> tuple[list[Lasso], bool]:
    """Find at most one fair loop per property that violates it, and whether any fair loop exists.

    The search must be complete.  `progress` is called now and then with the states looked at and
    their number.
    """
    states = search.visited()
    tell = progress or (lambda done, total: None)
    positions = {state: position for position, state in enumerate(states)}
    classes: dict[Hashable, int] = {}
    edges = [
        [
            _edge(search, state, step, positions, classes)
            for step in search.steps(state)
            if step.label.kind not in _NEVER_FOR_EVER
        ]
        for state in _told(states, tell)
    ]
    unfulfilled = [search.unfulfilled(state) for state in states]
    found = []
    for name in names:
        for process in search.system.topology.processes:
            inside = [(name, process) in each for each in unfulfilled]
            lasso = _fair_loop(search, states, edges, inside, name, process)
            if lasso is not None:
                found.append(lasso)
                break
    everywhere = [True] * len(states)
    return found, bool(found) or _fair_part(edges, everywhere, "") is not None


def _told(states: Sequence[int], tell: Callable[[int, int], None]) -> Iterator[int]:
    for done, state in enumerate(states):
        if done % 2_000 == 0:
            tell(done, len(states))
        yield state
    tell(len(states), len(states))


_NEVER_FOR_EVER = ("lose", "crash", "recover", "amnesia", "copy")


def _edge(
    search: Search,
    state: int,
    step: GlobalStep,
    positions: dict[int, int],
    classes: dict[Hashable, int],
) -> Edge:
    what = step.label.what
    key: Hashable = None
    match step.label.kind:
        case "receive" | "vanish":
            key = (step.place, "receive", what.sender) if search.bound.fifo else (step.place, what)
        case "timer":
            key = (step.place, what.port, what.timer)
        case "request" if not step.voluntary:
            key = (step.place, what.name)
        case "pass":
            key = "time"
    class_ = -1 if key is None else classes.setdefault(key, len(classes))
    set_anew = search.timers_set(state, step)
    served = {
        class_,
        *(classes.setdefault((step.place, port, timer), len(classes)) for port, timer in set_anew),
    }
    progress = tuple(name for seen in step.seen for name in search.observer.progress(seen))
    return Edge(positions[step.target], class_, progress, frozenset(served))


def _fair_loop(
    search: Search,
    states: list[int],
    edges: list[list[Edge]],
    inside: list[bool],
    name: str,
    process: ProcessId,
) -> Lasso | None:
    part = _fair_part(edges, inside, name)
    if part is None:
        return None
    first = min(part)  # the states are in the order of the search: the shortest way leads there
    return Lasso(
        name,
        process,
        search.path_to(states[first]),
        [states[each] for each in _round(first, part, edges, name)],
    )


def _fair_part(edges: list[list[Edge]], inside: list[bool], name: str) -> list[int] | None:
    """Find connected states in which a run can loop for ever, fairly and without progress."""

    def following(position: int) -> list[int]:
        return [
            edge.target
            for edge in edges[position]
            if inside[edge.target] and name not in edge.progress
        ]

    starts = [position for position, is_inside in enumerate(inside) if is_inside]
    for part in strong_components(len(edges), following, starts):
        members = set(part)
        within = [
            edge
            for position in part
            for edge in edges[position]
            if edge.target in members and name not in edge.progress
        ]
        if not within:
            continue
        enabled = [
            frozenset(edge.class_ for edge in edges[position] if edge.class_ >= 0)
            for position in part
        ]
        if frozenset.intersection(*enabled) <= {
            class_ for edge in within for class_ in edge.served
        }:
            return part
    return None


def _round(first: int, part: Sequence[int], edges: list[list[Edge]], name: str) -> list[int]:
    """Build a loop from the first state that takes every step that is possible all along it, or
    passes a state where the step is not possible.
    """
    members = set(part)
    within = {
        position: [
            edge for edge in edges[position] if edge.target in members and name not in edge.progress
        ]
        for position in part
    }
    enabled = {
        position: {edge.class_ for edge in edges[position] if edge.class_ >= 0} for position in part
    }
    way = [first]
    met: set[int] = set()
    for class_ in sorted(set().union(*enabled.values())):
        if class_ in met or any(class_ not in enabled[position] for position in way):
            continue
        idle = {position for position in part if class_ not in enabled[position]}
        taking = {
            position: edge
            for position in part
            for edge in within[position]
            if class_ in edge.served
        }
        way += _walk(way[-1], idle | taking.keys(), within)
        if way[-1] not in idle:
            way.append(taking[way[-1]].target)
            met |= taking[way[-2]].served
    if len(way) == 1:
        way.append(within[first][0].target)
    return way + _walk(way[-1], {first}, within)


def _walk(start: int, goals: set[int], within: Mapping[int, Sequence[Edge]]) -> list[int]:
    """Return the shortest path within a part, without its first state."""
    if start in goals:
        return []
    came: dict[int, int] = {start: start}
    queue = [start]
    for position in queue:
        for edge in within[position]:
            if edge.target not in came:
                came[edge.target] = position
                if edge.target in goals:
                    way = [edge.target]
                    while came[way[-1]] != start:
                        way.append(came[way[-1]])
                    return way[::-1]
                queue.append(edge.target)
    raise LookupError("a part of a graph that is not connected")
