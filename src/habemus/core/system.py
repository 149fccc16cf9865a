"""A system: its processes, their plans, and the topology of links between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

from habemus.core.process import MistakeInPlan, Process, ProcessId
from habemus.core.shapes import shown

Edges = Iterable[tuple[ProcessId, ProcessId]]


class Topology:
    """The neighbours of every process, in order.  Only neighbours can exchange messages.

    name: the name of the shape, such as ring.
    neighbours: the neighbours of each process; every neighbour is a key as well.

    >>> Topology("pair", {1: (2,), 2: (1,)}).edges
    [(1, 2)]
    """

    def __init__(self, name: str, neighbours: Mapping[ProcessId, Sequence[ProcessId]]) -> None:
        wrong = next(_no_neighbours(neighbours), None)
        if wrong is not None:
            raise MistakeInPlan(
                f"{wrong}; a topology has a name and the neighbours of each process, as in"
                " Topology('pair', {1: (2,), 2: (1,)})"
            )
        self.name = name
        self.neighbours = {process: tuple(others) for process, others in neighbours.items()}
        for process, others in self.neighbours.items():
            twice = _first_repeated(others)
            for other in others:
                if other not in self.neighbours:
                    raise MistakeInPlan(
                        f"process {process} has the neighbour {other}, which is not a process"
                    )
                if other in (process, twice):
                    raise MistakeInPlan(
                        f"process {process} has"
                        f" {'itself' if other == process else f'{other} twice'} as a neighbour"
                    )

    @property
    def processes(self) -> tuple[ProcessId, ...]:
        """All processes, in order."""
        return tuple(self.neighbours)

    @property
    def edges(self) -> list[tuple[ProcessId, ProcessId]]:
        """The pairs of neighbours, the smaller process first."""
        return [
            (one, other)
            for one, others in self.neighbours.items()
            for other in others
            if one < other
        ]

    def is_connected(self) -> bool:
        """Return whether there is a path between any two processes."""
        reached, frontier = set(self.processes[:1]), list(self.processes[:1])
        while frontier:
            for other in self.neighbours[frontier.pop()]:
                if other not in reached:
                    reached.add(other)
                    frontier.append(other)
        return len(reached) == len(self.neighbours)

    @classmethod
    def of_edges(cls, name: str, processes: Iterable[ProcessId], edges: Edges) -> Topology:
        """Return the topology in which each of the edges joins two neighbours."""
        near: dict[ProcessId, set[ProcessId]] = {process: set() for process in _listed(processes)}
        for one, other in edges:
            for process in (one, other):
                if process not in near:
                    raise MistakeInPlan(f"edge {one}-{other}: there is no process {process}")
            if one == other:
                raise MistakeInPlan(f"edge {one}-{other} joins a process to itself")
            near[one].add(other)
            near[other].add(one)
        return cls(name, {process: tuple(sorted(others)) for process, others in near.items()})


def _no_neighbours(given: object) -> Iterator[str]:
    """Return what is wrong with the neighbours of a topology, if anything is."""
    if not isinstance(given, Mapping):
        yield f"{shown(given)} is not a dict"
        return
    if not set(map(type, given)) <= {int}:
        yield from (f"{shown(each)} is not a process" for each in given if type(each) is not int)
    if not set(map(type, given.values())) <= {tuple, list}:
        for process, others in given.items():
            if not isinstance(others, tuple | list):
                yield f"the neighbours of {process} are {shown(others)}, which is not a tuple"


def _listed(processes: Iterable[ProcessId]) -> tuple[ProcessId, ...]:
    listed = tuple(processes)
    if not listed:
        raise MistakeInPlan("a topology needs at least one process")
    twice = _first_repeated(listed)
    if twice is not None:
        raise MistakeInPlan(f"process {twice} is named twice")
    return listed


def _first_repeated(processes: tuple[ProcessId, ...]) -> ProcessId | None:
    """Return the first process that is named more than once, if any.

    The quadratic search runs only if there is one: rings may have a million processes.
    """
    if len(set(processes)) == len(processes):
        return None
    return next(process for process in processes if processes.count(process) > 1)


def complete(processes: Iterable[ProcessId]) -> Topology:
    """Connect all processes to each other."""
    everybody = _listed(processes)
    return Topology(
        "complete", {me: tuple(other for other in everybody if other != me) for me in everybody}
    )


def ring(processes: Iterable[ProcessId]) -> Topology:
    """Make a ring: the neighbours of a process are its predecessor and its successor."""
    around = _listed(processes)
    size = len(around)
    neighbours = {
        me: tuple(dict.fromkeys((around[index - 1], around[(index + 1) % size])))
        for index, me in enumerate(around)
    }
    return Topology("ring", neighbours if size > 1 else {around[0]: ()})


def line(processes: Iterable[ProcessId]) -> Topology:
    """Make a line: the neighbours of a process stand before and after it."""
    along = _listed(processes)
    return Topology.of_edges("line", along, pairwise(along))


def star(processes: Iterable[ProcessId]) -> Topology:
    """Make a star: the first process is connected to all others, which have no other neighbour."""
    centre, *rays = _listed(processes)
    return Topology.of_edges("star", (centre, *rays), ((centre, ray) for ray in rays))


def grid(processes: Iterable[ProcessId]) -> Topology:
    """Make a grid that is as square as possible; the last row may be shorter."""
    cells = _listed(processes)
    width = max(1, round(len(cells) ** 0.5))
    sideways = ((cells[i], cells[i + 1]) for i in range(len(cells) - 1) if (i + 1) % width)
    downwards = ((cells[i], cells[i + width]) for i in range(len(cells) - width))
    return Topology.of_edges("grid", cells, (*sideways, *downwards))


def tree(processes: Iterable[ProcessId]) -> Topology:
    """Make a binary tree, filled level by level."""
    nodes = _listed(processes)
    return Topology.of_edges(
        "tree", nodes, ((nodes[(i - 1) // 2], nodes[i]) for i in range(1, len(nodes)))
    )


def random_connected(
    processes: Iterable[ProcessId], seed: int = 0, extra: int | None = None
) -> Topology:
    """Make a random tree with `extra` more edges; by default, as many as there are processes."""
    import random  # takes a while to load, and no other topology needs it

    draw = random.Random(seed)
    nodes = _listed(processes)
    size = len(nodes)
    edges = {(draw.randrange(i), i) for i in range(1, size)}
    wanted = min(len(edges) + (size if extra is None else extra), size * (size - 1) // 2)
    while len(edges) < wanted:
        one, other = sorted((draw.randrange(size), draw.randrange(size)))
        if one != other:
            edges.add((one, other))
    return Topology.of_edges(
        "random", nodes, ((nodes[one], nodes[other]) for one, other in sorted(edges))
    )


TOPOLOGIES: Mapping[str, Callable[[Iterable[ProcessId]], Topology]] = MappingProxyType(
    {
        "complete": complete,
        "ring": ring,
        "line": line,
        "star": star,
        "grid": grid,
        "tree": tree,
        "random": random_connected,
    }
)


@dataclass(frozen=True)
class System:
    """The processes of a run.

    plans: the plan of each process.
    topology: which processes are neighbours; it has the same processes.
    clients: the processes whose application makes requests.
    labels: names of processes for tables and pictures; the default is the number.
    """

    plans: Mapping[ProcessId, Process]
    topology: Topology
    clients: tuple[ProcessId, ...]
    labels: Mapping[ProcessId, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check_types()
        if set(self.plans) != set(self.topology.processes):
            raise MistakeInPlan("every process of the topology needs a plan, and only those")
        for client in self.clients:
            if client not in self.plans:
                raise MistakeInPlan(f"client {client} is not a process of the system")

    def _check_types(self) -> None:
        if not isinstance(self.topology, Topology):
            raise MistakeInPlan(
                f"the topology of a system is {shown(self.topology)}; make it with complete, ring,"
                " line, star, grid or tree, or Topology(name, neighbours)"
            )
        if not isinstance(self.plans, Mapping):
            raise MistakeInPlan(
                f"the plans of a system are {shown(self.plans)}; give a dict, as in {{1: cls()}}"
            )
        if not all(issubclass(kind, Process) for kind in set(map(type, self.plans.values()))):
            for process, plan in self.plans.items():
                if not isinstance(plan, Process):
                    raise MistakeInPlan(
                        f"the plan of process {process} is {shown(plan)}; a plan is made by a call"
                        " of the class, as in cls(**options)"
                    )
        if not isinstance(self.clients, tuple):
            raise MistakeInPlan(
                f"the clients of a system are {shown(self.clients)}; give a tuple of processes"
            )

    def label(self, process: ProcessId) -> str:
        """Return the name of a process for tables and pictures."""
        return self.labels.get(process, str(process))
