"""Guarantee cards: search every algorithm under every fault model, keep and show the verdicts."""
