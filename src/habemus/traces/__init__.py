"""Traces: one event format, written, read, drawn and exported."""

from habemus.traces import table
from habemus.traces.diagram import svg
from habemus.traces.export import ENDINGS, check_ending, save
from habemus.traces.file import MalformedTrace, read, write
from habemus.traces.mermaid import markdown, mermaid
from habemus.traces.png import CannotDraw, png
from habemus.traces.shiviz import NoClocks, shiviz
from habemus.traces.trace import Digest, TooLargeToDraw, Trace, digest
from habemus.traces.words import ENGLISH, Words, in_words, one_line

__all__ = [
    "ENDINGS",
    "ENGLISH",
    "CannotDraw",
    "Digest",
    "MalformedTrace",
    "NoClocks",
    "TooLargeToDraw",
    "Trace",
    "Words",
    "check_ending",
    "digest",
    "in_words",
    "markdown",
    "mermaid",
    "one_line",
    "png",
    "read",
    "save",
    "shiviz",
    "svg",
    "table",
    "write",
]
