"""A torture whose members change: an operator adds, removes and replaces nodes by `habemus member`.

All nodes share one cluster.toml, which the operator's commands edit.  The addresses in it are those
of gates: a gate passes a connection on to its node, by the link from the process that has dialled.
So a cut between two nodes holds whatever members there are.

The schedule numbers the nodes from 1 to the number of members.  Each of these places has a node at
any time, which has another number after a swap.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from time import monotonic
from typing import Any

from habemus.torture.links import ProxyLink, SharedListener, owner_of
from habemus.torture.plan import Plan
from habemus.torture.processes import DidNotStart, NodeProcess, plain_environment, write_config
from habemus.torture.run import NOTICE_S, Progress, Torture
from habemus.torture.schedule import PlannedFault, Round, renumbered

CONFIG = "cluster.toml"
CHANGE_S = 60.0
"""Timeout of a change of the members; other faults of the round end long before."""
UNREACHABLE = 125
"""Exit code of a command that has reached no node: all may be down for a moment."""
LOOK_S = 0.1


class MembersTorture(Torture):
    spares = 2

    def __init__(self, plan: Plan, folder: Path, progress: Progress) -> None:
        super().__init__(plan, folder, progress)
        self._nodes = {
            number: NodeProcess(folder, number, CONFIG, "--bind", f"127.0.0.1:{port}")
            for number, port in self._ports.items()
        }
        self._node_at = {place: place for place in range(1, plan.nodes + 1)}
        self._gates: list[SharedListener] = []
        self._addresses: dict[int, str] = {}
        self._operator = asyncio.Lock()  # one change at a time

    async def _make_links(self) -> None:
        gates: dict[int, int] = {}
        for receiver, port in self._ports.items():
            for sender in self._ports:
                if sender != receiver:
                    self._links[sender, receiver] = ProxyLink(port)
            gate = SharedListener(self._dialled_link(receiver))
            self._gates.append(gate)
            gates[receiver] = await gate.listen()
        self._addresses = {number: f"127.0.0.1:{port}" for number, port in gates.items()}
        first = {number: gates[number] for number in self._node_at}
        write_config(self._folder / CONFIG, self._plan, first)

    def _dialled_link(self, receiver: int) -> Callable[[int], ProxyLink]:
        """Return the function that finds the link of a connection by the port it comes from."""
        direct = ProxyLink(self._ports[receiver])  # of the operator

        def link_of(port: int) -> ProxyLink:
            nodes = {number: each.pid for number, each in self._nodes.items() if each.is_up}
            clients = {-number: each.pid for number, each in self._clients.items() if each.is_up}
            sender = owner_of(port, nodes | clients)
            if sender is None:
                return direct
            links = self._links_of.get(-sender, {}).get(receiver)
            return self._links.get((sender, receiver), links or direct)

        return link_of

    async def _end(self) -> None:
        await super()._end()
        for gate in self._gates:
            gate.close()

    # Rounds.

    def _faults_of(self, drawn: Round) -> list[PlannedFault]:
        places = {number: place for place, number in self._node_at.items()}
        aimed = drawn.aimed(places.get(self._led_by or 0))
        return [renumbered(fault, self._node_at) for fault in aimed]

    def _is_member(self, node: NodeProcess) -> bool:
        return node.number in self._node_at.values()

    async def _restart(self, node: NodeProcess) -> None:
        if self._is_member(node):  # it may have been removed while it was down
            await super()._restart(node)

    # Changes.

    def _actions(self) -> dict[str, Callable[[PlannedFault], Coroutine[Any, Any, None]]]:
        return {
            **super()._actions(),
            "member-swap": self._swap,
            "member-replace": self._lose_and_replace,
        }

    async def _swap(self, fault: PlannedFault) -> None:
        """Add a new node, then remove another one."""
        async with self._operator:
            old = self._nodes[fault.member]
            free = [each for each in self._nodes if each not in self._node_at.values()]
            new = self._nodes[self._draw.choice(free)]
            number = self._began(fault, f"node {new.number} for node {old.number}")
            if await self._join(new) and await self._change("add", new):
                old.may_be_down = True
                if await self._change("remove", old):
                    place = next(at for at, each in self._node_at.items() if each == old.number)
                    self._node_at[place] = new.number
                    if old.is_up and not await old.ended(NOTICE_S):
                        self._failures.append(f"node {old.number} was removed and runs on")
                    await old.kill()
            self._note("ended", number)

    async def _lose_and_replace(self, fault: PlannedFault) -> None:
        [node] = self._victims(fault)
        number = self._began(fault)
        await node.kill()
        await self._wait(fault.lasts)
        await self._put_in_place(node)
        self._note("ended", number)

    async def _put_in_place(self, node: NodeProcess) -> None:
        async with self._operator:
            if self._is_member(node) and await self._join(node):
                await self._change("replace", node)

    async def _join(self, node: NodeProcess) -> bool:
        """Start a node with an empty memory, which waits to be added."""
        shutil.rmtree(node.memory.parent, ignore_errors=True)
        try:
            await node.start("--join")
        except DidNotStart as reason:
            self._give_up(str(reason))
            return False
        return True

    async def _change(self, word: str, node: NodeProcess) -> bool:
        """Run `habemus member`; return whether the members have changed."""
        address = [] if word == "remove" else [self._addresses[node.number]]
        command = ["habemus", "member", word, str(node.number), *address]
        deadline = monotonic() + CHANGE_S
        while True:
            left = f"{max(1.0, deadline - monotonic()):.1f}"
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *command, "--cluster", CONFIG, "--timeout", left),
                cwd=self._folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=plain_environment(),
            )
            said, _ = await process.communicate()
            if process.returncode != UNREACHABLE or monotonic() > deadline:
                break
            await asyncio.sleep(LOOK_S)
        self._note("changed", word, node.number, process.returncode)
        if process.returncode:
            self._give_up(f"{' '.join(command)}: {said.decode(errors='replace').strip()}")
        return process.returncode == 0
