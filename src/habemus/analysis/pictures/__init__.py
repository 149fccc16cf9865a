"""Plots of comparisons, and voting sets as pictures."""
