"""Analysis of many runs: guarantee cards, sweeps over seeds, comparisons, figures and pictures."""
