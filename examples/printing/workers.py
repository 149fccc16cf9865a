"""Five workers share a printer under the default lock.  Their leader is killed, and a holder is
paused for longer than its lease.

    habemus up -n 5 --record -- python examples/printing/workers.py PRINTER

PRINTER is the address of the fence before the printer.  Every worker is a process of its own and
talks to a node of its own.  The exit code is 1 if anything is not as the lock promises.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import habemus
from habemus.fencing import token_text

WORKER = Path(__file__).with_name("worker.py")
WIDTH = 96


class Worker:
    def __init__(self, number: int, socket: Path, printer: str) -> None:
        self.number = number
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), str(socket), str(number), printer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def order(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self, expected: str) -> list[int]:
        """Return the tokens in the worker's next answer, which must be the expected one."""
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        what, _, rest = said.strip().partition(" ")
        if what != expected:
            sys.exit(f"worker {self.number} should have {expected}, but: {said.strip() or 'ended'}")
        return [int(token) for token in rest.split()]

    def end(self) -> None:
        self.process.communicate(timeout=30)


def say(text: str) -> None:
    print(textwrap.fill(text, WIDTH, subsequent_indent="  "), flush=True)


def main(printer: str) -> None:
    cluster = Path(os.environ["HABEMUS_CLUSTER"])
    sockets = {number: cluster / f"node-{number}.sock" for number in range(1, 6)}
    workers = {number: Worker(number, sockets[number], printer) for number in sockets}

    say("All five ask for the lock at once, and print while they hold it:")
    for worker in workers.values():
        worker.order(f"print page 1 of worker {worker.number}")
    granted = {worker.answer("printed")[0]: worker.number for worker in workers.values()}
    for token, number in sorted(granted.items()):
        say(f"  worker {number} printed with token {token_text(token)}")

    pids, leaders = {}, set()
    for number, socket in sockets.items():
        with habemus.connect(str(socket)) as node:
            status = node.status()
        pids[number] = status["pid"]
        leaders.add(status["leaders"][0]["leader"])
    [leader] = leaders - {None}
    first, second, third, _ = (worker for worker in workers.values() if worker.number != leader)
    say(f"Node {leader} leads, so it grants the lock.  kill -9 {pids[leader]}")
    os.kill(pids[leader], signal.SIGKILL)
    killed = time.monotonic()
    first.order(f"print page 2 of worker {first.number}")
    [token] = first.answer("printed")
    say(
        f"  worker {first.number} printed with token {token_text(token)} of the next leader,"
        f" {time.monotonic() - killed:.1f} s after the kill"
    )

    second.order(f"hold page 2 of worker {second.number}")
    [stale] = second.answer("holds")
    say(
        f"Worker {second.number} takes the lock, with token {token_text(stale)}.  Before it prints,"
        " its machine stops: kill -STOP to the worker and its node, for longer than the lease."
    )
    stopped = time.monotonic()
    paused = second.process.pid, pids[second.number]
    for pid in paused:
        os.kill(pid, signal.SIGSTOP)
    third.order(f"print page 2 of worker {third.number}")
    [newest] = third.answer("printed")
    say(
        f"  worker {third.number} waited {time.monotonic() - stopped:.1f} s, until the lease had"
        f" expired, and printed with token {token_text(newest)}"
    )
    second.order("print now")
    for pid in paused:
        os.kill(pid, signal.SIGCONT)
    [sent, accepted] = second.answer("refused")
    say(
        f"  worker {second.number} wakes up, still believes that it holds the lock, and prints:"
        f" REFUSED by the fence, token {token_text(sent)} is older than {token_text(accepted)}"
    )
    for worker in workers.values():
        worker.end()
    if not (sent == stale < newest == accepted):
        sys.exit("the tokens are not in the order of the grants")


if __name__ == "__main__":
    main(sys.argv[1])
