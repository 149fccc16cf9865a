"""The process at the other end of a local socket, and its end.

The system closes the connections of a process a moment before the process is gone.  The end of a
connection alone does not show that: a process may close it and go on.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

_CREDENTIALS = struct.Struct("3i")  # process, user and group


def process_behind(transport: asyncio.BaseTransport) -> int | None:
    """Return the number of the process that has connected to a local socket of this machine; None
    if it is not known: another system than Linux, or a process outside this container.
    """
    found = transport.get_extra_info("socket")
    if found is None or found.family != socket.AF_UNIX or not hasattr(os, "pidfd_open"):
        return None
    with suppress(AttributeError, OSError):
        shown = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        process: int = _CREDENTIALS.unpack(shown)[0]
        return process or None
    return None


class ProcessEnd:
    """Waits for the end of a process."""

    def __init__(self, process: int, action: Callable[[], None]) -> None:
        """Call the action when the process is gone: now, if it is gone already."""
        self._action = action
        self._loop = asyncio.get_running_loop()
        self._descriptor = -1
        try:
            self._descriptor = os.pidfd_open(process)
        except ProcessLookupError:
            action()
        except OSError:  # no descriptor is left: the lease decides
            pass
        else:
            ready = select.poll()
            ready.register(self._descriptor, select.POLLIN)
            if ready.poll(0):
                self._end()
            else:
                self._loop.add_reader(self._descriptor, self._end)

    def _end(self) -> None:
        self.cancel()
        self._action()

    def cancel(self) -> None:
        """Wait no longer."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
