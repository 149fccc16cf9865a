"""Servers that do nothing but hand one permission from client to client: the limit of hand-overs,
by one server or by several.

    python passing.py FOLDER NUMBER COUNT

Server NUMBER of COUNT listens for clients at FOLDER/NUMBER.sock.  A client says `a` to ask and `r`
to leave, and hears `g` when it may go in.  Whoever leaves, its server hands the permission to the
next server, which lets the first of its clients in: what a release must lead to in any algorithm
without a centre, and nothing else.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections import deque
from contextlib import suppress

IDLE_SECONDS = 0.001
"""When the permission has been round and nobody wanted it, it waits so long for one who does."""


def listening(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(path)
    made.listen()
    return made


def dialled(path: str) -> socket.socket:
    while True:
        made = socket.socket(socket.AF_UNIX)
        with suppress(OSError):
            made.connect(path)
            return made
        made.close()
        time.sleep(0.01)


def main(folder: str, me: int, count: int) -> None:
    before = listening(f"{folder}/{me}.ring")
    after = dialled(f"{folder}/{me % count + 1}.ring")
    before = before.accept()[0]
    door = listening(f"{folder}/{me}.sock")
    open_: dict[int, socket.socket] = {}
    poll = select.epoll()
    for each in (before, door):
        poll.register(each, select.EPOLLIN)
    waiting: deque[int] = deque()
    empty = (
        0 if me == 1 else -1
    )  # for how many servers nobody has wanted the permission that is here; -1: it is not here
    while True:
        found = poll.poll(IDLE_SECONDS if empty >= count else -1)
        for file, _ in found:
            if file == door.fileno():
                client = door.accept()[0]
                open_[client.fileno()] = client
                poll.register(client, select.EPOLLIN)
            elif file == before.fileno():
                empty = before.recv(1)[0]
            else:
                said = open_[file].recv(64)
                if not said:
                    poll.unregister(file)
                    open_.pop(file).close()
                for word in said:
                    if word == ord("a"):
                        waiting.append(file)
                    else:
                        empty = 0
                        if count > 1:
                            after.send(b"\0")
                            empty = -1
        if empty >= 0 and waiting:
            empty = -1
            open_[waiting.popleft()].send(b"g")
        elif empty >= 0 and count > 1 and (empty < count or not found):
            after.send(bytes((min(empty + 1, count),)))
            empty = -1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
