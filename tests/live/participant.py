"""One node of a cluster as an operating system process, with a client inside that does what it is
told on its standard input.

    participant.py CLUSTER.toml ID

Each line in is a JSON object, each line out another one:

    {"do": "visit", "on": ["locks", "x"], "rounds": 3}    enter so often, then answer {"done": ...}
    {"do": "ask", "on": [...], "request": "elect"}        make a request
    {"do": "open", "on": [...]}                           make the instance
    {"do": "hear", "on": [...]}                           report every indication as {"heard": ...}
    {"do": "note", "on": [...]}                           remember the indications there
    {"do": "noted"}                                       answer {"noted": ...}, see `noted`
    {"do": "state", "on": [...]}                          answer {"state": ...} of the local process
    {"do": "counts"}                                      answer the counters and the memory in kB
    {"do": "stop"}                                        end in good order
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from habemus.core.process import ProcessId
from habemus.core.shapes import plain_of
from habemus.core.values import Indication, to_plain
from habemus.deployment.services import all_services
from habemus.runtimes.live.config import load
from habemus.runtimes.live.hosting.node import Node

Noted = dict[str, tuple[float, list[Any]]]
"""By service: when the last indication came, and the processes that all of them named."""


def note(last: Noted, service: str, indication: Indication) -> None:
    before = last.get(service, (0.0, []))[1]
    last[service] = time.monotonic(), [*before, getattr(indication, "process", None)]


def noted(last: Noted) -> Noted:
    """Return how many seconds ago the last indication of each service came, and what they named."""
    now = time.monotonic()
    return {service: (now - when, named) for service, (when, named) in last.items()}


def say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def visit(node: Node, service: str, name: str, rounds: int) -> None:
    """Asks, stays inside for a moment, shows the token to the resource if there is one, and
    leaves.
    """
    heard: asyncio.Queue[Indication] = asyncio.Queue()

    def listen(process: ProcessId, indication: Indication) -> None:
        if process == node.me:
            heard.put_nowait(indication)

    leave = node.subscribe(service, name, listen)
    for _ in range(rounds):
        node.make_request(service, name, "acquire")
        granted = await heard.get()
        token = getattr(granted, "token", None)
        for _ in range(2):
            if token is not None:
                node.make_request(service, name, "write", *token)
            await asyncio.sleep(0.002)
        if heard.empty():  # else it has lost the lock in the meantime
            node.make_request(service, name, "release")
        else:
            heard.get_nowait()
    leave()
    say(done=[service, name])


def obey(node: Node, command: dict[str, Any], last: Noted) -> asyncio.Task[None] | None:
    service, name = command.get("on", ("", ""))
    match command["do"]:
        case "visit":
            return asyncio.get_running_loop().create_task(
                visit(node, service, name, command["rounds"])
            )
        case "ask":
            node.make_request(service, name, command["request"])
        case "open":
            node.open(service, name)
            say(done=[service, name])
        case "hear":
            node.subscribe(
                service,
                name,
                lambda process, each: say(
                    heard=type(each).__name__, process=process, fields=to_plain(each)
                ),
            )
        case "note":
            node.subscribe(service, name, lambda _, each: note(last, service, each))
            say(done=[service, name])
        case "noted":
            say(noted=noted(last))
        case "state":
            say(state=plain_of(node.open(service, name).processes[node.me].pure.capture()))
        case "counts":
            say(
                counts=dict(node.counts),
                kilobytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
                instances=len(node.instances()),
            )
    return None


async def main(file: str, number: int) -> None:
    config = load(Path(file), os.environ, {})
    node = Node(config.settings(number), all_services(config))
    await node.start()
    say(ready=node.me)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    tasks = []
    last: Noted = {}
    while line := await reader.readline():
        command = json.loads(line)
        if command["do"] == "stop":
            break
        tasks.append(obey(node, command, last))
    for task in tasks:
        if task is not None and task.done():
            task.result()  # what went wrong there is not lost
    node.hurry()  # all nodes stop: there is no successor to wait for
    await node.stop()
    say(stopped=node.me)


if __name__ == "__main__":
    try:
        import uvloop

        uvloop.run(main(sys.argv[1], int(sys.argv[2])))
    except ModuleNotFoundError:
        asyncio.run(main(sys.argv[1], int(sys.argv[2])))
