"""Simulate, check, compare and draw from Python: the functions behind `habemus.simulate` and its
kin.
"""

from habemus.experiments.comparison import ComparisonResult, compare
from habemus.experiments.results import CheckResult, ProofResult, RunResult, ScenarioResult
from habemus.experiments.run import check, load_trace, prove, scenario, simulate

__all__ = [
    "CheckResult",
    "ComparisonResult",
    "ProofResult",
    "RunResult",
    "ScenarioResult",
    "check",
    "compare",
    "load_trace",
    "prove",
    "scenario",
    "simulate",
]
