"""A fence in front of the printer, which itself checks nothing: `fence.py PRINTER FOLDER`.

It speaks the printer's own protocol, so clients need only its address.  The stamp of a job is the
token of its sender's lock.  A job whose token is smaller than one before it is refused; every other
job goes on to the printer.  The fence does not keep two jobs apart: that is what the lock does.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from habemus.fencing import FencedFile, StaleToken
from habemus.printing.wire import distributed_printing_pb2 as pb2
from habemus.printing.wire import distributed_printing_pb2_grpc as stubs


class Fence:
    def __init__(self, printer: grpc.Channel, journal: FencedFile) -> None:
        self._printer = stubs.PrintingServiceStub(printer)
        self._journal = journal  # remembers the largest token, also when the fence restarts

    def SendToPrinter(self, job: pb2.PrintRequest, _context: Any) -> pb2.PrintResponse:
        try:
            self._journal.append(f"{job.message_content}\n".encode(), job.lamport_timestamp)
        except StaleToken as refusal:
            return pb2.PrintResponse(
                success=False,
                confirmation_message=str(refusal),
                lamport_timestamp=refusal.newest,
            )
        answer: pb2.PrintResponse = self._printer.SendToPrinter(job)
        return answer


def main(printer: str, folder: str) -> None:
    options = (("grpc.enable_http_proxy", 0),)
    with grpc.insecure_channel(printer, options) as channel:
        fence = Fence(channel, FencedFile(Path(folder) / "printed-under-a-lock.txt"))
        server = grpc.server(ThreadPoolExecutor())
        stubs.add_PrintingServiceServicer_to_server(fence, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        print(f"127.0.0.1:{port}", flush=True)
        server.wait_for_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
