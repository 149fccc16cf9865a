"""Name to algorithm, and description to run: what the command line, the scenarios and the docs are
made from.
"""
