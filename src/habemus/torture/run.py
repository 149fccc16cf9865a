"""Execute a torture plan: start the processes, inject and heal the faults, judge the history."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from time import monotonic_ns
from typing import Any

from habemus.core.properties import Finding, Verdict
from habemus.runtimes.live.clients.protocol import WIRE_VERSION
from habemus.torture.damage import damage
from habemus.torture.history import LEADING, History, history_of
from habemus.torture.judge import NS, PATIENCE_S, Judgement, judge
from habemus.torture.links import ProxyLink
from habemus.torture.page import page_of
from habemus.torture.plan import Plan
from habemus.torture.processes import (
    ClientProcess,
    DidNotStart,
    NodeProcess,
    RefereeProcess,
    cluster_address,
    free_ports,
    write_config,
)
from habemus.torture.resources import (
    LONG_LIFE_S,
    RECORD,
    judge_resources,
    sample_of,
    samples_in,
)
from habemus.torture.schedule import (
    CURRENT_HOLDER,
    DAMAGE_KINDS,
    MEMBER_KINDS,
    NETWORK_KINDS,
    POWER_KINDS,
    PlannedFault,
    Round,
    is_by_network,
    rounds,
)

LOOK_S = 0.02
"""Seconds between two looks at the records of the clients."""
LOOKS = 50
"""Most looks for a holder that a fault can hit."""
FIRST_CALM_S = 1.0
"""Calm time before the first round."""
TICK_S = 0.05
STALL_S = 0.1
"""A tick that is later than this is a stall of the machine."""
STAGGER_S = 0.3
"""Time in which nodes that were killed together are restarted."""
LAG_S = (0.001, 0.15)
BREAKS_S = (0.02, 0.3)
"""Time between two breaks of a dropping link."""
STATUS_S = 0.5
"""Timeout of asking a node for the leader."""
STOPS_S = 30.0
"""Time in which a node that was stopped ends."""
NOTICE_S = 10.0
"""Time in which a node with the wrong memory is refused by the others."""
TORN_BYTES = 40
"""Most bytes that fit on a disk that is about to be full."""
STORES_S = 5.0
"""How long a disk stays full at least, until its node stores something."""
INSIDE = ("granted", "read", "write", "wrote")
TAIL_BYTES = 2_000
JOURNAL = "faults.jsonl"
PAGE = "report.html"
SAMPLE_S = 1.0
"""Time between two samples of the resources of the nodes."""
MOST_SAMPLES = 2_000

Progress = Callable[[float, str], None]


@dataclass
class TortureReport:
    plan: Plan
    judgement: Judgement
    folder: Path
    failures: list[str] = field(default_factory=list)  # processes that failed by themselves
    resources: list[Finding] = field(default_factory=list)  # of long tortures

    @property
    def findings(self) -> list[Finding]:
        return [*self.judgement.findings, *self.resources]

    @property
    def verdict(self) -> Verdict:
        if self.failures or Verdict.VIOLATED in (each.verdict for each in self.resources):
            return Verdict.VIOLATED
        return self.judgement.verdict

    def plain(self) -> dict[str, Any]:
        plain = {**self.plan.plain(), **self.judgement.plain()}
        return {
            **plain,
            "verdict": self.verdict.value,
            "resources": {each.name: each.verdict.value for each in self.resources},
            "resources_why": {each.name: each.why for each in self.resources},
            "failures": self.failures,
            "folder": str(self.folder),
        }


def perform(plan: Plan, folder: Path, progress: Progress = lambda *_: None) -> TortureReport:
    """Run a torture to its end, or until SIGINT or SIGTERM.  The folder gets the records and
    `report.json` and `report.html`.
    """
    kind = Torture
    if plan.engine:
        from habemus.torture.engines import EngineTorture

        kind = EngineTorture
    elif not set(MEMBER_KINDS).isdisjoint(plan.kinds):
        from habemus.torture.members import MembersTorture

        kind = MembersTorture
    try:
        import uvloop
    except ModuleNotFoundError:
        history, failures = asyncio.run(kind(plan, folder, progress).run())
    else:
        history, failures = uvloop.run(kind(plan, folder, progress).run())
    samples = samples_in(folder)
    is_long = plan.seconds >= LONG_LIFE_S
    watched = judge_resources(samples) if is_long and not plan.engine else []
    report = TortureReport(plan, judge(history, plan.claim), folder, failures, watched)
    times = [stay.answered for stay in history.grants if stay.answered is not None]
    (folder / PAGE).write_text(page_of(report, samples, history.faults, times), encoding="utf-8")
    (folder / "report.json").write_text(
        json.dumps(report.plain(), indent=2) + "\n", encoding="utf-8"
    )
    return report


class Torture:
    spares = 0
    """Nodes that do not run in the beginning."""

    def __init__(self, plan: Plan, folder: Path, progress: Progress) -> None:
        self._plan = plan
        self._folder = folder
        self._progress = progress
        self._draw = Random(f"{plan.seed}/run")
        self._ports = dict(enumerate(free_ports(plan.nodes + self.spares), 1))
        self._links: dict[tuple[int, int], ProxyLink] = {}
        self._links_of: dict[
            int, dict[int, ProxyLink]
        ] = {}  # of each client to each node, in both directions
        self._clusters: dict[int, str] = {}  # where each client looks for nodes
        self._nodes = {number: NodeProcess(folder, number) for number in self._ports}
        self._clients: dict[int, ClientProcess] = {}
        self._referee = RefereeProcess(folder, is_fenced=plan.claim.is_fenced)
        self._journal = -1
        self._over = asyncio.Event()
        self._faults = 0
        self._failures: list[str] = []
        self._is_hasty = False  # end without waiting
        self._led_by: int | None = None  # the leader when the round began, if it was asked for
        self._hit: set[int] = set()  # clients to which something is being done

    async def run(self) -> tuple[History, list[str]]:
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            self._journal = os.open(
                self._folder / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
            )
            stack.callback(os.close, self._journal)
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._hear_signal)
                stack.callback(loop.remove_signal_handler, number)
            try:
                await self._begin()
                began = monotonic_ns()
                await self._execute_rounds()
                ended = monotonic_ns()
            finally:
                await self._end()
        self._look_at_logs()
        return history_in(self._folder, began, ended), self._failures

    def _hear_signal(self) -> None:
        """End the faults; a second signal also ends the wait for a grant."""
        self._is_hasty = self._over.is_set()
        self._over.set()

    # Beginning and end.

    async def _begin(self) -> None:
        (self._folder / "data").mkdir()
        await self._make_links()
        await self._referee.start()
        first = range(1, self._plan.nodes + 1)
        await _all(self._nodes[number].start() for number in first)
        for number in range(1, self._plan.clients + 1):
            ports = {}
            if is_by_network(number):
                links = self._links_of[number] = {
                    node: ProxyLink(port) for node, port in self._ports.items()
                }
                ports = {node: await link.listen() for node, link in links.items()}
            self._clusters[number] = cluster_address(self._folder, list(self._ports), number, ports)
            await self._start_client(number, 1)

    async def _make_links(self) -> None:
        """Make a link for each pair of nodes, and write their files."""
        for sender in self._nodes:
            ports = {sender: self._ports[sender]}
            for receiver in self._nodes:
                if receiver != sender:
                    link = self._links[sender, receiver] = ProxyLink(self._ports[receiver])
                    ports[receiver] = await link.listen()
            write_config(self._folder / f"node-{sender}.toml", self._plan, ports)

    async def _start_client(self, number: int, life: int) -> None:
        client = ClientProcess(self._folder, self._plan, number, life, self._clusters[number])
        await client.start()
        self._clients[number] = client

    async def _end(self) -> None:
        """Kill the clients first, so that they do not record the end of the nodes."""
        for client in self._clients.values():
            await client.kill()
        for process in (self._referee, *self._nodes.values()):
            await process.kill()
        for link in chain(
            self._links.values(), *(links.values() for links in self._links_of.values())
        ):
            link.close()

    def _note(self, *line: object) -> int:
        time = monotonic_ns()
        os.write(self._journal, json.dumps([time, *line]).encode() + b"\n")
        return time

    def _look_at_logs(self) -> None:
        for log in sorted(self._folder.glob("*.log")):
            if "Traceback" in log.read_text(encoding="utf-8", errors="replace"):
                self._failures.append(f"{log.name} has a traceback")

    # Rounds.

    async def _execute_rounds(self) -> None:
        began = monotonic_ns()
        end = began + round(self._plan.seconds * NS)
        tasks = [
            asyncio.create_task(work)
            for work in (self._watch(began), self._note_stalls(), self._watch_resources())
        ]
        timer = asyncio.get_running_loop().call_later(self._plan.seconds, self._over.set)
        try:
            await self._until_let_in(monotonic_ns())  # no fault before the first grant
            await self._wait(FIRST_CALM_S)
            for drawn in rounds(self._plan.size, self._plan.seed):
                if self._over.is_set() or monotonic_ns() >= end:
                    break
                before = self._faults
                self._led_by = await self._leader() if drawn.leader else None
                await _all(self._make(fault) for fault in self._faults_of(drawn))
                if self._faults > before:
                    await self._until_let_in(self._note("healed"))
                await self._wait(drawn.calm_s)
        finally:
            timer.cancel()
            for task in tasks:
                task.cancel()

    def _faults_of(self, drawn: Round) -> list[PlannedFault]:
        """Return the faults of a round, aimed at the nodes that there are now."""
        return drawn.aimed(self._led_by)

    async def _wait(self, seconds: float) -> None:
        """Wait for a time, at most until the end of the torture."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)

    async def _until_let_in(self, since: int) -> None:
        while monotonic_ns() - since < PATIENCE_S * NS and not self._is_hasty:
            if any(
                what == "granted" and time > since
                for client in self._clients.values()
                for time, what, *_ in _last_lines(client.record)
            ):
                break
            await asyncio.sleep(LOOK_S)

    async def _leader(self) -> int | None:
        """Return the leader, if the algorithm has one."""
        for node in self._nodes:
            with suppress(OSError, TimeoutError, ValueError, LookupError):
                async with asyncio.timeout(STATUS_S):
                    return await _leader_by(f"{self._folder}/node-{node}.sock")
        return None

    async def _watch(self, began: int) -> None:
        """Report progress, and processes that have ended by themselves."""
        while True:
            await asyncio.sleep(0.5)
            for client in self._clients.values():
                if not client.is_up and not client.may_be_down:
                    client.may_be_down = True
                    self._give_up(
                        f"client {client.name} ended by itself with code {client.code}:"
                        f" {client.last_words()}"
                    )
            for node in self._nodes.values():
                if not node.is_up and not node.may_be_down:
                    node.may_be_down = True
                    self._failures.append(
                        f"node {node.number} ended by itself with code {node.code}:"
                        f" {node.last_words()}"
                    )
                    await self._restart(node)
            self._progress((monotonic_ns() - began) / NS, f"{self._faults} faults")

    async def _watch_resources(self) -> None:
        """Record memory, descriptors and disk of the nodes; not of the servers of an engine."""
        pause = max(SAMPLE_S, self._plan.seconds / MOST_SAMPLES)
        with (self._folder / RECORD).open("a", encoding="utf-8", buffering=1) as file:
            while True:
                await asyncio.sleep(pause)
                for node in [] if self._plan.engine else self._nodes.values():
                    found = node.is_up and sample_of(
                        monotonic_ns(), node.number, node.pid, node.memory.parent
                    )
                    if found:
                        file.write(json.dumps(found) + "\n")

    async def _note_stalls(self) -> None:
        """Record stalls of the machine, which excuse overlaps."""
        before = monotonic_ns()
        while True:
            await asyncio.sleep(TICK_S)
            now = monotonic_ns()
            if now - before > (TICK_S + STALL_S) * NS:
                self._note("stalled", before)
            before = now

    async def _restart(self, node: NodeProcess) -> None:
        try:
            await node.start()
        except DidNotStart as reason:
            self._give_up(str(reason))

    def _give_up(self, why: str) -> None:
        """End the torture: its environment has failed, so further results would mean nothing."""
        self._failures.append(why)
        self._is_hasty = True
        self._over.set()

    # Faults.

    async def _make(self, fault: PlannedFault) -> None:
        await self._wait(fault.after)
        if self._over.is_set():
            return
        await self._actions()[fault.kind](fault)

    def _actions(self) -> dict[str, Callable[[PlannedFault], Coroutine[Any, Any, None]]]:
        """Return the method that makes each kind of fault."""
        return {
            "kill-node": self._kill_nodes,
            "stop-node": self._stop_node,
            "kill-majority": self._kill_nodes,
            "kill-all": self._kill_nodes,
            **dict.fromkeys(POWER_KINDS, self._kill_nodes),
            "pause-node": self._pause_node,
            "disk-full": self._fill_disk,
            **dict.fromkeys(DAMAGE_KINDS, self._damage_disk),
            "kill-client": self._kill_client,
            "pause-client": self._pause_client,
            "cut": self._cut,
            "cut-one-way": self._cut,
            "cut-client": self._cut_client,
            "close-client": self._close_client,
            "delay": self._delay,
            "drop": self._drop,
        }

    def _began(self, fault: PlannedFault, whom: str = "", client: str = "") -> int:
        self._faults += 1
        whom = whom or (f"client {client}" if client else fault.whom)
        if fault.nodes == (self._led_by,):
            whom += LEADING
        self._note("began", fault.kind, whom, self._faults, client)
        return self._faults

    def _victims(self, fault: PlannedFault) -> list[NodeProcess]:
        return [self._nodes[node] for node in fault.nodes]

    async def _kill_nodes(self, fault: PlannedFault) -> None:
        nodes = self._victims(fault)
        delays = [self._draw.uniform(0, STAGGER_S) if len(nodes) > 1 else 0.0 for _ in nodes]
        number = self._began(fault)
        await _all(node.kill() for node in nodes)
        if fault.kind in POWER_KINDS:
            for node in nodes:
                node.lose_unsynced()
        await self._wait(fault.lasts)
        await _all(
            self._restart_later(node, delay) for node, delay in zip(nodes, delays, strict=True)
        )
        self._note("ended", number)

    async def _stop_node(self, fault: PlannedFault) -> None:
        """Stop a node as an operator does."""
        [node] = self._victims(fault)
        number = self._began(fault)
        node.may_be_down = True
        node.signal(signal.SIGTERM)
        if not await node.ended(STOPS_S):
            self._failures.append(f"node {node.number} did not end in {STOPS_S:g} s after SIGTERM")
            await node.kill()
        elif node.code:
            self._failures.append(
                f"node {node.number} ended with code {node.code} after SIGTERM: {node.last_words()}"
            )
        await self._wait(fault.lasts)
        await self._restart(node)
        self._note("ended", number)

    async def _restart_later(self, node: NodeProcess, seconds: float) -> None:
        await self._wait(seconds)
        await self._restart(node)

    async def _pause_node(self, fault: PlannedFault) -> None:
        [node] = self._victims(fault)
        number = self._began(fault)
        node.signal(signal.SIGSTOP)
        await self._wait(fault.lasts)
        node.signal(signal.SIGCONT)
        self._note("ended", number)

    async def _fill_disk(self, fault: PlannedFault) -> None:
        """Limit the disk of a node.  The fault counts only if the node stopped."""
        [node] = self._victims(fault)
        node.may_be_down = True
        within = max(fault.lasts + 1, STORES_S)
        if await node.ends_by_full_disk(self._draw.randrange(TORN_BYTES), within):
            number = self._began(fault)
            await self._wait(fault.lasts)
            await self._restart(node)
            self._note("ended", number)
        else:
            node.may_be_down = False

    async def _damage_disk(self, fault: PlannedFault) -> None:
        [node] = self._victims(fault)
        number = self._began(fault)
        await node.kill()
        what = damage(fault.kind, node.memory.parent, self._draw)
        self._note("damaged", node.number, what)
        await self._wait(fault.lasts)
        await self._replace(node, what)
        self._note("ended", number)

    async def _replace(self, node: NodeProcess, what: str) -> None:
        """Replace a node as an operator does: after it refused its memory, or was refused."""
        with suppress(DidNotStart):
            await node.start(may_end=True)
            if not await node.ended(NOTICE_S):
                self._failures.append(f"node {node.number} ran with a damaged memory: {what}")
        await node.kill()
        try:
            await self._put_in_place(node)
        except DidNotStart as reason:
            self._give_up(str(reason))

    async def _put_in_place(self, node: NodeProcess) -> None:
        """Start a node that has lost its memory."""
        if not await node.replace():
            self._give_up(
                f"node {node.number} was replaced but did not take part: {node.last_words()}"
            )

    async def _victim(self, fault: PlannedFault) -> ClientProcess | None:
        """Return the client that holds the lock, if there is one soon and no fault has hit it."""
        if fault.client != CURRENT_HOLDER:
            return None if fault.client in self._hit else self._clients[fault.client]
        for _ in range(LOOKS):
            for number, client in self._clients.items():
                can_be_hit = number not in self._hit and (
                    fault.kind not in NETWORK_KINDS or is_by_network(number)
                )
                last = _last_lines(client.record) if can_be_hit else []
                if last and last[-1][1] in INSIDE:
                    return client
            await asyncio.sleep(LOOK_S)
        return None

    async def _kill_client(self, fault: PlannedFault) -> None:
        client = await self._victim(fault)
        if client is None:
            return
        self._hit.add(client.number)
        number = self._began(fault, client=client.name)
        self._note("killed", client.name)
        await client.kill()
        await self._start_client(client.number, client.life + 1)
        self._hit.discard(client.number)
        self._note("ended", number)

    async def _pause_client(self, fault: PlannedFault) -> None:
        client = await self._victim(fault)
        if client is None:
            return
        self._hit.add(client.number)
        number = self._began(fault, client=client.name)
        client.signal(signal.SIGSTOP)
        await self._wait(fault.lasts)
        client.signal(signal.SIGCONT)
        self._hit.discard(client.number)
        self._note("ended", number)

    async def _cut_client(self, fault: PlannedFault) -> None:
        client = await self._victim(fault)
        if client is None:
            return
        self._hit.add(client.number)
        links = list(self._links_of[client.number].values())
        await self._cut_off(fault, links, client.name)
        self._hit.discard(client.number)

    async def _close_client(self, fault: PlannedFault) -> None:
        """Close the connections of a client at both ends, or at its nodes only."""
        client = await self._victim(fault)
        if client is None:
            return
        self._hit.add(client.number)
        links = [each for each in self._links_of[client.number].values() if each.connections]
        number = self._began(fault, f"client {client.name}{_how(fault)}", client.name)
        for link in links:
            (link.hang_up if fault.is_silent else link.break_off)()
        if fault.is_silent:
            await self._wait(fault.lasts)
            for link in links:
                link.let_go()
        self._hit.discard(client.number)
        self._note("ended", number)

    async def _cut(self, fault: PlannedFault) -> None:
        await self._cut_off(fault, [self._links[each] for each in fault.links])

    async def _cut_off(
        self, fault: PlannedFault, links: Sequence[ProxyLink], client: str = ""
    ) -> None:
        whom = f"client {client}" if client else fault.whom
        number = self._began(fault, f"{whom}{_how(fault)}", client)
        for link in links:
            (link.hold if fault.is_silent else link.refuse)()
        await self._wait(fault.lasts)
        for link in links:
            (link.let_go if fault.is_silent else link.accept)()
        self._note("ended", number)

    async def _delay(self, fault: PlannedFault) -> None:
        links = [self._links[each] for each in fault.links]
        number = self._began(fault)
        for link in links:
            link.lag_s = lambda: self._draw.uniform(*LAG_S)
        await self._wait(fault.lasts)
        for link in links:
            link.lag_s = None
        self._note("ended", number)

    async def _drop(self, fault: PlannedFault) -> None:
        links = [self._links[each] for each in fault.links]
        number = self._began(fault)
        end = monotonic_ns() + round(fault.lasts * NS)
        while monotonic_ns() < end and not self._over.is_set():
            for link in links:
                link.break_off()
            await self._wait(self._draw.uniform(*BREAKS_S))
        self._note("ended", number)


def history_in(folder: Path, began: int, ended: int) -> History:
    """Return the history recorded so far in the folder of a torture."""

    def text_of(path: Path) -> str:
        return path.read_text(encoding="utf-8") if path.exists() else ""

    clients = {
        path.stem.removeprefix("client-"): text_of(path)
        for path in sorted(folder.glob("client-*.jsonl"))
    }
    return history_of(
        began, ended, clients, text_of(folder / "referee.jsonl"), text_of(folder / JOURNAL)
    )


def _how(fault: PlannedFault) -> str:
    return ", silent" if fault.is_silent else ""


async def _leader_by(path: str) -> int | None:
    reader, writer = await asyncio.open_unix_connection(
        path if len(path) < 100 else os.path.relpath(path), limit=1 << 20
    )
    try:
        writer.write(
            json.dumps(["hello", WIRE_VERSION, "torture"]).encode()
            + b"\n"
            + json.dumps(["status", 1]).encode()
            + b"\n"
        )
        await reader.readline()
        status: dict[str, Any] = json.loads(await reader.readline())[2]
    finally:
        writer.close()
    return next(
        (int(each["leader"]) for each in status["leaders"] if each["leader"] is not None), None
    )


async def _all(parts: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait for all of them, even if one fails, so that none starts a process later."""
    for each in await asyncio.gather(*parts, return_exceptions=True):
        if isinstance(each, BaseException):
            raise each


def _last_lines(path: Path) -> list[list[Any]]:
    """Return the last events of a client's record."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            start = max(0, file.tell() - TAIL_BYTES)
            file.seek(start)
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return []
    return [json.loads(line) for line in (lines[1:] if start else lines)]


__all__ = ["DidNotStart", "TortureReport", "history_in", "perform"]
