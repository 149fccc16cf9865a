"""Algorithms on graphs whose nodes are numbered from 0."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence


def strong_components(
    size: int, following: Callable[[int], Iterable[int]], starts: Iterable[int] | None = None
) -> Iterator[list[int]]:
    """Yield the strongly connected components of a graph by Tarjan's algorithm, iteratively.

    It needs a few bytes per node, so graphs of millions of nodes are possible.
    """
    order = array("q", [0]) * size  # from 1 on; 0: not reached
    low = array("q", [0]) * size
    on_stack = bytearray(size)
    stack: list[int] = []
    reached = 0
    for start in range(size) if starts is None else starts:
        if order[start]:
            continue
        reached += 1
        order[start] = low[start] = reached
        stack.append(start)
        on_stack[start] = 1
        work = [(start, iter(following(start)))]
        while work:
            node, left = work[-1]
            for target in left:
                if not order[target]:
                    reached += 1
                    order[target] = low[target] = reached
                    stack.append(target)
                    on_stack[target] = 1
                    work.append((target, iter(following(target))))
                    break
                if on_stack[target]:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    part = []
                    while True:
                        member = stack.pop()
                        on_stack[member] = 0
                        part.append(member)
                        if member == node:
                            break
                    yield part


def endless(
    size: int, following: Callable[[int], Sequence[int]], is_left: Callable[[int], bool]
) -> bytearray:
    """Mark the nodes from which a path need not leave: it can go on for ever, or end before.

    is_left: whether a path that reaches the node has left.
    """
    unsettled = array("q", [0]) * size  # successors from which a path need not leave
    many = array("q", [0]) * (size + 1)
    for node in range(size):
        targets = following(node)
        unsettled[node] = len(targets)
        for target in targets:
            many[target + 1] += 1
    for node in range(size):
        many[node + 1] += many[node]
    place = array("q", many)
    before = array("q", [0]) * many[size]
    for node in range(size):
        for target in following(node):
            before[place[target]] = node
            place[target] += 1
    marked = bytearray(b"\x01") * size
    queue = [node for node in range(size) if is_left(node)]
    for node in queue:
        marked[node] = 0
    while queue:
        node = queue.pop()
        for each in before[many[node] : many[node + 1]]:
            unsettled[each] -= 1
            if not unsettled[each] and marked[each]:
                marked[each] = 0
                queue.append(each)
    return marked


def walk(start: int, goals: Container[int], following: Mapping[int, Sequence[int]]) -> list[int]:
    """Return a shortest path from a node to a goal, without the node itself."""
    if start in goals:
        return []
    came: dict[int, int] = {start: start}
    queue = [start]
    for node in queue:
        for target in following[node]:
            if target not in came:
                came[target] = node
                if target in goals:
                    way = [target]
                    while came[way[-1]] != start:
                        way.append(came[way[-1]])
                    return way[::-1]
                queue.append(target)
    raise LookupError("a part of a graph that is not connected")


__all__ = ["endless", "strong_components", "walk"]
