"""A page with the pictures of scenarios, to look through them."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from habemus.scenarios.scenario import ScenarioOutcome

_STYLE = """
body { font: 15px/1.45 "Open Sans", "Segoe UI", Arial, sans-serif; margin: 2rem; color: #1f2430 }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(340px, 1fr)); gap: 1.5rem }
h2 { grid-column: 1 / -1; margin: 1.5rem 0 0; border-bottom: 1px solid #6b7480 }
figure { margin: 0; border: 1px solid #e9ecf0; border-radius: 6px; padding: .8rem; min-width: 0 }
figcaption { margin-bottom: .6rem }
figcaption p { margin: .3rem 0; color: #5b6472; font-size: 13px }
code { font-size: 12px; overflow-wrap: anywhere }
.violated { color: #c4161c }
label { display: block; cursor: zoom-in }
label input { display: none }
label svg { width: 100%; height: auto; max-height: 520px }
figure:has(input:checked) { grid-column: 1 / -1; overflow-x: auto }
label input:checked + svg { width: auto; max-height: none; cursor: zoom-out }
"""


def page(outcomes: Iterable[ScenarioOutcome]) -> str:
    """Return a page of HTML with one picture for each outcome, under the title of its problem."""
    groups: dict[str, list[str]] = {}
    for outcome in outcomes:
        problem = outcome.report.entry.problem.title
        heading = f"<h2>{escape(problem[:1].upper() + problem[1:])}</h2>"
        groups.setdefault(problem, [heading]).append(_figure(outcome))
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>habemus: the scenarios</title><style>{_STYLE}</style></head><body>",
            "<h1>The scenarios</h1><p>Click on a picture to see it in full size.</p><main>",
            *(line for group in groups.values() for line in group),
            "</main></body></html>\n",
        ]
    )


def _figure(outcome: ScenarioOutcome) -> str:
    from habemus.traces.diagram import svg  # every command that lists scenarios imports this room

    scenario, trace = outcome.scenario, outcome.report.trace
    picture = "" if trace is None else svg(trace)
    kind = ' class="violated"' if outcome.report.violated else ""
    return (
        f'<figure id="{escape(scenario.name)}"><figcaption><b>{escape(scenario.title)}</b>'
        f"<p{kind}>{escape(outcome.verdict)}</p><p>{escape(scenario.story)}</p>"
        f"<code>habemus scenario {escape(scenario.name)}</code></figcaption>"
        f'<label><input type="checkbox" aria-label="full size">{picture}</label></figure>'
    )


__all__ = ["page"]
