"""Traces: one event format, written, read, drawn and exported."""

from habemus.traces.diagram import svg
from habemus.traces.trace import Digest, TooLargeToDraw, Trace, digest

__all__ = ["Digest", "TooLargeToDraw", "Trace", "digest", "svg"]
