"""Plain-text tables: columns as wide as their content, numbers right-aligned."""

from __future__ import annotations

from collections.abc import Sequence

import click

from habemus.cli.output import columns


def say_table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Print a table whose first `left` columns are text; the others are numbers.

    If it is wider than the terminal, it continues below, with the first column repeated.  Cells may
    be styled.
    """
    widths = [max(map(_width, column)) for column in zip(heads, *rows, strict=True)]
    for number, chosen in enumerate(blocks(widths, columns())):
        if number:
            click.echo()
        click.echo(click.style(_line(heads, widths, left, chosen), bold=True))
        for row in rows:
            click.echo(_line(row, widths, left, chosen))


def blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """Return the columns of each part of a table, so that no part is wider than the room."""
    blocks = [[0]]
    used = widths[0]
    for column, width in enumerate(widths[1:], start=1):
        if used + 2 + width > room and len(blocks[-1]) > 1:
            blocks.append([0])
            used = widths[0]
        blocks[-1].append(column)
        used += 2 + width
    return blocks


def _line(cells: Sequence[str], widths: Sequence[int], left: int, chosen: Sequence[int]) -> str:
    aligned = []
    for column in chosen:
        padding = " " * (widths[column] - _width(cells[column]))
        aligned.append(cells[column] + padding if column < left else padding + cells[column])
    return "  ".join(aligned).rstrip()


def _width(cell: str) -> int:
    return len(click.unstyle(cell))
