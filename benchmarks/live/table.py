"""Results for people and for programs."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.live import judging
from benchmarks.live.failover import Delays
from benchmarks.live.measuring import Result, Target

WIDTH = 50


def show(result: Result) -> str:
    case = result.case
    column = "wait" if case.unit == "hand-overs" else "cycle"
    lines = [
        case.title,
        (
            f"    {'':{WIDTH}} {case.unit + '/s':>14} {column + ' p50':>12} {'p99':>12}"
            f" {'CPU each':>10}{' overtaken' if column == 'wait' else ''}"
        ),
    ]
    for name, samples in result.samples.items():
        found = judging.typical(samples)
        times = f"{_time(found.p50_us):>12} {_time(found.p99_us):>12} {found.cpu_us:7,.0f} us"
        if column == "wait":
            times += f" {found.overtaken:9,}"
        overlaps = f"   {result.overlaps_of(name)} OVERLAPS" if result.overlaps_of(name) else ""
        lines.append(f"    {name:{WIDTH}} {found.per_second:14,.0f} {times}{overlaps}")
    lines += _absent(result.absent)
    for target in case.targets:
        ratio = result.ratio(target)
        lines.append(
            f"    {_verdict(None if ratio is None else ratio >= target.least)} {_shown(target)}:"
            f" {_number(ratio)}, target {target.least:g}"
        )
    for name, bound in case.bounds.items():
        if name in result.samples:
            most = judging.typical(result.samples[name]).overtaken
            lines.append(
                f"    {_verdict(most <= bound)} {name}: overtaken {most:,}, bound {bound:,}"
            )
    return "\n".join(lines)


def show_delays(delays: Delays) -> str:
    lines = [delays.title]
    for who, found in delays.found.items():
        spread = f"{_time(min(found) * 1_000)} to {_time(max(found) * 1_000)}"
        lines.append(
            f"    {who:{WIDTH}} {_time(median(found) * 1_000):>14}   {spread}, median of"
            f" {len(found)}"
        )
    lines += _absent(delays.absent)
    for limit in delays.limits:
        reached = delays.reached(limit)
        beside = f" / {limit.against}" if limit.against is not None else ", ms"
        verdict = _verdict(None if reached is None else reached <= limit.most)
        lines.append(
            f"    {verdict} {limit.who}{beside}: {_number(reached)}, at most {limit.most:g}"
        )
    return "\n".join(lines)


def plain(result: Result) -> dict[str, Any]:
    found = {name: judging.typical(samples) for name, samples in result.samples.items()}
    ratios = [(target, result.ratio(target)) for target in result.case.targets]
    return {
        "case": result.case.name,
        "title": result.case.title,
        "unit": result.case.unit,
        "rivals": {
            name: {
                "per_second": round(each.per_second),
                "p50_us": round(each.p50_us, 1),
                "p99_us": round(each.p99_us, 1),
                "cpu_us": round(each.cpu_us, 1),
                "overtaken": each.overtaken,
                "overtaking_bound": result.case.bounds.get(name),
                "stays": each.stays + result.judged[name].stays,
                "overlaps": result.overlaps_of(name),
                "rounds": [round(sample.per_second) for sample in result.samples[name]],
            }
            for name, each in found.items()
        },
        "absent": result.absent,
        "targets": [
            {
                "who": target.who,
                "against": target.against,
                "by": target.by,
                "ratio": None if ratio is None else round(ratio, 3),
                "target": target.least,
                "met": None if ratio is None else ratio >= target.least,
            }
            for target, ratio in ratios
        ],
    }


def plain_delays(delays: Delays) -> dict[str, Any]:
    reached = [(limit, delays.reached(limit)) for limit in delays.limits]
    return {
        "case": delays.name,
        "title": delays.title,
        "ms": {
            who: {"median": round(median(found), 3), "all": [round(each, 3) for each in found]}
            for who, found in delays.found.items()
        },
        "absent": delays.absent,
        "limits": [
            {
                "who": limit.who,
                "against": limit.against,
                "is": None if now is None else round(now, 3),
                "at_most": limit.most,
                "met": None if now is None else now <= limit.most,
            }
            for limit, now in reached
        ],
    }


def _absent(absent: dict[str, str]) -> list[str]:
    return [f"    {name:{WIDTH}} absent: {reason}" for name, reason in absent.items()]


def _shown(target: Target) -> str:
    if target.by == "p99_us":
        return f"p99 of {target.against} / that of {target.who}"
    if target.by == "cpu_us":
        return f"processor time of {target.against} / that of {target.who}"
    return f"{target.who} / {target.against}"


def _verdict(met: bool | None) -> str:
    return "not judged" if met is None else "met   " if met else "MISSED"


def _number(found: float | None) -> str:
    return "?" if found is None else f"{found:.3g}"


def _time(microseconds: float) -> str:
    return (
        f"{microseconds / 1_000:,.1f} ms" if microseconds >= 10_000 else f"{microseconds:,.0f} us"
    )
