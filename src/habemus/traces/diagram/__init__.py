"""The space-time diagram of a trace, as SVG."""

from habemus.traces.diagram.drawing import svg

__all__ = ["svg"]
