"""Conversion of SVG to PNG.

resvg draws the picture.  It ships no font, and silently omits text where it finds none, as on a
plain Debian.  So fonts are also searched in Python packages that ship one, and a picture without
its text is refused.
"""

from __future__ import annotations

import importlib.util
import re
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from habemus.traces.trace import TooLargeToDraw

MOST_PIXELS = 40_000_000
SCALE = 2.0
"""Pixels of the PNG to one of the SVG, so that small letters stay legible on fine screens."""

HINT = "pip install '.[png]' in your clone"

_FONTS = (
    (
        "ttf_opensans",
        "ttf",
        ("OpenSans-Regular.ttf", "OpenSans-Bold.ttf", "OpenSans-Italic.ttf"),
        "Open Sans",
    ),
    (
        "matplotlib",
        "mpl-data/fonts/ttf",
        ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSans-Oblique.ttf"),
        "DejaVu Sans",
    ),
)
"""Packages that ship a font: where in them, which files, and the name of the family."""


class CannotDraw(RuntimeError):
    """The converter from SVG to PNG is not installed, or finds no font."""


def png(svg_text: str, *, scale: float = SCALE) -> bytes:
    """Return the picture as PNG; very tall ones at a smaller scale."""
    found = re.search(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', svg_text[:2_000])
    pixels = float(found[1]) * float(found[2]) if found else 0.0
    if pixels * scale**2 > MOST_PIXELS:
        scale = (MOST_PIXELS / pixels) ** 0.5
        if scale < 0.5:
            raise TooLargeToDraw(
                "the picture is too tall for a PNG that can be read: draw it as .svg, or limit"
                " the run"
            )
    resvg = _resvg()
    if not _shows_text(resvg):
        raise CannotDraw(f"there is no font to write with: {HINT}")
    return _rendered(resvg, svg_text, scale)


def _resvg() -> ModuleType:
    try:
        import resvg_py
    except ImportError:
        raise CannotDraw(f"PNG needs the package resvg-py: {HINT}") from None
    else:
        module: ModuleType = resvg_py
        return module


def _rendered(resvg: ModuleType, svg_text: str, scale: float) -> bytes:
    files, family = _fonts()
    return bytes(
        resvg.svg_to_bytes(
            svg_string=svg_text,
            zoom=scale,
            font_files=files,
            font_family=family,
            sans_serif_family=family,
        )
    )


@lru_cache(maxsize=1)
def _fonts() -> tuple[list[str] | None, str | None]:
    """Return the files of the first font that is found, and its family.

    The packages are not imported, because one of them is slow to import.
    """
    for package, folder, names, family in _FONTS:
        spec = importlib.util.find_spec(package)
        for place in spec.submodule_search_locations or () if spec is not None else ():
            files = [
                path for path in (Path(place, folder, name) for name in names) if path.is_file()
            ]
            if files:
                return [str(path) for path in files], family
    return None, None


@lru_cache(maxsize=1)
def _shows_text(resvg: ModuleType) -> bool:
    """Whether a letter is visible in a picture."""
    paper = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"'
        ' font-family="sans-serif">{}</svg>'
    )
    blank = _rendered(resvg, paper.format('<rect width="20" height="20" fill="#fff"/>'), 1.0)
    letter = _rendered(
        resvg,
        paper.format('<rect width="20" height="20" fill="#fff"/><text x="2" y="16">M</text>'),
        1.0,
    )
    return blank != letter
