"""`habemus print`: a client of the printer, in a group of clients."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from habemus.cli.commands.printer import (
    as_span,
    grpc_needed,
    host_option,
    insecure_option,
    language_option,
)
from habemus.cli.output import Exit, json_option, say_json
from habemus.core.process import Span

if TYPE_CHECKING:
    from habemus.printing.client import Printed, PrintingClient
    from habemus.printing.group import Group
    from habemus.runtimes.live.cluster_file import Address

LINE_LIMIT = 1 << 16
KEPT_JOBS = 10_000


@click.command(
    "print",
    epilog=(
        "Example: habemus print --id 1 --port 50052 --peers 2=127.0.0.1:50053,3=127.0.0.1:50054 'a"
        " page' 'another'"
    ),
)
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option(
    "--id",
    "number",
    metavar="ID",
    required=True,
    help="Number of this client; the smaller one wins a tie of timestamps.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    required=True,
    help="Port of this client, for its peers; 0 chooses a free one.",
)
@host_option
@click.option(
    "--peers", metavar="ID=HOST:PORT,...", required=True, help="All other clients of the group."
)
@click.option(
    "--without",
    metavar="ID,...",
    help="Leave these peers out of the group: they are down.  Refused if one of them answers.",
)
@click.option(
    "--printer",
    "printer_place",
    metavar="HOST:PORT",
    default="127.0.0.1:50051",
    show_default=True,
    help="Address of the printer.",
)
@click.option(
    "--every",
    callback=as_span,
    metavar="SECONDS",
    help="Print generated texts, with pauses of this length between them; example: 5..10.",
)
@click.option(
    "--jobs",
    "count",
    type=click.IntRange(1),
    metavar="N",
    help="With --every: print N texts.  [default: no limit]",
)
@click.option(
    "--leave",
    is_flag=True,
    help=(
        "Exit when all texts are printed.  The other clients need the reply of every peer, so their"
        " requests then block."
    ),
)
@click.option(
    "--give-up",
    callback=as_span,
    metavar="SECONDS",
    help="UNSAFE: after this time without an answer, count a peer as if it had replied.",
)
@click.option(
    "--notices",
    type=click.Choice(["yes", "no"]),
    default="yes",
    show_default=True,
    help=(
        "Call ReleaseAccess of the peers after a job.  Use `no` if a peer counts that call as a"
        " permission."
    ),
)
@click.option(
    "--record",
    type=click.Path(file_okay=False, path_type=Path),
    help="Record events in this folder, for `habemus trace merge`.",
)
@language_option
@insecure_option
@json_option
def print_(
    texts: tuple[str, ...],
    number: str,
    port: int,
    host: str,
    peers: str,
    without: str | None,
    printer_place: str,
    every: Span | None,
    count: int | None,
    leave: bool,
    give_up: Span | None,
    notices: str,
    record: Path | None,
    language: str,
    insecure: bool,
    as_json: bool,
) -> int:
    """Print each TEXT when all peers of the group have replied (Ricart and Agrawala).

    Without TEXT and --every: print each line of standard input.  A client that has printed
    everything keeps answering its peers, which need its replies, until Ctrl-C.
    """
    if texts and every is not None:
        raise click.UsageError("TEXT and --every exclude each other")
    if count is not None and every is None:
        raise click.UsageError("--jobs needs --every")
    if give_up is not None and not isinstance(give_up, int):
        raise click.UsageError("--give-up: a range is not allowed; give one number of seconds")
    with grpc_needed():
        from habemus.printing.group import BadGroup, Group, client_id, peers_of
        from habemus.printing.serving import address, check_exposure
        from habemus.runtimes.live.cluster_file import Address

        everybody = peers_of(peers)
        absent = {client_id(each) for each in without.split(",")} if without else set()
        for each in sorted(absent - everybody.keys()):
            raise BadGroup(
                f"--without {each}: unknown peer; --peers has"
                f" {', '.join(map(str, sorted(everybody)))}"
            )
        me, printer, listen = client_id(number), address(printer_place), Address(host, port)
        if listen in everybody.values() or listen == printer:
            raise BadGroup(
                f"{listen} is the address of this client (--host, --port); a peer or the"
                " printer has"
                " the same address"
            )
        check_exposure([listen, printer, *everybody.values()], insecure)
        present = {peer: place for peer, place in everybody.items() if peer not in absent}
        group = Group(me, present, give_up, notices=notices == "yes")
        Group(me, everybody)  # checks the ids of absent peers as well
    session = _Session(
        group, listen, printer, record, language, as_json, texts, every, count, leave
    )
    return asyncio.run(session.run({peer: everybody[peer] for peer in sorted(absent)}))


@dataclass
class _Session:
    """One run of a client."""

    group: Group
    listen: Address
    printer: Address
    record: Path | None
    language: str
    as_json: bool
    texts: tuple[str, ...]
    every: Span | None
    count: int | None
    leave: bool

    jobs: list[Printed] = field(default_factory=list)  # the first ones
    tried: int = 0
    done: int = 0
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def wanted(self) -> int:
        """Total number of jobs; if it is not known, the number of jobs tried so far."""
        return len(self.texts) or self.count or self.tried

    async def run(self, absent: dict[int, Address]) -> int:
        from habemus.printing.client import PrintingClient, is_up

        for peer, place in absent.items():
            if await is_up(place):
                raise click.ClickException(
                    f"--without {peer}: the peer answers at {place}, so it is not down; omit"
                    " --without"
                )
        client = PrintingClient(self.group, self.listen, self.printer, self.tell, self.record)
        if self.group.give_up_us is not None:
            self.tell("unsafe", seconds=f"{self.group.give_up_us / 1_000_000:g}")
        await client.start()
        loop = asyncio.get_running_loop()
        stopping, hurry = self.stopping, asyncio.Event()
        for signalled in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(
                signalled, lambda: (hurry if stopping.is_set() else stopping).set()
            )
        self.tell("listens", place=client.address, clients=self.group.ids)
        working = loop.create_task(self._work(client))
        try:
            await _first(working, stopping.wait())
            if stopping.is_set():
                # Finish the job in the printer first; a second signal skips that.
                while client.is_inside and not hurry.is_set():
                    await _first(client.finish(), hurry.wait())
                working.cancel()
                await asyncio.wait((working,))
            if not working.cancelled():
                working.result()
        finally:
            await client.stop()
        self.tell("left", done=self.done, all=self.wanted, clock=client.process.clock)
        if self.as_json:
            say_json(self._plain(client))
        return Exit.OK if self.done == self.wanted else Exit.FAILED

    def _plain(self, client: PrintingClient) -> dict[str, Any]:
        return {
            "client": self.group.me,
            "group": list(self.group.ids),
            "address": str(client.address),
            "wanted": self.wanted,
            "printed": self.done,
            "clock": client.process.clock,
            "gave_up": client.times_given_up,
            "jobs": [job._asdict() for job in self.jobs],
        }

    async def _work(self, client: PrintingClient) -> None:
        is_interactive = not self.texts and self.every is None
        async for text in self._lines(client) if is_interactive else self._given():
            if self.stopping.is_set():
                return
            job = await client.print(text)
            self.tried += 1
            self.done += job.success
            if len(self.jobs) < KEPT_JOBS:
                self.jobs.append(job)
            self.tell("printed" if job.success else "not-printed", text=text, said=job.said)
        if not (is_interactive or self.leave):
            self.tell("stays", done=self.done, all=self.wanted)
            await asyncio.Event().wait()

    async def _given(self) -> AsyncIterator[str]:
        from habemus.printing.words import say

        for text in self.texts:
            yield text
        if self.every is not None:
            number = 0
            while self.count is None or number < self.count:
                number += 1
                low, high = (self.every, self.every) if isinstance(self.every, int) else self.every
                await asyncio.sleep(random.randint(low, high) / 1_000_000)
                yield say(self.language, "text", number=number, me=self.group.me)

    async def _lines(self, client: PrintingClient) -> AsyncIterator[str]:
        if sys.stdin.isatty():
            self.tell("prompt")
        rest = b""
        while True:
            more = await _read()
            *lines, rest = (rest + more).split(b"\n") if more else (rest, b"")
            if len(rest) > LINE_LIMIT:
                raise click.ClickException(
                    f"a line of the input has more than {LINE_LIMIT} bytes; split it"
                )
            for line in lines:
                text = line.decode("utf-8", "replace").strip()
                if text:
                    yield text
                elif more:
                    client.say_state()
            if not more:
                return

    def tell(self, what: str, /, **fields: Any) -> None:
        from habemus.printing.words import on_one_line, say

        is_result = what in ("printed", "not-printed")
        click.echo(
            on_one_line(say(self.language, what, me=self.group.me, **fields)),
            err=self.as_json or not is_result,
        )


async def _first(*work: Coroutine[Any, Any, Any] | asyncio.Task[Any]) -> None:
    """Return when one of them is done; cancel the coroutines that were started here."""
    tasks = [
        each if isinstance(each, asyncio.Task) else asyncio.ensure_future(each) for each in work
    ]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task, given in zip(tasks, work, strict=True):
        if task is not given:
            task.cancel()


async def _read() -> bytes:
    """Read from standard input in a daemon thread, which does not delay the end of the program."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        more = os.read(0, LINE_LIMIT)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(lambda: None if found.done() else found.set_result(more))

    threading.Thread(target=read, daemon=True).start()
    return await found
