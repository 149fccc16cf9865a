"""The command line.  `main` is the program `habemus`."""

from habemus.cli.app import main

__all__ = ["main"]
