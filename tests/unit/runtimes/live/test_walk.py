"""The walk of one lock request, as ARCHITECTURE.md describes it, is the one that it takes."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from types import FrameType

import pytest
from tests import virtual
from tests.unit.runtimes.live.clients.test_connections import connected
from tests.unit.runtimes.live.conftest import Made, until

import habemus
from habemus.runtimes.compiled import is_compiled
from habemus.runtimes.live.hosting.node import Node

SOURCE = Path(habemus.__file__).parent
PAGE = Path(__file__).parents[4] / "ARCHITECTURE.md"
HOP = re.compile(r"\| \d+ \| `([\w/.]+)` \| `(\w+)` \|")
FILES = 12
HELPERS = frozenset(
    (
        *("core/process.py", "core/quorums.py", "core/shapes.py", "core/stable.py"),
        *("core/system.py", "core/values.py"),
        *(f"runtimes/live/hosting/{name}.py" for name in ("idle", "instance", "service")),
        *(f"runtimes/live/hosting/{name}.py" for name in ("slices", "timers", "turn")),
        *(f"runtimes/live/storage/{name}.py" for name in ("batches", "commit", "log", "recent")),
        *(f"runtimes/live/clients/{name}.py" for name in ("tickets", "watchers", "window")),
        "algorithms/election/terms.py",  # a heartbeat meanwhile
    )
)
"""Files that are called on the way and return, and see neither request nor grant."""


def leader_at(node: Node) -> int | None:
    return next((leader for _, _, leader, _ in node.leaders()), None)


@pytest.mark.skipif(is_compiled(), reason="compiled functions are not profiled")
def test_a_request_takes_the_hops_of_the_page(cluster: Made) -> None:
    called: defaultdict[str, set[str]] = defaultdict(set)

    def profile(frame: FrameType, event: str, _: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(SOURCE):
            called[str(file.relative_to(SOURCE))].add(frame.f_code.co_name)

    async def main() -> None:
        async with cluster({"locks": "elected-coordinator-leased"}) as made:
            nodes: dict[int, Node] = made.nodes
            await until(lambda: all(map(leader_at, nodes.values())))
            leader = leader_at(nodes[1])
            connection, transport = connected(nodes[1 if leader != 1 else 2])
            sys.setprofile(profile)
            try:
                connection.data_received(b'["request",1,"locks",["printer"],null,100,1]\n')
                await until(lambda: transport.lines)
            finally:
                sys.setprofile(None)
            assert transport.lines[0][:2] == ["granted", 1]

    virtual.run(main())
    hops = HOP.findall(PAGE.read_text(encoding="utf-8"))
    assert len({file for file, _ in hops}) == FILES
    assert sorted(set(called) - {file for file, _ in hops} - HELPERS) == []
    for file, name in hops:
        is_class = f"class {name}(" in (SOURCE / file).read_text(encoding="utf-8")
        assert is_class or name in called[file], f"{file}: {name}"
