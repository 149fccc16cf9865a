"""The same program on every engine: python any_engine.py [URL], such as redis://localhost."""

import sys
import tempfile

import habemus


def main(url: str) -> None:
    with habemus.connect(url) as cluster:
        with cluster.lock("report", timeout=10) as lease:
            print(f"holding {lease.name} with token {lease.token}")
        with cluster.acquire_all(["ink", "paper"], timeout=10) as leases:
            print(f"holding {', '.join(lease.name for lease in leases)}")
        with cluster.election("scheduler").lead(timeout=10) as term:
            leader = cluster.election("scheduler").leader()
            print(f"leading in term {term.token}: {leader is not None and leader.holder}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else f"local://{folder}")
