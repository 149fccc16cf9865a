"""Metrics, probes and logs of a node."""
