"""Locks per second: ours beside redis-py, kazoo, etcd and PostgreSQL, in one run on this machine.

    python -m benchmarks.live [--quick] [--only NAME] [--failover-peers] [--json]

Contenders take turns in short rounds; a ratio is the median of those of the rounds.  What matters
are the ratios; the rates are those of the machine.  All stays are judged: two clients inside at
once, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.live import failover, table
from benchmarks.live.cases import all_cases
from benchmarks.live.failover import Delays
from benchmarks.live.measuring import Blind, careless_overlaps, measure
from benchmarks.live.ours import FORM

CLIENTS = 4


def main() -> int:
    cases = all_cases()
    delays: dict[str, Callable[[], Delays]] = {
        "holder": lambda: failover.holder_killed(
            3 if given.quick else 11, peers=given.failover_peers
        ),
        "leader": lambda: failover.leader_killed(2 if given.quick else 7),
        "command": lambda: failover.command(10 if given.quick else 50),
    }
    names = [*dict.fromkeys(case.name for case in cases), *delays]
    parser = argparse.ArgumentParser(
        "python -m benchmarks.live",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer and shorter rounds, for a first look"
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        choices=names,
        help=f"one part, again for more: {', '.join(names)}",
    )
    parser.add_argument(
        "--failover-peers",
        action="store_true",
        help="also wait for the time-outs of the peers: two minutes more",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON document instead of the tables"
    )
    given = parser.parse_args()

    report: list[dict[str, Any]] = []
    overlaps = 0

    def tell(found: dict[str, Any], text: str) -> None:
        report.append(found)
        if not given.json:
            print(text, end="\n\n", flush=True)

    tell({"case": "nodes", "form": FORM}, f"Our nodes: {FORM}.")
    try:
        seen = careless_overlaps(CLIENTS, 0.3)
    except Blind as reason:
        print(f"benchmarks.live: {reason}", file=sys.stderr)
        return 1
    tell(
        {"case": "control", "overlaps": seen},
        f"Control: {CLIENTS} clients that give back their lock too early were seen to overlap"
        f" {seen:,} times.",
    )
    for case in cases:
        if not given.only or case.name in given.only:
            result = measure(
                case, rounds=3 if given.quick else 9, seconds=0.4 if given.quick else 1.0
            )
            overlaps += result.overlaps
            tell(table.plain(result), table.show(result))
    for name, run in delays.items():
        if not given.only or name in given.only:
            found = run()
            tell(table.plain_delays(found), table.show_delays(found))
    if given.json:
        print(json.dumps(report, indent=2))
    if overlaps:
        print(f"benchmarks.live: {overlaps} times two clients were inside at once", file=sys.stderr)
    return 1 if overlaps else 0


if __name__ == "__main__":
    sys.exit(main())
