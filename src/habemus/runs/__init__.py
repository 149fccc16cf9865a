"""From the description of a run or a check to its report."""
