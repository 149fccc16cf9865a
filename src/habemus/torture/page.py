"""The report of a torture as one HTML page, with plots of the resources of the nodes over time.

The plots need matplotlib (`pip install '.[plot]'`).  They are SVG inside the page, which is
one file.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from habemus.analysis.pictures.figures import HINT, matplotlib_for
from habemus.torture.history import InjectedFault
from habemus.torture.resources import NS, ResourceSample

if TYPE_CHECKING:
    from habemus.torture.run import TortureReport

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
td, th { padding: .2rem .8rem; border-bottom: 1px solid #ddd; text-align: left }
.violated { color: #b00020; font-weight: 600 } .holds { color: #1b7f3b; font-weight: 600 }
.undecided { color: #8a6d00; font-weight: 600 } svg { max-width: 100%; height: auto }
"""
PANELS = (
    ("memory", "memory, MB", 1e6),
    ("descriptors", "descriptors", 1.0),
    ("disk", "stable memory, kB", 1e3),
)


def page_of(
    report: TortureReport,
    samples: Sequence[ResourceSample],
    faults: Sequence[InjectedFault],
    grants: Sequence[int],
) -> str:
    """Return the page.

    grants: times of the grants, in ns.
    """
    plan, found = report.plan, report.judgement
    title = f"{plan.algorithm}: {plan.nodes} nodes, {found.seconds / 60:.0f} minutes"
    observed = {
        key: value
        for key, value in found.plain().items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    rows = "".join(
        f'<tr><td>{escape(each.name)}</td><td class="{each.verdict.value}">'
        f"{each.verdict.value}</td><td>{escape(each.why)}</td></tr>"
        for each in report.findings
    )
    numbers = "".join(
        f"<tr><td>{escape(key.replace('_', ' '))}</td><td>{value:,}</td></tr>"
        for key, value in observed.items()
    )
    kinds = "".join(
        f"<tr><td>{escape(kind)}</td><td>{count:,}</td></tr>"
        for kind, count in found.faults.items()
    )
    failures = "".join(f"<p>{escape(each)}</p>" for each in report.failures)
    verdict = report.verdict.value
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style><h1>{escape(title)}</h1>"
        f'<p>seed {plan.seed}; verdict: <span class="{verdict}">{verdict}</span></p>{failures}'
        f"<table><tr><th>property</th><th>verdict</th><th></th></tr>{rows}</table>"
        f"<h2>Resources of the nodes</h2>{plots(samples, faults, grants)}"
        f"<h2>Observed</h2><table>{numbers}</table><h2>Faults</h2><table>{kinds}</table></html>\n"
    )


def plots(
    samples: Sequence[ResourceSample], faults: Sequence[InjectedFault], grants: Sequence[int]
) -> str:
    """Return one SVG: resources of each node and the rate of grants, with faults as marks."""
    if not samples:
        return "<p>The nodes were not watched.</p>"
    try:
        matplotlib = matplotlib_for("plots")
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return f"<p>For plots: {HINT}.</p>"
    began = min(sample.time for sample in samples)
    with matplotlib.rc_context({"svg.hashsalt": "habemus", "font.size": 9}):
        figure = Figure(figsize=(10, 10), layout="constrained")
        axes: list[Any] = list(figure.subplots(4, 1, sharex=True))
        for axis, (name, label, scale) in zip(axes, PANELS, strict=False):
            for node in sorted({sample.node for sample in samples}):
                own = [sample for sample in samples if sample.node == node]
                minutes = [_minutes(sample.time, began) for sample in own]
                axis.plot(minutes, [getattr(each, name) / scale for each in own], label=f"{node}")
            axis.set_ylabel(label)
            axis.set_ylim(0, axis.get_ylim()[1] * 1.1)
        axes[0].legend(title="node", ncols=8, loc="lower right")
        _plot_rate(axes[3], began, grants)
        for fault in faults:
            axes[3].axvline(_minutes(fault.began, began), color="tab:red", alpha=0.15, lw=0.5)
        axes[3].set_xlabel("minutes; a red line is a fault")
        text = StringIO()
        figure.savefig(text, format="svg")
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def _plot_rate(axis: Any, began: int, grants: Sequence[int]) -> None:
    """Draw the grants per second, in steps of ten seconds."""
    counts: dict[int, int] = {}
    for time in grants:
        counts[(time - began) // (10 * NS)] = counts.get((time - began) // (10 * NS), 0) + 1
    steps = range(max(0, min(counts, default=0)), max(counts, default=0))
    axis.plot([step / 6 for step in steps], [counts.get(step, 0) / 10 for step in steps], lw=0.8)
    axis.set_ylabel("grants per second")
    axis.set_ylim(bottom=0)


def _minutes(time: int, began: int) -> float:
    return (time - began) / NS / 60
