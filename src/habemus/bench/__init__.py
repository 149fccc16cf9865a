"""Measurements of locks with real servers and client processes: `habemus bench`."""
