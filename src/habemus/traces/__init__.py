"""Traces: one event format, written, read, drawn and exported.

Drawing and exporting are imported from their modules (`habemus.traces.diagram`, `.export`,
`.table`, ...), so that a run that is only judged does not load them.
"""

from habemus.traces.trace import Digest, TooLargeToDraw, Trace, digest

__all__ = ["Digest", "TooLargeToDraw", "Trace", "digest"]
