"""The page docs/api.md: a table of contents, and a section for each public name and method."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.api_page.contents import CONTENTS, names_of
from tests.api_page.docstrings import markdown
from tests.api_page.members import Documented, described

HEAD = """# The Python API

Made from the docstrings by `make docs`. What is not on this page is internal and may change.
"""


class Section(NamedTuple):
    """A heading with the text below it."""

    level: int
    module: str
    path: str
    """Names of the class and the method, `Cluster.lock`; empty for the section of a module."""
    text: str

    @property
    def title(self) -> str:
        return self.path or self.module

    @property
    def full_name(self) -> str:
        return f"{self.module}.{self.path}" if self.path else self.module


def public_names() -> Iterator[tuple[str, Documented]]:
    """Yield all names on the page, with their modules."""
    everything = [
        getattr(importlib.import_module(module), name)
        for module in CONTENTS
        for name in names_of(module)
    ]
    classes = [each for each in everything if inspect.isclass(each)]
    for module in CONTENTS:
        for name in names_of(module):
            yield module, described(module, name, classes)


def members_of(found: Documented) -> Iterator[tuple[str, Documented]]:
    """Yield a name and its members, with their paths."""
    yield found.name, found
    for member in (*found.attributes, *found.methods):
        yield f"{found.name}.{member.name}", member


def undocumented(found: Documented) -> list[str]:
    """Return those of a name and its members that have no docstring."""
    return [path for path, member in members_of(found) if not member.doc]


def page() -> str:
    """Return the page."""
    sections = list(_sections())
    anchors = _anchors(sections)
    links = {each.full_name: anchor for each, anchor in zip(sections, anchors, strict=True)}
    parts = [HEAD, "\n".join(_contents(links)) + "\n"]
    for section in sections:
        text = _with_links(section, links)
        parts.append(f"{'#' * section.level} `{section.title}`\n\n{text}\n")
    return "\n".join(parts)


# Sections.


def _sections() -> Iterator[Section]:
    names = list(public_names())
    for module in CONTENTS:
        doc = inspect.getdoc(importlib.import_module(module)) or ""
        yield Section(2, module, "", markdown(doc))
        for _, found in (each for each in names if each[0] == module):
            yield Section(3, module, found.name, _text(found))
            for method in found.methods:
                yield Section(4, module, f"{found.name}.{method.name}", _text(method))


def _text(found: Documented) -> str:
    parts = [
        f"```py\n{found.code}\n```" if found.code else "",
        markdown(found.doc, found.arguments),
        " ".join(found.notes),
        "Attributes:" if found.attributes and found.arguments else "",
        "\n".join(_item(each) for each in found.attributes),
    ]
    return "\n\n".join(part for part in parts if part)


def _item(found: Documented) -> str:
    text = f"- `{found.code}`: {markdown(found.doc)}"
    return text.replace("\n", "\n  ").replace("\n  \n", "\n\n")


# Links.


def _anchors(sections: list[Section]) -> list[str]:
    """Return the anchors of headings, as GitHub makes them."""
    made: list[str] = []
    seen: dict[str, int] = {}
    for section in sections:
        slug = re.sub(r"[^\w-]", "", section.title.lower())
        count = seen[slug] = seen.get(slug, -1) + 1
        made.append(f"{slug}-{count}" if count else slug)
    return made


def _contents(links: dict[str, str]) -> Iterator[str]:
    for module, groups in CONTENTS.items():
        doc = inspect.getdoc(importlib.import_module(module)) or ""
        about = doc.partition("\n\n")[0].replace("\n", " ")
        yield f"- [`{module}`](#{links[module]}): {about}"
        for group, names in groups.items():
            listed = ", ".join(f"[`{name}`](#{links[f'{module}.{name}']})" for name in names)
            yield f"  - {group}: {listed}" if group else f"  - {listed}"


def _with_links(section: Section, links: dict[str, str]) -> str:
    """Return the text of a section in which names of other sections are links, except in code."""
    pieces = re.split(r"(^ *```.*?^ *```$)", section.text, flags=re.DOTALL | re.MULTILINE)
    for index in range(0, len(pieces), 2):
        pieces[index] = re.sub(
            r"`([A-Za-z_][\w.]*)`", lambda found: _link(found[1], section, links), pieces[index]
        )
    return "".join(pieces)


def _link(name: str, section: Section, links: dict[str, str]) -> str:
    owner = section.path.partition(".")[0]
    candidates = [f"{section.module}.{owner}.{name}", name]
    if name[0].isupper():
        candidates += [f"{module}.{name}" for module in (section.module, *CONTENTS)]
    for found in candidates:
        if found in links and found not in (section.full_name, f"{section.module}.{owner}"):
            return f"[`{name}`](#{links[found]})"
    return f"`{name}`"
