"""Pages of documentation as tests read them: sentences, blocks of code, links, outline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-zà-ÿ\s])")


class Block(NamedTuple):
    language: str
    text: str


def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def blocks(page: Path) -> list[Block]:
    """Return the blocks of code, in the order of the page."""
    return [Block(each.info, each.content) for each in tokens(page) if each.type == "fence"]


def links(page: Path) -> list[str]:
    """Return what the page links to, and then the pictures that it shows by HTML."""
    found = [
        unquote(str(child.attrs.get("href") or child.attrs.get("src")))
        for each in tokens(page)
        for child in each.children or ()
        if child.type in ("link_open", "image")
    ]
    return found + re.findall(r'<img src="(.*?)"', page.read_text(encoding="utf-8"))


def sentences(page: Path) -> Iterator[str]:
    """Return the sentences of paragraphs and lists, and not headings, tables and code."""
    before = ""
    for each in tokens(page):
        if each.type == "inline" and before == "paragraph_open":
            yield from filter(None, map(str.strip, END_OF_SENTENCE.split(plain(each))))
        before = each.type


def plain(inline: Token) -> str:
    """Return the text of a paragraph, with its code in backticks and without pictures."""
    shown = {"softbreak": " ", "hardbreak": " "}
    return "".join(
        f"`{child.content}`"
        if child.type == "code_inline"
        else shown.get(child.type, child.content if child.type == "text" else "")
        for child in inline.children or ()
    )


def outline(page: Path) -> list[str]:
    """Return the kinds of the blocks, and so what a translation has in common with its original."""
    return [f"{each.type} {each.tag}" for each in tokens(page)]


def section(page: Path, anchor: str) -> str:
    """Return the text below the heading with this anchor, up to the next heading of its level."""
    parts = re.split(r"^(#+) (.*)\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = ""
    level = 0
    for marks, heading, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        if level and len(marks) <= level:
            break
        if re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) == anchor:
            level = len(marks)
        found += text if level else ""
    return found
