"""Crash the holder of a lock, and see who waits for whom, in words and as a picture.

python examples/crash_the_holder.py
"""

import habemus
from habemus.faults import Crash, Nth


def main() -> None:
    crash = Crash(2, Nth("Granted"))
    result = habemus.simulate("central", n=3, workload="burst", faults=[crash])
    print(f"{result.command}\n{result.verdict.value}: {result.why}")
    result.save("crash-the-holder.svg")
    print("saved crash-the-holder.svg")


if __name__ == "__main__":
    main()
