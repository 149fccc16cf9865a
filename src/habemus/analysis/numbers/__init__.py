"""Figures: comparison of costs, growth, timeouts, probability of violation, detectors."""
