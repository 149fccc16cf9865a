"""Counted nouns, and hints for unknown names."""

from __future__ import annotations

from collections.abc import Iterable

MOST_SIMILAR = 3
"""A hint has at most so many names."""


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with what it counts: "1 entry", "2 entries", "1,000 entries".

    many: the plural; without it, an "s" is added.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def similar(wrong: str, known: Iterable[str]) -> list[str]:
    """Return the most similar of the known names: those that begin with it, then the nearest."""
    import difflib  # slow to import, and only errors need it

    names = {_plain(name): name for name in known}
    word = _plain(wrong)
    begun = [plain for plain in names if word and plain.startswith(word)]
    near = difflib.get_close_matches(word, names, n=MOST_SIMILAR, cutoff=0.6)
    return [names[plain] for plain in dict.fromkeys(begun + near)][:MOST_SIMILAR]


def did_you_mean(wrong: str, known: Iterable[str], listed: str = "") -> str:
    """Return the hint for an unknown name: the most similar names, and where all of them are.

    listed: where the names are listed, a sentence; without it, they are listed here if none is
    similar.
    """
    known = list(known)
    near = similar(wrong, known)
    if near:
        names = " or ".join(filter(None, (", ".join(near[:-1]), near[-1])))
        return f"did you mean {names}?" + (f" {listed}" if listed else "")
    return listed or f"there {'is' if len(known) == 1 else 'are'} {', '.join(known) or 'none'}"


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")
