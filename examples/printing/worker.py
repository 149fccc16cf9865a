"""A worker that prints pages under a lock: `worker.py SOCKET NUMBER PRINTER`.

It reads orders from its standard input, a line each: `print TEXT`, or `hold TEXT` to take the lock,
wait for one more line, and only then print.  For every page it says whether the printer took it.
"""

import sys

import grpc

import habemus
from habemus.printing.wire import distributed_printing_pb2 as pb2
from habemus.printing.wire import distributed_printing_pb2_grpc as stubs


def main(socket: str, number: str, address: str) -> None:
    options = (("grpc.enable_http_proxy", 0),)
    with (
        grpc.insecure_channel(address, options) as channel,
        habemus.connect(socket, name=f"worker-{number}") as cluster,
    ):
        printer = stubs.PrintingServiceStub(channel)
        for request, line in enumerate(sys.stdin, start=1):
            order, _, text = line.strip().partition(" ")
            try:
                with cluster.lock("printer", timeout=30) as lease:
                    if order == "hold":
                        print(f"holds {lease.token}", flush=True)
                        sys.stdin.readline()
                    # Between the last look at the lease and the job anything may happen: so the
                    # job carries the token, and the fence before the printer looks at it.
                    job = pb2.PrintRequest(
                        client_id=int(number),
                        message_content=text,
                        lamport_timestamp=lease.token,
                        request_number=request,
                    )
                    answer = printer.SendToPrinter(job)
                    lease.wrote()
                    if answer.success:
                        print(f"printed {lease.token}", flush=True)
                    else:
                        print(f"refused {lease.token} {answer.lamport_timestamp}", flush=True)
            except (habemus.HabemusError, grpc.RpcError) as reason:
                print(f"failed {reason}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
