"""Algorithms and scenarios that the page offers to open."""

from __future__ import annotations

from functools import cache
from typing import Any

from habemus.catalog.entries import entries
from habemus.scenarios import scenarios


@cache
def listing() -> dict[str, Any]:
    return {
        "algorithms": [
            {"name": name, "title": entry.box.title, "problem": entry.problem.title}
            for name, entry in entries().items()
        ],
        "scenarios": [
            {
                "name": each.name,
                "chapter": each.chapter,
                "title": each.title,
                "expected": each.expected,
            }
            for each in scenarios().values()
        ],
    }
