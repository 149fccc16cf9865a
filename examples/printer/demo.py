"""Five processes share a printer.  Their leader is killed, a holder is suspended, and no page is
printed twice or beside another.

    habemus up -n 5 --record -- python examples/printer/demo.py FOLDER

Every worker is a process of its own and talks to a node of its own; the printer is a file that
checks fencing tokens.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import habemus

WORKER = Path(__file__).with_name("worker.py")


class Worker:
    def __init__(self, number: int, cluster: Path, printer: Path) -> None:
        self.number = number
        self.name = f"worker-{number}"
        command = [
            sys.executable,
            str(WORKER),
            str(cluster / f"node-{number}.sock"),
            self.name,
            str(printer),
        ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def command(self, order: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ends(self) -> None:
        self.process.communicate(timeout=30)


def main(folder: str) -> int:
    cluster = Path(os.environ["HABEMUS_CLUSTER"])
    printer = Path(folder) / "printer.txt"
    workers = {number: Worker(number, cluster, printer) for number in range(1, 6)}

    print("Five workers ask for the printer at once.")
    for worker in workers.values():
        worker.command("print the first page")
    for worker in workers.values():
        print(f"  {worker.name} {worker.says()}")

    pids = {}
    leader = 0
    for number in workers:
        with habemus.connect(str(cluster / f"node-{number}.sock")) as node:
            status = node.status()
            pids[number] = status["pid"]
            leader = status["leaders"][0]["leader"] or leader
    print(f"Node {leader} leads, so it coordinates the lock.  kill -9.")
    os.kill(pids[leader], signal.SIGKILL)
    killed = time.monotonic()
    first, second, *others = [worker for number, worker in workers.items() if number != leader]
    first.command("print a page after the leader has crashed")
    print(f"  {first.name} {first.says()}, {time.monotonic() - killed:.2f} s later")

    print(
        f"{second.name} takes the lock, and then its machine is suspended: it and its node are"
        " paused for longer than the lease."
    )
    second.command("hold a page out of the past")
    print(f"  {second.name} {second.says()}")
    for paused in (second.process.pid, pids[second.number]):
        os.kill(paused, signal.SIGSTOP)
    stopped = time.monotonic()
    others[0].command("print a page in the meantime")
    print(f"  {others[0].name} {others[0].says()}, {time.monotonic() - stopped:.2f} s later")
    second.command("wake up")
    for paused in (second.process.pid, pids[second.number]):
        os.kill(paused, signal.SIGCONT)
    answer = second.says()
    print(f"  {second.name} wakes up, still believes that it holds the lock, and writes: {answer}")

    for worker in workers.values():
        worker.ends()
    pages = printer.read_text().splitlines()
    print(f"The printer has {len(pages)} pages:")
    for page in pages:
        print(f"  {page}")
    is_as_wanted = answer.startswith("refused") and len(pages) == len(set(pages)) == 7
    return 0 if is_as_wanted else 1


sys.exit(main(sys.argv[1]))
