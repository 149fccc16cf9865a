"""Which kind of search decides what the others do not, or decides it several times faster.

    python benchmarks/check/kinds.py [--limit SECONDS] [NAME]...

Each check is made with each kind of search, in a process of its own: CPU seconds from its start to
its verdict, and the properties that stay undecided.  The output is the table in docs/checking.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import subprocess
import sys
from functools import partial
from typing import NamedTuple

from habemus.runs.check import SEARCHES

KINDS = tuple(kind for kind in SEARCHES if kind != "auto")
CHECKS = {
    "ricart-agrawala-4": "ricart-agrawala -n 4 -o tick=0 --network fifo",
    "chang-roberts-7": "chang-roberts -n 7",
    "quorum-2": "quorum -n 2 --every",
    "quorum-3": "quorum -n 3 -o coordinators=3 --every",
    "central-5": "central -n 5",
    "terms-3": "terms -n 3 --timeouts 2",
    "bully-3-in-time": "bully -n 3 --timing synchronous",
    "elected-coordinator-3": (
        "elected-coordinator -n 3 --network fifo --abstract election --asking 1,2"
        " --timeouts 2,Lead=2,Follow=0,Doubt=0"
    ),
}


class Outcome(NamedTuple):
    """The cost of a check and what it leaves open."""

    seconds: float | None  # None: over the limit
    undecided: str
    refused: bool = False

    def __str__(self) -> str:
        if self.refused:
            return "refused"
        if self.seconds is None:
            return "too long"
        return f"{self.seconds:.1f} s" + (f", ? {self.undecided}" if self.undecided else "")


def outcome(check: str, kind: str, limit: int) -> Outcome:
    """Make a check with a kind of search."""
    command = [sys.executable, "-m", "habemus", "check", *shlex.split(check)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*command, "--search", kind, "--limit", "5000000", "--json"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_CPU, (limit, limit)),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode == 2:
        return Outcome(None, "", refused=True)
    if done.returncode < 0:
        return Outcome(None, "")
    properties = json.loads(done.stdout)["properties"]
    undecided = [name for name, verdict in properties.items() if verdict == "undecided"]
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Outcome(seconds, ", ".join(undecided))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CHECKS)}")
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds of one check")
    arguments = parser.parse_args()
    print(f"| check | {' | '.join(f'`{kind}`' for kind in KINDS)} |")
    print("|---|" + "---|" * len(KINDS))
    for name in arguments.names or CHECKS:
        cells = [str(outcome(CHECKS[name], kind, arguments.limit)) for kind in KINDS]
        print(f"| `habemus check {CHECKS[name]}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
