"""The exhaustive search of the real algorithm files beside Spin, in one run, on the same states to
the last one.

    python benchmarks/check/bench.py [--quick] [--only NAME]... [--rounds N] [--cpu] [--json]

Ours is the whole process, `python -m habemus check`, from its start to its verdict.  Spin's is the
whole way to the same verdict: `spin -a`, gcc, `pan`.  The models in models/ are written so that a
state of theirs is a state of ours: the numbers of states and of transitions must be equal, and if
they are not, the exit code is 1.  Spin searches exactly and without reduction, for safety only,
with what makes it fastest: one byte per variable, a hash table of the right size, no bounds checks,
and of gcc's levels the one with the best total.  Ours also judges liveness.  The rivals take turns,
and the medians count.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

MODELS = Path(__file__).parent / "models"
EXACT = ("-w", "-DSAFETY", "-DNOREDUCE", "-DNOFAIR", "-DNOBOUNDCHECK", "-DNOCOMP", "-DMEMLIM=16000")
REDUCED = ("-w", "-DSAFETY", "-DNOFAIR", "-DNOBOUNDCHECK", "-DMEMLIM=16000")
LEVELS = ("-O0", "-O1", "-O2")
PLAIN = ("breadth", "symbolic")  # without numpy, whether it is there or not
MANY_STATES = 100_000  # below this, memory says nothing about states


class Model(NamedTuple):
    """One algorithm, the same for both."""

    name: str
    ours: str  # arguments of `habemus check`
    file: str
    defines: str
    hash_bits: int  # of Spin's table: about as many places as there are states
    level: str  # of gcc, the best on a quiet machine; the only one with --quick
    spin_errors: int = 0  # deadlocks that Spin finds, each of which is one more transition there
    is_large: bool = False
    at_least: float = 0  # how many times as fast as Spin it has to be
    numpy_at_least: float = 0


def _ring(*ids: int) -> str:
    return f"-DN={len(ids)} " + " ".join(
        f"-DID_{place}={process}" for place, process in enumerate(ids)
    )


ENTRY = "--network fifo --entries 1"
CYCLE = "sets=[[1,2],[2,3],[3,1]]"
RICART = "ricart_agrawala.pml"
RING = "chang_roberts.pml"
ALL = (
    Model(
        "ricart-agrawala-3",
        f"ricart-agrawala -n 3 -o tick=0 {ENTRY}",
        RICART,
        "-DN=3 -DTICK=0",
        12,
        "-O0",
        at_least=10,
    ),
    Model(
        "ricart-agrawala-3-ticks",
        f"ricart-agrawala -n 3 {ENTRY}",
        RICART,
        "-DN=3 -DTICK=1",
        14,
        "-O0",
    ),
    Model(
        "maekawa-cycle",
        f"maekawa -n 3 -o {CYCLE} {ENTRY} --every",
        "maekawa.pml",
        "",
        12,
        "-O0",
        spin_errors=2,
    ),
    # The orders in which the ids of our rings go round unless told.
    Model("chang-roberts-5", f"chang-roberts -n 5 {ENTRY}", RING, _ring(3, 4, 1, 2, 5), 13, "-O0"),
    Model(
        "chang-roberts-6", f"chang-roberts -n 6 {ENTRY}", RING, _ring(2, 4, 5, 1, 3, 6), 15, "-O0"
    ),
    Model(
        "chang-roberts-7",
        f"chang-roberts -n 7 {ENTRY}",
        RING,
        _ring(2, 6, 5, 4, 1, 3, 7),
        18,
        "-O0",
    ),
    Model("lamport-3", f"lamport -n 3 {ENTRY}", "lamport.pml", "", 20, "-O0", is_large=True),
    Model(
        "ricart-agrawala-4",
        f"ricart-agrawala -n 4 -o tick=0 {ENTRY}",
        RICART,
        "-DN=4 -DTICK=0",
        21,
        "-O1",
        is_large=True,
        at_least=1,
        numpy_at_least=2,
    ),
)


class Cost(NamedTuple):
    """What a process took, its children included."""

    seconds: float
    cpu: float
    peak: int  # bytes


class Failed(Exception):
    pass


def spend(command: Sequence[str], folder: Path, wanted: Sequence[int] = (0,)) -> tuple[Cost, str]:
    """Runs a command; what it took and what it printed."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode not in wanted:
            last = (err.read() + out.read()).strip().splitlines()[-1:]
            raise Failed(f"{shlex.join(command)}: exit code {process.returncode}: {' '.join(last)}")
        return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024), out.read()


@dataclass
class Samples:
    """Several rounds of the same: each the costs of its parts, one after the other."""

    rounds: list[list[Cost]] = field(default_factory=list)
    states: int = 0
    transitions: int = 0
    errors: int = 0
    verdict: str = ""
    by_cpu: bool = False

    def _time(self, cost: Cost) -> float:
        return cost.cpu if self.by_cpu else cost.seconds

    @property
    def seconds(self) -> float:
        return median(sum(self._time(part) for part in parts) for parts in self.rounds)

    @property
    def parts(self) -> list[float]:
        return [
            median(self._time(cost) for cost in costs) for costs in zip(*self.rounds, strict=True)
        ]

    @property
    def peak(self) -> float:
        """Of the last part, which is the search."""
        return median(parts[-1].peak for parts in self.rounds)

    @property
    def rate(self) -> float:
        return self.states / self.seconds

    @property
    def bytes_per_state(self) -> float | None:
        """All memory of the process counts, also what no state needs."""
        return self.peak / self.states if self.states >= MANY_STATES else None

    def plain(self) -> dict[str, Any]:
        return {
            "states": self.states,
            "transitions": self.transitions,
            "verdict": self.verdict,
            "seconds": round(self.seconds, 4),
            "parts": [round(part, 4) for part in self.parts],
            "rounds": [round(sum(self._time(part) for part in parts), 4) for parts in self.rounds],
            "states_per_second": round(self.rate),
            "peak_bytes": round(self.peak),
            "bytes_per_state": (
                None if self.bytes_per_state is None else round(self.bytes_per_state, 1)
            ),
        }


def run_ours(command: Sequence[str], model: Model, search: str, samples: Samples) -> None:
    # 3: some property is undecided.  Then the column `verdict` says so; whatever Spin judges here
    # is decided when all states are visited.
    cost, out = spend(
        [*command, *shlex.split(model.ours), "--search", search, "--json"],
        Path.cwd(),
        wanted=(0, 1, 3),
    )
    report = json.loads(out)
    if not report["exhaustive"]:
        raise Failed(f"{model.name}: our search ({search}) did not visit all states")
    samples.states, samples.transitions, samples.verdict = (
        report["states"],
        report["transitions"],
        report["verdict"],
    )
    samples.rounds.append([cost])


def run_spin(model: Model, flags: Sequence[str], levels: dict[str, Samples]) -> None:
    """Translates once, then compiles and searches at each level."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        translation, _ = spend(
            ["spin", "-a", *shlex.split(model.defines), str(MODELS / model.file)], folder
        )
        for level, samples in levels.items():
            compilation, _ = spend(["gcc", level, *flags, "-o", "pan", "pan.c"], folder)
            search, out = spend(["./pan", f"-w{model.hash_bits}", "-c0"], folder)
            samples.errors = _number(r"errors: (\d+)", out)
            samples.states = _number(r"(\d+) states, stored", out)
            # One of those is the way into the initial state, and after each failed assertion the
            # search goes on from where it was.
            samples.transitions = _number(r"(\d+) transitions", out) - 1 - samples.errors
            samples.verdict = "violated" if samples.errors else "holds"
            if "max search depth too small" in out or "out of memory" in out:
                raise Failed(f"{model.name}: Spin did not visit all states")
            samples.rounds.append([translation, compilation, search])


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    if found is None:
        raise Failed(f"pan prints no {pattern}")
    return int(found[1])


class Result(NamedTuple):
    model: Model
    ours: dict[str, Samples]  # by search
    level: str
    levels: dict[str, Samples]  # of gcc

    @property
    def spin(self) -> Samples:
        return self.levels[self.level]

    @property
    def is_equal(self) -> bool:
        """The same states, the same transitions, and the violations that are known to be there."""
        return self.spin.errors == self.model.spin_errors and all(
            (each.states, each.transitions, each.verdict == "violated")
            == (self.spin.states, self.spin.transitions, self.spin.errors > 0)
            for each in self.ours.values()
        )

    def ratio(self, search: str) -> float:
        return self.spin.seconds / self.ours[search].seconds

    @property
    def fastest(self) -> str:
        """The faster search of those without numpy."""
        return max(PLAIN, key=self.ratio)

    @property
    def targets(self) -> list[tuple[str, float, float, bool]]:
        """What is wanted, what is so, the limit, and whether it is met."""
        found = []
        if limit := self.model.at_least:
            faster = self.ratio(self.fastest)
            found.append(
                (f"as fast as Spin ({self.fastest}), times", faster, limit, faster >= limit)
            )
        if (limit := self.model.numpy_at_least) and "numpy" in self.ours:
            best = max(self.ours, key=self.ratio)
            for told, faster in (
                ("with numpy", self.ratio("numpy")),
                (f"at best ({best})", self.ratio(best)),
            ):
                found.append((f"{told} as fast as Spin, times", faster, limit, faster >= limit))
        memory = self.ours["breadth"].bytes_per_state
        if self.model.at_least and memory:
            found.append(("bytes per state (breadth) at most", memory, 150, memory <= 150))
        return found

    def plain(self) -> dict[str, Any]:
        return {
            "model": self.model.name,
            "equal": self.is_equal,
            "ours": {search: samples.plain() for search, samples in self.ours.items()},
            "spin": {
                **self.spin.plain(),
                "level": self.level,
                "seconds_by_level": {
                    level: round(samples.seconds, 4) for level, samples in self.levels.items()
                },
            },
            "spin_over_ours": {search: round(self.ratio(search), 3) for search in self.ours},
            "targets": [
                {"what": what, "is": round(now, 3), "limit": limit, "met": met}
                for what, now, limit, met in self.targets
            ],
        }


def measure(
    model: Model,
    command: Sequence[str],
    has_numpy: bool,
    levels: Sequence[str],
    rounds: int,
    by_cpu: bool,
) -> Result:
    searches = (*PLAIN, *(["numpy"] if has_numpy else []))
    ours = {search: Samples(by_cpu=by_cpu) for search in searches}
    by_level = {level: Samples(by_cpu=by_cpu) for level in levels}
    for _ in range(rounds):
        for search, samples in ours.items():
            run_ours(command, model, search, samples)
        run_spin(model, EXACT, by_level)
    best = min(by_level, key=lambda level: by_level[level].seconds)
    return Result(model, ours, best, by_level)


COLUMNS = (
    f"{'model':24}{'states':>10}{'Spin':>10} "
    f" {'equal':6}{'breadth':>8}{'symbolic':>9}{'numpy':>7}{'Spin':>7} "
    f" {'= spin + gcc + pan':27}{'ratios: breadth, symbolic, numpy':>32}"
    f"{'breadth/s':>11}{'Spin/s':>10}{'memory':>8}{'pan':>8}{'B/state':>9}{'pan':>6}"
    "  verdict"
)


def row(result: Result) -> str:
    spin, levels, sets, numpy = (
        result.spin,
        result.ours["breadth"],
        result.ours["symbolic"],
        result.ours.get("numpy"),
    )
    parts = " + ".join(f"{part:.2f}" for part in spin.parts) + f" ({result.level})"
    ratios = "".join(
        f"{_or_dash(result.ratio(search) if search in result.ours else None, '.2f'):>8}"
        for search in (*PLAIN, "numpy")
    )
    return (
        f"{result.model.name:24}{levels.states:>10,}{spin.states:>10,} "
        f" {'yes' if result.is_equal else 'NO':6}{levels.seconds:>8.2f}{sets.seconds:>9.2f}"
        f"{_or_dash(numpy.seconds if numpy else None, '.2f'):>7}{spin.seconds:>7.2f}"
        f"  {parts:27}{ratios:>32}{levels.rate:>11,.0f}{spin.rate:>10,.0f}"
        f"{levels.peak / 1e6:>6.0f}MB{spin.peak / 1e6:>6.0f}MB"
        f"{_or_dash(levels.bytes_per_state, '.0f'):>9}{_or_dash(spin.bytes_per_state, '.0f'):>6}"
        f"  {levels.verdict}"
    )


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def reductions(size: int, by_cpu: bool) -> list[tuple[str, Samples]]:
    """For information: Ricart-Agrawala as one would write it for Spin, without and with Spin's own
    reduction.  Other states than ours.
    """
    model = Model(
        "", "", "ricart_agrawala_processes.pml", f"-DN={size}", 13 if size == 3 else 21, "-O1"
    )
    found = []
    for told, flags in (("all states", (*REDUCED, "-DNOREDUCE")), ("reduced by Spin", REDUCED)):
        samples = Samples(by_cpu=by_cpu)
        run_spin(model, flags, {model.level: samples})
        found.append((f"ricart-agrawala-{size}, a process each and channels, {told}", samples))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="the small models only, unless named, and one level of gcc",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=[model.name for model in ALL],
        metavar="NAME",
        help="this model; may be repeated",
    )
    parser.add_argument(
        "--rounds", type=int, metavar="N", help="repetitions (default: 5, and 3 of large models)"
    )
    parser.add_argument(
        "--cpu",
        action="store_true",
        help="count processor time instead of time, for a busy machine",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON document instead of the table"
    )
    parser.add_argument(
        "--ours",
        default=shlex.join([sys.executable, "-m", "habemus", "check"]),
        metavar="COMMAND",
        help="another checker",
    )
    arguments = parser.parse_args()
    lacking = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if lacking:
        print(
            f"bench: there is no {' and no '.join(lacking)} here; on Debian: make bench-check-deps",
            file=sys.stderr,
        )
        return 2
    try:
        results, informed = compared(arguments)
    except Failed as reason:
        print(f"bench: {reason}", file=sys.stderr)
        return 2
    if arguments.json:
        informed_plain = [{"what": told, **samples.plain()} for told, samples in informed]
        print(
            json.dumps(
                {"models": [result.plain() for result in results], "information": informed_plain},
                indent=2,
            )
        )
    return 0 if all(result.is_equal for result in results) else 1


def compared(arguments: argparse.Namespace) -> tuple[list[Result], list[tuple[str, Samples]]]:
    """All measurements, told as they come unless it is JSON that is wanted."""

    def say(line: str) -> None:
        if not arguments.json:
            print(line, flush=True)

    command = shlex.split(arguments.ours)
    has_numpy = find_spec("numpy") is not None
    say(
        f"{'processor ' if arguments.cpu else ''}seconds, medians; memory of the search, all of it;"
        " ratio: Spin's time over ours"
    )
    say(COLUMNS)
    results: list[Result] = []
    for model in ALL:
        if (
            model.name not in arguments.only
            if arguments.only
            else arguments.quick and model.is_large
        ):
            continue
        rounds = arguments.rounds or (3 if model.is_large or arguments.quick else 5)
        levels = (model.level,) if arguments.quick else LEVELS
        results.append(measure(model, command, has_numpy, levels, rounds, arguments.cpu))
        say(row(results[-1]))
    informed: list[tuple[str, Samples]] = []
    if not arguments.only:
        say("\nFor information, with states of their own:")
        for size in (3,) if arguments.quick else (3, 4):
            informed += reductions(size, arguments.cpu)
        for told, samples in informed:
            say(f"    {told:75}{samples.states:>10,} states {samples.seconds:8.2f} s")
    for result in results:
        for what, now, limit, met in result.targets:
            say(
                f"{'met   ' if met else 'MISSED'} {result.model.name}: {what}: {now:.3g}, target"
                f" {limit:g}"
            )
    return results, informed


if __name__ == "__main__":
    sys.exit(main())
