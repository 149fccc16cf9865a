"""A process that makes nodes for tests: it has imported what a node needs, and forks.

A line of its input is a JSON array: the path of a cluster.toml, the number of a node, and the file
of its log.  It answers with the id of the process.  All nodes end with the input.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from habemus.deployment.services import all_services
from habemus.runtimes.live.config import load
from habemus.runtimes.live.hosting.node import Node


def _runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


async def _serve(file: str, number: int) -> None:
    """Run a node until it gets SIGTERM."""
    config = load(Path(file), {}, {})
    node = Node(config.settings(number), all_services(config))
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await node.start()
    await stopping.wait()
    await node.stop()


def _be_node(file: str, number: int, log: str) -> None:
    """Become a node, in the child of a fork."""
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = 1
    try:
        _runner()(_serve(file, number))
        code = 0
    except BaseException as reason:
        os.write(2, f"{type(reason).__name__}: {reason}\n".encode())
    finally:
        os._exit(code)


def main() -> None:
    """Make nodes until the input ends, then end them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal; the tests end the nodes
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system buries the dead
    made: list[int] = []
    for line in iter(sys.stdin.readline, ""):
        file, number, log = json.loads(line)
        with suppress(Exception):  # for the imports; the node itself reports what is wrong
            all_services(load(Path(file), {}, {}))
        child = os.fork()
        if child == 0:
            _be_node(file, number, log)
        made.append(child)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
    for child in made:
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main()
