"""A worker that prints pages, one at a time, on a printer that it shares: `worker.py SOCKET NAME
FILE`.

It reads orders from its standard input, a line each: `print TEXT`, or `hold TEXT` to take the lock,
wait for one more line, and only then print.  For every page it says whether the printer took it.
"""

import sys
from pathlib import Path

import habemus
from habemus.fencing import FencedFile, StaleToken


def main(socket: str, name: str, file: str) -> None:
    printer = FencedFile(Path(file))
    with habemus.connect(socket, name=name) as cluster:
        for line in sys.stdin:
            order, _, text = line.strip().partition(" ")
            try:
                with cluster.lock("printer", timeout=30) as lease:
                    if order == "hold":
                        print(f"holds {lease.token}", flush=True)
                        sys.stdin.readline()
                    # Between the last look at the lease and the write anything may happen: so the
                    # printer looks at the token.
                    printer.append(f"{name}: {text}\n".encode(), lease.token)
                    lease.wrote()
                    print(f"printed {lease.token}", flush=True)
            except StaleToken as refused:
                lease.wrote()
                print(f"refused {refused}", flush=True)
            except habemus.HabemusError as reason:
                print(f"failed {reason}", flush=True)


main(*sys.argv[1:])
