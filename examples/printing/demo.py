"""A printer and three clients, each a process of its own, that agree over gRPC who may print.

    python examples/printing/demo.py FOLDER

Every client prints three pages and then stays to answer the others; they all end when the printer
has printed nine.  What the clients did is recorded in FOLDER, for `habemus trace merge`.
"""

import shlex
import socket
import subprocess
import sys
from pathlib import Path

CLIENTS, PAGES = 3, 3


def reserved_ports(count: int) -> tuple[list[int], list[socket.socket]]:
    """Return ports that the programs started here can listen on, and the sockets that keep others
    from getting them.
    """
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        each.bind(("127.0.0.1", 0))
    return [each.getsockname()[1] for each in sockets], sockets


def start(*words: str) -> subprocess.Popen[bytes]:
    print(f"$ {shlex.join(('habemus', *words))}", flush=True)
    return subprocess.Popen([sys.executable, "-m", "habemus", *words])


def main(folder: str) -> int:
    (printer_port, *ports), _reserved = reserved_ports(1 + CLIENTS)
    places = {number: f"127.0.0.1:{port}" for number, port in enumerate(ports, start=1)}
    printer = start(
        "printer",
        "--port",
        str(printer_port),
        "--seconds",
        "0.1..0.3",
        "--jobs",
        str(CLIENTS * PAGES),
        "--watch",
    )
    clients = []
    for number, port in enumerate(ports, start=1):
        peers = ",".join(f"{peer}={place}" for peer, place in places.items() if peer != number)
        here = (
            "--id",
            str(number),
            "--port",
            str(port),
            "--peers",
            peers,
            "--printer",
            f"127.0.0.1:{printer_port}",
        )
        clients.append(
            start(
                "print",
                *here,
                "--every",
                "0..0.3",
                "--jobs",
                str(PAGES),
                "--record",
                str(Path(folder) / "records"),
            )
        )
    code = printer.wait(60)  # 1 if two printed at once
    for client in clients:
        client.terminate()
    return max(code, *(client.wait(60) for client in clients))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
