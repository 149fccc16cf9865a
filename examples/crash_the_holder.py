"""Crashes the holder of a lock and asks who is left waiting, for what, and what a picture of it looks like.

python examples/crash_the_holder.py
"""

from pathlib import Path

from habemus.catalog.runs import execute
from habemus.catalog.setup import Setup
from habemus.traces.export import save


def main() -> None:
    report = execute(Setup("central", n=3, workload="burst", faults=(("crash", "2@Granted#1"),)))
    print(f"{report.setup.command()}\n{report.verdict.value}: {report.why}")
    assert report.trace is not None
    picture = Path("crash-the-holder.svg")
    save(report.trace, picture)
    print(f"saved {picture}")


if __name__ == "__main__":
    main()
