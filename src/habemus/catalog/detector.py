"""Failure detection in the catalog."""

from __future__ import annotations

from habemus.catalog.problems import Problem, lazy
from habemus.problems.detector import Detector
from habemus.problems.detector_monitor import PROPERTIES

HOUR = 3_600_000_000


DETECTOR = Problem(
    "detector",
    "failure detection",
    Detector,
    PROPERTIES,
    tuple(each.name for each in PROPERTIES),
    lazy("habemus.runs.detector", "workload"),
    lazy("habemus.runs.detector", "DetectorJudge"),
)
