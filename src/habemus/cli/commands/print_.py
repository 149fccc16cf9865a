"""`habemus print`: a client of the printer, in a group of them."""

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
    from habemus.printing.client import Client, Printed
    from habemus.printing.group import Group
    from habemus.runtimes.live.sockets import Address

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
    help="Of this client; smaller goes first among equal stamps.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    required=True,
    help="Where the others reach this client.",
)
@host_option
@click.option("--peers", metavar="ID=HOST:PORT,...", required=True, help="All others of the group.")
@click.option(
    "--without",
    metavar="ID,...",
    help="Peers that are down and not in the group this time; refused if one of them answers.",
)
@click.option(
    "--printer",
    "printer_place",
    metavar="HOST:PORT",
    default="127.0.0.1:50051",
    show_default=True,
    help="Where the printer is.",
)
@click.option(
    "--every",
    callback=as_span,
    metavar="SECONDS",
    help="Print texts of its own, with such pauses between them; as in 5..10.",
)
@click.option(
    "--jobs",
    "count",
    type=click.IntRange(1),
    metavar="N",
    help="How many texts, with --every; else without end.",
)
@click.option(
    "--leave",
    is_flag=True,
    help=(
        "Leave when all is printed. The others, which need everybody's reply, then wait for it in"
        " vain."
    ),
)
@click.option(
    "--give-up",
    callback=as_span,
    metavar="SECONDS",
    help="UNSAFE: count a peer that is silent for so long as a reply.",
)
@click.option(
    "--notices",
    type=click.Choice(["yes", "no"]),
    default="yes",
    show_default=True,
    help=(
        "Whether to call ReleaseAccess of the others after a job; no, if one of them counts that as"
        " a permission."
    ),
)
@click.option(
    "--record",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder in which to write down what happens.",
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
    """Print texts, one at a time, when all others of the group agree (Ricart and Agrawala).

    Without TEXT and without --every it reads lines and prints each.  A client that has printed
    everything stays and answers the others until it is told to end (Ctrl-C), because they need its
    reply.
    """
    if texts and every is not None:
        raise click.UsageError("give texts or --every, not both")
    if count is not None and every is None:
        raise click.UsageError("--jobs is for --every")
    if give_up is not None and not isinstance(give_up, int):
        raise click.UsageError("--give-up is one number of seconds, not a range")
    with grpc_needed():
        from habemus.printing.group import BadGroup, Group, client_id, peers_of
        from habemus.printing.serving import address, check_exposure
        from habemus.runtimes.live.sockets import Address

        everybody = peers_of(peers)
        absent = {client_id(each) for each in without.split(",")} if without else set()
        for each in sorted(absent - everybody.keys()):
            raise BadGroup(
                f"--without {each}: there is no such peer; there are"
                f" {', '.join(map(str, sorted(everybody)))}"
            )
        me, printer, listen = client_id(number), address(printer_place), Address(host, port)
        if listen in everybody.values() or listen == printer:
            raise BadGroup(
                f"{listen} is where this client listens, and cannot be a peer's or the printer's"
                " address as well"
            )
        check_exposure([listen, printer, *everybody.values()], insecure)
        present = {peer: place for peer, place in everybody.items() if peer not in absent}
        group = Group(me, present, give_up, notices=notices == "yes")
        Group(me, everybody)  # the absent ones, too, must be other clients than this one
    session = _Session(
        group, listen, printer, record, language, as_json, texts, every, count, leave
    )
    return asyncio.run(session.run({peer: everybody[peer] for peer in sorted(absent)}))


@dataclass
class _Session:
    """One life of a client."""

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
    told: asyncio.Event = field(default_factory=asyncio.Event)  # to end

    @property
    def wanted(self) -> int:
        """How many jobs there are in all; where nobody can say, as many as there have been."""
        return len(self.texts) or self.count or self.tried

    async def run(self, absent: dict[int, Address]) -> int:
        from habemus.printing.client import Client, is_up

        for peer, place in absent.items():
            if await is_up(place):
                raise click.ClickException(
                    f"--without {peer}: it answers at {place}, so it is in the group"
                )
        client = Client(self.group, self.listen, self.printer, self.tell, self.record)
        if self.group.give_up_us is not None:
            self.tell("unsafe", seconds=f"{self.group.give_up_us / 1_000_000:g}")
        await client.start()
        loop = asyncio.get_running_loop()
        told, hurry = self.told, asyncio.Event()
        for signalled in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signalled, lambda: (hurry if told.is_set() else told).set())
        self.tell("listens", place=client.address, clients=self.group.ids)
        working = loop.create_task(self._work(client))
        try:
            await _first(working, told.wait())
            if told.is_set():
                while (
                    client.is_inside and not hurry.is_set()
                ):  # nobody leaves while his paper is in the printer, unless told twice
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
        return Exit.AS_WANTED if self.done == self.wanted else Exit.NOT_AS_WANTED

    def _plain(self, client: Client) -> dict[str, Any]:
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

    async def _work(self, client: Client) -> None:
        is_interactive = not self.texts and self.every is None
        async for text in self._lines(client) if is_interactive else self._given():
            if self.told.is_set():
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

    async def _lines(self, client: Client) -> AsyncIterator[str]:
        if sys.stdin.isatty():
            self.tell("prompt")
        rest = b""
        while True:
            more = await _read()
            *lines, rest = (rest + more).split(b"\n") if more else (rest, b"")
            if len(rest) > LINE_LIMIT:
                raise click.ClickException(f"a line of more than {LINE_LIMIT} bytes")
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
    """Returns when one of them is done; those that were begun here are ended."""
    tasks = [
        each if isinstance(each, asyncio.Task) else asyncio.ensure_future(each) for each in work
    ]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task, given in zip(tasks, work, strict=True):
        if task is not given:
            task.cancel()


async def _read() -> bytes:
    """What comes next from standard input, in a thread that nobody has to wait for when the program
    ends.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        more = os.read(0, LINE_LIMIT)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(lambda: None if found.done() else found.set_result(more))

    threading.Thread(target=read, daemon=True).start()
    return await found
