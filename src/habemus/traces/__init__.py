"""Traces: one event format, written, read, drawn and exported.

What draws and exports is imported from its module (`habemus.traces.diagram`, `.export`, `.table`,
...): a run that is only judged does not pay for it.
"""

from habemus.traces.trace import Digest, TooLargeToDraw, Trace, digest

__all__ = ["Digest", "TooLargeToDraw", "Trace", "digest"]
