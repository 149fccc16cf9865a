"""Schedules and counterexamples: parse, play with the bare processes, perform in the simulator,
keep as a test.
"""
