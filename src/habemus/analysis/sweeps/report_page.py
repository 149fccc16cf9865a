"""The report of a sweep: one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files

from habemus.analysis.sweeps.grid_rows import ERROR
from habemus.analysis.sweeps.report import (
    AXES,
    HOLDS,
    KINDS,
    UNDECIDED,
    VIOLATED,
    Failures,
    Survey,
    claims,
    entry_of,
    problem_of,
)
from habemus.core.properties import Property

MOST_VALUES = 12
"""Largest number of values of an axis that have a column; of more, so many evenly spread."""
LONGEST_REASON = 400
OPEN = 6
"""Number of kinds of failures that are expanded at first."""
WORDS = {HOLDS: "hold", VIOLATED: "violated", UNDECIDED: "undecided", ERROR: "error"}


def page(survey: Survey, pictures: Mapping[str, str], title: str, subtitle: str = "") -> str:
    """Return the page; `pictures` are the SVG of the costs, by problem."""
    parts = [
        _head(survey, title, subtitle),
        *(_properties(survey, problem, names) for problem, names in survey.problems().items()),
        _places(survey),
        _costs(pictures),
        _failures(survey),
        _foot(survey),
    ]
    style = files("habemus.analysis.sweeps").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(filter(None, parts))
        + "\n</main>\n</body>\n</html>\n"
    )


def _head(survey: Survey, title: str, subtitle: str) -> str:
    totals = {verdict: survey.total(verdict) for verdict in WORDS}
    tiles = [_tile(f"{survey.runs:,}", "run" if survey.runs == 1 else "runs", "")]
    tiles += [
        _tile(f"{count:,}", WORDS[verdict], verdict)
        for verdict, count in totals.items()
        if count or verdict in (HOLDS, VIOLATED)
    ]
    told = [
        _counted(len(survey.algorithms), "algorithm"),
        *(f"{AXES[axis]} {_listed(values)}" for axis, values in survey.varied().items()),
        _counted(len(survey.seeds), "seed"),
    ]
    lead = f'<p class="lead">{escape(subtitle)}</p>' if subtitle else ""
    return (
        f'<header>\n<p class="kicker">habemus sweep</p>\n<h1>{escape(title)}</h1>\n{lead}'
        f'<p class="grid">{" &times; ".join(map(escape, told))}</p>\n'
        f'<div class="tiles">{"".join(tiles)}</div>\n{_bar(totals, "wide")}\n</header>'
    )


def _tile(number: str, word: str, kind: str) -> str:
    return f'<div class="tile {kind}"><b>{number}</b><span>{escape(word)}</span></div>'


def _bar(counts: Mapping[str, int], kind: str = "") -> str:
    """Return a bar with shares as lengths; every share above zero is visible."""
    total = sum(counts.values())
    pieces = [
        f'<i class="{verdict}" style="flex:{max(count / total, 0.012):.4f}"></i>'
        for verdict, count in counts.items()
        if count and total
    ]
    return f'<div class="bar {kind}" aria-hidden="true">{"".join(pieces)}</div>'


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _listed(values: Sequence[str]) -> str:
    return (
        ", ".join(values)
        if len(values) <= MOST_VALUES
        else f"{values[0]} to {values[-1]} ({len(values)})"
    )


# Properties.


def _properties(survey: Survey, problem: str, algorithms: Sequence[str]) -> str:
    judged = survey.judged(algorithms)
    known = problem_of(problem)
    title = f"Properties: {known.title}" if known else "Properties"
    heads = "".join(
        f'<th scope="col" title="{escape(each.says)}">{escape(each.name)}</th>' for each in judged
    )
    lines = [
        f'<tr><th scope="row">{_name(name)}</th><td'
        f' class="runs">{sum(survey.verdicts[name, each] for each in WORDS):,}</td>'
        + "".join(_cell(survey, name, each) for each in judged)
        + "</tr>"
        for name in algorithms
    ]
    says = "".join(
        f"<div><dt>{escape(each.name)}</dt><dd>{escape(each.says)}</dd></div>" for each in judged
    )
    return (
        f'<section>\n<h2>{escape(title)}</h2>\n<p>In how many runs each property <span class="word'
        ' holds">holds</span>, is '
        '<span class="word violated">violated</span>, or stays <span class="word'
        ' undecided">undecided</span>. Pale: the card of the '
        'algorithm does not claim it.</p>\n<div class="scroll"><table class="properties">\n'
        '<thead><tr><th scope="col">algorithm</th><th scope="col"'
        f' class="runs">runs</th>{heads}</tr></thead>\n'
        f"<tbody>\n{chr(10).join(lines)}\n</tbody>\n</table></div>\n<dl>{says}</dl>\n</section>"
    )


def _name(name: str) -> str:
    entry = entry_of(name)
    return (
        f'<span title="{escape(entry.box.title)}">{escape(name)}</span>' if entry else escape(name)
    )


def _cell(survey: Survey, name: str, judged: Property) -> str:
    counts = {
        verdict: survey.properties[name, judged.name, verdict]
        for verdict in (HOLDS, VIOLATED, UNDECIDED)
    }
    if not any(counts.values()):
        return '<td class="none">&ndash;</td>'
    claimed = claims(name, judged.name)
    numbers = " ".join(
        f'<span class="{verdict}" title="{WORDS[verdict]}">{count:,}</span>'
        for verdict, count in counts.items()
        if count
    )
    return (
        f'<td class="{"claimed" if claimed else "unclaimed"}">{_bar(counts)}<div'
        f' class="counts">{numbers}</div></td>'
    )


# Where it holds.


def _places(survey: Survey) -> str:
    axes = {axis: _some(values) for axis, values in survey.varied().items()}
    if not axes:
        return ""
    groups = "".join(
        f'<th scope="colgroup" class="first" colspan="{len(values)}">{escape(AXES[axis])}</th>'
        for axis, values in axes.items()
    )
    heads = "".join(
        f'<th scope="col"{" class=first" if place == 0 else ""}>{escape(value)}</th>'
        for values in axes.values()
        for place, value in enumerate(values)
    )
    lines = []
    for name in survey.algorithms:
        cells = [
            _share(survey, name, axis, value, place == 0)
            for axis, values in axes.items()
            for place, value in enumerate(values)
        ]
        lines.append(f'<tr><th scope="row">{_name(name)}</th>{"".join(cells)}</tr>')
    return (
        "<section>\n<h2>Where it holds</h2>\n<p>The share of the runs whose verdict is “holds”, one"
        " value of one axis at a time, over "
        'everything else in the grid.</p>\n<div class="scroll"><table class="places">\n'
        '<thead><tr><th scope="col"'
        f' rowspan="2">algorithm</th>{groups}</tr><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{chr(10).join(lines)}\n</tbody>\n</table></div>\n</section>"
    )


def _some(values: Sequence[str]) -> list[str]:
    if len(values) <= MOST_VALUES:
        return list(values)
    steps = MOST_VALUES - 1
    return [values[step * (len(values) - 1) // steps] for step in range(MOST_VALUES)]


def _share(survey: Survey, name: str, axis: str, value: str, first: bool) -> str:
    runs = sum(survey.places[name, axis, value, verdict] for verdict in WORDS)
    beginning = ' class="first"' if first else ""
    if not runs:
        return f"<td{beginning}>&ndash;</td>"
    held = survey.places[name, axis, value, HOLDS]
    percent = 100 * held // runs  # 100 only if all hold
    shown = str(percent) if held in (0, runs) or percent else "<1"
    # From red over sand to green, as light as the text on it needs.
    hue = 8 + 142 * (held / runs) ** 1.4
    told = f"{held:,} of {runs:,} runs hold"
    return (
        f'<td{beginning} style="background:hsl({hue:.0f} 62% 86%)"'
        f' title="{told}">{escape(shown)}<small>%</small></td>'
    )


# Costs.


def _costs(pictures: Mapping[str, str]) -> str:
    if not pictures:
        return ""
    drawn = []
    for problem, svg in pictures.items():
        known = problem_of(problem)
        heading = (
            f"<h3>{escape(known.title[0].upper() + known.title[1:])}</h3>"
            if known and len(pictures) > 1
            else ""
        )
        drawn.append(f'{heading}<figure class="scroll">{svg}</figure>')
    dashed = (
        " Dashed: the formula for an entry without contention, or for one election."
        if {"mutex", "election"} & set(pictures)
        else ""
    )
    return (
        "<section>\n<h2>What it costs</h2>\n<p>Means over the runs that hold, one axis at a time,"
        " over everything else in the grid. Where a line is missing, no run held, or none could"
        f" show it. Bars: the mean lies there in 95 of 100 cases.{dashed}</p>\n{''.join(drawn)}"
        "\n</section>"
    )


# Failures.


def _failures(survey: Survey) -> str:
    failing = {name: kinds for name, kinds in survey.failures.items() if kinds}
    if not failing:
        return "<section>\n<h2>Runs that do not hold</h2>\n<p>There is none.</p>\n</section>"
    few = sum(map(len, failing.values())) <= OPEN
    listed = "\n".join(
        _of_algorithm(survey, name, list(kinds.values()), few) for name, kinds in failing.items()
    )
    return (
        "<section>\n<h2>Runs that do not hold</h2>\n<p>Some of each kind. A click selects the"
        " command; pasted into a shell it makes the same run again, and with <code>--diagram"
        f" run.svg</code> draws it.</p>\n{listed}\n</section>"
    )


def _of_algorithm(survey: Survey, name: str, kinds: Sequence[Failures], is_open: bool) -> str:
    shown = sorted(
        kinds, key=lambda each: (list(WORDS).index(each.verdict), -each.count, each.kind)
    )[:KINDS]
    failed = sum(each.count for each in kinds)
    runs = sum(survey.verdicts[name, verdict] for verdict in WORDS)
    more = (
        f'<p class="more">and {_counted(len(kinds) - len(shown), "other kind")}</p>'
        if len(kinds) > len(shown)
        else ""
    )
    summary = f"<summary><b>{escape(name)}</b> <span>{failed:,} of {runs:,} runs</span></summary>"
    opening = f"<details{' open' if is_open else ''}>"
    return f"{opening}\n{summary}\n{''.join(map(_of_kind, shown))}{more}</details>"


def _of_kind(kind: Failures) -> str:
    items = "".join(f"<li>{_example(row)}</li>" for row in kind.examples)
    rest = kind.count - len(kind.examples)
    more = f'<p class="more">and {rest:,} more</p>' if rest else ""
    title = (
        f'<h4><span class="word {kind.verdict}">{escape(kind.kind)}</span>'
        f" <span>{_counted(kind.count, 'run')}</span></h4>"
    )
    return f'<div class="kind">{title}<ul>{items}</ul>{more}</div>'


def _example(row: Mapping[str, object]) -> str:
    reason = str(row.get("error") or row.get("why") or "")
    short = reason if len(reason) <= LONGEST_REASON else f"{reason[:LONGEST_REASON]}…"
    where = "  ·  ".join(
        f"{word} {row[axis]}"
        for axis, word in (
            ("n", "n ="),
            ("load", "load"),
            ("delay", "delay"),
            ("fault", "fault:"),
            ("seed", "seed"),
        )
    )
    return (
        f'<p class="where">{escape(where)}</p><p>{escape(short)}</p><code'
        f' class="command">{escape(str(row["command"]))}</code>'
    )


def _foot(survey: Survey) -> str:
    axes: Iterable[str] = (
        f"{AXES[axis]}: {_listed(values)}" for axis, values in survey.values.items()
    )
    return f"<footer><p>{escape(f'{survey.runs:,} rows.')} {escape('; '.join(axes))}.</p></footer>"
