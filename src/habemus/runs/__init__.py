"""Runs and checks, from the description to the report."""
