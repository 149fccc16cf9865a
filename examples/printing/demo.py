"""The printing system, twice: `python examples/printing/demo.py FOLDER`.

1. Three clients agree over gRPC who prints next, by Ricart and Agrawala, on the protocol of the
   lecture notes.
2. Five workers share the same printer under the default lock, while their leader is killed and a
   holder is paused (`workers.py`).

What the processes did is recorded, merged, judged, drawn into FOLDER, and replayed.  The exit code
is 1 if anything is not as promised.
"""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

import habemus

HERE = Path(os.path.relpath(Path(__file__).parent))
WIDTH = 96
CLIENTS = {1: ("a letter", "an envelope"), 2: ("a poster", "a ticket"), 3: ("a map", "a legend")}
PAGES_OF_WORKERS = 7


running: list[subprocess.Popen[str]] = []


def say(text: str = "", indent: str = "") -> None:
    print(textwrap.fill(text, WIDTH, subsequent_indent=indent), flush=True)


def say_command(command: str) -> None:
    """Show a command as a shell takes it, an option and its value on the same line."""
    glued = re.sub(r"( --?\w+) (?!-)", "\\1\xa0", command)
    lines = textwrap.wrap(
        f"$ {glued}", WIDTH - 2, subsequent_indent="      ", break_on_hyphens=False
    )
    print(" \\\n".join(lines).replace("\xa0", " "), flush=True)


def start(
    *words: str, stdout: int | None = None, stderr: int | None = None
) -> subprocess.Popen[str]:
    command = [sys.executable, *words]
    running.append(subprocess.Popen(command, stdout=stdout, stderr=stderr, text=True))
    return running[-1]


def line_with(part: str, stream: IO[str] | None) -> str:
    """Return the next line that contains this part."""
    assert stream is not None
    for line in stream:
        if part in line:
            return line.strip()
    sys.exit(f"a program of the demo ended before it said {part!r}")


def document(process: subprocess.Popen[str]) -> Any:
    """Wait for the end of a program, and return the JSON document that it leaves."""
    output, mistake = process.communicate(timeout=60)
    return json.loads(output) if output else sys.exit(mistake)


@contextmanager
def reserved_ports(count: int) -> Iterator[list[int]]:
    """Yield ports that programs started here can listen on, and that others do not get."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in sockets]


# The first half.


def run_clients(printer: str, records: Path, ports: list[int]) -> None:
    addresses = {me: f"127.0.0.1:{port}" for me, port in zip(CLIENTS, ports, strict=True)}
    clients = []
    for me, texts in CLIENTS.items():
        peers = ",".join(f"{peer}={place}" for peer, place in addresses.items() if peer != me)
        port = addresses[me].rpartition(":")[2]
        words = ["print", "--id", str(me), "--port", port, "--peers", peers]
        words += ["--printer", printer, "--record", str(records), *texts]
        say_command(f"habemus {shlex.join(words)}")
        clients.append(start("-m", "habemus", *words, "--json", stdout=PIPE, stderr=PIPE))
    for client in clients:  # it stays, because the others need its reply
        line_with("keeps answering", client.stderr)
    for me, client in zip(CLIENTS, clients, strict=True):
        client.terminate()
        printed = document(client)["printed"]
        if client.returncode or printed != len(CLIENTS[me]):
            sys.exit(f"client {me} printed {printed} of {len(CLIENTS[me])} pages")


def say_waits(trace: habemus.Trace) -> None:
    """Tell from the trace in which order the clients printed, and for whom each of them waited.

    A reply that a client sends when it leaves, and not when the request arrives, was deferred.
    """
    pages = {me: iter(texts) for me, texts in CLIENTS.items()}
    stamps: dict[int, int] = {}
    waited: defaultdict[int | None, list[int]] = defaultdict(list)
    cause: dict[int, str] = {}  # of what a client sends: the event before it
    for event in trace.events:
        me = event.process
        if event.kind != "send":
            cause[me] = event.name
        elif event.name == "Request":
            stamps[me] = event.fields()["stamp"]
        elif event.name == "Reply" and cause[me] == "release":
            waited[event.peer].append(me)
        if event.kind == "indicate":
            others = " and ".join(f"client {each}" for each in waited.pop(me, ()))
            say(
                f"  client {me} asked at {stamps[me]:2} on its clock, waited for"
                f" {others or 'no other client'}, and printed {next(pages[me])!r}"
            )


# The second half.


def run_workers(printer: str, folder: Path) -> None:
    fence = start(str(HERE / "fence.py"), printer, str(folder), stdout=PIPE)
    front = line_with(":", fence.stdout)
    say(f"A fence at {front} passes jobs on to the printer, but none with an older token.")
    words = ["up", "-n", "5", "--record", "--folder", str(folder / "cluster"), "--"]
    program = str(HERE / "workers.py")
    say_command(f"habemus {shlex.join([*words, 'python', program, front])}")
    if start("-m", "habemus", *words, sys.executable, program, front).wait():
        sys.exit("the workers failed")


# Both halves.


def merge(records: Path, trace: Path, *more: str) -> dict[str, Any]:
    """Merge the records into one trace, judge it and draw it."""
    words = ["-o", str(trace), "-o", str(trace.with_suffix(".svg")), *more]
    say_command(f"habemus trace merge {shlex.quote(str(records))}/*.jsonl {shlex.join(words)}")
    files = sorted(str(file) for file in records.glob("*.jsonl"))
    merged = start("-m", "habemus", "trace", "merge", *words, *files, "--json", stdout=PIPE)
    found: dict[str, Any] = document(merged)
    if merged.returncode:
        sys.exit(f"{trace}: not the expected verdict: {found['why']}")
    return found


def say_verdicts(found: dict[str, Any], trace: Path) -> None:
    """Show what was found, and let the pure processes of the algorithm repeat the run."""
    for name, why in found["reasons"].items():
        say(f"  {name:14}  {found['properties'][name]:8}  {why}", " " * 28)
    say_command(f"habemus replay {shlex.quote(str(trace))}")
    again = document(start("-m", "habemus", "replay", "--json", str(trace), stdout=PIPE))
    if not again["same"]:
        sys.exit(f"the replay differs: {again['why']}")
    say(f"  same: the algorithm alone repeats all {again['steps']} steps of these processes")


def main(folder: Path) -> None:
    say("THREE CLIENTS AGREE WHO PRINTS, over gRPC, on the protocol of the lecture notes")
    words = ("printer", "--port", "0", "--seconds", "0.1..0.2", "--watch")
    say_command(f"habemus {shlex.join(words)}")
    printer = start("-m", "habemus", *words, "--json", stdout=PIPE, stderr=PIPE)
    address = line_with("listens on", printer.stderr).rpartition(" ")[2]
    with reserved_ports(len(CLIENTS)) as ports:
        run_clients(address, folder / "clients", ports)
    trace = folder / "clients.json"
    found = merge(folder / "clients", trace)
    say(
        "The printer checks nothing; the clients agree who is next: the first by clock, then by id."
    )
    say_waits(habemus.load_trace(trace))
    say_verdicts(found, trace)

    say()
    say("FIVE WORKERS SHARE THAT PRINTER under the default lock, and two machines fail")
    run_workers(address, folder)
    trace = folder / "workers.json"
    expected = ("--on", "locks/printer", "--expect", "ME1=violated", "--expect", "FENCE=holds")
    say_verdicts(merge(folder / "cluster" / "records", trace, *expected), trace)
    say("Two workers believed that they held the lock, as leases allow; the fence refused one.")

    say()
    printer.terminate()
    summary = document(printer)
    pages = sum(map(len, CLIENTS.values())) + PAGES_OF_WORKERS
    if summary["overlapping"] or printer.returncode:
        sys.exit(f"the printer saw {summary['overlapping']} jobs overlap")
    if summary["printed"] != pages:
        sys.exit(f"the printer printed {summary['printed']} pages, and not {pages}")
    say(f"The printer printed {pages} pages, never two at once.")
    say(f"Every message: open {folder}/clients.svg and {folder}/workers.svg in a browser.")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    finally:
        for process in running:
            process.terminate()
            process.communicate()
