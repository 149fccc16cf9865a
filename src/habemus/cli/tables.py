"""Plain-text tables: columns as wide as their content, numbers right-aligned."""

from __future__ import annotations

from collections.abc import Sequence

import click


def say_table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Print a table whose first `left` columns are text; the others are numbers."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    click.echo(click.style(_line(heads, widths, left), bold=True))
    for row in rows:
        click.echo(_line(row, widths, left))


def _line(cells: Sequence[str], widths: Sequence[int], left: int) -> str:
    aligned = [
        cell.ljust(width) if column < left else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(aligned).rstrip()
